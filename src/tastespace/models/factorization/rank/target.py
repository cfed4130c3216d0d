"""The target of reversible jumps: users and items with k factors, k unknown.

    rating = g + scale (c_i + d_j + u_i . v_j + noise),   noise ~ N(0, 1 / alpha)
    entries of u_i ~ N(0, 1 / lam_u), of v_j ~ N(0, 1 / lam_v), c_i ~ N(0, 1 / lam_c), d_j ~ N(0, 1 / lam_d)
    k uniform on 1 ... k_max

At temperature T every precision is divided by T:

    log p_T(k, U, V, c, d) = -alpha / (2 T) sum e^2 + k N / 2 log(lam_u / (2 pi T)) - lam_u / (2 T) |U|^2
                             + (the same of V, c and d) - log k_max

The normalisers depend on k: without them each new factor would change the density by (lam / (2 pi T))^((N + M) / 2)
(Dey and Jhamb 2018, eq. 6, have none). That of the noise does not, but is included as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import log, pi
from typing import Literal

import numpy as np
from numpy.random import Generator

from tastespace.arrays import AnyFloats, DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers.target import positive
from tastespace.models.factorization.likelihoods.base import Observations, row_sums, squared_errors
from tastespace.models.factorization.rows import Axis, Factors, GivenRows, RatingBlock, RowPrior, draw_rows, row_scores


@dataclass(frozen=True)
class Precisions:
    """The hyper-parameters, at T = 1 and in units of the ratings' standard deviation."""

    users: float = 1.0  # lam_u
    items: float = 1.0  # lam_v
    noise: float = 2.0  # alpha; 0 for a constant likelihood
    user_biases: float = 4.0  # lam_c
    item_biases: float = 4.0  # lam_d

    def at(self, temperature: float) -> Precisions:
        """All of them divided by the temperature."""
        return Precisions(**{name: value / temperature for name, value in vars(self).items()})


@dataclass(frozen=True, eq=False)
class RankState:
    """A point of one of the spaces, and the temperature."""

    users: Factors
    items: Factors
    precisions: Precisions
    temperature: float = 1.0

    @property
    def rank(self) -> int:
        return int(self.users.factors.shape[1])

    @property
    def tempered(self) -> Precisions:
        """The precisions at this temperature."""
        return self.precisions.at(self.temperature)

    def with_factors(self, users: AnyFloats, items: AnyFloats) -> RankState:
        """The state with other factors, whose columns give the rank; the biases stay."""
        users, items = np.ascontiguousarray(users), np.ascontiguousarray(items)
        return replace(self, users=Factors(users, self.users.bias), items=Factors(items, self.items.bias))

    def turned(self, matrix: DoubleArray) -> RankState:
        """The columns of both sides mapped by this matrix."""
        return self.with_factors(self.users.factors @ matrix, self.items.factors @ matrix)

    def widened(self, users: DoubleArray, items: DoubleArray) -> RankState:
        """The state with more columns, after the existing ones."""
        return self.with_factors(np.hstack([self.users.factors, users]), np.hstack([self.items.factors, items]))

    def narrowed(self, rank: int) -> RankState:
        """The state with the first columns only."""
        return self.with_factors(self.users.factors[:, :rank], self.items.factors[:, :rank])

    def blocks(self, precisions: Precisions) -> list[tuple[float, AnyFloats]]:
        """The blocks that are normal around 0, each with its precision."""
        found = [
            (precisions.users, self.users.factors),
            (precisions.items, self.items.factors),
            (precisions.user_biases, self.users.bias),
            (precisions.item_biases, self.items.bias),
        ]
        return [(precision, values) for precision, values in found if values is not None]


@dataclass(frozen=True, eq=False)
class RankTarget:
    """The density of a state given ratings."""

    observed: Observations
    max_rank: int  # k_max

    @classmethod
    def of(cls, ratings: Ratings, max_rank: int) -> RankTarget:
        """The target for ratings, in double, centred, in units of their standard deviation."""
        offset, scale = ratings.mean, ratings.standard_deviation or 1.0
        return cls(Observations.of(ratings, np.float64, offset, scale), max_rank)

    @property
    def n_users(self) -> int:
        return len(self.observed.by_user.offsets) - 1

    @property
    def n_items(self) -> int:
        return len(self.observed.by_item.offsets) - 1

    def errors(self, state: RankState) -> DoubleArray:
        """The error of each rating, in the order of the users."""
        side = self.observed.by_user
        standard = (side.targets - side.offset) / side.scale
        return np.asarray(standard - row_scores(side, state.users, state.items), np.float64)

    def squares(self, state: RankState) -> float:
        """The sum of the squared errors."""
        errors = self.errors(state)
        return float(errors @ errors)

    def log_density(self, state: RankState) -> float:
        """log p_T of the state."""
        precisions, density = state.tempered, 0.0
        if precisions.noise:
            n, noise = len(self.observed), precisions.noise
            density = (n * log(noise / (2 * pi)) - noise * self.squares(state)) / 2
        for precision, values in state.blocks(precisions):
            density += log_normal(values, precision)
        return density - log(self.max_rank)

    def loss(self, state: RankState) -> float:
        """The energy, which a cooling chain lowers; the same at every temperature."""
        parts = [precision * _square(values) for precision, values in state.blocks(state.precisions)]
        return 0.5 * sum(parts, state.precisions.noise * self.squares(state))


