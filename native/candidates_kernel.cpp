// Exact scores of candidates, straight into a heap; and products of queries with a matrix.
#include "candidates.hpp"
#include "dot.hpp"
#include "heap.hpp"
#include "lanes.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

constexpr int64_t ahead = 8;  // candidates that are on their way from memory

// The first lines of a row: the processor fetches those that follow by itself.
TS_INLINE void fetch([[maybe_unused]] const float *row, int64_t n) {
  constexpr int64_t line = 16;
  for (int64_t d = 0; d < n && d < 4 * line; d += line) TS_PREFETCH(row + d);
}

void rank(const CandidatesProblem &problem, int64_t query) {
  const int64_t n = problem.n_dimensions;
  const float *point = problem.queries + query * n;
  int64_t first = 0, last = problem.n_candidates;
  if (problem.candidate_offsets) {
    first = problem.candidate_offsets[query];
    last = problem.candidate_offsets[query + 1];
  }
  Heap found{
      problem.out_scores + query * problem.k, problem.out_items + query * problem.k, 0, problem.k, nullptr, nullptr};
  if (problem.excluded_offsets) {
    found.excluded = problem.excluded + problem.excluded_offsets[query];
    found.excluded_end = problem.excluded + problem.excluded_offsets[query + 1];
  }
  for (int64_t i = first; i < last; ++i) {
    if (i + ahead < last && problem.candidates[i + ahead] >= 0)
      fetch(problem.vectors + int64_t(problem.candidates[i + ahead]) * n, n);
    const int32_t item = problem.candidates[i];
    if (item < 0) continue;
    const Entry entry = {dot(point, problem.vectors + int64_t(item) * n, n), item};
    // Not a number is never a recommendation: the comparison is false for it.
    if (!(entry.score >= found.threshold()) || found.is_excluded(item)) continue;
    found.offer(entry);
  }
  found.sort();
}

template <int Registers>
TS_INLINE void project_strip(const float *TS_RESTRICT query, const float *TS_RESTRICT matrix, int64_t n, int64_t n_out,
                             float *TS_RESTRICT out) {
  constexpr int width = width_of<float>;
  Lanes<float> sums[Registers];
  for (int r = 0; r < Registers; ++r) sums[r] = Lanes<float>{};
  for (int64_t d = 0; d < n; ++d)
    for (int r = 0; r < Registers; ++r) sums[r] += load(matrix + d * n_out + r * width) * query[d];
  for (int r = 0; r < Registers; ++r) store(out + r * width, sums[r]);
}

void project(const float *query, const float *matrix, int64_t n, int64_t n_out, float *out) {
  constexpr int width = width_of<float>;
  int64_t o = 0;
  for (; o + 4 * width <= n_out; o += 4 * width) project_strip<4>(query, matrix + o, n, n_out, out + o);
  for (; o + width <= n_out; o += width) project_strip<1>(query, matrix + o, n, n_out, out + o);
  for (; o < n_out; ++o) {
    float total = 0;
    for (int64_t d = 0; d < n; ++d) total += matrix[d * n_out + o] * query[d];
    out[o] = total;
  }
}

}  // namespace

void fill_candidates(Table &table) { table.candidates = {rank, project}; }

}  // namespace TS_ISA
}  // namespace tastespace
