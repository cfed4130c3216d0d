// The binding of the rows of one-class data: checks of the arguments, release of the interpreter lock, the call.
#include "confident_module.hpp"

#include "arguments.hpp"
#include "confident_driver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::has_size;
using tastespace::Matrix;
using tastespace::OptionalVector;
using tastespace::pointer;
using tastespace::require;
using tastespace::require_offsets;
using tastespace::Vector;
using tastespace::within;

void descend_rows(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const float> weights,
                  Vector<const float> pulls, Matrix<const float> other, Vector<const float> diagonal,
                  Vector<const float> ridge, Matrix<float> out, OptionalVector<const float> linear, int steps,
                  int threads) {
  const size_t n_rows = out.shape(0), n_factors = out.shape(1), n = columns.size();
  require_offsets(offsets, n_rows, n);
  require(weights.size() == n && pulls.size() == n, "weights and pulls: one an observation");
  require(other.shape(1) == n_factors, "other: as many factors as out");
  require(n_factors > 0 && diagonal.size() == n_factors && has_size(linear, n_factors),
          "diagonal and linear: one a factor");
  require(ridge.size() == n_rows, "ridge: one a row");
  require(steps >= 0, "steps: 0 or more");
  require(within(columns.data(), n, 0, int64_t(other.shape(0))), "columns: rows of other");
  tastespace::ConfidentProblem problem;
  problem.n_rows = int64_t(n_rows);
  problem.n_factors = int64_t(n_factors);
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.weights = weights.data();
  problem.pulls = pulls.data();
  problem.other = other.data();
  problem.diagonal = diagonal.data();
  problem.linear = pointer(linear);
  problem.ridge = ridge.data();
  problem.steps = steps;
  problem.out = out.data();
  nb::gil_scoped_release release;
  tastespace::descend_rows(problem, threads);
}

void rotate_rows(Matrix<const float> points, Matrix<const float> matrix, Matrix<float> out, int threads) {
  const size_t n_factors = points.shape(1);
  require(matrix.shape(0) == n_factors && matrix.shape(1) == n_factors, "matrix: factors x factors");
  require(out.shape(0) == points.shape(0) && out.shape(1) == n_factors, "out: as points");
  nb::gil_scoped_release release;
  tastespace::rotate_rows(points.data(), int64_t(points.shape(0)), int64_t(n_factors), matrix.data(), out.data(),
                          threads);
}

}  // namespace

void bind_confident(nb::module_ &module) {
  module.def("descend_rows", &descend_rows, "offsets"_a, "columns"_a, "weights"_a, "pulls"_a, "other"_a, "diagonal"_a,
             "ridge"_a, "out"_a.noconvert(), nb::kw_only(), "linear"_a = nb::none(), "steps"_a = 3, "threads"_a = 1,
             "Rows of one-class data by conjugate gradients, from where `out` is; the other side's Gram matrix is "
             "`diagonal`.");
  module.def("rotate_rows", &rotate_rows, "points"_a, "matrix"_a, "out"_a.noconvert(), "threads"_a = 1,
             "Every point times a matrix.");
}
