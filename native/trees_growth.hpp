// Growing of randomised k-d trees: every node splits its items at the median of a random one of the dimensions with
// most variance, so that trees differ.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "machine.hpp"
#include "random.hpp"

namespace tastespace {

struct ForestGrowth {
  int64_t n_items = 0, n_dimensions = 0;
  const float *points = nullptr;  // n_items x n_dimensions
  int64_t leaf_size = 0, candidates = 0;
  uint64_t key = 0;
};

// The shape of every tree over this number of leaves: the right child of each node, or -1 - leaf. The left child
// follows it.
inline void shape_tree(int64_t node, int64_t first_leaf, int64_t n_leaves, int32_t *branches) {
  if (n_leaves == 1) {
    branches[node] = int32_t(-1 - first_leaf);
    return;
  }
  const int64_t left = n_leaves / 2;
  branches[node] = int32_t(node + 2 * left);
  shape_tree(node + 1, first_leaf, left, branches);
  shape_tree(node + 2 * left, first_leaf + left, n_leaves - left, branches);
}

class TreeGrowth {
 public:
  TreeGrowth(const ForestGrowth &growth, int64_t tree, int32_t *order, int32_t *dimensions, float *thresholds)
      : growth_(growth),
        order_(order),
        dimensions_(dimensions),
        thresholds_(thresholds),
        stream_(random_stream(growth.key, uint64_t(tree))),
        pairs_(size_t(growth.n_items)),
        variances_(size_t(growth.n_dimensions)) {
    for (int64_t item = 0; item < growth.n_items; ++item) order_[item] = int32_t(item);
  }

  // Items begin..end in their order; all leaves but the last of the tree are full, so that padding is rare.
  void grow(int64_t node, int64_t begin, int64_t end, int64_t n_leaves) {
    dimensions_[node] = 0;
    thresholds_[node] = 0;
    if (n_leaves == 1) {
      std::sort(order_ + begin, order_ + end);
      return;
    }
    const int64_t left = n_leaves / 2, middle = begin + left * growth_.leaf_size;
    const int32_t dimension = drawn_dimension(begin, end);
    for (int64_t i = begin; i < end; ++i)
      pairs_[size_t(i)] = {growth_.points[int64_t(order_[i]) * growth_.n_dimensions + dimension], order_[i]};
    // By value and, at the same value, by item, so that equal items split as well.
    std::nth_element(pairs_.begin() + begin, pairs_.begin() + middle, pairs_.begin() + end);
    for (int64_t i = begin; i < end; ++i) order_[i] = pairs_[size_t(i)].second;
    dimensions_[node] = dimension;
    thresholds_[node] = pairs_[size_t(middle)].first;
    grow(node + 1, begin, middle, left);
    grow(node + 2 * left, middle, end, n_leaves - left);
  }

 private:
  // One of the few dimensions of highest variance, estimated from some of the items; never one without variance if
  // others have some.
  int32_t drawn_dimension(int64_t begin, int64_t end) {
    constexpr int64_t sample = 256;
    const int64_t n = std::min(sample, end - begin), n_dimensions = growth_.n_dimensions;
    std::vector<double> sums(size_t(n_dimensions), 0.0), squares(size_t(n_dimensions), 0.0);
    for (int64_t i = 0; i < n; ++i) {
      const float *point = growth_.points + int64_t(order_[begin + i * (end - begin) / n]) * n_dimensions;
      for (int64_t d = 0; d < n_dimensions; ++d) {
        sums[size_t(d)] += double(point[d]);
        squares[size_t(d)] += double(point[d]) * double(point[d]);
      }
    }
    for (size_t d = 0; d < size_t(n_dimensions); ++d)
      variances_[d] = {sums[d] / double(n) * sums[d] - squares[d], int32_t(d)};  // minus the variance: highest first
    const int64_t few = std::min(growth_.candidates, n_dimensions);
    std::partial_sort(variances_.begin(), variances_.begin() + few, variances_.end());
    int64_t differing = 1;
    while (differing < few && variances_[size_t(differing)].first < 0) ++differing;
    return variances_[size_t(TS_ISA::next(stream_) % uint64_t(differing))].second;
  }

