// Rows of a factorization of one-class data, by conjugate gradients: what each instruction set provides.
#pragma once

#include <cstdint>

namespace tastespace {

// One side's update given the other side, of which every cell counts: an unobserved one as a 0 of weight 1. In
// coordinates in which the other side's Gram matrix is diagonal (g), row i has the energy
//
//   1/2 sum_d (g_d + l_i) x_d^2 - h.x + sum_k [w_k/2 (x.v_k)^2 - y_k x.v_k]
//
// over its observations k, of weight w_k beyond 1 and pull y_k. `out` holds where it starts, and then where it got to.
struct ConfidentProblem {
  int64_t n_rows = 0;
  int64_t n_factors = 0;
  const int64_t *offsets = nullptr;  // n_rows + 1
  const int32_t *columns = nullptr;  // an observation
  const float *weights = nullptr;    // an observation: w
  const float *pulls = nullptr;      // an observation: y
  const float *other = nullptr;      // rows of n_factors
  const float *diagonal = nullptr;   // n_factors: g
  const float *linear = nullptr;     // n_factors: h, or null for 0
  const float *ridge = nullptr;      // n_rows: l
  int steps = 0;
  float *out = nullptr;  // n_rows x n_factors
};

// Everything one thread needs.
struct ConfidentWorkspace {
  float *gathered;  // as many rows as the longest one has observations, of padded factors: zero beyond the factors
  float *vectors;   // 6 x padded: zero beyond the factors
};

constexpr int confident_vectors = 6;
constexpr int64_t rotated_rows = 8;

struct ConfidentKernel {
  int64_t (*padded)(int64_t n_factors);
  void (*descend)(const ConfidentProblem &, int64_t row, ConfidentWorkspace &);
  // Up to rotated_rows points times a matrix of n_factors rows of padded columns; the scratch holds
  // 2 x rotated_rows x padded numbers.
  void (*rotate)(const float *points, int64_t n, int64_t n_factors, const float *matrix, float *scratch, float *out);
};

}  // namespace tastespace
