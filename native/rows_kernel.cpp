// The row kernel: gather the rated rows, accumulate the upper triangle of the Gram matrix in register tiles,
// add the prior, factor, solve. Most of all training time is spent in tile().
#include <cmath>
#include <type_traits>

#include "lanes.hpp"
#include "rows.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

// Registers decide the tile: 32 of 64 bytes hold 8 x 3 sums, 16 of fewer bytes hold 4 x 2.
constexpr int tile_rows = TS_VECTOR_BYTES == 64 ? 8 : 4;
constexpr int tile_lanes = TS_VECTOR_BYTES == 64 ? 3 : 2;

// out[r][c] += Sign * sum_b left[b][r] right[b][c] for Rows rows and Columns registers of columns.
template <class T, int Sign, int Rows, int Columns>
TS_INLINE void tile(int64_t n, const T *TS_RESTRICT left, int64_t left_stride, const T *TS_RESTRICT right,
                    int64_t right_stride, T *TS_RESTRICT out, int64_t out_stride) {
  constexpr int width = width_of<T>;
  Lanes<T> sums[Rows][Columns];
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Columns; ++c) sums[r][c] = load(out + r * out_stride + c * width);
  for (int64_t b = 0; b < n; ++b) {
    Lanes<T> columns[Columns];
    for (int c = 0; c < Columns; ++c) columns[c] = load(right + b * right_stride + c * width);
    for (int r = 0; r < Rows; ++r) {
      const T factor = left[b * left_stride + r];
      for (int c = 0; c < Columns; ++c) {
        if (Sign > 0)
          sums[r][c] += columns[c] * factor;
        else
          sums[r][c] -= columns[c] * factor;
      }
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Columns; ++c) store(out + r * out_stride + c * width, sums[r][c]);
}

// Rows of out from column register `first` to the end, a tile at a time.
template <class T, int Sign, int Rows>
TS_INLINE void strip(int64_t n, const T *left, int64_t left_stride, const T *right, int64_t stride, T *out,
                     int64_t first, int64_t last) {
  constexpr int width = width_of<T>;
  int64_t c = first;
  for (; c + tile_lanes <= last; c += tile_lanes)
    tile<T, Sign, Rows, tile_lanes>(n, left, left_stride, right + c * width, stride, out + c * width, stride);
  for (; c + 2 <= last; c += 2)
    tile<T, Sign, Rows, 2>(n, left, left_stride, right + c * width, stride, out + c * width, stride);
  for (; c < last; ++c)
    tile<T, Sign, Rows, 1>(n, left, left_stride, right + c * width, stride, out + c * width, stride);
}

template <class T>
int64_t padded_factors(int64_t n_factors) {
  // Rows are taken tile_rows at a time as well, so the padding serves both.
  const int64_t unit = width_of<T> > tile_rows ? width_of<T> : tile_rows;
  return (n_factors + unit - 1) / unit * unit;
}

template <class T>
void clear(const RowsProblem<T> &problem, RowsWorkspace<T> &space) {
  const int64_t size = padded_factors<T>(problem.n_factors);
  for (int64_t i = 0; i < size * size; ++i) space.gram[i] = 0;
  for (int64_t i = 0; i < 2 * size; ++i) space.linear[i] = 0;
  space.total_weight = space.total_linear = 0;
  space.total_square = 0;
}

// Copies n elements; the last register overlaps the one before, so that no padding is touched.
template <class T>
TS_INLINE void copy_row(const T *TS_RESTRICT from, T *TS_RESTRICT to, int64_t n) {
  constexpr int width = width_of<T>;
  if (n < width) {
    for (int64_t d = 0; d < n; ++d) to[d] = from[d];
    return;
  }
  for (int64_t d = 0; d + width <= n; d += width) store(to + d, load(from + d));
  if (n % width) store(to + n - width, load(from + n - width));
}

