// The log likelihood of a rating as a function of its score, as a parabola: what brings a belief near its mode.
#pragma once

#include <algorithm>
#include <cmath>

namespace tastespace {

// Touches the log likelihood at a score: its slope, and a curvature that is safe to go by.
struct Parabola {
  double slope, curvature;
};

constexpr double least_curvature = 1e-4;

// The chance to fall between two ends that are low and high above the score: Phi(high) - Phi(low); infinite ends.
inline Parabola level_parabola(double low, double high) {
  constexpr double root = 0.70710678118654752440, scale = 0.39894228040143267794;
  const bool turned = low > 0;  // the lower tail has more digits
  const double from = turned ? -high : low, to = turned ? -low : high;
  const double chance = 0.5 * (std::erfc(-to * root) - std::erfc(-from * root));
  if (!(chance > 1e-280)) return {low > 0 ? low : high, 1.0};  // beyond all digits: straight to the nearer end
  const double at_low = std::isinf(low) ? 0 : scale * std::exp(-0.5 * low * low);
  const double at_high = std::isinf(high) ? 0 : scale * std::exp(-0.5 * high * high);
  const double slope = (at_low - at_high) / chance;
  const double bend = ((std::isinf(high) ? 0 : high * at_high) - (std::isinf(low) ? 0 : low * at_low)) / chance;
  return {slope, std::min(1.0, std::max(least_curvature, slope * slope + bend))};
}

// Yes or no by a logistic link. Where the score has the wrong sign the curvature is that of a bound from below: the
// true one is next to nothing there, and a step by it would go far too far.
inline Parabola logistic_parabola(double score, bool yes) {
  const double chance = 1 / (1 + std::exp(-score)), half = 0.5 * std::fabs(score);
  const double bound = half < 1e-4 ? 0.25 : std::tanh(half) / (4 * half);
  const double curvature = (score > 0) == yes ? chance * (1 - chance) : bound;
  return {(yes ? 1.0 : 0.0) - chance, std::max(least_curvature, curvature)};
}

}  // namespace tastespace
