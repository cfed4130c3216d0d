// Schedules the rows that lie on a sphere: ratings as for any row, and a stream of random numbers for each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "random_tables.hpp"
#include "rows_driver.hpp"
#include "tables.hpp"

namespace tastespace {

template <class T>
class SphereMemory {
 public:
  explicit SphereMemory(int64_t size)
      : single_(size_t(size * (size + sphere_vectors))), double_(size_t(size * (size + sphere_vectors))) {
    space = {single_.data(), single_.data() + size * size, double_.data(), double_.data() + size * size};
  }
  SphereMemory(SphereMemory &&) = default;  // The pointers of `space` stay good: a moved vector keeps its memory.
  SphereWorkspace<T> space{};

 private:
  std::vector<T> single_;
  std::vector<double> double_;
};

// Returns -1, or the first row that did not stay finite. A row has a stream of its own: one thread and many give the
// same bytes.
template <class T>
int64_t move_on_sphere(const SphereProblem<T> &problem, uint64_t key, int threads) {
  const SphereKernel<T> &kernel = sphere_kernel<T>();
  const int64_t size = kernel.padded(problem.rows.n_factors + (problem.has_joint_bias ? 1 : 0));
  std::vector<SphereMemory<T>> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back(size);
  const RandomTables &tables = random_tables();
  return finish_rows(problem.rows, threads, [&](int64_t row, RowsWorkspace<T> &space, int worker) {
    RandomStream stream = random_stream(key, uint64_t(row));
    return kernel.move(problem, row, space, memories[size_t(worker)].space, stream, tables);
  });
}

}  // namespace tastespace
