// Sparse matrices: ratings grouped by one side, by counting sort; products, and Gibbs passes over features.
#include <algorithm>
#include <bit>
#include <vector>

#include "arguments.hpp"
#include "machine.hpp"

namespace tastespace {
namespace {

// Turns counts (held at offsets[row + 1]) into offsets, and back into offsets after a scatter has moved each
// start to its end.
void counts_to_offsets(int64_t *offsets, int64_t n_rows) {
  for (int64_t row = 0; row < n_rows; ++row) offsets[row + 1] += offsets[row];
}
void rewind_offsets(int64_t *offsets, int64_t n_rows) {
  for (int64_t row = n_rows; row > 0; --row) offsets[row] = offsets[row - 1];
  offsets[0] = 0;
}

// Groups n triples by row, in their order; false if a row is out of range.
bool compress(int64_t n, const int32_t *rows, const int32_t *columns, const float *values, int64_t n_rows,
              int64_t *offsets, int32_t *out_columns, float *out_values) {
  for (int64_t row = 0; row <= n_rows; ++row) offsets[row] = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (rows[k] < 0 || rows[k] >= n_rows) return false;
    ++offsets[rows[k] + 1];
  }
  counts_to_offsets(offsets, n_rows);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t to = offsets[rows[k]]++;
    out_columns[to] = columns[k];
    out_values[to] = values[k];
  }
  rewind_offsets(offsets, n_rows);
  return true;
}

// Puts the columns of each row in ascending order, in place; rows that are sorted already are only checked.
void sort_rows(int64_t n_rows, const int64_t *offsets, int32_t *columns, float *values, int threads) {
  constexpr int64_t ROWS = 1024;  // of one task
  parallel_for((n_rows + ROWS - 1) / ROWS, threads, [&](int64_t task, int) {
    std::vector<uint64_t> entries;  // a column in the upper half, which determines the order; its value in the lower
    for (int64_t row = task * ROWS; row < std::min(n_rows, (task + 1) * ROWS); ++row) {
      int32_t *const first = columns + offsets[row], *const last = columns + offsets[row + 1];
      if (std::is_sorted(first, last)) continue;
      float *const value = values + offsets[row];
      entries.resize(size_t(last - first));
      for (size_t k = 0; k < entries.size(); ++k)
        entries[k] = uint64_t(uint32_t(first[k])) << 32 | std::bit_cast<uint32_t>(value[k]);
      std::sort(entries.begin(), entries.end());
      for (size_t k = 0; k < entries.size(); ++k) {
        first[k] = int32_t(entries[k] >> 32);
        value[k] = std::bit_cast<float>(uint32_t(entries[k]));
      }
    }
  });
}

// The transposed matrix; columns ascend within a row. False if a column is out of range.
bool transpose(int64_t n_rows, const int64_t *offsets, const int32_t *columns, const float *values, int64_t n_columns,
               int64_t *out_offsets, int32_t *out_columns, float *out_values) {
  for (int64_t column = 0; column <= n_columns; ++column) out_offsets[column] = 0;
  for (int64_t k = 0; k < offsets[n_rows]; ++k) {
    if (columns[k] < 0 || columns[k] >= n_columns) return false;
    ++out_offsets[columns[k] + 1];
  }
  counts_to_offsets(out_offsets, n_columns);
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t k = offsets[row]; k < offsets[row + 1]; ++k) {
      const int64_t to = out_offsets[columns[k]]++;
      out_columns[to] = int32_t(row);
      out_values[to] = values[k];
    }
  rewind_offsets(out_offsets, n_columns);
  return true;
}

}  // namespace