  const ForestGrowth &growth_;
  int32_t *order_, *dimensions_;
  float *thresholds_;
  RandomStream stream_;
  std::vector<std::pair<float, int32_t>> pairs_;
  std::vector<std::pair<double, int32_t>> variances_;
};

// One tree per row of each output.
inline void grow_forest(const ForestGrowth &growth, int64_t n_trees, int64_t n_nodes, int64_t n_places,
                        int32_t *members, int32_t *dimensions, float *thresholds, int threads) {
  const int64_t n_leaves = (growth.n_items + growth.leaf_size - 1) / growth.leaf_size;
  parallel_for(n_trees, threads, [&](int64_t tree, int) {
    int32_t *order = members + tree * n_places;
    TreeGrowth grown(growth, tree, order, dimensions + tree * n_nodes, thresholds + tree * n_nodes);
    grown.grow(0, 0, growth.n_items, n_leaves);
    std::fill(order + growth.n_items, order + n_places, -1);
  });
}

// Splitting of groups of points by k-means: one level of a tree of clusters.

struct Splitting {
  int64_t n_dimensions = 0;       // with the last coordinate of all points, which is 1
  const float *points = nullptr;  // n_points x n_dimensions
  int64_t iterations = 0;
  bool by_order = false;  // equal parts in order, for points that k-means would not separate
  uint64_t key = 0;
  const int64_t *begins = nullptr;  // n_groups: the first place of a group's points
  const int64_t *ends = nullptr;    // n_groups: the place after them
  const int64_t *parts = nullptr;   // n_groups + 1: places of its parts
  int32_t *order = nullptr;         // rows of points, group by group; on return part by part
  float *centres = nullptr;         // one per part, n_dimensions - 1 each
  int64_t *sizes = nullptr;         // one per part; 0 where there are fewer
};

class GroupSplitting {
 public:
  GroupSplitting(const Splitting &splitting, int64_t group, int threads)
      : splitting_(splitting),
        stream_(random_stream(splitting.key, uint64_t(group))),
        n_parts_(splitting.parts[group + 1] - splitting.parts[group]),
        n_points_(splitting.ends[group] - splitting.begins[group]),
        rows_(splitting.order + splitting.begins[group]),
        sizes_(splitting.sizes + splitting.parts[group]),
        centres_(splitting.centres + splitting.parts[group] * (splitting.n_dimensions - 1)),
        threads_(threads) {}

  void split() {
    labels_.resize(size_t(n_points_));
    if (splitting_.by_order || !split_by_means())
      for (int64_t k = 0; k < n_points_; ++k) labels_[size_t(k)] = int32_t(k * n_parts_ / n_points_);
    move_centres(rows_, n_points_);
    std::vector<int64_t> places(size_t(n_parts_) + 1, 0);
    for (const int32_t label : labels_) ++places[size_t(label) + 1];
    for (int64_t part = 0; part < n_parts_; ++part) {
      sizes_[part] = places[size_t(part) + 1];
      places[size_t(part) + 1] += places[size_t(part)];
    }
    const std::vector<int32_t> before(rows_, rows_ + n_points_);
    for (int64_t k = 0; k < n_points_; ++k) rows_[places[size_t(labels_[size_t(k)])]++] = before[size_t(k)];
  }

 private:
  // Lloyd's iterations on a sample, then every point to its nearest centre; false if all of them have the same one.
  bool split_by_means() {
    constexpr int64_t sample_a_part = 256;
    const std::vector<int32_t> sample = drawn(rows_, n_points_, std::min(n_points_, sample_a_part * n_parts_));
    const int64_t n = int64_t(sample.size());
    const std::vector<int32_t> first = drawn(sample.data(), n, n_parts_);
    for (int64_t part = 0; part < n_parts_; ++part) put_at(part, first[size_t(part)]);
    for (int64_t step = 0; step < splitting_.iterations; ++step) {
      find_nearest(sample.data(), n);
      move_centres(sample.data(), n);
      for (int64_t part = 0; part < n_parts_; ++part)
        if (sizes_[part] == 0) put_at(part, sample[size_t(TS_ISA::next(stream_) % uint64_t(n))]);
    }
    find_nearest(rows_, n_points_);
    return std::any_of(labels_.begin(), labels_.end(), [&](int32_t label) { return label != labels_[0]; });
  }

