// Gradients of a logistic likelihood over what was chosen and what was drawn. Cells go by in blocks: first the draws,
// so that the rows they name are on their way, then scores, slopes, and the sum of the rows times the slopes.
#include <cmath>
#include <cstring>

#include "choices.hpp"
#include "lanes.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

constexpr int width = width_of<float>;
constexpr int at_once = 4;                  // rows whose inner products are summed together
constexpr int64_t block = 32;               // cells whose rows stay in the first-level cache
constexpr int32_t not_counted = -1;         // in place of a column that was drawn and had been chosen
constexpr float least_squares_sum = 1e-6f;  // a gradient of nothing is no step

struct Cells {
  int64_t n;
  int32_t columns[block];
  float weights[block], scores[block], slopes[block];
};

struct Slope {
  float chance, energy;  // 1 / (1 + exp(-s)), log(1 + exp(s))
};

// A power of 2 by a polynomial between -1/2 and 1/2, log(1 + e) = 2 atanh(e / (2 + e)) by its series: both nearly to
// the last digit of single precision, and without a branch, so that a compiler can take many at once.
TS_INLINE Slope slope_at(float score) {
  constexpr float magic = 12582912.0f;  // what is added to it is rounded to a whole number
  const float size = score < 0 ? -score : score, bounded = size < 80.0f ? size : 80.0f;
  const float power = bounded * -1.44269504088896341f, rounded = power + magic, f = power - (rounded - magic);
  float e = 1.54035304e-4f;
  e = e * f + 1.33335581e-3f;
  e = e * f + 9.61812911e-3f;
  e = e * f + 5.55041087e-2f;
  e = e * f + 2.40226507e-1f;
  e = e * f + 6.93147181e-1f;
  e = e * f + 1.0f;
  int32_t exponent, bits;
  std::memcpy(&exponent, &rounded, sizeof exponent);
  std::memcpy(&bits, &e, sizeof bits);
  bits += (exponent - 0x4B400000) * (1 << 23);
  std::memcpy(&e, &bits, sizeof e);  // exp(-|s|)
  const float larger = 1.0f / (1.0f + e), z = e / (2.0f + e), square = z * z;
  float series = 1.0f / 11;
  series = series * square + 1.0f / 9;
  series = series * square + 1.0f / 7;
  series = series * square + 1.0f / 5;
  series = series * square + 1.0f / 3;
  series = series * square + 1.0f;
  return {score < 0 ? e * larger : larger, 2 * z * series + (score < 0 ? 0.0f : score)};
}

// A random number of 64 bits times the number of columns: before the point the column, behind it what its share is
// compared with. No branches, which nobody could foretell.
void draw(const ColumnChances &chances, int64_t n, const uint8_t *is_chosen, int32_t *out, RandomStream &stream) {
  const uint64_t n_columns = uint64_t(chances.n_columns);
  for (int64_t k = 0; k < n; ++k) {
    const uint64_t bits = next(stream), place = (bits >> 32) * n_columns + ((bits & 0xffffffffu) * n_columns >> 32);
    const uint32_t column = uint32_t(place >> 32), share = chances.table[2 * column];
    const uint32_t alias = chances.table[2 * column + 1], is_other = -uint32_t(uint32_t(place) >= share);
    const uint32_t taken = column ^ ((column ^ alias) & is_other);
    out[k] = int32_t(taken | -uint32_t(is_chosen[taken]));
  }
}

int64_t padded_size(int64_t n_factors) { return padded<float>(n_factors); }

// Fills up to a whole number of groups with cells that do not count.
TS_INLINE void complete(Cells &cells) {
  for (; cells.n % at_once != 0; ++cells.n) {
    cells.columns[cells.n] = 0;
    cells.weights[cells.n] = 0;
  }
}

TS_INLINE void fetch(const ChoicesProblem &problem, int64_t size, const Cells &cells) {
  for (int64_t k = 0; k < cells.n; ++k) {
    [[maybe_unused]] const float *row = problem.other + cells.columns[k] * size;
    for (int64_t d = 0; d < size; d += 16) TS_PREFETCH(row + d);
  }
}

// Without biases and offset.
TS_INLINE void score(const ChoicesProblem &problem, int64_t size, const float *TS_RESTRICT point, Cells &cells) {
  for (int64_t k = 0; k < cells.n; k += at_once) {
    const float *rows[at_once];
    Lanes<float> sums[at_once];
    for (int r = 0; r < at_once; ++r) {
      rows[r] = problem.other + cells.columns[k + r] * size;
      sums[r] = load(rows[r]) * load(point);
    }
    for (int64_t d = width; d < size; d += width) {
      const Lanes<float> values = load(point + d);
      for (int r = 0; r < at_once; ++r) sums[r] += load(rows[r] + d) * values;
    }
    for (int r = 0; r < at_once; ++r) cells.scores[k + r] = sum<float>(sums[r]);
  }
}

// gradient += sum_k slope_k v_k
template <int Registers>
TS_INLINE void gather_strip(const float *TS_RESTRICT other, int64_t size, const Cells &cells,
                            float *TS_RESTRICT gradient) {
  Lanes<float> totals[Registers];
  for (int r = 0; r < Registers; ++r) totals[r] = load(gradient + r * width);
  for (int64_t k = 0; k < cells.n; ++k) {
    const float *row = other + cells.columns[k] * size;
    const float slope = cells.slopes[k];
    for (int r = 0; r < Registers; ++r) totals[r] += load(row + r * width) * slope;
  }
  for (int r = 0; r < Registers; ++r) store(gradient + r * width, totals[r]);
}

