// Rows on a sphere: the energy of a row once, then its minimum, or moves that leave exp(-energy) invariant:
// geodesic Monte Carlo (Byrne and Girolami 2013), geodesic slices (Habeck et al. 2023), Metropolis with proposals from
// a von Mises-Fisher distribution (Wood 1994).
//
// Energies and slopes are differences from the start of a move: e(x + d) - e(x) = d.(g(x) + g(x + d)) / 2. The energy
// of a row with many ratings is so large that single precision could not resolve such differences.
#include <cmath>
#include <numbers>

#include "lanes.hpp"
#include "machine.hpp"
#include "random.hpp"
#include "sphere.hpp"
#include "tiles.hpp"
#include "triangular.hpp"

namespace tastespace::TS_ISA::sphere {
namespace {

int64_t padded_size(int64_t dimension) { return padded_factors<float>(dimension); }

// A row's energy 1/2 x^T A x - b.x, and what is needed to get bias and squared errors from it.
template <class T>
struct Energy {
  int64_t n, size;  // dimension of the sphere's space, and with padding
  const T *matrix;  // A: size x size, zero in the padding
  T *linear;        // b
  double radius;
};

// The bias given the row is normal with mean (pull - border.x) / precision; precision 0: there is none.
template <class T>
struct Bias {
  const T *border;
  double pull, precision;
  double prior_pull, prior_precision;  // the part that is the prior's
};

// out = A x
template <class T>
TS_CALLED void product(const Energy<T> &energy, const T *TS_RESTRICT x, T *TS_RESTRICT out) {
  constexpr int width = width_of<T>;
  const int64_t n = energy.n, size = energy.size;
  for (int64_t c = 0; c < n; c += width) {
    // The matrix is symmetric: rows times numbers, in four chains, so that none waits for the other's sum.
    Lanes<T> sums[4];
    sums[0] = load(energy.matrix + c) * x[0];
    sums[1] = sums[2] = sums[3] = sums[0] - sums[0];
    int64_t r = 1;
    for (; r + 4 <= n; r += 4)
      for (int i = 0; i < 4; ++i) sums[i] += load(energy.matrix + (r + i) * size + c) * x[r + i];
    for (; r < n; ++r) sums[0] += load(energy.matrix + r * size + c) * x[r];
    store(out + c, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
}

// g = A x - b
template <class T>
TS_INLINE void slope(const Energy<T> &energy, const T *x, T *out) {
  product(energy, x, out);
  for (int64_t d = 0; d < energy.n; ++d) out[d] -= energy.linear[d];
}

// Removes the radial component.
template <class T>
TS_INLINE void project(const Energy<T> &energy, const T *TS_RESTRICT point, T *TS_RESTRICT vector) {
  const T outwards = T(inlined_dot(point, vector, energy.n) / (energy.radius * energy.radius));
  for (int64_t d = 0; d < energy.n; ++d) vector[d] -= outwards * point[d];
}

// Back to the sphere, after rounding.
template <class T>
TS_INLINE bool settle(const Energy<T> &energy, T *point) {
  const double length = std::sqrt(inlined_dot(point, point, energy.n));
  if (!(length > 0) || !(length < HUGE_VAL)) return false;
  const T scale = T(energy.radius / length);
  for (int64_t d = 0; d < energy.n; ++d) point[d] *= scale;
  return true;
}

// A and b from the sums over the ratings, with the bias integrated out, or as one more dimension.
template <class T>
TS_CALLED Bias<T> assemble(const SphereProblem<T> &problem, int64_t row, RowsWorkspace<T> &sums, Energy<T> &energy,
                           T *matrix) {
  const RowsProblem<T> &rows = problem.rows;
  const int64_t n_factors = rows.n_factors, from = padded_factors<T>(n_factors), n = energy.n, size = energy.size;
  const T *gram = sums.gram, *linear = rows.prior_linear + row * rows.prior_linear_stride;
  T *right = sums.linear, *border = sums.linear + from;
  const T precision = rows.alpha * (problem.row_precision ? problem.row_precision[row] : T(1));
  mirror(n_factors, from, sums.gram);
  for (int64_t i = 0; i < n_factors; ++i) border[i] *= precision;
  const double total = double(precision) * double(sums.total_linear);
  Bias<T> bias{border, 0, 0, 0, 0};
  T share = 0, pulled = 0;
  if (rows.out_bias && !problem.has_joint_bias) {
    const double scale = rows.prior_scale ? double(rows.prior_scale[row]) : 1.0;
    bias.prior_precision = scale * double(rows.bias_precision);
    bias.prior_pull = scale * double(rows.bias_linear);
    bias.precision = double(precision) * double(sums.total_weight) + bias.prior_precision;
    bias.pull = total + bias.prior_pull;
    share = T(1 / bias.precision);
    pulled = T(bias.pull / bias.precision);
  }
  for (int64_t i = 0; i < size * size; ++i) matrix[i] = 0;
  for (int64_t i = 0; i < n_factors; ++i) {
    for (int64_t j = i; j < n_factors; ++j)
      matrix[i * size + j] = matrix[j * size + i] = precision * gram[i * from + j] - share * border[i] * border[j];
    energy.linear[i] = precision * right[i] - pulled * border[i] + linear[i];
  }
  if (problem.has_joint_bias) {
    for (int64_t i = 0; i < n_factors; ++i) matrix[i * size + n - 1] = matrix[(n - 1) * size + i] = border[i];
    matrix[(n - 1) * size + n - 1] = precision * sums.total_weight;
    energy.linear[n - 1] = T(total) + linear[n - 1];
  }
  for (int64_t d = n; d < size; ++d) energy.linear[d] = 0;
  return bias;
}

// How steep the energy is across its narrowest direction. It must not depend on the position of the row: moves whose
// size did would favour places where they are small.
template <class T>
TS_INLINE double stiffness(const Energy<T> &energy, T *TS_RESTRICT other) {
  int64_t steepest = 0;
  for (int64_t d = 1; d < energy.n; ++d)
    if (energy.matrix[d * energy.size + d] > energy.matrix[steepest * energy.size + steepest]) steepest = d;
  const T *row = energy.matrix + steepest * energy.size;
  product(energy, row, other);
  const double before = inlined_dot(row, row, energy.n), after = inlined_dot(other, other, energy.n);
  const double of_matrix = before > 0 ? std::sqrt(after / before) : 0.0;
  const double of_linear = std::sqrt(inlined_dot(energy.linear, energy.linear, energy.n)) / energy.radius;
  return of_matrix > of_linear ? of_matrix : of_linear;
}

template <class T>
TS_CALLED void standard_normal(int64_t n, T *out, RandomStream &stream, const RandomTables &tables) {
  for (int64_t d = 0; d < n; ++d) out[d] = T(normal(stream, tables));
}

// The result of a move.
struct Moved {
  double acceptance, error;
};

// A trajectory of leapfrog steps, each of which follows a great circle in its middle part.
template <class T>
TS_CALLED Moved geodesic(const Energy<T> &energy, int64_t steps, double step_size, T *TS_RESTRICT point,
                         T *TS_RESTRICT vectors, RandomStream &stream, const RandomTables &tables) {
  const int64_t n = energy.n, size = energy.size;
  T *now = vectors, *momentum = now + size, *first = momentum + size, *slopes = first + size, *change = slopes + size;
  T *moved = change + size;
  slope(energy, point, first);
  standard_normal(n, momentum, stream, tables);
  project(energy, point, momentum);
  const double kinetic = inlined_dot(momentum, momentum, n), most = 1e3 * double(n);
  for (int64_t d = 0; d < n; ++d) now[d] = point[d], slopes[d] = first[d];
  // Of random length: with a fixed one some direction may be periodic.
  const int64_t length = steps / 2 + 1 + int64_t(uniform(stream) * double(steps));
  const T half = T(0.5 * step_size);
  double error = 0;
  for (int64_t step = 0; step < length; ++step) {
    for (int64_t d = 0; d < n; ++d) momentum[d] -= half * slopes[d];
    project(energy, now, momentum);
    const double speed = std::sqrt(inlined_dot(momentum, momentum, n)) / energy.radius, angle = speed * step_size;
    if (!(angle < 1e6)) return {0, HUGE_VAL};
    const T cosine = T(std::cos(angle)), sine = T(std::sin(angle));
    const T ahead = speed > 0 ? T(double(sine) / speed) : T(step_size), back = T(speed) * sine;
    for (int64_t d = 0; d < n; ++d) {
      const T place = now[d], pace = momentum[d];
      now[d] = place * cosine + pace * ahead;
      momentum[d] = pace * cosine - place * back;
    }
    if (!settle(energy, now)) return {0, HUGE_VAL};
    for (int64_t d = 0; d < n; ++d) change[d] = now[d] - point[d];
    product(energy, change, moved);
    for (int64_t d = 0; d < n; ++d) {
      slopes[d] = first[d] + moved[d];
      momentum[d] -= half * slopes[d];
      moved[d] = T(0.5) * moved[d] + first[d];
    }
    project(energy, now, momentum);
    error = inlined_dot(change, moved, n) + 0.5 * (inlined_dot(momentum, momentum, n) - kinetic);
    if (!(std::fabs(error) < most)) return {0, HUGE_VAL};  // A trajectory that has diverged does not come back.
  }
  const double chance = error > 0 ? std::exp(-error) : 1.0;
  if (error <= 0 || exponential(stream, tables) > error)
    for (int64_t d = 0; d < n; ++d) point[d] = now[d];
  return {chance, error};
}

// Great circles in random directions, and on each a point whose energy exceeds that of the last one by at most a random
// amount.
template <class T>
TS_CALLED Moved slice(const Energy<T> &energy, int64_t steps, T *TS_RESTRICT point, T *TS_RESTRICT vectors,
                      RandomStream &stream, const RandomTables &tables) {
  constexpr double turn = 2 * std::numbers::pi;
  const int64_t n = energy.n, size = energy.size;
  T *tangent = vectors, *of_point = tangent + size, *of_tangent = of_point + size, *slopes = of_tangent + size;
  for (int64_t step = 0; step < steps; ++step) {
    standard_normal(n, tangent, stream, tables);
    project(energy, point, tangent);
    if (!settle(energy, tangent)) return {0, HUGE_VAL};  // as long as the point
    product(energy, point, of_point);
    product(energy, tangent, of_tangent);
    for (int64_t d = 0; d < n; ++d) slopes[d] = of_point[d] - energy.linear[d];
    const double along = inlined_dot(slopes, tangent, n), outwards = inlined_dot(slopes, point, n);
    const double tangents = inlined_dot(of_tangent, tangent, n), points = inlined_dot(of_point, point, n);
    const double both = inlined_dot(of_tangent, point, n);
    const double above = exponential(stream, tables);
    if (!(std::fabs(along) + std::fabs(outwards) + std::fabs(points) + std::fabs(tangents) < HUGE_VAL))
      return {0, HUGE_VAL};
    // The interval must be placed at random around the point: one centred there would not be reversible.
    double high = turn * uniform(stream), low = high - turn, angle, cosine, sine;
    for (;;) {
      angle = low + (high - low) * uniform(stream);
      sine = std::sin(angle);
      const double half = std::sin(0.5 * angle), back = -2 * half * half;  // cos - 1
      cosine = 1 + back;
      const double rise = back * outwards + sine * along +
                          0.5 * (back * back * points + 2 * back * sine * both + sine * sine * tangents);
      if (rise < above || high - low < 1e-14) break;
      (angle < 0 ? low : high) = angle;
    }
    for (int64_t d = 0; d < n; ++d) point[d] = T(cosine) * point[d] + T(sine) * tangent[d];
    if (!settle(energy, point)) return {0, HUGE_VAL};
  }
  return {1, 0};
}

// 1 minus the cosine between a draw of a von Mises-Fisher distribution and its mean direction (Wood 1994): for a narrow
// one the cosine itself would lose digits.
TS_INLINE double lack_of_cosine(int64_t n, double concentration, RandomStream &stream, const RandomTables &tables) {
  const double m = double(n - 1), root = std::sqrt(4 * concentration * concentration + m * m);
  const double b = m / (2 * concentration + root), centre = 2 * b / (1 + b);
  const double peak = m * (std::log(4 * b) - 2 * std::log1p(b));
  for (;;) {
    const double one = gamma_draw(0.5 * m, stream, tables), other = gamma_draw(0.5 * m, stream, tables);
    const double z = one / (one + other), lack = 2 * b * z / (1 - (1 - b) * z);
    const double above = concentration * (centre - lack) + m * std::log(centre + (1 - centre) * lack) - peak;
    if (above >= -exponential(stream, tables)) return lack;
  }
}

template <class T>
TS_CALLED Moved metropolis(const Energy<T> &energy, int64_t steps, double concentration, T *TS_RESTRICT point,
                           T *TS_RESTRICT vectors, RandomStream &stream, const RandomTables &tables) {
  const int64_t n = energy.n, size = energy.size;
  T *tangent = vectors, *change = tangent + size, *slopes = change + size, *moved = slopes + size;
  slope(energy, point, slopes);
  double total = 0;
  for (int64_t step = 0; step < steps; ++step) {
    standard_normal(n, tangent, stream, tables);
    project(energy, point, tangent);
    if (!settle(energy, tangent)) return {0, HUGE_VAL};
    const double lack = lack_of_cosine(n, concentration, stream, tables);
    const T away = T(std::sqrt(lack * (2 - lack))), back = T(-lack);
    for (int64_t d = 0; d < n; ++d) change[d] = back * point[d] + away * tangent[d];
    product(energy, change, moved);
    double rise = 0;
    for (int64_t d = 0; d < n; ++d) rise += double(change[d]) * (double(slopes[d]) + 0.5 * double(moved[d]));
    if (!(std::fabs(rise) < HUGE_VAL)) return {0, HUGE_VAL};
    total += rise > 0 ? std::exp(-rise) : 1.0;
    if (!(rise <= 0 || exponential(stream, tables) > rise)) continue;
    for (int64_t d = 0; d < n; ++d) {
      point[d] += change[d];
      slopes[d] += moved[d];
    }
    if (!settle(energy, point)) return {0, HUGE_VAL};
  }
  return {total / double(steps), 0};
}

// Tries to factor A + shift.
template <class T>
TS_CALLED bool factor_shifted(const Energy<T> &energy, double shift, double *TS_RESTRICT factor,
                              double *TS_RESTRICT inverse_diagonal) {
  const int64_t n = energy.n, size = energy.size;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < size; ++j) factor[i * size + j] = double(energy.matrix[i * size + j]);
  for (int64_t i = n; i < size; ++i)
    for (int64_t j = 0; j < size; ++j) factor[i * size + j] = 0;
  for (int64_t d = 0; d < size; ++d) factor[d * size + d] = d < n ? factor[d * size + d] + shift : 1.0;
  return factorize(factor, n, size, inverse_diagonal);
}

// The minimum of the energy: x = (A + shift)^-1 b with the shift, above minus the smallest eigenvalue of A, at which
// |x| is the radius (More and Sorensen 1983). If b has no component in the direction of the smallest eigenvalue, x may
// be too short for any such shift: then that direction is added.
template <class T>
TS_CALLED bool least(const Energy<T> &energy, T *TS_RESTRICT point, SphereWorkspace<T> &space) {
  const int64_t n = energy.n, size = energy.size;
  const double radius = energy.radius, pull = std::sqrt(inlined_dot(energy.linear, energy.linear, n));
  double *factor = space.factor, *inverse = space.numbers, *right = inverse + size, *forward = right + size;
  double *x = forward + size, *best = x + size;
  double least_diagonal = HUGE_VAL, largest = 0;
  for (int64_t d = 0; d < n; ++d) {
    const double value = double(energy.matrix[d * size + d]);
    least_diagonal = value < least_diagonal ? value : least_diagonal;
    largest += std::fabs(value);
  }
  if (!(largest < HUGE_VAL) || !(pull < HUGE_VAL)) return false;
  if (largest == 0 && pull == 0) return true;  // no information: all points are equally good
  const double unit = largest + pull / radius, tiny = 1e-13 * unit;
  double low = -least_diagonal, high = pull / radius + tiny, shift = high, length = 0;
  bool is_known = false;  // whether `best` is of the shift `high`
  for (int64_t d = 0; d < size; ++d) right[d] = forward[d] = x[d] = best[d] = 0;
  for (int step = 0; step < 100; ++step) {
    if (!factor_shifted(energy, shift, factor, inverse)) {
      low = shift > low ? shift : low;
      if (shift >= high) high += 1e-3 * (unit + std::fabs(high));  // rounding: A is not quite definite
      shift = 0.5 * (low + high);
      if (is_known && high - low < tiny) break;
      continue;
    }
    for (int64_t d = 0; d < n; ++d) right[d] = double(energy.linear[d]);
    for (int64_t d = n; d < size; ++d) right[d] = 0;
    solve_transposed<double, 1>(factor, inverse, n, size, right, forward);
    solve_upper(factor, inverse, n, size, forward, x);
    length = std::sqrt(inlined_dot(x, x, n));
    if (length <= radius) {
      high = shift, is_known = true;
      for (int64_t d = 0; d < n; ++d) best[d] = x[d];
    } else {
      low = shift;
      if (shift >= high) high += 1e-3 * (unit + std::fabs(high));
    }
    if (std::fabs(length - radius) <= 1e-9 * radius) {
      for (int64_t d = 0; d < n; ++d) best[d] = x[d];
      is_known = true;
      break;
    }
    if (is_known && high - low < tiny) break;
    for (int64_t d = 0; d < size; ++d) right[d] = d < n ? x[d] : 0.0;
    solve_transposed<double, 1>(factor, inverse, n, size, right, forward);
    const double steepness = inlined_dot(forward, forward, n);
    const double next = shift + (length - radius) / radius * length * length / steepness;
    shift = next > low && next < high ? next : 0.5 * (low + high);
  }
  if (!is_known) return false;
  length = std::sqrt(inlined_dot(best, best, n));
  if (length < radius * (1 - 1e-6)) {
    // Inverse iteration towards the smallest eigenvalue, from the current row: any start that is not orthogonal to it
    // will do.
    if (!factor_shifted(energy, high, factor, inverse)) return false;
    for (int64_t d = 0; d < n; ++d) x[d] = double(point[d]) + radius * (0.1 + 0.01 * double(d % 7));
    for (int step = 0; step < 4; ++step) {
      const double size_of = std::sqrt(inlined_dot(x, x, n));
      if (!(size_of > 0) || !(size_of < HUGE_VAL)) return false;
      for (int64_t d = 0; d < size; ++d) right[d] = d < n ? x[d] / size_of : 0.0;
      solve_transposed<double, 1>(factor, inverse, n, size, right, forward);
      solve_upper(factor, inverse, n, size, forward, x);
    }
    const double size_of = std::sqrt(inlined_dot(x, x, n)), along = inlined_dot(best, x, n) / size_of;
    if (!(size_of > 0) || !(size_of < HUGE_VAL)) return false;
    const double missing = radius * radius - length * length;
    const double more = along >= 0 ? missing / (along + std::sqrt(along * along + missing))
                                   : missing / (along - std::sqrt(along * along + missing));
    for (int64_t d = 0; d < n; ++d) best[d] += more * x[d] / size_of;
  }
  for (int64_t d = 0; d < n; ++d) point[d] = T(best[d]);
  return settle(energy, point);
}

// A sphere of one dimension is two points.
template <class T>
Moved one_of_two(const Energy<T> &energy, bool draws, T *point, RandomStream &stream) {
  const double pull = 2 * energy.radius * double(energy.linear[0]);
  if (draws)
    point[0] = T(uniform(stream) * (1 + std::exp(-pull)) < 1 ? energy.radius : -energy.radius);
  else if (pull != 0)
    point[0] = T(pull > 0 ? energy.radius : -energy.radius);
  return {1, 0};
}

template <class T>
bool moved_row(const SphereProblem<T> &problem, const Energy<T> &energy, T *point, SphereWorkspace<T> &space,
               RandomStream &stream, const RandomTables &tables, Moved &moved) {
  if (energy.n == 1) {
    moved = one_of_two(energy, problem.move != SphereMove::least, point, stream);
    return true;
  }
  if (problem.move == SphereMove::least) return least(energy, point, space);
  T *vectors = space.vectors + 2 * energy.size;
  const double steep = problem.move == SphereMove::slice ? 1.0 : stiffness(energy, vectors);
  // Without information, a step is a full turn.
  const double narrow = 1 / (std::sqrt(steep) + 1 / energy.radius);
  constexpr double least_narrow = 1e-12;  // of the radius: below that, or NaN, no digits are left
  if (!(narrow > least_narrow * energy.radius)) return false;
  if (problem.move == SphereMove::geodesic)
    moved = geodesic(energy, problem.steps, problem.step_size * narrow, point, vectors, stream, tables);
  else if (problem.move == SphereMove::slice)
    moved = slice(energy, problem.steps, point, vectors, stream, tables);
  else {
    const double spread = problem.step_size * narrow / energy.radius;
    moved = metropolis(energy, problem.steps, 1 / (spread * spread), point, vectors, stream, tables);
  }
  // Trajectories may diverge, and are rejected; other moves fail only for NaN.
  return problem.move == SphereMove::geodesic || moved.error < HUGE_VAL;
}

// sum_k w_k (y_k - x.v_k - c)^2, from A and b and their parts.
template <class T>
TS_CALLED double squared_errors(const SphereProblem<T> &problem, int64_t row, const Energy<T> &energy,
                                const Bias<T> &bias, const RowsWorkspace<T> &sums, const T *point, double drawn,
                                T *TS_RESTRICT other) {
  const RowsProblem<T> &rows = problem.rows;
  const double precision = double(rows.alpha) * (problem.row_precision ? double(problem.row_precision[row]) : 1.0);
  product(energy, point, other);
  const T *prior = rows.prior_linear + row * rows.prior_linear_stride;
  double twice = precision * sums.total_square;
  for (int64_t d = 0; d < energy.n; ++d)
    twice += double(point[d]) * (double(other[d]) - 2 * (double(energy.linear[d]) - double(prior[d])));
  if (bias.precision > 0) {
    // With the bias integrated out, the energy lacks the part explained by it.
    const double across = inlined_dot(bias.border, point, rows.n_factors), pull = bias.pull - bias.prior_pull;
    const double shared = across / bias.precision;
    twice += shared * (across - 2 * bias.pull);
    twice += drawn * (2 * (across - pull) + drawn * (bias.precision - bias.prior_precision));
  }
  return twice > 0 ? twice / precision : 0.0;
}

template <class T>
bool move(const SphereProblem<T> &problem, int64_t row, RowsWorkspace<T> &sums, SphereWorkspace<T> &space,
          RandomStream &stream, const RandomTables &tables) {
  const RowsProblem<T> &rows = problem.rows;
  const int64_t n_factors = rows.n_factors, n = n_factors + (problem.has_joint_bias ? 1 : 0), size = padded_size(n);
  T *point = space.vectors, *linear = point + size;
  Energy<T> energy{n, size, space.matrix, linear, problem.radius};
  const Bias<T> bias = assemble(problem, row, sums, energy, space.matrix);
  T *out = rows.out + row * n_factors;
  for (int64_t d = 0; d < size; ++d) point[d] = d < n_factors ? out[d] : T(0);
  if (problem.has_joint_bias) point[n_factors] = rows.out_bias[row];
  if (!settle(energy, point)) return false;
  Moved moved{1, 0};
  if (!moved_row(problem, energy, point, space, stream, tables, moved)) return false;
  for (int64_t d = 0; d < n_factors; ++d) out[d] = point[d];
  double drawn = 0;
  if (problem.has_joint_bias) {
    rows.out_bias[row] = point[n_factors];
  } else if (rows.out_bias) {
    if (!(bias.precision > 0)) return false;
    drawn = (bias.pull - inlined_dot(bias.border, point, n_factors)) / bias.precision;
    if (problem.move != SphereMove::least) drawn += normal(stream, tables) / std::sqrt(bias.precision);
    rows.out_bias[row] = T(drawn);
    if (!(std::fabs(drawn) < HUGE_VAL)) return false;
  }
  if (problem.acceptance) problem.acceptance[row] = moved.acceptance;
  if (problem.energy_error) problem.energy_error[row] = moved.error;
  if (rows.squares) {
    const bool is_rated = rows.offsets[row] < rows.offsets[row + 1];
    rows.squares[row] =
        is_rated ? squared_errors(problem, row, energy, bias, sums, point, drawn, space.vectors + 2 * size) : 0.0;
  }
  return true;
}

}  // namespace

void fill(Table &table) {
  table.sphere_float = {padded_size, move<float>};
  table.sphere_double = {padded_size, move<double>};
}

}  // namespace tastespace::TS_ISA::sphere
