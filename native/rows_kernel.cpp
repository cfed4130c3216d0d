// The row kernel: gather the rated rows, accumulate the upper triangle of the Gram matrix in register tiles,
// add the prior, factor, solve. Most of all training time is spent in the tiles of the matrix (tiles.hpp).
#include <cmath>

#include "lanes.hpp"
#include "machine.hpp"
#include "rows.hpp"
#include "tiles.hpp"
#include "triangular.hpp"

namespace tastespace::TS_ISA::rows {
namespace {

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

// The target of the inner product and the row's own bias for rating k.
template <class T>
TS_INLINE T target_of(const RowsProblem<T> &problem, int64_t k) {
  const T bias = problem.other_bias ? problem.other_bias[problem.columns[k] * problem.other_bias_stride] : T(0);
  return (problem.targets[k] - problem.target_offset) / problem.target_scale - bias;
}

template <class T>
TS_INLINE bool is_weighted(const RowsProblem<T> &problem) {
  return problem.weights || problem.other_weights;
}

template <class T>
TS_INLINE T weight_of(const RowsProblem<T> &problem, int64_t k) {
  const T own = problem.weights ? problem.weights[k] : T(1);
  return problem.other_weights ? own * problem.other_weights[problem.columns[k] * problem.other_weights_stride] : own;
}

// Weight and weighted target of each rating of a block, and their totals.
template <class T>
TS_INLINE void read_ratings(const RowsProblem<T> &problem, int64_t start, int64_t n, RowsWorkspace<T> &space) {
  T total_weight = 0, total_linear = 0;
  double total_square = 0;
  for (int64_t b = 0; b < n; ++b) {
    const int64_t k = start + b;
    const T weight = weight_of(problem, k);
    const T target = target_of(problem, k), linear = weight * target;
    space.extras[2 * b] = linear;
    space.extras[2 * b + 1] = weight;
    total_weight += weight;
    total_linear += linear;
    total_square += double(linear) * double(target);
  }
  space.total_weight += total_weight;
  space.total_linear += total_linear;
  space.total_square += total_square;
}

// How many rated rows ahead memory is prefetched: about its latency.
constexpr int64_t look_ahead = 8;

template <class T>
TS_INLINE void prefetch_row(const T *row, int64_t n_factors) {
  for (int64_t d = 0; d < n_factors; d += 64 / int64_t(sizeof(T))) TS_PREFETCH(row + d);
}

// Copies registers `first` and up of the rated rows of a block side by side, and takes the linear sums on the way: Full
// registers and, with Tail, one more that ends where the row ends, over the one before.
template <class T, int Full, bool Tail>
TS_CALLED void gather(const RowsProblem<T> &problem, int first, int64_t start, int64_t n, int64_t end, int64_t size,
                      RowsWorkspace<T> &space) {
  constexpr int width = width_of<T>;
  constexpr int registers = Full + (Tail ? 1 : 0);
  const T *TS_RESTRICT other = problem.other;
  const int32_t *TS_RESTRICT columns = problem.columns + start;
  const T *TS_RESTRICT extras = space.extras;
  T *TS_RESTRICT gathered = space.gathered;
  const int64_t n_ahead = end - start - look_ahead, stride = problem.other_stride, n_factors = problem.n_factors;
  int64_t at[registers];
  for (int r = 0; r < Full; ++r) at[r] = (first + r) * width;
  if (Tail) at[registers - 1] = n_factors - width;
  Lanes<T> sums[2][registers];
  for (int side = 0; side < 2; ++side)
    for (int r = 0; r < registers; ++r) sums[side][r] = load(space.linear + side * size + at[r]);
  for (int64_t b = 0; b < n; ++b) {
    if (b < n_ahead) prefetch_row(other + columns[b + look_ahead] * stride + at[0], registers * width);
    const T *from = other + columns[b] * stride;
    const T linear = extras[2 * b], weight = extras[2 * b + 1];
    for (int r = 0; r < registers; ++r) {
      const Lanes<T> values = load(from + at[r]);
      store(gathered + b * size + at[r], values);
      sums[0][r] += values * linear;
      sums[1][r] += values * weight;
    }
  }
  for (int side = 0; side < 2; ++side)
    for (int r = 0; r < registers; ++r) store(space.linear + side * size + at[r], sums[side][r]);
}

// Up to four registers at once; six and eight in two halves.
template <class T, bool Tail>
TS_INLINE bool gather_registers(const RowsProblem<T> &problem, int64_t start, int64_t n, int64_t end, int64_t size,
                                RowsWorkspace<T> &space) {
  const int64_t registers = problem.n_factors / width_of<T>;
  switch (registers) {
    case 1:
      gather<T, 1, Tail>(problem, 0, start, n, end, size, space);
      return true;
    case 2:
      gather<T, 2, Tail>(problem, 0, start, n, end, size, space);
      return true;
    case 6:
      gather<T, 3, false>(problem, 0, start, n, end, size, space);
      [[fallthrough]];
    case 3:
      gather<T, 3, Tail>(problem, int(registers) - 3, start, n, end, size, space);
      return true;
    case 8:
      gather<T, 4, false>(problem, 0, start, n, end, size, space);
      [[fallthrough]];
    case 4:
      gather<T, 4, Tail>(problem, int(registers) - 4, start, n, end, size, space);
      return true;
  }
  return false;
}

// In registers if their number fits; otherwise the linear sums take a separate pass over the copies.
template <class T>
TS_INLINE void gather_any(const RowsProblem<T> &problem, int64_t start, int64_t n, int64_t end, int64_t size,
                          RowsWorkspace<T> &space) {
  if (problem.n_factors == size) {
    if (gather_registers<T, false>(problem, start, n, end, size, space)) return;
  } else if (problem.n_factors % width_of<T> != 0) {
    if (gather_registers<T, true>(problem, start, n, end, size, space)) return;
  }
  const int64_t n_factors = problem.n_factors, stride = problem.other_stride;
  for (int64_t b = 0; b < n; ++b) {
    const int32_t *column = problem.columns + start + b;
    if (start + b + look_ahead < end) prefetch_row(problem.other + column[look_ahead] * stride, n_factors);
    copy_row(problem.other + *column * stride, space.gathered + b * size, n_factors);
  }
  strip<T, 1, 2>(n, space.extras, 2, space.gathered, size, space.linear, 0, size / width_of<T>);
}

template <class T>
void accumulate(const RowsProblem<T> &problem, int64_t begin, int64_t end, RowsWorkspace<T> &space) {
  constexpr int width = width_of<T>;
  const int64_t size = padded_factors<T>(problem.n_factors);
  for (int64_t start = begin; start < end; start += rows_block) {
    const int64_t n = end - start < rows_block ? end - start : rows_block;
    read_ratings(problem, start, n, space);
    gather_any(problem, start, n, end, size, space);
    const T *left = space.gathered;
    if (is_weighted(problem)) {
      left = space.weighted;
      for (int64_t b = 0; b < n; ++b)
        for (int64_t d = b * size; d < (b + 1) * size; d += width)
          store(space.weighted + d, load(space.gathered + d) * space.extras[2 * b + 1]);
    }
    triangle(n, left, space.gathered, problem.n_factors, size, space.gram);
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

template <class T>
TS_INLINE T bias_linear_of(const RowsProblem<T> &problem, int64_t row) {
  return problem.bias_linears ? problem.bias_linears[row] : problem.bias_linear;
}

// Twice the prior's energy at the result, without its constant.
template <class T>
TS_INLINE double prior_energy(const RowsProblem<T> &problem, int64_t row, const T *solution) {
  const int64_t n_factors = problem.n_factors;
  const T *linear = problem.prior_linear + row * problem.prior_linear_stride;
  double energy = quadratic(problem.prior_precision, solution, n_factors) - 2 * dot(linear, solution, n_factors);
  if (problem.out_bias) {
    const double bias = double(problem.out_bias[row]);
    energy += bias * (double(problem.bias_precision) * bias - 2 * double(bias_linear_of(problem, row)));
  }
  if (problem.prior_scale) energy *= double(problem.prior_scale[row]);
  return problem.ridge ? energy + double(problem.ridge[row]) * squared_length(solution, n_factors) : energy;
}

template <class T>
bool finish(const RowsProblem<T> &problem, int64_t row, RowsWorkspace<T> &space) {
  const int64_t n_factors = problem.n_factors, size = padded_factors<T>(n_factors);
  constexpr int width = width_of<T>;
  const T alpha = problem.alpha, scale = problem.prior_scale ? problem.prior_scale[row] : T(1);
  T *gram = space.gram, *right = space.linear, *border = space.linear + size;
  T *inverse_diagonal = space.scratch, *forward = inverse_diagonal + size;
  T *border_forward = forward + size, *solution = border_forward + size;

  mirror(n_factors, size, gram);
  for (int64_t r = 0; r < n_factors; ++r) {
    T *to = gram + r * size;
    const T *prior = problem.prior_precision + r * n_factors;
    int64_t c = r / width * width;
    for (; c + width <= n_factors; c += width) store(to + c, load(to + c) * alpha + load(prior + c) * scale);
    for (; c < n_factors; ++c) to[c] = alpha * to[c] + scale * prior[c];
  }
  if (problem.ridge)
    for (int64_t d = 0; d < n_factors; ++d) gram[d * size + d] += problem.ridge[row];
  // The padding of a panel is factored along: ones on its diagonal leave it unchanged.
  for (int64_t d = n_factors; d < size; ++d) gram[d * size + d] = 1;
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
    explained = squared_length(forward, n_factors);
    const T pivot = T(double(alpha) * double(space.total_weight) + double(scale) * double(problem.bias_precision) -
                      squared_length(border_forward, n_factors));
    if (!(pivot > 0) || !(pivot < HUGE_VAL)) return false;
    const T inverse = space.inverse_pivot = T(1) / std::sqrt(pivot);
    const T bias_forward = (alpha * space.total_linear + scale * bias_linear_of(problem, row) -
                            T(dot(border_forward, forward, n_factors))) *
                           inverse;
    explained += double(bias_forward) * double(bias_forward);
    const T bias = (bias_forward + (problem.bias_noise ? problem.bias_noise[row] : T(0))) * inverse;
    problem.out_bias[row] = bias;
    for (int64_t d = 0; d < n_factors; ++d) forward[d] -= border_forward[d] * bias;
  } else {
    solve_transposed<T, 1>(gram, inverse_diagonal, n_factors, size, right, forward);
    explained = squared_length(forward, n_factors);
  }
  if (noise)
    for (int64_t d = 0; d < n_factors; ++d) forward[d] += noise[d];
  solve_upper(gram, inverse_diagonal, n_factors, size, forward, solution);
  T *out = problem.out + row * n_factors;
  for (int64_t d = 0; d < n_factors; ++d) out[d] = solution[d];
  const double minimum = double(alpha) * space.total_square - explained;
  if (problem.minimum) problem.minimum[row] = 0.5 * minimum;
  if (problem.squares) {
    // The energy exceeds its minimum by half the squared noise; the part that is not the prior's is the errors'.
    double drawn = noise ? squared_length(noise, n_factors) : 0.0;
    if (problem.out_bias && problem.bias_noise)
      drawn += double(problem.bias_noise[row]) * double(problem.bias_noise[row]);
    const double squares = (minimum + drawn - prior_energy(problem, row, solution)) / double(alpha);
    const bool rated = problem.offsets[row] < problem.offsets[row + 1];
    problem.squares[row] = rated && squares > 0 ? squares : 0.0;  // rounding may make it negative
  }
  return true;
}

template <class T>
void root(const RowsProblem<T> &problem, RowsWorkspace<T> &space, T *out) {
  const int64_t n_factors = problem.n_factors, size = padded_factors<T>(n_factors);
  const int64_t stride = n_factors + (problem.out_bias ? 1 : 0);
  T *inverse_diagonal = space.scratch, *border_forward = space.scratch + 2 * size, *solution = border_forward + size;
  invert_transposed(space.gram, inverse_diagonal, n_factors, size, space.inverse);
  for (int64_t r = 0; r < n_factors; ++r) {
    for (int64_t c = 0; c < r; ++c) out[r * stride + c] = 0;
    for (int64_t c = r; c < n_factors; ++c) out[r * stride + c] = space.inverse[c * size + r];
  }
  if (!problem.out_bias) return;
  // The inverse of [U b; 0 p] has -U^-1 b / p for its last column.
  solve_upper(space.gram, inverse_diagonal, n_factors, size, border_forward, solution);
  for (int64_t r = 0; r < n_factors; ++r) out[r * stride + n_factors] = -solution[r] * space.inverse_pivot;
  for (int64_t c = 0; c < n_factors; ++c) out[n_factors * stride + c] = 0;
  out[n_factors * stride + n_factors] = space.inverse_pivot;
}

// A register of out += sum_k numbers[k] row(k): two chains, so that neither waits long.
template <class T, class Row>
TS_INLINE void combine(int64_t begin, int64_t end, const T *TS_RESTRICT numbers, Row row, T *TS_RESTRICT out) {
  Lanes<T> even = load(out), odd = even - even;
  int64_t k = begin;
  for (; k + 1 < end; k += 2) {
    even += load(row(k)) * numbers[k];
    odd += load(row(k + 1)) * numbers[k + 1];
  }
  if (k < end) even += load(row(k)) * numbers[k];
  store(out, even + odd);
}

template <class T>
bool whiten_prior(const RowsProblem<T> &problem, RowsWorkspace<T> &space, const Whitening<T> &whitening) {
  constexpr int width = width_of<T>;
  const int64_t n_factors = problem.n_factors, size = padded_factors<T>(n_factors);
  T *factor = space.gram, *inverse_diagonal = space.scratch;
  clear(problem, space);
  for (int64_t r = 0; r < n_factors; ++r)
    for (int64_t c = r; c < n_factors; ++c) factor[r * size + c] = problem.prior_precision[r * n_factors + c];
  for (int64_t d = n_factors; d < size; ++d) factor[d * size + d] = 1;
  if (!factorize(factor, n_factors, size, inverse_diagonal)) return false;
  invert_transposed(factor, inverse_diagonal, n_factors, size, whitening.lower);
  for (int64_t r = 0; r < size; ++r)
    for (int64_t c = 0; c < size; ++c) {
      // A panel may reach into the padding, where it holds the identity.
      if (r >= n_factors || c >= n_factors) whitening.lower[r * size + c] = 0;
      whitening.upper[c * size + r] = whitening.lower[r * size + c];
    }
  for (int64_t d = 0; d < size; d += width)
    combine(
        0, n_factors, problem.prior_linear, [&](int64_t k) { return whitening.upper + k * size + d; },
        whitening.mean + d);
  return true;
}

template <class T>
void whiten(const RowsProblem<T> &problem, int64_t begin, int64_t end, const Whitening<T> &whitening) {
  constexpr int width = width_of<T>;
  const int64_t n_factors = problem.n_factors, size = padded_factors<T>(n_factors);
  for (int64_t column = begin; column < end; ++column) {
    const T *from = problem.other + column * problem.other_stride;
    T *to = whitening.other + column * size;
    for (int64_t d = 0; d < size; d += width) {
      const int64_t rows = d + width < n_factors ? d + width : n_factors;
      for (int i = 0; i < width; ++i) to[d + i] = 0;
      combine(0, rows, from, [&](int64_t k) { return whitening.upper + k * size + d; }, to + d);
    }
  }
}

// With x' = mean' + e and the bias c = m / lambda + e_c, the errors rho_k = y_k - v'_k.mean' - m / lambda have the
// covariance K / s, K = V' V'^T + 1 1^T / lambda + N, N = diag(s / (alpha w)). With K = E E^T and F = sqrt(N),
//
//   e = z / sqrt(s) + V'^T E^-T [E^-1 rho - (E + F)^-1 V' z / sqrt(s)]
//
// has the mean and the covariance of the posterior: (I - V'^T E^-T (E + F)^-1 V') is a root of I - V'^T K^-1 V'
// (Andrews 1968). So a draw takes the same noise as the usual way, though it is another draw.
template <class T>
Conditioned condition(const RowsProblem<T> &problem, int64_t row, RowsWorkspace<T> &space) {
  constexpr int width = width_of<T>;
  const Whitening<T> &whitening = *problem.whitening;
  const int64_t n_factors = problem.n_factors, size = padded_factors<T>(n_factors);
  const int64_t begin = problem.offsets[row], n = problem.offsets[row + 1] - begin, m = padded_factors<T>(n);
  const int32_t *columns = problem.columns + begin;
  const bool biases = problem.out_bias != nullptr;
  const T scale = problem.prior_scale ? problem.prior_scale[row] : T(1);
  if (!(scale > 0) || !(scale < HUGE_VAL)) return Conditioned::unfit;
  const T shrink = T(1) / std::sqrt(scale);
  const T bias_variance = biases ? T(1) / problem.bias_precision : T(0);
  const T bias_mean = biases ? problem.bias_linear * bias_variance : T(0);
  const T bias_noise = biases && problem.bias_noise ? problem.bias_noise[row] * std::sqrt(bias_variance) : T(0);
  const T *noise = problem.noise ? problem.noise + row * n_factors : nullptr;

  T *transposed = space.transposed;                          // size x m: V'^T
  T *numbers = space.weighted, *point = numbers + 2 * size;  // pairs of (mean', z), and e
  T *matrix = space.gram;                                    // m x m
  T *errors = space.linear, *drawn = errors + m;             // rho, V' z
  T *inverse_diagonal = space.scratch, *spread = inverse_diagonal + size, *forward = spread + size;
  T *other_forward = forward + size;

  for (int64_t k = 0; k < n; ++k) {
    const T *from = whitening.other + columns[k] * size;
    for (int64_t d = 0; d < n_factors; ++d) transposed[d * m + k] = from[d];
  }
  for (int64_t d = 0; d < n_factors; ++d) {
    for (int64_t k = n; k < m; ++k) transposed[d * m + k] = 0;
    numbers[2 * d] = -whitening.mean[d];
    numbers[2 * d + 1] = noise ? noise[d] : T(0);
  }
  for (int64_t k = 0; k < m; ++k) errors[k] = drawn[k] = 0;
  for (int64_t k = 0; k < n; ++k) {
    const T weight = weight_of(problem, begin + k);
    if (!(weight > 0)) return Conditioned::unfit;
    errors[k] = target_of(problem, begin + k) - bias_mean;
    drawn[k] = bias_noise;
    spread[k] = scale / (problem.alpha * weight);
  }
  strip<T, 1, 2>(n_factors, numbers, 2, transposed, m, errors, 0, m / width);

  for (int64_t i = 0; i < m * m; ++i) matrix[i] = 0;
  triangle(n_factors, transposed, transposed, n, m, matrix);
  mirror(n, m, matrix);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i; j < n; ++j) matrix[i * m + j] += bias_variance;
    matrix[i * m + i] += spread[i];
  }
  for (int64_t i = n; i < m; ++i) matrix[i * m + i] = 1;
  if (!factorize(matrix, n, m, inverse_diagonal)) return Conditioned::failed;

