// Draws of a Polya-Gamma variable PG(1, c), which turns a logistic likelihood into a normal one (Polson, Scott and
// Windle 2013, section 4). For kernel files only.
//
// PG(1, c) is a quarter of a variable X with the density exp(-z^2 x / 2) sum_n (-1)^n a_n(x), z = |c| / 2, where
//
//   a_n(x) = pi (n + 1/2) (2 / (pi x))^(3/2) exp(-2 (n + 1/2)^2 / x)     for x <= t,
//   a_n(x) = pi (n + 1/2) exp(-(n + 1/2)^2 pi^2 x / 2)                   for x > t.
//
// The first term is the proposal: an inverse Gaussian left of t, an exponential right of it.
#pragma once

#include "random_stream.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

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

// Whether to propose right of t. Between lines from grid point to grid point the share is off by less than `slack`
// (h^2 / 8 times the largest second derivative, which is below 0.27); only a number so near is compared with the share
// itself. Beyond the grid the share is below 1e-17.
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
// numbers need no look at it.
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

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
