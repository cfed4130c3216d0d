// Searches in trees: the items of leaves, nearest leaves first, until enough of them have been scored.
#pragma once

#include <cstdint>

namespace tastespace {

// Items are in panels as for the scan, and every leaf begins a panel; the rest of its last one is padding. The tree has
// points on the unit sphere, to which a query is scaled: then near means a large inner product.
struct LeavesProblem {
  int64_t n_items = 0, n_dimensions = 0, k = 0;
  int64_t budget = 0;                         // items to score; excluded ones are not counted
  const float *panels = nullptr;              // n_panels x n_dimensions x scan_panel
  const int32_t *members = nullptr;           // n_panels x scan_panel: rows of items, -1 for padding
  const float *queries = nullptr;             // n_queries x n_dimensions
  const int64_t *excluded_offsets = nullptr;  // n_queries + 1, or null
  const int32_t *excluded = nullptr;          // item rows
  const uint8_t *allowed = nullptr;           // one per item, or null for all
  int32_t *out_items = nullptr;               // n_queries x k, best first, -1 where there is none
  float *out_scores = nullptr;                // n_queries x k
};

// Trees of the same shape over the same items. The left child of a node follows it.
struct ForestProblem : LeavesProblem {
  int64_t n_trees = 0, n_nodes = 0, leaf_panels = 0, tree_panels = 0;
  const int32_t *branches = nullptr;    // n_nodes: the right child, or -1 - leaf
  const int32_t *dimensions = nullptr;  // n_trees x n_nodes: the split dimension; n_dimensions for the lifted one
  const float *thresholds = nullptr;    // n_trees x n_nodes: smaller values go left
};

struct ClusterNode {
  int32_t first;  // panel: of its children's centres, or of its items
  int32_t n;      // children; for a leaf, minus the number of its items
};

// A node is a place in the panels of centres; the children of a node begin a panel. The root is the first place.
struct ClusterTreeProblem : LeavesProblem {
  const ClusterNode *nodes = nullptr;  // n_nodes
  // n_nodes / scan_panel x (n_dimensions + 1) x scan_panel: the last coordinate is multiplied by a 1 of the query, so
  // that the nearest cluster has the largest product.
  const float *centres = nullptr;
};

// Everything one thread needs.
struct TreesWorkspace {
  float *point;     // n_dimensions + 1: the query in the coordinates of the tree
  uint64_t *queue;  // one per node of all trees
  int32_t *looked;  // two per leaf of all trees: what has been visited
  uint64_t *seen;   // a bit per item, all 0 between searches
};

struct TreesKernel {
  void (*search_forest)(const ForestProblem &, int64_t query, TreesWorkspace &);
  void (*search_clusters)(const ClusterTreeProblem &, int64_t query, TreesWorkspace &);
  // The nearest of some centres, the first in case of ties, for each of n rows of points. The last coordinate of
  // points is 1, that of centres minus half their square; panel has room for scan_panel points, and starts finite.
  void (*nearest)(const float *points, const int32_t *rows, int64_t n, int64_t n_dimensions, const float *centres,
                  int64_t n_centres, float *panel, int32_t *out);
};

}  // namespace tastespace
