// Beliefs about users, one per kept draw of the items: the row kernel on the same ratings with many other sides.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "random.hpp"
#include "rows_driver.hpp"

namespace tastespace {

// A user's energy given draw s is that of a row (rows.hpp) with the draw's items, prior and noise precision. An item's
// row holds all its draws, one after the other, so that a user touches few pages.
template <class T>
struct FoldInProblem {
  int64_t n_users = 0;
  int64_t n_draws = 0;
  int64_t n_factors = 0;
  bool biases = false;                 // then an item's bias follows its factors, and so does the user's in the results
  const int64_t *offsets = nullptr;    // n_users + 1
  const int32_t *columns = nullptr;    // per rating
  const T *targets = nullptr;          // per rating
  const T *items = nullptr;            // n_items x n_draws x width
  const T *prior_precision = nullptr;  // n_draws x n_factors x n_factors
  const T *prior_linear = nullptr;     // n_draws x n_factors
  const double *alpha = nullptr;       // n_draws
  const double *bias_precision = nullptr;  // n_draws, used with biases
  const double *bias_linear = nullptr;     // n_draws, used with biases
  const T *row_linear = nullptr;           // n_users x n_draws x width: in place of both linears, or null
  T *means = nullptr;                      // n_users x n_draws x width
  T *roots = nullptr;                      // n_users x n_draws x width x width, or null
  double *energy = nullptr;                // n_users x n_draws, or null: the minimum of the energy
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
  if (problem.row_linear) {
    row.prior_linear = problem.row_linear + at * width;
    if (problem.biases) row.bias_linear = row.prior_linear[n_factors];
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

// The log likelihood of a rating as a function of its score, as a parabola: what brings a belief near its mode.

// Touches the log likelihood at a score: its slope, and a safe curvature.
struct Parabola {
  double slope, curvature;
};

constexpr double least_curvature = 1e-4;

// The probability between two ends that are low and high above the score: Phi(high) - Phi(low); ends may be infinite.
inline Parabola level_parabola(double low, double high) {
  constexpr double root = 0.70710678118654752440, scale = 0.39894228040143267794;
  const bool turned = low > 0;  // the lower tail has more digits
  const double from = turned ? -high : low, to = turned ? -low : high;
  const double chance = 0.5 * (std::erfc(-to * root) - std::erfc(-from * root));
  if (!(chance > 1e-280)) return {low > 0 ? low : high, 1.0};  // beyond the precision: straight to the nearer end
  const double at_low = std::isinf(low) ? 0 : scale * std::exp(-0.5 * low * low);
  const double at_high = std::isinf(high) ? 0 : scale * std::exp(-0.5 * high * high);
  const double slope = (at_low - at_high) / chance;
  const double bend = ((std::isinf(high) ? 0 : high * at_high) - (std::isinf(low) ? 0 : low * at_low)) / chance;
  return {slope, std::min(1.0, std::max(least_curvature, slope * slope + bend))};
}

// Yes or no by a logistic link. If the score has the wrong sign, the curvature is that of a lower bound: the true one
// is negligible there, and a step by it would be far too long.
inline Parabola logistic_parabola(double score, bool yes) {
  const double chance = 1 / (1 + std::exp(-score)), half = 0.5 * std::fabs(score);
  const double bound = half < 1e-4 ? 0.25 : std::tanh(half) / (4 * half);
  const double curvature = (score > 0) == yes ? chance * (1 - chance) : bound;
  return {(yes ? 1.0 : 0.0) - chance, std::max(least_curvature, curvature)};
}

// Beliefs about users whose ratings have latent responses: a few steps of Gibbs sampling per user and draw of the
// items.

// levels: a rating is the level that a normal response with variance 1 about the score falls into (ordered probit).
// logistic: a rating is yes or no, with odds exp(score). uneven: a rating is a number whose precision is
// alpha * a * item_precision, where the user's own a is a gamma variable with mean 1.
enum class LatentKind { levels, logistic, uneven };

template <class T>
struct FoldInLatentProblem {
  FoldInProblem<T> users;
  LatentKind kind = LatentKind::levels;
  int64_t steps = 1;
  int64_t approach = 0;            // levels and logistic: Newton steps before, of which the last is a draw
  const uint64_t *keys = nullptr;  // n_users
  double latent_offset = 0;        // added to every score
  int64_t n_edges = 0;
  const T *edges = nullptr;               // levels and logistic: n_edges
  const double *cuts = nullptr;           // levels: n_draws x n_edges
  const T *item_precision = nullptr;      // uneven: n_items x n_draws
  const double *concentration = nullptr;  // uneven: n_draws, shape and rate of a
  T *out_precision = nullptr;             // uneven: n_users x n_draws, the a of the last step
};

template <class T>
struct FoldInLatentMemory {
  FoldInLatentMemory(const FoldInProblem<T> &problem, int64_t most)
      : rows(rows_kernel<T>().padded(problem.n_factors), problem.roots != nullptr),
        responses(static_cast<size_t>(most)),
        weights(static_cast<size_t>(most)),
        noise(static_cast<size_t>(problem.n_factors + 1)) {}
  RowsMemory<T> rows;
  std::vector<T> responses, weights, noise;
};

// One user given one draw: their ratings alone, counted from 0.
template <class T>
struct FoldInLatentRow {
  int64_t user, draw, offsets[2];
  RowsProblem<T> row;
};

template <class T>
void take_row(const FoldInLatentProblem<T> &problem, int64_t user, int64_t draw, FoldInLatentRow<T> &own) {
  const FoldInProblem<T> &users = problem.users;
  const int64_t begin = users.offsets[user];
  own.user = user;
  own.draw = draw;
  own.offsets[0] = 0;
  own.offsets[1] = users.offsets[user + 1] - begin;
  own.row = one_row(users, user, draw);
  own.row.offsets = own.offsets;
  own.row.columns += begin;
  own.row.targets += begin;
  if (problem.item_precision) {
    own.row.other_weights = problem.item_precision + draw;
    own.row.other_weights_stride = users.n_draws;
  }
}

// The scores of the user's ratings at the user's current point.
template <class T>
void score_ratings(const FoldInLatentRow<T> &own, double offset, T *out) {
  const RowsProblem<T> &row = own.row;
  ScoresProblem<T> scores;
  scores.n_factors = row.n_factors;
  scores.offsets = own.offsets;
  scores.columns = row.columns;
  scores.rows = row.out;
  scores.row_bias = row.out_bias;
  scores.other = row.other;
  scores.other_stride = row.other_stride;
  scores.other_bias = row.other_bias;
  scores.other_bias_stride = row.other_bias_stride;
  scores.offset = offset;
  scores.out = out;
  latent_kernel<T>().score(scores, 0, 0, own.offsets[1]);
}

// Makes the row learn from responses instead of the ratings, each with its weight, or all with weight 1 if there are
// none.
template <class T>
void learn_from(const std::vector<T> &responses, const T *weights, const FoldInLatentProblem<T> &problem,
                FoldInLatentRow<T> &own) {
  own.row.targets = responses.data();
  own.row.target_offset = T(problem.latent_offset);
  own.row.weights = weights;
}

// Draws the row, or computes its mean alone; false if its precision matrix is not positive definite.
template <class T>
bool solve_row(const FoldInProblem<T> &users, FoldInLatentRow<T> &own, bool is_drawn, FoldInLatentMemory<T> &memory,
               RandomStream &stream) {
  const RowsKernel<T> &kernel = rows_kernel<T>();
  if (is_drawn) latent_kernel<T>().normals(random_tables(), users.width(), memory.noise.data(), stream);
  own.row.noise = is_drawn ? memory.noise.data() : nullptr;
  own.row.bias_noise = is_drawn && users.biases ? memory.noise.data() + users.n_factors : nullptr;
  kernel.clear(own.row, memory.rows.space);
  kernel.accumulate(own.row, 0, own.offsets[1], memory.rows.space);
  return kernel.finish(own.row, 0, memory.rows.space);
}

// Draws a normal response between the cuts of each rating's level.
template <class T>
void draw_levels(const FoldInLatentProblem<T> &problem, FoldInLatentRow<T> &own, const T *values,
                 FoldInLatentMemory<T> &memory, RandomStream &stream) {
  TruncatedProblem<T> truncated;
  truncated.scores = truncated.out = memory.responses.data();
  truncated.values = values;
  truncated.n_edges = problem.n_edges;
  truncated.edges = problem.edges;
  truncated.cuts = problem.cuts + own.draw * problem.n_edges;
  truncated.tables = &random_tables();
  const int64_t n = own.offsets[1];
  for (int64_t begin = 0; begin < n; begin += latent_block)
    latent_kernel<T>().truncated(truncated, begin, std::min(n, begin + latent_block), stream);
  learn_from<T>(memory.responses, nullptr, problem, own);
}

// Draws the weight of each rating, with which (y - 1/2) / weight is a normal response.
template <class T>
void draw_logistic(const FoldInLatentProblem<T> &problem, FoldInLatentRow<T> &own, const T *values,
                   FoldInLatentMemory<T> &memory, RandomStream &stream) {
  PolyaGammaProblem<T> weights;
  weights.scores = memory.responses.data();
  weights.tables = &random_tables();
  weights.out = memory.weights.data();
  const int64_t n = own.offsets[1];
  latent_kernel<T>().polya_gamma(weights, 0, n, stream);
  for (int64_t k = 0; k < n; ++k)
    memory.responses[size_t(k)] = (values[k] > problem.edges[0] ? T(0.5) : T(-0.5)) / memory.weights[size_t(k)];
  learn_from<T>(memory.responses, memory.weights.data(), problem, own);
}

template <class T>
void draw_responses(const FoldInLatentProblem<T> &problem, FoldInLatentRow<T> &own, const T *values,
                    FoldInLatentMemory<T> &memory, RandomStream &stream) {
  score_ratings(own, problem.latent_offset, memory.responses.data());
  if (problem.kind == LatentKind::levels)
    draw_levels(problem, own, values, memory, stream);
  else
    draw_logistic(problem, own, values, memory, stream);
}

// Draws the user's own precision given their current point.
template <class T>
double draw_precision(const FoldInLatentProblem<T> &problem, const FoldInLatentRow<T> &own, const T *values,
                      FoldInLatentMemory<T> &memory, RandomStream &stream) {
  const int64_t n = own.offsets[1];
  score_ratings(own, 0.0, memory.responses.data());
  double squares = 0;
  for (int64_t k = 0; k < n; ++k) {
    const double error = double(values[k]) - double(memory.responses[size_t(k)]);
    squares += double(own.row.other_weights[own.row.columns[k] * own.row.other_weights_stride]) * error * error;
  }
  const double prior = problem.concentration[own.draw];
  const double gamma = latent_kernel<T>().gamma(random_tables(), prior + 0.5 * double(n), stream);
  return gamma / (prior + 0.5 * problem.users.alpha[own.draw] * squares);
}

// Responses and weights that touch the log likelihood at the user's current point: with them a row is a Newton step.
template <class T>
void touch(const FoldInLatentProblem<T> &problem, FoldInLatentRow<T> &own, const T *values,
           FoldInLatentMemory<T> &memory) {
  score_ratings(own, problem.latent_offset, memory.responses.data());
  const double *cuts = problem.cuts ? problem.cuts + own.draw * problem.n_edges : nullptr;
  for (int64_t k = 0; k < own.offsets[1]; ++k) {
    const double score = double(memory.responses[size_t(k)]);
    Parabola parabola;
    if (problem.kind == LatentKind::levels) {
      int64_t level = 0;
      while (level < problem.n_edges && problem.edges[level] < values[k]) ++level;
      parabola = level_parabola(level == 0 ? -HUGE_VAL : cuts[level - 1] - score,
                                level == problem.n_edges ? HUGE_VAL : cuts[level] - score);
    } else {
      parabola = logistic_parabola(score, values[k] > problem.edges[0]);
    }
    memory.responses[size_t(k)] = T(score + parabola.slope / parabola.curvature);
    memory.weights[size_t(k)] = T(parabola.curvature);
  }
  learn_from<T>(memory.responses, memory.weights.data(), problem, own);
}

// Goes to the mode of the belief, and draws from the normal with its curvature: a start that latent responses, which
// move slowly if nearly all ratings agree, would take long to reach.
template <class T>
bool approach(const FoldInLatentProblem<T> &problem, FoldInLatentRow<T> &own, const T *values,
              FoldInLatentMemory<T> &memory, RandomStream &stream) {
  for (int64_t step = 0; step < problem.approach; ++step) {
    touch(problem, own, values, memory);
    const bool is_drawn = step + 1 == problem.approach;
    if (!solve_row(problem.users, own, is_drawn, memory, stream)) return false;
  }
  return true;
}

// Runs all steps; false if a precision matrix is not positive definite. The result is in the row's out, which also
// holds the draws in between; the workspace is that of the last step.
template <class T>
bool run_steps(const FoldInLatentProblem<T> &problem, FoldInLatentRow<T> &own, FoldInLatentMemory<T> &memory) {
  const FoldInProblem<T> &users = problem.users;
  const T *values = own.row.targets;
  RandomStream stream = random_stream(problem.keys[own.user], uint64_t(own.draw));
  double precision = 1;
  if (!approach(problem, own, values, memory, stream)) return false;
  for (int64_t step = 0; step < problem.steps; ++step) {
    const bool last = step + 1 == problem.steps;
    if (problem.kind == LatentKind::uneven)
      own.row.alpha = T(users.alpha[own.draw] * precision);
    else
      draw_responses(problem, own, values, memory, stream);
    if (!solve_row(users, own, !last, memory, stream)) return false;
    if (problem.kind == LatentKind::uneven && !last) precision = draw_precision(problem, own, values, memory, stream);
  }
  if (problem.out_precision) problem.out_precision[own.user * users.n_draws + own.draw] = T(precision);
  return true;
}

// The prior's mean given every draw, n_draws x width: the start of scores. False if a prior is not positive
// definite.
template <class T>
bool prior_means(const FoldInProblem<T> &users, std::vector<T> &means) {
  const RowsKernel<T> &kernel = rows_kernel<T>();
  const int64_t width = users.width();
  const int64_t none[2] = {0, 0};
  means.assign(size_t(users.n_draws * width), T(0));
  RowsMemory<T> memory(kernel.padded(users.n_factors));
  for (int64_t draw = 0; draw < users.n_draws; ++draw) {
    RowsProblem<T> row = one_row(users, 0, draw);
    row.offsets = none;
    row.minimum = nullptr;
    row.out = means.data() + draw * width;
    if (users.biases) row.out_bias = row.out + users.n_factors;
    kernel.clear(row, memory.space);
    if (!kernel.finish(row, 0, memory.space)) return false;
  }
  return true;
}

// Returns -1, or the first user with a draw whose precision matrix is not positive definite.
template <class T>
int64_t fold_in_latent(const FoldInLatentProblem<T> &problem, int threads) {
  const RowsKernel<T> &kernel = rows_kernel<T>();
  const FoldInProblem<T> &users = problem.users;
  const int64_t width = users.width();
  if (users.n_users == 0 || users.n_draws == 0) return -1;
  std::vector<T> start;
  // Users with means of their own start from those, which are in `means` already.
  if (problem.kind != LatentKind::uneven && !users.row_linear && !prior_means(users, start)) return 0;
  int64_t most = 0;
  for (int64_t user = 0; user < users.n_users; ++user)
    most = std::max(most, users.offsets[user + 1] - users.offsets[user]);
  const int64_t tasks_a_user = (users.n_draws + fold_in_draws - 1) / fold_in_draws;
  const int64_t n_tasks = users.n_users * tasks_a_user;
  FirstFailure failure(users.n_users);
  std::vector<FoldInLatentMemory<T>> memories;
  for (int64_t i = 0; i < std::min(int64_t(std::max(threads, 1)), n_tasks); ++i) memories.emplace_back(users, most);
  parallel_for(n_tasks, threads, [&](int64_t task, int worker) {
    FoldInLatentMemory<T> &memory = memories[size_t(worker)];
    const int64_t user = task / tasks_a_user, first = task % tasks_a_user * fold_in_draws;
    for (int64_t draw = first; draw < std::min(first + fold_in_draws, users.n_draws); ++draw) {
      const int64_t at = user * users.n_draws + draw;
      FoldInLatentRow<T> own;
      take_row(problem, user, draw, own);
      if (!start.empty()) std::copy_n(start.data() + draw * width, width, own.row.out);
      if (!run_steps(problem, own, memory)) {
        failure.at(user);
        continue;
      }
      if (users.roots) kernel.root(own.row, memory.rows.space, users.roots + at * width * width);
      if (users.log_determinant) users.log_determinant[at] = kernel.log_determinant(own.row, memory.rows.space);
    }
  });
  return failure.first();
}

}  // namespace tastespace
