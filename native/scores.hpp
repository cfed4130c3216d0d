// Scores of (user, item) pairs, and of items in draws of a user.
#pragma once

#include <cstdint>

namespace tastespace {

// out[k] = offset + user_bias + item_bias + users[user_rows[k]] . items[item_rows[k]]; a row of -1 is new: it
// contributes nothing.
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

// Scores of items in draws of a user: each draw of the user is paired with one draw of the items.

struct DrawsProblem {
  int64_t n_item_draws = 0, width = 0, n_users = 0, n_rows = 0;
  const float *items = nullptr;     // n_items x n_item_draws x width
  const int32_t *rows = nullptr;    // n_rows: items that are scored
  const int32_t *chosen = nullptr;  // n_users: the draw of the items for each draw of the user
  const float *users = nullptr;     // n_users x width
  float *out = nullptr;             // n_users x n_rows
};

struct DrawsKernel {
  // Scores of the items at the places from first to last.
  void (*score)(const DrawsProblem &, int64_t first, int64_t last);
};

}  // namespace tastespace
