// Beliefs about users who chose things: the mode of a logistic likelihood with a normal prior, and its curvature there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "rows_driver.hpp"

namespace tastespace {

// With s_k = offset + x.v_k + c + d_k the energy of user i is
//
//   sum_k w_k log(1 + exp(-s_k)) + r_i sum_l w'_l log(1 + exp(s_l)) + prior
//
// over what they chose (k), and over a sample of items for all users (l), without those they chose. The belief is
// normal, around the minimum of the energy, with its second derivatives there as precision (Laplace).
struct LogisticFoldInProblem {
  int64_t n_users = 0;
  int64_t n_items = 0;
  int64_t n_factors = 0;
  bool biases = false;               // then an item's bias follows its factors, and so does the user's in the results
  const int64_t *offsets = nullptr;  // n_users + 1
  const int32_t *columns = nullptr;  // per choice
  const float *weights = nullptr;    // per choice: w
  int64_t n_shown = 0;
  const int32_t *shown = nullptr;          // n_shown items
  const float *shown_weights = nullptr;    // n_shown: w'
  const float *row_weights = nullptr;      // n_users: r
  const float *items = nullptr;            // n_items x width
  const float *prior_precision = nullptr;  // n_factors x n_factors
  const float *prior_linear = nullptr;     // n_factors
  float bias_precision = 0, bias_linear = 0;
  const float *row_linear = nullptr;  // n_users x width: in place of prior_linear and bias_linear, or null
  float offset = 0;
  int64_t steps = 0;       // maximum number of Newton steps
  float *means = nullptr;  // n_users x width: the start, and then the modes
  float *roots = nullptr;  // n_users x width x width, or null

  int64_t width() const { return n_factors + (biases ? 1 : 0); }
  const float *linear_of(int64_t user) const { return row_linear ? row_linear + user * width() : prior_linear; }
  float bias_linear_of(int64_t user) const { return row_linear ? row_linear[(user + 1) * width() - 1] : bias_linear; }
};

// The cells of one user.
struct LogisticCells {
  std::vector<int32_t> columns;
  std::vector<float> weights, signs;  // sign 1: chosen
  std::vector<float> scores, next, responses, curvatures;
  std::vector<uint8_t> is_chosen;  // n_items
  std::vector<float> from;         // width

  LogisticCells(int64_t n_items, int64_t width) : is_chosen(size_t(n_items), 0), from(size_t(width)) {}

  int64_t size() const { return int64_t(columns.size()); }

  void take(const LogisticFoldInProblem &problem, int64_t user) {
    columns.clear();
    weights.clear();
    signs.clear();
    const int64_t begin = problem.offsets[user], end = problem.offsets[user + 1];
    for (int64_t k = begin; k < end; ++k) {
      columns.push_back(problem.columns[k]);
      weights.push_back(problem.weights[k]);
      signs.push_back(1);
      is_chosen[size_t(problem.columns[k])] = 1;
    }
    const float row_weight = problem.row_weights[user];
    for (int64_t k = 0; k < problem.n_shown && row_weight > 0; ++k) {
      if (is_chosen[size_t(problem.shown[k])]) continue;
      columns.push_back(problem.shown[k]);
      weights.push_back(row_weight * problem.shown_weights[k]);
      signs.push_back(-1);
    }
    for (int64_t k = begin; k < end; ++k) is_chosen[size_t(problem.columns[k])] = 0;
    for (std::vector<float> *each : {&scores, &next, &responses, &curvatures}) each->resize(columns.size());
  }
};

// log(1 + exp(x))
inline double soft_plus(double x) { return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0); }

// The prior's energy along a line from one point to another: value, slope and curvature at the start.
struct PriorLine {
  double value = 0, slope = 0, bend = 0;

  PriorLine(const LogisticFoldInProblem &problem, int64_t user, const float *from, const float *to) {
    const int64_t n = problem.n_factors;
    const float *linear = problem.linear_of(user);
    for (int64_t r = 0; r < n; ++r) {
      double here = 0, along = 0;
      for (int64_t c = 0; c < n; ++c) {
        const double precision = problem.prior_precision[r * n + c];
        here += precision * from[c];
        along += precision * (double(to[c]) - from[c]);
      }
      add(here, along, linear[r], from[r], to[r]);
    }
    if (problem.biases)
      add(double(problem.bias_precision) * from[n], double(problem.bias_precision) * (double(to[n]) - from[n]),
          problem.bias_linear_of(user), from[n], to[n]);
  }

  double at(double t) const { return value + t * slope + 0.5 * t * t * bend; }

 private:
  void add(double here, double along, double linear, double from, double to) {
    value += from * (0.5 * here - linear);
    slope += (to - from) * (here - linear);
    bend += (to - from) * along;
  }
};

// One user at a time, in the memory of one thread.
class LogisticBelief {
 public:
  explicit LogisticBelief(const LogisticFoldInProblem &problem)
      : problem_(problem),
        rows_(rows_kernel<float>().padded(problem.n_factors), problem.roots != nullptr),
        cells_(problem.n_items, problem.width()) {}

  // False if a precision matrix is not positive definite.
  bool solve(int64_t user) {
    const int64_t width = problem_.width();
    float *point = problem_.means + user * width;
    user_ = user;
    cells_.take(problem_, user);
    score(point, cells_.scores);
    for (int64_t step = 0; step < problem_.steps; ++step) {
      std::copy_n(point, width, cells_.from.begin());
      if (!newton(point)) return false;
      if (!descend(point)) break;
    }
    if (!problem_.roots) return true;
    if (!newton(cells_.from.data())) return false;
    rows_kernel<float>().root(row_, rows_.space, problem_.roots + user * width * width);
    return true;
  }

