"""Items in cells around centres; a search looks at the best cells only."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.errors import InvalidParameterError
from tastespace.index.clustering import Clusters
from tastespace.index.exact import prepared_queries
from tastespace.index.index import Excluded, Neighbours
from tastespace.index.panels import panels_of
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
        vectors = contiguous(vectors, np.float32)
        self.n_items_, self.n_dimensions_ = vectors.shape
        wanted = max(1, round(2 * sqrt(self.n_items_))) if self.n_cells is None else self.n_cells
        if wanted < 1 or self.probes < 1:
            raise InvalidParameterError(
                f"n_cells is {self.n_cells} and probes {self.probes}; expected at least 1 of each"
            )
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

    @property
    def n_bytes(self) -> int:
        """Of memory."""
        if not self.n_cells_:
            return 0
        parts: list[NDArray[Any]] = [self.centres_, self.first_panels_, self.members_, self.panels_]
        return sum(part.nbytes for part in parts)

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Neighbours:
        queries, found, optional = prepared_queries(queries, k, self.n_dimensions_, excluded, allowed)
        if len(queries) == 0 or self.n_cells_ == 0:
            return found
        _native.search_cells(
            self.centres_,
            self.first_panels_,
            self.panels_,
            self.members_,
            queries,
            self.n_items_,
            min(self.probes, self.n_cells_),
            found.items,
            found.scores,
            threads=threads.resolve(self.threads),
            **optional,
        )
        return found
