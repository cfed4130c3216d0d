// Solve or draw all rows of one side, and sum their statistics for a prior: the schedule and the binding.
#include <algorithm>
#include <vector>

#include "arguments.hpp"
#include "rows_driver.hpp"

namespace tastespace {
namespace {

// A share is long enough that the cost of merging it is negligible, and there are few, which bounds the memory.
constexpr int64_t moments_share = 4096;
constexpr int64_t moments_shares = 64;

void add_points(const MomentsKernel &kernel, const float *points, int64_t n, int64_t n_factors,
                MomentsWorkspace &space) {
  kernel.add_floats(points, n, n_factors, space);
}
void add_points(const MomentsKernel &kernel, const double *points, int64_t n, int64_t n_factors,
                MomentsWorkspace &space) {
  kernel.add_doubles(points, n, n_factors, space);
}

template <class T>
void moments(const T *points, int64_t n, int64_t n_factors, double *out_sum, double *out_gram, int threads) {
  const MomentsKernel &kernel = table().moments;
  const int64_t size = kernel.padded(n_factors), line = 8;  // doubles in a cache line
  const int64_t share = std::max(moments_share, (n + moments_shares - 1) / moments_shares);
  const int64_t n_shares = (n + share - 1) / share;
  std::vector<std::vector<double>> memories(static_cast<size_t>(n_shares));
  std::vector<MomentsWorkspace> parts(static_cast<size_t>(n_shares));
  parallel_for(n_shares, threads, [&](int64_t task, int) {
    std::vector<double> &memory = memories[size_t(task)];
    memory.assign(size_t(size * (size + 1 + moments_block) + line), 0.0);
    MomentsWorkspace &space = parts[size_t(task)];
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory.data()) / sizeof(double)) % line;
    space.block = memory.data() + (line - past) % line;
    space.gram = space.block + moments_block * size;
    space.total = space.gram + size * size;
    add_points(kernel, points + task * share * n_factors, std::min(share, n - task * share), n_factors, space);
  });
  std::fill(out_sum, out_sum + n_factors, 0.0);
  std::fill(out_gram, out_gram + n_factors * n_factors, 0.0);
  for (const MomentsWorkspace &part : parts) {
    for (int64_t d = 0; d < n_factors; ++d) out_sum[d] += part.total[d];
    for (int64_t r = 0; r < n_factors; ++r)
      for (int64_t c = r; c < n_factors; ++c) out_gram[r * n_factors + c] += part.gram[r * size + c];
  }
  for (int64_t r = 0; r < n_factors; ++r)
    for (int64_t c = 0; c < r; ++c) out_gram[r * n_factors + c] = out_gram[c * n_factors + r];
}

}  // namespace

