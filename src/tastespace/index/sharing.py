"""Reductions that structures share: to find one of wide vectors takes longer than to build a structure over it."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from tastespace.arrays import FloatMatrix
from tastespace.index.exact import Exact
from tastespace.index.index import Index
from tastespace.index.reduced import INNER, Reduced


class SharedReductions:
    """Builds `Reduced` structures over the same vectors and queries; each reduction is found once."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], tuple[Reduced, float]] = {}

    def build(self, unbuilt: Reduced, vectors: FloatMatrix, queries: FloatMatrix) -> tuple[Index, float]:
        """What its own `build` would give, and the seconds that would have taken."""
        reduced, seconds = self._reduction(unbuilt, vectors, queries)
        begun = perf_counter()
        unbuilt.inner.threads = unbuilt.threads
        inner = unbuilt.inner.build(reduced.codes_).arrays()
        arrays = {**reduced.arrays(), **{INNER + name: array for name, array in inner.items()}}
        return unbuilt.restore(arrays, vectors), seconds + perf_counter() - begun

    def _reduction(self, like: Reduced, vectors: FloatMatrix, queries: FloatMatrix) -> tuple[Reduced, float]:
        """With a scan inside, which has no arrays of its own."""
        key = (like.reduction, like.n_coordinates, like.seed, vectors.shape)
        if key not in self._found:
            begun = perf_counter()
            reduced = replace(like, inner=Exact(threads=like.threads)).build(vectors, queries)
            self._found[key] = reduced, perf_counter() - begun
        return self._found[key]
