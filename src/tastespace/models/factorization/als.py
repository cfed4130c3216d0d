"""Alternating least squares: each half-sweep minimises the loss exactly over one side.

    E = 1/2 sum_O (r - g - c_i - d_j - u_i.v_j)^2
        + 1/2 [lu sum w_i |u_i|^2 + lv sum w_j |v_j|^2 + lcu sum w_i c_i^2 + lcv sum w_j d_j^2]

with w a row's weight (see Weighting). A user's factors and bias are solved jointly with the item biases moved to
the target, and the other way round, so E never rises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.data.ratings import Ratings
from tastespace.inference.transition import Stats
from tastespace.models.factorization.moving import NORMAL_ROWS, RowMoves
from tastespace.models.factorization.penalty import Penalty
from tastespace.models.factorization.rows import Points, RowPrior, Side, solve_rows

START_SD = 0.1


@dataclass(frozen=True, eq=False)
class Factors:
    """A state of ALS: a point for every user and item."""

    users: Points
    items: Points


@dataclass(frozen=True, eq=False)
class AlternatingLeastSquares:
    """One sweep: items given users, then users given items, so that users end where a fold-in would put them."""

    by_user: Side
    by_item: Side
    user_prior: RowPrior
    item_prior: RowPrior
    has_biases: bool
    start_sd: float
    threads: int
    item_moves: RowMoves = NORMAL_ROWS

    @classmethod
    def bind(
        cls,
        observed: Ratings,
        n_factors: int,
        penalty: Penalty,
        *,
        biases: bool,
        dtype: Any,
        threads: int,
        item_moves: RowMoves = NORMAL_ROWS,
    ) -> AlternatingLeastSquares:
        """The transition for these ratings."""
        by_user, by_item = observed.by_user, observed.by_item
        return cls(
            by_user=Side.of(by_user, dtype, observed.mean),
            by_item=Side.of(by_item, dtype, observed.mean),
            user_prior=penalty.prior("users", n_factors, by_user.counts, dtype),
            item_prior=penalty.prior("items", n_factors, by_item.counts, dtype),
            has_biases=biases,
            # Factors have the unit of the square root of a rating.
            start_sd=START_SD * (observed.standard_deviation or 1.0) ** 0.5,
            threads=threads,
            item_moves=item_moves,
        )

    def init(self, rng: Generator) -> Factors:
        """Small random users (zero would be a fixed point); the first half-sweep places the items."""
        n_factors, dtype = len(self.user_prior.precision), self.user_prior.precision.dtype
        n_users, n_items = len(self.by_user.offsets) - 1, len(self.by_item.offsets) - 1
        users = (rng.standard_normal((n_users, n_factors), np.float32) * np.float32(self.start_sd)).astype(dtype)
        items = np.zeros((n_items, n_factors), dtype)
        if not self.has_biases:
            return Factors(Points(users), Points(items))
        return Factors(Points(users, np.zeros(n_users, dtype)), Points(items, np.zeros(n_items, dtype)))

    def from_items(self, items: Points) -> Factors:
        """Users where these items put them."""
        return Factors(
            solve_rows(self.by_user, items, self.user_prior, name="user", threads=self.threads).points, items
        )

    def step(self, state: Factors, rng: Generator) -> tuple[Factors, Stats]:
        items = self.item_moves.solved(
            self.by_item, state.users, self.item_prior, state.items, name="item", threads=self.threads
        )
        users = solve_rows(self.by_user, items, self.user_prior, name="user", threads=self.threads)
        # The users' minima hold the errors and their own penalty; only that of the items is missing.
        loss = float(users.minimum.sum()) + penalty_of(items, self.item_prior)
        return Factors(users.points, items), {"loss": loss}


def penalty_of(points: Points, prior: RowPrior) -> float:
    """1/2 sum over rows of scale * (precision |x|^2 + bias precision c^2), in double."""
    rows = np.einsum("nd,nd->n", points.factors @ prior.precision, points.factors, dtype=np.float64)
    if points.bias is not None:
        rows += prior.bias_precision * points.bias.astype(np.float64) ** 2
    return 0.5 * float(rows.sum() if prior.scale is None else rows @ prior.scale.astype(np.float64))
