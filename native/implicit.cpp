// Rows of implicit (one-class) data, by conjugate gradients and by stochastic gradients: schedules and the binding.
#include <algorithm>
#include <cmath>
#include <vector>

#include "arguments.hpp"
#include "implicit_fold_in.hpp"
#include "machine.hpp"
#include "random.hpp"

namespace tastespace {
namespace {

// Memory whose first number lies on a cache line.
class LinedFloats {
 public:
  explicit LinedFloats(int64_t n) : memory_(size_t(n + line), 0.0f) {}
  float *data() {
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(float)) % line;
    return memory_.data() + (line - past) % line;
  }

 private:
  static constexpr int64_t line = 16;
  std::vector<float> memory_;
};

// A row is processed by one thread, whichever it is: one thread and many give the same bytes.
void descend_rows(const ConjugateProblem &problem, int threads) {
  const ConjugateKernel &kernel = table().conjugate;
  const int64_t size = kernel.padded(problem.n_factors), *offsets = problem.offsets;
  int64_t longest = 0;
  for (int64_t row = 0; row < problem.n_rows; ++row) longest = std::max(longest, offsets[row + 1] - offsets[row]);
  // A row without observations takes about as long as four of them.
  constexpr int64_t a_row = 4, blocks_per_thread = 32;
  const int64_t n_blocks = std::max<int64_t>(1, blocks_per_thread * threads);
  const int64_t share = (offsets[problem.n_rows] + a_row * problem.n_rows) / n_blocks + 1;
  std::vector<int64_t> starts{0};
  for (int64_t row = 0, cost = 0; row < problem.n_rows; ++row) {
    cost += a_row + offsets[row + 1] - offsets[row];
    if (cost < share) continue;
    starts.push_back(row + 1);
    cost = 0;
  }
  if (starts.back() != problem.n_rows) starts.push_back(problem.n_rows);
  std::vector<LinedFloats> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back((longest + conjugate_vectors) * size);
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t block, int worker) {
    float *memory = memories[size_t(worker)].data();
    ConjugateWorkspace space{memory, memory + longest * size};
    for (int64_t row = starts[size_t(block)]; row < starts[size_t(block) + 1]; ++row)
      kernel.descend(problem, row, space);
  });
}

void rotate_rows(const float *points, int64_t n, int64_t n_factors, const float *matrix, float *out, int threads) {
  const ConjugateKernel &kernel = table().conjugate;
  const int64_t size = kernel.padded(n_factors);
  LinedFloats padded(n_factors * size);
  for (int64_t r = 0; r < n_factors; ++r) std::copy_n(matrix + r * n_factors, n_factors, padded.data() + r * size);
  constexpr int64_t share = 64 * rotated_rows;
  std::vector<LinedFloats> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back(2 * rotated_rows * size);
  parallel_for((n + share - 1) / share, threads, [&](int64_t task, int worker) {
    for (int64_t row = task * share; row < std::min(n, (task + 1) * share); row += rotated_rows)
      kernel.rotate(points + row * n_factors, std::min(rotated_rows, n - row), n_factors, padded.data(),
                    memories[size_t(worker)].data(), out + row * n_factors);
  });
}

// The alias table of probabilities that sum to 1 (Vose 1991).
void alias_table(int64_t n, const double *chances, uint32_t *table) {
  std::vector<double> left(chances, chances + n);
  std::vector<int32_t> small, large;
  for (int64_t column = 0; column < n; ++column) {
    left[size_t(column)] *= double(n);
    (left[size_t(column)] < 1 ? small : large).push_back(int32_t(column));
  }
  for (int64_t column = 0; column < n; ++column) {
    table[2 * column] = UINT32_MAX;
    table[2 * column + 1] = uint32_t(column);
  }
  while (!small.empty() && !large.empty()) {
    const int32_t lesser = small.back(), greater = large.back();
    small.pop_back();
    table[2 * int64_t(lesser)] = uint32_t(std::min(left[size_t(lesser)] * 0x1p32, 4294967295.0));
    table[2 * int64_t(lesser) + 1] = uint32_t(greater);
    left[size_t(greater)] -= 1 - left[size_t(lesser)];
    if (left[size_t(greater)] >= 1) continue;
    large.pop_back();
    small.push_back(greater);
  }
}

