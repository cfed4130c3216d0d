// Schedules conjugate gradients over rows: blocks of equal cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "tables.hpp"

namespace tastespace {

// Memory whose first number lies on a cache line.
class LinedFloats {
 public:
  explicit LinedFloats(int64_t n) : memory_(size_t(n + line), 0.0f) {}
  float *data() {
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(float)) % line;
    return memory_.data() + (line - past) % line;
  }

 private:
  static constexpr int64_t line = 16;
  std::vector<float> memory_;
};

// A row is one thread's work, and does not depend on which: one thread and many give the same bytes.
inline void descend_rows(const ConfidentProblem &problem, int threads) {
  const ConfidentKernel &kernel = table().confident;
  const int64_t size = kernel.padded(problem.n_factors), *offsets = problem.offsets;
  int64_t longest = 0;
  for (int64_t row = 0; row < problem.n_rows; ++row) longest = std::max(longest, offsets[row + 1] - offsets[row]);
  // A row without observations takes about as long as four of them.
  constexpr int64_t a_row = 4, blocks_per_thread = 32;
  const int64_t n_blocks = std::max<int64_t>(1, blocks_per_thread * threads);
  const int64_t share = (offsets[problem.n_rows] + a_row * problem.n_rows) / n_blocks + 1;
  std::vector<int64_t> starts{0};
  for (int64_t row = 0, cost = 0; row < problem.n_rows; ++row) {
    cost += a_row + offsets[row + 1] - offsets[row];
    if (cost < share) continue;
    starts.push_back(row + 1);
    cost = 0;
  }
  if (starts.back() != problem.n_rows) starts.push_back(problem.n_rows);
  std::vector<LinedFloats> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back((longest + confident_vectors) * size);
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t block, int worker) {
    float *memory = memories[size_t(worker)].data();
    ConfidentWorkspace space{memory, memory + longest * size};
    for (int64_t row = starts[size_t(block)]; row < starts[size_t(block) + 1]; ++row)
      kernel.descend(problem, row, space);
  });
}

inline void rotate_rows(const float *points, int64_t n, int64_t n_factors, const float *matrix, float *out,
                        int threads) {
  const ConfidentKernel &kernel = table().confident;
  const int64_t size = kernel.padded(n_factors);
  LinedFloats padded(n_factors * size);
  for (int64_t r = 0; r < n_factors; ++r) std::copy_n(matrix + r * n_factors, n_factors, padded.data() + r * size);
  constexpr int64_t share = 64 * rotated_rows;
  std::vector<LinedFloats> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back(2 * rotated_rows * size);
  parallel_for((n + share - 1) / share, threads, [&](int64_t task, int worker) {
    for (int64_t row = task * share; row < std::min(n, (task + 1) * share); row += rotated_rows)
      kernel.rotate(points + row * n_factors, std::min(rotated_rows, n - row), n_factors, padded.data(),
                    memories[size_t(worker)].data(), out + row * n_factors);
  });
}

}  // namespace tastespace
