// Moments: a block of points at a time, in double, in the tiles of the row kernel.
#include "lanes.hpp"
#include "moments.hpp"
#include "tables.hpp"
#include "tiles.hpp"

namespace tastespace {
namespace TS_ISA {
namespace {

template <class From>
void add(const From *points, int64_t n, int64_t n_factors, MomentsWorkspace &space) {
  constexpr int width = width_of<double>;
  const int64_t size = padded_factors<double>(n_factors);
  for (int64_t start = 0; start < n; start += moments_block) {
    const int64_t count = n - start < moments_block ? n - start : moments_block;
    const From *TS_RESTRICT from = points + start * n_factors;
    double *TS_RESTRICT to = space.block;
    for (int64_t b = 0; b < count; ++b)
      for (int64_t d = 0; d < n_factors; ++d) to[b * size + d] = double(from[b * n_factors + d]);
    for (int64_t d = 0; d < size; d += width) {
      Lanes<double> total = load(space.total + d);
      for (int64_t b = 0; b < count; ++b) total += load(space.block + b * size + d);
      store(space.total + d, total);
    }
    triangle<double>(count, space.block, space.block, n_factors, size, space.gram);
  }
  mirror(n_factors, size, space.gram);
}

}  // namespace

void fill_moments(Table &table) { table.moments = {padded_factors<double>, add<float>, add<double>}; }

}  // namespace TS_ISA
}  // namespace tastespace
