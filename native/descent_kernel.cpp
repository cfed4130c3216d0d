// Steps of gradient descent at single ratings. The two rows of a rating stay in registers between the inner product and
// the step; bias and penalty of a row lie behind its factors, so that a visit touches only two places.
#include <cmath>

#include "descent.hpp"
#include "lanes.hpp"
#include "machine.hpp"

namespace tastespace::TS_ISA::descent {
namespace {

constexpr int64_t look_ahead = 6;  // ratings whose rows are prefetched

template <class T>
int64_t padded_size(int64_t n_factors) {
  return padded<T>(n_factors);
}

template <class T>
int64_t stride_of(int64_t n_factors) {
  return padded<T>(n_factors) + padded<T>(tail_numbers);
}

// The error at a score, and how fast the prediction grows with it.
template <class T>
struct Miss {
  T error, slope;
};

template <class T, bool Squashed>
TS_INLINE Miss<T> miss_at(T value, T score) {
  if constexpr (!Squashed) return {value - score, T(1)};
  const T e = exp(score < 0 ? score : -score), larger = T(1) / (T(1) + e);
  const T chance = score < 0 ? e * larger : larger;
  return {value - 4 * chance, 4 * e * larger * larger};
}

#if defined(__GNUC__) && !defined(TS_PORTABLE) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TS_HALVES
#endif
#endif

// Sum of the lanes by the same tree as `sum`, hence the same bytes; register by register where the compiler supports
// it, since adding single numbers takes sixteen shuffles.
#if defined(TS_HALVES)
template <class T, int Bytes>
using Part __attribute__((vector_size(Bytes))) = T;

TS_INLINE float tree_sum(Part<float, 16> x) { return (x[0] + x[2]) + (x[1] + x[3]); }
TS_INLINE float tree_sum(Part<float, 32> x) {
  return tree_sum(__builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7));
}
TS_INLINE float tree_sum(Part<float, 64> x) {
  return tree_sum(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                  __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15));
}
TS_INLINE double tree_sum(Part<double, 16> x) { return x[0] + x[1]; }
TS_INLINE double tree_sum(Part<double, 32> x) {
  return tree_sum(__builtin_shufflevector(x, x, 0, 1) + __builtin_shufflevector(x, x, 2, 3));
}
TS_INLINE double tree_sum(Part<double, 64> x) {
  return tree_sum(__builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7));
}
#else
template <class T>
TS_INLINE T tree_sum(Lanes<T> x) {
  return sum<T>(x);
}
#endif

template <class T>
TS_INLINE void fetch(const T *row, int64_t stride) {
  for (int64_t d = 0; d < stride; d += 64 / int64_t(sizeof(T))) TS_PREFETCH(row + d);
  (void)row;
}

template <class T>
TS_INLINE T dot(const T *TS_RESTRICT left, const T *TS_RESTRICT right, int64_t size) {
  Lanes<T> sums = load(left) * load(right);
  for (int64_t d = width_of<T>; d < size; d += width_of<T>) sums += load(left + d) * load(right + d);
#if defined(TS_HALVES)
  return tree_sum(sums);
#else
  return tree_sum<T>(sums);
#endif
}

// Both rows of a rating, as far as they fit into registers.
template <class T, int Registers>
struct Pair {
  Lanes<T> user[Registers], item[Registers];

  TS_INLINE T take(const T *us, const T *vs, int64_t) {
    for (int r = 0; r < Registers; ++r) {
      user[r] = load(us + r * width_of<T>);
      item[r] = load(vs + r * width_of<T>);
    }
    Lanes<T> sums = user[0] * item[0];
    for (int r = 1; r < Registers; ++r) sums += user[r] * item[r];
#if defined(TS_HALVES)
    return tree_sum(sums);
#else
    return tree_sum<T>(sums);
#endif
  }
  TS_INLINE void move(T *us, T *vs, int64_t, T step, T user_keep, T item_keep) const {
    for (int r = 0; r < Registers; ++r) {
      store(us + r * width_of<T>, user[r] * user_keep + item[r] * step);
      store(vs + r * width_of<T>, item[r] * item_keep + user[r] * step);
    }
  }
};
template <class T>
struct Pair<T, 0> {  // any number of factors
  TS_INLINE T take(const T *us, const T *vs, int64_t size) { return dot(us, vs, size); }
  TS_INLINE void move(T *us, T *vs, int64_t size, T step, T user_keep, T item_keep) const {
    for (int64_t d = 0; d < size; d += width_of<T>) {
      const Lanes<T> u = load(us + d), v = load(vs + d);
      store(us + d, u * user_keep + v * step);
      store(vs + d, v * item_keep + u * step);
    }
  }
};

