// Best-bin-first: down to the nearest leaf, branches not taken go into a queue, then on from its best.
#include <cmath>
#include <cstring>

#include "heap.hpp"
#include "machine.hpp"
#include "trees.hpp"

namespace tastespace::TS_ISA::trees {
namespace {

// Branches by distance, the nearest on top, ties by the lower node: one number per branch, with the key in its upper
// half, so that one comparison orders them.
struct Queue {
  uint64_t *entries;
  int64_t size;

  // Floats as integers in the same order: the bits of negative ones are inverted.
  TS_INLINE static uint64_t entry(float key, int32_t node) {
    uint32_t bits;
    std::memcpy(&bits, &key, sizeof bits);
    bits ^= (bits >> 31) ? 0xffffffffu : 0x80000000u;
    return uint64_t(bits) << 32 | ~uint32_t(node);
  }
  TS_INLINE static int32_t node(uint64_t entry) { return int32_t(~uint32_t(entry)); }
  TS_INLINE static float key(uint64_t entry) {
    uint32_t bits = uint32_t(entry >> 32);
    bits ^= (bits >> 31) ? 0x80000000u : 0xffffffffu;
    float key;
    std::memcpy(&key, &bits, sizeof key);
    return key;
  }

  TS_INLINE void push(uint64_t entry) {
    int64_t hole = size++;
    while (hole > 0 && entries[(hole - 1) / 2] < entry) {
      entries[hole] = entries[(hole - 1) / 2];
      hole = (hole - 1) / 2;
    }
    entries[hole] = entry;
  }

  TS_INLINE uint64_t pop() {
    const uint64_t best = entries[0], last = entries[--size];
    int64_t hole = 0;
    for (int64_t child = 1; child < size; child = 2 * hole + 1) {
      child += child + 1 < size && entries[child + 1] > entries[child];
      if (entries[child] <= last) break;
      entries[hole] = entries[child];
      hole = child;
    }
    entries[hole] = last;
    return best;
  }
};

// One search: the best found so far, and the number of items scored.
struct Search {
  const LeavesProblem &problem;
  TreesWorkspace &space;
  const float *query;
  Heap found;
  Queue queue;
  int64_t wanted, looked, n_looked;
  bool once;  // an item may be met again, or be excluded: see `seen`

  Search(const LeavesProblem &problem, int64_t row, TreesWorkspace &space, bool meets_again)
      : problem(problem),
        space(space),
        query(problem.queries + row * problem.n_dimensions),
        found{
            problem.out_scores + row * problem.k, problem.out_items + row * problem.k, 0, problem.k, nullptr, nullptr},
        queue{space.queue, 0},
        wanted(problem.budget < problem.k ? problem.k : problem.budget),
        looked(0),
        n_looked(0),
        once(meets_again || problem.allowed) {
    scale_query();
    if (!problem.excluded_offsets) return;
    found.excluded = problem.excluded + problem.excluded_offsets[row];
    found.excluded_end = problem.excluded + problem.excluded_offsets[row + 1];
    if (found.excluded == found.excluded_end) return;
    once = true;
    for (const int32_t *item = found.excluded; item < found.excluded_end; ++item)
      if (*item >= 0 && *item < problem.n_items) space.seen[*item >> 6] |= uint64_t(1) << (*item & 63);
  }

  TS_INLINE void scale_query() {
    double square = 0;
    for (int64_t d = 0; d < problem.n_dimensions; ++d) square += double(query[d]) * double(query[d]);
    const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
    for (int64_t d = 0; d < problem.n_dimensions; ++d) space.point[d] = float(double(query[d]) * scale);
  }

  TS_INLINE bool is_done() const { return looked >= wanted; }

