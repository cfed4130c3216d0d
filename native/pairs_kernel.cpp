// Scores of pairs: a dot product each.
#include "dot.hpp"
#include "lanes.hpp"
#include "pairs.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

void score(const PairsProblem &problem, int64_t begin, int64_t end) {
  const int64_t n = problem.n_factors;
  for (int64_t k = begin; k < end; ++k) {
    if (k + 8 < end && problem.item_rows[k + 8] >= 0)
      TS_PREFETCH(problem.items + int64_t(problem.item_rows[k + 8]) * n);
    const int64_t user = problem.user_rows[k], item = problem.item_rows[k];
    double value = problem.offset;
    if (user >= 0 && problem.user_bias) value += problem.user_bias[user];
    if (item >= 0 && problem.item_bias) value += problem.item_bias[item];
    if (user >= 0 && item >= 0) value += dot(problem.users + user * n, problem.items + item * n, n);
    problem.out[k] = float(value);
  }
}

}  // namespace

void fill_pairs(Table &table) { table.pairs = {score}; }

}  // namespace TS_ISA
}  // namespace tastespace
