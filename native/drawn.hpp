// Scores of items in draws of a user: each draw of the user meets one draw of the items.
#pragma once

#include <cstdint>

namespace tastespace {

struct DrawnProblem {
  int64_t n_item_draws = 0, width = 0, n_users = 0, n_rows = 0;
  const float *items = nullptr;     // n_items x n_item_draws x width
  const int32_t *rows = nullptr;    // n_rows: items that are scored
  const int32_t *chosen = nullptr;  // n_users: which draw of the items each draw of the user meets
  const float *users = nullptr;     // n_users x width
  float *out = nullptr;             // n_users x n_rows
};

struct DrawnKernel {
  // Of the items at the places from first to last.
  void (*score)(const DrawnProblem &, int64_t first, int64_t last);
};

}  // namespace tastespace
