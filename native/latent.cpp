// Latent responses: blocks of ratings with their own streams, fixed shares of sums, and the binding.
#include <algorithm>
#include <vector>

#include "arguments.hpp"
#include "machine.hpp"
#include "random.hpp"

namespace tastespace {
namespace {

// Ratings of one task: a whole number of blocks.
constexpr int64_t latent_share = 16 * latent_block;
// Sums over all ratings have at most this many parts, added in order, each with at least this many ratings: sizes
// depend only on the number of ratings.
constexpr int64_t bins_shares = 16;
constexpr int64_t bins_share = 16384;

template <class T>
void score_rows(const ScoresProblem<T> &problem, int64_t n_rows, int threads) {
  const LatentKernel<T> &kernel = latent_kernel<T>();
  const int64_t *offsets = problem.offsets, n = offsets[n_rows];
  parallel_for((n + latent_share - 1) / latent_share, threads, [&](int64_t task, int) {
    const int64_t begin = task * latent_share;
    const int64_t row = std::upper_bound(offsets, offsets + n_rows + 1, begin) - offsets - 1;
    kernel.score(problem, row, begin, std::min(n, begin + latent_share));
  });
}

// Calls draw(problem, begin, end, stream) for every block.
template <class Draw, class Problem>
void draw_blocks(Draw draw, const Problem &problem, int64_t n, uint64_t key, int threads) {
  parallel_for((n + latent_share - 1) / latent_share, threads, [&](int64_t task, int) {
    const int64_t end = std::min(n, (task + 1) * latent_share);
    for (int64_t begin = task * latent_share; begin < end; begin += latent_block) {
      RandomStream stream = random_stream(key, uint64_t(begin / latent_block));
      draw(problem, begin, std::min(end, begin + latent_block), stream);
    }
  });
}

// The weights of the four nodes around a place f of their middle cell, as polynomials: rows are nodes, columns powers.
constexpr double cubic_weights[4][4] = {
    {0, -1.0 / 3, 1.0 / 2, -1.0 / 6}, {1, -1.0 / 2, -1, 1.0 / 2}, {0, 1, 1.0 / 2, -1.0 / 2}, {0, -1.0 / 6, 0, 1.0 / 6}};

// Fills out (levels x nodes); returns -1, or the first rating whose score lies outside the grid.
template <class T>
int64_t bin_scores(const BinsProblem<T> &problem, int64_t n, double *out, int threads) {
  const LatentKernel<T> &kernel = latent_kernel<T>();
  const int64_t n_levels = problem.n_edges + 1, n_cells = n_levels * problem.n_nodes;
  const int64_t share = std::max(bins_share, (n + bins_shares - 1) / bins_shares), n_shares = (n + share - 1) / share;
  std::vector<std::vector<double>> memories(static_cast<size_t>(n_shares));
  std::vector<double *> moments(static_cast<size_t>(n_shares));
  std::vector<int64_t> outside(static_cast<size_t>(n_shares), -1);
  parallel_for(n_shares, threads, [&](int64_t task, int) {
    constexpr int64_t line = 8;  // doubles in a cache line
    std::vector<double> &memory = memories[size_t(task)];
    memory.assign(size_t(4 * n_cells + line), 0.0);
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(memory.data()) / sizeof(double)) % line;
    moments[size_t(task)] = memory.data() + (line - past) % line;
    outside[size_t(task)] = kernel.bin(problem, task * share, std::min(n, (task + 1) * share), moments[size_t(task)]);
  });
  std::fill(out, out + n_cells, 0.0);
  for (int64_t place : outside)
    if (place >= 0) return place;
  for (int64_t level = 0; level < n_levels; ++level)
    for (int64_t cell = 1; cell <= problem.n_nodes - 3; ++cell) {
      const int64_t at = level * problem.n_nodes + cell;
      double total[4] = {0, 0, 0, 0};
      for (const double *part : moments)
        for (int i = 0; i < 4; ++i) total[i] += part[4 * at + i];
      for (int node = 0; node < 4; ++node)
        for (int i = 0; i < 4; ++i) out[at - 1 + node] += cubic_weights[node][i] * total[i];
    }
  return -1;
}

}  // namespace

namespace latent {
namespace {

template <class T>
void score_rows(Vector<const int64_t> offsets, Vector<const int32_t> columns, Matrix<const T> rows,
                Matrix<const T> other, Vector<T> out, OptionalVector<const T> row_bias,
                OptionalVector<const T> other_bias, double offset, int threads) {
  const size_t n = columns.size();
  require_offsets(offsets, rows.shape(0), n);
  require(rows.shape(1) == other.shape(1), "rows and other: equally many factors");
  require(out.size() == n, "out: one per rating");
  require(has_size(row_bias, rows.shape(0)), "row_bias: one per row of rows");
  require(has_size(other_bias, other.shape(0)), "other_bias: one per row of other");
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
  require(scores.size() == n && values.size() == n, "scores, values and out: one per rating");
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
  require(scores.size() == n, "scores and out: one per rating");
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
  require(values.size() == n, "scores and values: one per rating");
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
  define(module, "score_rows", &score_rows<T>,
         {"offsets"_a, "columns"_a, "rows"_a, "other"_a, "out"_a, by_name_only, "row_bias"_a = none,
          "other_bias"_a = none, "offset"_a = 0.0, "threads"_a = 1},
         "Scores of the ratings of every row.");
  define(module, "draw_truncated", &draw_truncated<T>,
         {"scores"_a, "values"_a, "edges"_a, "cuts"_a, "key"_a, "out"_a, "threads"_a = 1},
         "Draw the latent response of every rating: normal about its score, between the cuts of its level.");
  define(module, "draw_polya_gamma", &draw_polya_gamma<T>, {"scores"_a, "key"_a, "out"_a, "threads"_a = 1},
         "Draw a Polya-Gamma variable PG(1, score) for every score.");
  define(module, "bin_scores", &bin_scores<T>,
         {"scores"_a, "values"_a, "edges"_a, "first"_a, "step"_a, "out"_a, "threads"_a = 1},
         "Spread the scores of every level over a grid, for cubic interpolation; -1, or the first outside it.");
}

}  // namespace

void bind(nb::module_ &module) {
  bind<float>(module);
  bind<double>(module);
}

}  // namespace latent
}  // namespace tastespace
