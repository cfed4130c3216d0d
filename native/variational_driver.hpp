// Schedules variational rows: blocks of rows of equal cost, huge rows split at fixed boundaries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "rows_driver.hpp"
#include "tables.hpp"

namespace tastespace {

// The memory of one workspace, aligned to cache lines.
template <class T>
class VariationalMemory {
 public:
  // `longest` is the most ratings of a row where coordinates are moved, 0 elsewhere.
  VariationalMemory(const VariationalProblem<T> &problem, bool full, int64_t longest) {
    const int64_t width = problem.width, record = record_size(width, full);
    const int64_t size = variational_kernel<T>().padded(width), square = full ? size * size : 0;
    const int64_t doubles[] = {record, size, square, square, square, 6 * size};
    const int64_t numbers[] = {record + round(width), round(longest), variational_strip * round(longest), round(width)};
    int64_t n_doubles = line, n_numbers = line;
    for (int64_t part : doubles) n_doubles += round(part);
    for (int64_t part : numbers) n_numbers += round(part);
    doubles_.assign(size_t(n_doubles), 0.0);
    numbers_.assign(size_t(n_numbers), T(0));
    double **double_at[] = {&space.sums.total, &space.sums.weighted, &space.matrix,
                            &space.inverse,    &space.covariance,    &space.vectors};
    T **number_at[] = {&space.block, &space.errors, &space.transposed, &space.point};
    double *of_doubles = aligned(doubles_);
    for (int i = 0; i < 6; ++i) {
      *double_at[i] = of_doubles;
      of_doubles += round(doubles[i]);
    }
    T *of_numbers = aligned(numbers_);
    for (int i = 0; i < 4; ++i) {
      *number_at[i] = of_numbers;
      of_numbers += round(numbers[i]);
    }
  }
  VariationalMemory(VariationalMemory &&) = default;  // A moved vector keeps its memory.
  VariationalWorkspace<T> space{};

 private:
  static constexpr int64_t line = 16;
  static int64_t round(int64_t n) { return (n + line - 1) / line * line; }
  template <class Number>
  static Number *aligned(std::vector<Number> &memory) {
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory.data()) / sizeof(Number)) % line;
    return memory.data() + (line - past) % line;
  }
  std::vector<double> doubles_;
  std::vector<T> numbers_;
};

template <class T>
void clear_sums(const VariationalProblem<T> &problem, VariationalSums &sums) {
  const int64_t width = problem.width;
  std::fill_n(sums.total, record_size(width, true), 0.0);
  std::fill_n(sums.weighted, width, 0.0);
  sums.n = sums.linear = sums.square = 0;
}

template <class T>
void merge_sums(const VariationalProblem<T> &problem, const VariationalSums &from, VariationalSums &into) {
  const int64_t width = problem.width;
  for (int64_t c = 0; c < record_size(width, true); ++c) into.total[c] += from.total[c];
  for (int64_t c = 0; c < width; ++c) into.weighted[c] += from.weighted[c];
  into.n += from.n;
  into.linear += from.linear;
  into.square += from.square;
}

// First rows of blocks that take equally long; rows longer than `longest` are left to somebody else.
inline std::vector<int64_t> variational_blocks(int64_t n_rows, const int64_t *offsets, int64_t a_row, int64_t longest,
                                               int threads) {
  const auto cost_of = [&](int64_t row) {
    const int64_t n = offsets[row + 1] - offsets[row];
    return n > longest ? 0 : a_row + n;
  };
  int64_t total = 0;
  for (int64_t row = 0; row < n_rows; ++row) total += cost_of(row);
  const int64_t share = total / (rows_blocks_per_thread * std::max(threads, 1)) + 1;
  std::vector<int64_t> starts{0};
  for (int64_t row = 0, cost = 0; row < n_rows; ++row) {
    cost += cost_of(row);
    if (cost < share) continue;
    starts.push_back(row + 1);
    cost = 0;
  }
  if (starts.back() != n_rows) starts.push_back(n_rows);
  return starts;
}

