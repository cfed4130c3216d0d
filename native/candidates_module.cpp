// The binding of the ranking of candidates: checks of the arguments, release of the interpreter lock, the call.
#include "candidates_module.hpp"

#include <cstring>

#include "arguments.hpp"
#include "parallel.hpp"
#include "tables.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::Matrix;
using tastespace::OptionalVector;
using tastespace::pointer;
using tastespace::require;
using tastespace::require_excluded;
using tastespace::require_offsets;
using tastespace::Vector;
using tastespace::within;

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
          "out: one row of k a query");
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
  require(matrix.shape(0) == size_t(n), "matrix: one row a coordinate of the queries");
  require(out.shape(0) == size_t(n_queries) && out.shape(1) == size_t(n_out), "out: one row a query");
  const auto kernel = tastespace::table().candidates.project;
  nb::gil_scoped_release release;
  constexpr int64_t share = 16;
  tastespace::parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    for (int64_t q = task * share; q < std::min(n_queries, (task + 1) * share); ++q)
      kernel(queries.data() + q * n, matrix.data(), n, n_out, out.data() + q * n_out);
  });
}

// The rows of the flags that are set, as long as they have room; -1 where there are more. Most flags are not set: eight
// at once are passed over.
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

}  // namespace

void bind_candidates(nb::module_ &module) {
  module.def("rank_candidates", &rank_candidates, "vectors"_a, "queries"_a, "candidates"_a, "out_items"_a.noconvert(),
             "out_scores"_a.noconvert(), nb::kw_only(), "candidate_offsets"_a = nb::none(),
             "excluded_offsets"_a = nb::none(), "excluded"_a = nb::none(), "threads"_a = 1,
             "The best of each query's candidates by inner product.");
  module.def("set_rows", &set_rows, "flags"_a, "out"_a.noconvert(),
             "Fill out with the rows of the flags that are set; how many there are, or -1 if they have no room.");
  module.def("project", &project, "queries"_a, "matrix"_a, "out"_a.noconvert(), nb::kw_only(), "threads"_a = 1,
             "Queries times a matrix: each row the same, whatever the rows beside it.");
}
