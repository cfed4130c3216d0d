"""The exact scan: every item is scored, and no scores are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tastespace import _native
from tastespace.arrays import FloatArray, FloatMatrix, contiguous
from tastespace.index.index import Index
from tastespace.index.search import Arrays, Content, Neighbours, Search, panels_of


@dataclass(kw_only=True)
class Exact(Index):
    """Fused scan with one heap per query: the reference for every other index, and the fastest for small catalogues."""

    keeps_vectors: ClassVar[bool] = False  # The panels are the vectors in another order.

    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> tuple[FloatArray]:
        return (panels_of(vectors),)

    def _describe(self, content: Content) -> str:
        return "scan of all items"

    def _arrays(self, built: tuple[FloatArray]) -> Arrays:
        return {}  # Panels are fast to make.

    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> tuple[FloatArray]:
        return self._build(vectors, None)

    def _vectors(self, content: Content) -> FloatMatrix:
        if content.built is None:
            return np.zeros((0, self.n_dimensions_), np.float32)
        panels = content.built[0].reshape(-1, self.n_dimensions_, _native.SCAN_PANEL)
        return contiguous(panels.transpose(0, 2, 1).reshape(-1, self.n_dimensions_)[: content.n_items], np.float32)

    def _search(self, content: Content, search: Search) -> Neighbours:
        return search.run(_native.scan, content.built, content.n_items)
