"""A reduction that structures share: to find one of wide vectors takes longer than to build a structure over it."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from tastespace.arrays import FloatMatrix, contiguous
from tastespace.index.index import Index
from tastespace.index.reduced import INNER, Reduced
from tastespace.index.reduction import FOUND, Whitened
from tastespace.randomness import generator


class SharedReductions:
    """Builds `Reduced` structures over the same vectors and queries; coordinates are found once, and cut to size."""

    def __init__(self) -> None:
        # By seed and number of items, with the items in it and the seconds that took.
        self._found: dict[tuple[int, int], tuple[Whitened, FloatMatrix, float]] = {}

    def build(self, unbuilt: Reduced, vectors: FloatMatrix, queries: FloatMatrix) -> tuple[Index, float]:
        """What its own `build` would give, and the seconds that would have taken."""
        begun = perf_counter()
        if unbuilt.reduction != "whitened" or unbuilt.n_coordinates > FOUND:
            return unbuilt.build(vectors, queries), perf_counter() - begun
        whole, all_codes, seconds = self._whole(unbuilt.seed, vectors, queries)
        begun, n = perf_counter(), unbuilt.n_coordinates
        codes = contiguous(all_codes[:, :n], np.float32)
        unbuilt.inner.threads = unbuilt.threads
        inner = unbuilt.inner.build(codes).arrays()
        arrays = {**whole.first(n).arrays(), "codes": codes}
        built = unbuilt.restore(arrays | {INNER + name: array for name, array in inner.items()}, vectors)
        return built, seconds + perf_counter() - begun

    def _whole(self, seed: int, vectors: FloatMatrix, queries: FloatMatrix) -> tuple[Whitened, FloatMatrix, float]:
        key = (seed, len(vectors))
        if key not in self._found:
            begun = perf_counter()
            whole = Whitened.of(vectors, queries, FOUND, generator(seed))
            self._found[key] = whole, whole.items(vectors), perf_counter() - begun
        return self._found[key]
