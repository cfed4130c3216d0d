"""Randomised k-d trees over the items, searched together: nearest leaves of any of them first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.errors import InvalidParameterError
from tastespace.index.index import Excluded, Neighbours, check_number, checked_vectors, n_bytes_of, panels_of, require
from tastespace.index.structures.common import lifted, search_by_kernel
from tastespace.randomness import generator

PANEL = _native.SCAN_PANEL


@dataclass(kw_only=True)
class KdForest:
    """Trees that halve the items at a dimension drawn from the `candidates` of highest variance.

    A search goes down every tree to the leaf that the query is in, then on from the nearest branch of all that were
    passed by, in one queue for all trees, until `budget` items have been scored. An item that two trees lead to counts
    once, one that must not be found not at all. A budget of all items finds the best ones surely; one below k is k.
    More trees find more for the same budget, and take more memory: each has the items in the order of its leaves.
    """

    n_trees: int = 4
    leaf_size: int = 32
    budget: int = 2000
    candidates: int = 5
    seed: int = 0
    threads: int | None = None

    def build(self, vectors: FloatMatrix) -> Self:
        self._check()
        self.vectors_ = vectors = checked_vectors(vectors)
        self.n_items_, self.n_dimensions_ = vectors.shape
        if self.n_items_ == 0:
            return self
        points = lifted(vectors)
        self._shape()
        shape = (self.n_trees, len(self.branches_))
        self.dimensions_: IntArray = np.empty(shape, np.int32)
        self.thresholds_: FloatMatrix = np.empty(shape, np.float32)
        members: IntArray = np.empty((self.n_trees, self._n_leaves * self.leaf_size), np.int32)
        _native.grow_forest(
            points,
            self.leaf_size,
            self.candidates,
            int(generator(self.seed).integers(2**63)),
            members,
            self.dimensions_,
            self.thresholds_,
            threads=threads.resolve(self.threads),
        )
        self.members_: IntArray = members.reshape(-1)
        self.panels_: FloatArray = np.concatenate([panels_of(_placed(vectors, order)) for order in members])
        return self

    @property
    def _n_leaves(self) -> int:
        return int(-(-self.n_items_ // self.leaf_size))

    def _shape(self) -> None:
        """The shape of all trees follows from the number of leaves."""
        self.branches_: IntArray = np.empty(2 * self._n_leaves - 1, np.int32)
        _native.shape_tree(self.branches_)

    def _check(self) -> None:
        for name in ("n_trees", "leaf_size", "budget", "candidates"):
            check_number(name, getattr(self, name))
        if self.leaf_size % PANEL:
            raise InvalidParameterError(f"leaf_size is {self.leaf_size}; expected a multiple of {PANEL}")

    @property
    def description(self) -> str:
        looked = min(self.budget, self.n_items_)
        return f"forest of {self.n_trees} k-d trees, {looked} of {self.n_items_} items looked at"

    @property
    def n_bytes(self) -> int:
        return n_bytes_of(self.arrays()) + self.branches_.nbytes if self.n_items_ else 0

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        if not self.n_items_:
            return {}
        return {
            "dimensions": self.dimensions_,
            "thresholds": self.thresholds_,
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
        self._shape()
        self.dimensions_ = contiguous(arrays["dimensions"], np.int32)
        self.thresholds_ = contiguous(arrays["thresholds"], np.float32)
        self.members_ = contiguous(arrays["members"], np.int32)
        self.panels_ = contiguous(arrays["panels"], np.float32)
        # The search does not look at each of them again.
        shape = (self.n_trees, len(self.branches_))
        n_places = self.n_trees * self._n_leaves * self.leaf_size
        require(
            self.dimensions_.shape == self.thresholds_.shape == shape, f"expected {shape[0]} trees of {shape[1]} nodes"
        )
        require(self.members_.shape == (n_places,), f"{len(self.members_)} places in leaves, expected {n_places}")
        require(self.panels_.shape == (n_places * self.n_dimensions_,), "items of another number of dimensions")
        require(
            int(self.dimensions_.min()) >= 0 and int(self.dimensions_.max()) <= self.n_dimensions_,
            "splits at dimensions that the model does not have",
        )
        items = self.members_.reshape(self.n_trees, -1)
        require(
            int(items[:, : self.n_items_].min()) >= 0 and int(items.max()) < self.n_items_,
            "items in leaves that the model does not have",
        )
        return self

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
            _native.search_forest,
            lambda: (self.branches_, self.dimensions_, self.thresholds_, self.panels_, self.members_),
            lambda: (self.budget, self.leaf_size),
            queries,
            k,
            excluded,
            allowed,
        )


def _placed(vectors: FloatMatrix, members: IntArray) -> FloatMatrix:
    """Items in the order of places; zeros at those of none."""
    placed = vectors[members]
    placed[members < 0] = 0
    return placed
