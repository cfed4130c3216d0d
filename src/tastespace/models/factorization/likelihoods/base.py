"""How ratings come about given the scores: the noise around them.

A `Likelihood` gives the Gibbs sweep what it can work with: responses that are normal around the scores. The Gaussian
one gives the ratings themselves; others augment them with latent variables, drawn anew whenever rows are to be drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, pi, sqrt
from typing import Literal, Protocol, Self

import numpy as np
from numpy.random import Generator

from tastespace.arrays import AnyFloats, DoubleArray, IntArray
from tastespace.distributions.normal_gamma import Gamma
from tastespace.inference.transition import Stats
from tastespace.models.factorization.rows import Factors, RatingBlock, row_scores

FIRST_PRECISION = 2.0  # where a chain starts: half of the ratings' variance is noise, as is usual
Axis = Literal["user", "item"]


@dataclass(frozen=True, eq=False)
class Observations:
    """The ratings in both orientations; a Gaussian model takes them centred, in units of their standard deviation."""

    by_user: RatingBlock
    by_item: RatingBlock

    def __len__(self) -> int:
        return len(self.by_user.columns)


@dataclass(frozen=True, eq=False)
class Noise:
    """What is learned about the noise: its precision, and what else a likelihood adds."""

    alpha: float

    def lean(self) -> Self:
        """As it is kept with a draw: what there is much of in single precision."""
        return self


@dataclass(frozen=True, eq=False)
class Responses:
    """What rows are drawn from: normal around the scores with precision alpha, times weights, times the row's own."""

    side: RatingBlock
    alpha: float
    row_precision: AnyFloats | None = None  # one a row


class Likelihood(Protocol):
    """The noise of ratings. Scores and ratings are those of the model's units (`FactorModel`)."""

    def first(self, observed: Observations) -> Noise:
        """Where a chain starts."""
        ...

    def starting(self, side: RatingBlock) -> RatingBlock:
        """Responses for the least squares that a chain may start from."""
        ...

    def sample(self, n_users: int, n_items: int, rng: Generator) -> Noise:
        """Before any rating is known."""
        ...

    def settle(
        self, observed: Observations, users: Factors, items: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Noise:
        """Draw what is better drawn with latent responses integrated out, given the scores."""
        ...

    def responses(
        self, axis: Axis, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Responses:
        """What the rows of this side are drawn from."""
        ...

    def learn(self, axis: Axis, side: RatingBlock, squares: DoubleArray, noise: Noise, rng: Generator) -> Noise:
        """The noise given the squared errors (weighted, but not with the row's own precision) of the rows drawn."""
        ...

    def simulate(
        self, scores: DoubleArray, user_rows: IntArray, item_rows: IntArray, noise: Noise, rng: Generator
    ) -> DoubleArray:
        """Ratings with these scores."""
        ...

    def expected(self, scores: AnyFloats, noise: Noise) -> AnyFloats:
        """The mean rating at each score."""
        ...

    def log_density(
        self, observed: Observations, users: Factors, items: Factors, squares: DoubleArray | None, noise: Noise
    ) -> float:
        """Of the ratings given the scores, and of the noise. `squares` are those of the users, if they are known."""
        ...

    def figures(self, noise: Noise, unit: float) -> Stats:
        """What of the noise is watched, in units of the ratings."""
        ...


@dataclass(frozen=True)
class GaussianNoise:
    """r ~ N(score, 1/alpha), alpha ~ Gamma(shape, rate) or fixed."""

    precision: Gamma | float = Gamma(1.0, 1.0)

    def first(self, observed: Observations) -> Noise:
        return Noise(FIRST_PRECISION if isinstance(self.precision, Gamma) else self.precision)

    def starting(self, side: RatingBlock) -> RatingBlock:
        return side

    def sample(self, n_users: int, n_items: int, rng: Generator) -> Noise:
        return Noise(self.precision.draw(rng) if isinstance(self.precision, Gamma) else self.precision)

    def settle(
        self, observed: Observations, users: Factors, items: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Noise:
        return noise

    def responses(
        self, axis: Axis, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Responses:
        return Responses(side, noise.alpha)

    def learn(self, axis: Axis, side: RatingBlock, squares: DoubleArray, noise: Noise, rng: Generator) -> Noise:
        if axis == "item" or not isinstance(self.precision, Gamma):
            return noise
        return Noise(self.precision.posterior(len(side.columns), float(squares.sum())).draw(rng))

    def simulate(
        self, scores: DoubleArray, user_rows: IntArray, item_rows: IntArray, noise: Noise, rng: Generator
    ) -> DoubleArray:
        simulated: DoubleArray = scores + rng.standard_normal(len(scores)) / noise.alpha**0.5
        return simulated

    def expected(self, scores: AnyFloats, noise: Noise) -> AnyFloats:
        return scores

    def log_density(
        self, observed: Observations, users: Factors, items: Factors, squares: DoubleArray | None, noise: Noise
    ) -> float:
        alpha = noise.alpha
        if alpha <= 0:  # rounded to nothing
            return -inf
        prior = self.precision.log_density(alpha) if isinstance(self.precision, Gamma) else 0.0
        total = float((squared_errors(observed.by_user, users, items) if squares is None else squares).sum())
        return prior + (len(observed) * log(alpha / (2 * pi)) - alpha * total) / 2

    def figures(self, noise: Noise, unit: float) -> Stats:
        return {"noise sd": unit / sqrt(noise.alpha)}


def squared_errors(side: RatingBlock, rows: Factors, other: Factors) -> DoubleArray:
    """Of each row, in double where the factors are."""
    standard = (side.targets.astype(np.float64) - side.offset) / side.scale
    errors = standard - row_scores(side, rows, other).astype(np.float64)
    weights = 1.0 if side.column_weights is None else side.column_weights[side.columns].astype(np.float64)
    return row_sums(side, weights * errors**2)


def row_sums(side: RatingBlock, values: DoubleArray) -> DoubleArray:
    """One sum a row, 0 for rows without ratings."""
    of_rows = np.repeat(np.arange(len(side.offsets) - 1), np.diff(side.offsets))
    return np.bincount(of_rows, values, minlength=len(side.offsets) - 1).astype(np.float64)
