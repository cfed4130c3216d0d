// Trees of items: the binding of growing and searching them.
#include <algorithm>
#include <vector>

#include "arguments.hpp"
#include "machine.hpp"
#include "trees_growth.hpp"

namespace tastespace {
namespace trees {
namespace {

// Memory of a thread, kept from one search to the next: a search of one query is shorter than a large allocation.
class Memory {
 public:
  TreesWorkspace workspace(int64_t n_dimensions, int64_t n_nodes, int64_t n_items) {
    if (size_t(n_dimensions) + 1 > point_.size()) point_.resize(size_t(n_dimensions) + 1);
    if (n_nodes > n_nodes_) {
      queue_.reset(new uint64_t[size_t(n_nodes)]);
      looked_.reset(new int32_t[2 * size_t(n_nodes)]);
      n_nodes_ = n_nodes;
    }
    const size_t words = (size_t(n_items) + 63) / 64;
    if (words > seen_.size()) seen_.assign(words, 0);
    return {point_.data(), queue_.get(), looked_.get(), seen_.data()};
  }

 private:
  std::vector<float> point_;
  int64_t n_nodes_ = 0;
  std::unique_ptr<uint64_t[]> queue_;
  std::unique_ptr<int32_t[]> looked_;
  std::vector<uint64_t> seen_;
};

template <class Problem>
void search_all(const Problem &problem, int64_t n_queries, int64_t n_nodes,
                void (*search)(const Problem &, int64_t, TreesWorkspace &), int threads) {
  nb::gil_scoped_release release;
  constexpr int64_t share = 16;
  parallel_for((n_queries + share - 1) / share, threads, [&](int64_t task, int) {
    thread_local Memory memory;
    TreesWorkspace space = memory.workspace(problem.n_dimensions, n_nodes, problem.n_items);
    for (int64_t q = task * share; q < std::min(n_queries, (task + 1) * share); ++q) search(problem, q, space);
  });
}

void fill_leaves(LeavesProblem &problem, Vector<const float> panels, Vector<const int32_t> members,
                 Matrix<const float> queries, int64_t n_items, int64_t budget, Matrix<int32_t> out_items,
                 Matrix<float> out_scores, OptionalVector<const int64_t> excluded_offsets,
                 OptionalVector<const int32_t> excluded, OptionalVector<const uint8_t> allowed) {
  const size_t n_queries = queries.shape(0);
  problem.n_items = n_items;
  problem.n_dimensions = int64_t(queries.shape(1));
  problem.k = int64_t(out_items.shape(1));
  problem.budget = budget;
  require(n_items > 0 && n_items <= INT32_MAX && budget > 0, "n_items and budget: above 0");
  require(members.size() % scan_panel == 0 && panels.size() == members.size() * size_t(problem.n_dimensions),
          "panels: items in panels of the queries' dimension; members: one per place");
  require(out_items.shape(0) == n_queries && out_scores.shape(0) == n_queries &&
              out_scores.shape(1) == out_items.shape(1) && problem.k > 0,
          "out: one row of k per query");
  require(has_size(allowed, size_t(n_items)), "allowed: one per item");
  require_excluded(excluded_offsets, excluded, int64_t(n_queries));
  problem.panels = panels.data();
  problem.members = members.data();
  problem.queries = queries.data();
  problem.excluded_offsets = pointer(excluded_offsets);
  problem.excluded = pointer(excluded);
  problem.allowed = pointer(allowed);
  problem.out_items = out_items.data();
  problem.out_scores = out_scores.data();
}

void search_forest(Vector<const int32_t> branches, Matrix<const int32_t> dimensions, Matrix<const float> thresholds,
                   Vector<const float> panels, Vector<const int32_t> members, Matrix<const float> queries,
                   int64_t n_items, int64_t budget, int64_t leaf_size, Matrix<int32_t> out_items,
                   Matrix<float> out_scores, OptionalVector<const int64_t> excluded_offsets,
                   OptionalVector<const int32_t> excluded, OptionalVector<const uint8_t> allowed, int threads) {
  tastespace::ForestProblem problem;
  fill_leaves(problem, panels, members, queries, n_items, budget, out_items, out_scores, excluded_offsets, excluded,
              allowed);
  problem.n_trees = int64_t(dimensions.shape(0));
  problem.n_nodes = int64_t(branches.size());
  const int64_t total = problem.n_trees * problem.n_nodes, n_leaves = (problem.n_nodes + 1) / 2;
  require(problem.n_trees > 0 && total <= INT32_MAX, "dimensions: one row per tree");
  require(int64_t(dimensions.size()) == total && int64_t(thresholds.size()) == total,
          "dimensions and thresholds: one per node");
  require(leaf_size > 0 && leaf_size % scan_panel == 0, "leaf_size: panels");
  problem.leaf_panels = leaf_size / scan_panel;
  problem.tree_panels = n_leaves * problem.leaf_panels;
  require(int64_t(members.size()) == problem.n_trees * problem.tree_panels * scan_panel &&
              n_items > (n_leaves - 1) * leaf_size && n_items <= n_leaves * leaf_size,
          "members: the leaves of all trees");
  problem.branches = branches.data();
  problem.dimensions = dimensions.data();
  problem.thresholds = thresholds.data();
  search_all(problem, int64_t(queries.shape(0)), total, tastespace::table().trees.search_forest, threads);
}

void search_clusters(Matrix<const int32_t> nodes, Vector<const float> centres, Vector<const float> panels,
                     Vector<const int32_t> members, Matrix<const float> queries, int64_t n_items, int64_t budget,
                     Matrix<int32_t> out_items, Matrix<float> out_scores,
                     OptionalVector<const int64_t> excluded_offsets, OptionalVector<const int32_t> excluded,
                     OptionalVector<const uint8_t> allowed, int threads) {
  static_assert(sizeof(tastespace::ClusterNode) == 2 * sizeof(int32_t));
  tastespace::ClusterTreeProblem problem;
  fill_leaves(problem, panels, members, queries, n_items, budget, out_items, out_scores, excluded_offsets, excluded,
              allowed);
  const int64_t n_nodes = int64_t(nodes.shape(0));
  require(n_nodes > 0 && n_nodes % scan_panel == 0 && nodes.shape(1) == 2, "nodes: in panels, two numbers each");
  require(int64_t(centres.size()) == n_nodes * (problem.n_dimensions + 1),
          "centres: in panels of one more than the queries' dimension");
  problem.nodes = reinterpret_cast<const tastespace::ClusterNode *>(nodes.data());
  problem.centres = centres.data();
  search_all(problem, int64_t(queries.shape(0)), n_nodes, tastespace::table().trees.search_clusters, threads);
}

void shape_tree(Vector<int32_t> branches) {
  require(branches.size() % 2 == 1 && branches.size() < size_t(INT32_MAX), "branches: one per node, an odd number");
  tastespace::shape_tree(0, 0, (int64_t(branches.size()) + 1) / 2, branches.data());
}

void grow_forest(Matrix<const float> points, int64_t leaf_size, int64_t candidates, uint64_t key,
                 Matrix<int32_t> members, Matrix<int32_t> dimensions, Matrix<float> thresholds, int threads) {
  tastespace::ForestGrowth growth;
  growth.n_items = int64_t(points.shape(0));
  growth.n_dimensions = int64_t(points.shape(1));
  growth.points = points.data();
  growth.leaf_size = leaf_size;
  growth.candidates = candidates;
  growth.key = key;
  require(growth.n_items > 0 && growth.n_items <= INT32_MAX && growth.n_dimensions > 0, "points: some");
  require(leaf_size > 0 && candidates > 0, "leaf_size and candidates: above 0");
  const int64_t n_leaves = (growth.n_items + leaf_size - 1) / leaf_size, n_trees = int64_t(members.shape(0));
  require(int64_t(members.shape(1)) == n_leaves * leaf_size, "members: full leaves");
  require(int64_t(dimensions.shape(0)) == n_trees && int64_t(thresholds.shape(0)) == n_trees &&
              int64_t(dimensions.shape(1)) == 2 * n_leaves - 1 && thresholds.shape(1) == dimensions.shape(1),
          "dimensions and thresholds: one per node of each tree");
  nb::gil_scoped_release release;
  tastespace::grow_forest(growth, n_trees, 2 * n_leaves - 1, n_leaves * leaf_size, members.data(), dimensions.data(),
                          thresholds.data(), threads);
}

void split_groups(Matrix<const float> points, Vector<const int64_t> begins, Vector<const int64_t> ends,
                  Vector<const int64_t> parts, int64_t iterations, bool by_order, uint64_t key, Vector<int32_t> order,
                  Matrix<float> centres, Vector<int64_t> sizes, int threads) {
  const size_t n_dimensions = points.shape(1), n_parts = sizes.size();
  require(n_dimensions > 1, "points: with a last coordinate of 1");
  const size_t n_groups = begins.size();
  require(ends.size() == n_groups && parts.size() == n_groups + 1, "begins, ends and parts: one per group");
  const int64_t *part = parts.data();
  require(part[0] == 0 && part[n_groups] == int64_t(n_parts), "parts: from 0 to the number of parts");
  int64_t place = 0;
  for (size_t group = 0; group < n_groups; ++group) {
    const int64_t begin = begins.data()[group], end = ends.data()[group];
    require(begin >= place && end <= int64_t(order.size()), "begins and ends: places of order, one after the other");
    require(part[group] < part[group + 1] && end - begin >= part[group + 1] - part[group],
            "parts: at least one per group, no more than its points");
    require(part[group + 1] - part[group] < 1 << 24, "parts: below 2^24 per group");
    place = end;
  }
  require(centres.shape(0) == n_parts && centres.shape(1) + 1 == n_dimensions, "centres: one per part");
  require(within(order.data(), order.size(), 0, int64_t(points.shape(0))), "order: rows of points");
  tastespace::Splitting splitting;
  splitting.n_dimensions = int64_t(n_dimensions);
  splitting.points = points.data();
  splitting.iterations = iterations;
  splitting.by_order = by_order;
  splitting.key = key;
  splitting.begins = begins.data();
  splitting.ends = ends.data();
  splitting.parts = part;
  splitting.order = order.data();
  splitting.centres = centres.data();
  splitting.sizes = sizes.data();
  nb::gil_scoped_release release;
  tastespace::split_groups(splitting, int64_t(n_groups), threads);
}

}  // namespace

void bind(nb::module_ &module) {
  define(module, "search_forest", &search_forest,
         {"branches"_a, "dimensions"_a, "thresholds"_a, "panels"_a, "members"_a, "queries"_a, "n_items"_a, "budget"_a,
          "leaf_size"_a, "out_items"_a, "out_scores"_a, by_name_only, "excluded_offsets"_a = none, "excluded"_a = none,
          "allowed"_a = none, "threads"_a = 1},
         "The best items of the leaves nearest to each query.");
  define(module, "search_clusters", &search_clusters,
         {"nodes"_a, "centres"_a, "panels"_a, "members"_a, "queries"_a, "n_items"_a, "budget"_a, "out_items"_a,
          "out_scores"_a, by_name_only, "excluded_offsets"_a = none, "excluded"_a = none, "allowed"_a = none,
          "threads"_a = 1},
         "The best items of the clusters nearest to each query.");
  define(module, "shape_tree", &shape_tree, {"branches"_a}, "The right child of each node, or -1 - leaf.");
  define(module, "grow_forest", &grow_forest,
         {"points"_a, "leaf_size"_a, "candidates"_a, "key"_a, "members"_a, "dimensions"_a, "thresholds"_a, by_name_only,
          "threads"_a = 1},
         "Randomised k-d trees over points, one per row of the outputs.");
  define(module, "split_groups", &split_groups,
         {"points"_a, "begins"_a, "ends"_a, "parts"_a, "iterations"_a, "by_order"_a, "key"_a, "order"_a, "centres"_a,
          "sizes"_a, by_name_only, "threads"_a = 1},
         "Split groups of points into parts by k-means; order comes back part by part.");
}

}  // namespace trees
}  // namespace tastespace
