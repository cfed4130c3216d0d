// Schedules stochastic gradients over rows, and draws columns: blocks of rows of equal cost, a stream a row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "confident_driver.hpp"
#include "parallel.hpp"
#include "random_tables.hpp"
#include "tables.hpp"

namespace tastespace {

// The table of aliases of chances that sum to 1 (Vose 1991).
inline void alias_table(int64_t n, const double *chances, uint32_t *table) {
  std::vector<double> left(chances, chances + n);
  std::vector<int32_t> small, large;
  for (int64_t column = 0; column < n; ++column) {
    left[size_t(column)] *= double(n);
    (left[size_t(column)] < 1 ? small : large).push_back(int32_t(column));
  }
  for (int64_t column = 0; column < n; ++column) {
    table[2 * column] = UINT32_MAX;
    table[2 * column + 1] = uint32_t(column);
  }
  while (!small.empty() && !large.empty()) {
    const int32_t lesser = small.back(), greater = large.back();
    small.pop_back();
    table[2 * int64_t(lesser)] = uint32_t(std::min(left[size_t(lesser)] * 0x1p32, 4294967295.0));
    table[2 * int64_t(lesser) + 1] = uint32_t(greater);
    left[size_t(greater)] -= 1 - left[size_t(lesser)];
    if (left[size_t(greater)] >= 1) continue;
    large.pop_back();
    small.push_back(greater);
  }
}

// First rows of blocks that take equally long.
inline std::vector<int64_t> equal_blocks(int64_t n_rows, const int64_t *offsets, const int64_t *drawn, int threads) {
  constexpr int64_t a_row = 8, blocks_per_thread = 32;  // in cells
  const int64_t total = a_row * n_rows + offsets[n_rows] + drawn[n_rows];
  const int64_t share = total / (blocks_per_thread * std::max(threads, 1)) + 1;
  std::vector<int64_t> starts{0};
  for (int64_t row = 0, cost = 0; row < n_rows; ++row) {
    cost += a_row + offsets[row + 1] - offsets[row] + drawn[row + 1] - drawn[row];
    if (cost < share && row + 1 < n_rows) continue;
    starts.push_back(row + 1);
    cost = 0;
  }
  return starts;
}

// A row is one thread's work and has a stream of its own: one thread and many give the same bytes.
inline void step_choices(ChoicesProblem problem, uint64_t key, int threads) {
  const ChoicesKernel &kernel = table().choices;
  const int64_t n_factors = problem.n_factors, size = kernel.padded(n_factors), n = problem.chances.n_columns;
  LinedFloats other(n * size);
  for (int64_t column = 0; column < n; ++column)
    std::copy_n(problem.other + column * n_factors, n_factors, other.data() + column * size);
  problem.other = other.data();
  const std::vector<int64_t> starts = equal_blocks(problem.n_rows, problem.offsets, problem.drawn_offsets, threads);
  std::vector<LinedFloats> memories;
  std::vector<std::vector<uint8_t>> marks;
  for (int i = 0; i < std::max(threads, 1); ++i) {
    memories.emplace_back(2 * size);
    marks.emplace_back(size_t(n), uint8_t(0));
  }
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t task, int worker) {
    float *memory = memories[size_t(worker)].data();
    ChoicesWorkspace space{memory, memory + size, marks[size_t(worker)].data()};
    for (int64_t row = starts[size_t(task)]; row < starts[size_t(task) + 1]; ++row) {
      RandomStream stream = random_stream(key, uint64_t(row));
      kernel.step(problem, row, space, stream);
    }
  });
}

// Fills out, drawn_offsets[i]..drawn_offsets[i + 1] for row i, with columns; -1 in place of one that the row chose.
inline void draw_columns(int64_t n_rows, const int64_t *offsets, const int32_t *columns, const int64_t *drawn_offsets,
                         const ColumnChances &chances, uint64_t key, const uint64_t *places, int32_t *out,
                         int threads) {
  const ChoicesKernel &kernel = table().choices;
  const std::vector<int64_t> starts = equal_blocks(n_rows, offsets, drawn_offsets, threads);
  std::vector<std::vector<uint8_t>> marks;
  for (int i = 0; i < std::max(threads, 1); ++i) marks.emplace_back(size_t(chances.n_columns), uint8_t(0));
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t task, int worker) {
    uint8_t *is_chosen = marks[size_t(worker)].data();
    for (int64_t row = starts[size_t(task)]; row < starts[size_t(task) + 1]; ++row) {
      RandomStream stream = random_stream(key, places ? places[row] : uint64_t(row));
      for (int64_t k = offsets[row]; k < offsets[row + 1]; ++k) is_chosen[columns[k]] = 1;
      kernel.draw(chances, drawn_offsets[row + 1] - drawn_offsets[row], is_chosen, out + drawn_offsets[row], stream);
      for (int64_t k = offsets[row]; k < offsets[row + 1]; ++k) is_chosen[columns[k]] = 0;
    }
  });
}

}  // namespace tastespace