namespace rows {
namespace {

template <class T>
int64_t solve_rows(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const T> targets,
                   Matrix<const T> other, Matrix<const T> prior_precision, Matrix<const T> prior_linear, Matrix<T> out,
                   OptionalVector<const T> weights, OptionalVector<const T> other_bias,
                   OptionalVector<const T> other_weights, OptionalVector<const T> prior_scale,
                   OptionalVector<const T> ridge, T target_offset, T target_scale, T alpha,
                   OptionalMatrix<const T> noise, OptionalVector<T> out_bias, T bias_precision, T bias_linear,
                   OptionalVector<const T> bias_linears, OptionalVector<const T> bias_noise,
                   OptionalVector<double> minimum, OptionalVector<double> squares, int64_t few, int threads) {
  const size_t n_rows = out.shape(0), n_factors = out.shape(1), n = columns.size();
  require_offsets(offsets, n_rows, n);
  require(targets.size() == n && has_size(weights, n), "targets and weights: one per rating");
  require(other.shape(1) == n_factors, "other: as many factors as out");
  require(has_size(other_bias, other.shape(0)) && has_size(other_weights, other.shape(0)),
          "other_bias and other_weights: one per row of other");
  require(prior_precision.shape(0) == n_factors && prior_precision.shape(1) == n_factors,
          "prior_precision: factors x factors");
  require(prior_linear.shape(1) == n_factors && (prior_linear.shape(0) == 1 || prior_linear.shape(0) == n_rows),
          "prior_linear: one row, or one per row of out");
  require(has_size(prior_scale, n_rows) && has_size(ridge, n_rows) && has_size(out_bias, n_rows) &&
              has_size(bias_linears, n_rows) && has_size(bias_noise, n_rows) && has_size(minimum, n_rows) &&
              has_size(squares, n_rows) && has_size(noise, n_rows * n_factors),
          "prior_scale, ridge, out_bias, bias_linears, noise, minimum and squares: one per row");
  require(target_scale > 0, "target_scale: above 0");
  require(!squares || alpha > 0, "alpha: above 0 if squares are requested");
  require(within(columns.data(), n, 0, int64_t(other.shape(0))), "columns: rows of other");

  tastespace::RowsProblem<T> problem;
  problem.n_rows = int64_t(n_rows);
  problem.n_factors = int64_t(n_factors);
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.targets = targets.data();
  problem.target_offset = target_offset;
  problem.target_scale = target_scale;
  problem.weights = pointer(weights);
  problem.other = other.data();
  problem.other_stride = int64_t(n_factors);
  problem.other_bias = pointer(other_bias);
  problem.other_weights = pointer(other_weights);
  problem.prior_precision = prior_precision.data();
  problem.prior_linear = prior_linear.data();
  problem.prior_linear_stride = prior_linear.shape(0) == 1 ? 0 : int64_t(n_factors);
  problem.prior_scale = pointer(prior_scale);
  problem.ridge = pointer(ridge);
  problem.bias_precision = bias_precision;
  problem.bias_linear = bias_linear;
  problem.bias_linears = pointer(bias_linears);
  problem.alpha = alpha;
  problem.noise = pointer(noise);
  problem.bias_noise = pointer(bias_noise);
  problem.out = out.data();
  problem.out_bias = pointer(out_bias);
  problem.minimum = pointer(minimum);
  problem.squares = pointer(squares);
  problem.few = few;
  nb::gil_scoped_release release;
  return tastespace::solve_rows(problem, int64_t(other.shape(0)), threads);
}

template <class T>
void bind_solve_rows(nb::module_ &module) {
  define(module, "solve_rows", &solve_rows<T>,
         {"offsets"_a,
          "columns"_a,
          "targets"_a,
          "other"_a,
          "prior_precision"_a,
          "prior_linear"_a,
          "out"_a,
          by_name_only,
          "weights"_a = none,
          "other_bias"_a = none,
          "other_weights"_a = none,
          "prior_scale"_a = none,
          "ridge"_a = none,
          "target_offset"_a = T(0),
          "target_scale"_a = T(1),
          "alpha"_a = T(1),
          "noise"_a = none,
          "out_bias"_a = none,
          "bias_precision"_a = T(0),
          "bias_linear"_a = T(0),
          "bias_linears"_a = none,
          "bias_noise"_a = none,
          "minimum"_a = none,
          "squares"_a = none,
          "few"_a = 0,
          "threads"_a = 1},
         "Solve (or, with noise, draw) all rows of one side; -1, or the first row that is not positive definite.");
}

template <class T>
void moments(Matrix<const T> points, Vector<double> out_sum, Matrix<double> out_gram, int threads) {
  const size_t n_factors = points.shape(1);
  require(out_sum.size() == n_factors, "out_sum: one per factor");
  require(out_gram.shape(0) == n_factors && out_gram.shape(1) == n_factors, "out_gram: factors x factors");
  nb::gil_scoped_release release;
  tastespace::moments(points.data(), int64_t(points.shape(0)), int64_t(n_factors), out_sum.data(), out_gram.data(),
                      threads);
}

template <class T>
void bind_moments(nb::module_ &module) {
  define(module, "moments", &moments<T>, {"points"_a, "out_sum"_a, "out_gram"_a, "threads"_a = 1},
         "Sum of the points, and sum of their products with themselves.");
}

}  // namespace

void bind(nb::module_ &module) {
  bind_solve_rows<float>(module);
  bind_solve_rows<double>(module);
  bind_moments<float>(module);
  bind_moments<double>(module);
}

}  // namespace rows
}  // namespace tastespace
