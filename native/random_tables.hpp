// What the streams of random numbers start from: seeds of places, and tables computed once.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "polya_gamma.hpp"
#include "random_stream.hpp"

namespace tastespace {

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
