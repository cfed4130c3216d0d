"""Randomised k-d trees over the items, searched together: the nearest leaves of all trees first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.index.index import Index
from tastespace.index.search import Arrays, Content, Neighbours, Search, panels_at, require
from tastespace.randomness import generator

PANEL = _native.SCAN_PANEL


class Forest(NamedTuple):
    """The content of a k-d forest; all trees have one shape, which follows from the number of leaves."""

    branches: IntArray  # nodes
    dimensions: IntArray  # trees x nodes
    thresholds: FloatMatrix  # trees x nodes
    panels: FloatArray  # trees x positions x dimensions, in panels
    members: IntArray  # trees x positions: the item of each; -1 for none


@dataclass(kw_only=True)
class KdForest(Index):
    """Trees that halve the items at a dimension drawn from the `candidates` of highest variance.

    A search descends every tree to the leaf of the query, then continues from the nearest branch not taken, in one
    queue for all trees, until `budget` items have been scored. An item reached by two trees counts once, an excluded
    one not at all. A budget of all items makes the search exact; one below k is k. More trees find more for the same
    budget, and take more memory: each has the items in the order of its leaves.
    """

    n_trees: int = 4
    leaf_size: int = 32
    budget: int = 2000
    candidates: int = 5
    seed: int = 0

    least: ClassVar = {"n_trees": 1, "leaf_size": 1, "budget": 1, "candidates": 1}

    def _check(self) -> None:
        super()._check()
        if self.leaf_size % PANEL:
            raise InvalidParameterError(f"leaf_size is {self.leaf_size}; expected a multiple of {PANEL}")

    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Forest:
        branches = self._branches(len(vectors))
        shape = (self.n_trees, len(branches))
        dimensions: IntArray = np.empty(shape, np.int32)
        thresholds: FloatMatrix = np.empty(shape, np.float32)
        members: IntArray = np.empty((self.n_trees, self._n_leaves(len(vectors)) * self.leaf_size), np.int32)
        points, seed, n_threads = (
            lifted(vectors),
            int(generator(self.seed).integers(2**63)),
            threads.resolve(self.threads),
        )
        _native.grow_forest(
            points, self.leaf_size, self.candidates, seed, members, dimensions, thresholds, threads=n_threads
        )
        panels: FloatArray = np.concatenate([panels_at(vectors, order) for order in members])
        return Forest(branches, dimensions, thresholds, panels, members.reshape(-1))

    def _n_leaves(self, n_items: int) -> int:
        return int(-(-n_items // self.leaf_size))

    def _branches(self, n_items: int) -> IntArray:
        branches: IntArray = np.empty(2 * self._n_leaves(n_items) - 1, np.int32)
        _native.shape_tree(branches)
        return branches

    def _describe(self, content: Content) -> str:
        looked = min(self.budget, content.n_items)
        return f"forest of {self.n_trees} k-d trees, {looked} of {content.n_items} items looked at"

    def _arrays(self, built: Forest) -> Arrays:
        return {name: array for name, array in built._asdict().items() if name != "branches"}

    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> Forest:
        kinds = {"dimensions": np.int32, "thresholds": np.float32, "panels": np.float32, "members": np.int32}
        n_items, n_dimensions = vectors.shape
        forest = Forest(self._branches(n_items), *(contiguous(arrays[name], kind) for name, kind in kinds.items()))
        # The search does not check them again.
        shape = (self.n_trees, len(forest.branches))
        n_places = self.n_trees * self._n_leaves(n_items) * self.leaf_size
        has_nodes = forest.dimensions.shape == forest.thresholds.shape == shape
        require(has_nodes, f"expected {shape[0]} trees of {shape[1]} nodes")
        require(forest.members.shape == (n_places,), f"{len(forest.members)} places in leaves, expected {n_places}")
        require(forest.panels.shape == (n_places * n_dimensions,), "items of another number of dimensions")
        are_known = int(forest.dimensions.min()) >= 0 and int(forest.dimensions.max()) <= n_dimensions
        require(are_known, "splits at dimensions that the model does not have")
        items = forest.members.reshape(self.n_trees, -1)
        are_known = int(items[:, :n_items].min()) >= 0 and int(items.max()) < n_items
        require(are_known, "items in leaves that the model does not have")
        return forest

    def _search(self, content: Content, search: Search) -> Neighbours:
        return search.run(_native.search_forest, content.built, content.n_items, (self.budget, self.leaf_size))


EQUAL = 1e-5  # norms that differ by less, relatively, are equal


def lifted(vectors: FloatMatrix) -> FloatMatrix:
    """Items mapped to the unit sphere, where the nearest have the largest inner product, as trees of distances need.

    Items are divided by the largest norm R. If norms differ, one more coordinate, the root of 1 - |v|^2 / R^2, lifts
    every item to the sphere. A query is scaled to length 1 and is 0 there: the nearest item then has the largest inner
    product with it.
    """
    squares = np.einsum("id,id->i", vectors, vectors, dtype=np.float64)
    if not np.isfinite(squares).all():
        raise NonFiniteStateError("an item has infinite or missing coordinates; expected finite numbers")
    largest = float(squares.max(initial=0.0))
    if largest == 0:
        return vectors  # all at the origin: none is nearer than another
    points = vectors / np.float32(np.sqrt(largest))
    # A relative difference of squares is about twice that of norms.
    if largest - float(squares.min()) <= 2 * EQUAL * largest:
        return points
    heights = np.sqrt(1 - squares / largest)
    return np.hstack([points, heights.astype(np.float32)[:, None]])