 private:
  void score(const float *point, std::vector<float> &out) {
    const int64_t ends[2] = {0, cells_.size()};
    ScoresProblem<float> scores;
    scores.n_factors = problem_.n_factors;
    scores.offsets = ends;
    scores.columns = cells_.columns.data();
    scores.rows = point;
    scores.other = problem_.items;
    scores.other_stride = problem_.width();
    if (problem_.biases) {
      scores.row_bias = point + problem_.n_factors;
      scores.other_bias = problem_.items + problem_.n_factors;
      scores.other_bias_stride = problem_.width();
    }
    scores.offset = problem_.offset;
    scores.out = out.data();
    if (ends[1] > 0) latent_kernel<float>().score(scores, 0, 0, ends[1]);
  }

  // The minimum of the parabola that touches the energy at the current scores.
  bool newton(float *out) {
    constexpr double least_curvature = 1e-6;
    for (size_t k = 0; k < cells_.columns.size(); ++k) {
      const double score = cells_.scores[k], chance = 1 / (1 + std::exp(-score));
      const double curvature = std::max(least_curvature, chance * (1 - chance));
      cells_.responses[k] = float(score + ((cells_.signs[k] > 0 ? 1.0 : 0.0) - chance) / curvature);
      cells_.curvatures[k] = float(cells_.weights[k] * curvature);
    }
    const RowsKernel<float> &kernel = rows_kernel<float>();
    ends_[1] = cells_.size();
    row_ = RowsProblem<float>();
    row_.n_rows = 1;
    row_.n_factors = problem_.n_factors;
    row_.offsets = ends_;
    row_.columns = cells_.columns.data();
    row_.targets = cells_.responses.data();
    row_.target_offset = problem_.offset;
    row_.weights = cells_.curvatures.data();
    row_.other = problem_.items;
    row_.other_stride = problem_.width();
    row_.prior_precision = problem_.prior_precision;
    row_.prior_linear = problem_.linear_of(user_);
    row_.out = out;
    if (problem_.biases) {
      row_.other_bias = problem_.items + problem_.n_factors;
      row_.other_bias_stride = problem_.width();
      row_.bias_precision = problem_.bias_precision;
      row_.bias_linear = problem_.bias_linear_of(user_);
      row_.out_bias = out + problem_.n_factors;
    }
    kernel.clear(row_, rows_.space);
    kernel.accumulate(row_, 0, ends_[1], rows_.space);
    return kernel.finish(row_, 0, rows_.space);
  }

  // Line search from the start of the step towards its end, until the energy falls enough; false if it has converged.
  bool descend(float *point) {
    constexpr double enough = 1e-4, small = 1e-7;
    constexpr int halvings = 20;
    score(point, cells_.next);
    const PriorLine prior(problem_, user_, cells_.from.data(), point);
    double slope = prior.slope;
    for (size_t k = 0; k < cells_.columns.size(); ++k) {
      const double sign = cells_.signs[k], along = double(cells_.next[k]) - cells_.scores[k];
      slope -= cells_.weights[k] * sign * along / (1 + std::exp(sign * cells_.scores[k]));
    }
    const double before = energy(prior, 0);
    double t = 1;
    int left = halvings;
    while (left > 0 && !(energy(prior, t) <= before + enough * t * slope)) {
      t /= 2;
      --left;
    }
    if (left == 0) t = 0;
    for (size_t d = 0; d < cells_.from.size(); ++d)
      point[d] = float(cells_.from[d] + t * (double(point[d]) - cells_.from[d]));
    for (size_t k = 0; k < cells_.columns.size(); ++k)
      cells_.scores[k] = float(cells_.scores[k] + t * (double(cells_.next[k]) - cells_.scores[k]));
    return t > 0 && -slope > small * (1 + std::fabs(before));
  }

  double energy(const PriorLine &prior, double t) const {
    double total = prior.at(t);
    for (size_t k = 0; k < cells_.columns.size(); ++k) {
      const double score = cells_.scores[k] + t * (double(cells_.next[k]) - cells_.scores[k]);
      total += cells_.weights[k] * soft_plus(-cells_.signs[k] * score);
    }
    return total;
  }

  const LogisticFoldInProblem &problem_;
  RowsMemory<float> rows_;
  LogisticCells cells_;
  RowsProblem<float> row_;
  int64_t user_ = 0;
  int64_t ends_[2] = {0, 0};
};

// Returns -1, or the first user whose precision matrix is not positive definite.
inline int64_t fold_in_choices(const LogisticFoldInProblem &problem, int threads) {
  constexpr int64_t share = 16;  // users of one task
  const int64_t n_tasks = (problem.n_users + share - 1) / share;
  FirstFailure failure(problem.n_users);
  std::vector<LogisticBelief> beliefs;
  for (int64_t i = 0; i < std::min(int64_t(std::max(threads, 1)), n_tasks); ++i) beliefs.emplace_back(problem);
  parallel_for(n_tasks, threads, [&](int64_t task, int worker) {
    for (int64_t user = task * share; user < std::min(problem.n_users, (task + 1) * share); ++user)
      if (!beliefs[size_t(worker)].solve(user)) failure.at(user);
  });
  return failure.first();
}

}  // namespace tastespace
