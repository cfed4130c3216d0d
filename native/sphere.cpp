// Rows on a sphere: the schedule and the binding.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <vector>

#include "arguments.hpp"
#include "random.hpp"
#include "rows_driver.hpp"

namespace tastespace {
namespace {

template <class T>
class SphereMemory {
 public:
  explicit SphereMemory(int64_t size)
      : single_(size_t(size * (size + sphere_vectors))), double_(size_t(size * (size + sphere_vectors))) {
    space = {single_.data(), single_.data() + size * size, double_.data(), double_.data() + size * size};
  }
  SphereMemory(SphereMemory &&) = default;  // The pointers of `space` stay valid: a moved vector keeps its memory.
  SphereWorkspace<T> space{};

 private:
  std::vector<T> single_;
  std::vector<double> double_;
};

// Returns -1, or the first row that did not stay finite. A row has its own stream: one thread and many give the same
// bytes.
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

}  // namespace

namespace sphere {
namespace {

SphereMove move_named(const std::string &name) {
  if (name == "least") return SphereMove::least;
  if (name == "geodesic") return SphereMove::geodesic;
  if (name == "slice") return SphereMove::slice;
  require(name == "metropolis", "move: least, geodesic, slice or metropolis");
  return SphereMove::metropolis;
}

template <class T>
int64_t move_on_sphere(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const T> targets,
                       Matrix<const T> other, Matrix<const T> prior_linear, Matrix<T> out, double radius,
                       const std::string &move, int64_t steps, double step_size, uint64_t key,
                       OptionalVector<const T> weights, OptionalVector<const T> other_bias,
                       OptionalVector<const T> other_weights, OptionalVector<const T> row_precision,
                       OptionalVector<const T> prior_scale, T target_offset, T target_scale, T alpha,
                       OptionalVector<T> out_bias, bool has_joint_bias, T bias_precision, T bias_linear,
                       OptionalVector<double> squares, OptionalVector<double> acceptance,
                       OptionalVector<double> energy_error, int threads) {
  const size_t n_rows = out.shape(0), n_factors = out.shape(1), n = columns.size();
  const size_t dimension = n_factors + (has_joint_bias ? 1 : 0);
  require_offsets(offsets, n_rows, n);
  require(targets.size() == n && has_size(weights, n), "targets and weights: one per rating");
  require(n_factors > 0 && other.shape(1) == n_factors, "other: as many factors as out");
  require(has_size(other_bias, other.shape(0)) && has_size(other_weights, other.shape(0)),
          "other_bias and other_weights: one per row of other");
  require(prior_linear.shape(1) == dimension && (prior_linear.shape(0) == 1 || prior_linear.shape(0) == n_rows),
          "prior_linear: one row, or one per row of out, as wide as the sphere");
  require(has_size(row_precision, n_rows) && has_size(prior_scale, n_rows) && has_size(out_bias, n_rows) &&
              has_size(squares, n_rows) && has_size(acceptance, n_rows) && has_size(energy_error, n_rows),
          "row_precision, prior_scale, out_bias, squares, acceptance and energy_error: one per row");
  require(!has_joint_bias || out_bias, "out_bias: needed if it is on the sphere");
  require(target_scale > 0 && alpha > 0, "target_scale and alpha: above 0");
  require(radius > 0 && radius < HUGE_VAL, "radius: above 0, and finite");
  require(steps > 0 && step_size > 0, "steps and step_size: above 0");
  require(within(columns.data(), n, 0, int64_t(other.shape(0))), "columns: rows of other");

  tastespace::SphereProblem<T> problem;
  tastespace::RowsProblem<T> &rows = problem.rows;
  rows.n_rows = int64_t(n_rows);
  rows.n_factors = int64_t(n_factors);
  rows.offsets = offsets.data();
  rows.columns = columns.data();
  rows.targets = targets.data();
  rows.target_offset = target_offset;
  rows.target_scale = target_scale;
  rows.weights = pointer(weights);
  rows.other = other.data();
  rows.other_stride = int64_t(n_factors);
  rows.other_bias = pointer(other_bias);
  rows.other_weights = pointer(other_weights);
  rows.prior_linear = prior_linear.data();
  rows.prior_linear_stride = prior_linear.shape(0) == 1 ? 0 : int64_t(dimension);
  rows.prior_scale = pointer(prior_scale);
  rows.bias_precision = bias_precision;
  rows.bias_linear = bias_linear;
  rows.alpha = alpha;
  rows.out = out.data();
  rows.out_bias = pointer(out_bias);
  rows.squares = pointer(squares);
  problem.row_precision = pointer(row_precision);
  problem.radius = radius;
  problem.has_joint_bias = has_joint_bias;
  problem.move = move_named(move);
  problem.steps = steps;
  problem.step_size = step_size;
  problem.acceptance = pointer(acceptance);
  problem.energy_error = pointer(energy_error);
  nb::gil_scoped_release release;
  return tastespace::move_on_sphere(problem, key, threads);
}

template <class T>
void bind(nb::module_ &module) {
  define(module, "move_on_sphere", &move_on_sphere<T>,
         {"offsets"_a,
          "columns"_a,
          "targets"_a,
          "other"_a,
          "prior_linear"_a,
          "out"_a,
          by_name_only,
          "radius"_a,
          "move"_a,
          "steps"_a = 1,
          "step_size"_a = 1.0,
          "key"_a = 0,
          "weights"_a = none,
          "other_bias"_a = none,
          "other_weights"_a = none,
          "row_precision"_a = none,
          "prior_scale"_a = none,
          "target_offset"_a = T(0),
          "target_scale"_a = T(1),
          "alpha"_a = T(1),
          "out_bias"_a = none,
          "has_joint_bias"_a = false,
          "bias_precision"_a = T(0),
          "bias_linear"_a = T(0),
          "squares"_a = none,
          "acceptance"_a = none,
          "energy_error"_a = none,
          "threads"_a = 1},
         "Move all rows of one side, which lie on a sphere, given the other; -1, or the first row that did not stay "
         "finite.");
}

}  // namespace

void bind(nb::module_ &module) {
  bind<float>(module);
  bind<double>(module);
}

}  // namespace sphere
}  // namespace tastespace
