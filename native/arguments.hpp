// What the bindings share: array types and checks of arguments.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>

namespace tastespace {

template <class T, int Dimensions>
using Array =
    nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<Dimensions>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using Vector = Array<T, 1>;
template <class T>
using Matrix = Array<T, 2>;
template <class T>
using OptionalVector = std::optional<Vector<T>>;
template <class T>
using OptionalMatrix = std::optional<Matrix<T>>;

template <class A>
auto pointer(const std::optional<A> &array) {
  return array ? array->data() : decltype(array->data())(nullptr);
}

inline void require(bool holds, const char *what) {
  if (!holds) throw std::invalid_argument(what);
}

template <class A>
bool has_size(const std::optional<A> &array, size_t size) {
  return !array || array->size() == size;
}

// All between low and high; a plain reduction, so that it vectorises and costs nothing beside the work.
inline bool within(const int32_t *values, size_t n, int64_t low, int64_t high) {
  int32_t least = INT32_MAX, most = INT32_MIN;
  for (size_t k = 0; k < n; ++k) {
    least = std::min(least, values[k]);
    most = std::max(most, values[k]);
  }
  return n == 0 || (least >= low && most < high);
}

// All finite, each above the one before.
template <class T>
bool ascending(const T *values, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!std::isfinite(values[i]) || (i > 0 && !(values[i - 1] < values[i]))) return false;
  return true;
}

// Offsets of n_rows rows over n ratings.
inline void require_offsets(const Vector<const int64_t> &offsets, size_t n_rows, size_t n) {
  const int64_t *at = offsets.data();
  require(offsets.size() == n_rows + 1, "offsets: one more than rows");
  require(at[0] == 0 && at[n_rows] == int64_t(n), "offsets: from 0 to the number of ratings");
  for (size_t row = 0; row < n_rows; ++row) require(at[row] <= at[row + 1], "offsets: ascending");
}

// Lists of what must not be found, one a query.
inline void require_excluded(const OptionalVector<const int64_t> &offsets,
                             const OptionalVector<const int32_t> &excluded, int64_t n_queries) {
  require(offsets.has_value() == excluded.has_value(), "excluded: offsets and rows together");
  if (!offsets) return;
  const int64_t *at = offsets->data();
  require(int64_t(offsets->size()) == n_queries + 1 && at[0] >= 0 && at[n_queries] <= int64_t(excluded->size()),
          "excluded_offsets: one more than queries, within excluded");
  for (int64_t q = 0; q < n_queries; ++q) require(at[q] <= at[q + 1], "excluded_offsets: ascending");
}

}  // namespace tastespace
