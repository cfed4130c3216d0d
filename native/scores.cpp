// Scores of pairs and in draws, shares of top lists, and mixtures of normals: schedules and the binding.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "arguments.hpp"
#include "machine.hpp"

namespace tastespace {
namespace {

// Mixtures of normals: distribution functions from a table, and quantiles by Halley's method.

// The standard normal distribution function, by linear interpolation in a table: accurate to 1e-7, and several times as
// fast as computing it.
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

  // The function at a place; the density there is its slope per standard deviation.
  Cell at(double standard) const {
    const double place = standard * cells + reach * cells;
    if (!(place > 0)) return {0, 0};  // NaN, too
    if (place >= last) return {1, 0};
    const int cell = int(place);
    const Cell found = cells_[size_t(cell)];
    return {found.below + float(place - cell) * found.rise, found.rise * float(cells)};
  }

 private:
  static constexpr int cells = 1024;  // per standard deviation
  static constexpr int reach = 8;     // the end of the table: 6e-16 lies beyond
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
  // The divisor of sums, computed once: a hundred times 0.01 is more than 1.
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

  // P(quantity <= value), or P(quantity < value): they differ if a step is at the value.
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
    return std::min(sum / total(), 1.0);  // Weights sum to 1 up to rounding.
  }

  // The quantile at a probability, of which the standard normal's quantile is `standard`: starts from the quantile of a
  // normal of the same mean and sd, bracketed, and ends with bisection.
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
      const bool inside = moved >= low && moved <= high;  // false for NaN
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

}  // namespace

