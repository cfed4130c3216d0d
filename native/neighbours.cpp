// The binding of the neighbourhood models.
#include "neighbours.hpp"

#include "arguments.hpp"

namespace tastespace {
namespace neighbours {
namespace {

using Offsets = Vector<const int64_t>;
using Columns = Vector<const int32_t>;
using Values = Vector<const float>;

// The number of rows, if the offsets ascend from 0 to the number of entries.
int64_t rows_of(const Offsets &offsets, size_t n) {
  require(offsets.size() > 0, "offsets: one more than rows");
  const int64_t n_rows = int64_t(offsets.size()) - 1, *at = offsets.data();
  require(at[0] == 0 && at[n_rows] == int64_t(n), "offsets: from 0 to the number of entries");
  for (int64_t row = 0; row < n_rows; ++row) require(at[row] <= at[row + 1], "offsets: ascending");
  return n_rows;
}

SparseRows sparse(const Offsets &offsets, const Columns &columns, const Values &values) {
  require(values.size() == columns.size(), "columns and values: equally many");
  return {rows_of(offsets, columns.size()), offsets.data(), columns.data(), values.data()};
}

ComparisonProblem comparison(const Offsets &query_offsets, const Columns &query_columns, const Values &query_values,
                             const Offsets &offsets, const Columns &columns, const Values &values,
                             const Vector<const double> &other_squares, bool common_norms, double shrinkage,
                             double min_common) {
  ComparisonProblem problem;
  problem.queries = sparse(query_offsets, query_columns, query_values);
  problem.by_column = sparse(offsets, columns, values);
  problem.n_others = int64_t(other_squares.size());
  problem.other_squares = other_squares.data();
  problem.rule = {common_norms, shrinkage, min_common};
  return problem;
}

void similarities(Offsets query_offsets, Columns query_columns, Values query_values, Offsets offsets, Columns columns,
                  Values values, Vector<const double> other_squares, bool common_norms, double shrinkage,
                  double min_common, Matrix<float> out, int threads) {
  const ComparisonProblem problem = comparison(query_offsets, query_columns, query_values, offsets, columns, values,
                                               other_squares, common_norms, shrinkage, min_common);
  require(int64_t(out.shape(0)) == problem.queries.n_rows && int64_t(out.shape(1)) == problem.n_others,
          "out: queries x others");
  bool good;
  {
    nb::gil_scoped_release release;
    good = common_norms ? tastespace::similarities<CommonSumsWithNorms>(problem, out.data(), threads)
                        : tastespace::similarities<CommonSums>(problem, out.data(), threads);
  }
  require(good, "columns: rows of the other side");
}

void most_similar(Offsets query_offsets, Columns query_columns, Values query_values, Offsets offsets, Columns columns,
                  Values values, Vector<const double> other_squares, bool common_norms, double shrinkage,
                  double min_common, int64_t first, float least, Matrix<int32_t> out_rows,
                  Matrix<float> out_similarities, int threads) {
  const ComparisonProblem problem = comparison(query_offsets, query_columns, query_values, offsets, columns, values,
                                               other_squares, common_norms, shrinkage, min_common);
  const int64_t width = int64_t(out_rows.shape(1));
  require(int64_t(out_rows.shape(0)) == problem.queries.n_rows && out_similarities.shape(0) == out_rows.shape(0) &&
              out_similarities.shape(1) == out_rows.shape(1),
          "out: one row per query");
  bool good;
  {
    nb::gil_scoped_release release;
    good = common_norms ? tastespace::most_similar<CommonSumsWithNorms>(problem, first, least, width, out_rows.data(),
                                                                        out_similarities.data(), threads)
                        : tastespace::most_similar<CommonSums>(problem, first, least, width, out_rows.data(),
                                                               out_similarities.data(), threads);
  }
  require(good, "columns: rows of the other side");
}

AverageProblem average(const Offsets &target_offsets, const Columns &targets, int64_t n_items, int64_t n_neighbours,
                       double damping, Vector<float> &out) {
  AverageProblem problem;
  problem.n_users = rows_of(target_offsets, targets.size());
  problem.target_offsets = target_offsets.data();
  problem.targets = targets.data();
  problem.n_neighbours = n_neighbours;
  problem.damping = damping;
  problem.out = out.data();
  require(out.size() == targets.size(), "out: one per target");
  require(n_neighbours > 0, "n_neighbours: at least 1");
  for (size_t k = 0; k < targets.size(); ++k)
    require(targets.data()[k] >= -1 && targets.data()[k] < n_items, "targets: -1 or an item");
  return problem;
}

void average_over_items(Offsets target_offsets, Columns targets, Offsets neighbour_offsets, Columns neighbour_rows,
                        Values neighbour_similarities, Offsets history_offsets, Columns history_columns,
                        Values history_values, int64_t n_neighbours, double damping, Vector<float> out, int threads) {
  const SparseRows neighbours = sparse(neighbour_offsets, neighbour_rows, neighbour_similarities);
  const SparseRows histories = sparse(history_offsets, history_columns, history_values);
  const AverageProblem problem = average(target_offsets, targets, neighbours.n_rows, n_neighbours, damping, out);
  require(histories.n_rows == problem.n_users, "histories: as many users as targets");
  require(tastespace::rows_within(histories.columns, int64_t(history_columns.size()), neighbours.n_rows),
          "histories: columns are items");
  nb::gil_scoped_release release;
  tastespace::average_over_items(problem, neighbours, histories, threads);
}

void average_over_items_of_all(Offsets neighbour_offsets, Columns neighbour_rows, Values neighbour_similarities,
                               Offsets follower_offsets, Columns follower_rows, Values follower_similarities,
                               Offsets history_offsets, Columns history_columns, Values history_values,
                               int64_t n_neighbours, double damping, Matrix<float> out, int threads) {
  const SparseRows neighbours = sparse(neighbour_offsets, neighbour_rows, neighbour_similarities);
  const SparseRows followers = sparse(follower_offsets, follower_rows, follower_similarities);
  const SparseRows histories = sparse(history_offsets, history_columns, history_values);
  require(followers.n_rows == neighbours.n_rows, "followers: one row per item");
  require(int64_t(out.shape(0)) == histories.n_rows && int64_t(out.shape(1)) == neighbours.n_rows,
          "out: users x items");
  require(n_neighbours > 0, "n_neighbours: at least 1");
  require(tastespace::rows_within(histories.columns, int64_t(history_columns.size()), neighbours.n_rows),
          "histories: columns are items");
  bool good;
  {
    nb::gil_scoped_release release;
    good = tastespace::average_over_items_of_all(neighbours, followers, histories, n_neighbours, damping, out.data(),
                                                 threads);
  }
  require(good, "follower_rows: items");
}

void average_over_users(Offsets target_offsets, Columns targets, Matrix<const float> similarities, Offsets item_offsets,
                        Columns item_raters, Values item_residuals, int64_t n_neighbours, float least, double damping,
                        Vector<float> out, int threads) {
  const SparseRows by_item = sparse(item_offsets, item_raters, item_residuals);
  const AverageProblem problem = average(target_offsets, targets, by_item.n_rows, n_neighbours, damping, out);
  require(int64_t(similarities.shape(0)) == problem.n_users, "similarities: as many users as targets");
  bool good;
  {
    nb::gil_scoped_release release;
    good = tastespace::average_over_users(problem, similarities.data(), int64_t(similarities.shape(1)), least, by_item,
                                          threads);
  }
  require(good, "item_raters: columns of similarities");
}

void average_over_users_of_all(Matrix<const float> similarities, Offsets rater_offsets, Columns rater_items,
                               Values rater_residuals, int64_t n_neighbours, float least, double damping,
                               Matrix<float> out, int threads) {
  const SparseRows by_rater = sparse(rater_offsets, rater_items, rater_residuals);
  require(int64_t(similarities.shape(1)) == by_rater.n_rows, "similarities: one column per rater");
  require(out.shape(0) == similarities.shape(0), "out: one row per user");
  require(n_neighbours > 0, "n_neighbours: at least 1");
  bool good;
  {
    nb::gil_scoped_release release;
    good =
        tastespace::average_over_users_of_all(by_rater, similarities.data(), int64_t(similarities.shape(0)),
                                              int64_t(out.shape(1)), n_neighbours, least, damping, out.data(), threads);
  }
  require(good, "rater_items: columns of out");
}

}  // namespace

void bind(nb::module_ &module) {
  define(module, "similarities", &similarities,
         {"query_offsets"_a, "query_columns"_a, "query_values"_a, "offsets"_a, "columns"_a, "values"_a,
          "other_squares"_a, "common_norms"_a, "shrinkage"_a, "min_common"_a, "out"_a, "threads"_a = 1},
         "The similarity of each query to every other row; the others are grouped by column.");
  define(module, "most_similar", &most_similar,
         {"query_offsets"_a, "query_columns"_a, "query_values"_a, "offsets"_a, "columns"_a, "values"_a,
          "other_squares"_a, "common_norms"_a, "shrinkage"_a, "min_common"_a, "first"_a, "least"_a, "out_rows"_a,
          "out_similarities"_a, "threads"_a = 1},
         "The others most similar to each query, best first, padded with -1.");
  define(module, "average_over_items", &average_over_items,
         {"target_offsets"_a, "targets"_a, "neighbour_offsets"_a, "neighbour_rows"_a, "neighbour_similarities"_a,
          "history_offsets"_a, "history_columns"_a, "history_values"_a, "n_neighbours"_a, "damping"_a, "out"_a,
          "threads"_a = 1},
         "Average residual over the most similar items that a user has rated.");
  define(module, "average_over_items_of_all", &average_over_items_of_all,
         {"neighbour_offsets"_a, "neighbour_rows"_a, "neighbour_similarities"_a, "follower_offsets"_a,
          "follower_rows"_a, "follower_similarities"_a, "history_offsets"_a, "history_columns"_a, "history_values"_a,
          "n_neighbours"_a, "damping"_a, "out"_a, "threads"_a = 1},
         "The same for every item at once.");
  define(module, "average_over_users", &average_over_users,
         {"target_offsets"_a, "targets"_a, "similarities"_a, "item_offsets"_a, "item_raters"_a, "item_residuals"_a,
          "n_neighbours"_a, "least"_a, "damping"_a, "out"_a, "threads"_a = 1},
         "Average residual over the raters of an item most similar to a user.");
  define(module, "average_over_users_of_all", &average_over_users_of_all,
         {"similarities"_a, "rater_offsets"_a, "rater_items"_a, "rater_residuals"_a, "n_neighbours"_a, "least"_a,
          "damping"_a, "out"_a, "threads"_a = 1},
         "The same for every item at once.");
}

}  // namespace neighbours
}  // namespace tastespace
