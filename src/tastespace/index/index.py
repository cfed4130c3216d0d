"""What every index can do: find the items with the largest inner product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatMatrix, IntArray, OffsetArray


@dataclass(frozen=True, eq=False)
class Excluded:
    """Items that must not be found: a list for each query, ascending, between its offsets."""

    offsets: OffsetArray  # n_queries + 1
    items: IntArray


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The items of each query, best first; -1 and -inf where there are fewer than asked for."""

    items: IntArray  # n_queries x k
    scores: FloatMatrix  # n_queries x k


class Index(Protocol):
    """Larger is better, best first, always two-dimensional, padded with -1."""

    def build(self, vectors: FloatMatrix) -> Self: ...

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Neighbours: ...
