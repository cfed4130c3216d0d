// The best of few items, each looked at in its whole length; and queries in fewer coordinates.
#pragma once

#include <cstdint>

namespace tastespace {

struct CandidatesProblem {
  int64_t n_dimensions = 0, k = 0;
  const float *vectors = nullptr;              // n_items x n_dimensions
  const float *queries = nullptr;              // n_queries x n_dimensions
  const int64_t *candidate_offsets = nullptr;  // n_queries + 1, or null: all queries have the same candidates
  const int32_t *candidates = nullptr;         // item rows; -1 for none
  int64_t n_candidates = 0;
  const int64_t *excluded_offsets = nullptr;  // n_queries + 1, or null
  const int32_t *excluded = nullptr;          // item rows, ascending within a query
  int32_t *out_items = nullptr;               // n_queries x k, best first, -1 where there is none
  float *out_scores = nullptr;                // n_queries x k
};

struct CandidatesKernel {
  void (*rank)(const CandidatesProblem &, int64_t query);
  // out (n_out) = query (n) . matrix (n x n_out).
  void (*project)(const float *query, const float *matrix, int64_t n, int64_t n_out, float *out);
};

}  // namespace tastespace
