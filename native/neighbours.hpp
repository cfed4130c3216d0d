// Neighbourhood models: similarities of rows, and averages over neighbours. Plain loops over sparse rows, which are
// limited by memory and not by arithmetic, so that one version serves every instruction set.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "machine.hpp"

namespace tastespace {

// Compressed sparse rows.
struct SparseRows {
  int64_t n_rows = 0;
  const int64_t *offsets = nullptr;
  const int32_t *columns = nullptr;
  const float *values = nullptr;
};

// similarity = sum of products / sqrt(own norm * other norm) * n / (n + shrinkage), over the n columns that both rows
// have; 0 for fewer than min_common of them. Norms are over the common columns, or over all of a row.
struct SimilarityRule {
  bool common_norms = false;
  double shrinkage = 0;
  double min_common = 1;
};

// Each row of `queries` against all the others, which are given by column.
struct ComparisonProblem {
  SparseRows queries;  // columns are rows of by_column
  SparseRows by_column;
  int64_t n_others = 0;
  const double *other_squares = nullptr;  // squared norm of each other row
  SimilarityRule rule;
};

// Sums over the common columns of a query and another row.
struct CommonSums {
  float product = 0, count = 0;
  void add(float own, float other) {
    product += own * other;
    count += 1;
  }
  double norms(double own_square, double other_square) const { return own_square * other_square; }
};
struct CommonSumsWithNorms {
  float product = 0, count = 0, own = 0, others = 0;
  void add(float own_value, float other_value) {
    product += own_value * other_value;
    count += 1;
    own += own_value * own_value;
    others += other_value * other_value;
  }
  double norms(double, double) const { return double(own) * double(others); }
};

inline bool rows_within(const int32_t *rows, int64_t n, int64_t limit) {
  int32_t least = 0, most = -1;
  for (int64_t k = 0; k < n; ++k) {
    least = std::min(least, rows[k]);
    most = std::max(most, rows[k]);
  }
  return least >= 0 && most < limit;
}

// One query against all others: the sums, then use(other, similarity) for those with a column in common, ascending.
// Leaves the sums at zero. False if a row or column is out of range.
template <class Sums, class Use>
bool compare_row(const ComparisonProblem &problem, int64_t query, Sums *sums, Use use) {
  const SparseRows &queries = problem.queries, &by_column = problem.by_column;
  double own_square = 0;
  for (int64_t k = queries.offsets[query]; k < queries.offsets[query + 1]; ++k) {
    const int64_t column = queries.columns[k];
    if (column < 0 || column >= by_column.n_rows) return false;
    const int64_t begin = by_column.offsets[column], end = by_column.offsets[column + 1];
    if (!rows_within(by_column.columns + begin, end - begin, problem.n_others)) return false;
    const float own = queries.values[k];
    own_square += double(own) * own;
    for (int64_t p = begin; p < end; ++p) sums[by_column.columns[p]].add(own, by_column.values[p]);
  }
  for (int64_t other = 0; other < problem.n_others; ++other) {
    Sums &sum = sums[other];
    if (sum.count == 0) continue;
    const double norms = sum.norms(own_square, problem.other_squares[other]), n = sum.count;
    double similarity = 0;
    if (n >= problem.rule.min_common && norms > 0)
      similarity = sum.product / std::sqrt(norms) * (n / (n + problem.rule.shrinkage));
    // Rounding may slightly exceed 1; numbers whose squares overflow may give anything.
    use(other, std::isfinite(similarity) ? float(std::clamp(similarity, -1.0, 1.0)) : 0.0f);
    sum = Sums{};
  }
  return true;
}

// The number of workers.
inline int64_t workers_for(int64_t n_tasks, int threads) {
  return std::max<int64_t>(1, std::min<int64_t>(threads, n_tasks));
}

// Calls work(query, worker, sums) for every query, with sums of the worker's own, all zero. False if one fails.
template <class Sums, class Work>
bool for_each_query(const ComparisonProblem &problem, int threads, Work work) {
  const int64_t workers = workers_for(problem.queries.n_rows, threads);
  std::vector<Sums> sums(size_t(workers * problem.n_others));
  std::atomic<bool> good{true};
  parallel_for(problem.queries.n_rows, int(workers), [&](int64_t query, int worker) {
    if (good && !work(query, worker, sums.data() + worker * problem.n_others)) good = false;
  });
  return good;
}

// All similarities of every query: out is queries x others.
template <class Sums>
bool similarities(const ComparisonProblem &problem, float *out, int threads) {
  std::fill(out, out + problem.queries.n_rows * problem.n_others, 0.0f);
  return for_each_query<Sums>(problem, threads, [&](int64_t query, int, Sums *sums) {
    float *row = out + query * problem.n_others;
    return compare_row(problem, query, sums, [&](int64_t other, float similarity) { row[other] = similarity; });
  });
}

// A neighbour: the negative similarity, so that the most similar come first, ties by the lowest row.
using Neighbour = std::pair<float, int32_t>;

// The `width` most similar others of every query that are above `least`, best first, ties by the lower row; padded with
// row -1. Query q is not compared with the other row first + q, which is itself (first < 0: none is).
template <class Sums>
bool most_similar(const ComparisonProblem &problem, int64_t first, float least, int64_t width, int32_t *out_rows,
                  float *out_similarities, int threads) {
  std::vector<Neighbour> scratch(size_t(workers_for(problem.queries.n_rows, threads) * problem.n_others));
  return for_each_query<Sums>(problem, threads, [&](int64_t query, int worker, Sums *sums) {
    Neighbour *found = scratch.data() + worker * problem.n_others;
    int64_t n_found = 0;
    const int64_t self = first < 0 ? -1 : first + query;
    if (!compare_row(problem, query, sums, [&](int64_t other, float similarity) {
          if (similarity > least && other != self) found[n_found++] = {-similarity, int32_t(other)};
        }))
      return false;
    const int64_t n = std::min(width, n_found);
    if (n < n_found) std::nth_element(found, found + n, found + n_found);
    std::sort(found, found + n);
    for (int64_t k = 0; k < width; ++k) {
      out_rows[query * width + k] = k < n ? found[k].second : -1;
      out_similarities[query * width + k] = k < n ? -found[k].first : 0.0f;
    }
    return true;
  });
}

// The query: for each user some items, given as rows; item -1 has no neighbours.
struct AverageProblem {
  const int64_t *target_offsets = nullptr;  // one more than users
  const int32_t *targets = nullptr;
  int64_t n_users = 0;
  int64_t n_neighbours = 0;
  double damping = 0;
  float *out = nullptr;  // one per target
};

// sum s r / (sum s + damping), starting with the most similar neighbour; 0 without neighbours.
struct DampedAverage {
  double total = 0, weight = 0;
  void add(float similarity, float residual) {
    total += double(similarity) * residual;
    weight += similarity;
  }
  float value(double damping) const { return weight > 0 ? float(total / (weight + damping)) : 0.0f; }
};

// The residuals of one user, looked up by item.
struct RatedItems {
  uint8_t *rated;
  float *residuals;
  void enter(const SparseRows &histories, int64_t user) {
    for (int64_t k = histories.offsets[user]; k < histories.offsets[user + 1]; ++k) {
      rated[histories.columns[k]] = 1;
      residuals[histories.columns[k]] = histories.values[k];
    }
  }
  void leave(const SparseRows &histories, int64_t user) {
    for (int64_t k = histories.offsets[user]; k < histories.offsets[user + 1]; ++k) rated[histories.columns[k]] = 0;
  }
};

// Memory of a worker for one user at a time.
struct RatedScratch {
  int64_t n_items, most;
  std::vector<uint8_t> rated;
  std::vector<float> residuals;
  std::vector<int64_t> hits;
  RatedScratch(int64_t workers, int64_t items, int64_t n_neighbours)
      : n_items(items),
        most(std::min(n_neighbours, items)),
        rated(size_t(workers * items)),
        residuals(size_t(workers * items)),
        hits(size_t(workers * most)) {}
  RatedItems items_of(int worker) { return {rated.data() + worker * n_items, residuals.data() + worker * n_items}; }
  int64_t *hits_of(int worker) { return hits.data() + worker * most; }
};

// Over the `wanted` items most similar to this one that were rated, or as many as there are among its neighbours. A
// neighbour out of range ends the list.
inline DampedAverage average_of_item(const SparseRows &neighbours, int64_t item, const RatedItems &own, int64_t wanted,
                                     int64_t *hits) {
  int64_t n_hits = 0;
  // Whether a neighbour was rated cannot be predicted: no branch depends on it.
  for (int64_t p = neighbours.offsets[item]; p < neighbours.offsets[item + 1] && n_hits < wanted; ++p) {
    const int32_t other = neighbours.columns[p];
    if (other < 0 || other >= neighbours.n_rows) break;
    hits[n_hits] = p;
    n_hits += own.rated[other];
  }
  DampedAverage average;
  for (int64_t k = 0; k < n_hits; ++k)
    average.add(neighbours.values[hits[k]], own.residuals[neighbours.columns[hits[k]]]);
  return average;
}

// Over the items most similar to the target that the user has rated. `neighbours` has the similar items of each item,
// best first; `histories` the residuals of each user.
inline void average_over_items(const AverageProblem &problem, const SparseRows &neighbours, const SparseRows &histories,
                               int threads) {
  const int64_t workers = workers_for(problem.n_users, threads);
  RatedScratch scratch(workers, neighbours.n_rows, problem.n_neighbours);
  parallel_for(problem.n_users, int(workers), [&](int64_t user, int worker) {
    RatedItems own = scratch.items_of(worker);
    own.enter(histories, user);
    const int64_t wanted = std::min(scratch.most, histories.offsets[user + 1] - histories.offsets[user]);
    for (int64_t t = problem.target_offsets[user]; t < problem.target_offsets[user + 1]; ++t) {
      const int64_t item = problem.targets[t];
      DampedAverage average;
      if (item >= 0) average = average_of_item(neighbours, item, own, wanted, scratch.hits_of(worker));
      problem.out[t] = average.value(problem.damping);
    }
    own.leave(histories, user);
  });
}

// The same for every item at once: out is users x items. `followers` is `neighbours` transposed: each rated item is
// passed to the items it is a neighbour of. Only items that get more than `wanted` must select, by searching their own
// list, which is short. False if an item is out of range.
inline bool average_over_items_of_all(const SparseRows &neighbours, const SparseRows &followers,
                                      const SparseRows &histories, int64_t n_neighbours, double damping, float *out,
                                      int threads) {
  const int64_t n_items = neighbours.n_rows, n_users = histories.n_rows, workers = workers_for(n_users, threads);
  if (!rows_within(followers.columns, followers.offsets[followers.n_rows], n_items)) return false;
  RatedScratch scratch(workers, n_items, n_neighbours);
  std::vector<DampedAverage> average_scratch(size_t(workers * n_items));
  std::vector<int32_t> count_scratch(size_t(workers * n_items));
  parallel_for(n_users, int(workers), [&](int64_t user, int worker) {
    DampedAverage *averages = average_scratch.data() + worker * n_items;
    int32_t *counts = count_scratch.data() + worker * n_items;
    std::fill(averages, averages + n_items, DampedAverage{});
    std::fill(counts, counts + n_items, 0);
    for (int64_t k = histories.offsets[user]; k < histories.offsets[user + 1]; ++k) {
      const int64_t rated = histories.columns[k];
      for (int64_t p = followers.offsets[rated]; p < followers.offsets[rated + 1]; ++p) {
        averages[followers.columns[p]].add(followers.values[p], histories.values[k]);
        ++counts[followers.columns[p]];
      }
    }
    RatedItems own = scratch.items_of(worker);
    own.enter(histories, user);
    for (int64_t item = 0; item < n_items; ++item) {
      if (counts[item] > scratch.most)
        averages[item] = average_of_item(neighbours, item, own, scratch.most, scratch.hits_of(worker));
      out[user * n_items + item] = averages[item].value(damping);
    }
    own.leave(histories, user);
  });
  return true;
}

// Over the raters of the target most similar to the user and above `least`. `similarities` is users x raters,
// `by_item` has the raters of each item with their residuals. False if a rater is out of range.
inline bool average_over_users(const AverageProblem &problem, const float *similarities, int64_t n_raters, float least,
                               const SparseRows &by_item, int threads) {
  struct Rater {
    Neighbour neighbour;
    float residual;
    bool operator<(const Rater &other) const { return neighbour < other.neighbour; }
  };
  int64_t largest = 0;
  for (int64_t item = 0; item < by_item.n_rows; ++item)
    largest = std::max(largest, by_item.offsets[item + 1] - by_item.offsets[item]);
  const int64_t workers = workers_for(problem.n_users, threads);
  std::vector<Rater> scratch(size_t(workers * largest));
  std::atomic<bool> good{true};
  parallel_for(problem.n_users, int(workers), [&](int64_t user, int worker) {
    const float *row = similarities + user * n_raters;
    Rater *found = scratch.data() + worker * largest;
    for (int64_t t = problem.target_offsets[user]; t < problem.target_offsets[user + 1]; ++t) {
      const int64_t item = problem.targets[t];
      const int64_t begin = item < 0 ? 0 : by_item.offsets[item], end = item < 0 ? 0 : by_item.offsets[item + 1];
      if (!rows_within(by_item.columns + begin, end - begin, n_raters)) {
        good = false;
        return;
      }
      int64_t n = 0;
      for (int64_t p = begin; p < end; ++p) {
        const int32_t rater = by_item.columns[p];
        if (row[rater] > least) found[n++] = {{-row[rater], rater}, by_item.values[p]};
      }
      const int64_t kept = std::min(n, problem.n_neighbours);
      if (kept < n) std::nth_element(found, found + kept, found + n);
      std::sort(found, found + kept);
      DampedAverage average;
      for (int64_t k = 0; k < kept; ++k) average.add(-found[k].neighbour.first, found[k].residual);
      problem.out[t] = average.value(problem.damping);
    }
  });
  return good;
}

// The same for every item at once: out is users x items. The raters are visited from the most similar on, and an item
// takes the first ones. `by_rater` has the residuals of each rater. False if an item is out of range.
inline bool average_over_users_of_all(const SparseRows &by_rater, const float *similarities, int64_t n_users,
                                      int64_t n_items, int64_t n_neighbours, float least, double damping, float *out,
                                      int threads) {
  const int64_t n_raters = by_rater.n_rows, workers = workers_for(n_users, threads);
  if (!rows_within(by_rater.columns, by_rater.offsets[n_raters], n_items)) return false;
  std::vector<Neighbour> neighbour_scratch(size_t(workers * n_raters));
  std::vector<DampedAverage> average_scratch(size_t(workers * n_items));
  std::vector<int32_t> missing_scratch(size_t(workers * n_items));
  parallel_for(n_users, int(workers), [&](int64_t user, int worker) {
    const float *row = similarities + user * n_raters;
    Neighbour *found = neighbour_scratch.data() + worker * n_raters;
    DampedAverage *averages = average_scratch.data() + worker * n_items;
    int32_t *missing = missing_scratch.data() + worker * n_items;
    std::fill(averages, averages + n_items, DampedAverage{});
    std::fill(missing, missing + n_items, int32_t(std::min(n_neighbours, n_raters)));
    int64_t n = 0;
    for (int64_t rater = 0; rater < n_raters; ++rater)
      if (row[rater] > least) found[n++] = {-row[rater], int32_t(rater)};
    std::sort(found, found + n);
    for (int64_t k = 0; k < n; ++k) {
      const int64_t rater = found[k].second;
      for (int64_t p = by_rater.offsets[rater]; p < by_rater.offsets[rater + 1]; ++p) {
        const int32_t item = by_rater.columns[p];
        if (missing[item] == 0) continue;
        --missing[item];
        averages[item].add(-found[k].first, by_rater.values[p]);
      }
    }
    for (int64_t item = 0; item < n_items; ++item) out[user * n_items + item] = averages[item].value(damping);
  });
  return true;
}

}  // namespace tastespace