// Huge rows: pieces of them in parallel, a batch at a time, merged in order.
template <class T>
void huge_variational_rows(const VariationalProblem<T> &problem, int threads, FirstFailure &failure) {
  struct Piece {
    int64_t row, begin, end;
  };
  const VariationalKernel<T> &kernel = variational_kernel<T>();
  const int64_t *offsets = problem.offsets;
  std::vector<Piece> pieces;
  for (int64_t row = 0; row < problem.n_rows; ++row) {
    if (offsets[row + 1] - offsets[row] <= rows_piece) continue;
    for (int64_t k = offsets[row]; k < offsets[row + 1]; k += rows_piece)
      pieces.push_back({row, k, std::min(k + rows_piece, offsets[row + 1])});
  }
  if (pieces.empty()) return;
  VariationalMemory<T> whole(problem, true, 0);
  std::vector<VariationalMemory<T>> parts;
  for (int64_t i = 0; i < std::min(int64_t(pieces.size()), rows_pieces_at_once); ++i)
    parts.emplace_back(problem, true, 0);
  for (size_t start = 0; start < pieces.size(); start += parts.size()) {
    const size_t n = std::min(parts.size(), pieces.size() - start);
    parallel_for(int64_t(n), threads, [&](int64_t i, int) {
      const Piece &piece = pieces[start + size_t(i)];
      clear_sums(problem, parts[size_t(i)].space.sums);
      kernel.accumulate(problem, piece.begin, piece.end, parts[size_t(i)].space);
    });
    for (size_t i = 0; i < n; ++i) {
      const Piece &piece = pieces[start + i];
      if (piece.begin == offsets[piece.row]) clear_sums(problem, whole.space.sums);
      merge_sums(problem, parts[i].space.sums, whole.space.sums);
      if (piece.end == offsets[piece.row + 1] && !kernel.finish(problem, piece.row, whole.space)) failure.at(piece.row);
    }
  }
}

// Returns -1, or the first row whose precision matrix is not positive definite.
template <class T>
int64_t variational_rows(const VariationalProblem<T> &problem, int threads) {
  const VariationalKernel<T> &kernel = variational_kernel<T>();
  const int64_t *offsets = problem.offsets;
  FirstFailure failure(problem.n_rows);
  huge_variational_rows(problem, threads, failure);
  // A row is factored and inverted, which takes about as long as so many ratings.
  const std::vector<int64_t> starts =
      variational_blocks(problem.n_rows, offsets, 2 * problem.width, rows_piece, threads);
  std::vector<VariationalMemory<T>> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back(problem, true, 0);
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t task, int worker) {
    VariationalWorkspace<T> &space = memories[size_t(worker)].space;
    for (int64_t row = starts[size_t(task)]; row < starts[size_t(task) + 1]; ++row) {
      if (offsets[row + 1] - offsets[row] > rows_piece) continue;
      clear_sums(problem, space.sums);
      kernel.accumulate(problem, offsets[row], offsets[row + 1], space);
      if (!kernel.finish(problem, row, space)) failure.at(row);
    }
  });
  return failure.first();
}

// Moves every coordinate of every row once. No row is so long that it would have to be split: a rating costs little.
template <class T>
int64_t variational_coordinates(const VariationalProblem<T> &problem, int threads) {
  const VariationalKernel<T> &kernel = variational_kernel<T>();
  const int64_t *offsets = problem.offsets;
  int64_t longest = 0;
  for (int64_t row = 0; row < problem.n_rows; ++row) longest = std::max(longest, offsets[row + 1] - offsets[row]);
  FirstFailure failure(problem.n_rows);
  const std::vector<int64_t> starts = variational_blocks(problem.n_rows, offsets, 8, longest, threads);
  std::vector<VariationalMemory<T>> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back(problem, false, longest);
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t task, int worker) {
    for (int64_t row = starts[size_t(task)]; row < starts[size_t(task) + 1]; ++row)
      if (!kernel.coordinates(problem, row, memories[size_t(worker)].space)) failure.at(row);
  });
  return failure.first();
}

}  // namespace tastespace
