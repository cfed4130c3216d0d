// Mixtures of normals: distribution functions from a table, and quantiles by Halley's method.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tastespace {

// The standard normal distribution function, by straight lines between points of a table: right to 1e-7, and several
// times as fast as computing it.
class NormalTable {
 public:
  struct Cell {
    float below, rise;
  };

  NormalTable() : cells_(size_t(last) + 1) {
    for (int i = 0; i <= last; ++i)
      cells_[size_t(i)].below = float(std::erfc((reach - double(i) / cells) * half_root) / 2);
    cells_.front().below = 0;
    cells_.back().below = 1;
    for (int i = 0; i < last; ++i) cells_[size_t(i)].rise = cells_[size_t(i) + 1].below - cells_[size_t(i)].below;
  }

  static const NormalTable &get() {
    static const NormalTable table;
    return table;
  }

  // The function at a place; the density there is what it rises by, a standard deviation.
  Cell at(double standard) const {
    const double place = standard * cells + reach * cells;
    if (!(place > 0)) return {0, 0};  // also what is no number
    if (place >= last) return {1, 0};
    const int cell = int(place);
    const Cell found = cells_[size_t(cell)];
    return {found.below + float(place - cell) * found.rise, found.rise * float(cells)};
  }

 private:
  static constexpr int cells = 1024;  // a standard deviation
  static constexpr int reach = 8;     // where the table ends: beyond are 6e-16
  static constexpr int last = 2 * reach * cells;
  static constexpr double half_root = 0.70710678118654752440;
  std::vector<Cell> cells_;
};

// One quantity: components N(mean, sd^2). One without spread is a step.
struct NormalMixture {
  const float *means, *sds;
  const float *weights;  // which sum to 1; null for equal ones
  int64_t n;

  double weight(int64_t s) const { return weights ? double(weights[s]) : 1.0; }
  // What sums are divided by, once: a hundred times 0.01 is more than 1.
  double total() const { return weights ? 1.0 : double(n); }

  // The variance within components and that between them, around a centre.
  double variance(double centre) const {
    double sum = 0;
    for (int64_t s = 0; s < n; ++s) {
      const double apart = double(means[s]) - centre, sd = double(sds[s]);
      sum += weight(s) * (apart * apart + sd * sd);
    }
    return sum / total();
  }

  double mean() const {
    double sum = 0;
    for (int64_t s = 0; s < n; ++s) sum += weight(s) * double(means[s]);
    return sum / total();
  }

  // P(quantity <= value), or P(quantity < value): they differ where a step stands on the value.
  double below(double value, bool inclusive) const {
    const NormalTable &table = NormalTable::get();
    double sum = 0;
    for (int64_t s = 0; s < n; ++s) {
      const double apart = value - double(means[s]);
      if (sds[s] > 0)
        sum += weight(s) * double(table.at(apart / double(sds[s])).below);
      else
        sum += apart > 0 || (inclusive && apart == 0) ? weight(s) : 0.0;
    }
    return std::min(sum / total(), 1.0);  // Weights sum to 1 but for rounding.
  }

  // Where the distribution function reaches a probability, of which the standard normal's quantile is `standard`:
  // from the quantile of a normal of the same mean and sd, bracketed, and at last by halves.
  double quantile(double probability, double standard) const {
    // The quantile of a mixture lies between the least and the greatest of its components'.
    double low = std::numeric_limits<double>::infinity(), high = -low, narrowest = low;
    for (int64_t s = 0; s < n; ++s) {
      const double of_component = double(means[s]) + standard * double(sds[s]);
      low = std::min(low, of_component);
      high = std::max(high, of_component);
      narrowest = std::min(narrowest, double(sds[s]));
    }
    const double centre = mean();
    double at = std::min(std::max(centre + standard * std::sqrt(variance(centre)), low), high);
    if (!(high > low)) return at;
    for (int step = 0; step < halley_steps; ++step) {
      const Around here = around(at);
      const double excess = here.below - probability;
      (excess < 0 ? low : high) = at;
      const double moved = at - 2 * excess * here.density / (2 * here.density * here.density - excess * here.slope);
      const bool inside = moved >= low && moved <= high;  // not so where it is no number
      const double before = at;
      at = inside ? moved : (low + high) / 2;
      if (inside && std::abs(moved - before) <= small_step * narrowest) return at;
    }
    for (int step = 0; step < bisections; ++step) {
      at = (low + high) / 2;
      (below(at, true) < probability ? low : high) = at;
    }
    return (low + high) / 2;
  }

 private:
  static constexpr int halley_steps = 6;      // nearly all quantiles need one or two
  static constexpr int bisections = 40;       // each halves the interval: to 1e-12 of its width
  static constexpr double small_step = 0.01;  // of the narrowest component: Halley's next step would be about its cube

  struct Around {
    double below, density, slope;
  };

  Around around(double value) const {
    const NormalTable &table = NormalTable::get();
    Around sums{0, 0, 0};
    for (int64_t s = 0; s < n; ++s) {
      const double sd = double(sds[s]), apart = value - double(means[s]), share = weight(s);
      if (!(sd > 0)) {
        sums.below += apart >= 0 ? share : 0.0;
        continue;
      }
      const double standard = apart / sd;
      const NormalTable::Cell cell = table.at(standard);
      const double density = share * double(cell.rise) / sd;
      sums.below += share * double(cell.below);
      sums.density += density;
      sums.slope -= density * standard / sd;
    }
    return {sums.below / total(), sums.density / total(), sums.slope / total()};
  }
};

}  // namespace tastespace
