// Beliefs about rows by variational Bayes. The full family sums packed second moments, which takes most of the time:
// records are processed four at a time, so that the sums stay in registers and memory is prefetched. All that is done
// once per row is done in double. The factorized family moves one coordinate after the other, with the errors of the
// current row.
#include <cmath>

#include "lanes.hpp"
#include "machine.hpp"
#include "tiles.hpp"
#include "triangular.hpp"
#include "variational.hpp"

namespace tastespace::TS_ISA::variational {
namespace {

constexpr int at_once = 4;              // records summed together
constexpr int64_t summed_apart = 1024;  // numbers summed in the type of the records, before they are added in double

template <class T>
TS_INLINE T target_of(const VariationalProblem<T> &problem, int64_t k) {
  return T((double(problem.targets[k]) - problem.target_offset) / problem.target_scale);
}

TS_INLINE bool is_finite(double value) { return value - value == 0; }

TS_INLINE double centre_at(const double *centre, int64_t d) { return centre ? centre[d] : 0.0; }

TS_INLINE int64_t record_of(int64_t width, bool full) {
  const int64_t size = width + (full ? width * (width + 1) / 2 : width);
  return (size + 15) / 16 * 16;
}

template <class T>
TS_INLINE void add_records(const T *const *records, int64_t size, T *TS_RESTRICT sums) {
  constexpr int width = width_of<T>;
  for (int64_t c = 0; c < size; c += width) {
    const Lanes<T> first = load(records[0] + c) + load(records[1] + c);
    const Lanes<T> second = load(records[2] + c) + load(records[3] + c);
    store(sums + c, load(sums + c) + (first + second));
  }
}

template <class T>
TS_INLINE void add_times(const T *TS_RESTRICT record, T factor, int64_t size, T *TS_RESTRICT sums) {
  constexpr int width = width_of<T>;
  for (int64_t c = 0; c < size; c += width) store(sums + c, load(sums + c) + load(record + c) * factor);
}

template <class T>
TS_INLINE void prefetch_record(const T *record, int64_t size) {
  for (int64_t c = 0; c < size; c += 64 / int64_t(sizeof(T))) TS_PREFETCH(record + c);
}

template <class T>
void accumulate(const VariationalProblem<T> &problem, int64_t begin, int64_t end, VariationalWorkspace<T> &space) {
  const int64_t width = problem.width, size = record_of(width, true), head = padded<T>(width);
  T *sums = space.block, *weighted = sums + size;
  VariationalSums &into = space.sums;
  for (int64_t start = begin; start < end; start += variational_block) {
    const int64_t stop = start + variational_block < end ? start + variational_block : end;
    for (int64_t c = 0; c < size + head; ++c) sums[c] = 0;
    int64_t k = start;
    for (; k + at_once <= stop; k += at_once) {
      const T *records[at_once];
      for (int r = 0; r < at_once; ++r) {
        records[r] = problem.other + problem.columns[k + r] * size;
        if (k + at_once + r < end) prefetch_record(problem.other + problem.columns[k + at_once + r] * size, size);
      }
      add_records(records, size, sums);
      for (int r = 0; r < at_once; ++r) add_times(records[r], target_of(problem, k + r), head, weighted);
    }
    for (; k < stop; ++k) {
      const T *record = problem.other + problem.columns[k] * size;
      add_times(record, T(1), size, sums);
      add_times(record, target_of(problem, k), head, weighted);
    }
    for (k = start; k < stop; ++k) {
      const double target = double(target_of(problem, k));
      into.linear += target;
      into.square += target * target;
    }
    for (int64_t c = 0; c < size; ++c) into.total[c] += double(sums[c]);
    for (int64_t c = 0; c < width; ++c) into.weighted[c] += double(weighted[c]);
  }
  into.n += double(end - begin);
}

// inverse = U^-T times right, and back: the solution of U^T U x = right. Returns |U^-T right|^2.
TS_INLINE double solve_by_inverse(const double *inverse, int64_t n, int64_t size, const double *right,
                                  double *solution) {
  double explained = 0;
  for (int64_t c = 0; c < size; ++c) solution[c] = 0;
  for (int64_t k = 0; k < n; ++k) {
    const double forward = inlined_dot(inverse + k * size, right, k + 1);
    explained += forward * forward;
    for (int64_t c = 0; c <= k; ++c) solution[c] += forward * inverse[k * size + c];
  }
  return explained;
}

// Lambda applied to a belief: tr(Lambda Phi) and x^T Lambda x, the bias with them.
struct PriorTerms {
  double spread, quadratic, linear;
};

template <class T>
TS_INLINE PriorTerms prior_terms(const VariationalProblem<T> &problem, int64_t row, const double *covariance,
                                 int64_t size, const double *mean) {
  const int64_t n_factors = problem.n_factors;
  PriorTerms terms{0, 0, 0};
  for (int64_t r = 0; r < n_factors; ++r) {
    const double *precision = problem.prior_precision + r * n_factors;
    // Only the upper triangle of the covariance is filled.
    terms.spread += 2 * inlined_dot(precision + r, covariance + r * size + r, n_factors - r) -
                    precision[r] * covariance[r * size + r];
    terms.quadratic += mean[r] * inlined_dot(precision, mean, n_factors);
    terms.linear += mean[r] * problem.linear_of(row)[r];
  }
  if (problem.biases) {
    terms.spread += problem.bias_precision * covariance[n_factors * size + n_factors];
    terms.quadratic += problem.bias_precision * mean[n_factors] * mean[n_factors];
    terms.linear += problem.bias_linear_of(row) * mean[n_factors];
  }
  return terms;
}

// a = (p_u, 1), and the sum of the columns' second moments times it.
template <class T>
TS_INLINE void look_along(const VariationalProblem<T> &problem, const double *second, double *towards, double *along) {
  const int64_t width = problem.width;
  for (int64_t d = 0; d < width; ++d) {
    towards[d] = d < problem.n_factors ? centre_at(problem.row_centre, d) : 1.0;
    along[d] = 0;
  }
  for (int64_t r = 0; r < width; ++r) {
    along[r] += second[0] * towards[r];
    for (int64_t c = r + 1; c < width; ++c) {
      along[r] += second[c - r] * towards[c];
      along[c] += second[c - r] * towards[r];
    }
    second += width - r;
  }
}

// P and h of a row from the sums over its ratings. Returns the sum of E[(y - d)^2], or its equivalent with centres.
template <class T>
TS_INLINE double build(const VariationalProblem<T> &problem, int64_t row, const VariationalSums &sums, double *matrix,
                       int64_t size, double *linear, double *towards, double *along) {
  const int64_t n_factors = problem.n_factors, width = problem.width;
  const double alpha = problem.alpha, *mean = sums.total, *second = sums.total + width;
  look_along(problem, second, towards, along);
  double left = sums.linear, targets = sums.square;  // sums of residuals, and of their squares
  for (int64_t d = 0; d < width; ++d) {
    left -= towards[d] * mean[d];
    targets += towards[d] * (along[d] - 2 * sums.weighted[d]);
  }
  for (int64_t i = 0; i < size * size; ++i) matrix[i] = 0;
  for (int64_t d = width; d < size; ++d) matrix[d * size + d] = 1;
  for (int64_t d = 0; d < size; ++d) linear[d] = 0;
  for (int64_t r = 0; r < n_factors; ++r) {
    double *to = matrix + r * size;
    const double *prior = problem.prior_precision + r * n_factors;
    const double centre = centre_at(problem.column_centre, r), moved = mean[r] + sums.n * centre;
    for (int64_t c = r; c < n_factors; ++c) {
      const double shift = centre * mean[c] + centre_at(problem.column_centre, c) * moved;
      to[c] = prior[c] + alpha * (second[c - r] + shift);
    }
    linear[r] = problem.linear_of(row)[r] + alpha * (sums.weighted[r] - along[r] + centre * left);
    if (problem.biases) to[n_factors] = alpha * moved;
    second += width - r;
  }
  if (problem.biases) {
    matrix[n_factors * size + n_factors] = problem.bias_precision + alpha * sums.n;
    linear[n_factors] = problem.bias_linear_of(row) + alpha * left;
  }
  return targets;
}

template <class T>
TS_INLINE void write(const VariationalProblem<T> &problem, int64_t row, const double *mean, const double *covariance,
                     int64_t size) {
  const int64_t width = problem.width;
  if (problem.means)
    for (int64_t d = 0; d < width; ++d) problem.means[row * width + d] = T(mean[d]);
  if (problem.records) {
    T *record = problem.records + row * record_of(width, true), *second = record + width;
    for (int64_t r = 0; r < width; ++r) {
      record[r] = T(mean[r]);
      for (int64_t c = r; c < width; ++c) second[c - r] = T(covariance[r * size + c] + mean[r] * mean[c]);
      second += width - r;
    }
    for (T *end = record + record_of(width, true); second < end; ++second) *second = 0;
  }
  if (problem.covariances && problem.diagonal) {
    for (int64_t d = 0; d < width; ++d) problem.covariances[row * width + d] = T(covariance[d * size + d]);
  } else if (problem.covariances) {
    T *to = problem.covariances + row * (width * (width + 1) / 2);
    for (int64_t r = 0; r < width; ++r) {
      for (int64_t c = r; c < width; ++c) to[c - r] = T(covariance[r * size + c]);
      to += width - r;
    }
  }
}

template <class T>
TS_INLINE void write_root(const VariationalProblem<T> &problem, int64_t row, const double *inverse,
                          const double *covariance, int64_t size) {
  const int64_t width = problem.width;
  T *root = problem.roots + row * width * width;
  for (int64_t r = 0; r < width; ++r)
    for (int64_t c = 0; c < width; ++c) {
      if (problem.diagonal)
        root[r * width + c] = c == r ? T(std::sqrt(covariance[r * size + r])) : T(0);
      else
        root[r * width + c] = c < r ? T(0) : T(inverse[c * size + r]);
    }
}

template <class T>
bool finish(const VariationalProblem<T> &problem, int64_t row, VariationalWorkspace<T> &space) {
  const int64_t width = problem.width, size = padded_factors<double>(width);
  double *matrix = space.matrix, *inverse = space.inverse, *covariance = space.covariance;
  double *linear = space.vectors, *inverse_diagonal = linear + size, *mean = linear + 2 * size;
  double *diagonal = linear + 3 * size;
  const double targets = build(problem, row, space.sums, matrix, size, linear, linear + 4 * size, linear + 5 * size);
  for (int64_t d = 0; d < width; ++d) diagonal[d] = matrix[d * size + d];
  if (!factorize(matrix, width, size, inverse_diagonal)) return false;
  invert_transposed(matrix, inverse_diagonal, width, size, inverse);
  const double explained = solve_by_inverse(inverse, width, size, linear, mean);
  for (int64_t i = 0; i < size * size; ++i) covariance[i] = 0;
  double log_determinant = 0;
  if (problem.diagonal) {
    for (int64_t d = 0; d < width; ++d) {
      covariance[d * size + d] = 1 / diagonal[d];
      log_determinant += std::log(diagonal[d]);
    }
  } else {
    triangle(width, inverse, inverse, width, size, covariance);
    mirror(width, size, covariance);
    for (int64_t d = 0; d < width; ++d) log_determinant -= 2 * std::log(inverse_diagonal[d]);
  }
  if (!is_finite(explained) || !is_finite(log_determinant)) return false;
  write(problem, row, mean, covariance, size);
  if (problem.roots) write_root(problem, row, inverse, covariance, size);
  if (problem.log_determinant) problem.log_determinant[row] = log_determinant;
  if (problem.squares) {
    // P - Lambda is alpha times the sum over the ratings, and P x is h: nothing has to be summed over the ratings
    // again.
    const PriorTerms prior = prior_terms(problem, row, covariance, size, mean);
    const double fitted = explained - 2 * prior.linear + prior.quadratic;
    const double squares = targets + (double(width) - prior.spread - fitted) / problem.alpha;
    problem.squares[row] = space.sums.n > 0 && squares > 0 ? squares : 0.0;  // rounding may make it negative
  }
  return true;
}

// Sums over the ratings of a row: of products of one coordinate of the columns with the errors, and of its squares.
struct CoordinateSums {
  double products, squares;
};

template <class T>
TS_INLINE CoordinateSums coordinate_sums(const T *TS_RESTRICT column, const T *TS_RESTRICT errors, int64_t n) {
  constexpr int width = width_of<T>;
  CoordinateSums sums{0, 0};
  for (int64_t start = 0; start < n; start += summed_apart) {
    const int64_t stop = start + summed_apart < n ? start + summed_apart : n;
    Lanes<T> products = load(column + start) * load(errors + start);
    Lanes<T> squares = load(column + start) * load(column + start);
    for (int64_t k = start + width; k < stop; k += width) {
      const Lanes<T> values = load(column + k);
      products += values * load(errors + k);
      squares += values * values;
    }
    sums.products += double(sum<T>(products));
    sums.squares += double(sum<T>(squares));
  }
  return sums;
}

template <class T>
TS_INLINE double sum_of_squares(const T *values, int64_t n) {
  double total = 0;
  for (int64_t k = 0; k < n; ++k) total += double(values[k]) * double(values[k]);
  return total;
}

// Errors at the means, where `own` is the part of the scores that is the same for all columns; sums of the records.
template <class T>
TS_INLINE void look(const VariationalProblem<T> &problem, int64_t row, T own, VariationalWorkspace<T> &space) {
  constexpr int lanes = width_of<T>;
  const int64_t width = problem.width, n_factors = problem.n_factors, size = record_of(width, false);
  const int64_t begin = problem.offsets[row], end = problem.offsets[row + 1], reach = padded<T>(n_factors);
  const T *point = space.point;
  double *total = space.sums.total;
  for (int64_t c = 0; c < size; ++c) total[c] = 0;
  for (int64_t start = begin; start < end; start += variational_block) {
    const int64_t stop = start + variational_block < end ? start + variational_block : end;
    T *sums = space.block;
    for (int64_t c = 0; c < size; ++c) sums[c] = 0;
    for (int64_t k = start; k < stop; ++k) {
      const T *record = problem.other + problem.columns[k] * size;
      if (k + 2 * at_once < end) prefetch_record(problem.other + problem.columns[k + 2 * at_once] * size, size);
      Lanes<T> score = load(record) * load(point);
      for (int64_t d = lanes; d < reach; d += lanes) score += load(record + d) * load(point + d);
      const T other_bias = problem.biases ? record[n_factors] : T(0);
      space.errors[k - begin] = target_of(problem, k) - other_bias - own - sum<T>(score);
      add_times(record, T(1), size, sums);
    }
    for (int64_t c = 0; c < size; ++c) total[c] += double(sums[c]);
  }
}

template <class T>
bool coordinates(const VariationalProblem<T> &problem, int64_t row, VariationalWorkspace<T> &space) {
  constexpr int lanes = width_of<T>;
  const int64_t width = problem.width, n_factors = problem.n_factors, size = record_of(width, false);
  const int64_t begin = problem.offsets[row], n = problem.offsets[row + 1] - begin, reach = padded<T>(n);
  const double alpha = problem.alpha, *variances = space.sums.total + width;  // the latter of all columns together
  T *mean = problem.records + row * size, *own_variances = mean + width, *errors = space.errors;
  double own = problem.biases ? double(mean[n_factors]) : 0.0;
  for (int64_t d = 0; d < padded<T>(n_factors); ++d) {
    space.point[d] = d < n_factors ? T(centre_at(problem.row_centre, d) + double(mean[d])) : T(0);
    if (d < n_factors) own += centre_at(problem.column_centre, d) * double(mean[d]);
  }
  look(problem, row, T(own), space);
  for (int64_t k = n; k < reach; ++k) errors[k] = 0;
  double log_determinant = 0, spread = 0;
  const auto conclude = [&](int64_t d, double precision) {
    own_variances[d] = T(1 / precision);
    log_determinant += std::log(precision);
    if (problem.covariances) problem.covariances[row * width + d] = T(1 / precision);
  };
  if (problem.biases) {
    double total = 0;
    for (int64_t k = 0; k < n; ++k) total += double(errors[k]);
    const double precision = problem.bias_precision + alpha * double(n), old = double(mean[n_factors]);
    mean[n_factors] = T((problem.bias_linear_of(row) + alpha * (total + double(n) * old)) / precision);
    const T moved = T(double(mean[n_factors]) - old);
    for (int64_t k = 0; k < n; ++k) errors[k] -= moved;
    conclude(n_factors, precision);
    // The spread of the columns' biases, and of the row's own.
    spread += variances[n_factors] + double(n) / precision;
  }
  for (int64_t first = 0; first < n_factors; first += variational_strip) {
    const int64_t n_here = n_factors - first < variational_strip ? n_factors - first : variational_strip;
    T centre[variational_strip] = {};
    for (int64_t d = 0; d < n_here; ++d) centre[d] = T(centre_at(problem.column_centre, first + d));
    for (int64_t k = 0; k < n; ++k) {
      // A whole strip, which a record always has: values after the last factor are ignored.
      const T *TS_RESTRICT from = problem.other + problem.columns[begin + k] * size + first;
      T *TS_RESTRICT to = space.transposed + k;
      for (int64_t d = 0; d < variational_strip; ++d) to[d * reach] = centre[d] + from[d];
    }
    for (int64_t d = 0; d < n_here; ++d) {
      T *column = space.transposed + d * reach;
      for (int64_t k = n; k < reach; ++k) column[k] = 0;
      const int64_t at = first + d;
      const CoordinateSums sums = coordinate_sums(column, errors, reach);
      const double *prior = problem.prior_precision + at * n_factors;
      const double second = variances[at] + sums.squares, row_centre = centre_at(problem.row_centre, at);
      const double precision = prior[at] + alpha * second, old = double(mean[at]);
      double linear = problem.linear_of(row)[at] + prior[at] * old +
                      alpha * (sums.products + old * sums.squares - row_centre * variances[at]);
      for (int64_t other = 0; other < n_factors; ++other) linear -= prior[other] * double(mean[other]);
      if (!(precision > 0) || !is_finite(linear / precision)) return false;
      mean[at] = T(linear / precision);
      const T moved = T(double(mean[at]) - old);
      for (int64_t k = 0; k < reach; k += lanes) store(errors + k, load(errors + k) - load(column + k) * moved);
      conclude(at, precision);
      const double point = row_centre + double(mean[at]);
      spread += second / precision + point * point * variances[at];
    }
  }
  if (problem.means)
    for (int64_t d = 0; d < width; ++d) problem.means[row * width + d] = mean[d];
  if (problem.log_determinant) problem.log_determinant[row] = log_determinant;
  if (problem.squares) problem.squares[row] = n > 0 ? sum_of_squares(errors, n) + spread : 0.0;
  return true;
}

template <class T>
VariationalKernel<T> make_variational_kernel() {
  return {padded_factors<double>, accumulate<T>, finish<T>, coordinates<T>};
}

}  // namespace

void fill(Table &table) {
  table.variational_float = make_variational_kernel<float>();
  table.variational_double = make_variational_kernel<double>();
}

}  // namespace tastespace::TS_ISA::variational
