// A stream of random numbers inside a kernel: for draws by rejection, which need an unknown number of them.
//
// A stream belongs to a place (a block of ratings, a user and draw) and not to a thread, so that the number of threads
// cannot change a result. The functions belong to one instruction set, like everything that kernel files share.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

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
  double inner[ziggurat_layers];       // the part further in is under the density: the width of the layer above
  double height[ziggurat_layers + 1];  // the density at the layer's outer edge; 1 at last
};

// The probability that a Polya-Gamma draw is proposed to the right of the point where its two proposals meet, on a grid
// of half scores.
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

// At least 0, below 1.
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
      beyond += ziggurat.inner[0];  // an exponential waiting time has no memory
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

// Draws of a Polya-Gamma variable PG(1, c), which turns a logistic likelihood into a normal one (Polson, Scott and
// Windle 2013, section 4). For kernel files only.
//
// PG(1, c) is a quarter of a variable X with the density exp(-z^2 x / 2) sum_n (-1)^n a_n(x), z = |c| / 2, where
//
//   a_n(x) = pi (n + 1/2) (2 / (pi x))^(3/2) exp(-2 (n + 1/2)^2 / x)     for x <= t,
//   a_n(x) = pi (n + 1/2) exp(-(n + 1/2)^2 pi^2 x / 2)                   for x > t.
//
// The first term is the proposal: an inverse Gaussian left of t, an exponential right of it.
constexpr double polya_gamma_meeting = 0.64;  // t
constexpr double pi_squared = 9.869604401089358;

// The share of the first term's mass that lies right of t.
TS_INLINE double polya_gamma_right(double z) {
  constexpr double t = polya_gamma_meeting, root_half = 0.7071067811865476;
  const double rate = pi_squared / 8 + 0.5 * z * z, scale = root_half / std::sqrt(t);
  const double right = 1.5707963267948966 / rate * std::exp(-rate * t);
  // 2 exp(-z) times the distribution function of the inverse Gaussian, whose two terms are normal ones.
  const double left = std::exp(-z) * std::erfc((1 - t * z) * scale) + std::exp(z) * std::erfc((1 + t * z) * scale);
  return right / (right + left);
}

// Whether to propose right of t. Linear interpolation of the share is off by less than `slack`
// (h^2 / 8 times the largest second derivative, which is below 0.27); only a number that close is compared with the
// share itself. Beyond the grid the share is below 1e-17.
TS_INLINE bool proposes_right(double z, RandomStream &stream, const RandomTables &tables) {
  constexpr double slack = 1e-5;
  const double at = z * (1 / polya_gamma_grid);
  if (!(at < polya_gamma_cells)) return false;
  const int cell = int(at);
  const double *share = tables.polya_gamma_right + cell;
  const double line = share[0] + (at - cell) * (share[1] - share[0]), number = uniform(stream);
  if (std::fabs(number - line) > slack) [[likely]]
    return number < line;
  return number < polya_gamma_right(z);
}

// The inverse Gaussian with mean 1/z and shape 1, up to t. With a small z, x = 1 / n^2 for a normal n beyond 1/sqrt(t),
// thinned by exp(-z^2 x / 2); both acceptances are one. Else Michael, Schucany and Haas (1976), in a form that loses no
// digits: the roots of their quadratic multiply to the square of the mean.
TS_INLINE double polya_gamma_left(double z, RandomStream &stream, const RandomTables &tables) {
  constexpr double t = polya_gamma_meeting, edge = 1.25;  // 1 / sqrt(t)
  constexpr double inverse_rate = 0.5542476415070755;     // 2 / (edge + sqrt(edge^2 + 4))
  if (z * t < 1) {
    for (;;) {
      const double wait = exponential(stream, tables), off = (wait - 1) * inverse_rate;
      const double n = edge + wait * inverse_rate, x = 1 / (n * n);
      if (2 * exponential(stream, tables) > off * off + z * z * x) return x;
    }
  }
  const double mean = 1 / z;
  for (;;) {
    const double n = normal(stream, tables), skew = mean * n * n;
    const double small = mean / (1 + 0.5 * skew + std::sqrt(skew + 0.25 * skew * skew));
    const double x = uniform(stream) * (mean + small) <= mean ? small : mean * (mean / small);
    if (x <= t) return x;
  }
}

