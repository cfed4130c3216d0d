// Schedules moments: shares of the points that depend on their number alone, merged in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "tables.hpp"

namespace tastespace {

// A share is long enough that merging it costs nothing beside it, and there are few, which bounds the memory.
constexpr int64_t moments_share = 4096;
constexpr int64_t moments_shares = 64;

inline void add_points(const MomentsKernel &kernel, const float *points, int64_t n, int64_t n_factors,
                       MomentsWorkspace &space) {
  kernel.add_floats(points, n, n_factors, space);
}
inline void add_points(const MomentsKernel &kernel, const double *points, int64_t n, int64_t n_factors,
                       MomentsWorkspace &space) {
  kernel.add_doubles(points, n, n_factors, space);
}

template <class T>
void moments(const T *points, int64_t n, int64_t n_factors, double *out_sum, double *out_gram, int threads) {
  const MomentsKernel &kernel = table().moments;
  const int64_t size = kernel.padded(n_factors), line = 8;  // doubles in a cache line
  const int64_t share = std::max(moments_share, (n + moments_shares - 1) / moments_shares);
  const int64_t n_shares = (n + share - 1) / share;
  std::vector<std::vector<double>> memories(static_cast<size_t>(n_shares));
  std::vector<MomentsWorkspace> parts(static_cast<size_t>(n_shares));
  parallel_for(n_shares, threads, [&](int64_t task, int) {
    std::vector<double> &memory = memories[size_t(task)];
    memory.assign(size_t(size * (size + 1 + moments_block) + line), 0.0);
    MomentsWorkspace &space = parts[size_t(task)];
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory.data()) / sizeof(double)) % line;
    space.block = memory.data() + (line - past) % line;
    space.gram = space.block + moments_block * size;
    space.total = space.gram + size * size;
    add_points(kernel, points + task * share * n_factors, std::min(share, n - task * share), n_factors, space);
  });
  std::fill(out_sum, out_sum + n_factors, 0.0);
  std::fill(out_gram, out_gram + n_factors * n_factors, 0.0);
  for (const MomentsWorkspace &part : parts) {
    for (int64_t d = 0; d < n_factors; ++d) out_sum[d] += part.total[d];
    for (int64_t r = 0; r < n_factors; ++r)
      for (int64_t c = r; c < n_factors; ++c) out_gram[r * n_factors + c] += part.gram[r * size + c];
  }
  for (int64_t r = 0; r < n_factors; ++r)
    for (int64_t c = 0; c < r; ++c) out_gram[r * n_factors + c] = out_gram[c * n_factors + r];
}

}  // namespace tastespace