// First rows of blocks that take equally long.
std::vector<int64_t> equal_blocks(int64_t n_rows, const int64_t *offsets, const int64_t *drawn, int threads) {
  constexpr int64_t a_row = 8, blocks_per_thread = 32;  // in cells
  const int64_t total = a_row * n_rows + offsets[n_rows] + drawn[n_rows];
  const int64_t share = total / (blocks_per_thread * std::max(threads, 1)) + 1;
  std::vector<int64_t> starts{0};
  for (int64_t row = 0, cost = 0; row < n_rows; ++row) {
    cost += a_row + offsets[row + 1] - offsets[row] + drawn[row + 1] - drawn[row];
    if (cost < share && row + 1 < n_rows) continue;
    starts.push_back(row + 1);
    cost = 0;
  }
  return starts;
}

// A row is processed by one thread and has its own stream: one thread and many give the same bytes.
void step_choices(LogisticProblem problem, uint64_t key, int threads) {
  const LogisticKernel &kernel = table().logistic;
  const int64_t n_factors = problem.n_factors, size = kernel.padded(n_factors), n = problem.chances.n_columns;
  LinedFloats other(n * size);
  for (int64_t column = 0; column < n; ++column)
    std::copy_n(problem.other + column * n_factors, n_factors, other.data() + column * size);
  problem.other = other.data();
  const std::vector<int64_t> starts = equal_blocks(problem.n_rows, problem.offsets, problem.drawn_offsets, threads);
  std::vector<LinedFloats> memories;
  std::vector<std::vector<uint8_t>> marks;
  for (int i = 0; i < std::max(threads, 1); ++i) {
    memories.emplace_back(2 * size);
    marks.emplace_back(size_t(n), uint8_t(0));
  }
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t task, int worker) {
    float *memory = memories[size_t(worker)].data();
    LogisticWorkspace space{memory, memory + size, marks[size_t(worker)].data()};
    for (int64_t row = starts[size_t(task)]; row < starts[size_t(task) + 1]; ++row) {
      RandomStream stream = random_stream(key, uint64_t(row));
      kernel.step(problem, row, space, stream);
    }
  });
}

// Fills out, drawn_offsets[i]..drawn_offsets[i + 1] for row i, with columns; -1 in place of one that the row chose.
void draw_columns(int64_t n_rows, const int64_t *offsets, const int32_t *columns, const int64_t *drawn_offsets,
                  const ColumnChances &chances, uint64_t key, const uint64_t *places, int32_t *out, int threads) {
  const LogisticKernel &kernel = table().logistic;
  const std::vector<int64_t> starts = equal_blocks(n_rows, offsets, drawn_offsets, threads);
  std::vector<std::vector<uint8_t>> marks;
  for (int i = 0; i < std::max(threads, 1); ++i) marks.emplace_back(size_t(chances.n_columns), uint8_t(0));
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t task, int worker) {
    uint8_t *is_chosen = marks[size_t(worker)].data();
    for (int64_t row = starts[size_t(task)]; row < starts[size_t(task) + 1]; ++row) {
      RandomStream stream = random_stream(key, places ? places[row] : uint64_t(row));
      for (int64_t k = offsets[row]; k < offsets[row + 1]; ++k) is_chosen[columns[k]] = 1;
      kernel.draw(chances, drawn_offsets[row + 1] - drawn_offsets[row], is_chosen, out + drawn_offsets[row], stream);
      for (int64_t k = offsets[row]; k < offsets[row + 1]; ++k) is_chosen[columns[k]] = 0;
    }
  });
}

}  // namespace

