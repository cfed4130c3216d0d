// Growing of randomised k-d trees: every node splits its items at the median of one of the dimensions they differ in
// most, drawn by chance, so that trees differ.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallel.hpp"
#include "random_tables.hpp"

namespace tastespace {

struct ForestGrowth {
  int64_t n_items = 0, n_dimensions = 0;
  const float *points = nullptr;  // n_items x n_dimensions
  int64_t leaf_size = 0, candidates = 0;
  uint64_t key = 0;
};

// The shape of every tree over so many leaves: the right child of each node, or -1 - leaf. The left child follows it.
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
    // By value and, at the same value, by item: so items that are all the same split as well.
    std::nth_element(pairs_.begin() + begin, pairs_.begin() + middle, pairs_.begin() + end);
    for (int64_t i = begin; i < end; ++i) order_[i] = pairs_[size_t(i)].second;
    dimensions_[node] = dimension;
    thresholds_[node] = pairs_[size_t(middle)].first;
    grow(node + 1, begin, middle, left);
    grow(node + 2 * left, middle, end, n_leaves - left);
  }

 private:
  // One of the few dimensions of highest variance, by some of the items; never one without any if others have.
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
      variances_[d] = {sums[d] / double(n) * sums[d] - squares[d], int32_t(d)};  // less the variance: highest first
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

// One tree a row of each output.
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

}  // namespace tastespace
