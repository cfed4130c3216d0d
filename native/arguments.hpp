// Shared by the bindings: arrays of the caller, and checks of arguments.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace tastespace {

namespace nb = nanobind;

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

// An array that Python passed, kept until the call returns. One that is only read is converted if need be; one that is
// filled never is, since the caller would not see the copy.
class ArrayArgument {
 public:
  ArrayArgument() = default;
  ArrayArgument(const ArrayArgument &) = delete;
  ~ArrayArgument();
  bool take(nb::handle from, uint32_t flags, nb::detail::cleanup_list *cleanup, nb::dlpack::dtype type, int dimensions,
            bool is_read_only) noexcept;

  void *data = nullptr;
  const int64_t *shape = nullptr;  // null if None was passed

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

// Lists of excluded items, one per query.
void require_excluded(const OptionalVector<const int64_t> &offsets, const OptionalVector<const int32_t> &excluded,
                      int64_t n_queries);

}  // namespace tastespace

namespace nanobind::detail {

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

namespace tastespace {

// The name of an argument and its default: "threads"_a = 1.
struct Argument {
  enum class Default : uint8_t { missing, none, truth, integer, real };

  constexpr explicit Argument(const char *name) : name(name) {}
  template <class Value>
  constexpr Argument operator=(Value value) const {
    Argument changed = *this;
    if constexpr (std::is_same_v<Value, std::nullopt_t>)
      changed.kind = Default::none;
    else if constexpr (std::is_floating_point_v<Value>)
      changed.kind = Default::real, changed.real = double(value);
    else
      changed.kind = std::is_same_v<Value, bool> ? Default::truth : Default::integer, changed.integer = value;
    return changed;
  }
  Argument(const Argument &) = default;

  const char *name;  // null: the arguments that follow are passed by name only
  Default kind = Default::missing;
  int64_t integer = 0;
  double real = 0;
};
constexpr Argument operator""_a(const char *name, size_t) { return Argument(name); }
constexpr Argument by_name_only(nullptr);
constexpr std::nullopt_t none = std::nullopt;

// Converts an argument from Python by nanobind's caster for its type.
struct ArgumentType {
  size_t size;
  bool (*load)(void *caster, nb::handle from, uint32_t flags, nb::detail::cleanup_list *cleanup);
  void (*destroy)(void *caster);
  const char *name;
  bool accepts_none;
};
template <class A>
using CasterOf = nb::detail::make_caster<A>;
template <class A>
constexpr ArgumentType argument_type = {
    sizeof(CasterOf<A>),
    [](void *caster, nb::handle from, uint32_t flags, nb::detail::cleanup_list *cleanup) {
      return (new (caster) CasterOf<A>)->from_python(from, flags, cleanup);
    },
    [](void *caster) { static_cast<CasterOf<A> *>(caster)->~CasterOf<A>(); },
    CasterOf<nb::remove_opt_mono_t<nb::detail::intrinsic_t<A>>>::Name.text,
    nb::detail::has_arg_defaults_v<A>,
};

using AnyFunction = void (*)();
struct FunctionType {
  size_t n_arguments;
  const ArgumentType *const *arguments;
  const char *result;
  nb::handle (*call)(AnyFunction function, void *const *casters, nb::detail::cleanup_list *cleanup);
};

void define(nb::module_ &module, const char *name, const FunctionType &type, AnyFunction function,
            std::initializer_list<Argument> arguments, const char *doc);

// Like module.def() of nanobind, which compiles the conversion of arguments separately for every function: for sixty
// functions with twenty arguments that takes longer than the rest of a binding. Here only the call itself is.
template <class Result, class... Arguments>
void define(nb::module_ &module, const char *name, Result (*function)(Arguments...),
            std::initializer_list<Argument> arguments, const char *doc) {
  static constexpr const ArgumentType *types[] = {&argument_type<Arguments>...};
  static constexpr auto call = [](AnyFunction function, void *const *casters, nb::detail::cleanup_list *cleanup) {
    return [&]<size_t... I>(std::index_sequence<I...>) -> nb::handle {
      const auto result = [&] {
        return reinterpret_cast<Result (*)(Arguments...)>(function)(
            static_cast<CasterOf<Arguments> *>(casters[I])->operator nb::detail::cast_t<Arguments>()...);
      };
      if constexpr (std::is_void_v<Result>) {
        result();
        return nb::none().release();
      } else {
        return CasterOf<Result>::from_cpp(result(), nb::rv_policy::automatic, cleanup);
      }
    }(std::index_sequence_for<Arguments...>());
  };
  using Returned = std::conditional_t<std::is_void_v<Result>, nb::detail::void_type, Result>;
  static constexpr FunctionType type = {sizeof...(Arguments), types, CasterOf<Returned>::Name.text, call};
  define(module, name, type, reinterpret_cast<AnyFunction>(function), arguments, doc);
}

}  // namespace tastespace