template <class T>
void accumulate(const RowsProblem<T> &problem, int64_t begin, int64_t end, RowsWorkspace<T> &space) {
  constexpr int width = width_of<T>;
  const int64_t n_factors = problem.n_factors, size = padded_factors<T>(n_factors);
  const int64_t last = size / width;
  const int32_t *columns = problem.columns;
  T *gathered = space.gathered, *weighted = space.weighted, *extras = space.extras;
  for (int64_t start = begin; start < end; start += rows_block) {
    const int64_t n = end - start < rows_block ? end - start : rows_block;
    T block_weight = 0, block_linear = 0;
    double block_square = 0;
    for (int64_t b = 0; b < n; ++b) {
      const int64_t k = start + b;
      if (k + 8 < end) {
        const T *ahead = problem.other + int64_t(columns[k + 8]) * n_factors;
        for (int64_t d = 0; d < n_factors; d += 64 / int64_t(sizeof(T))) TS_PREFETCH(ahead + d);
      }
      const int64_t column = columns[k];
      copy_row(problem.other + column * n_factors, gathered + b * size, n_factors);
      const T weight = problem.weights ? problem.weights[k] : T(1);
      const T target = problem.other_bias ? problem.targets[k] - problem.other_bias[column] : problem.targets[k];
      const T linear = weight * target;
      extras[2 * b] = linear;
      extras[2 * b + 1] = weight;
      block_weight += weight;
      block_linear += linear;
      block_square += double(linear) * double(target);
      if (problem.weights)
        for (int64_t d = 0; d < size; d += width)
          store(weighted + b * size + d, load(gathered + b * size + d) * weight);
    }
    space.total_weight += block_weight;
    space.total_linear += block_linear;
    space.total_square += block_square;
    const T *left = problem.weights ? weighted : gathered;
    for (int64_t r = 0; r < size; r += tile_rows)
      strip<T, 1, tile_rows>(n, left + r, size, gathered, size, space.gram + r * size, r / width, last);
    strip<T, 1, 2>(n, extras, 2, gathered, size, space.linear, 0, last);
  }
}

template <class T>
void merge(const RowsProblem<T> &problem, const RowsWorkspace<T> &from, RowsWorkspace<T> &into) {
  const int64_t size = padded_factors<T>(problem.n_factors);
  for (int64_t i = 0; i < size * size; ++i) into.gram[i] += from.gram[i];
  for (int64_t i = 0; i < 2 * size; ++i) into.linear[i] += from.linear[i];
  into.total_weight += from.total_weight;
  into.total_linear += from.total_linear;
  into.total_square += from.total_square;
}

// Upper triangular U with U^T U = matrix, in place, a panel of rows at a time; 1/diagonal beside it. What stands left
// of the diagonal in the register that holds it is carried along and never read.
template <class T>
TS_INLINE bool factorize(T *TS_RESTRICT matrix, int64_t n_factors, int64_t size, T *TS_RESTRICT inverse_diagonal) {
  constexpr int width = width_of<T>;
  for (int64_t k = 0; k < n_factors; k += tile_rows) {
    const int64_t stop = k + tile_rows < n_factors ? k + tile_rows : n_factors;
    const T *panel = matrix + k * size;
    for (int64_t i = k; i < stop; ++i) {
      T *row = matrix + i * size;
      const int64_t from = i / width * width;
      for (int64_t c = from; c < size; c += width) {
        Lanes<T> value = load(row + c);
        for (int64_t p = 0; p < i - k; ++p) value -= load(panel + p * size + c) * panel[p * size + i];
        store(row + c, value);
      }
      const T pivot = row[i];
      if (!(pivot > 0) || !(pivot < HUGE_VAL)) return false;
      const T inverse = T(1) / std::sqrt(pivot);
      inverse_diagonal[i] = inverse;
      for (int64_t c = from; c < size; c += width) store(row + c, load(row + c) * inverse);
    }
    // The rest loses what the panel explains: the same tiles as the Gram matrix, with the other sign.
    for (int64_t r = k + tile_rows; r < size; r += tile_rows)
      strip<T, -1, tile_rows>(tile_rows, panel + r, size, panel, size, matrix + r * size, r / width, size / width);
  }
  return true;
}

// solutions = U^-T rights, for one or two right sides at once (their chains overlap); the right sides are destroyed.
template <class T, int Sides>
TS_INLINE void solve_transposed(const T *TS_RESTRICT factor, const T *TS_RESTRICT inverse_diagonal, int64_t n_factors,
                                int64_t size, T *TS_RESTRICT rights, T *TS_RESTRICT solutions) {
  constexpr int width = width_of<T>;
  for (int64_t k = 0; k < n_factors; ++k) {
    const T *row = factor + k * size;
    T values[Sides];
    for (int side = 0; side < Sides; ++side)
      solutions[side * size + k] = values[side] = rights[side * size + k] * inverse_diagonal[k];
    for (int64_t c = k / width * width; c < size; c += width) {
      const Lanes<T> elements = load(row + c);
      for (int side = 0; side < Sides; ++side)
        store(rights + side * size + c, load(rights + side * size + c) - elements * values[side]);
    }
  }
}

