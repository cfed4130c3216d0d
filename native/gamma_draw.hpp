// Draws of a gamma variable with rate 1 (Marsaglia and Tsang 2000). For kernel files only.
#pragma once

#include "random_stream.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

TS_INLINE double gamma_draw(double shape, RandomStream &stream, const RandomTables &tables) {
  // A shape below 1 is one above it, times a power of a uniform number.
  const double power = shape < 1 ? std::exp(-exponential(stream, tables) / shape) : 1.0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(stream, tables), root = 1 + c * x;
    if (!(root > 0)) continue;
    const double v = root * root * root;
    if (exponential(stream, tables) > d * (v - 1 - std::log(v)) - 0.5 * x * x) return power * d * v;
  }
}

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
