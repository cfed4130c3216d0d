// Schedules beliefs of pairs: blocks of pairs of the same belief, whatever order they come in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "parallel.hpp"
#include "tables.hpp"

namespace tastespace {

// Blocks that are one task: within it, the points of the next block are asked for while one is done.
constexpr int64_t beliefs_blocks_a_task = 4;

// The memory of one workspace, aligned to a cache line.
class BeliefsMemory {
 public:
  BeliefsMemory(const BeliefsProblem &problem, const BeliefsKernel &kernel) {
    const int64_t parts[] = {kernel.root_size(problem), kernel.points_size(problem), kernel.offsets_size(problem),
                             beliefs_block, beliefs_block};
    int64_t total = line;
    for (int64_t part : parts) total += round(part);
    memory_.assign(size_t(total), 0.0f);
    float *at = memory_.data();
    at += (line - int64_t(reinterpret_cast<uintptr_t>(at) / sizeof(float)) % line) % line;
    float **to[] = {&space.root, &space.points, &space.offsets, &space.means, &space.variances};
    for (int i = 0; i < 5; ++i) {
      *to[i] = at;
      at += round(parts[i]);
    }
  }
  BeliefsMemory(BeliefsMemory &&) = default;  // The pointers of `space` stay good: a moved vector keeps its memory.
  BeliefsWorkspace space{};

 private:
  static constexpr int64_t line = 64 / int64_t(sizeof(float));
  static int64_t round(int64_t n) { return (n + line - 1) / line * line; }
  std::vector<float> memory_;
};

// What each pair gets does not depend on its block, so neither threads nor the order of pairs change a result.
template <class Run>
void run_beliefs(const BeliefsProblem &problem, int64_t n_pairs, Run run, int threads) {
  const int32_t *beliefs = problem.belief_rows;
  std::vector<int64_t> order(static_cast<size_t>(n_pairs));
  std::iota(order.begin(), order.end(), int64_t(0));
  if (!std::is_sorted(beliefs, beliefs + n_pairs))
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return beliefs[a] < beliefs[b]; });

  std::vector<int64_t> starts;
  for (int64_t k = 0; k < n_pairs; ++k)
    if (starts.empty() || k - starts.back() == beliefs_block ||
        beliefs[order[size_t(k)]] != beliefs[order[size_t(k) - 1]])
      starts.push_back(k);
  const int64_t n_blocks = int64_t(starts.size());
  starts.push_back(n_pairs);

  const BeliefsKernel &kernel = table().beliefs;
  const int64_t n_tasks = (n_blocks + beliefs_blocks_a_task - 1) / beliefs_blocks_a_task;
  std::vector<BeliefsMemory> memories;
  for (int64_t i = 0; i < std::min(int64_t(std::max(threads, 1)), n_tasks); ++i) memories.emplace_back(problem, kernel);
  parallel_for(n_tasks, threads, [&](int64_t task, int worker) {
    const int64_t end = std::min((task + 1) * beliefs_blocks_a_task, n_blocks);
    for (int64_t block = task * beliefs_blocks_a_task; block < end; ++block) {
      const int64_t begin = starts[size_t(block)], next = starts[size_t(block) + 1];
      const int64_t following = std::min(starts[size_t(end)] - next, beliefs_block);
      run(problem, {order.data() + begin, next - begin, following}, memories[size_t(worker)].space);
    }
  });
}

}  // namespace tastespace
