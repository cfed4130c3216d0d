"""Who is a neighbour, and how much a neighbour counts.

Between two items, sums are over the n users who rated both (between two users: over the items that both rated), x and y
are what the two got:

    cosine           s = sum x y / sqrt(sum x^2 * sum y^2) * n / (n + shrinkage), the sums of squares over all ratings
                     of each; x and y are what the baseline leaves
    pearson          the same with the sums of squares over common raters only
    adjusted-cosine  the same as pearson, but x and y are what the mean of the other side leaves: that of the user
                     between items, that of the item between users (Sarwar et al. 2001)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray
from tastespace.models.parameters import choice, number, whole_number

Similarity = Literal["cosine", "pearson", "adjusted-cosine"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "pearson", "adjusted-cosine")  # an artifact has the position


@dataclass(frozen=True)
class Rule:
    """The parameters that both neighbourhood models have."""

    similarity: Similarity
    n_neighbours: int
    shrinkage: float
    min_common: int
    min_similarity: float  # neighbours are above it
    damping: float

    def check(self) -> None:
        choice("similarity", self.similarity, SIMILARITIES)
        whole_number("n_neighbours", self.n_neighbours, least=1)
        number("shrinkage", self.shrinkage, least=0)
        whole_number("min_common", self.min_common, least=1)
        number("min_similarity", self.min_similarity, least=0, below=1)
        number("damping", self.damping, least=0)

    @property
    def common_norms(self) -> bool:
        """Whether sums of squares are over common ratings only."""
        return self.similarity != "cosine"

    def array(self) -> DoubleArray:
        """As an artifact keeps it."""
        kind = SIMILARITIES.index(self.similarity)
        numbers = (kind, self.n_neighbours, self.shrinkage, self.min_common, self.min_similarity, self.damping)
        return np.array(numbers, np.float64)

    @classmethod
    def from_array(cls, numbers: NDArray[Any]) -> Rule:
        kind, n_neighbours, shrinkage, min_common, min_similarity, damping = (float(value) for value in numbers)
        similarity = SIMILARITIES[int(kind)]
        return cls(similarity, int(n_neighbours), shrinkage, int(min_common), min_similarity, damping)
