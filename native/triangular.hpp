// Positive definite systems of the size of a row: factor, solve, products. For kernel files only: everything here
// belongs to one instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "lanes.hpp"
#include "tiles.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

// Rows of the factorization that are finished together: more would wait longer for their square roots.
constexpr int panel_rows = 4;

// Upper triangular U with U^T U = matrix, in place, a panel of rows at a time; 1/diagonal beside it. Values left of the
// diagonal in its register are carried along and never read.
template <class T>
TS_CALLED bool factorize(T *TS_RESTRICT matrix, int64_t n_factors, int64_t size, T *TS_RESTRICT inverse_diagonal) {
  constexpr int width = width_of<T>;
  constexpr int rows = panel_rows;
  for (int64_t k = 0; k < n_factors; k += rows) {
    T *panel = matrix + k * size;
    // Subtracts the part explained by the rows above: the same tiles as the Gram matrix, with the other sign.
    strip<T, -1, rows>(k, matrix + k, size, matrix, size, panel, k / width, size / width);
    // The block on the diagonal first, in scalars: its chain of square roots waits for no register to be stored.
    T block[rows][rows], inverse[rows];
    for (int i = 0; i < rows; ++i)
      for (int j = i; j < rows; ++j) block[i][j] = panel[i * size + k + j];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const T pivot = block[i][i];
      if (!(pivot > 0) || !(pivot < HUGE_VAL)) return false;
      inverse_diagonal[k + i] = inverse[i] = T(1) / std::sqrt(pivot);
#pragma GCC unroll 8
      for (int j = i + 1; j < rows; ++j) block[i][j] *= inverse[i];
#pragma GCC unroll 8
      for (int r = i + 1; r < rows; ++r)
#pragma GCC unroll 8
        for (int j = r; j < rows; ++j) block[r][j] -= block[i][r] * block[i][j];
    }
    for (int64_t c = k / width * width; c < size; c += width) {
      Lanes<T> values[rows];
      for (int i = 0; i < rows; ++i) values[i] = load(panel + i * size + c);
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) {
        values[i] = values[i] * inverse[i];
#pragma GCC unroll 8
        for (int r = i + 1; r < rows; ++r) values[r] -= values[i] * block[i][r];
        store(panel + i * size + c, values[i]);
      }
    }
  }
  return true;
}

// solutions = U^-T rights, for one or two right sides at once (their chains overlap); the right sides are destroyed.
template <class T, int Sides>
TS_CALLED void solve_transposed(const T *TS_RESTRICT factor, const T *TS_RESTRICT inverse_diagonal, int64_t n_factors,
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
TS_CALLED void solve_upper(const T *TS_RESTRICT factor, const T *TS_RESTRICT inverse_diagonal, int64_t n_factors,
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

// inverse = U^-T, lower triangular, in panels of rows as the factorization; above the diagonal it must be zero.
template <class T>
TS_CALLED void invert_transposed(const T *TS_RESTRICT factor, const T *TS_RESTRICT inverse_diagonal, int64_t n_factors,
                                 int64_t size, T *TS_RESTRICT inverse) {
  constexpr int width = width_of<T>;
  constexpr int rows = panel_rows;
  for (int64_t k = 0; k < n_factors; k += rows) {
    T *panel = inverse + k * size;
    const int64_t last = (k + rows - 1) / width + 1;
    for (int i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < last * width; ++c) panel[i * size + c] = 0;
      panel[i * size + k + i] = 1;
    }
    strip<T, -1, rows>(k, factor + k, size, inverse, size, panel, 0, last);
    for (int64_t c = 0; c < last * width; c += width) {
      Lanes<T> values[rows];
      for (int i = 0; i < rows; ++i) values[i] = load(panel + i * size + c);
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) {
        values[i] = values[i] * inverse_diagonal[k + i];
#pragma GCC unroll 8
        for (int r = i + 1; r < rows; ++r) values[r] -= values[i] * factor[(k + i) * size + k + r];
        store(panel + i * size + c, values[i]);
      }
    }
  }
}

// In double, in four chains: one alone would wait for each addition.
template <class T>
TS_INLINE double inlined_dot(const T *left, const T *right, int64_t n) {
  double part[4] = {0, 0, 0, 0};
  int64_t d = 0;
  for (; d + 4 <= n; d += 4)
    for (int i = 0; i < 4; ++i) part[i] += double(left[d + i]) * double(right[d + i]);
  for (; d < n; ++d) part[0] += double(left[d]) * double(right[d]);
  return (part[0] + part[1]) + (part[2] + part[3]);
}

template <class T>
TS_CALLED double dot(const T *left, const T *right, int64_t n) {
  return inlined_dot(left, right, n);
}

template <class T>
TS_CALLED double squared_length(const T *x, int64_t n) {
  return inlined_dot(x, x, n);
}

// x^T matrix x for a symmetric matrix, x padded with zeros: rows times numbers, so that nothing is summed across.
template <class T>
TS_CALLED double quadratic(const T *TS_RESTRICT matrix, const T *TS_RESTRICT x, int64_t n) {
  constexpr int width = width_of<T>;
  double total = 0;
  int64_t c = 0;
  for (; c + width <= n; c += width) {
    Lanes<T> even = load(matrix + c) * x[0], odd = even - even;
    for (int64_t r = 1; r + 1 < n; r += 2) {
      odd += load(matrix + r * n + c) * x[r];
      even += load(matrix + (r + 1) * n + c) * x[r + 1];
    }
    if (n % 2 == 0) odd += load(matrix + (n - 1) * n + c) * x[n - 1];
    T sums[width];
    store(sums, even + odd);
    total += inlined_dot(sums, x + c, width);
  }
  for (; c < n; ++c) total += double(x[c]) * inlined_dot(matrix + c * n, x, n);
  return total;
}

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
