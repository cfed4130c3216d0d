// The best items of a query. The scan is fused: scores of a panel of items for several queries in registers, then
// straight into their heaps.
#include "heap.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "topn.hpp"

namespace tastespace::TS_ISA::topn {
namespace {

template <int Queries>
TS_INLINE void search_queries(const ScanProblem &problem, int64_t first) {
  constexpr int width = width_of<float>;
  const int64_t n_dimensions = problem.n_dimensions;
  Heap heaps[Queries];
  for (int q = 0; q < Queries; ++q) {
    const int64_t query = first + q;
    heaps[q] = {
        problem.out_scores + query * problem.k, problem.out_items + query * problem.k, 0, problem.k, nullptr, nullptr};
    if (problem.excluded_offsets) {
      heaps[q].excluded = problem.excluded + problem.excluded_offsets[query];
      heaps[q].excluded_end = problem.excluded + problem.excluded_offsets[query + 1];
    }
  }
  const float *queries = problem.queries + first * n_dimensions;
  for (int64_t start = 0; start < problem.n_items; start += scan_panel) {
    const float *panel = problem.panels + start * n_dimensions;
    Lanes<float> sums[Queries][registers];
    for (int q = 0; q < Queries; ++q)
      for (int r = 0; r < registers; ++r) sums[q][r] = Lanes<float>{};
    for (int64_t d = 0; d < n_dimensions; ++d) {
      Lanes<float> items[registers];
      for (int r = 0; r < registers; ++r) items[r] = load(panel + d * scan_panel + r * width);
      for (int q = 0; q < Queries; ++q)
        for (int r = 0; r < registers; ++r) sums[q][r] += items[r] * queries[q * n_dimensions + d];
    }
    const int64_t n = problem.n_items - start < scan_panel ? problem.n_items - start : scan_panel;
    for (int q = 0; q < Queries; ++q) {
      float scores[scan_panel];
      for (int r = 0; r < registers; ++r) store(scores + r * width, sums[q][r]);
      const float threshold = heaps[q].threshold();
      int any = 0;
      for (int i = 0; i < scan_panel; ++i) any |= scores[i] >= threshold;
      if (!any) continue;
      for (int64_t i = 0; i < n; ++i) {
        const Entry entry = {scores[i], int32_t(start + i)};
        // Not a number is never a recommendation: the comparison is false for it.
        if (!(entry.score >= heaps[q].threshold())) continue;
        if (problem.allowed && !problem.allowed[entry.item]) continue;
        if (heaps[q].is_excluded(entry.item)) continue;
        heaps[q].offer(entry);
      }
    }
  }
  for (int q = 0; q < Queries; ++q) heaps[q].sort();
}

void search(const ScanProblem &problem, int64_t first, int64_t n) {
  if (n == scan_queries) return search_queries<int(scan_queries)>(problem, first);
  for (int64_t q = 0; q < n; ++q) search_queries<1>(problem, first + q);
}

constexpr int64_t ahead = 8;  // candidates that are on their way from memory

// The first lines of a row: the processor fetches those that follow by itself.
TS_INLINE void fetch([[maybe_unused]] const float *row, int64_t n) {
  constexpr int64_t line = 16;
  for (int64_t d = 0; d < n && d < 4 * line; d += line) TS_PREFETCH(row + d);
}

void rank(const CandidatesProblem &problem, int64_t query) {
  const int64_t n = problem.n_dimensions;
  const float *point = problem.queries + query * n;
  int64_t first = 0, last = problem.n_candidates;
  if (problem.candidate_offsets) {
    first = problem.candidate_offsets[query];
    last = problem.candidate_offsets[query + 1];
  }
  Heap found{
      problem.out_scores + query * problem.k, problem.out_items + query * problem.k, 0, problem.k, nullptr, nullptr};
  if (problem.excluded_offsets) {
    found.excluded = problem.excluded + problem.excluded_offsets[query];
    found.excluded_end = problem.excluded + problem.excluded_offsets[query + 1];
  }
  for (int64_t i = first; i < last; ++i) {
    if (i + ahead < last && problem.candidates[i + ahead] >= 0)
      fetch(problem.vectors + int64_t(problem.candidates[i + ahead]) * n, n);
    const int32_t item = problem.candidates[i];
    if (item < 0) continue;
    const Entry entry = {inner_product(point, problem.vectors + int64_t(item) * n, n), item};
    // Not a number is never a recommendation: the comparison is false for it.
    if (!(entry.score >= found.threshold()) || found.is_excluded(item)) continue;
    found.offer(entry);
  }
  found.sort();
}

template <int Registers>
TS_INLINE void project_strip(const float *TS_RESTRICT query, const float *TS_RESTRICT matrix, int64_t n, int64_t n_out,
                             float *TS_RESTRICT out) {
  constexpr int width = width_of<float>;
  Lanes<float> sums[Registers];
  for (int r = 0; r < Registers; ++r) sums[r] = Lanes<float>{};
  for (int64_t d = 0; d < n; ++d)
    for (int r = 0; r < Registers; ++r) sums[r] += load(matrix + d * n_out + r * width) * query[d];
  for (int r = 0; r < Registers; ++r) store(out + r * width, sums[r]);
}

void project(const float *query, const float *matrix, int64_t n, int64_t n_out, float *out) {
  constexpr int width = width_of<float>;
  int64_t o = 0;
  for (; o + 4 * width <= n_out; o += 4 * width) project_strip<4>(query, matrix + o, n, n_out, out + o);
  for (; o + width <= n_out; o += width) project_strip<1>(query, matrix + o, n, n_out, out + o);
  for (; o < n_out; ++o) {
    float total = 0;
    for (int64_t d = 0; d < n; ++d) total += matrix[d * n_out + o] * query[d];
    out[o] = total;
  }
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

void fill(Table &table) {
  table.scan = {search};
  table.candidates = {rank, project};
  table.cells = {search};
}

}  // namespace tastespace::TS_ISA::topn