  TS_CALLED void look_at(int64_t first, int64_t n) {
    const int64_t last = first + (n + scan_panel - 1) / scan_panel;
    if (once) {
      look_once(first, last, first * scan_panel + n);
      space.looked[2 * n_looked] = int32_t(first);
      space.looked[2 * n_looked + 1] = int32_t(n);
      ++n_looked;
      return;
    }
    each_panel(problem.panels, query, problem.n_dimensions, first, last,
               [&](const float *scores, int64_t place, int64_t size) {
                 if (!any_reaches(scores, size, found.threshold())) return;
                 for (int64_t i = 0; i < size; ++i)
                   // Not a number is never a recommendation: the comparison is false for it.
                   if (scores[i] >= found.threshold() && problem.members[place + i] >= 0)
                     found.offer({scores[i], problem.members[place + i]});
               });
    looked += n;
  }

  // For items that count only once, or not at all. Whether one was seen cannot be predicted: no branch depends on it.
  TS_INLINE void look_once(int64_t first, int64_t last, int64_t end) {
    each_panel(problem.panels, query, problem.n_dimensions, first, last,
               [&](const float *scores, int64_t place, int64_t size) {
                 const int64_t n = end - place < size ? end - place : size;
                 for (int64_t i = 0; i < n; ++i) {
                   const int32_t item = problem.members[place + i];
                   const uint64_t word = space.seen[item >> 6], bit = item & 63;
                   space.seen[item >> 6] = word | uint64_t(1) << bit;
                   int64_t counts = int64_t(~word >> bit & 1);
                   if (problem.allowed) counts &= problem.allowed[item] != 0;
                   looked += counts;
                   if (int(scores[i] >= found.threshold()) & int(counts)) found.offer({scores[i], item});
                 }
               });
  }

