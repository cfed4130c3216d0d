// Schedules gradient descent over blocks of ratings that have no row in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "tables.hpp"

namespace tastespace {

// Ratings by block: users and items are each dealt into n_parts parts, and block a * n_parts + b has the ratings of
// users of part a and items of part b. In stage s the blocks (a, (a + s) mod n_parts) share no row: any number of
// threads may take them, and the result is that of one thread.
struct DescentBlocks {
  int64_t n_parts = 0;
  const int64_t *offsets = nullptr;  // n_parts^2 + 1
  const int32_t *stages = nullptr;   // n_parts: the order of the stages
  int64_t batch = 0, n_batches = 1;  // which share of each block is visited
};

// One side as the caller has it.
template <class T>
struct DescentSide {
  int64_t n = 0;
  T *factors = nullptr;      // n x n_factors
  T *bias = nullptr;         // n, or null
  const T *pulls = nullptr;  // n: weight of the row's penalty, a rating
  T strength = 0, bias_strength = 0;
  T *slopes = nullptr;       // n x n_factors, where gradients are summed up
  T *bias_slopes = nullptr;  // n, or null
};

// Rows from one cache line on.
template <class T>
class LinedRows {
 public:
  LinedRows(int64_t n, int64_t stride) : memory_(size_t(n * stride + line), T(0)) {}
  T *data() {
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(T)) % line;
    return memory_.data() + (line - past) % line;
  }

 private:
  static constexpr int64_t line = 64 / int64_t(sizeof(T));
  std::vector<T> memory_;
};

template <class T>
void pad_side(const DescentSide<T> &side, const DescentProblem<T> &problem, int64_t size, int64_t stride, T *rows) {
  const int64_t n_factors = problem.n_factors;
  for (int64_t i = 0; i < side.n; ++i) {
    T *row = rows + i * stride, *tail = row + size;
    std::copy_n(side.factors + i * n_factors, n_factors, row);
    tail[tail_bias] = side.bias ? side.bias[i] : T(0);
    const T pull = side.strength * side.pulls[i], bias_pull = side.bias_strength * side.pulls[i];
    tail[tail_factors] = side.slopes ? pull : 1 - problem.rate * pull;
    tail[tail_bias_share] = side.slopes ? bias_pull : 1 - problem.bias_rate * bias_pull;
  }
}

template <class T>
void unpad_rows(const T *rows, int64_t n, int64_t n_factors, int64_t size, int64_t stride, T *factors, T *bias) {
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(rows + i * stride, n_factors, factors + i * n_factors);
    if (bias) bias[i] = rows[i * stride + size + tail_bias];
  }
}

template <class T, class Visit>
double visit_blocks(const DescentProblem<T> &problem, const DescentBlocks &blocks, Visit visit, int threads) {
  const int64_t n_parts = blocks.n_parts;
  std::vector<double> squares(size_t(n_parts * n_parts), 0.0);
  for (int64_t stage = 0; stage < n_parts; ++stage)
    parallel_for(n_parts, threads, [&](int64_t part, int) {
      const int64_t block = part * n_parts + (part + blocks.stages[stage]) % n_parts;
      const int64_t first = blocks.offsets[block], n = blocks.offsets[block + 1] - first;
      const int64_t begin = first + n * blocks.batch / blocks.n_batches;
      const int64_t end = first + n * (blocks.batch + 1) / blocks.n_batches;
      squares[size_t(block)] = visit(problem, begin, end);
    });
  double total = 0;
  for (double square : squares) total += square;
  return total;
}

// Steps at every rating of the batch, in place; or, where the sides have slopes, the sums of the gradients.
template <class T>
double descend_ratings(DescentProblem<T> problem, const DescentBlocks &blocks, const DescentSide<T> &users,
                       const DescentSide<T> &items, int threads) {
  const DescentKernel<T> &kernel = descent_kernel<T>();
  const int64_t n_factors = problem.n_factors, size = kernel.padded(n_factors), stride = kernel.stride(n_factors);
  LinedRows<T> user_rows(users.n, stride), item_rows(items.n, stride);
  pad_side(users, problem, size, stride, user_rows.data());
  pad_side(items, problem, size, stride, item_rows.data());
  problem.users = user_rows.data();
  problem.items = item_rows.data();
  if (!users.slopes) {
    const double squares = visit_blocks(problem, blocks, kernel.descend, threads);
    unpad_rows(problem.users, users.n, n_factors, size, stride, users.factors, users.bias);
    unpad_rows(problem.items, items.n, n_factors, size, stride, items.factors, items.bias);
    return squares;
  }
  LinedRows<T> user_slopes(users.n, stride), item_slopes(items.n, stride);
  problem.user_slopes = user_slopes.data();
  problem.item_slopes = item_slopes.data();
  const double squares = visit_blocks(problem, blocks, kernel.add_slopes, threads);
  unpad_rows(problem.user_slopes, users.n, n_factors, size, stride, users.slopes, users.bias_slopes);
  unpad_rows(problem.item_slopes, items.n, n_factors, size, stride, items.slopes, items.bias_slopes);
  return squares;
}

}  // namespace tastespace
