// Fused scan: scores of a panel of items for several queries in registers, then straight into their heaps.
#include <cmath>

#include "lanes.hpp"
#include "scan.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

constexpr int registers = int(scan_panel) / width_of<float>;

struct Entry {
  float score;
  int32_t item;
};

// Worse: a smaller score or, at the same score, a later item. So results do not depend on the scan's order.
TS_INLINE bool worse(Entry left, Entry right) {
  return left.score < right.score || (left.score == right.score && left.item > right.item);
}

// A heap with the worst entry on top, kept in the two output rows of its query.
struct Heap {
  float *scores;
  int32_t *items;
  int64_t size, capacity;
  const int32_t *excluded, *excluded_end;

  TS_INLINE Entry at(int64_t i) const { return {scores[i], items[i]}; }
  TS_INLINE void put(int64_t i, Entry entry) {
    scores[i] = entry.score;
    items[i] = entry.item;
  }
  TS_INLINE float threshold() const { return size < capacity ? -HUGE_VALF : scores[0]; }

  bool is_excluded(int32_t item) const {
    const int32_t *low = excluded, *high = excluded_end;
    while (low < high) {
      const int32_t *middle = low + (high - low) / 2;
      if (*middle < item)
        low = middle + 1;
      else
        high = middle;
    }
    return low < excluded_end && *low == item;
  }

  void sink(int64_t hole, int64_t end, Entry entry) {
    for (int64_t child = 2 * hole + 1; child < end; child = 2 * hole + 1) {
      if (child + 1 < end && worse(at(child + 1), at(child))) ++child;
      if (!worse(at(child), entry)) break;
      put(hole, at(child));
      hole = child;
    }
    put(hole, entry);
  }

  void offer(Entry entry) {
    if (size < capacity) {
      int64_t hole = size++;
      while (hole > 0 && worse(entry, at((hole - 1) / 2))) {
        put(hole, at((hole - 1) / 2));
        hole = (hole - 1) / 2;
      }
      put(hole, entry);
    } else if (worse(at(0), entry)) {
      sink(0, size, entry);
    }
  }

  // Best first: take the worst off to the end, again and again.
  void sort() {
    for (int64_t end = size - 1; end > 0; --end) {
      const Entry last = at(end);
      put(end, at(0));
      sink(0, end, last);
    }
    for (int64_t i = size; i < capacity; ++i) put(i, {-HUGE_VALF, -1});
  }
};

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
