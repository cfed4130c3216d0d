// The Python module tastespace._native: arrays in, the caller's arrays filled, the GIL released.
#include "arguments.hpp"
#include "beliefs_module.hpp"
#include "candidates_module.hpp"
#include "cells_module.hpp"
#include "choices_module.hpp"
#include "compress.hpp"
#include "confident_module.hpp"
#include "descent_module.hpp"
#include "drawn_module.hpp"
#include "latent_module.hpp"
#include "mixtures_module.hpp"
#include "moments_driver.hpp"
#include "neighbours_module.hpp"
#include "parallel.hpp"
#include "records_module.hpp"
#include "rows_driver.hpp"
#include "sphere_module.hpp"
#include "tables.hpp"
#include "trees_module.hpp"
#include "variational_module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::has_size;
using tastespace::Matrix;
using tastespace::OptionalMatrix;
using tastespace::OptionalVector;
using tastespace::pointer;
using tastespace::require;
using tastespace::require_excluded;
using tastespace::require_offsets;
using tastespace::Vector;
using tastespace::within;

template <class T>
int64_t solve_rows(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const T> targets,
                   Matrix<const T> other, Matrix<const T> prior_precision, Matrix<const T> prior_linear, Matrix<T> out,
                   OptionalVector<const T> weights, OptionalVector<const T> other_bias,
                   OptionalVector<const T> other_weights, OptionalVector<const T> prior_scale,
                   OptionalVector<const T> ridge, T target_offset, T target_scale, T alpha,
                   OptionalMatrix<const T> noise, OptionalVector<T> out_bias, T bias_precision, T bias_linear,
                   OptionalVector<const T> bias_noise, OptionalVector<double> minimum, OptionalVector<double> squares,
                   int64_t few, int threads) {
  const size_t n_rows = out.shape(0), n_factors = out.shape(1), n = columns.size();
  require_offsets(offsets, n_rows, n);
  require(targets.size() == n && has_size(weights, n), "targets and weights: one a rating");
  require(other.shape(1) == n_factors, "other: as many factors as out");
  require(has_size(other_bias, other.shape(0)) && has_size(other_weights, other.shape(0)),
          "other_bias and other_weights: one a row of other");
  require(prior_precision.shape(0) == n_factors && prior_precision.shape(1) == n_factors,
          "prior_precision: factors x factors");
  require(prior_linear.shape(1) == n_factors && (prior_linear.shape(0) == 1 || prior_linear.shape(0) == n_rows),
          "prior_linear: one row, or one a row of out");
  require(has_size(prior_scale, n_rows) && has_size(ridge, n_rows) && has_size(out_bias, n_rows) &&
              has_size(bias_noise, n_rows) && has_size(minimum, n_rows) && has_size(squares, n_rows) &&
              has_size(noise, n_rows * n_factors),
          "prior_scale, ridge, out_bias, noise, minimum and squares: one a row");
  require(target_scale > 0, "target_scale: above 0");
  require(!squares || alpha > 0, "alpha: above 0 where squares are wanted");
  require(within(columns.data(), n, 0, int64_t(other.shape(0))), "columns: rows of other");

  tastespace::RowsProblem<T> problem;
  problem.n_rows = int64_t(n_rows);
  problem.n_factors = int64_t(n_factors);
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.targets = targets.data();
  problem.target_offset = target_offset;
  problem.target_scale = target_scale;
  problem.weights = pointer(weights);
  problem.other = other.data();
  problem.other_stride = int64_t(n_factors);
  problem.other_bias = pointer(other_bias);
  problem.other_weights = pointer(other_weights);
  problem.prior_precision = prior_precision.data();
  problem.prior_linear = prior_linear.data();
  problem.prior_linear_stride = prior_linear.shape(0) == 1 ? 0 : int64_t(n_factors);
  problem.prior_scale = pointer(prior_scale);
  problem.ridge = pointer(ridge);
  problem.bias_precision = bias_precision;
  problem.bias_linear = bias_linear;
  problem.alpha = alpha;
  problem.noise = pointer(noise);
  problem.bias_noise = pointer(bias_noise);
  problem.out = out.data();
  problem.out_bias = pointer(out_bias);
  problem.minimum = pointer(minimum);
  problem.squares = pointer(squares);
  problem.few = few;
  nb::gil_scoped_release release;
  return tastespace::solve_rows(problem, int64_t(other.shape(0)), threads);
}

