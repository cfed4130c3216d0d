// The best items of a query: schedules of the scan, of candidates and of cells, and their binding.
#include <algorithm>
#include <cstring>
#include <vector>

#include "arguments.hpp"
#include "machine.hpp"

namespace tastespace {
namespace topn {
namespace {

// As many queries per thread as make memory reads rare, as long as every thread has some.
int64_t queries_at_once(int64_t n_queries, int threads) {
  const int64_t groups = n_queries / (tastespace::scan_queries * std::max(threads, 1));
  return tastespace::scan_queries * std::clamp<int64_t>(groups, 1, tastespace::scan_groups);
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
          "out: one row of k per query");
  require(has_size(allowed, size_t(n_items)), "allowed: one per item");
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
  const int64_t share = queries_at_once(n_queries, threads);
  tastespace::parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    search(problem, task * share, std::min(share, n_queries - task * share));
  });
}

void scan_moments(Vector<const float> panels, Array<const float, 3> queries, int64_t n_items,
                  Matrix<const float> offsets, Matrix<const float> weights, Matrix<float> out_means,
                  Matrix<float> out_squares, int threads) {
  const int64_t n_queries = int64_t(queries.shape(0));
  tastespace::MomentsProblem problem;
  problem.n_items = n_items;
  problem.n_draws = int64_t(queries.shape(1));
  problem.width = int64_t(queries.shape(2));
  const int64_t n_panels = (n_items + tastespace::scan_panel - 1) / tastespace::scan_panel;
  require(n_items >= 0 && int64_t(panels.size()) == n_panels * problem.n_draws * problem.width * tastespace::scan_panel,
          "panels: items in panels of the queries' draws");
  for (const auto &given : {offsets, weights})
    require(given.shape(0) == size_t(n_queries) && given.shape(1) == queries.shape(1),
            "offsets and weights: one per query and draw");
  for (const auto &out : {out_means, out_squares})
    require(out.shape(0) == size_t(n_queries) && out.shape(1) == size_t(n_items), "out: one per query and item");
  problem.panels = panels.data();
  problem.queries = queries.data();
  problem.offsets = offsets.data();
  problem.weights = weights.data();
  problem.out_means = out_means.data();
  problem.out_squares = out_squares.data();
  const auto moments = tastespace::table().scan.moments;
  nb::gil_scoped_release release;
  const int64_t share = queries_at_once(n_queries, threads);
  tastespace::parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    moments(problem, task * share, std::min(share, n_queries - task * share));
  });
}

void rank_candidates(Matrix<const float> vectors, Matrix<const float> queries, Vector<const int32_t> candidates,
                     Matrix<int32_t> out_items, Matrix<float> out_scores,
                     OptionalVector<const int64_t> candidate_offsets, OptionalVector<const int64_t> excluded_offsets,
                     OptionalVector<const int32_t> excluded, int threads) {
  const int64_t n_queries = int64_t(queries.shape(0));
  tastespace::CandidatesProblem problem;
  problem.n_dimensions = int64_t(queries.shape(1));
  problem.k = int64_t(out_items.shape(1));
  require(vectors.shape(1) == queries.shape(1), "vectors: of the queries' dimension");
  require(out_items.shape(0) == size_t(n_queries) && out_scores.shape(0) == size_t(n_queries) &&
              out_scores.shape(1) == size_t(problem.k) && problem.k > 0,
          "out: one row of k per query");
  require(within(candidates.data(), candidates.size(), -1, int64_t(vectors.shape(0))), "candidates: rows of vectors");
  if (candidate_offsets) require_offsets(*candidate_offsets, size_t(n_queries), candidates.size());
  require_excluded(excluded_offsets, excluded, n_queries);
  problem.vectors = vectors.data();
  problem.queries = queries.data();
  problem.candidate_offsets = pointer(candidate_offsets);
  problem.candidates = candidates.data();
  problem.n_candidates = int64_t(candidates.size());
  problem.excluded_offsets = pointer(excluded_offsets);
  problem.excluded = pointer(excluded);
  problem.out_items = out_items.data();
  problem.out_scores = out_scores.data();
  const auto rank = tastespace::table().candidates.rank;
  nb::gil_scoped_release release;
  constexpr int64_t share = 16;
  tastespace::parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    for (int64_t q = task * share; q < std::min(n_queries, (task + 1) * share); ++q) rank(problem, q);
  });
}

void project(Matrix<const float> queries, Matrix<const float> matrix, Matrix<float> out, int threads) {
  const int64_t n_queries = int64_t(queries.shape(0)), n = int64_t(queries.shape(1)), n_out = int64_t(matrix.shape(1));
  require(matrix.shape(0) == size_t(n), "matrix: one row per coordinate of the queries");
  require(out.shape(0) == size_t(n_queries) && out.shape(1) == size_t(n_out), "out: one row per query");
  const auto kernel = tastespace::table().candidates.project;
  nb::gil_scoped_release release;
  constexpr int64_t share = 16;
  tastespace::parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    for (int64_t q = task * share; q < std::min(n_queries, (task + 1) * share); ++q)
      kernel(queries.data() + q * n, matrix.data(), n, n_out, out.data() + q * n_out);
  });
}

