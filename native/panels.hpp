// Scores of panels of points, a few panels at a time. For kernel files only: everything here belongs to one instruction
// set.
#pragma once

#include <cstdint>

#include "lanes.hpp"
#include "scan.hpp"

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
  if (panel + 2 <= last) {
    score_panels<2>(panels + panel * n_dimensions * scan_panel, query, n_dimensions, scores);
    offer(scores, panel * scan_panel, 2 * scan_panel);
    panel += 2;
  }
  if (panel < last) {
    score_panels<1>(panels + panel * n_dimensions * scan_panel, query, n_dimensions, scores);
    offer(scores, panel * scan_panel, scan_panel);
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
