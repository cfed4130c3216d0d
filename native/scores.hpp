// Scores of (user, item) pairs, and of items in draws of a user; products of sparse features with dense rows.
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

// Products of a sparse matrix with dense rows: out[row] = sum_k values[k] dense[columns[k]], in the order of k.

struct SparseProblem {
  int64_t width = 0;
  const int64_t *offsets = nullptr;  // n_rows + 1
  const int32_t *columns = nullptr;
  const double *values = nullptr;
  const double *dense = nullptr;  // n_columns x width
  double *out = nullptr;          // n_rows x width
};

// One Gibbs pass over features: coefficients with unit-variance errors, one feature after another. With the residuals
// R = target - X B of the current coefficients,
//
//   b_f | rest ~ N((sum_i x_if R_i + b_f sum_i x_if^2) / k_f, 1 / k_f),   k_f = sum_i x_if^2 + prior_f
//
// in every column of the target apart. A strip is `feature_strip` columns, which are kept together: a residual is then
// one cache line.
constexpr int64_t feature_strip = 8;

struct FeaturesProblem {
  int64_t n_features = 0, n_rows = 0;
  const int64_t *offsets = nullptr;  // n_features + 1
  const int32_t *rows = nullptr;     // of each entry
  const double *values = nullptr;
  const double *squares = nullptr;  // n_features: sum_i x_if^2
  const double *prior = nullptr;    // n_features: the prior's precision
  const double *noise = nullptr;    // strips x n_features x feature_strip: standard normal
  double *coefficients = nullptr;   // strips x n_features x feature_strip
  double *residuals = nullptr;      // strips x n_rows x feature_strip
};

struct FeaturesKernel {
  void (*multiply)(const SparseProblem &, int64_t first, int64_t last);  // rows from first to last
  void (*pass)(const FeaturesProblem &, int64_t strip);
};

}  // namespace tastespace
