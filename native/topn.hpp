// The k best items of a query by inner product, found without storing the scores: by an exact scan, among candidates,
// and in the best of cells.
#pragma once

#include <cstdint>

namespace tastespace {

// Items lie in panels of scan_panel, one coordinate of all of them after another, so that one register
// holds the same coordinate of several items. The last panel is padded with zeros.
constexpr int64_t scan_panel = 16;
// Queries whose sums are in registers together, and groups of them that share a panel while it is in the cache.
constexpr int64_t scan_queries = 8;
constexpr int64_t scan_groups = 4;

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

// For queries and items that are stacked draws: the score of every item in each draw is the draw's offset plus an inner
// product; its weighted mean over the draws, and that of its square.
struct MomentsProblem {
  int64_t n_items = 0, n_draws = 0, width = 0;  // n_dimensions of the panels is n_draws x width
  const float *panels = nullptr;
  const float *queries = nullptr;  // n_queries x n_draws x width
  const float *offsets = nullptr;  // n_queries x n_draws
  const float *weights = nullptr;  // n_queries x n_draws
  float *out_means = nullptr;      // n_queries x n_items
  float *out_squares = nullptr;    // n_queries x n_items
};

struct ScanKernel {
  // Queries first..first + n (n at most scan_queries x scan_groups); the heaps are the rows of out themselves.
  void (*search)(const ScanProblem &, int64_t first, int64_t n);
  // The same queries, without heaps.
  void (*moments)(const MomentsProblem &, int64_t first, int64_t n);
};

// The best of few items, each scored with its full vector; and queries in fewer coordinates.

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

// A search in cells: items grouped around centres, of which only the best few are searched.

// Items are in panels as for the scan, and every cell begins a panel; the rest of its last one is padding. Centres are
// in panels as well.
struct CellsProblem {
  int64_t n_dimensions = 0, k = 0, n_cells = 0, probes = 0;
  const float *centres = nullptr;             // ceil(n_cells / scan_panel) x n_dimensions x scan_panel
  const int64_t *first_panels = nullptr;      // n_cells + 1
  const float *panels = nullptr;              // n_panels x n_dimensions x scan_panel
  const int32_t *members = nullptr;           // n_panels x scan_panel: rows of items, -1 for padding
  const float *queries = nullptr;             // n_queries x n_dimensions
  const int64_t *excluded_offsets = nullptr;  // n_queries + 1, or null
  const int32_t *excluded = nullptr;          // item rows, ascending within a query
  const uint8_t *allowed = nullptr;           // one per item, or null for all
  int32_t *out_items = nullptr;               // n_queries x k, best first, -1 where there is none
  float *out_scores = nullptr;                // n_queries x k
};

// Everything one thread needs: the cells to search.
struct CellsWorkspace {
  float *scores;   // probes
  int32_t *cells;  // probes
};

struct CellsKernel {
  void (*search)(const CellsProblem &, int64_t query, CellsWorkspace &);
};

}  // namespace tastespace
