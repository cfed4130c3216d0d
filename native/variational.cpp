// Rows of a variational factorization: the schedule and the binding.
#include <algorithm>
#include <vector>

#include "arguments.hpp"
#include "rows_driver.hpp"

namespace tastespace {
namespace {

// The memory of one workspace, aligned to cache lines.
template <class T>
class VariationalMemory {
 public:
  // `longest` is the maximum number of ratings of a row if coordinates are moved, else 0.
  VariationalMemory(const VariationalProblem<T> &problem, bool full, int64_t longest) {
    const int64_t width = problem.width, record = record_size(width, full);
    const int64_t size = variational_kernel<T>().padded(width), square = full ? size * size : 0;
    const int64_t doubles[] = {record, size, square, square, square, 6 * size};
    const int64_t numbers[] = {record + round(width), round(longest), variational_strip * round(longest), round(width)};
    int64_t n_doubles = line, n_numbers = line;
    for (int64_t part : doubles) n_doubles += round(part);
    for (int64_t part : numbers) n_numbers += round(part);
    doubles_.assign(size_t(n_doubles), 0.0);
    numbers_.assign(size_t(n_numbers), T(0));
    double **double_at[] = {&space.sums.total, &space.sums.weighted, &space.matrix,
                            &space.inverse,    &space.covariance,    &space.vectors};
    T **number_at[] = {&space.block, &space.errors, &space.transposed, &space.point};
    double *of_doubles = aligned(doubles_);
    for (int i = 0; i < 6; ++i) {
      *double_at[i] = of_doubles;
      of_doubles += round(doubles[i]);
    }
    T *of_numbers = aligned(numbers_);
    for (int i = 0; i < 4; ++i) {
      *number_at[i] = of_numbers;
      of_numbers += round(numbers[i]);
    }
  }
  VariationalMemory(VariationalMemory &&) = default;  // A moved vector keeps its memory.
  VariationalWorkspace<T> space{};

 private:
  static constexpr int64_t line = 16;
  static int64_t round(int64_t n) { return (n + line - 1) / line * line; }
  template <class Number>
  static Number *aligned(std::vector<Number> &memory) {
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory.data()) / sizeof(Number)) % line;
    return memory.data() + (line - past) % line;
  }
  std::vector<double> doubles_;
  std::vector<T> numbers_;
};

template <class T>
void clear_sums(const VariationalProblem<T> &problem, VariationalSums &sums) {
  const int64_t width = problem.width;
  std::fill_n(sums.total, record_size(width, true), 0.0);
  std::fill_n(sums.weighted, width, 0.0);
  sums.n = sums.linear = sums.square = 0;
}

template <class T>
void merge_sums(const VariationalProblem<T> &problem, const VariationalSums &from, VariationalSums &into) {
  const int64_t width = problem.width;
  for (int64_t c = 0; c < record_size(width, true); ++c) into.total[c] += from.total[c];
  for (int64_t c = 0; c < width; ++c) into.weighted[c] += from.weighted[c];
  into.n += from.n;
  into.linear += from.linear;
  into.square += from.square;
}

// First rows of blocks that take equally long; rows longer than `longest` are left to the caller.
std::vector<int64_t> variational_blocks(int64_t n_rows, const int64_t *offsets, int64_t a_row, int64_t longest,
                                        int threads) {
  const auto cost_of = [&](int64_t row) {
    const int64_t n = offsets[row + 1] - offsets[row];
    return n > longest ? 0 : a_row + n;
  };
  int64_t total = 0;
  for (int64_t row = 0; row < n_rows; ++row) total += cost_of(row);
  const int64_t share = total / (rows_blocks_per_thread * std::max(threads, 1)) + 1;
  std::vector<int64_t> starts{0};
  for (int64_t row = 0, cost = 0; row < n_rows; ++row) {
    cost += cost_of(row);
    if (cost < share) continue;
    starts.push_back(row + 1);
    cost = 0;
  }
  if (starts.back() != n_rows) starts.push_back(n_rows);
  return starts;
}

