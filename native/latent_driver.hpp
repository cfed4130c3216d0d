// Schedules the kernels for latent responses: blocks of ratings with a stream each, fixed shares of sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "random_tables.hpp"
#include "tables.hpp"

namespace tastespace {

// Ratings of one task: a whole number of blocks.
constexpr int64_t latent_share = 16 * latent_block;
// Sums over all ratings are so many at most, added in order, and none of fewer ratings: the sizes depend on the number
// of ratings alone.
constexpr int64_t bins_shares = 16;
constexpr int64_t bins_share = 16384;

template <class T>
void score_rows(const ScoresProblem<T> &problem, int64_t n_rows, int threads) {
  const LatentKernel<T> &kernel = latent_kernel<T>();
  const int64_t *offsets = problem.offsets, n = offsets[n_rows];
  parallel_for((n + latent_share - 1) / latent_share, threads, [&](int64_t task, int) {
    const int64_t begin = task * latent_share;
    const int64_t row = std::upper_bound(offsets, offsets + n_rows + 1, begin) - offsets - 1;
    kernel.score(problem, row, begin, std::min(n, begin + latent_share));
  });
}

// Calls draw(problem, begin, end, stream) for every block.
template <class Draw, class Problem>
void draw_blocks(Draw draw, const Problem &problem, int64_t n, uint64_t key, int threads) {
  parallel_for((n + latent_share - 1) / latent_share, threads, [&](int64_t task, int) {
    const int64_t end = std::min(n, (task + 1) * latent_share);
    for (int64_t begin = task * latent_share; begin < end; begin += latent_block) {
      RandomStream stream = random_stream(key, uint64_t(begin / latent_block));
      draw(problem, begin, std::min(end, begin + latent_block), stream);
    }
  });
}

// The weights of the four nodes around a place f of their middle cell, as polynomials: rows are nodes, columns powers.
constexpr double cubic_weights[4][4] = {
    {0, -1.0 / 3, 1.0 / 2, -1.0 / 6}, {1, -1.0 / 2, -1, 1.0 / 2}, {0, 1, 1.0 / 2, -1.0 / 2}, {0, -1.0 / 6, 0, 1.0 / 6}};

// Fills out (levels x nodes); returns -1, or the first rating whose score lies outside the grid.
template <class T>
int64_t bin_scores(const BinsProblem<T> &problem, int64_t n, double *out, int threads) {
  const LatentKernel<T> &kernel = latent_kernel<T>();
  const int64_t n_levels = problem.n_edges + 1, n_cells = n_levels * problem.n_nodes;
  const int64_t share = std::max(bins_share, (n + bins_shares - 1) / bins_shares), n_shares = (n + share - 1) / share;
  std::vector<std::vector<double>> memories(static_cast<size_t>(n_shares));
  std::vector<double *> moments(static_cast<size_t>(n_shares));
  std::vector<int64_t> outside(static_cast<size_t>(n_shares), -1);
  parallel_for(n_shares, threads, [&](int64_t task, int) {
    constexpr int64_t line = 8;  // doubles in a cache line
    std::vector<double> &memory = memories[size_t(task)];
    memory.assign(size_t(4 * n_cells + line), 0.0);
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory.data()) / sizeof(double)) % line;
    moments[size_t(task)] = memory.data() + (line - past) % line;
    outside[size_t(task)] = kernel.bin(problem, task * share, std::min(n, (task + 1) * share), moments[size_t(task)]);
  });
  std::fill(out, out + n_cells, 0.0);
  for (int64_t place : outside)
    if (place >= 0) return place;
  for (int64_t level = 0; level < n_levels; ++level)
    for (int64_t cell = 1; cell <= problem.n_nodes - 3; ++cell) {
      const int64_t at = level * problem.n_nodes + cell;
      double total[4] = {0, 0, 0, 0};
      for (const double *part : moments)
        for (int i = 0; i < 4; ++i) total[i] += part[4 * at + i];
      for (int node = 0; node < 4; ++node)
        for (int i = 0; i < 4; ++i) out[at - 1 + node] += cubic_weights[node][i] * total[i];
    }
  return -1;
}

}  // namespace tastespace
