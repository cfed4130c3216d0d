// Beliefs about the scores of (user, item) pairs: a mean and a variance each, given every draw of the items.
#pragma once

#include <cstdint>

namespace tastespace {

// A belief about a user is, for every draw s, the mean of (u, c) and an upper triangular root T of its covariance. With
// x = (v, 1) for the item's draw (v, d), or x = v without biases, the score has the mean m_s = mean.x + d and the
// standard deviation |T^T x|. Item row -1 is a new item, with the mean cold_item.
struct BeliefsProblem {
  int64_t n_draws = 0;
  int64_t n_factors = 0;
  bool biases = false;
  const int32_t *belief_rows = nullptr;  // per pair
  const int32_t *item_rows = nullptr;    // per pair
  const float *items = nullptr;          // n_items x n_draws x width
  const float *means = nullptr;          // n_beliefs x n_draws x width
  const float *roots = nullptr;          // n_beliefs x n_draws x width x width
  const float *cold_item = nullptr;      // n_draws x width
  // One by one:
  float *out_means = nullptr;  // n_pairs x n_draws
  float *out_sds = nullptr;    // n_pairs x n_draws
  // Or all draws as one mixture:
  const float *weights = nullptr;  // n_beliefs x n_draws
  float *out_mean = nullptr;       // n_pairs
  float *out_sd = nullptr;         // n_pairs

  int64_t width() const { return n_factors + (biases ? 1 : 0); }
};

// Pairs of one belief that share a packed root.
constexpr int64_t beliefs_block = 64;

struct BeliefsBlock {
  const int64_t *pairs;  // all of the same belief
  int64_t n;             // at most beliefs_block
  int64_t n_following;   // pairs after them that this thread does next, at most beliefs_block
};

// Memory of one thread, allocated once per call by the driver.
struct BeliefsWorkspace {
  float *root;       // packed: see the kernel
  float *points;     // draws at once x beliefs_block x padded factors
  float *offsets;    // draws at once x beliefs_block: biases of the items
  float *means;      // beliefs_block
  float *variances;  // beliefs_block
};

struct BeliefsKernel {
  int64_t (*root_size)(const BeliefsProblem &);
  int64_t (*points_size)(const BeliefsProblem &);
  int64_t (*offsets_size)(const BeliefsProblem &);
  void (*each)(const BeliefsProblem &, const BeliefsBlock &, BeliefsWorkspace &);
  void (*mixture)(const BeliefsProblem &, const BeliefsBlock &, BeliefsWorkspace &);
};

}  // namespace tastespace
