// Conjugate gradients for the rows of one-class data. In coordinates in which the Gram matrix of the other side is
// diagonal, a step takes two multiplications per factor and observation, and nothing that grows with the factors'
// square.
#include <cmath>
#include <cstring>

#include "implicit.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "tiles.hpp"

namespace tastespace::TS_ISA::implicit {
namespace {

constexpr int width = width_of<float>;
constexpr int at_once = 4;  // rows whose inner products are summed together
// Of the squared residual, as a share of the first one: the rest is rounding.
constexpr float small = 1e-12f;

// Rated rows side by side, zero beyond the factors.
TS_INLINE void gather(const ConjugateProblem &problem, int64_t begin, int64_t n, int64_t size, float *gathered) {
  constexpr int64_t look_ahead = 8;
  const int64_t n_factors = problem.n_factors, whole = n_factors / width * width;
  const int32_t *columns = problem.columns + begin;
  for (int64_t k = 0; k < n; ++k) {
    if (k + look_ahead < n) {
      const float *ahead = problem.other + int64_t(columns[k + look_ahead]) * n_factors;
      for (int64_t d = 0; d < n_factors; d += 16) TS_PREFETCH(ahead + d);
    }
    const float *from = problem.other + int64_t(columns[k]) * n_factors;
    float *to = gathered + k * size;
    for (int64_t d = 0; d < whole; d += width) store(to + d, load(from + d));
    for (int64_t d = whole; d < n_factors; ++d) to[d] = from[d];
    for (int64_t d = n_factors; d < size; ++d) to[d] = 0;
  }
}

// out += sum_k factor(k, v_k.point) v_k over rows that lie side by side.
template <int Rows, class Factor>
TS_INLINE void pass_rows(const float *TS_RESTRICT rows, int64_t size, int64_t k, const float *TS_RESTRICT point,
                         float *TS_RESTRICT out, Factor factor) {
  Lanes<float> sums[Rows];
  for (int r = 0; r < Rows; ++r) sums[r] = load(rows + r * size) * load(point);
  for (int64_t d = width; d < size; d += width) {
    const Lanes<float> values = load(point + d);
    for (int r = 0; r < Rows; ++r) sums[r] += load(rows + r * size + d) * values;
  }
  float factors[Rows];
  for (int r = 0; r < Rows; ++r) factors[r] = factor(k + r, sum<float>(sums[r]));
  for (int64_t d = 0; d < size; d += width) {
    Lanes<float> total = load(out + d);
    for (int r = 0; r < Rows; ++r) total += load(rows + r * size + d) * factors[r];
    store(out + d, total);
  }
}

template <class Factor>
TS_INLINE void pass(const float *rows, int64_t n, int64_t size, const float *point, float *out, Factor factor) {
  int64_t k = 0;
  for (; k + at_once <= n; k += at_once) pass_rows<at_once>(rows + k * size, size, k, point, out, factor);
  for (; k < n; ++k) pass_rows<1>(rows + k * size, size, k, point, out, factor);
}

TS_INLINE float dot(const float *TS_RESTRICT left, const float *TS_RESTRICT right, int64_t size) {
  Lanes<float> sums = load(left) * load(right);
  for (int64_t d = width; d < size; d += width) sums += load(left + d) * load(right + d);
  return sum<float>(sums);
}

int64_t padded_size(int64_t n_factors) { return padded_factors<float>(n_factors); }

void descend(const ConjugateProblem &problem, int64_t row, ConjugateWorkspace &space) {
  const int64_t begin = problem.offsets[row], n = problem.offsets[row + 1] - begin;
  const int64_t n_factors = problem.n_factors, size = padded_size(n_factors);
  const float *weights = problem.weights + begin, *pulls = problem.pulls + begin;
  float *x = space.vectors, *diagonal = x + size, *inverse = diagonal + size, *residual = inverse + size;
  float *direction = residual + size, *product = direction + size, *out = problem.out + row * n_factors;
  const float ridge = problem.ridge[row];
  const float *linear = problem.linear ? problem.linear + row * problem.linear_stride : nullptr;
  gather(problem, begin, n, size, space.gathered);
  for (int64_t d = 0; d < n_factors; ++d) {
    x[d] = out[d];
    diagonal[d] = problem.diagonal[d] + ridge;
    residual[d] = (linear ? linear[d] : 0.0f) - diagonal[d] * x[d];
    inverse[d] = diagonal[d];
  }
  for (int64_t d = n_factors; d < size; ++d) x[d] = diagonal[d] = residual[d] = inverse[d] = 0;
  // b - A x, and the diagonal of A: what steps are scaled by.
  pass(space.gathered, n, size, x, residual, [&](int64_t k, float score) { return pulls[k] - weights[k] * score; });
  for (int64_t k = 0; k < n; ++k) {
    const float *values = space.gathered + k * size;
    for (int64_t d = 0; d < size; d += width) {
      const Lanes<float> value = load(values + d);
      store(inverse + d, load(inverse + d) + value * value * weights[k]);
    }
  }
  for (int64_t d = 0; d < size; ++d) {
    inverse[d] = inverse[d] > 0 ? 1.0f / inverse[d] : 0.0f;
    direction[d] = inverse[d] * residual[d];
  }
  float left = dot(residual, direction, size);
  const float first = left;
  for (int step = 0; step < problem.steps && left > small * first; ++step) {
    for (int64_t d = 0; d < size; d += width) store(product + d, load(diagonal + d) * load(direction + d));
    pass(space.gathered, n, size, direction, product, [&](int64_t k, float score) { return weights[k] * score; });
    const float bend = dot(direction, product, size);
    if (!(bend > 0)) break;
    const float along = left / bend;
    for (int64_t d = 0; d < size; d += width) {
      store(x + d, load(x + d) + load(direction + d) * along);
      store(residual + d, load(residual + d) - load(product + d) * along);
    }
    for (int64_t d = 0; d < size; d += width) store(product + d, load(inverse + d) * load(residual + d));
    const float next = dot(residual, product, size);
    const float again = next / left;
    for (int64_t d = 0; d < size; d += width) store(direction + d, load(product + d) + load(direction + d) * again);
    left = next;
  }
  for (int64_t d = 0; d < n_factors; ++d) out[d] = x[d];
}

void rotate(const float *points, int64_t n, int64_t n_factors, const float *matrix, float *scratch, float *out) {
  const int64_t size = padded_size(n_factors);
  float *turned = scratch, *products = scratch + rotated_rows * size;
  for (int64_t d = 0; d < n_factors; ++d)
    for (int64_t r = 0; r < rotated_rows; ++r) turned[d * rotated_rows + r] = r < n ? points[r * n_factors + d] : 0.0f;
  for (int64_t i = 0; i < rotated_rows * size; ++i) products[i] = 0;
  for (int64_t r = 0; r < rotated_rows; r += tile_rows)
    strip<float, 1, tile_rows>(n_factors, turned + r, rotated_rows, matrix, size, products + r * size, 0, size / width);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t d = 0; d < n_factors; ++d) out[r * n_factors + d] = products[r * size + d];
}

// Gradients of a logistic likelihood over what was chosen and what was drawn. Cells are processed in blocks: first the
// draws, so that their rows are prefetched, then scores, slopes, and the sum of the rows times the slopes.

constexpr int64_t block = 32;               // cells whose rows stay in the first-level cache
constexpr int32_t not_counted = -1;         // in place of a column that was drawn and had been chosen
constexpr float least_squares_sum = 1e-6f;  // avoids a division by zero

struct Cells {
  int64_t n;
  int32_t columns[block];
  float weights[block], scores[block], slopes[block];
};

struct Slope {
  float chance, energy;  // 1 / (1 + exp(-s)), log(1 + exp(s))
};

// A power of 2 by a polynomial between -1/2 and 1/2, log(1 + e) = 2 atanh(e / (2 + e)) by its series: both nearly exact
// in single precision, and without a branch, so that a compiler can vectorise them.
TS_INLINE Slope slope_at(float score) {
  constexpr float magic = 12582912.0f;  // adding it rounds to a whole number
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

// A random number of 64 bits times the number of columns: the integer part is the column, the fraction is compared with
// its share. No branches, which could not be predicted.
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

int64_t padded_row(int64_t n_factors) { return padded<float>(n_factors); }

// Fills up to a whole number of groups with cells that do not count.
TS_INLINE void complete(Cells &cells) {
  for (; cells.n % at_once != 0; ++cells.n) {
    cells.columns[cells.n] = 0;
    cells.weights[cells.n] = 0;
  }
}

TS_INLINE void fetch(const LogisticProblem &problem, int64_t size, const Cells &cells) {
  for (int64_t k = 0; k < cells.n; ++k) {
    [[maybe_unused]] const float *row = problem.other + cells.columns[k] * size;
    for (int64_t d = 0; d < size; d += 16) TS_PREFETCH(row + d);
  }
}

// Without biases and offset.
TS_INLINE void score(const LogisticProblem &problem, int64_t size, const float *TS_RESTRICT point, Cells &cells) {
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

TS_INLINE void gather(const LogisticProblem &problem, int64_t size, const Cells &cells, float *gradient) {
  int64_t d = 0;
  for (; d + 4 * width <= size; d += 4 * width) gather_strip<4>(problem.other + d, size, cells, gradient + d);
  if (d + 2 * width <= size) {
    gather_strip<2>(problem.other + d, size, cells, gradient + d);
    d += 2 * width;
  }
  if (d < size) gather_strip<1>(problem.other + d, size, cells, gradient + d);
}

// Sums of a row so far.
struct Sums {
  double energy;
  float bias_gradient;
};

// Adds the energy of cells, and its gradient. Sign -1: they were chosen; 1: they were not.
TS_CALLED void add(float sign, const LogisticProblem &problem, int64_t size, float shift, Cells &cells,
                   LogisticWorkspace &space, Sums &sums) {
  complete(cells);
  score(problem, size, space.point, cells);
  if (problem.other_bias)
    for (int64_t k = 0; k < cells.n; ++k) cells.scores[k] += problem.other_bias[cells.columns[k]];
  float energies[block];
  for (int64_t k = 0; k < cells.n; ++k) {
    const Slope slope = slope_at(sign * (cells.scores[k] + shift));
    cells.slopes[k] = sign * cells.weights[k] * slope.chance;
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

// Draws n columns, leaves out those chosen, and prefetches the rows of the others.
TS_INLINE void show(const LogisticProblem &problem, int64_t row, int64_t size, int64_t n,
                    const LogisticWorkspace &space, Cells &cells, RandomStream &stream) {
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

// The part of the energy from the cells, and its gradient.
TS_INLINE Sums look(const LogisticProblem &problem, int64_t row, int64_t size, float shift, LogisticWorkspace &space,
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
    add(-1, problem, size, shift, cells, space, sums);
  }
  // Draws the next cells while the current ones are processed, so that their rows are loaded in time.
  const int64_t n_drawn = problem.drawn_offsets[row + 1] - problem.drawn_offsets[row];
  Cells pair[2];
  if (n_drawn > 0) show(problem, row, size, n_drawn < block ? n_drawn : block, space, pair[0], stream);
  for (int64_t first = 0, at = 0; first < n_drawn; first += block, at = 1 - at) {
    const int64_t left = n_drawn - first - block;
    if (left > 0) show(problem, row, size, left < block ? left : block, space, pair[1 - at], stream);
    add(1, problem, size, shift, pair[at], space, sums);
  }
  for (int64_t k = begin; k < end; ++k) space.is_chosen[problem.columns[k]] = 0;
  return sums;
}

void step(const LogisticProblem &problem, int64_t row, LogisticWorkspace &space, RandomStream &stream) {
  const int64_t n_factors = problem.n_factors, size = padded_row(n_factors);
  float *out = problem.out + row * n_factors, *squares = problem.squares + row * n_factors;
  for (int64_t d = 0; d < size; ++d) {
    space.point[d] = d < n_factors ? out[d] : 0.0f;
    space.gradient[d] = 0;
  }
  const float bias = problem.out_bias ? problem.out_bias[row] : 0.0f;
  const Sums sums = look(problem, row, size, problem.offset + bias, space, stream);
  const float *mean = problem.means ? problem.means + row * n_factors : nullptr;
  const float bias_apart = problem.bias_means ? bias - problem.bias_means[row] : bias;
  double squared = 0;
  for (int64_t d = 0; d < n_factors; ++d) {
    const float value = space.point[d], apart = mean ? value - mean[d] : value;
    squared += double(apart) * apart;
    out[d] = moved(value, space.gradient[d] + problem.ridge * apart, problem.rate, squares[d]);
  }
  if (problem.out_bias)
    problem.out_bias[row] =
        moved(bias, sums.bias_gradient + problem.bias_ridge * bias_apart, problem.rate, problem.bias_squares[row]);
  problem.energies[row] =
      sums.energy + 0.5 * (problem.ridge * squared + double(problem.bias_ridge) * bias_apart * bias_apart);
}

}  // namespace

void fill(Table &table) {
  table.conjugate = {padded_size, descend, rotate};
  table.logistic = {padded_row, draw, step};
}

}  // namespace tastespace::TS_ISA::implicit