  T *kept = point + size;  // the errors, which the solution destroys
  for (int64_t k = 0; k < m; ++k) kept[k] = errors[k], forward[k] = other_forward[k] = 0;
  solve_transposed<T, 1>(matrix, inverse_diagonal, n, m, errors, forward);
  const double explained = squared_length(forward, n);
  if (noise) {
    for (int64_t k = 0; k < n; ++k) spread[k] = T(1) / (T(1) / inverse_diagonal[k] + std::sqrt(spread[k]));
    solve_transposed<T, 1>(matrix, spread, n, m, drawn, other_forward);
    for (int64_t k = 0; k < n; ++k) forward[k] -= shrink * other_forward[k];
  }
  T *solution = errors;
  for (int64_t k = 0; k < m; ++k) solution[k] = 0;
  solve_upper(matrix, inverse_diagonal, n, m, forward, solution);

  for (int64_t d = 0; d < size; ++d) point[d] = noise && d < n_factors ? shrink * noise[d] : T(0);
  for (int64_t d = 0; d < size; d += width)
    combine(0, n, solution, [&](int64_t k) { return whitening.other + columns[k] * size + d; }, point + d);
  T bias_change = shrink * bias_noise;
  for (int64_t k = 0; k < n; ++k) bias_change += bias_variance * solution[k];
  if (biases) problem.out_bias[row] = bias_mean + bias_change;
  if (problem.minimum) {
    const double constant = squared_length(whitening.mean, n_factors) + double(bias_mean) * double(problem.bias_linear);
    problem.minimum[row] = 0.5 * double(scale) * (explained - constant);
  }
  if (problem.squares) {
    strip<T, -1, 1>(n_factors, point, 1, transposed, m, kept, 0, m / width);
    double squares = 0;
    for (int64_t k = 0; k < n; ++k) {
      const double error = double(kept[k]) - double(bias_change);
      squares += double(weight_of(problem, begin + k)) * error * error;
    }
    problem.squares[row] = squares;
  }
  for (int64_t d = 0; d < size; ++d) point[d] += whitening.mean[d];
  T *result = kept;
  for (int64_t d = 0; d < size; ++d) result[d] = 0;
  for (int64_t d = 0; d < size; d += width)
    combine(d, n_factors, point, [&](int64_t k) { return whitening.lower + k * size + d; }, result + d);
  T *out = problem.out + row * n_factors;
  for (int64_t d = 0; d < n_factors; ++d) out[d] = result[d];
  return Conditioned::done;
}

template <class T>
double log_determinant(const RowsProblem<T> &problem, const RowsWorkspace<T> &space) {
  // Logarithms are expensive: four factors at a time, whose product stays far from overflow.
  double total = problem.out_bias ? std::log(double(space.inverse_pivot)) : 0.0;
  for (int64_t start = 0; start < problem.n_factors; start += 4) {
    double product = 1;
    for (int64_t d = start; d < start + 4 && d < problem.n_factors; ++d) product *= double(space.scratch[d]);
    total += std::log(product);
  }
  return -2 * total;
}

template <class T>
RowsKernel<T> make_rows_kernel() {
  return {padded_factors<T>, clear<T>,  accumulate<T>, merge<T>, finish<T>,
          whiten_prior<T>,   whiten<T>, condition<T>,  root<T>,  log_determinant<T>};
}

// A block of points, in double.
TS_CALLED void add_block(int64_t n, int64_t n_factors, int64_t size, MomentsWorkspace &space) {
  constexpr int width = width_of<double>;
  for (int64_t d = 0; d < size; d += width) {
    Lanes<double> total = load(space.total + d);
    for (int64_t b = 0; b < n; ++b) total += load(space.block + b * size + d);
    store(space.total + d, total);
  }
  inlined_triangle<double>(n, space.block, space.block, n_factors, size, space.gram);
}

template <class From>
void add(const From *points, int64_t n, int64_t n_factors, MomentsWorkspace &space) {
  const int64_t size = padded_factors<double>(n_factors);
  for (int64_t start = 0; start < n; start += moments_block) {
    const int64_t count = n - start < moments_block ? n - start : moments_block;
    const From *TS_RESTRICT from = points + start * n_factors;
    double *TS_RESTRICT to = space.block;
    for (int64_t b = 0; b < count; ++b)
      for (int64_t d = 0; d < n_factors; ++d) to[b * size + d] = double(from[b * n_factors + d]);
    add_block(count, n_factors, size, space);
  }
  mirror(n_factors, size, space.gram);
}

}  // namespace

void fill(Table &table) {
  table.rows_float = make_rows_kernel<float>();
  table.rows_double = make_rows_kernel<double>();
  table.moments = {padded_factors<double>, add<float>, add<double>};
}

}  // namespace tastespace::TS_ISA::rows
