// Rows of a logistic factorization of one-class data, by stochastic gradients: what each instruction set provides.
#pragma once

#include <cstdint>

#include "random_stream.hpp"

namespace tastespace {

// Columns drawn with given chances, by a table of aliases (Vose 1991): a column drawn evenly stays with its share, in
// units of 2^-32, and is its alias otherwise.
struct ColumnChances {
  int64_t n_columns = 0;
  const uint32_t *table = nullptr;  // n_columns x 2: share, alias
};

// One side's step given the other side. Row i chose the columns offsets[i]..offsets[i + 1], and is shown some that are
// drawn, of which those that it chose do not count. With s_k = offset + x.v_k + c + d_k its energy is
//
//   sum_k w_k log(1 + exp(-s_k)) + r_i sum_l w'_l log(1 + exp(s_l)) + 1/2 (ridge |x|^2 + bias_ridge c^2)
//
// over what it chose (k) and what was drawn (l); w' belongs to the column, r to the row. A step goes against the
// gradient g, by rate / sqrt(sum of squares of all g so far, this one included) in each coordinate (AdaGrad: Duchi,
// Hazan and Singer 2011).
struct ChoicesProblem {
  int64_t n_rows = 0;
  int64_t n_factors = 0;
  const int64_t *offsets = nullptr;        // n_rows + 1
  const int32_t *columns = nullptr;        // a choice
  const float *weights = nullptr;          // a choice: w
  const int64_t *drawn_offsets = nullptr;  // n_rows + 1: differences are how many are drawn
  const float *row_weights = nullptr;      // n_rows: r
  const float *column_weights = nullptr;   // n_columns: w'
  ColumnChances chances;
  const float *other = nullptr;       // n_columns rows of padded factors, zero beyond the factors
  const float *other_bias = nullptr;  // n_columns, or null for 0
  float offset = 0, ridge = 0, bias_ridge = 0, rate = 0;
  float *out = nullptr;           // n_rows x n_factors
  float *out_bias = nullptr;      // n_rows, or null: rows have no bias
  float *squares = nullptr;       // n_rows x n_factors
  float *bias_squares = nullptr;  // n_rows, or null
  double *energies = nullptr;     // n_rows: before the step
};

// Everything one thread needs.
struct ChoicesWorkspace {
  float *point, *gradient;  // padded factors: zero beyond the factors
  uint8_t *is_chosen;       // n_columns: 0, but for what the row at hand chose
};

struct ChoicesKernel {
  int64_t (*padded)(int64_t n_factors);
  // Fills out with n columns; -1 in place of one that was chosen.
  void (*draw)(const ColumnChances &, int64_t n, const uint8_t *is_chosen, int32_t *out, RandomStream &);
  void (*step)(const ChoicesProblem &, int64_t row, ChoicesWorkspace &, RandomStream &);
};

}  // namespace tastespace
