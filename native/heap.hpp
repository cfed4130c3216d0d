// The k best items seen so far, in the output rows of their query. For kernel files only: everything here belongs to
// one instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "lanes.hpp"
#include "topn.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

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

  // Best first: repeatedly moves the worst to the end.
  void sort() {
    for (int64_t end = size - 1; end > 0; --end) {
      const Entry last = at(end);
      put(end, at(0));
      sink(0, end, last);
    }
    for (int64_t i = size; i < capacity; ++i) put(i, {-HUGE_VALF, -1});
  }
};

constexpr int registers = int(scan_panel) / width_of<float>;

// Scores of the items of panels that lie one after the other: one alone would wait for its own sums.
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
  float scores[4 * scan_panel];
  for (int64_t panel = first, n; panel < last; panel += n) {
    const float *from = panels + panel * n_dimensions * scan_panel;
    n = last - panel >= 4 ? 4 : last - panel >= 2 ? 2 : 1;
    if (n == 4)
      score_panels<4>(from, query, n_dimensions, scores);
    else if (n == 2)
      score_panels<2>(from, query, n_dimensions, scores);
    else
      score_panels<1>(from, query, n_dimensions, scores);
    offer(scores, panel * scan_panel, n * scan_panel);
  }
}

TS_INLINE bool any_reaches(const float *scores, int64_t n, float threshold) {
  int any = 0;
  for (int64_t i = 0; i < n; ++i) any |= scores[i] >= threshold;
  return any != 0;
}

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