namespace implicit {
namespace {

void descend_rows(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const float> weights,
                  Vector<const float> pulls, Matrix<const float> other, Vector<const float> diagonal,
                  Vector<const float> ridge, Matrix<float> out, std::optional<Matrix<const float>> linear, int steps,
                  int threads) {
  const size_t n_rows = out.shape(0), n_factors = out.shape(1), n = columns.size();
  require_offsets(offsets, n_rows, n);
  require(weights.size() == n && pulls.size() == n, "weights and pulls: one per observation");
  require(other.shape(1) == n_factors, "other: as many factors as out");
  require(n_factors > 0 && diagonal.size() == n_factors, "diagonal: one per factor");
  require(!linear || (linear->shape(1) == n_factors && (linear->shape(0) == 1 || linear->shape(0) == n_rows)),
          "linear: one per factor, for each row or once for all");
  require(ridge.size() == n_rows, "ridge: one per row");
  require(steps >= 0, "steps: 0 or more");
  require(within(columns.data(), n, 0, int64_t(other.shape(0))), "columns: rows of other");
  tastespace::ConjugateProblem problem;
  problem.n_rows = int64_t(n_rows);
  problem.n_factors = int64_t(n_factors);
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.weights = weights.data();
  problem.pulls = pulls.data();
  problem.other = other.data();
  problem.diagonal = diagonal.data();
  problem.linear = pointer(linear);
  problem.linear_stride = linear && linear->shape(0) == n_rows ? int64_t(n_factors) : 0;
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

void alias_table(Vector<const double> chances, Matrix<uint32_t> table) {
  const size_t n = chances.size();
  require(n > 0 && n <= size_t(INT32_MAX), "chances: at least one");
  require(table.shape(0) == n && table.shape(1) == 2, "table: one row per probability, of two numbers");
  require(std::all_of(chances.data(), chances.data() + n, [](double chance) { return chance >= 0 && chance <= 1; }),
          "chances: from 0 to 1");
  tastespace::alias_table(int64_t(n), chances.data(), table.data());
}

tastespace::ColumnChances column_chances(const Matrix<const uint32_t> &table) {
  const size_t n = table.shape(0);
  require(n > 0 && n <= size_t(INT32_MAX) && table.shape(1) == 2, "table: one row per column, of two numbers");
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
  require(int64_t(out.size()) == drawn_offsets.data()[n_rows], "out: one per draw");
  require(has_size(places, n_rows), "places: one per row");
  nb::gil_scoped_release release;
  tastespace::draw_columns(int64_t(n_rows), offsets.data(), columns.data(), drawn_offsets.data(), chances, key,
                           pointer(places), out.data(), threads);
}

void step_choices(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const float> weights,
                  Vector<const int64_t> drawn_offsets, Vector<const float> row_weights,
                  Vector<const float> column_weights, Matrix<const uint32_t> table, Matrix<const float> other,
                  OptionalVector<const float> other_bias, float offset, float ridge, float bias_ridge, float rate,
                  uint64_t key, Matrix<float> out, OptionalVector<float> out_bias, Matrix<float> squares,
                  OptionalVector<float> bias_squares, Vector<double> energies, std::optional<Matrix<const float>> means,
                  OptionalVector<const float> bias_means, int threads) {
  const size_t n_rows = out.shape(0), n_factors = out.shape(1), n_columns = other.shape(0);
  tastespace::LogisticProblem problem;
  problem.chances = column_chances(table);
  require(table.shape(0) == n_columns && column_weights.size() == n_columns && has_size(other_bias, n_columns),
          "table, column_weights and other_bias: one per row of other");
  require_choices(offsets, columns, n_rows, n_columns);
  require(weights.size() == columns.size(), "weights: one per choice");
  require_drawn(drawn_offsets, n_rows);
  require(row_weights.size() == n_rows && energies.size() == n_rows, "row_weights and energies: one per row");
  require(n_factors > 0 && other.shape(1) == n_factors, "other: as many factors as out");
  require(squares.shape(0) == n_rows && squares.shape(1) == n_factors, "squares: as out");
  require(out_bias.has_value() == other_bias.has_value() && out_bias.has_value() == bias_squares.has_value(),
          "out_bias, other_bias and bias_squares: all or none");
  require(has_size(out_bias, n_rows) && has_size(bias_squares, n_rows), "out_bias and bias_squares: one per row");
  require(!means || (means->shape(0) == n_rows && means->shape(1) == n_factors), "means: as out");
  require(has_size(bias_means, n_rows), "bias_means: one per row");
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
  problem.means = pointer(means);
  problem.bias_means = pointer(bias_means);
  problem.energies = energies.data();
  nb::gil_scoped_release release;
  tastespace::step_choices(problem, key, threads);
}

int64_t fold_in_choices(Vector<const int64_t> offsets, Vector<const int32_t> columns, Vector<const float> weights,
                        Vector<const int32_t> shown, Vector<const float> shown_weights, Vector<const float> row_weights,
                        Matrix<const float> items, Matrix<const float> prior_precision,
                        Vector<const float> prior_linear, std::optional<float> bias_precision, float bias_linear,
                        float offset, int64_t steps, Matrix<float> means, std::optional<Array<float, 3>> roots,
                        std::optional<Matrix<const float>> row_linear, int threads) {
  const size_t n_users = means.shape(0), n_items = items.shape(0), width = items.shape(1);
  const size_t n_factors = prior_linear.size();
  tastespace::LogisticFoldInProblem problem;
  problem.biases = bias_precision.has_value();
  require(n_factors > 0 && width == n_factors + (problem.biases ? 1 : 0),
          "items: as many factors as prior_linear, followed by the bias if there are biases");
  require_choices(offsets, columns, n_users, n_items);
  require(weights.size() == columns.size(), "weights: one per choice");
  require(shown_weights.size() == shown.size(), "shown_weights: one per shown item");
  require(within(shown.data(), shown.size(), 0, int64_t(n_items)), "shown: rows of items");
  require(row_weights.size() == n_users, "row_weights: one per user");
  require(prior_precision.shape(0) == n_factors && prior_precision.shape(1) == n_factors,
          "prior_precision: factors x factors");
  require(means.shape(1) == width, "means: users x width of items");
  require(!roots || (roots->shape(0) == n_users && roots->shape(1) == width && roots->shape(2) == width),
          "roots: users x width x width of items");
  require(!row_linear || (row_linear->shape(0) == n_users && row_linear->shape(1) == width),
          "row_linear: users x width of items");
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
  problem.row_linear = pointer(row_linear);
  problem.offset = offset;
  problem.steps = steps;
  problem.means = means.data();
  problem.roots = pointer(roots);
  nb::gil_scoped_release release;
  return tastespace::fold_in_choices(problem, threads);
}

}  // namespace

void bind(nb::module_ &module) {
  define(module, "descend_rows", &descend_rows,
         {"offsets"_a, "columns"_a, "weights"_a, "pulls"_a, "other"_a, "diagonal"_a, "ridge"_a, "out"_a, by_name_only,
          "linear"_a = none, "steps"_a = 3, "threads"_a = 1},
         "Rows of one-class data by conjugate gradients, from where `out` is; the other side's Gram matrix is "
         "`diagonal`.");
  define(module, "rotate_rows", &rotate_rows, {"points"_a, "matrix"_a, "out"_a, "threads"_a = 1},
         "Every point times a matrix.");
  define(module, "alias_table", &alias_table, {"chances"_a, "table"_a},
         "The alias table for drawing columns with these probabilities, which sum to 1.");
  define(module, "draw_columns", &draw_columns,
         {"offsets"_a, "columns"_a, "drawn_offsets"_a, "table"_a, "key"_a, "out"_a, by_name_only, "places"_a = none,
          "threads"_a = 1},
         "Columns drawn for each row from its own stream; -1 in place of one that it has chosen.");
  define(module, "step_choices", &step_choices, {"offsets"_a,      "columns"_a,
                                                 "weights"_a,      "drawn_offsets"_a,
                                                 "row_weights"_a,  "column_weights"_a,
                                                 "table"_a,        "other"_a,
                                                 "other_bias"_a,   by_name_only,
                                                 "offset"_a,       "ridge"_a,
                                                 "bias_ridge"_a,   "rate"_a,
                                                 "key"_a,          "out"_a,
                                                 "out_bias"_a,     "squares"_a,
                                                 "bias_squares"_a, "energies"_a,
                                                 "means"_a = none, "bias_means"_a = none,
                                                 "threads"_a = 1},
         "One AdaGrad step of all rows of a logistic factorization of choices, given the other side.");
  define(module, "fold_in_choices", &fold_in_choices,
         {"offsets"_a, "columns"_a, "weights"_a, "shown"_a, "shown_weights"_a, "row_weights"_a, "items"_a,
          "prior_precision"_a, "prior_linear"_a, by_name_only, "bias_precision"_a = none, "bias_linear"_a = 0.0f,
          "offset"_a = 0.0f, "steps"_a = 20, "means"_a, "roots"_a = none, "row_linear"_a = none, "threads"_a = 1},
         "Users with these choices given the items: modes, and roots of the covariances; -1, or the first user whose "
         "precision is not positive definite.");
}

}  // namespace implicit
}  // namespace tastespace