// Huge rows: pieces of them in parallel, a batch at a time, merged in order.
template <class T>
void huge_variational_rows(const VariationalProblem<T> &problem, int threads, FirstFailure &failure) {
  struct Piece {
    int64_t row, begin, end;
  };
  const VariationalKernel<T> &kernel = variational_kernel<T>();
  const int64_t *offsets = problem.offsets;
  std::vector<Piece> pieces;
  for (int64_t row = 0; row < problem.n_rows; ++row) {
    if (offsets[row + 1] - offsets[row] <= rows_piece) continue;
    for (int64_t k = offsets[row]; k < offsets[row + 1]; k += rows_piece)
      pieces.push_back({row, k, std::min(k + rows_piece, offsets[row + 1])});
  }
  if (pieces.empty()) return;
  VariationalMemory<T> whole(problem, true, 0);
  std::vector<VariationalMemory<T>> parts;
  for (int64_t i = 0; i < std::min(int64_t(pieces.size()), rows_pieces_at_once); ++i)
    parts.emplace_back(problem, true, 0);
  for (size_t start = 0; start < pieces.size(); start += parts.size()) {
    const size_t n = std::min(parts.size(), pieces.size() - start);
    parallel_for(int64_t(n), threads, [&](int64_t i, int) {
      const Piece &piece = pieces[start + size_t(i)];
      clear_sums(problem, parts[size_t(i)].space.sums);
      kernel.accumulate(problem, piece.begin, piece.end, parts[size_t(i)].space);
    });
    for (size_t i = 0; i < n; ++i) {
      const Piece &piece = pieces[start + i];
      if (piece.begin == offsets[piece.row]) clear_sums(problem, whole.space.sums);
      merge_sums(problem, parts[i].space.sums, whole.space.sums);
      if (piece.end == offsets[piece.row + 1] && !kernel.finish(problem, piece.row, whole.space)) failure.at(piece.row);
    }
  }
}

// Returns -1, or the first row whose precision matrix is not positive definite.
template <class T>
int64_t variational_rows(const VariationalProblem<T> &problem, int threads) {
  const VariationalKernel<T> &kernel = variational_kernel<T>();
  const int64_t *offsets = problem.offsets;
  FirstFailure failure(problem.n_rows);
  huge_variational_rows(problem, threads, failure);
  // Factoring and inverting a row takes about as long as this many ratings.
  const std::vector<int64_t> starts =
      variational_blocks(problem.n_rows, offsets, 2 * problem.width, rows_piece, threads);
  std::vector<VariationalMemory<T>> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back(problem, true, 0);
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t task, int worker) {
    VariationalWorkspace<T> &space = memories[size_t(worker)].space;
    for (int64_t row = starts[size_t(task)]; row < starts[size_t(task) + 1]; ++row) {
      if (offsets[row + 1] - offsets[row] > rows_piece) continue;
      clear_sums(problem, space.sums);
      kernel.accumulate(problem, offsets[row], offsets[row + 1], space);
      if (!kernel.finish(problem, row, space)) failure.at(row);
    }
  });
  return failure.first();
}

// Moves every coordinate of every row once. Rows are never split: a rating costs little.
template <class T>
int64_t variational_coordinates(const VariationalProblem<T> &problem, int threads) {
  const VariationalKernel<T> &kernel = variational_kernel<T>();
  const int64_t *offsets = problem.offsets;
  int64_t longest = 0;
  for (int64_t row = 0; row < problem.n_rows; ++row) longest = std::max(longest, offsets[row + 1] - offsets[row]);
  FirstFailure failure(problem.n_rows);
  const std::vector<int64_t> starts = variational_blocks(problem.n_rows, offsets, 8, longest, threads);
  std::vector<VariationalMemory<T>> memories;
  for (int i = 0; i < std::max(threads, 1); ++i) memories.emplace_back(problem, false, longest);
  parallel_for(int64_t(starts.size()) - 1, threads, [&](int64_t task, int worker) {
    for (int64_t row = starts[size_t(task)]; row < starts[size_t(task) + 1]; ++row)
      if (!kernel.coordinates(problem, row, memories[size_t(worker)].space)) failure.at(row);
  });
  return failure.first();
}

}  // namespace

