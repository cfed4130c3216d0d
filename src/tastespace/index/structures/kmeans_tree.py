"""Items in clusters of clusters; a search continues from the nearest cluster not visited yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.index.index import Index
from tastespace.index.search import Arrays, Content, Neighbours, Search, panels_at, panels_of, require
from tastespace.index.structures.kd_forest import lifted
from tastespace.randomness import generator

PANEL = _native.SCAN_PANEL
# A wide cluster reaches nearer than its centre: this share of its variance is subtracted from its squared distance. So
# large clusters, whose centres lie deep inside the sphere, need not wait behind small ones that have less to offer.
SPREAD = 0.5
DEEPEST = 24  # levels by k-means; the rest, such as outliers of outliers, is split in order


class Tree(NamedTuple):
    """The content of a k-means tree; nodes are in panels, and the children of each node begin a panel."""

    nodes: IntArray  # the first panel of each, of children or of items, and its count
    centres: FloatArray  # in panels
    panels: FloatArray
    members: IntArray  # the item at each position of the panels; -1 for none


@dataclass(kw_only=True)
class KMeansTree(Index):
    """Every node has the items of one cluster, its children those of up to `branching` clusters of these.

    A search descends to the nearest leaf, then continues from the nearest cluster not taken, until `budget` items have
    been scored; excluded items do not count. A budget of all items makes the search exact; one below k is k. A leaf has
    at most `leaf_size` items, and about half as many on average.
    """

    branching: int = 32
    leaf_size: int = 96
    budget: int = 1000
    iterations: int = 10
    seed: int = 0

    least: ClassVar = {"branching": 2, "leaf_size": 1, "budget": 1, "iterations": 1}

    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Tree:
        points = np.hstack([lifted(vectors), np.ones((len(vectors), 1), np.float32)])
        levels, order = self._grown(points, threads.resolve(self.threads))
        nodes = _nodes(np.concatenate([level.counts for level in levels]))
        centres = _keys(np.concatenate([level.centres for level in levels]), vectors.shape[1])
        # The items of each leaf into panels of its own.
        leaves, sizes = _leaves(nodes)
        places = _runs(nodes[leaves, 0].astype(np.int64) * PANEL, sizes)
        members: IntArray = np.full(int(_panels(sizes).sum()) * PANEL, -1, np.int32)
        members[places] = order[_runs(np.concatenate([level.begins for level in levels])[leaves], sizes)]
        return Tree(nodes, centres, panels_at(vectors, members), members)

    def _grown(self, points: FloatMatrix, n_threads: int) -> tuple[list[_Level], IntArray]:
        """Grow the tree level by level; the items of every leaf are contiguous in the order returned."""
        rng = generator(self.seed)
        order: IntArray = np.arange(len(points), dtype=np.int32)
        size, none = np.zeros(PANEL, np.int64), np.zeros(PANEL, np.int64)
        size[0] = len(points)
        centres = np.zeros((PANEL, points.shape[1] - 1), np.float32)  # the way to the root is not chosen
        levels = [_Level(size, none, centres, -size.astype(np.int32))]
        while (levels[-1].sizes > self.leaf_size).any():
            parent = levels[-1]
            groups = np.flatnonzero(parent.sizes > self.leaf_size)
            begins, sizes = parent.begins[groups], parent.sizes[groups]
            wanted = np.minimum(self.branching, -(-2 * sizes // self.leaf_size))
            parts: OffsetArray = np.concatenate([[0], np.cumsum(wanted)])
            found: OffsetArray = np.empty(parts[-1], np.int64)  # sizes of the parts
            centres = np.empty((parts[-1], points.shape[1] - 1), np.float32)
            ends, is_deep, seed = begins + sizes, len(levels) > DEEPEST, int(rng.integers(2**63))
            _native.split_groups(
                points, begins, ends, parts, self.iterations, is_deep, seed, order, centres, found, threads=n_threads
            )
            levels.append(parent.split(groups, np.repeat(np.arange(len(groups)), wanted), found, centres))
        return levels, order

    def _describe(self, content: Content) -> str:
        looked = min(self.budget, content.n_items)
        return f"k-means tree of branching {self.branching}, {looked} of {content.n_items} items looked at"

    def _arrays(self, built: Tree) -> Arrays:
        counts = contiguous(built.nodes[:, 1], np.int32)
        return {"counts": counts, "centres": built.centres, "members": built.members, "panels": built.panels}

    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> Tree:
        kinds = {"centres": np.float32, "panels": np.float32, "members": np.int32}
        counts = contiguous(arrays["counts"], np.int32)
        tree = Tree(_nodes(counts), *(contiguous(arrays[name], kind) for name, kind in kinds.items()))
        # The search does not check them again.
        n_items, n_dimensions = vectors.shape
        leaves, sizes = _leaves(tree.nodes)
        inner = np.flatnonzero(counts > 0)
        n_nodes = (1 + int(_panels(counts[inner].astype(np.int64)).sum())) * PANEL
        n_places = int(_panels(sizes).sum()) * PANEL
        require(sizes.sum() == n_items, f"{sizes.sum()} items in leaves, {n_items} of the model")
        require(counts.shape == (n_nodes,), f"{counts.size} places of nodes, expected {n_nodes}")
        require((tree.nodes[inner, 0] > inner // PANEL).all(), "nodes that are their own children")
        require(tree.centres.shape == (n_nodes * (n_dimensions + 1),), "centres of another number of dimensions")
        require(tree.members.shape == (n_places,), f"{tree.members.size} places in leaves, expected {n_places}")
        require(tree.panels.shape == (n_places * n_dimensions,), "items of another number of dimensions")
        places = _runs(tree.nodes[leaves, 0].astype(np.int64) * PANEL, sizes)
        are_known = int(tree.members[places].min()) >= 0 and int(tree.members.max()) < n_items
        require(are_known, "items in leaves that the model does not have")
        return tree

    def _search(self, content: Content, search: Search) -> Neighbours:
        return search.run(_native.search_clusters, content.built, content.n_items, (self.budget,))


def _keys(centres: FloatMatrix, n_dimensions: int) -> FloatArray:
    """Centres as the search takes them: the nearest has the largest product with the query and 1.

    The square of a distance to a centre c is 1 - 2 q.c + |c|^2, the variance around it 1 - |c|^2. In the added
    coordinate of lifted items the query is 0: there a centre counts by its square only.
    """
    squares = np.einsum("nd,nd->n", centres, centres, dtype=np.float64)
    last = (-0.5 * (1 + SPREAD) * squares).astype(np.float32)
    return panels_of(np.hstack([centres[:, :n_dimensions], last[:, None]]))


def _leaves(nodes: IntArray) -> tuple[OffsetArray, OffsetArray]:
    """The leaves, and the number of items of each."""
    leaves = np.flatnonzero(nodes[:, 1] < 0)
    return leaves, -nodes[leaves, 1].astype(np.int64)


@dataclass(eq=False)
class _Level:
    """Nodes of one depth in panels; the children of every parent begin a panel, and empty positions have no items."""

    sizes: OffsetArray  # items
    begins: OffsetArray  # where they begin in the order
    centres: FloatMatrix
    counts: IntArray  # children; of a leaf, less its items

    def split(self, groups: OffsetArray, group: OffsetArray, sizes: OffsetArray, centres: FloatMatrix) -> _Level:
        """The level below: the non-empty parts of some of these nodes."""
        kept = sizes > 0
        group, sizes, centres = group[kept], sizes[kept], centres[kept]
        n_children = np.bincount(group, minlength=len(groups))
        self.counts[groups] = n_children
        firsts = np.cumsum(n_children) - n_children
        starts = np.cumsum(sizes) - sizes
        panels = _panels(n_children)
        places = (np.cumsum(panels) - panels)[group] * PANEL + np.arange(len(group)) - firsts[group]
        begins = self.begins[groups][group] + starts - starts[firsts][group]

        def placed(values: NDArray[Any]) -> NDArray[Any]:
            found = np.zeros((int(panels.sum()) * PANEL, *values.shape[1:]), values.dtype)
            found[places] = values
            return found

        return _Level(placed(sizes), placed(begins), placed(centres), placed(-sizes.astype(np.int32)))


def _runs(begins: OffsetArray, sizes: OffsetArray) -> OffsetArray:
    """`sizes` consecutive numbers from each beginning."""
    return np.repeat(begins - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def _panels(counts: NDArray[Any]) -> NDArray[Any]:
    return -(-counts // PANEL)


def _nodes(counts: IntArray) -> IntArray:
    """The first panel of each node, of children or of items, and its count; both in the order of the nodes."""
    children, items = _panels(np.maximum(counts, 0)), _panels(np.maximum(-counts, 0))
    firsts = np.where(counts > 0, 1 + np.cumsum(children) - children, np.cumsum(items) - items)
    return contiguous(np.stack([firsts, counts], axis=1), np.int32)
