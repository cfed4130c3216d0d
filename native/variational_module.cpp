// The binding of the variational kernels: checks of the arguments, release of the interpreter lock, the call.
#include "variational_module.hpp"

#include <cmath>

#include "arguments.hpp"
#include "variational_driver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::Array;
using tastespace::has_size;
using tastespace::Matrix;
using tastespace::OptionalMatrix;
using tastespace::OptionalVector;
using tastespace::pointer;
using tastespace::record_size;
using tastespace::require;
using tastespace::require_offsets;
using tastespace::Vector;
using tastespace::within;

template <class T>
using OptionalCube = std::optional<Array<T, 3>>;

// What both ways of moving rows take.
template <class T>
tastespace::VariationalProblem<T> problem_of(const Vector<const int64_t> &offsets, const Vector<const int32_t> &columns,
                                             const Vector<const T> &targets, const Matrix<const T> &other,
                                             const Matrix<const double> &prior_precision,
                                             const Vector<const double> &prior_linear, bool full,
                                             std::optional<double> bias_precision, double bias_linear, double alpha,
                                             double target_offset, double target_scale,
                                             const OptionalVector<const double> &row_centre,
                                             const OptionalVector<const double> &column_centre) {
  const size_t n_factors = prior_linear.size(), n = columns.size();
  require(offsets.size() > 0, "offsets: one more than rows");
  require_offsets(offsets, offsets.size() - 1, n);
  require(targets.size() == n, "targets: one a rating");
  require(n_factors > 0 && prior_precision.shape(0) == n_factors && prior_precision.shape(1) == n_factors,
          "prior_precision: factors x factors");
  require(alpha > 0 && std::isfinite(alpha), "alpha: above 0, finite");
  require(target_scale > 0, "target_scale: above 0");
  tastespace::VariationalProblem<T> problem;
  problem.n_rows = int64_t(offsets.size()) - 1;
  problem.n_factors = int64_t(n_factors);
  problem.biases = bias_precision.has_value();
  problem.width = problem.n_factors + (problem.biases ? 1 : 0);
  require(int64_t(other.shape(1)) == record_size(problem.width, full), "other: records of the family and width");
  require(within(columns.data(), n, 0, int64_t(other.shape(0))), "columns: rows of other");
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.targets = targets.data();
  problem.target_offset = target_offset;
  problem.target_scale = target_scale;
  problem.other = other.data();
  problem.prior_precision = prior_precision.data();
  problem.prior_linear = prior_linear.data();
  problem.bias_precision = bias_precision.value_or(0.0);
  problem.bias_linear = bias_linear;
  problem.alpha = alpha;
  require(has_size(row_centre, size_t(problem.width)) && has_size(column_centre, size_t(problem.width)),
          "row_centre and column_centre: the numbers of a row");
  problem.row_centre = pointer(row_centre);
  problem.column_centre = pointer(column_centre);
  return problem;
}

template <class A>
bool has_shape(const std::optional<A> &array, int64_t rows, int64_t columns) {
  return !array || (int64_t(array->shape(0)) == rows && int64_t(array->shape(1)) == columns);
}

template <class T>
int64_t variational_rows(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const T> targets,
                         Matrix<const T> other, Matrix<const double> prior_precision, Vector<const double> prior_linear,
                         std::optional<double> bias_precision, double bias_linear, double alpha, double target_offset,
                         double target_scale, OptionalVector<const double> row_centre,
                         OptionalVector<const double> column_centre, bool diagonal, OptionalMatrix<T> means,
                         OptionalMatrix<T> records, OptionalMatrix<T> covariances, OptionalCube<T> roots,
                         OptionalVector<double> log_determinant, OptionalVector<double> squares, int threads) {
  auto problem = problem_of<T>(offsets, columns, targets, other, prior_precision, prior_linear, true, bias_precision,
                               bias_linear, alpha, target_offset, target_scale, row_centre, column_centre);
  const int64_t n_rows = problem.n_rows, width = problem.width;
  require(has_shape(means, n_rows, width), "means: rows x width");
  require(has_shape(records, n_rows, record_size(width, true)), "records: one a row");
  require(has_shape(covariances, n_rows, diagonal ? width : width * (width + 1) / 2),
          "covariances: a triangle a row, or a diagonal");
  require(has_shape(roots, n_rows, width) && (!roots || int64_t(roots->shape(2)) == width),
          "roots: rows x width x width");
  require(has_size(log_determinant, size_t(n_rows)) && has_size(squares, size_t(n_rows)),
          "log_determinant and squares: one a row");
  problem.diagonal = diagonal;
  problem.means = pointer(means);
  problem.records = pointer(records);
  problem.covariances = pointer(covariances);
  problem.roots = pointer(roots);
  problem.log_determinant = pointer(log_determinant);
  problem.squares = pointer(squares);
  nb::gil_scoped_release release;
  return tastespace::variational_rows(problem, threads);
}