template <class T, bool Squashed, int Registers>
double descend_with(const DescentProblem<T> &problem, int64_t begin, int64_t end) {
  const int64_t size = Registers > 0 ? Registers * width_of<T> : padded_size<T>(problem.n_factors);
  const int64_t stride = size + padded<T>(tail_numbers);
  const int32_t *user_rows = problem.user_rows, *item_rows = problem.item_rows;
  const T *values = problem.values, offset = problem.offset, rate = problem.rate, bias_rate = problem.bias_rate;
  T *users = problem.users, *items = problem.items;
  double squares = 0;
  for (int64_t k = begin; k < end; ++k) {
    if (k + look_ahead < end) {
      fetch(users + user_rows[k + look_ahead] * stride, stride);
      fetch(items + item_rows[k + look_ahead] * stride, stride);
    }
    T *user = users + user_rows[k] * stride, *item = items + item_rows[k] * stride;
    T *user_tail = user + size, *item_tail = item + size;
    const T user_bias = user_tail[tail_bias], item_bias = item_tail[tail_bias];
    Pair<T, Registers> pair;
    const T product = pair.take(user, item, size);
    const Miss<T> miss = miss_at<T, Squashed>(values[k], offset + user_bias + item_bias + product);
    squares += double(miss.error) * double(miss.error);
    const T gain = miss.error * miss.slope;
    pair.move(user, item, size, rate * gain, user_tail[tail_factors], item_tail[tail_factors]);
    user_tail[tail_bias] = user_bias * user_tail[tail_bias_share] + bias_rate * gain;
    item_tail[tail_bias] = item_bias * item_tail[tail_bias_share] + bias_rate * gain;
  }
  return squares;
}

template <class T, bool Squashed>
double descend_link(const DescentProblem<T> &problem, int64_t begin, int64_t end) {
  switch (padded_size<T>(problem.n_factors) / width_of<T>) {
    case 1:
      return descend_with<T, Squashed, 1>(problem, begin, end);
    case 2:
      return descend_with<T, Squashed, 2>(problem, begin, end);
    case 4:
      return descend_with<T, Squashed, 4>(problem, begin, end);
    default:
      return descend_with<T, Squashed, 0>(problem, begin, end);
  }
}

template <class T>
double descend(const DescentProblem<T> &problem, int64_t begin, int64_t end) {
  return problem.is_squashed ? descend_link<T, true>(problem, begin, end) : descend_link<T, false>(problem, begin, end);
}

template <class T, bool Squashed>
double add_slopes_link(const DescentProblem<T> &problem, int64_t begin, int64_t end) {
  const int64_t size = padded_size<T>(problem.n_factors), stride = stride_of<T>(problem.n_factors);
  double squares = 0;
  for (int64_t k = begin; k < end; ++k) {
    if (k + look_ahead < end) {
      fetch(problem.users + problem.user_rows[k + look_ahead] * stride, stride);
      fetch(problem.items + problem.item_rows[k + look_ahead] * stride, stride);
    }
    const int64_t i = problem.user_rows[k] * stride, j = problem.item_rows[k] * stride;
    const T *user = problem.users + i, *item = problem.items + j, *user_tail = user + size, *item_tail = item + size;
    T *user_slopes = problem.user_slopes + i, *item_slopes = problem.item_slopes + j;
    const T score = problem.offset + user_tail[tail_bias] + item_tail[tail_bias] + dot(user, item, size);
    const Miss<T> miss = miss_at<T, Squashed>(problem.values[k], score);
    squares += double(miss.error) * double(miss.error);
    const T gain = miss.error * miss.slope, user_pull = user_tail[tail_factors], item_pull = item_tail[tail_factors];
    for (int64_t d = 0; d < size; d += width_of<T>) {
      const Lanes<T> u = load(user + d), v = load(item + d);
      store(user_slopes + d, load(user_slopes + d) + (u * user_pull - v * gain));
      store(item_slopes + d, load(item_slopes + d) + (v * item_pull - u * gain));
    }
    user_slopes[size + tail_bias] += user_tail[tail_bias_share] * user_tail[tail_bias] - gain;
    item_slopes[size + tail_bias] += item_tail[tail_bias_share] * item_tail[tail_bias] - gain;
  }
  return squares;
}

template <class T>
double add_slopes(const DescentProblem<T> &problem, int64_t begin, int64_t end) {
  return problem.is_squashed ? add_slopes_link<T, true>(problem, begin, end)
                             : add_slopes_link<T, false>(problem, begin, end);
}

}  // namespace

void fill(Table &table) {
  table.descent_float = {padded_size<float>, stride_of<float>, descend<float>, add_slopes<float>};
  table.descent_double = {padded_size<double>, stride_of<double>, descend<double>, add_slopes<double>};
}

}  // namespace tastespace::TS_ISA::descent