template <class T>
void bind_solve_rows(nb::module_ &module) {
  module.def("solve_rows", &solve_rows<T>, "offsets"_a, "columns"_a, "targets"_a, "other"_a, "prior_precision"_a,
             "prior_linear"_a, "out"_a.noconvert(), nb::kw_only(), "weights"_a = nb::none(),
             "other_bias"_a = nb::none(), "other_weights"_a = nb::none(), "prior_scale"_a = nb::none(),
             "ridge"_a = nb::none(), "target_offset"_a = T(0), "target_scale"_a = T(1), "alpha"_a = T(1),
             "noise"_a = nb::none(), "out_bias"_a.noconvert() = nb::none(), "bias_precision"_a = T(0),
             "bias_linear"_a = T(0), "bias_noise"_a = nb::none(), "minimum"_a.noconvert() = nb::none(),
             "squares"_a.noconvert() = nb::none(), "few"_a = 0, "threads"_a = 1,
             "Solve (or, with noise, draw) all rows of one side; -1, or the first row that is not positive definite.");
}

template <class T>
void moments(Matrix<const T> points, Vector<double> out_sum, Matrix<double> out_gram, int threads) {
  const size_t n_factors = points.shape(1);
  require(out_sum.size() == n_factors, "out_sum: one a factor");
  require(out_gram.shape(0) == n_factors && out_gram.shape(1) == n_factors, "out_gram: factors x factors");
  nb::gil_scoped_release release;
  tastespace::moments(points.data(), int64_t(points.shape(0)), int64_t(n_factors), out_sum.data(), out_gram.data(),
                      threads);
}

template <class T>
void bind_moments(nb::module_ &module) {
  module.def("moments", &moments<T>, "points"_a, "out_sum"_a.noconvert(), "out_gram"_a.noconvert(), "threads"_a = 1,
             "Sum of the points, and sum of their products with themselves.");
}

void score_pairs(Vector<const int32_t> user_rows, Vector<const int32_t> item_rows, Matrix<const float> users,
                 Matrix<const float> items, OptionalVector<const float> user_bias,
                 OptionalVector<const float> item_bias, double offset, Vector<float> out, int threads) {
  const size_t n = out.size();
  require(user_rows.size() == n && item_rows.size() == n, "user_rows, item_rows and out: one a pair");
  require(users.shape(1) == items.shape(1), "users and items: as many factors");
  require(has_size(user_bias, users.shape(0)) && has_size(item_bias, items.shape(0)), "biases: one a row");
  require(within(user_rows.data(), n, -1, int64_t(users.shape(0))) &&
              within(item_rows.data(), n, -1, int64_t(items.shape(0))),
          "rows: -1 or a row of the factors");
  tastespace::PairsProblem problem;
  problem.n_factors = int64_t(users.shape(1));
  problem.user_rows = user_rows.data();
  problem.item_rows = item_rows.data();
  problem.users = users.data();
  problem.items = items.data();
  problem.user_bias = pointer(user_bias);
  problem.item_bias = pointer(item_bias);
  problem.offset = offset;
  problem.out = out.data();
  const auto score = tastespace::table().pairs.score;
  nb::gil_scoped_release release;
  constexpr int64_t share = 16384;
  tastespace::parallel_for((int64_t(n) + share - 1) / share, threads, [&](int64_t task, int) {
    score(problem, task * share, std::min(int64_t(n), (task + 1) * share));
  });
}

void scan(Vector<const float> panels, Matrix<const float> queries, int64_t n_items, Matrix<int32_t> out_items,
          Matrix<float> out_scores, OptionalVector<const int64_t> excluded_offsets,
          OptionalVector<const int32_t> excluded, OptionalVector<const uint8_t> allowed, int threads) {
  const int64_t n_queries = int64_t(queries.shape(0));
  tastespace::ScanProblem problem;
  problem.n_items = n_items;
  problem.n_dimensions = int64_t(queries.shape(1));
  problem.k = int64_t(out_items.shape(1));
  const int64_t n_panels = (n_items + tastespace::scan_panel - 1) / tastespace::scan_panel;
  require(n_items >= 0 && int64_t(panels.size()) == n_panels * problem.n_dimensions * tastespace::scan_panel,
          "panels: items in panels of the queries' dimension");
  require(out_items.shape(0) == size_t(n_queries) && out_scores.shape(0) == size_t(n_queries) &&
              out_scores.shape(1) == size_t(problem.k) && problem.k > 0,
          "out: one row of k a query");
  require(has_size(allowed, size_t(n_items)), "allowed: one an item");
  require_excluded(excluded_offsets, excluded, n_queries);
  problem.panels = panels.data();
  problem.queries = queries.data();
  problem.excluded_offsets = pointer(excluded_offsets);
  problem.excluded = pointer(excluded);
  problem.allowed = pointer(allowed);
  problem.out_items = out_items.data();
  problem.out_scores = out_scores.data();
  const auto search = tastespace::table().scan.search;
  nb::gil_scoped_release release;
  constexpr int64_t share = tastespace::scan_queries;
  tastespace::parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    search(problem, task * share, std::min(share, n_queries - task * share));
  });
}

