// Solve or draw all rows of one side of a factorization: what each instruction set provides, and the problem.
#pragma once

#include <cstdint>

namespace tastespace {

// One side's update given the other side. Row i has ratings offsets[i]..offsets[i + 1] and the quadratic
//
//   alpha/2 sum_k w_k (y_k - x.v_k - c)^2 + s_i/2 [x^T Lambda x - 2 x.h_i + lambda c^2 - 2 c m] + l_i/2 |x|^2
//
// with y_k = (targets[k] - target_offset) / target_scale - other_bias[column] and c the row's own bias. Its minimum is
// the ALS update; with noise z the result is a draw from the Gaussian with that energy (Salakhutdinov and Mnih 2008,
// eq. 11).
template <class T>
struct Whitening;

template <class T>
struct RowsProblem {
  int64_t n_rows = 0;
  int64_t n_factors = 0;
  const int64_t *offsets = nullptr;  // n_rows + 1
  const int32_t *columns = nullptr;  // per rating
  const T *targets = nullptr;        // per rating
  T target_offset = 0, target_scale = 1;
  const T *weights = nullptr;  // per rating, or null for 1
  const T *other = nullptr;    // n_columns rows of n_factors, other_stride apart
  int64_t other_stride = 0;
  const T *other_bias = nullptr;  // n_columns, other_bias_stride apart, or null for 0
  int64_t other_bias_stride = 1;
  const T *other_weights = nullptr;  // n_columns, other_weights_stride apart: times weights, or null for 1
  int64_t other_weights_stride = 1;
  const T *prior_precision = nullptr;  // n_factors x n_factors, Lambda
  const T *prior_linear = nullptr;     // h: n_factors, or one row each (then prior_linear_stride = n_factors)
  int64_t prior_linear_stride = 0;
  const T *prior_scale = nullptr;   // s: n_rows, or null for 1
  const T *ridge = nullptr;         // l: n_rows, or null for 0
  T bias_precision = 0;             // lambda
  T bias_linear = 0;                // m
  const T *bias_linears = nullptr;  // m of each row, or null: bias_linear of all
  T alpha = 1;
  const T *noise = nullptr;       // n_rows x n_factors, or null to solve
  const T *bias_noise = nullptr;  // n_rows, or null
  T *out = nullptr;               // n_rows x n_factors
  T *out_bias = nullptr;          // n_rows, or null: rows have no bias
  double *minimum = nullptr;      // n_rows, or null: the minimum of the energy (without its prior constant)
  double *squares = nullptr;      // n_rows, or null: sum_k w_k (y_k - x.v_k - c)^2 at the result
  int64_t few = 0;  // rows with at most this many ratings are conditioned, if possible; -1: if it is faster
  const Whitening<T> *whitening = nullptr;  // made by the driver, or null: no row is conditioned
};

// Coordinates in which the prior is a standard normal: x = U^-1 x' for Lambda = U^T U.
template <class T>
struct Whitening {
  T *upper;  // padded x padded: U^-1
  T *lower;  // padded x padded: its transpose
  T *mean;   // padded: the prior's mean, whitened
  T *other;  // n_columns x padded: rows of the other side times U^-1
};

enum class Conditioned { done, failed, unfit };  // unfit: this row must be solved the usual way

// Everything one thread needs, allocated once per call by the driver.
template <class T>
struct RowsWorkspace {
  T *gathered;    // block x padded factors
  T *weighted;    // block x padded factors, used with weights
  T *extras;      // block x 2: weight * target, weight
  T *gram;        // padded x padded, upper triangle
  T *linear;      // 2 x padded: sum w y v, sum w v
  T *scratch;     // 4 x padded: inverse diagonal and solutions of the last row finished
  T *inverse;     // padded x padded, or null if no roots are requested: zero above the diagonal
  T *transposed;  // padded x rows_block, or null if no row is conditioned
  T total_weight, total_linear;
  T inverse_pivot;  // of the bias, of the last row finished
  double total_square;
};

template <class T>
struct RowsKernel {
  int64_t (*padded)(int64_t n_factors);
  void (*clear)(const RowsProblem<T> &, RowsWorkspace<T> &);
  void (*accumulate)(const RowsProblem<T> &, int64_t begin, int64_t end, RowsWorkspace<T> &);
  void (*merge)(const RowsProblem<T> &, const RowsWorkspace<T> &from, RowsWorkspace<T> &into);
  bool (*finish)(const RowsProblem<T> &, int64_t row, RowsWorkspace<T> &);  // false: not positive definite
  // Makes the whitening of the prior (false: not positive definite), then that of columns begin..end.
  bool (*whiten_prior)(const RowsProblem<T> &, RowsWorkspace<T> &, const Whitening<T> &);
  void (*whiten)(const RowsProblem<T> &, int64_t begin, int64_t end, const Whitening<T> &);
  // All of a row with few ratings, in a space of as many dimensions as it has ratings.
  Conditioned (*condition)(const RowsProblem<T> &, int64_t row, RowsWorkspace<T> &);
  // Of the row finished last: the upper triangular T with covariance T T^T of (x, c), and the precision's determinant.
  void (*root)(const RowsProblem<T> &, RowsWorkspace<T> &, T *out);
  double (*log_determinant)(const RowsProblem<T> &, const RowsWorkspace<T> &);
};

// Ratings gathered at a time: small enough that a block stays in the first-level cache.
constexpr int64_t rows_block = 64;

// Sums and sums of products of points: the statistics of one side for a prior.

// Points converted at a time: small enough that they stay in the first-level cache.
constexpr int64_t moments_block = 32;

struct MomentsWorkspace {
  double *block;  // moments_block x padded factors, zero beyond the factors
  double *gram;   // padded x padded, upper triangle
  double *total;  // padded
};

struct MomentsKernel {
  int64_t (*padded)(int64_t n_factors);
  // Adds n points of n_factors numbers each.
  void (*add_floats)(const float *points, int64_t n, int64_t n_factors, MomentsWorkspace &);
  void (*add_doubles)(const double *points, int64_t n, int64_t n_factors, MomentsWorkspace &);
};

}  // namespace tastespace
