// Products of matrices in register tiles: where the row kernel and the moments spend their time. For kernel files
// only: everything here belongs to one instruction set.
#pragma once

#include <cstdint>

#include "lanes.hpp"

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

// The columns of Rows rows of out from register `first` to the end: three registers at a time, two where that leaves
// no single one, which would starve the multipliers.
template <class T, int Sign, int Rows>
TS_INLINE void strip(int64_t n, const T *left, int64_t left_stride, const T *right, int64_t stride, T *out,
                     int64_t first, int64_t last) {
  constexpr int width = width_of<T>;
  for (int64_t c = first; c < last;) {
    const int64_t remaining = last - c;
    if (tile_lanes > 2 && remaining >= 3 && remaining != 4) {
      tile<T, Sign, Rows, tile_lanes>(n, left, left_stride, right + c * width, stride, out + c * width, stride);
      c += tile_lanes;
    } else if (remaining >= 2) {
      tile<T, Sign, Rows, 2>(n, left, left_stride, right + c * width, stride, out + c * width, stride);
      c += 2;
    } else {
      tile<T, Sign, Rows, 1>(n, left, left_stride, right + c * width, stride, out + c * width, stride);
      c += 1;
    }
  }
}

// Rows whose diagonal lies in the same register: they need the same columns.
template <class T>
constexpr int group_rows = width_of<T> > tile_rows ? width_of<T> : tile_rows;

// Rows of whole groups: those after them have a last register that they do not fill.
template <class T>
TS_INLINE int64_t whole_groups(int64_t n_factors) {
  return n_factors / group_rows<T> * group_rows<T>;
}

// out += left^T right, which is symmetric, for n_factors of `size` rows and columns: of the whole groups the upper
// triangle, where a group with one register of columns is one tile; of the rows after them everything, since a few rows
// cost less than a register of columns that is mostly padding. The part above those rows is left out: see mirror().
template <class T>
TS_INLINE void inlined_triangle(int64_t n, const T *left, const T *right, int64_t n_factors, int64_t size, T *out) {
  constexpr int width = width_of<T>;
  const int64_t whole = whole_groups<T>(n_factors), last = whole / width;
  for (int64_t r = 0; r < whole; r += group_rows<T>) {
    const int64_t first = r / width;
    if (last - first == 1) {
      tile<T, 1, group_rows<T>, 1>(n, left + r, size, right + first * width, size, out + r * size + first * width,
                                   size);
    } else {
      for (int64_t half = r; half < r + group_rows<T>; half += tile_rows)
        strip<T, 1, tile_rows>(n, left + half, size, right, size, out + half * size, first, last);
    }
  }
  for (int64_t r = whole; r < n_factors;) {
    if (tile_rows > 4 && n_factors - r > 4) {
      strip<T, 1, tile_rows>(n, left + r, size, right, size, out + r * size, 0, size / width);
      r += tile_rows;
    } else if (n_factors - r > 2) {
      strip<T, 1, 4>(n, left + r, size, right, size, out + r * size, 0, size / width);
      r += 4;
    } else {
      strip<T, 1, 2>(n, left + r, size, right, size, out + r * size, 0, size / width);
      r += 2;
    }
  }
}

template <class T>
TS_CALLED void triangle(int64_t n, const T *left, const T *right, int64_t n_factors, int64_t size, T *out) {
  inlined_triangle(n, left, right, n_factors, size, out);
}

// Completes the upper triangle.
template <class T>
TS_INLINE void mirror(int64_t n_factors, int64_t size, T *matrix) {
  const int64_t whole = whole_groups<T>(n_factors);
  for (int64_t r = whole; r < n_factors; ++r)
    for (int64_t c = 0; c < whole; ++c) matrix[c * size + r] = matrix[r * size + c];
}

template <class T>
int64_t padded_factors(int64_t n_factors) {
  // Rows are taken tile_rows at a time as well, so the padding serves both.
  const int64_t unit = width_of<T> > tile_rows ? width_of<T> : tile_rows;
  return (n_factors + unit - 1) / unit * unit;
}

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
