// Beliefs about users, one a kept draw of the items: the row kernel on the same ratings with many other sides.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "rows_driver.hpp"

namespace tastespace {

// A user's energy given draw s is that of a row (rows.hpp) with the draw's items, prior and noise precision. An item's
// row holds all its draws, one after the other, so that a user touches few pages.
template <class T>
struct FoldInProblem {
  int64_t n_users = 0;
  int64_t n_draws = 0;
  int64_t n_factors = 0;
  bool biases = false;                 // then an item's bias stands behind its factors, and the user's in the results
  const int64_t *offsets = nullptr;    // n_users + 1
  const int32_t *columns = nullptr;    // a rating
  const T *targets = nullptr;          // a rating
  const T *items = nullptr;            // n_items x n_draws x width
  const T *prior_precision = nullptr;  // n_draws x n_factors x n_factors
  const T *prior_linear = nullptr;     // n_draws x n_factors
  const double *alpha = nullptr;       // n_draws
  const double *bias_precision = nullptr;  // n_draws, used with biases
  const double *bias_linear = nullptr;     // n_draws, used with biases
  T *means = nullptr;                      // n_users x n_draws x width
  T *roots = nullptr;                      // n_users x n_draws x width x width, or null
  double *energy = nullptr;                // n_users x n_draws, or null: the least value of the energy
  double *log_determinant = nullptr;       // n_users x n_draws, or null: of the precision of (u, c)

  int64_t width() const { return n_factors + (biases ? 1 : 0); }
};

// Draws of one user that are one task: a single user keeps several threads busy.
constexpr int64_t fold_in_draws = 8;

template <class T>
RowsProblem<T> one_row(const FoldInProblem<T> &problem, int64_t user, int64_t draw) {
  const int64_t width = problem.width(), n_factors = problem.n_factors, at = user * problem.n_draws + draw;
  RowsProblem<T> row;
  row.n_rows = 1;
  row.n_factors = n_factors;
  row.offsets = problem.offsets + user;
  row.columns = problem.columns;
  row.targets = problem.targets;
  row.other = problem.items + draw * width;
  row.other_stride = problem.n_draws * width;
  row.prior_precision = problem.prior_precision + draw * n_factors * n_factors;
  row.prior_linear = problem.prior_linear + draw * n_factors;
  row.alpha = T(problem.alpha[draw]);
  row.out = problem.means + at * width;
  if (problem.biases) {
    row.other_bias = row.other + n_factors;
    row.other_bias_stride = row.other_stride;
    row.bias_precision = T(problem.bias_precision[draw]);
    row.bias_linear = T(problem.bias_linear[draw]);
    row.out_bias = row.out + n_factors;
  }
  if (problem.energy) row.minimum = problem.energy + at;
  return row;
}

// Returns -1, or the first user with a draw whose precision matrix is not positive definite.
template <class T>
int64_t fold_in(const FoldInProblem<T> &problem, int threads) {
  const RowsKernel<T> &kernel = rows_kernel<T>();
  const int64_t width = problem.width();
  const int64_t tasks_a_user = (problem.n_draws + fold_in_draws - 1) / fold_in_draws;
  const int64_t n_tasks = problem.n_users * tasks_a_user;
  FirstFailure failure(problem.n_users);
  std::vector<RowsMemory<T>> memories;
  for (int64_t i = 0; i < std::min(int64_t(std::max(threads, 1)), n_tasks); ++i)
    memories.emplace_back(kernel.padded(problem.n_factors), problem.roots != nullptr);
  parallel_for(n_tasks, threads, [&](int64_t task, int worker) {
    RowsWorkspace<T> &space = memories[size_t(worker)].space;
    const int64_t user = task / tasks_a_user, first = task % tasks_a_user * fold_in_draws;
    for (int64_t draw = first; draw < std::min(first + fold_in_draws, problem.n_draws); ++draw) {
      const RowsProblem<T> row = one_row(problem, user, draw);
      const int64_t at = user * problem.n_draws + draw;
      kernel.clear(row, space);
      kernel.accumulate(row, row.offsets[0], row.offsets[1], space);
      if (!kernel.finish(row, 0, space)) {
        failure.at(user);
        continue;
      }
      if (problem.roots) kernel.root(row, space, problem.roots + at * width * width);
      if (problem.log_determinant) problem.log_determinant[at] = kernel.log_determinant(row, space);
    }
  });
  return failure.first();
}

}  // namespace tastespace
