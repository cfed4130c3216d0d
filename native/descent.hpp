// Gradient descent on a factorization, rating by rating: what each instruction set provides.
#pragma once

#include <cstdint>

namespace tastespace {

// The tail after the factors of a padded row: its bias, and the penalty for a visit. If gradients are summed, that is p
// of the factors and q of the bias; if steps are made, the shrinkage of the row: 1 - rate p and 1 - bias_rate q.
constexpr int64_t tail_bias = 0, tail_factors = 1, tail_bias_share = 2, tail_numbers = 4;

// A rating (i, j, r) has the score s = offset + c_i + d_j + u_i.v_j and the error e = r - s or, squashed,
// e = r - 4 / (1 + exp(-s)). Its share of the loss is
//
//   1/2 e^2 + 1/2 (p_i |u_i|^2 + q_i c_i^2 + p_j |v_j|^2 + q_j d_j^2),
//
// p and q are the strengths times the weight of a row, per rating.
template <class T>
struct DescentProblem {
  int64_t n_factors = 0;
  const int32_t *user_rows = nullptr, *item_rows = nullptr;  // per rating
  const T *values = nullptr;                                 // per rating: r
  T *users = nullptr, *items = nullptr;                      // padded rows, zero beyond the factors; a tail each
  T offset = 0, rate = 0, bias_rate = 0;                     // no biases: their rate is 0, and so are they
  bool is_squashed = false;
  T *user_slopes = nullptr, *item_slopes = nullptr;  // laid out like the rows; only if gradients are summed
};

template <class T>
struct DescentKernel {
  int64_t (*padded)(int64_t n_factors);
  int64_t (*stride)(int64_t n_factors);  // of padded rows, tails included
  // A step against the gradient at each rating in turn; the sum of squared errors, each before its own step.
  double (*descend)(const DescentProblem<T> &, int64_t begin, int64_t end);
  // Adds the gradients of ratings to the slopes; the sum of squared errors.
  double (*add_slopes)(const DescentProblem<T> &, int64_t begin, int64_t end);
};

}  // namespace tastespace
