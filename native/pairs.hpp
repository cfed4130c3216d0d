// Scores of (user, item) pairs.
#pragma once

#include <cstdint>

namespace tastespace {

// out[k] = offset + user_bias + item_bias + users[user_rows[k]] . items[item_rows[k]]; a row of -1 is a
// stranger: it contributes nothing.
struct PairsProblem {
  int64_t n_factors = 0;
  const int32_t *user_rows = nullptr;
  const int32_t *item_rows = nullptr;
  const float *users = nullptr;
  const float *items = nullptr;
  const float *user_bias = nullptr;  // or null
  const float *item_bias = nullptr;  // or null
  double offset = 0;
  float *out = nullptr;
};

struct PairsKernel {
  void (*score)(const PairsProblem &, int64_t begin, int64_t end);
};

}  // namespace tastespace
