// The best cells by their centres, then the items of these cells, best cell first, straight into a heap.
#include "cells.hpp"
#include "heap.hpp"
#include "panels.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

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
