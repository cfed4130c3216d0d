// The binding of the logistic factorization of choices: checks of the arguments, release of the interpreter lock, the
// call.
#include "choices_module.hpp"

#include "arguments.hpp"
#include "choice_beliefs.hpp"
#include "choices_driver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::Array;
using tastespace::has_size;
using tastespace::Matrix;
using tastespace::OptionalVector;
using tastespace::pointer;
using tastespace::require;
using tastespace::require_offsets;
using tastespace::Vector;
using tastespace::within;

void alias_table(Vector<const double> chances, Matrix<uint32_t> table) {
  const size_t n = chances.size();
  require(n > 0 && n <= size_t(INT32_MAX), "chances: at least one");
  require(table.shape(0) == n && table.shape(1) == 2, "table: one row a chance, of two numbers");
  require(std::all_of(chances.data(), chances.data() + n, [](double chance) { return chance >= 0 && chance <= 1; }),
          "chances: from 0 to 1");
  tastespace::alias_table(int64_t(n), chances.data(), table.data());
}

tastespace::ColumnChances column_chances(const Matrix<const uint32_t> &table) {
  const size_t n = table.shape(0);
  require(n > 0 && n <= size_t(INT32_MAX) && table.shape(1) == 2, "table: one row a column, of two numbers");
  for (size_t column = 0; column < n; ++column) require(table.data()[2 * column + 1] < n, "table: aliases are columns");
  return {int64_t(n), table.data()};
}

void require_choices(const Vector<const int64_t> &offsets, const Vector<const int32_t> &columns, size_t n_rows,
                     size_t n_columns) {
  require_offsets(offsets, n_rows, columns.size());
  require(within(columns.data(), columns.size(), 0, int64_t(n_columns)), "columns: below the number of columns");
}

void require_drawn(const Vector<const int64_t> &drawn_offsets, size_t n_rows) {
  require(drawn_offsets.size() == n_rows + 1 && drawn_offsets.data()[0] == 0,
          "drawn_offsets: one more than rows, from 0");
  for (size_t row = 0; row < n_rows; ++row)
    require(drawn_offsets.data()[row] <= drawn_offsets.data()[row + 1], "drawn_offsets: ascending");
}

void draw_columns(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const int64_t> drawn_offsets,
                  Matrix<const uint32_t> table, uint64_t key, Vector<int32_t> out,
                  OptionalVector<const uint64_t> places, int threads) {
  const auto chances = column_chances(table);
  const size_t n_rows = offsets.size() - 1;
  require(offsets.size() > 0, "offsets: one more than rows");
  require_choices(offsets, columns, n_rows, table.shape(0));
  require_drawn(drawn_offsets, n_rows);
  require(int64_t(out.size()) == drawn_offsets.data()[n_rows], "out: one a draw");
  require(has_size(places, n_rows), "places: one a row");
  nb::gil_scoped_release release;
  tastespace::draw_columns(int64_t(n_rows), offsets.data(), columns.data(), drawn_offsets.data(), chances, key,
                           pointer(places), out.data(), threads);
}

void step_choices(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const float> weights,
                  Vector<const int64_t> drawn_offsets, Vector<const float> row_weights,
                  Vector<const float> column_weights, Matrix<const uint32_t> table, Matrix<const float> other,
                  OptionalVector<const float> other_bias, float offset, float ridge, float bias_ridge, float rate,
                  uint64_t key, Matrix<float> out, OptionalVector<float> out_bias, Matrix<float> squares,
                  OptionalVector<float> bias_squares, Vector<double> energies, int threads) {
  const size_t n_rows = out.shape(0), n_factors = out.shape(1), n_columns = other.shape(0);
  tastespace::ChoicesProblem problem;
  problem.chances = column_chances(table);
  require(table.shape(0) == n_columns && column_weights.size() == n_columns && has_size(other_bias, n_columns),
          "table, column_weights and other_bias: one a row of other");
  require_choices(offsets, columns, n_rows, n_columns);
  require(weights.size() == columns.size(), "weights: one a choice");
  require_drawn(drawn_offsets, n_rows);
  require(row_weights.size() == n_rows && energies.size() == n_rows, "row_weights and energies: one a row");
  require(n_factors > 0 && other.shape(1) == n_factors, "other: as many factors as out");
  require(squares.shape(0) == n_rows && squares.shape(1) == n_factors, "squares: as out");
  require(out_bias.has_value() == other_bias.has_value() && out_bias.has_value() == bias_squares.has_value(),
          "out_bias, other_bias and bias_squares: all or none");
  require(has_size(out_bias, n_rows) && has_size(bias_squares, n_rows), "out_bias and bias_squares: one a row");
  problem.n_rows = int64_t(n_rows);
  problem.n_factors = int64_t(n_factors);
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.weights = weights.data();
  problem.drawn_offsets = drawn_offsets.data();
  problem.row_weights = row_weights.data();
  problem.column_weights = column_weights.data();
  problem.other = other.data();
  problem.other_bias = pointer(other_bias);
  problem.offset = offset;
  problem.ridge = ridge;
  problem.bias_ridge = bias_ridge;
  problem.rate = rate;
  problem.out = out.data();
  problem.out_bias = pointer(out_bias);
  problem.squares = squares.data();
  problem.bias_squares = pointer(bias_squares);
  problem.energies = energies.data();
  nb::gil_scoped_release release;
  tastespace::step_choices(problem, key, threads);
}

