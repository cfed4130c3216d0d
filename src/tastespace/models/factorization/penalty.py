"""Regularisation of a point estimate: how strongly, and how it grows with the ratings of a row."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.models.factorization.rows import RowPrior
from tastespace.models.parameters import number, whole_number


@dataclass(frozen=True)
class Weighting:
    """How a row's penalty grows with its ratings: per_rating * n + base.

    Weighted-lambda is n (Zhou et al. 2008), plain is 1; n + base does better than either: like plain, it holds
    rows with few ratings back, like weighted-lambda, it does not let go of those with many.
    """

    per_rating: float
    base: float

    def of(self, counts: NDArray[Any]) -> NDArray[Any]:
        """The weight of each row; a row without ratings has that of one, so that its answer is the prior's."""
        return np.asarray(self.per_rating * np.maximum(counts, 1) + self.base)


WEIGHTINGS = {
    "blended": Weighting(per_rating=1.0, base=100.0),
    "weighted": Weighting(per_rating=1.0, base=0.0),
    "plain": Weighting(per_rating=0.0, base=1.0),
}


@dataclass(frozen=True)
class Strengths:
    """How strongly each block is pulled to zero."""

    users: float
    items: float
    user_bias: float
    item_bias: float

    def __post_init__(self) -> None:
        # A number of numpy's would make arrays of its own type of those it is multiplied with.
        for block in fields(self):
            object.__setattr__(self, block.name, float(getattr(self, block.name)))

    @classmethod
    def tied(cls, strength: float) -> Strengths:
        """The same strength for all blocks."""
        return cls(strength, strength, strength, strength)

    def as_grid(self, n: int = 5, ratio: float = 1.7) -> dict[str, list[float]]:
        """Values to search around what was learned, as parameters of `ALS`: n of users and n of items.

        Geometric, upward from these: a point estimate wants more than draws do (docs/design/empirical-bayes.md).
        """
        whole_number("n", n, least=1)
        number("ratio", ratio, above=1)
        steps = [ratio**step for step in range(n)]
        return {
            "user_regularisation": [self.users * step for step in steps],
            "item_regularisation": [self.items * step for step in steps],
        }


@dataclass(frozen=True)
class Penalty:
    """The regularisation of a factorization: strengths, times the weight of a row."""

    strengths: Strengths
    weighting: Weighting

    def prior(self, of: str, n_factors: int, counts: NDArray[Any], dtype: Any) -> RowPrior:
        """The prior of one side, "users" or "items"."""
        strengths = self.strengths
        factors, bias = (
            (strengths.users, strengths.user_bias) if of == "users" else (strengths.items, strengths.item_bias)
        )
        return RowPrior(
            precision=factors * np.eye(n_factors, dtype=dtype),
            linear=np.zeros((1, n_factors), dtype),
            bias_precision=bias,
            scale=self.weighting.of(counts).astype(dtype),
        )
