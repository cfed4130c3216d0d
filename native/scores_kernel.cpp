// Scores: an inner product each.
#include "lanes.hpp"
#include "machine.hpp"
#include "scores.hpp"

namespace tastespace::TS_ISA::scores {
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
    if (user >= 0 && item >= 0) value += inner_product(problem.users + user * n, problem.items + item * n, n);
    problem.out[k] = float(value);
  }
}

void score(const DrawsProblem &problem, int64_t first, int64_t last) {
  const int64_t width = problem.width, size = problem.n_item_draws * width;
  for (int64_t place = first; place < last; ++place) {
    const float *item = problem.items + problem.rows[place] * size;
    for (int64_t draw = 0; draw < problem.n_users; ++draw)
      problem.out[draw * problem.n_rows + place] =
          inner_product(problem.users + draw * width, item + problem.chosen[draw] * width, width);
  }
}

}  // namespace

void fill(Table &table) {
  table.pairs = {score};
  table.draws = {score};
}

}  // namespace tastespace::TS_ISA::scores