namespace scores {
namespace {

void score_pairs(Vector<const int32_t> user_rows, Vector<const int32_t> item_rows, Matrix<const float> users,
                 Matrix<const float> items, OptionalVector<const float> user_bias,
                 OptionalVector<const float> item_bias, double offset, Vector<float> out, int threads) {
  const size_t n = out.size();
  require(user_rows.size() == n && item_rows.size() == n, "user_rows, item_rows and out: one per pair");
  require(users.shape(1) == items.shape(1), "users and items: equally many factors");
  require(has_size(user_bias, users.shape(0)) && has_size(item_bias, items.shape(0)), "biases: one per row");
  require(within(user_rows.data(), n, -1, int64_t(users.shape(0))) &&
              within(item_rows.data(), n, -1, int64_t(items.shape(0))),
          "rows: -1 or a row of the factors");
  tastespace::PairsProblem problem;
  problem.n_factors = int64_t(users.shape(1));
  problem.user_rows = user_rows.data();
  problem.item_rows = item_rows.data();
  problem.users = users.data();
  problem.items = items.data();
  problem.user_bias = pointer(user_bias);
  problem.item_bias = pointer(item_bias);
  problem.offset = offset;
  problem.out = out.data();
  const auto score = tastespace::table().pairs.score;
  nb::gil_scoped_release release;
  constexpr int64_t share = 16384;
  tastespace::parallel_for((int64_t(n) + share - 1) / share, threads, [&](int64_t task, int) {
    score(problem, task * share, std::min(int64_t(n), (task + 1) * share));
  });
}

void drawn_scores(Array<const float, 3> items, Vector<const int32_t> rows, Vector<const int32_t> chosen,
                  Matrix<const float> users, Matrix<float> out, int threads) {
  tastespace::DrawsProblem problem;
  problem.n_item_draws = int64_t(items.shape(1));
  problem.width = int64_t(items.shape(2));
  problem.n_users = int64_t(users.shape(0));
  problem.n_rows = int64_t(rows.size());
  require(users.shape(1) == items.shape(2), "users: of the items' width");
  require(within(rows.data(), rows.size(), 0, int64_t(items.shape(0))), "rows: rows of items");
  require(chosen.size() == users.shape(0) && within(chosen.data(), chosen.size(), 0, problem.n_item_draws),
          "chosen: a draw of the items for each of users");
  require(out.shape(0) == users.shape(0) && out.shape(1) == rows.size(), "out: users x rows");
  problem.items = items.data();
  problem.rows = rows.data();
  problem.chosen = chosen.data();
  problem.users = users.data();
  problem.out = out.data();
  const auto score = tastespace::table().draws.score;
  nb::gil_scoped_release release;
  constexpr int64_t share = 64;
  tastespace::parallel_for((problem.n_rows + share - 1) / share, threads, [&](int64_t task, int) {
    score(problem, task * share, std::min(problem.n_rows, (task + 1) * share));
  });
}

constexpr int64_t few_places = 32;

int32_t better(const float *scores, int64_t n, float own) {
  int32_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += scores[i] > own;
  return count;
}

// How often each of the places is among the best k of a row, i.e. at least as good as the k-th best.
void top_shares(Matrix<const float> scores, Vector<const int32_t> places, int64_t k, Vector<float> out) {
  const int64_t n_rows = int64_t(scores.shape(0)), n = int64_t(scores.shape(1)), n_places = int64_t(places.size());
  require(n_rows > 0 && k > 0 && k <= n, "k: from 1 to the number of columns");
  require(within(places.data(), places.size(), 0, n), "places: columns of scores");
  require(int64_t(out.size()) == n_places, "out: one per place");
  nb::gil_scoped_release release;
  std::vector<float> row;
  std::vector<int64_t> counts(static_cast<size_t>(n_places), 0);
  for (int64_t r = 0; r < n_rows; ++r) {
    const float *from = scores.data() + r * n;
    if (n_places <= few_places) {  // Counting those that are better is faster for each than finding the k-th for all.
      for (int64_t p = 0; p < n_places; ++p) {
        const float own = from[places.data()[p]];
        counts[size_t(p)] += own == own && better(from, n, own) < k;
      }
      continue;
    }
    row.assign(from, from + n);
    for (float &score : row)  // NaN cannot be ordered.
      if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
    std::nth_element(row.begin(), row.begin() + (k - 1), row.end(), std::greater<float>());
    const float edge = row[size_t(k) - 1];
    for (int64_t p = 0; p < n_places; ++p) counts[size_t(p)] += from[places.data()[p]] >= edge;
  }
  for (int64_t p = 0; p < n_places; ++p) out.data()[p] = float(double(counts[size_t(p)]) / double(n_rows));
}

void require_mixtures(const Matrix<const float> &means, const Matrix<const float> &sds,
                      const OptionalMatrix<const float> &weights) {
  require(means.shape(1) > 0, "means: at least one component");
  require(sds.shape(0) == means.shape(0) && sds.shape(1) == means.shape(1), "sds: as many as means");
  require(has_size(weights, means.size()), "weights: as many as means");
}

NormalMixture mixture(const Matrix<const float> &means, const Matrix<const float> &sds, const float *weights,
                      int64_t row) {
  const int64_t n = int64_t(means.shape(1)), at = row * n;
  return {means.data() + at, sds.data() + at, weights ? weights + at : nullptr, n};
}

void mixture_cdf(Matrix<const float> means, Matrix<const float> sds, Matrix<const double> values, Matrix<double> out,
                 OptionalMatrix<const float> weights, bool inclusive) {
  require_mixtures(means, sds, weights);
  const int64_t n = int64_t(means.shape(0)), n_values = int64_t(values.shape(1));
  require(values.shape(0) == size_t(n), "values: one row per mixture");
  require(out.shape(0) == size_t(n) && out.shape(1) == size_t(n_values), "out: one per value");
  const float *shares = pointer(weights);
  nb::gil_scoped_release release;
  for (int64_t row = 0; row < n; ++row) {
    const NormalMixture one = mixture(means, sds, shares, row);
    for (int64_t k = 0; k < n_values; ++k)
      out.data()[row * n_values + k] = one.below(values.data()[row * n_values + k], inclusive);
  }
}

void mixture_quantile(Matrix<const float> means, Matrix<const float> sds, double probability, double standard,
                      Vector<double> out, OptionalMatrix<const float> weights) {
  require_mixtures(means, sds, weights);
  require(probability > 0 && probability < 1, "probability: between 0 and 1");
  require(out.size() == means.shape(0), "out: one per mixture");
  const float *shares = pointer(weights);
  nb::gil_scoped_release release;
  for (int64_t row = 0; row < int64_t(means.shape(0)); ++row)
    out.data()[row] = mixture(means, sds, shares, row).quantile(probability, standard);
}

void mixture_sd(Matrix<const float> means, Matrix<const float> sds, Vector<double> out,
                OptionalMatrix<const float> weights) {
  require_mixtures(means, sds, weights);
  require(out.size() == means.shape(0), "out: one per mixture");
  const float *shares = pointer(weights);
  nb::gil_scoped_release release;
  for (int64_t row = 0; row < int64_t(means.shape(0)); ++row) {
    const NormalMixture one = mixture(means, sds, shares, row);
    out.data()[row] = std::sqrt(one.variance(one.mean()));
  }
}

}  // namespace

void bind(nb::module_ &module) {
  define(module, "score_pairs", &score_pairs,
         {"user_rows"_a, "item_rows"_a, "users"_a, "items"_a, "user_bias"_a, "item_bias"_a, "offset"_a, "out"_a,
          "threads"_a = 1},
         "Scores of (user, item) pairs; row -1 contributes nothing.");
  define(module, "drawn_scores", &drawn_scores,
         {"items"_a, "rows"_a, "chosen"_a, "users"_a, "out"_a, by_name_only, "threads"_a = 1},
         "Inner products of draws of a user with their draws of items.");
  define(module, "top_shares", &top_shares, {"scores"_a, "places"_a, "k"_a, "out"_a},
         "The share of rows in which each place is among the best k.");
  define(module, "mixture_cdf", &mixture_cdf,
         {"means"_a, "sds"_a, "values"_a, "out"_a, by_name_only, "weights"_a = none, "inclusive"_a = true},
         "The distribution functions of mixtures of normals, each at its own values.");
  define(module, "mixture_sd", &mixture_sd, {"means"_a, "sds"_a, "out"_a, by_name_only, "weights"_a = none},
         "The standard deviations of mixtures of normals.");
  define(module, "mixture_quantile", &mixture_quantile,
         {"means"_a, "sds"_a, "probability"_a, "standard"_a, "out"_a, by_name_only, "weights"_a = none},
         "Quantiles of mixtures of normals at a probability, of which `standard` is the standard normal's quantile.");
}

}  // namespace scores
}  // namespace tastespace