namespace variational {
namespace {

template <class T>
using OptionalCube = std::optional<Array<T, 3>>;

// The arguments of both ways of moving rows.
template <class T>
tastespace::VariationalProblem<T> problem_of(
    const Vector<const int64_t> &offsets, const Vector<const int32_t> &columns, const Vector<const T> &targets,
    const Matrix<const T> &other, const Matrix<const double> &prior_precision, const Vector<const double> &prior_linear,
    bool full, std::optional<double> bias_precision, double bias_linear, double alpha, double target_offset,
    double target_scale, const OptionalVector<const double> &row_centre,
    const OptionalVector<const double> &column_centre, const std::optional<Matrix<const double>> &row_linear) {
  const size_t n_factors = prior_linear.size(), n = columns.size();
  require(offsets.size() > 0, "offsets: one more than rows");
  require_offsets(offsets, offsets.size() - 1, n);
  require(targets.size() == n, "targets: one per rating");
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
          "row_centre and column_centre: as many numbers as a row");
  problem.row_centre = pointer(row_centre);
  problem.column_centre = pointer(column_centre);
  require(!row_linear ||
              (int64_t(row_linear->shape(0)) == problem.n_rows && int64_t(row_linear->shape(1)) == problem.width),
          "row_linear: rows x width");
  problem.row_linear = pointer(row_linear);
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
                         OptionalVector<double> log_determinant, OptionalVector<double> squares,
                         std::optional<Matrix<const double>> row_linear, int threads) {
  auto problem = problem_of<T>(offsets, columns, targets, other, prior_precision, prior_linear, true, bias_precision,
                               bias_linear, alpha, target_offset, target_scale, row_centre, column_centre, row_linear);
  const int64_t n_rows = problem.n_rows, width = problem.width;
  require(has_shape(means, n_rows, width), "means: rows x width");
  require(has_shape(records, n_rows, record_size(width, true)), "records: one per row");
  require(has_shape(covariances, n_rows, diagonal ? width : width * (width + 1) / 2),
          "covariances: a triangle per row, or a diagonal");
  require(has_shape(roots, n_rows, width) && (!roots || int64_t(roots->shape(2)) == width),
          "roots: rows x width x width");
  require(has_size(log_determinant, size_t(n_rows)) && has_size(squares, size_t(n_rows)),
          "log_determinant and squares: one per row");
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
                                OptionalVector<double> log_determinant, OptionalVector<double> squares,
                                std::optional<Matrix<const double>> row_linear, int threads) {
  auto problem = problem_of<T>(offsets, columns, targets, other, prior_precision, prior_linear, false, bias_precision,
                               bias_linear, alpha, target_offset, target_scale, row_centre, column_centre, row_linear);
  const int64_t n_rows = problem.n_rows, width = problem.width;
  require(int64_t(records.shape(0)) == n_rows && int64_t(records.shape(1)) == record_size(width, false),
          "records: one per row");
  require(has_shape(covariances, n_rows, width), "covariances: a diagonal per row");
  require(has_size(log_determinant, size_t(n_rows)) && has_size(squares, size_t(n_rows)),
          "log_determinant and squares: one per row");
  problem.records = records.data();
  problem.covariances = pointer(covariances);
  problem.log_determinant = pointer(log_determinant);
  problem.squares = pointer(squares);
  nb::gil_scoped_release release;
  return tastespace::variational_coordinates(problem, threads);
}

template <class T>
void bind_rows(nb::module_ &module) {
  define(module, "variational_rows", &variational_rows<T>,
         {"offsets"_a,
          "columns"_a,
          "targets"_a,
          "other"_a,
          "prior_precision"_a,
          "prior_linear"_a,
          by_name_only,
          "bias_precision"_a = none,
          "bias_linear"_a = 0.0,
          "alpha"_a = 1.0,
          "target_offset"_a = 0.0,
          "target_scale"_a = 1.0,
          "row_centre"_a = none,
          "column_centre"_a = none,
          "diagonal"_a = false,
          "means"_a = none,
          "records"_a = none,
          "covariances"_a = none,
          "roots"_a = none,
          "log_determinant"_a = none,
          "squares"_a = none,
          "row_linear"_a = none,
          "threads"_a = 1},
         "The normal beliefs about all rows of one side that maximise the bound, given records of the other; -1, "
         "or the first row whose precision is not positive definite.");
  define(module, "variational_coordinates", &variational_coordinates<T>,
         {"offsets"_a,
          "columns"_a,
          "targets"_a,
          "other"_a,
          "prior_precision"_a,
          "prior_linear"_a,
          "records"_a,
          by_name_only,
          "bias_precision"_a = none,
          "bias_linear"_a = 0.0,
          "alpha"_a = 1.0,
          "target_offset"_a = 0.0,
          "target_scale"_a = 1.0,
          "row_centre"_a = none,
          "column_centre"_a = none,
          "covariances"_a = none,
          "log_determinant"_a = none,
          "squares"_a = none,
          "row_linear"_a = none,
          "threads"_a = 1},
         "Moves every coordinate of factorized beliefs about rows once; -1, or the first row that failed.");
}

}  // namespace

void bind(nb::module_ &module) {
  bind_rows<float>(module);
  bind_rows<double>(module);
  define(module, "record_size", &record_size, {"width"_a, "full"_a},
         "The size of a record: what one side of a variational factorization needs about a row of the other.");
}

}  // namespace variational
}  // namespace tastespace
