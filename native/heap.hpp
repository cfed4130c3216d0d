// The k best items seen so far, in the output rows of their query. For kernel files only: everything here belongs to
// one instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "lanes.hpp"

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

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
