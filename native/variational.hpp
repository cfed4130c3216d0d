// Rows of a variational factorization: what each instruction set provides, and the problem.
#pragma once

#include <cstdint>

namespace tastespace {

// One side's beliefs given those about the other side. Of a column the belief has mean b = (v, d) (factors and, last,
// the bias, if there is one: `width` numbers) and covariance Psi. Its record is what rows need from it:
//
//   full         b, and the upper triangle of Psi + b b^T, row by row
//   factorized   b, and the diagonal of Psi
//
// and then zeros up to a multiple of 16 numbers. With z = (v, 1), row i maximises the bound by the normal of precision
//
//   P = Lambda + alpha sum_k E[z z^T]    and linear term    h = Lambda mu + alpha sum_k E[(y_k - d) z]
//
// y_k = (targets[k] - target_offset) / target_scale, where E[(y - d) v] = y E v - E[v d]: v and d are correlated.
//
// If all rows of a side are far from 0, their differences would be lost in the rounding of their squares. So a side has
// a centre, and its records are relative to it. With p the centre of the rows and q that of the columns, b and x are of
// v - q_v, d - q_d, u - p_u, c - p_c; mu is relative to p; and y to the prediction of the centres:
//
//   y - d - z.x  becomes  y - a.(v - q_v, d - q_d) - z.x   with  a = (p_u, 1)  and  z = (q_v + (v - q_v), 1)
template <class T>
struct VariationalProblem {
  int64_t n_rows = 0;
  int64_t n_factors = 0;
  int64_t width = 0;  // n_factors, and one more with biases
  bool biases = false;
  const int64_t *offsets = nullptr;  // n_rows + 1
  const int32_t *columns = nullptr;  // per rating
  const T *targets = nullptr;        // per rating
  double target_offset = 0, target_scale = 1;
  const T *other = nullptr;                 // n_columns records
  const double *prior_precision = nullptr;  // n_factors x n_factors: Lambda
  const double *prior_linear = nullptr;     // n_factors: Lambda mu
  double bias_precision = 0, bias_linear = 0;
  const double *row_linear = nullptr;  // n_rows x width: in place of prior_linear and bias_linear, or null
  double alpha = 1;
  const double *row_centre = nullptr;     // width, or null for 0: p
  const double *column_centre = nullptr;  // width, or null for 0: q
  bool diagonal = false;                  // covariances are diagonal: the optimal ones; this does not affect means
  T *means = nullptr;                     // n_rows x width, or null
  T *records = nullptr;                   // n_rows records, or null; if coordinates are moved, means are read from it
  T *covariances = nullptr;               // n_rows x upper triangle (or diagonal), or null
  T *roots = nullptr;                     // n_rows x width x width, or null: upper triangular, covariance = root root^T
  double *log_determinant = nullptr;      // n_rows: of P
  double *squares = nullptr;              // n_rows: sum_k E[(y_k - d - z.x)^2] under both beliefs

  // The linear term of the prior of a row: n_factors numbers, and that of the bias.
  const double *linear_of(int64_t row) const { return row_linear ? row_linear + row * width : prior_linear; }
  double bias_linear_of(int64_t row) const { return row_linear ? row_linear[(row + 1) * width - 1] : bias_linear; }
};

inline int64_t record_size(int64_t width, bool full) {
  const int64_t size = width + (full ? width * (width + 1) / 2 : width);
  return (size + 15) / 16 * 16;
}

// Sums over the ratings of a row so far.
struct VariationalSums {
  double *total;             // a record: sum of the records
  double *weighted;          // padded width: sum of y times the means
  double n, linear, square;  // sums of 1, y and y^2
};

// Everything one thread needs, allocated once per call by the driver.
template <class T>
struct VariationalWorkspace {
  VariationalSums sums;
  T *block;            // a record, followed by a padded width: sums of some ratings
  double *matrix;      // padded x padded: P, and its factor
  double *inverse;     // padded x padded: zero above the diagonal
  double *covariance;  // padded x padded
  double *vectors;     // 6 x padded
  T *errors;           // longest row, padded; if coordinates are moved
  T *transposed;       // 16 x the same
  T *point;            // padded width
};

template <class T>
struct VariationalKernel {
  int64_t (*padded)(int64_t width);  // of the matrices
  void (*accumulate)(const VariationalProblem<T> &, int64_t begin, int64_t end, VariationalWorkspace<T> &);
  bool (*finish)(const VariationalProblem<T> &, int64_t row,
                 VariationalWorkspace<T> &);  // false: not positive definite
  // The factorized family: every coordinate of a row once, in O(width) per rating.
  bool (*coordinates)(const VariationalProblem<T> &, int64_t row, VariationalWorkspace<T> &);
};

// Ratings whose records are summed in the type of the records, before they are added in double.
constexpr int64_t variational_block = 64;
// Coordinates of a row that are moved while their columns are in the cache.
constexpr int64_t variational_strip = 16;

}  // namespace tastespace
