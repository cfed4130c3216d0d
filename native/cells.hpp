// A search in cells: items grouped around centres, of which only the best few are looked at.
#pragma once

#include <cstdint>

namespace tastespace {

// Items lie in panels as for the scan, and every cell begins a panel; what is left of its last one is padding. Centres
// lie in panels as well.
struct CellsProblem {
  int64_t n_dimensions = 0, k = 0, n_cells = 0, probes = 0;
  const float *centres = nullptr;             // ceil(n_cells / scan_panel) x n_dimensions x scan_panel
  const int64_t *first_panels = nullptr;      // n_cells + 1
  const float *panels = nullptr;              // n_panels x n_dimensions x scan_panel
  const int32_t *members = nullptr;           // n_panels x scan_panel: rows of items, -1 for padding
  const float *queries = nullptr;             // n_queries x n_dimensions
  const int64_t *excluded_offsets = nullptr;  // n_queries + 1, or null
  const int32_t *excluded = nullptr;          // item rows, ascending within a query
  const uint8_t *allowed = nullptr;           // one an item, or null for all
  int32_t *out_items = nullptr;               // n_queries x k, best first, -1 where there is none
  float *out_scores = nullptr;                // n_queries x k
};

// Everything one thread needs: the cells to look at.
struct CellsWorkspace {
  float *scores;   // probes
  int32_t *cells;  // probes
};

struct CellsKernel {
  void (*search)(const CellsProblem &, int64_t query, CellsWorkspace &);
};

}  // namespace tastespace