int64_t fold_in_choices(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const float> weights,
                        Vector<const int32_t> shown, Vector<const float> shown_weights, Vector<const float> row_weights,
                        Matrix<const float> items, Matrix<const float> prior_precision,
                        Vector<const float> prior_linear, std::optional<float> bias_precision, float bias_linear,
                        float offset, int64_t steps, Matrix<float> means, std::optional<Array<float, 3>> roots,
                        int threads) {
  const size_t n_users = means.shape(0), n_items = items.shape(0), width = items.shape(1);
  const size_t n_factors = prior_linear.size();
  tastespace::ChoiceBeliefsProblem problem;
  problem.biases = bias_precision.has_value();
  require(n_factors > 0 && width == n_factors + (problem.biases ? 1 : 0),
          "items: as many factors as prior_linear, and the bias behind them where there are biases");
  require_choices(offsets, columns, n_users, n_items);
  require(weights.size() == columns.size(), "weights: one a choice");
  require(shown_weights.size() == shown.size(), "shown_weights: one an item shown");
  require(within(shown.data(), shown.size(), 0, int64_t(n_items)), "shown: rows of items");
  require(row_weights.size() == n_users, "row_weights: one a user");
  require(prior_precision.shape(0) == n_factors && prior_precision.shape(1) == n_factors,
          "prior_precision: factors x factors");
  require(means.shape(1) == width, "means: users x width of items");
  require(!roots || (roots->shape(0) == n_users && roots->shape(1) == width && roots->shape(2) == width),
          "roots: users x width x width of items");
  require(steps > 0, "steps: above 0");
  problem.n_users = int64_t(n_users);
  problem.n_items = int64_t(n_items);
  problem.n_factors = int64_t(n_factors);
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.weights = weights.data();
  problem.n_shown = int64_t(shown.size());
  problem.shown = shown.data();
  problem.shown_weights = shown_weights.data();
  problem.row_weights = row_weights.data();
  problem.items = items.data();
  problem.prior_precision = prior_precision.data();
  problem.prior_linear = prior_linear.data();
  problem.bias_precision = bias_precision.value_or(0.0f);
  problem.bias_linear = bias_linear;
  problem.offset = offset;
  problem.steps = steps;
  problem.means = means.data();
  problem.roots = pointer(roots);
  nb::gil_scoped_release release;
  return tastespace::fold_in_choices(problem, threads);
}

}  // namespace

void bind_choices(nb::module_ &module) {
  module.def("alias_table", &alias_table, "chances"_a, "table"_a.noconvert(),
             "The table by which columns are drawn with these chances, which sum to 1.");
  module.def("draw_columns", &draw_columns, "offsets"_a, "columns"_a, "drawn_offsets"_a, "table"_a, "key"_a,
             "out"_a.noconvert(), nb::kw_only(), "places"_a = nb::none(), "threads"_a = 1,
             "Columns drawn for each row, by a stream of its own; -1 in place of one that it has chosen.");
  module.def("step_choices", &step_choices, "offsets"_a, "columns"_a, "weights"_a, "drawn_offsets"_a, "row_weights"_a,
             "column_weights"_a, "table"_a, "other"_a, "other_bias"_a.none(), nb::kw_only(), "offset"_a, "ridge"_a,
             "bias_ridge"_a, "rate"_a, "key"_a, "out"_a.noconvert(), "out_bias"_a.noconvert().none(),
             "squares"_a.noconvert(), "bias_squares"_a.noconvert().none(), "energies"_a.noconvert(), "threads"_a = 1,
             "One AdaGrad step of all rows of a logistic factorization of choices, given the other side.");
  module.def(
      "fold_in_choices", &fold_in_choices, "offsets"_a, "columns"_a, "weights"_a, "shown"_a, "shown_weights"_a,
      "row_weights"_a, "items"_a, "prior_precision"_a, "prior_linear"_a, nb::kw_only(), "bias_precision"_a = nb::none(),
      "bias_linear"_a = 0.0f, "offset"_a = 0.0f, "steps"_a = 20, "means"_a.noconvert(),
      "roots"_a.noconvert() = nb::none(), "threads"_a = 1,
      "Users with these choices given the items: modes, and roots of the covariances; -1, or the first user whose "
      "precision is not positive definite.");
}