// Whether the alternating series accepts x. Its second term is at most 0.0058 of the first, at x = t, so that most
// numbers do not need it.
TS_INLINE bool series_accepts(double x, RandomStream &stream) {
  const double number = uniform(stream);
  if (number < 0.99) [[likely]]
    return true;
  const double decay = x > polya_gamma_meeting ? -0.5 * pi_squared * x : -2 / x;
  double sum = 1;
  for (int n = 1;; ++n) {
    const double term = (2 * n + 1) * std::exp(decay * (n * (n + 1)));
    if (n % 2) {
      sum -= term;
      if (number <= sum) return true;
    } else {
      sum += term;
      if (number > sum) return false;
    }
  }
}

TS_INLINE double polya_gamma(double score, RandomStream &stream, const RandomTables &tables) {
  const double z = 0.5 * std::fabs(score);
  for (;;) {
    double x;
    if (proposes_right(z, stream, tables))
      x = polya_gamma_meeting + exponential(stream, tables) / (pi_squared / 8 + 0.5 * z * z);
    else
      x = polya_gamma_left(z, stream, tables);
    if (series_accepts(x, stream)) return 0.25 * x;
  }
}

// How far a standard normal variable lies beyond `low` > 0, given that it does, by at most `width`. Acceptance with
// probability exp(-h) is an exponential variable above h, so that no logarithm is taken. The exponential proposal is
// that of Robert (1995), whose rate is r = (low + sqrt(low^2 + 4)) / 2, hence r - low = 1 / r.
TS_INLINE double tail_excess(double low, double width, RandomStream &stream, const RandomTables &tables) {
  const double rate = 0.5 * (low + std::sqrt(low * low + 4));
  if (rate * width < 1.25) {  // about where half of the exponential proposals would exceed it
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

// The mixing of splitmix64 (Steele, Lea and Flood 2014): one bit changed changes half of them.
inline uint64_t mixed(uint64_t bits) {
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

// The stream of one place under one key: neighbouring keys and places have nothing in common.
inline RandomStream random_stream(uint64_t key, uint64_t place) {
  constexpr uint64_t golden = 0x9e3779b97f4a7c15u;
  uint64_t at = mixed(mixed(key + golden) + place);
  RandomStream stream;
  for (uint64_t &word : stream.word) word = mixed(at += golden);
  return stream;
}

// Fills the edges of the layers whose base has its corner at `edge`; false if they pass f(0) before the last.
template <class Density, class Inverse, class Tail>
bool layers_from(double edge, Density density, Inverse inverse, Tail tail, double (&edges)[ziggurat_layers + 1]) {
  const double area = edge * density(edge) + tail(edge);
  edges[0] = area / density(edge);
  edges[1] = edge;
  for (int layer = 1; layer < ziggurat_layers; ++layer) {
    const double top = density(edges[layer]) + area / edges[layer];
    if (top >= 1) return false;
    edges[layer + 1] = inverse(top);
  }
  return true;
}

// Layers of equal area, the last of which ends at f(0) = 1. Found by halving: a base too wide leaves room above.
template <class Density, class Inverse, class Tail>
Ziggurat make_ziggurat(double range, Density density, Inverse inverse, Tail tail) {
  double edges[ziggurat_layers + 1], low = 1, high = 16;
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (low + high);
    (layers_from(middle, density, inverse, tail, edges) ? high : low) = middle;
  }
  layers_from(high, density, inverse, tail, edges);
  edges[ziggurat_layers] = 0;
  Ziggurat ziggurat;
  for (int layer = 0; layer < ziggurat_layers; ++layer) {
    ziggurat.unit[layer] = edges[layer] / range;
    ziggurat.inner[layer] = edges[layer + 1];
    ziggurat.height[layer] = density(edges[layer]);
  }
  ziggurat.height[ziggurat_layers] = 1;
  return ziggurat;
}

inline RandomTables make_random_tables() {
  RandomTables tables;
  tables.normal = make_ziggurat(
      0x1p52, [](double x) { return std::exp(-0.5 * x * x); }, [](double y) { return std::sqrt(-2 * std::log(y)); },
      [](double x) { return std::sqrt(std::numbers::pi / 2) * std::erfc(x / std::numbers::sqrt2); });
  tables.exponential = make_ziggurat(
      0x1p53, [](double x) { return std::exp(-x); }, [](double y) { return -std::log(y); },
      [](double x) { return std::exp(-x); });
  for (int cell = 0; cell <= polya_gamma_cells; ++cell)
    tables.polya_gamma_right[cell] = TS_ISA::polya_gamma_right(cell * polya_gamma_grid);
  return tables;
}

inline const RandomTables &random_tables() {
  static const RandomTables tables = make_random_tables();
  return tables;
}

}  // namespace tastespace