  // A random one of each of several equal stretches.
  std::vector<int32_t> drawn(const int32_t *rows, int64_t n, int64_t wanted) {
    std::vector<int32_t> chosen(static_cast<size_t>(wanted));
    for (int64_t i = 0; i < wanted; ++i) {
      const int64_t begin = i * n / wanted, end = (i + 1) * n / wanted;
      chosen[size_t(i)] = rows[begin + int64_t(TS_ISA::next(stream_) % uint64_t(end - begin))];
    }
    return chosen;
  }

  void put_at(int64_t part, int32_t row) {
    const int64_t n_dimensions = splitting_.n_dimensions;
    std::copy_n(splitting_.points + int64_t(row) * n_dimensions, n_dimensions - 1,
                centres_ + part * (n_dimensions - 1));
  }

  void find_nearest(const int32_t *rows, int64_t n) {
    const int64_t n_dimensions = splitting_.n_dimensions;
    std::vector<float> centres(size_t(n_parts_ * n_dimensions));
    for (int64_t part = 0; part < n_parts_; ++part) {
      const float *from = centres_ + part * (n_dimensions - 1);
      float *to = std::copy_n(from, n_dimensions - 1, centres.data() + part * n_dimensions);
      double square = 0;
      for (int64_t d = 0; d < n_dimensions - 1; ++d) square += double(from[d]) * double(from[d]);
      *to = float(-0.5 * square);
    }
    const auto nearest = table().trees.nearest;
    constexpr int64_t share = 4096;
    parallel_for((n + share - 1) / share, threads_, [&](int64_t task, int) {
      const int64_t begin = task * share, end = std::min(n, begin + share);
      std::vector<float> panel(size_t(n_dimensions * scan_panel), 0.0f);
      nearest(splitting_.points, rows + begin, end - begin, n_dimensions, centres.data(), n_parts_, panel.data(),
              labels_.data() + begin);
    });
  }

  // Moves every centre to the mean of its points; one without points stays.
  void move_centres(const int32_t *rows, int64_t n) {
    const int64_t n_dimensions = splitting_.n_dimensions;
    std::vector<double> sums(size_t(n_parts_ * n_dimensions), 0.0);
    for (int64_t k = 0; k < n; ++k) {
      const float *point = splitting_.points + int64_t(rows[k]) * n_dimensions;
      double *sum = sums.data() + int64_t(labels_[size_t(k)]) * n_dimensions;
      for (int64_t d = 0; d < n_dimensions; ++d) sum[d] += double(point[d]);
    }
    for (int64_t part = 0; part < n_parts_; ++part) {
      const double *sum = sums.data() + part * n_dimensions, count = sum[n_dimensions - 1];
      sizes_[part] = int64_t(count);
      if (count == 0) continue;
      for (int64_t d = 0; d < n_dimensions - 1; ++d) centres_[part * (n_dimensions - 1) + d] = float(sum[d] / count);
    }
  }

  const Splitting &splitting_;
  RandomStream stream_;
  int64_t n_parts_, n_points_;
  int32_t *rows_;
  int64_t *sizes_;
  float *centres_;
  int threads_;
  std::vector<int32_t> labels_;
};

// Large groups one after the other, each by all threads, then the others side by side.
inline void split_groups(const Splitting &splitting, int64_t n_groups, int threads) {
  constexpr int64_t large = 1 << 16;
  std::vector<int64_t> small;
  for (int64_t group = 0; group < n_groups; ++group) {
    if (splitting.ends[group] - splitting.begins[group] < large)
      small.push_back(group);
    else
      GroupSplitting(splitting, group, threads).split();
  }
  parallel_for(int64_t(small.size()), threads,
               [&](int64_t task, int) { GroupSplitting(splitting, small[size_t(task)], 1).split(); });
}

}  // namespace tastespace
