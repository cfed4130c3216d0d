"""Items in clusters of clusters; a search goes on from the nearest cluster that it has not been in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.index.index import Excluded, Neighbours, check_number, checked_vectors, n_bytes_of, panels_of, require
from tastespace.index.structures.common import lifted, search_by_kernel
from tastespace.randomness import generator

PANEL = _native.SCAN_PANEL
# A wide cluster reaches nearer than its centre: so much of its variance is taken off the square of its distance. So
# large clusters, whose centres lie deep inside the sphere, need not wait behind small ones that have less to offer.
SPREAD = 0.5
DEEPEST = 24  # levels by k-means; what is left then, such as outliers of outliers, is parted as it comes


@dataclass(kw_only=True)
class KMeansTree:
    """Every node has the items of one cluster, its children those of up to `branching` clusters of these.

    A search goes down to the nearest leaf, then on from the nearest cluster of all that were passed by, until `budget`
    items have been scored; items that must not be found do not count. A budget of all items finds the best ones surely;
    one below k is k. A leaf has `leaf_size` items at most; about half as many are aimed at.
    """

    branching: int = 32
    leaf_size: int = 96
    budget: int = 1000
    iterations: int = 10
    seed: int = 0
    threads: int | None = None

    def build(self, vectors: FloatMatrix) -> Self:
        self._check()
        self.vectors_ = vectors = checked_vectors(vectors)
        self.n_items_, self.n_dimensions_ = vectors.shape
        if self.n_items_ == 0:
            return self
        points = np.hstack([lifted(vectors), np.ones((self.n_items_, 1), np.float32)])
        levels, order = self._grown(points, threads.resolve(self.threads))
        self.counts_: IntArray = np.concatenate([level.counts for level in levels])
        self.nodes_: IntArray = _nodes(self.counts_)
        self.centres_: FloatArray = self._keys(np.concatenate([level.centres for level in levels]))
        self._place(vectors, np.concatenate([level.begins for level in levels]), order)
        return self

    def _grown(self, points: FloatMatrix, n_threads: int) -> tuple[list[_Level], IntArray]:
        """Level by level; the items of every leaf lie behind one another in the order that comes back."""
        rng = generator(self.seed)
        order: IntArray = np.arange(len(points), dtype=np.int32)
        levels = [_Level.of_root(points)]
        while (levels[-1].sizes > self.leaf_size).any():
            parent = levels[-1]
            groups = np.flatnonzero(parent.sizes > self.leaf_size)
            begins, sizes = parent.begins[groups], parent.sizes[groups]
            wanted = np.minimum(self.branching, -(-2 * sizes // self.leaf_size))
            parts: OffsetArray = np.concatenate([[0], np.cumsum(wanted)])
            part_sizes: OffsetArray = np.empty(parts[-1], np.int64)
            centres: FloatMatrix = np.empty((parts[-1], points.shape[1] - 1), np.float32)
            _native.split_groups(
                points,
                begins,
                begins + sizes,
                parts,
                self.iterations,
                len(levels) > DEEPEST,
                int(rng.integers(2**63)),
                order,
                centres,
                part_sizes,
                threads=n_threads,
            )
            levels.append(parent.split(groups, np.repeat(np.arange(len(groups)), wanted), part_sizes, centres))
        return levels, order

    def _keys(self, centres: FloatMatrix) -> FloatArray:
        """Centres as the search takes them: the nearest has the largest product with the query and 1.

        The square of a distance to a centre c is 1 - 2 q.c + |c|^2, the variance around it 1 - |c|^2. Where items
        are lifted the query is at 0: there a centre counts by its square only.
        """
        squares = np.einsum("nd,nd->n", centres, centres, dtype=np.float64)
        last = (-0.5 * (1 + SPREAD) * squares).astype(np.float32)
        return panels_of(np.hstack([centres[:, : self.n_dimensions_], last[:, None]]))

    def _place(self, vectors: FloatMatrix, begins: OffsetArray, order: IntArray) -> None:
        """The items of each leaf into panels of its own."""
        leaves, sizes = self._leaves()
        places = _runs(self.nodes_[leaves, 0].astype(np.int64) * PANEL, sizes)
        items = order[_runs(begins[leaves], sizes)]
        self.members_: IntArray = np.full(int(_panels(sizes).sum()) * PANEL, -1, np.int32)
        self.members_[places] = items
        placed = np.zeros((len(self.members_), self.n_dimensions_), np.float32)
        placed[places] = vectors[items]
        self.panels_: FloatArray = panels_of(placed)

    def _leaves(self) -> tuple[OffsetArray, OffsetArray]:
        """Which nodes they are, and how many items each has."""
        leaves = np.flatnonzero(self.counts_ < 0)
        return leaves, -self.counts_[leaves].astype(np.int64)

    def _check(self) -> None:
        for name in ("leaf_size", "budget", "iterations"):
            check_number(name, getattr(self, name))
        check_number("branching", self.branching, least=2)

    @property
    def description(self) -> str:
        looked = min(self.budget, self.n_items_)
        return f"k-means tree of branching {self.branching}, {looked} of {self.n_items_} items looked at"

    @property
    def n_bytes(self) -> int:
        return n_bytes_of(self.arrays()) + self.nodes_.nbytes if self.n_items_ else 0

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        if not self.n_items_:
            return {}
        return {
            "counts": self.counts_,
            "centres": self.centres_,
            "members": self.members_,
            "panels": self.panels_,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        self._check()
        self.vectors_ = vectors = contiguous(vectors, np.float32)
        self.n_items_, self.n_dimensions_ = vectors.shape
        require(bool(arrays) == bool(self.n_items_), "it has leaves where there are no items, or none where there are")
        if not arrays:
            return self
        self.counts_ = contiguous(arrays["counts"], np.int32)
        self.centres_ = contiguous(arrays["centres"], np.float32)
        self.members_ = contiguous(arrays["members"], np.int32)
        self.panels_ = contiguous(arrays["panels"], np.float32)
        self._check_restored()
        return self

    def _check_restored(self) -> None:
        """The search does not look at each of them again."""
        leaves, sizes = self._leaves()
        inner = np.flatnonzero(self.counts_ > 0)
        n_nodes = (1 + int(_panels(self.counts_[inner].astype(np.int64)).sum())) * PANEL
        n_places = int(_panels(sizes).sum()) * PANEL
        require(sizes.sum() == self.n_items_, f"{sizes.sum()} items in leaves, {self.n_items_} of the model")
        require(self.counts_.shape == (n_nodes,), f"{self.counts_.size} places of nodes, expected {n_nodes}")
        self.nodes_ = _nodes(self.counts_)
        require((self.nodes_[inner, 0] > inner // PANEL).all(), "nodes that are their own children")
        require(self.centres_.shape == (n_nodes * (self.n_dimensions_ + 1),), "centres of another number of dimensions")
        require(self.members_.shape == (n_places,), f"{self.members_.size} places in leaves, expected {n_places}")
        require(self.panels_.shape == (n_places * self.n_dimensions_,), "items of another number of dimensions")
        items = self.members_[_runs(self.nodes_[leaves, 0].astype(np.int64) * PANEL, sizes)]
        require(
            int(items.min()) >= 0 and int(self.members_.max()) < self.n_items_,
            "items in leaves that the model does not have",
        )

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Neighbours:
        return search_by_kernel(
            self,
            _native.search_clusters,
            lambda: (self.nodes_, self.centres_, self.panels_, self.members_),
            lambda: (self.budget,),
            queries,
            k,
            excluded,
            allowed,
        )


@dataclass(eq=False)
class _Level:
    """Nodes of one depth in panels, the children of every parent beginning one; a place without a node has no items."""

    sizes: OffsetArray  # items
    begins: OffsetArray  # where they begin in the order
    centres: FloatMatrix
    counts: IntArray  # children; of a leaf, less its items

    @classmethod
    def of_root(cls, points: FloatMatrix) -> _Level:
        sizes = np.zeros(PANEL, np.int64)
        sizes[0] = len(points)
        centres = np.zeros((PANEL, points.shape[1] - 1), np.float32)  # the way to the root is not chosen
        return cls(sizes, np.zeros(PANEL, np.int64), centres, -sizes.astype(np.int32))

    def split(self, groups: OffsetArray, group: OffsetArray, sizes: OffsetArray, centres: FloatMatrix) -> _Level:
        """The level below: the parts of some of these nodes, of which the empty ones are left out."""
        kept = sizes > 0
        group, sizes, centres = group[kept], sizes[kept], centres[kept]
        n_children = np.bincount(group, minlength=len(groups))
        self.counts[groups] = n_children
        firsts = np.cumsum(n_children) - n_children
        starts = np.cumsum(sizes) - sizes
        panels = _panels(n_children)
        places = (np.cumsum(panels) - panels)[group] * PANEL + np.arange(len(group)) - firsts[group]
        n_places = int(panels.sum()) * PANEL
        below = _Level(
            np.zeros(n_places, np.int64),
            np.zeros(n_places, np.int64),
            np.zeros((n_places, centres.shape[1]), np.float32),
            np.zeros(n_places, np.int32),
        )
        below.sizes[places] = sizes
        below.begins[places] = self.begins[groups][group] + starts - starts[firsts][group]
        below.centres[places] = centres
        below.counts[places] = -sizes
        return below


def _runs(begins: OffsetArray, sizes: OffsetArray) -> OffsetArray:
    """So many numbers from each beginning on."""
    return np.repeat(begins - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def _panels(counts: NDArray[Any]) -> NDArray[Any]:
    return -(-counts // PANEL)


def _nodes(counts: IntArray) -> IntArray:
    """For each node its first panel, of children or of items, and its count: both lie in the order of the nodes."""
    children, items = _panels(np.maximum(counts, 0)), _panels(np.maximum(-counts, 0))
    firsts = np.where(counts > 0, 1 + np.cumsum(children) - children, np.cumsum(items) - items)
    return contiguous(np.stack([firsts, counts], axis=1), np.int32)
