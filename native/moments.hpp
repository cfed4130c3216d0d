// Sums and sums of products of points: what a prior learns about one side.
#pragma once

#include <cstdint>

namespace tastespace {

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
