"""Items in cells around centres; a search looks at the best cells only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.index.index import Excluded, Neighbours, check_number, checked_vectors, n_bytes_of, panels_of, require
from tastespace.index.structures.common import Clusters, search_by_kernel
from tastespace.randomness import generator

PANEL = _native.SCAN_PANEL


@dataclass(kw_only=True)
class InvertedFile:
    """k-means cells: the items of the `probes` best of `n_cells` cells are scored, exactly; others are not seen.

    More probes find more of the best items, and take longer. None for as many cells as twice the root of the number of
    items: then finding the cells takes about as long as looking into them.
    """

    n_cells: int | None = None
    probes: int = 8
    seed: int = 0
    threads: int | None = None

    def build(self, vectors: FloatMatrix) -> Self:
        self.vectors_ = vectors = checked_vectors(vectors)
        self.n_items_, self.n_dimensions_ = vectors.shape
        self._check()
        wanted = max(1, round(2 * sqrt(self.n_items_))) if self.n_cells is None else self.n_cells
        n_threads = threads.resolve(self.threads)
        if self.n_items_ == 0:
            self.n_cells_ = 0
            return self
        clusters = Clusters.of(vectors, wanted, generator(self.seed), n_threads)
        self.n_cells_ = len(clusters.centres)
        self.centres_: FloatArray = panels_of(clusters.centres)
        counts = np.bincount(clusters.cells, minlength=self.n_cells_)
        self.first_panels_: OffsetArray = np.concatenate([[0], np.cumsum(-(-counts // PANEL))]).astype(np.int64)
        # The place of each item: behind those of its cell that come before it.
        order = np.argsort(clusters.cells, kind="stable")
        within = np.arange(self.n_items_) - np.repeat(np.cumsum(counts) - counts, counts)
        places = self.first_panels_[clusters.cells[order]] * PANEL + within
        self.members_: IntArray = np.full(self.first_panels_[-1] * PANEL, -1, np.int32)
        self.members_[places] = order
        placed = np.zeros((len(self.members_), self.n_dimensions_), np.float32)
        placed[places] = vectors[order]
        self.panels_: FloatArray = panels_of(placed)
        return self

    def _probes(self, allowed: NDArray[np.bool_] | None) -> int:
        """The cells to look into: more where fewer of their items count."""
        probes = self.probes
        if allowed is not None:
            probes = ceil(probes * self.n_items_ / max(np.count_nonzero(allowed), 1))
        return min(probes, self.n_cells_)

    def _check(self) -> None:
        check_number("probes", self.probes)
        if self.n_cells is not None:
            check_number("n_cells", self.n_cells)

    @property
    def description(self) -> str:
        return f"inverted file of {self.n_cells_} cells, {min(self.probes, self.n_cells_)} of them looked into"

    @property
    def n_bytes(self) -> int:
        return n_bytes_of(self.arrays())

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        if not self.n_cells_:
            return {}
        return {
            "centres": self.centres_,
            "first_panels": self.first_panels_,
            "members": self.members_,
            "panels": self.panels_,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        self._check()
        self.vectors_ = vectors = contiguous(vectors, np.float32)
        self.n_items_, self.n_dimensions_ = vectors.shape
        self.n_cells_ = len(arrays["first_panels"]) - 1 if arrays else 0
        require(bool(arrays) == bool(self.n_items_), "it has cells where there are no items, or none where there are")
        if not arrays:
            return self
        self.centres_ = contiguous(arrays["centres"], np.float32)
        self.first_panels_ = contiguous(arrays["first_panels"], np.int64)
        self.members_ = contiguous(arrays["members"], np.int32)
        self.panels_ = contiguous(arrays["panels"], np.float32)
        # The search does not look at each of them again.
        items = self.members_[self.members_ >= 0]
        require(len(items) == self.n_items_, f"{len(items)} items in cells, {self.n_items_} of the model")
        require(not self.n_items_ or int(items.max()) < self.n_items_, "items in cells that the model does not have")
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
            _native.search_cells,
            lambda: (self.centres_, self.first_panels_, self.panels_, self.members_),
            lambda: (self._probes(allowed),),
            queries,
            k,
            excluded,
            allowed,
        )