  void finish() {
    found.sort();
    if (!once) return;
    for (int64_t leaf = 0; leaf < n_looked; ++leaf) {
      const int32_t *items = problem.members + space.looked[2 * leaf] * scan_panel;
      for (int32_t i = 0; i < space.looked[2 * leaf + 1]; ++i) space.seen[items[i] >> 6] = 0;
    }
    for (const int32_t *item = found.excluded; item < found.excluded_end; ++item)
      if (*item >= 0 && *item < problem.n_items) space.seen[*item >> 6] = 0;
  }
};

// From a node of one of the trees down to the leaf that the query is in. What lies beyond a split is at least as far as
// the split, and further for every other one between.
TS_CALLED void descend(const ForestProblem &problem, Search &search, int64_t tree, int64_t node, float beyond) {
  const int32_t *dimensions = problem.dimensions + tree * problem.n_nodes;
  const float *thresholds = problem.thresholds + tree * problem.n_nodes;
  while (problem.branches[node] >= 0) {
    const float distance = search.space.point[dimensions[node]] - thresholds[node];
    const int64_t left = node + 1, right = problem.branches[node];
    const bool goes_left = distance < 0;
    const int64_t other = goes_left ? right : left;
    search.queue.push(Queue::entry(-(beyond + distance * distance), int32_t(tree * problem.n_nodes + other)));
    node = goes_left ? left : right;
  }
  const int64_t leaf = -1 - int64_t(problem.branches[node]);
  const int64_t first = leaf * problem.leaf_panels, left_over = problem.n_items - first * scan_panel;
  const int64_t room = problem.leaf_panels * scan_panel;
  search.look_at(tree * problem.tree_panels + first, left_over < room ? left_over : room);
}

void search_forest(const ForestProblem &problem, int64_t row, TreesWorkspace &space) {
  Search search(problem, row, space, problem.n_trees > 1);
  space.point[problem.n_dimensions] = 0;  // the query is not lifted
  for (int64_t tree = 0; tree < problem.n_trees && !search.is_done(); ++tree) descend(problem, search, tree, 0, 0);
  while (!search.is_done() && search.queue.size > 0) {
    const uint64_t best = search.queue.pop();
    const int64_t node = Queue::node(best);
    descend(problem, search, node / problem.n_nodes, node % problem.n_nodes, -Queue::key(best));
  }
  search.finish();
}

// The nearest child of a node; the others go into the queue.
TS_INLINE int32_t nearest_child(const ClusterTreeProblem &problem, Search &search, ClusterNode parent) {
  const int64_t last = parent.first + (parent.n + scan_panel - 1) / scan_panel;
  const int64_t end = parent.first * scan_panel + parent.n;
  uint64_t best = 0;
  each_panel(problem.centres, search.space.point, problem.n_dimensions + 1, parent.first, last,
             [&](const float *keys, int64_t place, int64_t size) {
               for (int64_t i = 0; i < size && place + i < end; ++i) {
                 const uint64_t entry = Queue::entry(keys[i], int32_t(place + i));
                 const uint64_t worse = entry < best ? entry : best;
                 best = entry < best ? best : entry;
                 if (worse) search.queue.push(worse);
               }
             });
  return Queue::node(best);
}

void search_clusters(const ClusterTreeProblem &problem, int64_t row, TreesWorkspace &space) {
  Search search(problem, row, space, false);
  space.point[problem.n_dimensions] = 1;
  for (int32_t node = 0;;) {
    while (problem.nodes[node].n > 0) node = nearest_child(problem, search, problem.nodes[node]);
    search.look_at(problem.nodes[node].first, -int64_t(problem.nodes[node].n));
    if (search.is_done() || search.queue.size == 0) break;
    node = Queue::node(search.queue.pop());
  }
  search.finish();
}

// The nearest centre so far of each of a panel of points, one lane each, as a float: a whole number below 2^24.
struct Nearest {
  Lanes<float> scores[registers], centres[registers];
};

// A few centres at a time: one alone would wait for its own sums.
template <int Centres>
TS_CALLED void compare(const float *TS_RESTRICT panel, const float *TS_RESTRICT centres, int64_t n_dimensions,
                       int64_t first, Nearest &nearest) {
  constexpr int width = width_of<float>;
  Lanes<float> sums[Centres][registers];
  for (int c = 0; c < Centres; ++c)
    for (int r = 0; r < registers; ++r) sums[c][r] = Lanes<float>{};
  for (int64_t d = 0; d < n_dimensions; ++d)
    for (int r = 0; r < registers; ++r) {
      const Lanes<float> points = load(panel + d * scan_panel + r * width);
      for (int c = 0; c < Centres; ++c) sums[c][r] += points * centres[c * n_dimensions + d];
    }
  for (int c = 0; c < Centres; ++c)
    for (int r = 0; r < registers; ++r) {
      nearest.centres[r] =
          where_larger<float>(sums[c][r], nearest.scores[r], filled(float(first + c)), nearest.centres[r]);
      nearest.scores[r] = where_larger<float>(sums[c][r], nearest.scores[r], sums[c][r], nearest.scores[r]);
    }
}

void nearest(const float *points, const int32_t *rows, int64_t n, int64_t n_dimensions, const float *centres,
             int64_t n_centres, float *panel, int32_t *out) {
  constexpr int together = 4;
  for (int64_t start = 0; start < n; start += scan_panel) {
    const int64_t n_filled = n - start < scan_panel ? n - start : scan_panel;
    for (int64_t i = 0; i < n_filled; ++i) {
      const float *point = points + int64_t(rows[start + i]) * n_dimensions;
      for (int64_t d = 0; d < n_dimensions; ++d) panel[d * scan_panel + i] = point[d];
    }
    Nearest found;
    for (int r = 0; r < registers; ++r) {
      found.scores[r] = filled(-HUGE_VALF);
      found.centres[r] = Lanes<float>{};
    }
    int64_t centre = 0;
    for (; centre + together <= n_centres; centre += together)
      compare<together>(panel, centres + centre * n_dimensions, n_dimensions, centre, found);
    for (; centre < n_centres; ++centre)
      compare<1>(panel, centres + centre * n_dimensions, n_dimensions, centre, found);
    float chosen[scan_panel];
    for (int r = 0; r < registers; ++r) store(chosen + r * width_of<float>, found.centres[r]);
    for (int64_t i = 0; i < n_filled; ++i) out[start + i] = int32_t(chosen[i]);
  }
}

}  // namespace

void fill(Table &table) { table.trees = {search_forest, search_clusters, nearest}; }

}  // namespace tastespace::TS_ISA::trees
