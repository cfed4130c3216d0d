// A stream of random numbers inside a kernel: for draws by rejection, which need an unknown number of them.
//
// A stream belongs to a place (a block of ratings, a user and draw) and not to a thread, so that the number of threads
// cannot change a result. The functions belong to one instruction set, as all that kernel files share.
#pragma once

#include <cmath>
#include <cstdint>

#include "lanes.hpp"

namespace tastespace {

// The state of xoshiro256++ (Blackman and Vigna 2021).
struct RandomStream {
  uint64_t word[4];
};

// Layers of equal area under a falling density f with f(0) = 1 (Marsaglia and Tsang 2000). Layer 0 has the tail.
constexpr int ziggurat_layers = 256;
struct Ziggurat {
  double unit[ziggurat_layers];        // the layer's width over the range of the integer that is scaled to it
  double inner[ziggurat_layers];       // what lies further in is under the density: the width of the layer above
  double height[ziggurat_layers + 1];  // the density at the layer's outer edge; 1 at last
};

// The chance that a Polya-Gamma draw is proposed right of where its two proposals meet, on a grid of half scores.
constexpr int polya_gamma_cells = 768;
constexpr double polya_gamma_grid = 1.0 / 64;
struct RandomTables {
  Ziggurat normal;       // integers of 53 bits with their sign
  Ziggurat exponential;  // integers of 53 bits
  double polya_gamma_right[polya_gamma_cells + 1];
};

namespace TS_ISA {
namespace {

TS_INLINE uint64_t rotate(uint64_t bits, int by) { return bits << by | bits >> (64 - by); }

TS_INLINE uint64_t next(RandomStream &stream) {
  uint64_t *word = stream.word;
  const uint64_t result = rotate(word[0] + word[3], 23) + word[0], shifted = word[1] << 17;
  word[2] ^= word[0];
  word[3] ^= word[1];
  word[1] ^= word[2];
  word[0] ^= word[3];
  word[2] ^= shifted;
  word[3] = rotate(word[3], 45);
  return result;
}

// From 0 on, below 1.
TS_INLINE double uniform(RandomStream &stream) { return double(int64_t(next(stream) >> 11)) * 0x1p-53; }

TS_INLINE double exponential(RandomStream &stream, const RandomTables &tables) {
  const Ziggurat &ziggurat = tables.exponential;
  for (double beyond = 0;;) {
    // The layer and the place in it are of different bits.
    const uint64_t bits = next(stream);
    const int layer = int(bits & (ziggurat_layers - 1));
    const double x = double(int64_t(bits >> 11)) * ziggurat.unit[layer];
    if (x < ziggurat.inner[layer]) [[likely]]
      return beyond + x;
    if (layer == 0) {
      beyond += ziggurat.inner[0];  // what is left of an exponential waiting time is as long as ever
      continue;
    }
    const double low = ziggurat.height[layer], high = ziggurat.height[layer + 1];
    if (low + (high - low) * uniform(stream) < std::exp(-x)) return beyond + x;
  }
}

TS_INLINE double normal(RandomStream &stream, const RandomTables &tables) {
  const Ziggurat &ziggurat = tables.normal;
  for (;;) {
    const uint64_t bits = next(stream);
    const int layer = int(bits & (ziggurat_layers - 1));
    const double x = double(int64_t(bits) >> 11) * ziggurat.unit[layer];
    if (std::fabs(x) < ziggurat.inner[layer]) [[likely]]
      return x;
    if (layer == 0) {
      const double edge = ziggurat.inner[0];
      for (;;) {
        const double excess = exponential(stream, tables) / edge;
        if (2 * exponential(stream, tables) > excess * excess) return x < 0 ? -edge - excess : edge + excess;
      }
    }
    const double low = ziggurat.height[layer], high = ziggurat.height[layer + 1];
    if (low + (high - low) * uniform(stream) < std::exp(-0.5 * x * x)) return x;
  }
}

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
