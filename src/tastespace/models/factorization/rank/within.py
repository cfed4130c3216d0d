"""Moves that keep the number of factors: rows drawn from their conditionals, or walked with heavy tails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers.target import positive
from tastespace.models.factorization.likelihoods.base import row_sums, squared_errors
from tastespace.models.factorization.rank.target import RankState, RankTarget
from tastespace.models.factorization.rows import Factors, RatingBlock, RowPrior, row_noise, solve_rows

Which = Literal["users", "items"]


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a state, as its rows are given the other."""

    name: str
    block: RatingBlock
    rows: Factors
    other: Factors
    precision: float
    bias_precision: float
    noise: float

    @classmethod
    def of(cls, target: RankTarget, state: RankState, which: Which, other: Factors | None = None) -> Side:
        """Given the other side of the state, or another one in its place."""
        own, observed, users, items = state.tempered, target.observed, state.users, state.items
        if which == "users":
            given = items if other is None else other
            return cls("user", observed.by_user, users, given, own.users, own.user_biases, own.noise)
        given = users if other is None else other
        return cls("item", observed.by_item, items, given, own.items, own.item_biases, own.noise)

    def draw(self, rng: Generator, threads: int) -> Factors:
        """Rows from their conditional distribution."""
        n, rank = len(self.block.offsets) - 1, self.other.factors.shape[1]
        has_bias = self.other.bias is not None
        noise, bias_noise = row_noise(rng, n, rank, np.float64, has_bias=has_bias)
        prior = RowPrior(self.precision * np.eye(rank), np.zeros((1, rank)), self.bias_precision if has_bias else 0.0)
        return solve_rows(
            self.block,
            self.other,
            prior,
            name=self.name,
            alpha=self.noise,
            noise=noise,
            bias_noise=bias_noise,
            threads=threads,
        ).points

    def spread(self) -> DoubleArray:
        """About the conditional standard deviation of an entry of each row."""
        square = np.mean(self.other.factors**2, axis=1)
        information: DoubleArray = row_sums(self.block, square[self.block.columns])
        return np.asarray(1 / np.sqrt(self.precision + self.noise * information))

    def stepped(self, steps: DoubleArray) -> Factors:
        rank = self.rows.factors.shape[1]
        bias = None if self.rows.bias is None else self.rows.bias + steps[:, rank]
        return Factors(np.ascontiguousarray(self.rows.factors + steps[:, :rank]), bias)

    def log_density(self, rows: Factors) -> DoubleArray:
        """The log density of each row given the other side, up to a constant."""
        with np.errstate(over="ignore", invalid="ignore"):  # A Cauchy step may leave the numbers: it is not taken.
            energy = self.noise * squared_errors(self.block, rows, self.other)
            energy = energy + self.precision * np.einsum("nd,nd->n", rows.factors, rows.factors)
            if rows.bias is not None:
                energy = energy + self.bias_precision * rows.bias**2
        return np.asarray(np.where(np.isfinite(energy), -0.5 * energy, -np.inf))


class WithinMove(Protocol):
    """A move that leaves the density of a state alone, and its rank."""

    def moved(self, target: RankTarget, state: RankState, rng: Generator) -> RankState: ...


@dataclass(frozen=True)
class GibbsRows:
    """All items given the users, then all users given the items: at temperature T with every precision over T."""

    threads: int = 1

    def moved(self, target: RankTarget, state: RankState, rng: Generator) -> RankState:
        state = replace(state, items=Side.of(target, state, "items").draw(rng, self.threads))
        return replace(state, users=Side.of(target, state, "users").draw(rng, self.threads))


@dataclass(frozen=True)
class HeavyTailedWalk:
    """Each row proposes a step with Student's t tails (1 degree of freedom: Cauchy), and takes or leaves it alone.

    The step does not depend on where the row is, so that it is as likely back: the ratio is that of the densities. Rows
    of one side are independent given the other, each has its own decision. `scale` is in units of the conditional
    spread of an entry, which depends on the other side only.
    """

    degrees: float = 1.0
    scale: float = 0.3

    def __post_init__(self) -> None:
        positive("degrees", self.degrees)
        positive("scale", self.scale)

    def moved(self, target: RankTarget, state: RankState, rng: Generator) -> RankState:
        items = self._walked(target, state, "items", rng)
        state = replace(state, items=items)
        return replace(state, users=self._walked(target, state, "users", rng))

    def _walked(self, target: RankTarget, state: RankState, which: Which, rng: Generator) -> Factors:
        walk = Side.of(target, state, which)
        steps = self.steps(walk.spread(), walk.rows.factors.shape[1] + (walk.rows.bias is not None), rng)
        proposed = walk.stepped(steps)
        log_ratio = walk.log_density(proposed) - walk.log_density(walk.rows)
        goes = np.log(rng.random(len(log_ratio))) < log_ratio
        factors = np.where(goes[:, None], proposed.factors, walk.rows.factors)
        if walk.rows.bias is None or proposed.bias is None:
            return Factors(factors)
        return Factors(factors, np.where(goes, proposed.bias, walk.rows.bias))

    def steps(self, spread: DoubleArray, n_columns: int, rng: Generator) -> DoubleArray:
        """A multivariate t a row: a normal over the root of a chi-square that all entries of the row share."""
        shared = np.sqrt(rng.chisquare(self.degrees, len(spread)) / self.degrees)
        return np.asarray(
            self.scale * (spread / np.maximum(shared, 1e-100))[:, None] * rng.standard_normal((len(spread), n_columns))
        )


WITHIN: dict[str, WithinMove] = {"gibbs": GibbsRows(), "heavy-tailed": HeavyTailedWalk()}


def within_move(name: str, threads: int) -> WithinMove:
    """The move of this name."""
    if name not in WITHIN:
        raise InvalidParameterError(f"within is {name!r}; expected one of {', '.join(map(repr, WITHIN))}")
    return GibbsRows(threads) if name == "gibbs" else WITHIN[name]