namespace sparse {
namespace {

void compress(Vector<const int32_t> rows, Vector<const int32_t> columns, Vector<const float> values,
              Vector<int64_t> offsets, Vector<int32_t> out_columns, Vector<float> out_values) {
  const size_t n = rows.size();
  require(columns.size() == n && values.size() == n && out_columns.size() == n && out_values.size() == n,
          "rows, columns, values and outputs: one per rating");
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
  require(offsets.size() > 0 && values.size() == n, "offsets: one more than rows; values: one per rating");
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
  require(values.size() == n && out_columns.size() == n && out_values.size() == n,
          "values and outputs: one per rating");
  bool fits;
  {
    nb::gil_scoped_release release;
    fits = tastespace::transpose(int64_t(offsets.size()) - 1, offsets.data(), columns.data(), values.data(),
                                 int64_t(out_offsets.size()) - 1, out_offsets.data(), out_columns.data(),
                                 out_values.data());
  }
  require(fits, "columns: between 0 and the number of columns");
}

void sparse_product(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const double> values,
                    Matrix<const double> dense, Matrix<double> out, int threads) {
  const size_t n_rows = out.shape(0), n = columns.size();
  require_offsets(offsets, n_rows, n);
  require(values.size() == n, "values: one per entry");
  require(out.shape(1) == dense.shape(1), "out: of the width of dense");
  require(within(columns.data(), n, 0, int64_t(dense.shape(0))), "columns: rows of dense");
  tastespace::SparseProblem problem;
  problem.width = int64_t(dense.shape(1));
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.values = values.data();
  problem.dense = dense.data();
  problem.out = out.data();
  const auto multiply = tastespace::table().features.multiply;
  nb::gil_scoped_release release;
  constexpr int64_t share = 64;
  tastespace::parallel_for((int64_t(n_rows) + share - 1) / share, threads, [&](int64_t task, int) {
    multiply(problem, task * share, std::min(int64_t(n_rows), (task + 1) * share));
  });
}

void feature_pass(Vector<const int64_t> offsets, Vector<const int32_t> rows, Vector<const double> values,
                  Vector<const double> squares, Vector<const double> prior, Array<const double, 3> noise,
                  Array<double, 3> coefficients, Array<double, 3> residuals, int threads) {
  const size_t n_strips = coefficients.shape(0), n_features = coefficients.shape(1), n = rows.size();
  constexpr size_t strip = size_t(tastespace::feature_strip);
  require_offsets(offsets, n_features, n);
  require(values.size() == n, "values: one per entry");
  require(squares.size() == n_features && prior.size() == n_features, "squares and prior: one per feature");
  require(coefficients.shape(2) == strip && residuals.shape(2) == strip && residuals.shape(0) == n_strips,
          "coefficients and residuals: strips of 8 columns");
  require(noise.shape(0) == n_strips && noise.shape(1) == n_features && noise.shape(2) == strip,
          "noise: of the shape of coefficients");
  require(within(rows.data(), n, 0, int64_t(residuals.shape(1))), "rows: rows of residuals");
  tastespace::FeaturesProblem problem;
  problem.n_features = int64_t(n_features);
  problem.n_rows = int64_t(residuals.shape(1));
  problem.offsets = offsets.data();
  problem.rows = rows.data();
  problem.values = values.data();
  problem.squares = squares.data();
  problem.prior = prior.data();
  problem.noise = noise.data();
  problem.coefficients = coefficients.data();
  problem.residuals = residuals.data();
  const auto pass = tastespace::table().features.pass;
  nb::gil_scoped_release release;
  tastespace::parallel_for(int64_t(n_strips), threads, [&](int64_t strip_of, int) { pass(problem, strip_of); });
}

}  // namespace

void bind(nb::module_ &module) {
  define(module, "compress", &compress,
         {"rows"_a, "columns"_a, "values"_a, "offsets"_a, "out_columns"_a, "out_values"_a},
         "Group ratings by row, in their order.");
  define(module, "sort_rows", &sort_rows, {"offsets"_a, "columns"_a, "values"_a, "threads"_a = 1},
         "Put the columns of each row in ascending order, in place.");
  define(module, "transpose", &transpose,
         {"offsets"_a, "columns"_a, "values"_a, "out_offsets"_a, "out_columns"_a, "out_values"_a},
         "Group ratings by column; rows come out ascending.");
  define(module, "sparse_product", &sparse_product,
         {"offsets"_a, "columns"_a, "values"_a, "dense"_a, "out"_a, "threads"_a = 1},
         "The product of a sparse matrix with a dense one.");
  define(module, "feature_pass", &feature_pass,
         {"offsets"_a, "rows"_a, "values"_a, "squares"_a, "prior"_a, "noise"_a, "coefficients"_a, "residuals"_a,
          "threads"_a = 1},
         "Draw the coefficients of features one after another, and keep the residuals up to date.");
}

}  // namespace sparse
}  // namespace tastespace
