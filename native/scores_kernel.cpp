// Scores: an inner product each. Features: sums of dense rows.
#include <cmath>

#include "lanes.hpp"
#include "machine.hpp"
#include "scores.hpp"

namespace tastespace::TS_ISA::scores {
namespace {

void score(const PairsProblem &problem, int64_t begin, int64_t end) {
  const int64_t n = problem.n_factors;
  for (int64_t k = begin; k < end; ++k) {
    if (k + 8 < end && problem.item_rows[k + 8] >= 0)
      TS_PREFETCH(problem.items + int64_t(problem.item_rows[k + 8]) * n);
    const int64_t user = problem.user_rows[k], item = problem.item_rows[k];
    double value = problem.offset;
    if (user >= 0 && problem.user_bias) value += problem.user_bias[user];
    if (item >= 0 && problem.item_bias) value += problem.item_bias[item];
    if (user >= 0 && item >= 0) value += inner_product(problem.users + user * n, problem.items + item * n, n);
    problem.out[k] = float(value);
  }
}

void score(const DrawsProblem &problem, int64_t first, int64_t last) {
  const int64_t width = problem.width, size = problem.n_item_draws * width;
  for (int64_t place = first; place < last; ++place) {
    const float *item = problem.items + problem.rows[place] * size;
    for (int64_t draw = 0; draw < problem.n_users; ++draw)
      problem.out[draw * problem.n_rows + place] =
          inner_product(problem.users + draw * width, item + problem.chosen[draw] * width, width);
  }
}

// Strips of columns that stay in registers while the entries of a row are read.
template <int n_registers>
TS_INLINE void multiply_strip(const SparseProblem &problem, int64_t row, int64_t d) {
  constexpr int width = width_of<double>;
  Lanes<double> sums[n_registers];
  for (int i = 0; i < n_registers; ++i) sums[i] = filled(0.0);
  for (int64_t k = problem.offsets[row]; k < problem.offsets[row + 1]; ++k) {
    const double *from = problem.dense + int64_t(problem.columns[k]) * problem.width + d;
    const double value = problem.values[k];
    for (int i = 0; i < n_registers; ++i) sums[i] += load(from + i * width) * value;
  }
  for (int i = 0; i < n_registers; ++i) store(problem.out + row * problem.width + d + i * width, sums[i]);
}

void multiply(const SparseProblem &problem, int64_t first, int64_t last) {
  constexpr int width = width_of<double>;
  const int64_t n = problem.width;
  for (int64_t row = first; row < last; ++row) {
    int64_t d = 0;
    for (; d + 4 * width <= n; d += 4 * width) multiply_strip<4>(problem, row, d);
    for (; d + width <= n; d += width) multiply_strip<1>(problem, row, d);
    for (; d < n; ++d) {
      double sum = 0;
      for (int64_t k = problem.offsets[row]; k < problem.offsets[row + 1]; ++k)
        sum += problem.values[k] * problem.dense[int64_t(problem.columns[k]) * n + d];
      problem.out[row * n + d] = sum;
    }
  }
}

void pass(const FeaturesProblem &problem, int64_t strip) {
  constexpr int width = width_of<double>, n_registers = int(feature_strip) / width;
  static_assert(n_registers * width == feature_strip);
  double *residuals = problem.residuals + strip * problem.n_rows * feature_strip;
  for (int64_t f = 0; f < problem.n_features; ++f) {
    const int64_t begin = problem.offsets[f], end = problem.offsets[f + 1];
    double *own = problem.coefficients + (strip * problem.n_features + f) * feature_strip;
    const double *noise = problem.noise + (strip * problem.n_features + f) * feature_strip;
    Lanes<double> sums[n_registers];
    for (int i = 0; i < n_registers; ++i) sums[i] = load(own + i * width) * problem.squares[f];
    for (int64_t k = begin; k < end; ++k) {
      const double *from = residuals + int64_t(problem.rows[k]) * feature_strip;
      for (int i = 0; i < n_registers; ++i) sums[i] += load(from + i * width) * problem.values[k];
    }
    const double precision = problem.squares[f] + problem.prior[f], inverse = 1 / precision;
    const double spread = std::sqrt(inverse);
    Lanes<double> change[n_registers];
    for (int i = 0; i < n_registers; ++i) {
      const Lanes<double> drawn = sums[i] * inverse + load(noise + i * width) * spread;
      change[i] = drawn;
      change[i] -= load(own + i * width);
      store(own + i * width, drawn);
    }
    for (int64_t k = begin; k < end; ++k) {
      double *to = residuals + int64_t(problem.rows[k]) * feature_strip;
      for (int i = 0; i < n_registers; ++i) {
        Lanes<double> left = load(to + i * width);
        left -= change[i] * problem.values[k];
        store(to + i * width, left);
      }
    }
  }
}

}  // namespace

void fill(Table &table) {
  table.pairs = {score};
  table.draws = {score};
  table.features = {multiply, pass};
}

}  // namespace tastespace::TS_ISA::scores
