// The best cells by their centres, then the items of these cells, best cell first, straight into a heap.
#include "cells.hpp"
#include "heap.hpp"
#include "lanes.hpp"
#include "scan.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

constexpr int registers = int(scan_panel) / width_of<float>;

// Scores of the items of two panels that lie one after the other: one alone would wait for its own sums.
template <int Panels>
TS_INLINE void score_panels(const float *TS_RESTRICT panels, const float *TS_RESTRICT query, int64_t n_dimensions,
                            float *TS_RESTRICT scores) {
  constexpr int width = width_of<float>;
  Lanes<float> sums[Panels][registers];
  for (int p = 0; p < Panels; ++p)
    for (int r = 0; r < registers; ++r) sums[p][r] = Lanes<float>{};
  for (int64_t d = 0; d < n_dimensions; ++d)
    for (int p = 0; p < Panels; ++p)
      for (int r = 0; r < registers; ++r)
        sums[p][r] += load(panels + (p * n_dimensions + d) * scan_panel + r * width) * query[d];
  for (int p = 0; p < Panels; ++p)
    for (int r = 0; r < registers; ++r) store(scores + p * scan_panel + r * width, sums[p][r]);
}

// Calls offer(scores, first place, number of places) for panels first..last, a few at a time.
template <class Offer>
TS_INLINE void each_panel(const float *panels, const float *query, int64_t n_dimensions, int64_t first, int64_t last,
                          Offer offer) {
  constexpr int together = 4;
  float scores[together * scan_panel];
  int64_t panel = first;
  for (; panel + together <= last; panel += together) {
    score_panels<together>(panels + panel * n_dimensions * scan_panel, query, n_dimensions, scores);
    offer(scores, panel * scan_panel, together * scan_panel);
  }
  for (; panel < last; ++panel) {
    score_panels<1>(panels + panel * n_dimensions * scan_panel, query, n_dimensions, scores);
    offer(scores, panel * scan_panel, scan_panel);
  }
}

TS_INLINE bool any_reaches(const float *scores, int64_t n, float threshold) {
  int any = 0;
  for (int64_t i = 0; i < n; ++i) any |= scores[i] >= threshold;
  return any != 0;
}

void search(const CellsProblem &problem, int64_t query, CellsWorkspace &space) {
  const int64_t n_dimensions = problem.n_dimensions, n_cells = problem.n_cells;
  const float *point = problem.queries + query * n_dimensions;
  Heap cells{space.scores, space.cells, 0, problem.probes, nullptr, nullptr};
  const int64_t n_panels = (n_cells + scan_panel - 1) / scan_panel;
  each_panel(problem.centres, point, n_dimensions, 0, n_panels, [&](const float *scores, int64_t first, int64_t n) {
    if (!any_reaches(scores, n, cells.threshold())) return;
    for (int64_t i = 0; i < n && first + i < n_cells; ++i)
      if (scores[i] >= cells.threshold()) cells.offer({scores[i], int32_t(first + i)});
  });
  cells.sort();
  Heap found{
      problem.out_scores + query * problem.k, problem.out_items + query * problem.k, 0, problem.k, nullptr, nullptr};
  if (problem.excluded_offsets) {
    found.excluded = problem.excluded + problem.excluded_offsets[query];
    found.excluded_end = problem.excluded + problem.excluded_offsets[query + 1];
  }
  for (int64_t probe = 0; probe < problem.probes && space.cells[probe] >= 0; ++probe) {
    const int32_t cell = space.cells[probe];
    each_panel(problem.panels, point, n_dimensions, problem.first_panels[cell], problem.first_panels[cell + 1],
               [&](const float *scores, int64_t first, int64_t n) {
                 if (!any_reaches(scores, n, found.threshold())) return;
                 for (int64_t i = 0; i < n; ++i) {
                   const Entry entry = {scores[i], problem.members[first + i]};
                   // Not a number is never a recommendation: the comparison is false for it.
                   if (!(entry.score >= found.threshold()) || entry.item < 0) continue;
                   if (problem.allowed && !problem.allowed[entry.item]) continue;
                   if (found.is_excluded(entry.item)) continue;
                   found.offer(entry);
                 }
               });
  }
  found.sort();
}

}  // namespace

void fill_cells(Table &table) { table.cells = {search}; }

}  // namespace TS_ISA
}  // namespace tastespace
