// The inner product of two rows. For kernel files only: everything here belongs to one instruction set.
#pragma once

#include "lanes.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

TS_INLINE float dot(const float *TS_RESTRICT left, const float *TS_RESTRICT right, int64_t n) {
  constexpr int width = width_of<float>;
  float total = 0;
  int64_t d = 0;
  if (n >= width) {
    Lanes<float> sums = load(left) * load(right);
    for (d = width; d + width <= n; d += width) sums += load(left + d) * load(right + d);
    total = sum<float>(sums);
  }
  for (; d < n; ++d) total += left[d] * right[d];
  return total;
}

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