// solution = U^-1 right, a register of rows at a time: first what later rows contribute, as independent dot products,
// then the small triangle on the diagonal. `solution` must be zero beyond n_factors.
template <class T>
TS_INLINE void solve_upper(const T *TS_RESTRICT factor, const T *TS_RESTRICT inverse_diagonal, int64_t n_factors,
                           int64_t size, const T *TS_RESTRICT right, T *TS_RESTRICT solution) {
  constexpr int width = width_of<T>;
  for (int64_t low = (n_factors - 1) / width * width; low >= 0; low -= width) {
    const int64_t high = low + width < n_factors ? low + width : n_factors;
    T rest[width];
    for (int64_t i = low; i < high; ++i) {
      rest[i - low] = right[i];
      if (low + width >= size) continue;
      const T *row = factor + i * size;
      Lanes<T> dot = load(row + low + width) * load(solution + low + width);
      for (int64_t c = low + 2 * width; c < size; c += width) dot += load(row + c) * load(solution + c);
      rest[i - low] -= sum<T>(dot);
    }
    for (int64_t k = high - 1; k >= low; --k) {
      const T value = rest[k - low] * inverse_diagonal[k];
      solution[k] = value;
      for (int64_t i = low; i < k; ++i) rest[i - low] -= factor[i * size + k] * value;
    }
  }
}

template <class T>
TS_INLINE double dot(const T *left, const T *right, int64_t n) {
  double part[4] = {0, 0, 0, 0};  // four chains: one alone would wait for each addition
  int64_t d = 0;
  for (; d + 4 <= n; d += 4)
    for (int i = 0; i < 4; ++i) part[i] += double(left[d + i]) * double(right[d + i]);
  for (; d < n; ++d) part[0] += double(left[d]) * double(right[d]);
  return (part[0] + part[1]) + (part[2] + part[3]);
}

template <class T>
bool finish(const RowsProblem<T> &problem, int64_t row, RowsWorkspace<T> &space) {
  const int64_t n_factors = problem.n_factors, size = padded_factors<T>(n_factors);
  constexpr int width = width_of<T>;
  const T alpha = problem.alpha, scale = problem.prior_scale ? problem.prior_scale[row] : T(1);
  T *gram = space.gram, *right = space.linear, *border = space.linear + size;
  T *inverse_diagonal = space.scratch, *forward = inverse_diagonal + size;
  T *border_forward = forward + size, *solution = border_forward + size;

  for (int64_t r = 0; r < n_factors; ++r) {
    T *to = gram + r * size;
    const T *prior = problem.prior_precision + r * n_factors;
    for (int64_t c = r / width * width; c < n_factors; ++c) to[c] = alpha * to[c] + scale * prior[c];
  }
  const T *prior_linear = problem.prior_linear + row * problem.prior_linear_stride;
  for (int64_t d = 0; d < n_factors; ++d) right[d] = alpha * right[d] + scale * prior_linear[d];
  for (int64_t d = 0; d < size; ++d) forward[d] = border_forward[d] = solution[d] = 0;

  if (!factorize(gram, n_factors, size, inverse_diagonal)) return false;
  const T *noise = problem.noise ? problem.noise + row * n_factors : nullptr;
  double explained;
  if (problem.out_bias) {
    // The bias is one more row and column of the matrix, kept outside it: its border, not its padding.
    for (int64_t d = 0; d < n_factors; ++d) border[d] *= alpha;
    solve_transposed<T, 2>(gram, inverse_diagonal, n_factors, size, right, forward);
    explained = dot(forward, forward, n_factors);
    const T pivot = T(double(alpha) * double(space.total_weight) + double(scale) * double(problem.bias_precision) -
                      dot(border_forward, border_forward, n_factors));
    if (!(pivot > 0)) return false;
    const T inverse = T(1) / std::sqrt(pivot);
    const T bias_forward =
        (alpha * space.total_linear + scale * problem.bias_linear - T(dot(border_forward, forward, n_factors))) *
        inverse;
    explained += double(bias_forward) * double(bias_forward);
    const T bias = (bias_forward + (problem.bias_noise ? problem.bias_noise[row] : T(0))) * inverse;
    problem.out_bias[row] = bias;
    for (int64_t d = 0; d < n_factors; ++d) forward[d] -= border_forward[d] * bias;
  } else {
    solve_transposed<T, 1>(gram, inverse_diagonal, n_factors, size, right, forward);
    explained = dot(forward, forward, n_factors);
  }
  if (noise)
    for (int64_t d = 0; d < n_factors; ++d) forward[d] += noise[d];
  solve_upper(gram, inverse_diagonal, n_factors, size, forward, solution);
  T *out = problem.out + row * n_factors;
  for (int64_t d = 0; d < n_factors; ++d) out[d] = solution[d];
  if (problem.minimum) problem.minimum[row] = 0.5 * (double(alpha) * space.total_square - explained);
  return true;
}

template <class T>
RowsKernel<T> make_rows_kernel() {
  return {padded_factors<T>, clear<T>, accumulate<T>, merge<T>, finish<T>};
}

}  // namespace

void fill_rows(Table &table) {
  table.rows_float = make_rows_kernel<float>();
  table.rows_double = make_rows_kernel<double>();
}

}  // namespace TS_ISA
}  // namespace tastespace
