"""The hyper-parameters that empirical Bayes learns: precisions of the prior of each block, and of the noise.

    u_i ~ N(0, 1/(lam_u w_i)),  v_j ~ N(0, 1/(lam_v w_j)),  c_i ~ N(0, 1/(lam_c w_i)),  d_j ~ N(0, 1/(lam_d w_j))
    r_ij ~ N(g + c_i + d_j + u_i . v_j, 1/alpha)

with w the weight of a row (see `Weighting`). The loss of ALS is -log of their density over alpha, so that its strengths
are lam / alpha. Ratings are modelled in units of their standard deviation s; then factors are smaller by sqrt(s) and
biases by s, so that a precision of factors is s times, one of biases or noise s^2 times that in units of the ratings.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.models.factorization.penalty import Strengths


@dataclass(frozen=True)
class Precisions:
    """One of each block; those of biases are 0 where there are none."""

    users: float
    items: float
    user_bias: float
    item_bias: float
    noise: float

    @classmethod
    def of_strengths(cls, strengths: Strengths, noise: float) -> Precisions:
        """Those that make ALS with these strengths the most probable point, in the same units."""
        users, items, user_bias, item_bias = (noise * strength for strength in astuple(strengths))
        return cls(users, items, user_bias, item_bias, noise)

    @property
    def factors(self) -> float:
        """The geometric mean of users and items: only their product is identified."""
        return float(np.sqrt(self.users * self.items))

    @property
    def strengths(self) -> Strengths:
        """As ALS has them, in the same units."""
        blocks = (self.users, self.items, self.user_bias, self.item_bias)
        return Strengths(*(block / self.noise for block in blocks))

    def in_ratings(self, scale: float) -> Precisions:
        """In units of ratings, from those of their standard deviation."""
        return Precisions(
            self.users / scale,
            self.items / scale,
            self.user_bias / scale**2,
            self.item_bias / scale**2,
            self.noise / scale**2,
        )

    def array(self) -> DoubleArray:
        return np.array(astuple(self))


@dataclass(frozen=True)
class Coordinates:
    """Precisions as the logarithms that are searched, one a name.

    Tied, users and items have one precision for both. That is no restriction: u a, v / a makes the same ratings of any
    two with the same product.
    """

    is_tied: bool
    has_biases: bool

    @property
    def names(self) -> tuple[str, ...]:
        factors = ("factors",) if self.is_tied else ("users", "items")
        return (*factors, *(("user bias", "item bias") if self.has_biases else ()), "noise")

    def logarithms(self, precisions: Precisions) -> DoubleArray:
        values = [precisions.factors] if self.is_tied else [precisions.users, precisions.items]
        values += [precisions.user_bias, precisions.item_bias] if self.has_biases else []
        return np.log([*values, precisions.noise])

    def precisions(self, logarithms: DoubleArray) -> Precisions:
        values = np.exp(logarithms).tolist()
        users, items = (values[0], values[0]) if self.is_tied else values[:2]
        user_bias, item_bias = values[-3:-1] if self.has_biases else (0.0, 0.0)
        return Precisions(users, items, user_bias, item_bias, values[-1])
