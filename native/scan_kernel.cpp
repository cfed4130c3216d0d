// Fused scan: scores of a panel of items for several queries in registers, then straight into their heaps.
#include "heap.hpp"
#include "lanes.hpp"
#include "scan.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

constexpr int registers = int(scan_panel) / width_of<float>;

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

}  // namespace

void fill_scan(Table &table) { table.scan = {search}; }

}  // namespace TS_ISA
}  // namespace tastespace