// The rows of the flags that are set, as long as there is room; -1 if there are more. Most flags are not set: eight at
// once are skipped.
int64_t set_rows(Vector<const uint8_t> flags, Vector<int32_t> out) {
  const int64_t n = int64_t(flags.size()), room = int64_t(out.size());
  const uint8_t *flag = flags.data();
  int64_t found = 0;
  auto look = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      if (flag[i]) {
        if (found == room) return false;
        out.data()[found++] = int32_t(i);
      }
    return true;
  };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, flag + i, sizeof eight);
    if (eight != 0 && !look(i, i + 8)) return -1;
  }
  return look(i, n) ? found : -1;
}

void search_cells(Vector<const float> centres, Vector<const int64_t> first_panels, Vector<const float> panels,
                  Vector<const int32_t> members, Matrix<const float> queries, int64_t n_items, int64_t probes,
                  Matrix<int32_t> out_items, Matrix<float> out_scores, OptionalVector<const int64_t> excluded_offsets,
                  OptionalVector<const int32_t> excluded, OptionalVector<const uint8_t> allowed, int threads) {
  const int64_t n_queries = int64_t(queries.shape(0));
  tastespace::CellsProblem problem;
  problem.n_dimensions = int64_t(queries.shape(1));
  problem.k = int64_t(out_items.shape(1));
  require(first_panels.size() > 1, "first_panels: one more than cells");
  problem.n_cells = int64_t(first_panels.size()) - 1;
  const int64_t centre_panels = (problem.n_cells + scan_panel - 1) / scan_panel;
  const int64_t n_panels = first_panels.data()[problem.n_cells];
  require(int64_t(centres.size()) == centre_panels * problem.n_dimensions * scan_panel,
          "centres: in panels of the queries' dimension");
  require(first_panels.data()[0] == 0 && n_panels >= 0, "first_panels: from 0");
  for (int64_t cell = 0; cell < problem.n_cells; ++cell)
    require(first_panels.data()[cell] <= first_panels.data()[cell + 1], "first_panels: ascending");
  require(int64_t(panels.size()) == n_panels * problem.n_dimensions * scan_panel,
          "panels: items in panels of the queries' dimension");
  // That members are rows of items is checked when they are made or read: a search has no time for it.
  require(int64_t(members.size()) == n_panels * scan_panel, "members: one per place");
  require(probes > 0 && probes <= problem.n_cells, "probes: from 1 to the number of cells");
  require(out_items.shape(0) == size_t(n_queries) && out_scores.shape(0) == size_t(n_queries) &&
              out_scores.shape(1) == size_t(problem.k) && problem.k > 0,
          "out: one row of k per query");
  require(has_size(allowed, size_t(n_items)), "allowed: one per item");
  require_excluded(excluded_offsets, excluded, n_queries);
  problem.probes = probes;
  problem.centres = centres.data();
  problem.first_panels = first_panels.data();
  problem.panels = panels.data();
  problem.members = members.data();
  problem.queries = queries.data();
  problem.excluded_offsets = pointer(excluded_offsets);
  problem.excluded = pointer(excluded);
  problem.allowed = pointer(allowed);
  problem.out_items = out_items.data();
  problem.out_scores = out_scores.data();
  const auto search = tastespace::table().cells.search;
  nb::gil_scoped_release release;
  constexpr int64_t share = 16;
  tastespace::parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    std::vector<float> scores(static_cast<size_t>(probes));
    std::vector<int32_t> cells(static_cast<size_t>(probes));
    tastespace::CellsWorkspace space{scores.data(), cells.data()};
    for (int64_t q = task * share; q < std::min(n_queries, (task + 1) * share); ++q) search(problem, q, space);
  });
}

}  // namespace

void bind(nb::module_ &module) {
  define(module, "scan", &scan,
         {"panels"_a, "queries"_a, "n_items"_a, "out_items"_a, "out_scores"_a, "excluded_offsets"_a = none,
          "excluded"_a = none, "allowed"_a = none, "threads"_a = 1},
         "The k best items of every query by inner product, best first.");
  define(module, "scan_moments", &scan_moments,
         {"panels"_a, "queries"_a, "n_items"_a, "offsets"_a, "weights"_a, "out_means"_a, "out_squares"_a, by_name_only,
          "threads"_a = 1},
         "The mean over draws of the score of every item, and that of its square.");
  define(module, "rank_candidates", &rank_candidates,
         {"vectors"_a, "queries"_a, "candidates"_a, "out_items"_a, "out_scores"_a, by_name_only,
          "candidate_offsets"_a = none, "excluded_offsets"_a = none, "excluded"_a = none, "threads"_a = 1},
         "The best of each query's candidates by inner product.");
  define(module, "set_rows", &set_rows, {"flags"_a, "out"_a},
         "Fill out with the rows of the flags that are set; returns their number, or -1 if there is no room.");
  define(module, "project", &project, {"queries"_a, "matrix"_a, "out"_a, by_name_only, "threads"_a = 1},
         "Queries times a matrix: each row is independent of the others.");
  define(module, "search_cells", &search_cells,
         {"centres"_a, "first_panels"_a, "panels"_a, "members"_a, "queries"_a, "n_items"_a, "probes"_a, "out_items"_a,
          "out_scores"_a, by_name_only, "excluded_offsets"_a = none, "excluded"_a = none, "allowed"_a = none,
          "threads"_a = 1},
         "The best items of the best cells of each query.");
}

}  // namespace topn
}  // namespace tastespace
