// All draws of an item lie side by side: memory is read an item after the other, as it lies there.
#include "dot.hpp"
#include "drawn.hpp"
#include "tables.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

void score(const DrawnProblem &problem, int64_t first, int64_t last) {
  const int64_t width = problem.width, size = problem.n_item_draws * width;
  for (int64_t place = first; place < last; ++place) {
    const float *item = problem.items + problem.rows[place] * size;
    for (int64_t draw = 0; draw < problem.n_users; ++draw)
      problem.out[draw * problem.n_rows + place] =
          dot(problem.users + draw * width, item + problem.chosen[draw] * width, width);
  }
}

}  // namespace

void fill_drawn(Table &table) { table.drawn = {score}; }

}  // namespace TS_ISA
}  // namespace tastespace
