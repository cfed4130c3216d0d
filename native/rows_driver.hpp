// Schedules the row kernel: blocks of rows of equal cost, huge rows split over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "machine.hpp"

namespace tastespace {

// A row with more ratings than this is accumulated in pieces of this size, merged in order. The boundary
// depends on the data alone, so that one thread and many give the same bytes.
constexpr int64_t rows_piece = 32768;
// Pieces in flight at once: bounds the memory of partial sums, and is enough for equal shares.
constexpr int64_t rows_pieces_at_once = 64;
// Blocks of small rows per thread: the tail of the last block is at most 1/32 of a thread's share.
constexpr int64_t rows_blocks_per_thread = 32;

// The memory of one workspace, aligned to a cache line.
template <class T>
class RowsMemory {
 public:
  explicit RowsMemory(int64_t size, bool roots = false, bool few = false) {
    const int64_t block = rows_block * size, square = size * size;
    const int64_t parts[] = {block,    block,    2 * rows_block,     square,
                             2 * size, 4 * size, roots ? square : 0, few ? block : 0};
    int64_t total = line;
    for (int64_t part : parts) total += round(part);
    memory_.assign(size_t(total), T(0));
    T *at = memory_.data();
    at += (line - int64_t(reinterpret_cast<uintptr_t>(at) / sizeof(T)) % line) % line;
    T **to[] = {&space.gathered, &space.weighted, &space.extras,  &space.gram,
                &space.linear,   &space.scratch,  &space.inverse, &space.transposed};
    for (int i = 0; i < 8; ++i) {
      *to[i] = at;
      at += round(parts[i]);
    }
  }
  RowsMemory(RowsMemory &&) = default;  // The pointers of `space` stay valid: a moved vector keeps its memory.
  RowsWorkspace<T> space{};

 private:
  static constexpr int64_t line = 64 / int64_t(sizeof(T));
  static int64_t round(int64_t n) { return (n + line - 1) / line * line; }
  std::vector<T> memory_;
};

// The memory of a whitening, aligned to a cache line, and the whitening itself if it exists.
template <class T>
class WhiteningMemory {
 public:
  WhiteningMemory(const RowsProblem<T> &problem, int64_t n_columns, int threads) {
    const RowsKernel<T> &kernel = rows_kernel<T>();
    const int64_t size = kernel.padded(problem.n_factors), line = 64 / int64_t(sizeof(T));
    memory_.assign(size_t(size * (2 * size + 1 + n_columns) + line), T(0));
    T *at = memory_.data();
    at += (line - int64_t(reinterpret_cast<uintptr_t>(at) / sizeof(T)) % line) % line;
    whitening_ = {at, at + size * size, at + 2 * size * size, at + (2 * size + 1) * size};
    RowsMemory<T> memory(size);
    usable_ = kernel.whiten_prior(problem, memory.space, whitening_);
    if (!usable_) return;
    constexpr int64_t share = 1024;
    parallel_for((n_columns + share - 1) / share, threads, [&](int64_t task, int) {
      kernel.whiten(problem, task * share, std::min(n_columns, (task + 1) * share), whitening_);
    });
  }
  const Whitening<T> *get() const { return usable_ ? &whitening_ : nullptr; }

 private:
  std::vector<T> memory_;
  Whitening<T> whitening_{};
  bool usable_ = false;
};

// The first row that failed, whichever thread finds it first.
class FirstFailure {
 public:
  explicit FirstFailure(int64_t n_rows) : none_(n_rows), first_(n_rows) {}
  void at(int64_t row) {
    int64_t seen = first_.load();
    while (row < seen && !first_.compare_exchange_weak(seen, row)) {
    }
  }
  int64_t first() const { return first_.load() == none_ ? -1 : first_.load(); }

