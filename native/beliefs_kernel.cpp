// Beliefs of pairs: the points of a block of items times a triangular matrix, in register tiles. The matrix has one
// more column, the mean, so that the same tiles give both mean and variance.
#include <cmath>

#include "beliefs.hpp"
#include "lanes.hpp"
#include "machine.hpp"

namespace tastespace::TS_ISA::beliefs {
namespace {

constexpr int width = width_of<float>;
// Registers decide the tile, as in the row kernel.
constexpr int tile_rows = TS_VECTOR_BYTES == 64 ? 8 : 4;
constexpr int tile_lanes = TS_VECTOR_BYTES == 64 ? 3 : 2;

// Columns of the packed matrix: those of the root, then the mean.
TS_INLINE int64_t registers_of(const BeliefsProblem &problem) { return padded<float>(problem.width() + 1) / width; }

// Rows of a register of columns: down to the diagonal; the row of the bias, which multiplies 1, is first.
TS_INLINE int64_t rows_of(const BeliefsProblem &problem, int64_t column) {
  const int64_t last = (column + 1) * width;
  return last < problem.n_factors ? last : problem.n_factors;
}

int64_t root_size(const BeliefsProblem &problem) {
  int64_t size = 0;
  for (int64_t c = 0; c < registers_of(problem); ++c) size += (rows_of(problem, c) + 1) * width;
  return size;
}

TS_INLINE int64_t stride_of(const BeliefsProblem &problem) { return padded<float>(problem.n_factors); }

// Draws whose points are gathered together: a block of them stays in the second-level cache while the next is loaded.
constexpr int64_t points_bytes = int64_t(1) << 17;

TS_INLINE int64_t draws_at_once(const BeliefsProblem &problem) {
  const int64_t a_draw = beliefs_block * (stride_of(problem) + 1) * int64_t(sizeof(float));
  const int64_t most = points_bytes > a_draw ? points_bytes / a_draw : 1;
  const int64_t n_parts = (problem.n_draws + most - 1) / most;
  return n_parts ? (problem.n_draws + n_parts - 1) / n_parts : 0;  // parts of about equal size
}

int64_t points_size(const BeliefsProblem &problem) {
  return draws_at_once(problem) * beliefs_block * stride_of(problem);
}

int64_t offsets_size(const BeliefsProblem &problem) { return draws_at_once(problem) * beliefs_block; }

// One register after another, each as its row of the bias and then its rows from the first down to the diagonal.
void pack(const BeliefsProblem &problem, int64_t belief, int64_t draw, float *TS_RESTRICT packed) {
  const int64_t size = problem.width(), at = belief * problem.n_draws + draw;
  const float *TS_RESTRICT root = problem.roots + at * size * size, *TS_RESTRICT mean = problem.means + at * size;
  for (int64_t c = 0; c < registers_of(problem); ++c) {
    const int64_t first = c * width, n_rows = rows_of(problem, c);
    const int64_t last = first + width < size ? first + width : size;
    const bool whole = first + width <= size;
    for (int64_t row = -1; row < n_rows; ++row, packed += width) {
      const int64_t from = row < 0 ? problem.n_factors : row;
      const bool empty = row < 0 && !problem.biases;
      if (whole && !empty) {
        store(packed, load(root + from * size + first));
        continue;
      }
      for (int lane = 0; lane < width; ++lane) packed[lane] = 0;
      if (empty) continue;
      for (int64_t column = first; column < last; ++column) packed[column - first] = root[from * size + column];
      if (last == size && last < first + width) packed[last - first] = mean[from];
    }
  }
}

TS_INLINE const float *point_of(const BeliefsProblem &problem, int64_t pair, int64_t draw) {
  const int64_t item = problem.item_rows[pair], size = problem.width();
  return item < 0 ? problem.cold_item + draw * size : problem.items + (item * problem.n_draws + draw) * size;
}

// The points of a block, for n_draws draws from `first` on, sorted by draw; the last tile is filled up with zeros.
// Memory is read item by item, in its order.
void gather(const BeliefsProblem &problem, const BeliefsBlock &block, int64_t first, int64_t n_draws,
            BeliefsWorkspace &space) {
  const int64_t n_factors = problem.n_factors, size = problem.width(), stride = stride_of(problem);
  for (int64_t k = 0; k < block.n; ++k) {
    const float *TS_RESTRICT from = point_of(problem, block.pairs[k], first);
    for (int64_t draw = 0; draw < n_draws; ++draw, from += size) {
      float *TS_RESTRICT to = space.points + (draw * beliefs_block + k) * stride;
      int64_t d = 0;
      for (; d + width <= n_factors; d += width) store(to + d, load(from + d));
      for (; d < n_factors; ++d) to[d] = from[d];
      space.offsets[draw * beliefs_block + k] = problem.biases ? from[n_factors] : 0.0f;
    }
  }
  for (int64_t draw = 0; draw < n_draws; ++draw)
    for (int64_t k = block.n; k % tile_rows; ++k)
      for (int64_t d = 0; d < stride; ++d) space.points[(draw * beliefs_block + k) * stride + d] = 0;
}

// What is gathered next: other draws of the same pairs, or the first draws of those that follow.
struct Ahead {
  const int64_t *pairs;
  int64_t n, draw;
};

// Prefetches a tile of points that will be gathered soon.
TS_INLINE void prefetch(const BeliefsProblem &problem, const Ahead &ahead, int64_t begin) {
  const int64_t end = begin + tile_rows < ahead.n ? begin + tile_rows : ahead.n;
  for (int64_t k = begin; k < end; ++k) {
    const float *point = point_of(problem, ahead.pairs[k], ahead.draw);
    for (int64_t d = 0; d < problem.width(); d += 16) TS_PREFETCH(point + d);
  }
}

// Rows from `row` down to the diagonal of each register in turn: those left of it are done by then.
template <int Columns, int First>
TS_INLINE void rows_below(int64_t row, const float *const *packed, const int64_t *n_rows, const float *points,
                          int64_t stride, Lanes<float> (&sums)[tile_rows][Columns]) {
  for (; row < n_rows[First]; ++row) {
    Lanes<float> columns[Columns];
    for (int c = First; c < Columns; ++c) columns[c] = load(packed[c] + row * width);
    for (int r = 0; r < tile_rows; ++r) {
      const float factor = points[r * stride + row];
      for (int c = First; c < Columns; ++c) sums[r][c] += columns[c] * factor;
    }
  }
  if constexpr (First + 1 < Columns) rows_below<Columns, First + 1>(row, packed, n_rows, points, stride, sums);
}

// Adds the squares of Columns registers of T^T x for a tile of points; returns the last register.
template <int Columns>
TS_INLINE void tile(const BeliefsProblem &problem, int64_t column, const float *&packed, const float *points,
                    int64_t stride, const float *mask, Lanes<float> *squares, float *last) {
  const float *starts[Columns];
  int64_t n_rows[Columns];
  Lanes<float> sums[tile_rows][Columns];
  for (int c = 0; c < Columns; ++c) {
    n_rows[c] = rows_of(problem, column + c);
    const Lanes<float> bias = load(packed);
    for (int r = 0; r < tile_rows; ++r) sums[r][c] = bias;
    starts[c] = packed + width;
    packed += (n_rows[c] + 1) * width;
  }
  rows_below<Columns, 0>(0, starts, n_rows, points, stride, sums);
  for (int r = 0; r < tile_rows; ++r) {
    for (int c = 0; c + 1 < Columns; ++c) squares[r] += sums[r][c] * sums[r][c];
    const bool end = column + Columns == registers_of(problem);
    const Lanes<float> counted = end ? sums[r][Columns - 1] * load(mask) : sums[r][Columns - 1];
    squares[r] += counted * counted;
    if (end) store(last + r * width, sums[r][Columns - 1]);
  }
}

// In each row the sum of its lanes, as in lanes.hpp, but for all rows at once.
template <int Half>
TS_INLINE void fold_rows(float (*part)[width]) {
  for (int r = 0; r < tile_rows; ++r)
    for (int i = 0; i < Half; ++i) part[r][i] += part[r][i + Half];
  if constexpr (Half > 1) fold_rows<Half / 2>(part);
}

// Means and variances of a block of pairs given one draw, which is the place-th of those gathered.
void one_draw(const BeliefsProblem &problem, int64_t belief, int64_t n, int64_t draw, int64_t place, const Ahead &ahead,
              BeliefsWorkspace &space) {
  const int64_t registers = registers_of(problem), stride = stride_of(problem);
  const float *offsets = space.offsets + place * beliefs_block;
  pack(problem, belief, draw, space.root);
  const int mean_lane = int(problem.width() % width);
  float mask[width];
  for (int lane = 0; lane < width; ++lane) mask[lane] = lane == mean_lane ? 0.0f : 1.0f;
  for (int64_t k = 0; k < n; k += tile_rows) {
    const float *packed = space.root, *points = space.points + (place * beliefs_block + k) * stride;
    prefetch(problem, ahead, k);
    float last[tile_rows * width], part[tile_rows][width];
    Lanes<float> squares[tile_rows];
    for (int r = 0; r < tile_rows; ++r) squares[r] = load(mask) - load(mask);
    for (int64_t c = 0; c < registers;) {
      const int64_t remaining = registers - c;
      if (tile_lanes > 2 && remaining >= 3 && remaining != 4) {
        tile<tile_lanes>(problem, c, packed, points, stride, mask, squares, last);
        c += tile_lanes;
      } else if (remaining >= 2) {
        tile<2>(problem, c, packed, points, stride, mask, squares, last);
        c += 2;
      } else {
        tile<1>(problem, c, packed, points, stride, mask, squares, last);
        c += 1;
      }
    }
    for (int r = 0; r < tile_rows; ++r) store(part[r], squares[r]);
    fold_rows<width / 2>(part);
    for (int r = 0; r < tile_rows; ++r) {
      space.means[k + r] = last[r * width + mean_lane] + offsets[k + r];
      space.variances[k + r] = part[r][0];
    }
  }
}

// Calls use(draw) after the means and variances of every draw.
template <class Use>
TS_INLINE void all_draws(const BeliefsProblem &problem, const BeliefsBlock &block, BeliefsWorkspace &space, Use use) {
  const int64_t belief = problem.belief_rows[block.pairs[0]], at_once = draws_at_once(problem);
  for (int64_t first = 0; first < problem.n_draws; first += at_once) {
    const int64_t n_draws = problem.n_draws - first < at_once ? problem.n_draws - first : at_once;
    gather(problem, block, first, n_draws, space);
    for (int64_t place = 0; place < n_draws; ++place) {
      const int64_t next = first + at_once + place;
      const Ahead more{block.pairs, next < problem.n_draws ? block.n : 0, next};
      const Ahead following{block.pairs + block.n, block.n_following, place};
      one_draw(problem, belief, block.n, first + place, place, first + at_once < problem.n_draws ? more : following,
               space);
      use(first + place);
    }
  }
}

void each(const BeliefsProblem &problem, const BeliefsBlock &block, BeliefsWorkspace &space) {
  all_draws(problem, block, space, [&](int64_t draw) {
    for (int64_t k = 0; k < block.n; ++k) {
      const int64_t at = block.pairs[k] * problem.n_draws + draw;
      problem.out_means[at] = space.means[k];
      problem.out_sds[at] = std::sqrt(space.variances[k]);
    }
  });
}

// The mean of the mixture, and its variance as that within draws plus that between them.
void mixture(const BeliefsProblem &problem, const BeliefsBlock &block, BeliefsWorkspace &space) {
  const int64_t *pairs = block.pairs, n = block.n;
  double first[beliefs_block], second[beliefs_block], total = 0;
  for (int64_t k = 0; k < n; ++k) first[k] = second[k] = 0;
  const float *weights = problem.weights + problem.belief_rows[pairs[0]] * problem.n_draws;
  all_draws(problem, block, space, [&](int64_t draw) {
    const double weight = double(weights[draw]);
    total += weight;
    for (int64_t k = 0; k < n; ++k) {
      const double mean = double(space.means[k]);
      first[k] += weight * mean;
      second[k] += weight * (mean * mean + double(space.variances[k]));
    }
  });
  for (int64_t k = 0; k < n; ++k) {
    const double mean = first[k];
    // sum w (m - mean)^2 with weights whose sum is 1 up to rounding.
    const double variance = second[k] + mean * (mean * total - 2 * mean);
    problem.out_mean[pairs[k]] = float(mean);
    problem.out_sd[pairs[k]] = float(std::sqrt(variance > 0 ? variance : 0.0));
  }
}

}  // namespace

void fill(Table &table) { table.beliefs = {root_size, points_size, offsets_size, each, mixture}; }

}  // namespace tastespace::TS_ISA::beliefs
