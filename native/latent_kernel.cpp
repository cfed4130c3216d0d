// Latent responses: a dot product or a draw per rating.
#include <cmath>

#include "lanes.hpp"
#include "latent.hpp"
#include "machine.hpp"
#include "random.hpp"

namespace tastespace::TS_ISA::latent {
namespace {

// Ratings scored together: their sums are folded side by side.
constexpr int score_group = 8;

// Adds the upper half of the lanes to the lower one until at most four are left, then those.
template <int Width, class T>
TS_INLINE void fold_group(T (*part)[width_of<T>], T *TS_RESTRICT out) {
  if constexpr (Width > 4) {
    for (int r = 0; r < score_group; ++r)
      for (int i = 0; i < Width / 2; ++i) part[r][i] += part[r][i + Width / 2];
    fold_group<Width / 2, T>(part, out);
  } else if constexpr (Width == 4) {
    for (int r = 0; r < score_group; ++r) out[r] = (part[r][0] + part[r][2]) + (part[r][1] + part[r][3]);
  } else {
    for (int r = 0; r < score_group; ++r) out[r] = part[r][0] + part[r][1];
  }
}

// The inner products of one row with a group of others. The last register ends where the rows end; its overlap with the
// one before is zero in `last`.
template <class T>
TS_INLINE void dots(const T *TS_RESTRICT row, const T *TS_RESTRICT last, const T *const *others, int64_t n,
                    T *TS_RESTRICT out) {
  constexpr int width = width_of<T>;
  if (n < width) {
    for (int r = 0; r < score_group; ++r) {
      out[r] = 0;
      for (int64_t d = 0; d < n; ++d) out[r] += row[d] * others[r][d];
    }
    return;
  }
  Lanes<T> sums[score_group];
  const Lanes<T> ending = load(last);
  for (int r = 0; r < score_group; ++r) sums[r] = load(others[r] + n - width) * ending;
  for (int64_t d = 0; d + width < n; d += width) {
    const Lanes<T> values = load(row + d);
    for (int r = 0; r < score_group; ++r) sums[r] += load(others[r] + d) * values;
  }
  T part[score_group][width];
  for (int r = 0; r < score_group; ++r) store(part[r], sums[r]);
  fold_group<width, T>(part, out);
}

template <class T>
void score(const ScoresProblem<T> &problem, int64_t row, int64_t begin, int64_t end) {
  constexpr int width = width_of<T>;
  const int64_t n_factors = problem.n_factors, stride = problem.other_stride, bias_stride = problem.other_bias_stride;
  const int64_t n_last = n_factors > 0 ? (n_factors - 1) % width + 1 : 0;  // factors of the last register
  const int32_t *columns = problem.columns;
  const T *all = problem.other, *other_bias = problem.other_bias;
  T last[width];
  for (int64_t k = begin; k < end; ++row) {
    const int64_t stop = problem.offsets[row + 1] < end ? problem.offsets[row + 1] : end;
    const T *factors = problem.rows + row * n_factors;
    const double constant = problem.offset + (problem.row_bias ? double(problem.row_bias[row]) : 0.0);
    if (n_factors >= width)
      for (int i = 0; i < width; ++i) last[i] = i < width - n_last ? T(0) : factors[n_factors - width + i];
    for (; k < stop; k += score_group) {
      const int64_t n = stop - k < score_group ? stop - k : score_group;
      const T *others[score_group];
      T products[score_group];
      for (int r = 0; r < score_group; ++r) {
        others[r] = all + columns[r < n ? k + r : k] * stride;
        const int64_t ahead = k + score_group + r;
        if (ahead < end)
          for (int64_t d = 0; d < n_factors; d += 64 / int64_t(sizeof(T)))
            TS_PREFETCH(all + columns[ahead] * stride + d);
      }
      dots(factors, last, others, n_factors, products);
      for (int64_t r = 0; r < n; ++r) {
        const double bias = other_bias ? double(other_bias[columns[k + r] * bias_stride]) : 0.0;
        problem.out[k + r] = T(constant + bias + double(products[r]));
      }
    }
    k = stop;
  }
}

// The number of edges below each value, for all values at once.
template <class T>
TS_INLINE void find_levels(const T *TS_RESTRICT values, int64_t n, const T *edges, int64_t n_edges,
                           int32_t *TS_RESTRICT levels) {
  for (int64_t k = 0; k < n; ++k) levels[k] = 0;
  for (int64_t e = 0; e < n_edges; ++e) {
    const T edge = edges[e];
    for (int64_t k = 0; k < n; ++k) levels[k] += edge < values[k];
  }
}

template <class T>
void truncated(const TruncatedProblem<T> &problem, int64_t begin, int64_t end, RandomStream &stream) {
  int32_t levels[latent_block];
  find_levels(problem.values + begin, end - begin, problem.edges, problem.n_edges, levels);
  RandomStream own = stream;  // a copy stays in registers
  for (int64_t k = begin; k < end; ++k) {
    const int64_t level = levels[k - begin];
    const double mean = double(problem.scores[k]);
    const double low = level > 0 ? problem.cuts[level - 1] : -HUGE_VAL;
    const double high = level < problem.n_edges ? problem.cuts[level] : HUGE_VAL;
    // Only a finite score can be drawn around.
    if (std::fabs(mean) < HUGE_VAL)
      problem.out[k] = rounded_inside<T>(truncated_normal(mean, low, high, own, *problem.tables), low, high);
    else
      problem.out[k] = T(NAN);
  }
  stream = own;
}

template <class T>
void draw_polya_gamma(const PolyaGammaProblem<T> &problem, int64_t begin, int64_t end, RandomStream &stream) {
  RandomStream own = stream;
  for (int64_t k = begin; k < end; ++k) {
    const double score = double(problem.scores[k]);
    problem.out[k] = std::fabs(score) < HUGE_VAL ? T(polya_gamma(score, own, *problem.tables)) : T(NAN);
  }
  stream = own;
}

template <class T>
int64_t bin(const BinsProblem<T> &problem, int64_t begin, int64_t end, double *moments) {
  int32_t levels[latent_block];
  double places[latent_block];
  const double last = double(problem.n_nodes - 1);
  const int64_t last_cell = problem.n_nodes - 3;
  for (int64_t start = begin; start < end; start += latent_block) {
    const int64_t n = end - start < latent_block ? end - start : latent_block;
    find_levels(problem.values + start, n, problem.edges, problem.n_edges, levels);
    for (int64_t k = 0; k < n; ++k)
      places[k] = (double(problem.scores[start + k]) - problem.first) * problem.inverse_step;
    for (int64_t k = 0; k < n; ++k) {
      const double place = places[k];
      if (!(place >= 0 && place <= last)) return start + k;
      int64_t cell = int64_t(place);
      cell = cell < 1 ? 1 : cell > last_cell ? last_cell : cell;
      const double f = place - double(cell), powers[4] = {1, f, f * f, f * f * f};
      // One aligned group of four: what a rating has just stored, the next can load at once.
      double *to = moments + (levels[k] * problem.n_nodes + cell) * 4;
      for (int i = 0; i < 4; ++i) to[i] += powers[i];
    }
  }
  return -1;
}

template <class T>
void normals(const RandomTables &tables, int64_t n, T *out, RandomStream &stream) {
  for (int64_t i = 0; i < n; ++i) out[i] = T(normal(stream, tables));
}

double gamma(const RandomTables &tables, double shape, RandomStream &stream) {
  return gamma_draw(shape, stream, tables);
}

template <class T>
LatentKernel<T> make_latent_kernel() {
  return {score<T>, truncated<T>, draw_polya_gamma<T>, bin<T>, normals<T>, gamma};
}

}  // namespace

void fill(Table &table) {
  table.latent_float = make_latent_kernel<float>();
  table.latent_double = make_latent_kernel<double>();
}

}  // namespace tastespace::TS_ISA::latent
