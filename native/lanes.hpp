// A vector register as a value: loads, stores, arithmetic and sums, for any instruction set.
//
// Every kernel file is compiled once per instruction set, inside namespace tastespace::TS_ISA, so that no
// symbol of one set can be merged by the linker with that of another. TS_VECTOR_BYTES is the register width.
#pragma once

#include <cstdint>

#ifndef TS_ISA
#define TS_ISA base
#endif
#ifndef TS_VECTOR_BYTES
#define TS_VECTOR_BYTES 16
#endif

#if defined(__GNUC__)
#define TS_INLINE inline __attribute__((always_inline))
// Compiled once and called: for functions whose work outweighs a call, where a copy at every caller would only cost
// time to compile.
#define TS_CALLED __attribute__((noinline))
#define TS_RESTRICT __restrict__
#define TS_PREFETCH(address) __builtin_prefetch(address)
#else
#define TS_INLINE inline
#define TS_CALLED
#define TS_RESTRICT __restrict
#define TS_PREFETCH(address) ((void)0)
#endif

namespace tastespace {
namespace TS_ISA {

#if defined(__GNUC__) && !defined(TS_PORTABLE)

template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float type __attribute__((vector_size(TS_VECTOR_BYTES)));
};
template <>
struct LanesOf<double> {
  typedef double type __attribute__((vector_size(TS_VECTOR_BYTES)));
};
template <class T>
using Lanes = typename LanesOf<T>::type;

template <class T>
TS_INLINE Lanes<T> load(const T *from) {
  Lanes<T> lanes;
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <class T>
TS_INLINE void store(T *to, Lanes<T> lanes) {
  __builtin_memcpy(to, &lanes, sizeof lanes);
}

template <class T>
TS_INLINE Lanes<T> filled(T value) {
  return Lanes<T>{} + value;
}

// Lane by lane: `then` where left is larger than right.
template <class T>
TS_INLINE Lanes<T> where_larger(Lanes<T> left, Lanes<T> right, Lanes<T> then, Lanes<T> otherwise) {
  return left > right ? then : otherwise;
}

#else

// The portable twin: plain loops over a small array, which any compiler can vectorise.
template <class T>
struct Lanes {
  static constexpr int width = TS_VECTOR_BYTES / int(sizeof(T));
  T lane[width];

  Lanes &operator+=(const Lanes &other) {
    for (int i = 0; i < width; ++i) lane[i] += other.lane[i];
    return *this;
  }
  Lanes &operator-=(const Lanes &other) {
    for (int i = 0; i < width; ++i) lane[i] -= other.lane[i];
    return *this;
  }
  Lanes operator+(const Lanes &other) const { return Lanes(*this) += other; }
  Lanes operator-(const Lanes &other) const { return Lanes(*this) -= other; }
  Lanes operator*(T factor) const {
    Lanes product;
    for (int i = 0; i < width; ++i) product.lane[i] = lane[i] * factor;
    return product;
  }
  Lanes operator*(const Lanes &other) const {
    Lanes product;
    for (int i = 0; i < width; ++i) product.lane[i] = lane[i] * other.lane[i];
    return product;
  }
};
template <class T>
TS_INLINE Lanes<T> load(const T *from) {
  Lanes<T> lanes;
  for (int i = 0; i < Lanes<T>::width; ++i) lanes.lane[i] = from[i];
  return lanes;
}
template <class T>
TS_INLINE void store(T *to, const Lanes<T> &lanes) {
  for (int i = 0; i < Lanes<T>::width; ++i) to[i] = lanes.lane[i];
}
template <class T>
TS_INLINE Lanes<T> filled(T value) {
  Lanes<T> lanes;
  for (int i = 0; i < Lanes<T>::width; ++i) lanes.lane[i] = value;
  return lanes;
}
template <class T>
TS_INLINE Lanes<T> where_larger(const Lanes<T> &left, const Lanes<T> &right, const Lanes<T> &then,
                                const Lanes<T> &otherwise) {
  Lanes<T> chosen;
  for (int i = 0; i < Lanes<T>::width; ++i)
    chosen.lane[i] = left.lane[i] > right.lane[i] ? then.lane[i] : otherwise.lane[i];
  return chosen;
}

#endif

template <class T>
constexpr int width_of = TS_VECTOR_BYTES / int(sizeof(T));

template <class T>
TS_INLINE int64_t padded(int64_t n) {
  return (n + width_of<T> - 1) / width_of<T> * width_of<T>;
}

template <int Half, class T>
TS_INLINE void fold(T *part) {
  for (int i = 0; i < Half; ++i) part[i] += part[i + Half];
  if constexpr (Half > 1) fold<Half / 2>(part);
}

// Sum of the lanes as a fixed tree, so that the result does not depend on the compiler. Every step is a separate loop
// with a constant number of iterations: the compiler then keeps it in registers.
template <class T>
TS_INLINE T sum(Lanes<T> lanes) {
  T part[width_of<T>];
  store(part, lanes);
  if constexpr (width_of<T> > 1) fold<width_of<T> / 2>(part);
  return part[0];
}

namespace {

// The inner product of two rows.
TS_INLINE float inner_product(const float *TS_RESTRICT left, const float *TS_RESTRICT right, int64_t n) {
  constexpr int width = width_of<float>;
  float total = 0;
  int64_t d = 0;
  if (n >= width) {
    Lanes<float> sums = load(left) * load(right);
    for (d = width; d + width <= n; d += width) sums += load(left + d) * load(right + d);
    total = sum<float>(sums);
  }
  for (; d < n; ++d) total += left[d] * right[d];
  return total;
}

}  // namespace
}  // namespace TS_ISA
}  // namespace tastespace
