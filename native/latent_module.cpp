// The binding of the kernels for latent responses: checks of the arguments, release of the interpreter lock, the call.
#include "latent_module.hpp"

#include <cmath>

#include "arguments.hpp"
#include "latent_driver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tastespace::ascending;
using tastespace::has_size;
using tastespace::Matrix;
using tastespace::OptionalVector;
using tastespace::pointer;
using tastespace::require;
using tastespace::require_offsets;
using tastespace::Vector;
using tastespace::within;

template <class T>
void score_rows(Vector<const int64_t> offsets, Vector<const int32_t> columns, Matrix<const T> rows,
                Matrix<const T> other, Vector<T> out, OptionalVector<const T> row_bias,
                OptionalVector<const T> other_bias, double offset, int threads) {
  const size_t n = columns.size();
  require_offsets(offsets, rows.shape(0), n);
  require(rows.shape(1) == other.shape(1), "rows and other: as many factors");
  require(out.size() == n, "out: one a rating");
  require(has_size(row_bias, rows.shape(0)), "row_bias: one a row of rows");
  require(has_size(other_bias, other.shape(0)), "other_bias: one a row of other");
  require(within(columns.data(), n, 0, int64_t(other.shape(0))), "columns: rows of other");
  tastespace::ScoresProblem<T> problem;
  problem.n_factors = int64_t(rows.shape(1));
  problem.offsets = offsets.data();
  problem.columns = columns.data();
  problem.rows = rows.data();
  problem.row_bias = pointer(row_bias);
  problem.other = other.data();
  problem.other_stride = problem.n_factors;
  problem.other_bias = pointer(other_bias);
  problem.offset = offset;
  problem.out = out.data();
  nb::gil_scoped_release release;
  tastespace::score_rows(problem, int64_t(rows.shape(0)), threads);
}

template <class T>
void draw_truncated(Vector<const T> scores, Vector<const T> values, Vector<const T> edges, Vector<const double> cuts,
                    uint64_t key, Vector<T> out, int threads) {
  const size_t n = out.size();
  require(scores.size() == n && values.size() == n, "scores, values and out: one a rating");
  require(ascending(edges.data(), edges.size()), "edges: finite and ascending");
  require(cuts.size() == edges.size() && ascending(cuts.data(), cuts.size()),
          "cuts: as many as edges, finite and ascending");
  tastespace::TruncatedProblem<T> problem;
  problem.scores = scores.data();
  problem.values = values.data();
  problem.n_edges = int64_t(edges.size());
  problem.edges = edges.data();
  problem.cuts = cuts.data();
  problem.tables = &tastespace::random_tables();
  problem.out = out.data();
  nb::gil_scoped_release release;
  tastespace::draw_blocks(tastespace::latent_kernel<T>().truncated, problem, int64_t(n), key, threads);
}

template <class T>
void draw_polya_gamma(Vector<const T> scores, uint64_t key, Vector<T> out, int threads) {
  const size_t n = out.size();
  require(scores.size() == n, "scores and out: one a rating");
  tastespace::PolyaGammaProblem<T> problem;
  problem.scores = scores.data();
  problem.tables = &tastespace::random_tables();
  problem.out = out.data();
  nb::gil_scoped_release release;
  tastespace::draw_blocks(tastespace::latent_kernel<T>().polya_gamma, problem, int64_t(n), key, threads);
}

template <class T>
int64_t bin_scores(Vector<const T> scores, Vector<const T> values, Vector<const T> edges, double first, double step,
                   Matrix<double> out, int threads) {
  const size_t n = scores.size();
  require(values.size() == n, "scores and values: one a rating");
  require(ascending(edges.data(), edges.size()), "edges: finite and ascending");
  require(std::isfinite(first), "first: finite");
  require(step > 0 && std::isfinite(step), "step: finite, above 0");
  require(out.shape(0) == edges.size() + 1 && out.shape(1) >= 4, "out: levels x nodes, at least four nodes");
  tastespace::BinsProblem<T> problem;
  problem.scores = scores.data();
  problem.values = values.data();
  problem.n_edges = int64_t(edges.size());
  problem.edges = edges.data();
  problem.first = first;
  problem.inverse_step = 1 / step;
  problem.n_nodes = int64_t(out.shape(1));
  nb::gil_scoped_release release;
  return tastespace::bin_scores(problem, int64_t(n), out.data(), threads);
}

template <class T>
void bind(nb::module_ &module) {
  module.def("score_rows", &score_rows<T>, "offsets"_a, "columns"_a, "rows"_a, "other"_a, "out"_a.noconvert(),
             nb::kw_only(), "row_bias"_a = nb::none(), "other_bias"_a = nb::none(), "offset"_a = 0.0, "threads"_a = 1,
             "Scores of the ratings of every row.");
  module.def("draw_truncated", &draw_truncated<T>, "scores"_a, "values"_a, "edges"_a, "cuts"_a, "key"_a,
             "out"_a.noconvert(), "threads"_a = 1,
             "Draw the latent response of every rating: normal about its score, between the cuts of its level.");
  module.def("draw_polya_gamma", &draw_polya_gamma<T>, "scores"_a, "key"_a, "out"_a.noconvert(), "threads"_a = 1,
             "Draw a Polya-Gamma variable PG(1, score) for every score.");
  module.def("bin_scores", &bin_scores<T>, "scores"_a, "values"_a, "edges"_a, "first"_a, "step"_a, "out"_a.noconvert(),
             "threads"_a = 1,
             "Spread the scores of every level over a grid, for cubic interpolation; -1, or the first outside it.");
}

}  // namespace

void bind_latent(nb::module_ &module) {
  bind<float>(module);
  bind<double>(module);
}
