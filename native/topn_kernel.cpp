// The best items of a query. The scan is fused: scores of a panel of items for several queries in registers, then
// straight into their heaps.
#include "heap.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "topn.hpp"

namespace tastespace::TS_ISA::topn {
namespace {

// Offers the allowed ones of n contiguous items.
TS_INLINE void offer_items(const ScanProblem &problem, const float *scores, int64_t first, int64_t n, Heap &heap) {
  if (!any_reaches(scores, n, heap.threshold())) return;
  for (int64_t i = 0; i < n && first + i < problem.n_items; ++i) {
    const Entry entry = {scores[i], int32_t(first + i)};
    // Not a number is never a recommendation: the comparison is false for it.
    if (!(entry.score >= heap.threshold())) continue;
    if (problem.allowed && !problem.allowed[entry.item]) continue;
    if (heap.is_excluded(entry.item)) continue;
    heap.offer(entry);
  }
}

// The items of one panel, for several queries at once.
template <int Queries>
TS_INLINE void search_panel(const ScanProblem &problem, int64_t start, int64_t first, Heap *heaps) {
  constexpr int width = width_of<float>;
  const int64_t n_dimensions = problem.n_dimensions;
  const float *panel = problem.panels + start * n_dimensions, *queries = problem.queries + first * n_dimensions;
  Lanes<float> sums[Queries][registers];
  for (int q = 0; q < Queries; ++q)
    for (int r = 0; r < registers; ++r) sums[q][r] = Lanes<float>{};
  for (int64_t d = 0; d < n_dimensions; ++d) {
    Lanes<float> items[registers];
    for (int r = 0; r < registers; ++r) items[r] = load(panel + d * scan_panel + r * width);
    for (int q = 0; q < Queries; ++q)
      for (int r = 0; r < registers; ++r) sums[q][r] += items[r] * queries[q * n_dimensions + d];
  }
  for (int q = 0; q < Queries; ++q) {
    float scores[scan_panel];
    for (int r = 0; r < registers; ++r) store(scores + r * width, sums[q][r]);
    offer_items(problem, scores, start, scan_panel, heaps[q]);
  }
}

// A panel is scored for all queries while it is in the cache. Every score is one sum, coordinate by coordinate,
// whatever other queries there are.
void search(const ScanProblem &problem, int64_t first, int64_t n) {
  Heap heaps[scan_queries * scan_groups];
  for (int64_t q = 0; q < n; ++q) {
    const int64_t query = first + q;
    heaps[q] = {
        problem.out_scores + query * problem.k, problem.out_items + query * problem.k, 0, problem.k, nullptr, nullptr};
    if (problem.excluded_offsets) {
      heaps[q].excluded = problem.excluded + problem.excluded_offsets[query];
      heaps[q].excluded_end = problem.excluded + problem.excluded_offsets[query + 1];
    }
  }
  const int64_t paired = n - n % 2;
  for (int64_t start = 0; start < problem.n_items && paired; start += scan_panel) {
    int64_t q = 0;
    for (; q + scan_queries <= n; q += scan_queries)
      search_panel<int(scan_queries)>(problem, start, first + q, heaps + q);
    for (; q + 4 <= n; q += 4) search_panel<4>(problem, start, first + q, heaps + q);
    for (; q + 2 <= n; q += 2) search_panel<2>(problem, start, first + q, heaps + q);
  }
  if (paired < n) {  // One alone takes several panels at once.
    const int64_t n_panels = (problem.n_items + scan_panel - 1) / scan_panel;
    each_panel(problem.panels, problem.queries + (first + paired) * problem.n_dimensions, problem.n_dimensions, 0,
               n_panels, [&](const float *scores, int64_t place, int64_t count) {
                 offer_items(problem, scores, place, count, heaps[paired]);
               });
  }
  for (int64_t q = 0; q < n; ++q) heaps[q].sort();
}

// Several panels of items and several queries: enough sums that none waits for another.
template <int Queries, int Panels>
TS_INLINE void moments_of(const MomentsProblem &problem, int64_t panel, int64_t first) {
  constexpr int width = width_of<float>;
  const int64_t n_draws = problem.n_draws, n_dimensions = n_draws * problem.width;
  const float *panels = problem.panels + panel * scan_panel * n_dimensions;
  Lanes<float> means[Queries][Panels][registers], squares[Queries][Panels][registers];
  for (int q = 0; q < Queries; ++q)
    for (int p = 0; p < Panels; ++p)
      for (int r = 0; r < registers; ++r) means[q][p][r] = squares[q][p][r] = Lanes<float>{};
  for (int64_t draw = 0; draw < n_draws; ++draw) {
    Lanes<float> sums[Queries][Panels][registers];
    for (int q = 0; q < Queries; ++q)
      for (int p = 0; p < Panels; ++p)
        for (int r = 0; r < registers; ++r) sums[q][p][r] = filled(problem.offsets[(first + q) * n_draws + draw]);
    for (int64_t d = draw * problem.width; d < (draw + 1) * problem.width; ++d)
      for (int p = 0; p < Panels; ++p)
        for (int r = 0; r < registers; ++r) {
          const Lanes<float> items = load(panels + (p * n_dimensions + d) * scan_panel + r * width);
          for (int q = 0; q < Queries; ++q) sums[q][p][r] += items * problem.queries[(first + q) * n_dimensions + d];
        }
    for (int q = 0; q < Queries; ++q) {
      const float weight = problem.weights[(first + q) * n_draws + draw];
      for (int p = 0; p < Panels; ++p)
        for (int r = 0; r < registers; ++r) {
          const Lanes<float> weighted = sums[q][p][r] * weight;
          means[q][p][r] += weighted;
          squares[q][p][r] += weighted * sums[q][p][r];
        }
    }
  }
  for (int q = 0; q < Queries; ++q)
    for (int p = 0; p < Panels; ++p) {
      float of_means[scan_panel], of_squares[scan_panel];
      for (int r = 0; r < registers; ++r) {
        store(of_means + r * width, means[q][p][r]);
        store(of_squares + r * width, squares[q][p][r]);
      }
      const int64_t start = (panel + p) * scan_panel, at = (first + q) * problem.n_items + start;
      for (int64_t i = 0; i < scan_panel && start + i < problem.n_items; ++i) {
        problem.out_means[at + i] = of_means[i];
        problem.out_squares[at + i] = of_squares[i];
      }
    }
}

void moments(const MomentsProblem &problem, int64_t first, int64_t n) {
  const int64_t n_panels = (problem.n_items + scan_panel - 1) / scan_panel, many = n - n % 4;
  for (int64_t panel = 0; panel < n_panels && many; ++panel)
    for (int64_t q = 0; q < many; q += 4) moments_of<4, 1>(problem, panel, first + q);
  for (int64_t q = many; q < n; ++q) {
    int64_t panel = 0;
    for (; panel + 4 <= n_panels; panel += 4) moments_of<1, 4>(problem, panel, first + q);
    for (; panel < n_panels; ++panel) moments_of<1, 1>(problem, panel, first + q);
  }
}

constexpr int64_t ahead = 8;  // candidates that are being prefetched

// The first lines of a row: the processor prefetches those that follow.
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
  table.scan = {search, moments};
  table.candidates = {rank, project};
  table.cells = {search};
}

}  // namespace tastespace::TS_ISA::topn
