// The binding of scores in draws and of what they say of a list: checks of the arguments, and the calls.
#include "drawn_module.hpp"

#include <functional>
#include <limits>
#include <vector>

#include "arguments.hpp"
#include "parallel.hpp"
#include "tables.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::Array;
using tastespace::Matrix;
using tastespace::require;
using tastespace::Vector;
using tastespace::within;

void drawn_scores(Array<const float, 3> items, Vector<const int32_t> rows, Vector<const int32_t> chosen,
                  Matrix<const float> users, Matrix<float> out, int threads) {
  tastespace::DrawnProblem problem;
  problem.n_item_draws = int64_t(items.shape(1));
  problem.width = int64_t(items.shape(2));
  problem.n_users = int64_t(users.shape(0));
  problem.n_rows = int64_t(rows.size());
  require(users.shape(1) == items.shape(2), "users: of the items' width");
  require(within(rows.data(), rows.size(), 0, int64_t(items.shape(0))), "rows: rows of items");
  require(chosen.size() == users.shape(0) && within(chosen.data(), chosen.size(), 0, problem.n_item_draws),
          "chosen: a draw of the items for each of users");
  require(out.shape(0) == users.shape(0) && out.shape(1) == rows.size(), "out: users x rows");
  problem.items = items.data();
  problem.rows = rows.data();
  problem.chosen = chosen.data();
  problem.users = users.data();
  problem.out = out.data();
  const auto score = tastespace::table().drawn.score;
  nb::gil_scoped_release release;
  constexpr int64_t share = 64;
  tastespace::parallel_for((problem.n_rows + share - 1) / share, threads, [&](int64_t task, int) {
    score(problem, task * share, std::min(problem.n_rows, (task + 1) * share));
  });
}

constexpr int64_t few_places = 32;

int32_t better(const float *scores, int64_t n, float own) {
  int32_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += scores[i] > own;
  return count;
}

// How often each of the places is among the best k of a row: at least as good as the k-th best.
void top_shares(Matrix<const float> scores, Vector<const int32_t> places, int64_t k, Vector<float> out) {
  const int64_t n_rows = int64_t(scores.shape(0)), n = int64_t(scores.shape(1)), n_places = int64_t(places.size());
  require(n_rows > 0 && k > 0 && k <= n, "k: from 1 to the number of columns");
  require(within(places.data(), places.size(), 0, n), "places: columns of scores");
  require(int64_t(out.size()) == n_places, "out: one a place");
  nb::gil_scoped_release release;
  std::vector<float> row;
  std::vector<int64_t> counts(static_cast<size_t>(n_places), 0);
  for (int64_t r = 0; r < n_rows; ++r) {
    const float *from = scores.data() + r * n;
    if (n_places <= few_places) {  // Counting those that are better is faster for each than finding the k-th for all.
      for (int64_t p = 0; p < n_places; ++p) {
        const float own = from[places.data()[p]];
        counts[size_t(p)] += own == own && better(from, n, own) < k;
      }
      continue;
    }
    row.assign(from, from + n);
    for (float &score : row)  // What is no number has no place in an order.
      if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
    std::nth_element(row.begin(), row.begin() + (k - 1), row.end(), std::greater<float>());
    const float edge = row[size_t(k) - 1];
    for (int64_t p = 0; p < n_places; ++p) counts[size_t(p)] += from[places.data()[p]] >= edge;
  }
  for (int64_t p = 0; p < n_places; ++p) out.data()[p] = float(double(counts[size_t(p)]) / double(n_rows));
}

}  // namespace

void bind_drawn(nb::module_ &module) {
  module.def("drawn_scores", &drawn_scores, "items"_a, "rows"_a, "chosen"_a, "users"_a, "out"_a.noconvert(),
             nb::kw_only(), "threads"_a = 1, "Inner products of draws of a user with the draws of items they meet.");
  module.def("top_shares", &top_shares, "scores"_a, "places"_a, "k"_a, "out"_a.noconvert(),
             "The share of rows in which each place is among the best k.");
}
