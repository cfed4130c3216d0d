// Beliefs about scores and about users: the schedule and the binding.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "fold_in.hpp"
#include "machine.hpp"

namespace tastespace {
namespace {

// Blocks that are one task: within it, the points of the next block are prefetched while one is processed.
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
  BeliefsMemory(BeliefsMemory &&) = default;  // The pointers of `space` stay valid: a moved vector keeps its memory.
  BeliefsWorkspace space{};

 private:
  static constexpr int64_t line = 64 / int64_t(sizeof(float));
  static int64_t round(int64_t n) { return (n + line - 1) / line * line; }
  std::vector<float> memory_;
};

// The result of a pair does not depend on its block, so neither threads nor the order of pairs change a result.
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

}  // namespace

namespace beliefs {
namespace {

// The problem of both ways to fold in.
template <class T>
tastespace::FoldInProblem<T> fold_in_problem(
    const Vector<const int64_t> &offsets, const Vector<const int32_t> &columns, const Vector<const T> &targets,
    const Array<const T, 3> &items, const Array<const T, 3> &prior_precision, const Matrix<const T> &prior_linear,
    const Vector<const double> &alpha, const Array<T, 3> &means, const OptionalVector<const double> &bias_precision,
    const OptionalVector<const double> &bias_linear, const std::optional<Array<const T, 3>> &row_linear,
    const std::optional<Array<T, 4>> &roots, const OptionalMatrix<double> &energy,
    const OptionalMatrix<double> &log_determinant) {
  const size_t n_users = means.shape(0), n_draws = items.shape(1), width = items.shape(2);
  const size_t n_factors = prior_linear.shape(1), n = columns.size();
  const bool biases = bias_precision.has_value();
  require(biases == bias_linear.has_value(), "bias_precision and bias_linear: both or none");
  require(width == n_factors + (biases ? 1 : 0),
          "items: as many factors as prior_linear, followed by the bias if there are biases");
  require_offsets(offsets, n_users, n);
  require(targets.size() == n, "targets: one per rating");
  require(within(columns.data(), n, 0, int64_t(items.shape(0))), "columns: rows of items");
  require(prior_precision.shape(0) == n_draws && prior_precision.shape(1) == n_factors &&
              prior_precision.shape(2) == n_factors,
          "prior_precision: draws x factors x factors");
  require(prior_linear.shape(0) == n_draws, "prior_linear: draws x factors");
  require(alpha.size() == n_draws && has_size(bias_precision, n_draws) && has_size(bias_linear, n_draws),
          "alpha, bias_precision and bias_linear: one per draw");
  require(means.shape(1) == n_draws && means.shape(2) == width, "means: users x draws x width of items");
  require(!roots || (roots->shape(0) == n_users && roots->shape(1) == n_draws && roots->shape(2) == width &&
                     roots->shape(3) == width),
          "roots: users x draws x width x width of items");
  require(!row_linear ||
              (row_linear->shape(0) == n_users && row_linear->shape(1) == n_draws && row_linear->shape(2) == width),
          "row_linear: users x draws x width of items");
  const auto fits = [&](const OptionalMatrix<double> &array) {
    return !array || (array->shape(0) == n_users && array->shape(1) == n_draws);
  };
  require(fits(energy) && fits(log_determinant), "energy and log_determinant: users x draws");

  tastespace::FoldInProblem<T> problem;
  problem.n_users = int64_t(n_users);
  problem.n_draws = int64_t(n_draws);
  problem.n_factors = int64_t(n_factors);
  problem.biases = biases;
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.targets = targets.data();
  problem.items = items.data();
  problem.prior_precision = prior_precision.data();
  problem.prior_linear = prior_linear.data();
  problem.alpha = alpha.data();
  problem.bias_precision = pointer(bias_precision);
  problem.bias_linear = pointer(bias_linear);
  problem.row_linear = pointer(row_linear);
  problem.means = means.data();
  problem.roots = pointer(roots);
  problem.energy = pointer(energy);
  problem.log_determinant = pointer(log_determinant);
  return problem;
}

template <class T>
int64_t fold_in(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const T> targets,
                Array<const T, 3> items, Array<const T, 3> prior_precision, Matrix<const T> prior_linear,
                Vector<const double> alpha, Array<T, 3> means, OptionalVector<const double> bias_precision,
                OptionalVector<const double> bias_linear, std::optional<Array<const T, 3>> row_linear,
                std::optional<Array<T, 4>> roots, OptionalMatrix<double> energy, OptionalMatrix<double> log_determinant,
                int threads) {
  const auto problem = fold_in_problem<T>(offsets, columns, targets, items, prior_precision, prior_linear, alpha, means,
                                          bias_precision, bias_linear, row_linear, roots, energy, log_determinant);
  nb::gil_scoped_release release;
  return tastespace::fold_in(problem, threads);
}

bool finite_and_above_zero(const Vector<const double> &values) {
  return std::all_of(values.data(), values.data() + values.size(), [](double x) { return x > 0 && std::isfinite(x); });
}

// The arguments of a kind must be present, and others absent.
template <class T>
void require_levels(size_t n_draws, const OptionalVector<const T> &edges, const OptionalMatrix<const double> &cuts) {
  require(edges.has_value() && ascending(edges->data(), edges->size()), "edges: finite and ascending");
  require(cuts && cuts->shape(0) == n_draws && cuts->shape(1) == edges->size(), "cuts: draws x edges");
  for (size_t draw = 0; draw < n_draws; ++draw)
    require(ascending(cuts->data() + draw * edges->size(), edges->size()), "cuts: finite and ascending in every draw");
}

template <class T>
void require_logistic(const OptionalVector<const T> &edges, const OptionalMatrix<const double> &cuts) {
  require(edges.has_value() && edges->size() == 1 && ascending(edges->data(), 1), "edges: one, finite");
  require(!cuts, "cuts: for levels only");
}

template <class T>
void require_uneven(size_t n_users, size_t n_items, size_t n_draws, const OptionalVector<const T> &edges,
                    const OptionalMatrix<const double> &cuts, double latent_offset, const Vector<const double> &alpha,
                    const OptionalMatrix<const T> &item_precision, const OptionalVector<const double> &concentration,
                    const OptionalMatrix<T> &out_precision) {
  require(!edges && !cuts, "edges and cuts: not for uneven");
  require(latent_offset == 0, "latent_offset: 0 for uneven");
  require(finite_and_above_zero(alpha), "alpha: finite, above 0");
  require(item_precision && item_precision->shape(0) == n_items && item_precision->shape(1) == n_draws,
          "item_precision: items x draws");
  require(concentration && concentration->size() == n_draws && finite_and_above_zero(*concentration),
          "concentration: one per draw, finite, above 0");
  require(out_precision && out_precision->shape(0) == n_users && out_precision->shape(1) == n_draws,
          "out_precision: users x draws");
}

tastespace::LatentKind latent_kind(const std::string &name) {
  using tastespace::LatentKind;
  require(name == "levels" || name == "logistic" || name == "uneven", "kind: levels, logistic or uneven");
  return name == "levels" ? LatentKind::levels : name == "logistic" ? LatentKind::logistic : LatentKind::uneven;
}

template <class T>
int64_t fold_in_latent(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const T> targets,
                       Array<const T, 3> items, Array<const T, 3> prior_precision, Matrix<const T> prior_linear,
                       Vector<const double> alpha, Array<T, 3> means, const std::string &kind, int64_t steps,
                       int64_t approach, Vector<const uint64_t> keys, double latent_offset,
                       OptionalVector<const T> edges, OptionalMatrix<const double> cuts,
                       OptionalMatrix<const T> item_precision, OptionalVector<const double> concentration,
                       OptionalMatrix<T> out_precision, OptionalVector<const double> bias_precision,
                       OptionalVector<const double> bias_linear, std::optional<Array<const T, 3>> row_linear,
                       std::optional<Array<T, 4>> roots, OptionalMatrix<double> energy,
                       OptionalMatrix<double> log_determinant, int threads) {
  const size_t n_users = means.shape(0), n_items = items.shape(0), n_draws = items.shape(1);
  tastespace::FoldInLatentProblem<T> problem;
  problem.users = fold_in_problem<T>(offsets, columns, targets, items, prior_precision, prior_linear, alpha, means,
                                     bias_precision, bias_linear, row_linear, roots, energy, log_determinant);
  problem.kind = latent_kind(kind);
  require(steps >= 1, "steps: at least 1");
  require(approach >= 0, "approach: at least 0");
  require(keys.size() == n_users, "keys: one per user");
  require(std::isfinite(latent_offset), "latent_offset: finite");
  if (problem.kind == tastespace::LatentKind::uneven) {
    require_uneven(n_users, n_items, n_draws, edges, cuts, latent_offset, alpha, item_precision, concentration,
                   out_precision);
    require(approach == 0, "approach: 0 for uneven");
  } else {
    require(!item_precision && !concentration && !out_precision,
            "item_precision, concentration and out_precision: for uneven only");
    require(std::all_of(alpha.data(), alpha.data() + n_draws, [](double x) { return x == 1; }),
            "alpha: 1, the precision of latent responses");
    if (problem.kind == tastespace::LatentKind::levels)
      require_levels<T>(n_draws, edges, cuts);
    else
      require_logistic<T>(edges, cuts);
  }
  problem.steps = steps;
  problem.approach = approach;
  problem.keys = keys.data();
  problem.latent_offset = latent_offset;
  problem.n_edges = edges ? int64_t(edges->size()) : 0;
  problem.edges = pointer(edges);
  problem.cuts = pointer(cuts);
  problem.item_precision = pointer(item_precision);
  problem.concentration = pointer(concentration);
  problem.out_precision = pointer(out_precision);
  nb::gil_scoped_release release;
  return tastespace::fold_in_latent(problem, threads);
}

template <class T>
void bind_fold_in_latent(nb::module_ &module) {
  define(module, "fold_in_latent", &fold_in_latent<T>,
         {"offsets"_a,
          "columns"_a,
          "targets"_a,
          "items"_a,
          "prior_precision"_a,
          "prior_linear"_a,
          "alpha"_a,
          "means"_a,
          by_name_only,
          "kind"_a,
          "steps"_a,
          "approach"_a = 0,
          "keys"_a,
          "latent_offset"_a = 0.0,
          "edges"_a = none,
          "cuts"_a = none,
          "item_precision"_a = none,
          "concentration"_a = none,
          "out_precision"_a = none,
          "bias_precision"_a = none,
          "bias_linear"_a = none,
          "row_linear"_a = none,
          "roots"_a = none,
          "energy"_a = none,
          "log_determinant"_a = none,
          "threads"_a = 1},
         "The same by steps of Gibbs sampling, for ratings with latent responses or with users' own precisions.");
}

template <class T>
void bind_fold_in(nb::module_ &module) {
  define(module, "fold_in", &fold_in<T>,
         {"offsets"_a, "columns"_a, "targets"_a, "items"_a, "prior_precision"_a, "prior_linear"_a, "alpha"_a, "means"_a,
          by_name_only, "bias_precision"_a = none, "bias_linear"_a = none, "row_linear"_a = none, "roots"_a = none,
          "energy"_a = none, "log_determinant"_a = none, "threads"_a = 1},
         "Beliefs about users given every draw of the items; -1, or the first user that is not positive definite.");
}

// The shared part of the problem of both kinds.
tastespace::BeliefsProblem beliefs_problem(const Vector<const int32_t> &belief_rows,
                                           const Vector<const int32_t> &item_rows, const Array<const float, 3> &items,
                                           const Array<const float, 3> &means, const Array<const float, 4> &roots,
                                           const OptionalMatrix<const float> &cold_item, bool biases) {
  const size_t n = belief_rows.size(), n_draws = items.shape(1), width = items.shape(2), n_beliefs = means.shape(0);
  require(item_rows.size() == n, "belief_rows and item_rows: one per pair");
  require(!biases || width > 0, "items: with biases, at least the bias");
  require(means.shape(1) == n_draws && means.shape(2) == width, "means: beliefs x draws x width of items");
  require(
      roots.shape(0) == n_beliefs && roots.shape(1) == n_draws && roots.shape(2) == width && roots.shape(3) == width,
      "roots: beliefs x draws x width x width of items");
  require(!cold_item || (cold_item->shape(0) == n_draws && cold_item->shape(1) == width),
          "cold_item: draws x width of items");
  require(within(belief_rows.data(), n, 0, int64_t(n_beliefs)), "belief_rows: rows of means");
  require(within(item_rows.data(), n, cold_item ? -1 : 0, int64_t(items.shape(0))),
          "item_rows: rows of items, or -1 where there is a cold_item");
  tastespace::BeliefsProblem problem;
  problem.n_draws = int64_t(n_draws);
  problem.n_factors = int64_t(width) - (biases ? 1 : 0);
  problem.biases = biases;
  problem.belief_rows = belief_rows.data();
  problem.item_rows = item_rows.data();
  problem.items = items.data();
  problem.means = means.data();
  problem.roots = roots.data();
  problem.cold_item = pointer(cold_item);
  return problem;
}

void belief_pairs(Vector<const int32_t> belief_rows, Vector<const int32_t> item_rows, Array<const float, 3> items,
                  Array<const float, 3> means, Array<const float, 4> roots, OptionalMatrix<const float> cold_item,
                  Matrix<float> out_means, Matrix<float> out_sds, bool biases, int threads) {
  const size_t n = belief_rows.size();
  auto problem = beliefs_problem(belief_rows, item_rows, items, means, roots, cold_item, biases);
  for (const Matrix<float> &out : {out_means, out_sds})
    require(out.shape(0) == n && out.shape(1) == items.shape(1), "out_means and out_sds: pairs x draws");
  problem.out_means = out_means.data();
  problem.out_sds = out_sds.data();
  nb::gil_scoped_release release;
  tastespace::run_beliefs(problem, int64_t(n), tastespace::table().beliefs.each, threads);
}

void belief_summary(Vector<const int32_t> belief_rows, Vector<const int32_t> item_rows, Array<const float, 3> items,
                    Array<const float, 3> means, Array<const float, 4> roots, OptionalMatrix<const float> cold_item,
                    Matrix<const float> weights, Vector<float> out_mean, Vector<float> out_sd, bool biases,
                    int threads) {
  const size_t n = belief_rows.size();
  auto problem = beliefs_problem(belief_rows, item_rows, items, means, roots, cold_item, biases);
  require(weights.shape(0) == means.shape(0) && weights.shape(1) == items.shape(1), "weights: beliefs x draws");
  require(out_mean.size() == n && out_sd.size() == n, "out_mean and out_sd: one per pair");
  problem.weights = weights.data();
  problem.out_mean = out_mean.data();
  problem.out_sd = out_sd.data();
  nb::gil_scoped_release release;
  tastespace::run_beliefs(problem, int64_t(n), tastespace::table().beliefs.mixture, threads);
}

}  // namespace

void bind(nb::module_ &module) {
  bind_fold_in<float>(module);
  bind_fold_in<double>(module);
  bind_fold_in_latent<float>(module);
  bind_fold_in_latent<double>(module);
  define(module, "belief_pairs", &belief_pairs,
         {"belief_rows"_a, "item_rows"_a, "items"_a, "means"_a, "roots"_a, "cold_item"_a, "out_means"_a, "out_sds"_a,
          by_name_only, "biases"_a, "threads"_a = 1},
         "Mean and standard deviation of the score of each pair, given every draw.");
  define(module, "belief_summary", &belief_summary,
         {"belief_rows"_a, "item_rows"_a, "items"_a, "means"_a, "roots"_a, "cold_item"_a, "weights"_a, "out_mean"_a,
          "out_sd"_a, by_name_only, "biases"_a, "threads"_a = 1},
         "Mean and standard deviation of the score of each pair over all draws, which have weights.");
}

}  // namespace beliefs
}  // namespace tastespace