def log_normal(values: AnyFloats, precision: float) -> float:
    """The log density of independent normals around 0, with their normaliser."""
    return (values.size * log(precision / (2 * pi)) - precision * _square(values)) / 2


def _square(values: AnyFloats) -> float:
    return float(np.vdot(values, values))


Which = Literal["users", "items"]


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a state, given the other."""

    axis: Axis
    block: RatingBlock
    rows: Factors
    other: Factors
    precision: float
    bias_precision: float
    noise: float

    @classmethod
    def of(cls, target: RankTarget, state: RankState, which: Which, other: Factors | None = None) -> Side:
        """One side given the other side of the state, or given `other` instead."""
        own, observed, users, items = state.tempered, target.observed, state.users, state.items
        if which == "users":
            return cls("user", observed.by_user, users, other or items, own.users, own.user_biases, own.noise)
        return cls("item", observed.by_item, items, other or users, own.items, own.item_biases, own.noise)

    def draw(self, rng: Generator, threads: int) -> Factors:
        """Rows from their conditional distribution."""
        rank, has_bias = self.other.factors.shape[1], self.other.bias is not None
        prior = RowPrior(self.precision * np.eye(rank), np.zeros((1, rank)), self.bias_precision if has_bias else 0.0)
        return draw_rows(GivenRows(self.axis, self.block, self.rows, self.other, threads, self.noise), prior, rng)[0]

    def spread(self) -> DoubleArray:
        """The approximate conditional standard deviation of an entry of each row."""
        square = np.mean(self.other.factors**2, axis=1)
        information: DoubleArray = row_sums(self.block, square[self.block.columns])
        return np.asarray(1 / np.sqrt(self.precision + self.noise * information))

    def stepped(self, steps: DoubleArray) -> Factors:
        rank = self.rows.factors.shape[1]
        bias = None if self.rows.bias is None else self.rows.bias + steps[:, rank]
        return Factors(np.ascontiguousarray(self.rows.factors + steps[:, :rank]), bias)

    def log_density(self, rows: Factors) -> DoubleArray:
        """The log density of each row given the other side, up to a constant."""
        with np.errstate(over="ignore", invalid="ignore"):  # A Cauchy step may overflow: it is rejected.
            energy = self.noise * squared_errors(self.block, rows, self.other)
            energy = energy + self.precision * np.einsum("nd,nd->n", rows.factors, rows.factors)
            if rows.bias is not None:
                energy = energy + self.bias_precision * rows.bias**2
        return np.asarray(np.where(np.isfinite(energy), -0.5 * energy, -np.inf))


class WithinMove(ABC):
    """A move of fixed rank that leaves the density of a state invariant: all items given the users, then all users."""

    def moved(self, target: RankTarget, state: RankState, rng: Generator) -> RankState:
        state = replace(state, items=self.rows(Side.of(target, state, "items"), rng))
        return replace(state, users=self.rows(Side.of(target, state, "users"), rng))

    @abstractmethod
    def rows(self, side: Side, rng: Generator) -> Factors:
        """New rows of one side."""


@dataclass(frozen=True)
class GibbsRows(WithinMove):
    """Gibbs draws of rows: at temperature T with every precision divided by T."""

    threads: int = 1

    def rows(self, side: Side, rng: Generator) -> Factors:
        return side.draw(rng, self.threads)


@dataclass(frozen=True)
class HeavyTailedWalk(WithinMove):
    """Each row proposes a step with Student's t tails (1 degree of freedom: Cauchy), accepted row by row.

    The step does not depend on the row, so the proposal is symmetric: the ratio is that of the densities. Rows of one
    side are independent given the other, so each is accepted on its own. `scale` is in units of the conditional spread
    of an entry, which depends on the other side only.
    """

    degrees: float = 1.0
    scale: float = 0.3

    def __post_init__(self) -> None:
        positive("degrees", self.degrees)
        positive("scale", self.scale)

    def rows(self, side: Side, rng: Generator) -> Factors:
        now = side.rows
        proposed = side.stepped(self.steps(side.spread(), now.factors.shape[1] + (now.bias is not None), rng))
        log_ratio = side.log_density(proposed) - side.log_density(now)
        return proposed.where(np.log(rng.random(len(log_ratio))) < log_ratio, now)

    def steps(self, spread: DoubleArray, n_columns: int, rng: Generator) -> DoubleArray:
        """A multivariate t per row: a normal over the root of a chi-square shared by all entries of the row."""
        shared = np.sqrt(rng.chisquare(self.degrees, len(spread)) / self.degrees)
        return np.asarray(
            self.scale * (spread / np.maximum(shared, 1e-100))[:, None] * rng.standard_normal((len(spread), n_columns))
        )


WITHIN: dict[str, WithinMove] = {"gibbs": GibbsRows(), "heavy-tailed": HeavyTailedWalk()}


def within_move(name: str, threads: int) -> WithinMove:
    """The move with this name."""
    if name not in WITHIN:
        raise InvalidParameterError(f"within is {name!r}; expected one of {', '.join(map(repr, WITHIN))}")
    return GibbsRows(threads) if name == "gibbs" else WITHIN[name]
