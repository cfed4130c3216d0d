// Steps of gradient descent at single ratings. The two rows of a rating stay in registers between the inner product and
// the step; bias and penalty of a row lie behind its factors, so that a visit touches two places and no more.
#include <cmath>

#include "descent.hpp"
#include "lanes.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

constexpr int64_t look_ahead = 6;  // ratings whose rows are sent for

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

template <class T>
TS_INLINE void fetch(const DescentProblem<T> &problem, int64_t stride, int64_t k) {
  [[maybe_unused]] const T *user = problem.users + problem.user_rows[k] * stride;
  [[maybe_unused]] const T *item = problem.items + problem.item_rows[k] * stride;
  for (int64_t d = 0; d < stride; d += 64 / int64_t(sizeof(T))) {
    TS_PREFETCH(user + d);
    TS_PREFETCH(item + d);
  }
}

template <class T>
TS_INLINE T dot(const T *TS_RESTRICT left, const T *TS_RESTRICT right, int64_t size) {
  Lanes<T> sums = load(left) * load(right);
  for (int64_t d = width_of<T>; d < size; d += width_of<T>) sums += load(left + d) * load(right + d);
  return sum<T>(sums);
}

template <class T>
TS_INLINE T score_of(const DescentProblem<T> &problem, const T *user_tail, const T *item_tail, T product) {
  return problem.offset + user_tail[tail_bias] + item_tail[tail_bias] + product;
}

// rows += step * other - pull * rows, for both rows of a rating; both from where they were.
template <class T, int Registers>
TS_INLINE void move_rows(T *TS_RESTRICT user, T *TS_RESTRICT item, int64_t size, T step, T user_keep, T item_keep,
                         const Lanes<T> *us, const Lanes<T> *vs) {
  if constexpr (Registers > 0) {
    for (int r = 0; r < Registers; ++r) {
      store(user + r * width_of<T>, us[r] * user_keep + vs[r] * step);
      store(item + r * width_of<T>, vs[r] * item_keep + us[r] * step);
    }
  } else {
    for (int64_t d = 0; d < size; d += width_of<T>) {
      const Lanes<T> u = load(user + d), v = load(item + d);
      store(user + d, u * user_keep + v * step);
      store(item + d, v * item_keep + u * step);
    }
  }
}

// Registers 0: any number of factors.
template <class T, bool Squashed, int Registers>
double descend_with(const DescentProblem<T> &problem, int64_t begin, int64_t end) {
  const int64_t size = padded_size<T>(problem.n_factors), stride = stride_of<T>(problem.n_factors);
  const T rate = problem.rate, bias_rate = problem.bias_rate;
  double squares = 0;
  for (int64_t k = begin; k < end; ++k) {
    if (k + look_ahead < end) fetch(problem, stride, k + look_ahead);
    T *user = problem.users + problem.user_rows[k] * stride, *item = problem.items + problem.item_rows[k] * stride;
    T *user_tail = user + size, *item_tail = item + size;
    Lanes<T> us[Registers > 0 ? Registers : 1], vs[Registers > 0 ? Registers : 1];
    T product;
    if constexpr (Registers > 0) {
      for (int r = 0; r < Registers; ++r) {
        us[r] = load(user + r * width_of<T>);
        vs[r] = load(item + r * width_of<T>);
      }
      Lanes<T> sums = us[0] * vs[0];
      for (int r = 1; r < Registers; ++r) sums += us[r] * vs[r];
      product = sum<T>(sums);
    } else {
      product = dot(user, item, size);
    }
    const Miss<T> miss = miss_at<T, Squashed>(problem.values[k], score_of(problem, user_tail, item_tail, product));
    squares += double(miss.error) * double(miss.error);
    const T gain = miss.error * miss.slope;
    const T user_keep = 1 - rate * user_tail[tail_factors], item_keep = 1 - rate * item_tail[tail_factors];
    move_rows<T, Registers>(user, item, size, rate * gain, user_keep, item_keep, us, vs);
    user_tail[tail_bias] += bias_rate * (gain - user_tail[tail_bias_pull] * user_tail[tail_bias]);
    item_tail[tail_bias] += bias_rate * (gain - item_tail[tail_bias_pull] * item_tail[tail_bias]);
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
    if (k + look_ahead < end) fetch(problem, stride, k + look_ahead);
    const int64_t i = problem.user_rows[k] * stride, j = problem.item_rows[k] * stride;
    const T *user = problem.users + i, *item = problem.items + j, *user_tail = user + size, *item_tail = item + size;
    T *user_slopes = problem.user_slopes + i, *item_slopes = problem.item_slopes + j;
    const T score = score_of(problem, user_tail, item_tail, dot(user, item, size));
    const Miss<T> miss = miss_at<T, Squashed>(problem.values[k], score);
    squares += double(miss.error) * double(miss.error);
    const T gain = miss.error * miss.slope, user_pull = user_tail[tail_factors], item_pull = item_tail[tail_factors];
    for (int64_t d = 0; d < size; d += width_of<T>) {
      const Lanes<T> u = load(user + d), v = load(item + d);
      store(user_slopes + d, load(user_slopes + d) + (u * user_pull - v * gain));
      store(item_slopes + d, load(item_slopes + d) + (v * item_pull - u * gain));
    }
    user_slopes[size + tail_bias] += user_tail[tail_bias_pull] * user_tail[tail_bias] - gain;
    item_slopes[size + tail_bias] += item_tail[tail_bias_pull] * item_tail[tail_bias] - gain;
  }
  return squares;
}

template <class T>
double add_slopes(const DescentProblem<T> &problem, int64_t begin, int64_t end) {
  return problem.is_squashed ? add_slopes_link<T, true>(problem, begin, end)
                             : add_slopes_link<T, false>(problem, begin, end);
}

}  // namespace

void fill_descent(Table &table) {
  table.descent_float = {padded_size<float>, stride_of<float>, descend<float>, add_slopes<float>};
  table.descent_double = {padded_size<double>, stride_of<double>, descend<double>, add_slopes<double>};
}

}  // namespace TS_ISA
}  // namespace tastespace