void compress(Vector<const int32_t> rows, Vector<const int32_t> columns, Vector<const float> values,
              Vector<int64_t> offsets, Vector<int32_t> out_columns, Vector<float> out_values) {
  const size_t n = rows.size();
  require(columns.size() == n && values.size() == n && out_columns.size() == n && out_values.size() == n,
          "rows, columns, values and outputs: one a rating");
  require(offsets.size() > 0, "offsets: one more than rows");
  bool fits;
  {
    nb::gil_scoped_release release;
    fits = tastespace::compress(int64_t(n), rows.data(), columns.data(), values.data(), int64_t(offsets.size()) - 1,
                                offsets.data(), out_columns.data(), out_values.data());
  }
  require(fits, "rows: between 0 and the number of rows");
}

void sort_rows(Vector<const int64_t> offsets, Vector<int32_t> columns, Vector<float> values, int threads) {
  const size_t n = columns.size();
  require(offsets.size() > 0 && values.size() == n, "offsets: one more than rows; values: one a rating");
  require_offsets(offsets, offsets.size() - 1, n);
  require(within(columns.data(), n, 0, INT32_MAX), "columns: not negative");
  nb::gil_scoped_release release;
  tastespace::sort_rows(int64_t(offsets.size()) - 1, offsets.data(), columns.data(), values.data(), threads);
}

void transpose(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const float> values,
               Vector<int64_t> out_offsets, Vector<int32_t> out_columns, Vector<float> out_values) {
  const size_t n = columns.size();
  require(offsets.size() > 0 && out_offsets.size() > 0, "offsets: one more than rows");
  require_offsets(offsets, offsets.size() - 1, n);
  require(values.size() == n && out_columns.size() == n && out_values.size() == n, "values and outputs: one a rating");
  bool fits;
  {
    nb::gil_scoped_release release;
    fits = tastespace::transpose(int64_t(offsets.size()) - 1, offsets.data(), columns.data(), values.data(),
                                 int64_t(out_offsets.size()) - 1, out_offsets.data(), out_columns.data(),
                                 out_values.data());
  }
  require(fits, "columns: between 0 and the number of columns");
}

}  // namespace

NB_MODULE(_native, module) {
  module.doc() = "The compiled kernels of tastespace.";
  module.def("instruction_set", [] { return tastespace::table().name; }, "The instruction set in use.");
  module.attr("SCAN_PANEL") = tastespace::scan_panel;
  bind_solve_rows<float>(module);
  bind_solve_rows<double>(module);
  bind_moments<float>(module);
  bind_moments<double>(module);
  module.def("score_pairs", &score_pairs, "user_rows"_a, "item_rows"_a, "users"_a, "items"_a, "user_bias"_a.none(),
             "item_bias"_a.none(), "offset"_a, "out"_a, "threads"_a = 1,
             "Scores of (user, item) pairs; row -1 is a stranger.");
  module.def("scan", &scan, "panels"_a, "queries"_a, "n_items"_a, "out_items"_a, "out_scores"_a,
             "excluded_offsets"_a = nb::none(), "excluded"_a = nb::none(), "allowed"_a = nb::none(), "threads"_a = 1,
             "The k best items of every query by inner product, best first.");
  module.def("compress", &compress, "rows"_a, "columns"_a, "values"_a, "offsets"_a, "out_columns"_a, "out_values"_a,
             "Group ratings by row, in their order.");
  module.def("sort_rows", &sort_rows, "offsets"_a, "columns"_a, "values"_a, "threads"_a = 1,
             "Put the columns of each row in ascending order, in place.");
  module.def("transpose", &transpose, "offsets"_a, "columns"_a, "values"_a, "out_offsets"_a, "out_columns"_a,
             "out_values"_a, "Group ratings by column; rows come out ascending.");
  bind_beliefs(module);
  bind_candidates(module);
  bind_cells(module);
  bind_descent(module);
  bind_drawn(module);
  bind_variational(module);
  bind_choices(module);
  bind_confident(module);
  bind_latent(module);
  bind_mixtures(module);
  bind_records(module);
  bind_sphere(module);
  bind_trees(module);
  bind_neighbours(module);
}
