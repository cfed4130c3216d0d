// What the bindings share: arrays of the caller, and checks of arguments.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace tastespace {

namespace nb = nanobind;
using namespace nb::literals;

// A contiguous array of the caller: where it begins, and its shape.
template <class T, int Dimensions>
class Array {
 public:
  Array(void *data, const int64_t *shape) : data_(static_cast<T *>(data)), shape_(shape) {}
  T *data() const { return data_; }
  size_t shape(int i) const { return size_t(shape_[i]); }
  size_t size() const {
    size_t n = 1;
    for (int i = 0; i < Dimensions; ++i) n *= shape(i);
    return n;
  }

 private:
  T *data_;
  const int64_t *shape_;
};
template <class T>
using Vector = Array<T, 1>;
template <class T>
using Matrix = Array<T, 2>;
template <class T>
using OptionalVector = std::optional<Vector<T>>;
template <class T>
using OptionalMatrix = std::optional<Matrix<T>>;

// An array that Python passed, converted if it may be, and kept until the call returns. What nanobind would compile
// for every type of every argument of every function is compiled once, in module.cpp.
class ArrayArgument {
 public:
  ArrayArgument() = default;
  ArrayArgument(const ArrayArgument &) = delete;
  ~ArrayArgument();
  bool take(nb::handle from, uint32_t flags, nb::detail::cleanup_list *cleanup, nb::dlpack::dtype type, int dimensions,
            bool is_read_only) noexcept;

  void *data = nullptr;
  const int64_t *shape = nullptr;  // null where None was passed

 private:
  nb::detail::ndarray_handle *handle_ = nullptr;
};

template <class A>
auto pointer(const std::optional<A> &array) {
  return array ? array->data() : decltype(array->data())(nullptr);
}

// Throws std::invalid_argument.
void refuse(const char *what);
inline void require(bool holds, const char *what) {
  if (!holds) refuse(what);
}

template <class A>
bool has_size(const std::optional<A> &array, size_t size) {
  return !array || array->size() == size;
}

// All between low and high.
bool within(const int32_t *values, size_t n, int64_t low, int64_t high);

// All finite, each above the one before.
template <class T>
bool ascending(const T *values, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!std::isfinite(values[i]) || (i > 0 && !(values[i - 1] < values[i]))) return false;
  return true;
}

// Offsets of n_rows rows over n ratings.
void require_offsets(const Vector<const int64_t> &offsets, size_t n_rows, size_t n);

// Lists of what must not be found, one a query.
void require_excluded(const OptionalVector<const int64_t> &offsets, const OptionalVector<const int32_t> &excluded,
                      int64_t n_queries);

}  // namespace tastespace

namespace nanobind::detail {

// Signatures are put together by the compiler, and those of functions of many arrays are long: a loop over their
// characters takes it a fraction of the time that nanobind's expansion of all of them does.
template <size_t N1, size_t N2>
constexpr descr<N1 + N2> operator+(const descr<N1> &first, const descr<N2> &second) {
  descr<N1 + N2> both;
  for (size_t i = 0; i < N1; ++i) both.text[i] = first.text[i];
  for (size_t i = 0; i < N2; ++i) both.text[N1 + i] = second.text[i];
  return both;
}

template <size_t N1, size_t N2, size_t... Ns>
constexpr auto concat(const descr<N1> &first, const descr<N2> &second, const descr<Ns> &...others) {
  descr<N1 + 2 + N2 + ((2 + Ns) + ... + 0)> all;
  size_t n = 0;
  const auto put = [&](const char *text, size_t size) {
    for (size_t i = 0; i < size; ++i) all.text[n++] = text[i];
  };
  put(first.text, N1);
  put(", ", 2), put(second.text, N2);
  ((put(", ", 2), put(others.text, Ns)), ...);
  return all;
}

template <class T, int N>
struct type_caster<tastespace::Array<T, N>> {
  using Value = tastespace::Array<T, N>;
  static constexpr auto Name = type_caster<ndarray<numpy, T, ndim<N>, c_contig, device::cpu>>::Name;
  template <class>
  using Cast = Value;
  bool from_python(handle from, uint32_t flags, cleanup_list *cleanup) noexcept {
    return argument.take(from, flags, cleanup, dtype<T>(), N, std::is_const_v<T>);
  }
  explicit operator Value() const { return {argument.data, argument.shape}; }
  tastespace::ArrayArgument argument;
};

template <class T, int N>
struct type_caster<std::optional<tastespace::Array<T, N>>> {
  using Value = std::optional<tastespace::Array<T, N>>;
  static constexpr auto Name = optional_name(type_caster<tastespace::Array<T, N>>::Name);
  template <class>
  using Cast = Value;
  bool from_python(handle from, uint32_t flags, cleanup_list *cleanup) noexcept {
    return from.is_none() || argument.take(from, flags, cleanup, dtype<T>(), N, std::is_const_v<T>);
  }
  explicit operator Value() const {
    if (!argument.shape) return std::nullopt;
    return tastespace::Array<T, N>(argument.data, argument.shape);
  }
  tastespace::ArrayArgument argument;
};
}  // namespace nanobind::detail
