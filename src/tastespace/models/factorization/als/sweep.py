"""Alternating least squares: each half-sweep minimises the loss exactly over one side.

    E = 1/2 sum_O (r - g - c_i - d_j - u_i.v_j)^2
        + 1/2 [lu sum w_i |u_i|^2 + lv sum w_j |v_j|^2 + lcu sum w_i c_i^2 + lcv sum w_j d_j^2]

with w a row's weight (see Weighting). A user's factors and bias are solved jointly with the item biases moved to
the target, and the other way round, so E never rises.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats
from tastespace.data.ratings import Ratings
from tastespace.inference.transition import Stats
from tastespace.models.base.resuming import Start
from tastespace.models.factorization import rows as row_kernel
from tastespace.models.factorization.rows import Factors, RatingBlock, RowPrior, solve_rows
from tastespace.parameters import check_int, check_number


@dataclass(frozen=True)
class Weighting:
    """How a row's penalty grows with its ratings: per_rating * n + base.

    Weighted-lambda is n (Zhou et al. 2008), plain is 1; n + base does better than either: like plain, it regularizes
    rows with few ratings, like weighted-lambda, also those with many.
    """

    per_rating: float
    base: float

    def of(self, counts: NDArray[Any]) -> NDArray[Any]:
        """The weight of each row; a row without ratings has that of one rating, so that it follows the prior."""
        return np.asarray(self.per_rating * np.maximum(counts, 1) + self.base)


WEIGHTINGS = {
    "blended": Weighting(per_rating=1.0, base=100.0),
    "weighted": Weighting(per_rating=1.0, base=0.0),
    "plain": Weighting(per_rating=0.0, base=1.0),
}


@dataclass(frozen=True)
class Strengths:
    """How strongly each block is shrunk to zero."""

    users: float
    items: float
    user_bias: float
    item_bias: float

    def __post_init__(self) -> None:
        # A NumPy number would change the type of arrays it is multiplied with.
        for block in fields(self):
            object.__setattr__(self, block.name, float(getattr(self, block.name)))

    @classmethod
    def tied(cls, strength: float) -> Strengths:
        """The same strength for all blocks."""
        return cls(strength, strength, strength, strength)

    def as_grid(self, n: int = 5, ratio: float = 1.7) -> dict[str, list[float]]:
        """A grid of values around the learned ones, as parameters of `ALS`: n for users and n for items.

        Geometric, upward from these: a point estimate needs more than draws do
        (docs/explanation/models/empirical-bayes.md).
        """
        check_int("n", n, least=1)
        check_number("ratio", ratio, above=1)
        steps = [ratio**step for step in range(n)]
        return {
            "user_regularization": [self.users * step for step in steps],
            "item_regularization": [self.items * step for step in steps],
        }


@dataclass(frozen=True)
class Penalty:
    """The regularization of a factorization: strengths, times the weight of a row."""

    strengths: Strengths
    weighting: Weighting

    def prior(self, of: str, n_factors: int, counts: NDArray[Any], dtype: Any) -> RowPrior:
        """The prior of one side, "users" or "items"."""
        own = self.strengths
        factors, bias = (own.users, own.user_bias) if of == "users" else (own.items, own.item_bias)
        precision, linear = factors * np.eye(n_factors, dtype=dtype), np.zeros((1, n_factors), dtype)
        return RowPrior(precision, linear, bias, scale=self.weighting.of(counts).astype(dtype))


START_SD = 0.1


@dataclass(frozen=True, eq=False)
class ALSState:
    """A state of ALS: a point for every user and item."""

    users: Factors
    items: Factors


@dataclass(frozen=True, eq=False)
class AlternatingLeastSquares:
    """One sweep: items given users, then users given items, so that users equal their fold-in."""

    by_user: RatingBlock
    by_item: RatingBlock
    n_factors: int
    penalty: Penalty
    has_biases: bool
    threads: int
    start_sd: float = START_SD
    item_moves: row_kernel.RowMoves = row_kernel.NORMAL_ROWS

    @classmethod
    def bind(
        cls, observed: Ratings, n_factors: int, penalty: Penalty, *, biases: bool, dtype: Any, threads: int
    ) -> AlternatingLeastSquares:
        """The transition for these ratings."""
        by_user, by_item = (RatingBlock.of(side, dtype, observed.mean) for side in (observed.by_user, observed.by_item))
        # Factors have the unit of the square root of a rating.
        start_sd = START_SD * (observed.standard_deviation or 1.0) ** 0.5
        return cls(by_user, by_item, n_factors, penalty, biases, threads, start_sd)

    @cached_property
    def user_prior(self) -> RowPrior:
        return self.penalty.prior("users", self.n_factors, self.by_user.side_counts, self.by_user.targets.dtype)

    @cached_property
    def item_prior(self) -> RowPrior:
        return self.penalty.prior("items", self.n_factors, self.by_item.side_counts, self.by_item.targets.dtype)

    def init(self, rng: Generator) -> ALSState:
        """Small random users (zero would be a fixed point); the first half-sweep places the items."""
        n_users, n_items = self.by_user.n_rows, self.by_item.n_rows
        width, dtype = self.n_factors, self.by_user.targets.dtype
        users = (rng.standard_normal((n_users, width), np.float32) * np.float32(self.start_sd)).astype(dtype)
        of_users, of_items = (np.zeros(n, dtype) if self.has_biases else None for n in (n_users, n_items))
        return ALSState(Factors(users, of_users), Factors(np.zeros((n_items, width), dtype), of_items))

    def from_items(self, items: Factors) -> ALSState:
        """The state with these items, and users fitted to them."""
        users = solve_rows(self.by_user, items, self.user_prior, name="user", threads=self.threads)
        return ALSState(users.points, items)

    def from_model(self, given: Start, rng: Generator) -> ALSState:
        """The state with the items of another model, in units of these ratings, and users fitted to them."""
        unit, root, dtype = self.by_item.scale, sqrt(self.by_item.scale), self.by_item.targets.dtype
        factors: AnyFloats = (given.factors(self.n_factors, self.start_sd * root, rng) / root).astype(dtype)
        return self.from_items(Factors(factors, (given.points.bias / unit).astype(dtype) if self.has_biases else None))

    def step(self, state: ALSState, rng: Generator) -> tuple[ALSState, Stats]:
        given = row_kernel.GivenRows("item", self.by_item, state.items, state.users, self.threads)
        items = self.item_moves.solved(given, self.item_prior)
        users = solve_rows(self.by_user, items, self.user_prior, name="user", threads=self.threads)
        # The users' minima hold the errors and their own penalty; only that of the items is missing.
        loss = float(users.minimum.sum()) + penalty_of(items, self.item_prior)
        return ALSState(users.points, items), {"loss": loss}


def penalty_of(points: Factors, prior: RowPrior) -> float:
    """1/2 sum over rows of scale * (precision |x|^2 + bias precision c^2), in double."""
    rows = np.einsum("nd,nd->n", points.factors @ prior.precision, points.factors, dtype=np.float64)
    if points.bias is not None:
        rows += prior.bias_precision * points.bias.astype(np.float64) ** 2
    return 0.5 * float(rows.sum() if prior.scale is None else rows @ prior.scale.astype(np.float64))
