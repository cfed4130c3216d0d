// Conjugate gradients for the rows of one-class data. In coordinates in which the Gram matrix of the other side is
// diagonal, a step takes two multiplications a factor and observation, and nothing that grows with the factors' square.
#include "confident.hpp"
#include "lanes.hpp"
#include "tables.hpp"
#include "tiles.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

constexpr int width = width_of<float>;
constexpr int at_once = 4;  // observations whose inner products are summed together
// Of the squared residual, as a share of the first one: what is left is lost in rounding.
constexpr float small = 1e-12f;

// Rated rows side by side, zero beyond the factors.
TS_INLINE void gather(const ConfidentProblem &problem, int64_t begin, int64_t n, int64_t size, float *gathered) {
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

void descend(const ConfidentProblem &problem, int64_t row, ConfidentWorkspace &space) {
  const int64_t begin = problem.offsets[row], n = problem.offsets[row + 1] - begin;
  const int64_t n_factors = problem.n_factors, size = padded_size(n_factors);
  const float *weights = problem.weights + begin, *pulls = problem.pulls + begin;
  float *x = space.vectors, *diagonal = x + size, *inverse = diagonal + size, *residual = inverse + size;
  float *direction = residual + size, *product = direction + size, *out = problem.out + row * n_factors;
  const float ridge = problem.ridge[row];
  gather(problem, begin, n, size, space.gathered);
  for (int64_t d = 0; d < n_factors; ++d) {
    x[d] = out[d];
    diagonal[d] = problem.diagonal[d] + ridge;
    residual[d] = (problem.linear ? problem.linear[d] : 0.0f) - diagonal[d] * x[d];
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

}  // namespace

void fill_confident(Table &table) { table.confident = {padded_size, descend, rotate}; }

}  // namespace TS_ISA
}  // namespace tastespace
