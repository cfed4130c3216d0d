// Draws of a normal variable that is known to lie in an interval, exact by rejection. For kernel files only.
#pragma once

#include "random_stream.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

// How far a standard normal variable lies beyond `low` > 0, given that it does, by at most `width`. Acceptance with
// probability exp(-h) is an exponential variable above h, so that no logarithm is taken. The exponential proposal is
// that of Robert (1995), whose rate is r = (low + sqrt(low^2 + 4)) / 2, hence r - low = 1 / r.
TS_INLINE double tail_excess(double low, double width, RandomStream &stream, const RandomTables &tables) {
  const double rate = 0.5 * (low + std::sqrt(low * low + 4));
  if (rate * width < 1.25) {  // about where half of the exponential proposals would fall beyond
    for (;;) {
      const double excess = width * uniform(stream);
      if (exponential(stream, tables) > excess * (low + 0.5 * excess)) return excess;
    }
  }
  const double inverse = 1 / rate;
  for (;;) {
    const double wait = exponential(stream, tables), excess = wait * inverse, off = (wait - 1) * inverse;
    if (excess <= width && 2 * exponential(stream, tables) > off * off) return excess;
  }
}

// A draw of N(mean, 1) given that it lies in (low, high]; either may be infinite. Far from the mean it is counted from
// the end of the interval, where the density is largest, so that no digits are lost.
TS_INLINE double truncated_normal(double mean, double low, double high, RandomStream &stream,
                                  const RandomTables &tables) {
  const double from = low - mean, to = high - mean, width = high - low;
  if (from > 0) return low + tail_excess(from, width, stream, tables);
  if (to < 0) return high - tail_excess(-to, width, stream, tables);
  if (width < 2) {
    for (;;) {
      const double x = from + width * uniform(stream);
      if (2 * exponential(stream, tables) > x * x) return mean + x;
    }
  }
  for (;;) {
    const double x = normal(stream, tables);
    if (x > from && x <= to) return mean + x;
  }
}

// As a T: rounding must not carry it over an end of the interval.
template <class T>
TS_INLINE T rounded_inside(double value, double low, double high) {
  T result = T(value);
  if (double(result) > high) result = std::nextafter(T(high), T(-HUGE_VAL));
  if (!(double(result) > low)) result = std::nextafter(T(low), T(HUGE_VAL));
  return result;
}

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
