// Ratings grouped by one side: compressed sparse rows by counting sort.
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
}

}  // namespace sparse
}  // namespace tastespace