TS_INLINE void gather(const ChoicesProblem &problem, int64_t size, const Cells &cells, float *gradient) {
  int64_t d = 0;
  for (; d + 4 * width <= size; d += 4 * width) gather_strip<4>(problem.other + d, size, cells, gradient + d);
  if (d + 2 * width <= size) {
    gather_strip<2>(problem.other + d, size, cells, gradient + d);
    d += 2 * width;
  }
  if (d < size) gather_strip<1>(problem.other + d, size, cells, gradient + d);
}

// What a row has come to so far.
struct Sums {
  double energy;
  float bias_gradient;
};

// Adds the energy of cells, and its gradient. Sign -1: they were chosen; 1: they were not.
template <int Sign>
TS_INLINE void add(const ChoicesProblem &problem, int64_t size, float shift, Cells &cells, ChoicesWorkspace &space,
                   Sums &sums) {
  complete(cells);
  score(problem, size, space.point, cells);
  if (problem.other_bias)
    for (int64_t k = 0; k < cells.n; ++k) cells.scores[k] += problem.other_bias[cells.columns[k]];
  float energies[block];
  for (int64_t k = 0; k < cells.n; ++k) {
    const Slope slope = slope_at(float(Sign) * (cells.scores[k] + shift));
    cells.slopes[k] = float(Sign) * cells.weights[k] * slope.chance;
    energies[k] = cells.weights[k] * slope.energy;
  }
  gather(problem, size, cells, space.gradient);
  for (int64_t k = 0; k < cells.n; ++k) {
    sums.energy += double(energies[k]);
    sums.bias_gradient += cells.slopes[k];
  }
}

// One coordinate against its gradient.
TS_INLINE float moved(float value, float gradient, float rate, float &squares) {
  squares += gradient * gradient;
  return value - rate * gradient / sqrtf(squares + least_squares_sum);
}

// Draws n columns, leaves out those chosen, and sends for the rows of the others.
TS_INLINE void show(const ChoicesProblem &problem, int64_t row, int64_t size, int64_t n, const ChoicesWorkspace &space,
                    Cells &cells, RandomStream &stream) {
  int32_t drawn[block];
  draw(problem.chances, n, space.is_chosen, drawn, stream);
  const float row_weight = problem.row_weights[row];
  cells.n = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (drawn[k] == not_counted) continue;
    cells.columns[cells.n] = drawn[k];
    cells.weights[cells.n] = row_weight * problem.column_weights[drawn[k]];
    ++cells.n;
  }
  fetch(problem, size, cells);
}

// The part of the energy that the cells make, and its gradient.
TS_INLINE Sums look(const ChoicesProblem &problem, int64_t row, int64_t size, float shift, ChoicesWorkspace &space,
                    RandomStream &stream) {
  const int64_t begin = problem.offsets[row], end = problem.offsets[row + 1];
  Sums sums{0, 0};
  Cells cells;
  for (int64_t first = begin; first < end; first += block) {
    cells.n = end - first < block ? end - first : block;
    for (int64_t k = 0; k < cells.n; ++k) {
      cells.columns[k] = problem.columns[first + k];
      cells.weights[k] = problem.weights[first + k];
      space.is_chosen[cells.columns[k]] = 1;
    }
    fetch(problem, size, cells);
    add<-1>(problem, size, shift, cells, space, sums);
  }
  // Of the next cells while those at hand are looked at: their rows are then there.
  const int64_t n_drawn = problem.drawn_offsets[row + 1] - problem.drawn_offsets[row];
  Cells pair[2];
  if (n_drawn > 0) show(problem, row, size, n_drawn < block ? n_drawn : block, space, pair[0], stream);
  for (int64_t first = 0, at = 0; first < n_drawn; first += block, at = 1 - at) {
    const int64_t left = n_drawn - first - block;
    if (left > 0) show(problem, row, size, left < block ? left : block, space, pair[1 - at], stream);
    add<1>(problem, size, shift, pair[at], space, sums);
  }
  for (int64_t k = begin; k < end; ++k) space.is_chosen[problem.columns[k]] = 0;
  return sums;
}

void step(const ChoicesProblem &problem, int64_t row, ChoicesWorkspace &space, RandomStream &stream) {
  const int64_t n_factors = problem.n_factors, size = padded_size(n_factors);
  float *out = problem.out + row * n_factors, *squares = problem.squares + row * n_factors;
  for (int64_t d = 0; d < size; ++d) {
    space.point[d] = d < n_factors ? out[d] : 0.0f;
    space.gradient[d] = 0;
  }
  const float bias = problem.out_bias ? problem.out_bias[row] : 0.0f;
  const Sums sums = look(problem, row, size, problem.offset + bias, space, stream);
  double squared = 0;
  for (int64_t d = 0; d < n_factors; ++d) {
    const float value = space.point[d];
    squared += double(value) * value;
    out[d] = moved(value, space.gradient[d] + problem.ridge * value, problem.rate, squares[d]);
  }
  if (problem.out_bias)
    problem.out_bias[row] =
        moved(bias, sums.bias_gradient + problem.bias_ridge * bias, problem.rate, problem.bias_squares[row]);
  problem.energies[row] = sums.energy + 0.5 * (problem.ridge * squared + double(problem.bias_ridge) * bias * bias);
}

}  // namespace

void fill_choices(Table &table) { table.choices = {padded_size, draw, step}; }

}  // namespace TS_ISA
}  // namespace tastespace