template <class T>
int64_t variational_coordinates(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const T> targets,
                                Matrix<const T> other, Matrix<const double> prior_precision,
                                Vector<const double> prior_linear, Matrix<T> records,
                                std::optional<double> bias_precision, double bias_linear, double alpha,
                                double target_offset, double target_scale, OptionalVector<const double> row_centre,
                                OptionalVector<const double> column_centre, OptionalMatrix<T> covariances,
                                OptionalVector<double> log_determinant, OptionalVector<double> squares, int threads) {
  auto problem = problem_of<T>(offsets, columns, targets, other, prior_precision, prior_linear, false, bias_precision,
                               bias_linear, alpha, target_offset, target_scale, row_centre, column_centre);
  const int64_t n_rows = problem.n_rows, width = problem.width;
  require(int64_t(records.shape(0)) == n_rows && int64_t(records.shape(1)) == record_size(width, false),
          "records: one a row");
  require(has_shape(covariances, n_rows, width), "covariances: a diagonal a row");
  require(has_size(log_determinant, size_t(n_rows)) && has_size(squares, size_t(n_rows)),
          "log_determinant and squares: one a row");
  problem.records = records.data();
  problem.covariances = pointer(covariances);
  problem.log_determinant = pointer(log_determinant);
  problem.squares = pointer(squares);
  nb::gil_scoped_release release;
  return tastespace::variational_coordinates(problem, threads);
}

template <class T>
void bind_rows(nb::module_ &module) {
  module.def("variational_rows", &variational_rows<T>, "offsets"_a, "columns"_a, "targets"_a, "other"_a,
             "prior_precision"_a, "prior_linear"_a, nb::kw_only(), "bias_precision"_a = nb::none(),
             "bias_linear"_a = 0.0, "alpha"_a = 1.0, "target_offset"_a = 0.0, "target_scale"_a = 1.0,
             "row_centre"_a = nb::none(), "column_centre"_a = nb::none(), "diagonal"_a = false,
             "means"_a.noconvert() = nb::none(), "records"_a.noconvert() = nb::none(),
             "covariances"_a.noconvert() = nb::none(), "roots"_a.noconvert() = nb::none(),
             "log_determinant"_a.noconvert() = nb::none(), "squares"_a.noconvert() = nb::none(), "threads"_a = 1,
             "The normal beliefs about all rows of one side that maximise the bound, given records of the other; -1, "
             "or the first row whose precision is not positive definite.");
  module.def("variational_coordinates", &variational_coordinates<T>, "offsets"_a, "columns"_a, "targets"_a, "other"_a,
             "prior_precision"_a, "prior_linear"_a, "records"_a.noconvert(), nb::kw_only(),
             "bias_precision"_a = nb::none(), "bias_linear"_a = 0.0, "alpha"_a = 1.0, "target_offset"_a = 0.0,
             "target_scale"_a = 1.0, "row_centre"_a = nb::none(), "column_centre"_a = nb::none(),
             "covariances"_a.noconvert() = nb::none(), "log_determinant"_a.noconvert() = nb::none(),
             "squares"_a.noconvert() = nb::none(), "threads"_a = 1,
             "Moves every coordinate of factorised beliefs about rows once; -1, or the first row that failed.");
}

}  // namespace

void bind_variational(nb::module_ &module) {
  bind_rows<float>(module);
  bind_rows<double>(module);
  module.def("record_size", &record_size, "width"_a, "full"_a,
             "Numbers of a record: what one side of a variational factorization has to know of a row of the other.");
}