 private:
  int64_t none_;
  std::atomic<int64_t> first_;
};

// Accumulates every row and calls finish(row, workspace, worker), false where that fails. Returns -1, or the first row
// that failed.
template <class T, class Finish>
int64_t finish_rows(const RowsProblem<T> &problem, int threads, Finish finish) {
  const RowsKernel<T> &kernel = rows_kernel<T>();
  const int64_t size = kernel.padded(problem.n_factors);
  const int64_t *offsets = problem.offsets;
  FirstFailure failure(problem.n_rows);

  // Cost of a row in multiply-adds: a triangle per rating, a factorization per row.
  const double a_rating = 0.5 * double(size) * double(size) + double(size) + 16;
  const double a_row = double(size) * double(size) * double(size) / 3 + 4 * double(size) * double(size) + 64;
  std::vector<int64_t> huge;
  double total = 0;
  for (int64_t row = 0; row < problem.n_rows; ++row) {
    const int64_t n = offsets[row + 1] - offsets[row];
    if (n > rows_piece)
      huge.push_back(row);
    else
      total += a_row + a_rating * double(n);
  }

  // Huge rows: pieces of them in parallel, a batch at a time, merged in order.
  struct Piece {
    int64_t row, begin, end;
  };
  std::vector<Piece> pieces;
  for (int64_t row : huge)
    for (int64_t k = offsets[row]; k < offsets[row + 1]; k += rows_piece)
      pieces.push_back({row, k, std::min(k + rows_piece, offsets[row + 1])});
  if (!pieces.empty()) {
    RowsMemory<T> whole(size);
    std::vector<RowsMemory<T>> parts;
    for (int64_t i = 0; i < std::min(int64_t(pieces.size()), rows_pieces_at_once); ++i) parts.emplace_back(size);
    for (size_t start = 0; start < pieces.size(); start += parts.size()) {
      const size_t n = std::min(parts.size(), pieces.size() - start);
      parallel_for(int64_t(n), threads, [&](int64_t i, int) {
        kernel.clear(problem, parts[size_t(i)].space);
        kernel.accumulate(problem, pieces[start + size_t(i)].begin, pieces[start + size_t(i)].end,
                          parts[size_t(i)].space);
      });
      for (size_t i = 0; i < n; ++i) {
        const Piece &piece = pieces[start + i];
        if (piece.begin == offsets[piece.row]) kernel.clear(problem, whole.space);
        kernel.merge(problem, parts[i].space, whole.space);
        if (piece.end == offsets[piece.row + 1] && !finish(piece.row, whole.space, 0)) failure.at(piece.row);
      }
    }
  }

  const double share = total / double(rows_blocks_per_thread * std::max(threads, 1));
  std::vector<int64_t> starts{0};
  double cost = 0;
  for (int64_t row = 0; row < problem.n_rows; ++row) {
    const int64_t n = offsets[row + 1] - offsets[row];
    if (n <= rows_piece) cost += a_row + a_rating * double(n);
    if (cost >= share) {
      starts.push_back(row + 1);
      cost = 0;
    }
  }
  if (starts.back() != problem.n_rows) starts.push_back(problem.n_rows);
  const int64_t n_blocks = int64_t(starts.size()) - 1;
  std::vector<RowsMemory<T>> memories;
  for (int64_t i = 0; i < std::min(int64_t(std::max(threads, 1)), n_blocks); ++i)
    memories.emplace_back(size, false, problem.whitening != nullptr);
  parallel_for(n_blocks, threads, [&](int64_t block, int worker) {
    RowsWorkspace<T> &space = memories[size_t(worker)].space;
    for (int64_t row = starts[size_t(block)]; row < starts[size_t(block) + 1]; ++row) {
      const int64_t n = offsets[row + 1] - offsets[row];
      if (n > rows_piece) continue;
      if (problem.whitening && n <= problem.few) {
        const Conditioned conditioned = kernel.condition(problem, row, space);
        if (conditioned == Conditioned::failed) failure.at(row);
        if (conditioned != Conditioned::unfit) continue;
      }
      kernel.clear(problem, space);
      kernel.accumulate(problem, offsets[row], offsets[row + 1], space);
      if (!finish(row, space, worker)) failure.at(row);
    }
  });
  return failure.first();
}

// Returns -1, or the first row whose precision matrix is not positive definite.
template <class T>
int64_t solve_rows_given(const RowsProblem<T> &problem, int threads) {
  const RowsKernel<T> &kernel = rows_kernel<T>();
  return finish_rows(problem, threads,
                     [&](int64_t row, RowsWorkspace<T> &space, int) { return kernel.finish(problem, row, space); });
}

// Measured: up to a quarter as many ratings as factors, a row is conditioned in 0.3 to 0.7 of the time. There must be
// enough such rows to make up for the whitening of the other side. This depends on the data alone.
template <class T>
int64_t few_that_pays(const RowsProblem<T> &problem, int64_t n_columns) {
  const int64_t few = problem.n_factors / 4;
  int64_t n_rows = 0;
  for (int64_t row = 0; row < problem.n_rows; ++row) n_rows += problem.offsets[row + 1] - problem.offsets[row] <= few;
  return n_rows * problem.n_factors >= 6 * n_columns ? few : 0;
}

template <class T>
int64_t solve_rows(RowsProblem<T> problem, int64_t n_columns, int threads) {
  if (problem.few < 0) problem.few = few_that_pays(problem, n_columns);
  problem.few = std::min({problem.few, rows_block, problem.n_factors});
  // Rows without a proper prior, or with their own means, cannot be whitened at once.
  const bool proper = problem.alpha > 0 && !problem.ridge && (!problem.out_bias || problem.bias_precision > 0);
  if (problem.few <= 0 || problem.prior_linear_stride != 0 || problem.bias_linears || !proper)
    return solve_rows_given(problem, threads);
  const WhiteningMemory<T> whitening(problem, n_columns, threads);
  problem.whitening = whitening.get();
  return solve_rows_given(problem, threads);
}

}  // namespace tastespace
