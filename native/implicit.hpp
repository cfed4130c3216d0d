// Rows of a factorization of implicit (one-class) data, by conjugate gradients or, with a logistic likelihood, by
// stochastic gradients: what each instruction set provides.
#pragma once

#include <cstdint>

#include "random.hpp"

namespace tastespace {

// One side's update given the other side, of which every cell counts: an unobserved one as a 0 of weight 1. In
// coordinates in which the other side's Gram matrix is diagonal (g), row i has the energy
//
//   1/2 sum_d (g_d + l_i) x_d^2 - h_i.x + sum_k [w_k/2 (x.v_k)^2 - y_k x.v_k]
//
// over its observations k, of weight w_k beyond 1 and pull y_k. `out` holds the start, and then the result.
struct ConjugateProblem {
  int64_t n_rows = 0;
  int64_t n_factors = 0;
  const int64_t *offsets = nullptr;  // n_rows + 1
  const int32_t *columns = nullptr;  // per observation
  const float *weights = nullptr;    // per observation: w
  const float *pulls = nullptr;      // per observation: y
  const float *other = nullptr;      // rows of n_factors
  const float *diagonal = nullptr;   // n_factors: g
  const float *linear = nullptr;     // n_factors for each row, or once for all: h; null for 0
  int64_t linear_stride = 0;         // 0 for once
  const float *ridge = nullptr;      // n_rows: l
  int steps = 0;
  float *out = nullptr;  // n_rows x n_factors
};

// Everything one thread needs.
struct ConjugateWorkspace {
  float *gathered;  // as many rows as the longest one has observations, of padded factors: zero beyond the factors
  float *vectors;   // 6 x padded: zero beyond the factors
};

constexpr int conjugate_vectors = 6;
constexpr int64_t rotated_rows = 8;

struct ConjugateKernel {
  int64_t (*padded)(int64_t n_factors);
  void (*descend)(const ConjugateProblem &, int64_t row, ConjugateWorkspace &);
  // Up to rotated_rows points times a matrix of n_factors rows of padded columns; the scratch holds
  // 2 x rotated_rows x padded numbers.
  void (*rotate)(const float *points, int64_t n, int64_t n_factors, const float *matrix, float *scratch, float *out);
};

// Rows of a logistic factorization of one-class data, by stochastic gradients: what each instruction set provides.

// Columns drawn with given probabilities, by an alias table (Vose 1991): a column drawn evenly stays with its share, in
// units of 2^-32, and is its alias otherwise.
struct ColumnChances {
  int64_t n_columns = 0;
  const uint32_t *table = nullptr;  // n_columns x 2: share, alias
};

// One side's step given the other side. Row i chose the columns offsets[i]..offsets[i + 1], and some are drawn for it,
// of which those that it chose do not count. With s_k = offset + x.v_k + c + d_k its energy is
//
//   sum_k w_k log(1 + exp(-s_k)) + r_i sum_l w'_l log(1 + exp(s_l)) + 1/2 (ridge |x - m|^2 + bias_ridge (c - b)^2)
//
// over what it chose (k) and what was drawn (l); w' belongs to the column, r, m and b to the row. A step goes against
// the gradient g, by rate / sqrt(sum of squares of all g so far, this one included) in each coordinate (AdaGrad: Duchi,
// Hazan and Singer 2011).
struct LogisticProblem {
  int64_t n_rows = 0;
  int64_t n_factors = 0;
  const int64_t *offsets = nullptr;        // n_rows + 1
  const int32_t *columns = nullptr;        // per choice
  const float *weights = nullptr;          // per choice: w
  const int64_t *drawn_offsets = nullptr;  // n_rows + 1: differences are the numbers drawn
  const float *row_weights = nullptr;      // n_rows: r
  const float *column_weights = nullptr;   // n_columns: w'
  ColumnChances chances;
  const float *other = nullptr;       // n_columns rows of padded factors, zero beyond the factors
  const float *other_bias = nullptr;  // n_columns, or null for 0
  float offset = 0, ridge = 0, bias_ridge = 0, rate = 0;
  float *out = nullptr;               // n_rows x n_factors
  float *out_bias = nullptr;          // n_rows, or null: rows have no bias
  float *squares = nullptr;           // n_rows x n_factors
  float *bias_squares = nullptr;      // n_rows, or null
  const float *means = nullptr;       // n_rows x n_factors: m, or null for 0
  const float *bias_means = nullptr;  // n_rows: b, or null for 0
  double *energies = nullptr;         // n_rows: before the step
};

// Everything one thread needs.
struct LogisticWorkspace {
  float *point, *gradient;  // padded factors: zero beyond the factors
  uint8_t *is_chosen;       // n_columns: 0, except for what the current row chose
};

struct LogisticKernel {
  int64_t (*padded)(int64_t n_factors);
  // Fills out with n columns; -1 in place of one that was chosen.
  void (*draw)(const ColumnChances &, int64_t n, const uint8_t *is_chosen, int32_t *out, RandomStream &);
  void (*step)(const LogisticProblem &, int64_t row, LogisticWorkspace &, RandomStream &);
};

}  // namespace tastespace
