"""How ratings come about given the scores: the noise around them.

A `Likelihood` gives the Gibbs sweep what it can work with: responses that are normal around the scores. The Gaussian
one gives the ratings themselves; others augment them with latent variables, drawn anew in every sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Protocol

from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.distributions.gamma import Gamma
from tastespace.models.factorization.rows import Points, Side

FIRST_PRECISION = 2.0  # where a chain starts: half of the ratings' variance is noise, as is usual


@dataclass(frozen=True, eq=False)
class Observations:
    """Responses of both orientations, centred and in units of their standard deviation."""

    by_user: Side
    by_item: Side

    def __len__(self) -> int:
        return len(self.by_user.columns)


class Likelihood(Protocol):
    """The noise of ratings, given by one precision `alpha`."""

    def first(self) -> float:
        """A precision to start a chain with."""
        ...

    def sample(self, rng: Generator) -> float:
        """A precision before any rating is known."""
        ...

    def augment(
        self, observed: Observations, users: Points, items: Points, alpha: float, rng: Generator
    ) -> Observations:
        """Responses that are normal around the scores with precision alpha (times their weight)."""
        ...

    def draw(self, n: int, squares: float, rng: Generator) -> float:
        """The precision given the squared errors of n responses."""
        ...

    def simulate(self, scores: DoubleArray, alpha: float, rng: Generator) -> DoubleArray:
        """Ratings with these scores."""
        ...

    def log_density(self, n: int, squares: float, alpha: float) -> float:
        """Of the ratings given their scores, and of the precision."""
        ...


@dataclass(frozen=True)
class GaussianNoise:
    """r ~ N(score, 1/alpha), alpha ~ Gamma(shape, rate) or fixed."""

    precision: Gamma | float = Gamma(1.0, 1.0)

    def first(self) -> float:
        return FIRST_PRECISION if isinstance(self.precision, Gamma) else self.precision

    def sample(self, rng: Generator) -> float:
        return self.precision.draw(rng) if isinstance(self.precision, Gamma) else self.precision

    def augment(
        self, observed: Observations, users: Points, items: Points, alpha: float, rng: Generator
    ) -> Observations:
        return observed

    def draw(self, n: int, squares: float, rng: Generator) -> float:
        if not isinstance(self.precision, Gamma):
            return self.precision
        return self.precision.posterior(n, squares).draw(rng)

    def simulate(self, scores: DoubleArray, alpha: float, rng: Generator) -> DoubleArray:
        simulated: DoubleArray = scores + rng.standard_normal(len(scores)) / alpha**0.5
        return simulated

    def log_density(self, n: int, squares: float, alpha: float) -> float:
        prior = self.precision.log_density(alpha) if isinstance(self.precision, Gamma) else 0.0
        return prior + (n * log(alpha / (2 * pi)) - alpha * squares) / 2
