// The exact scan: the k best items of a query by inner product, found without storing the scores.
#pragma once

#include <cstdint>

namespace tastespace {

// Items lie in panels of scan_panel, one coordinate of all of them after another, so that one register
// holds the same coordinate of several items. The last panel is padded with zeros.
constexpr int64_t scan_panel = 16;
// Queries that share one pass over the items.
constexpr int64_t scan_queries = 8;

struct ScanProblem {
  int64_t n_items = 0, n_dimensions = 0, k = 0;
  const float *panels = nullptr;              // ceil(n_items / scan_panel) x n_dimensions x scan_panel
  const float *queries = nullptr;             // n_queries x n_dimensions
  const int64_t *excluded_offsets = nullptr;  // n_queries + 1, or null
  const int32_t *excluded = nullptr;          // item rows, ascending within a query
  const uint8_t *allowed = nullptr;           // n_items, or null for all
  int32_t *out_items = nullptr;               // n_queries x k, best first, -1 where there is none
  float *out_scores = nullptr;                // n_queries x k
};

struct ScanKernel {
  // Queries first..first + n (n at most scan_queries); the heaps are the rows of out themselves.
  void (*search)(const ScanProblem &, int64_t first, int64_t n);
};

}  // namespace tastespace
