"""Where rows come from: the population of users, and that of items, with hyper-parameters that are learned.

    u_i ~ N(mu, Lambda^-1),   (mu, Lambda) ~ NormalWishart
    c_i ~ N(mu_c, 1/lambda_c),   (mu_c, lambda_c) ~ NormalGamma

A `FactorPrior` is all that a Gibbs sweep needs to know of one side; another one (on a sphere, with features, with
shrinking columns) takes its place without a change elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray
from tastespace.distributions.known_mean import KnownMean
from tastespace.distributions.normal_gamma import NormalGamma
from tastespace.distributions.normal_wishart import NormalWishart
from tastespace.models.factorization.populations import NormalPopulation, Population
from tastespace.models.factorization.rows import Moments


class FactorPrior(Protocol):
    """The hyper-prior of one side."""

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> Population:
        """Hyper-parameters before any row is known."""
        ...

    def draw(self, rows: Moments, rng: Generator) -> Population:
        """Hyper-parameters given the rows."""
        ...

    def log_density(self, population: Population) -> float:
        """Log density of the hyper-parameters."""
        ...


@runtime_checkable
class Continues(Protocol):
    """Capability of a prior: its hyper-parameters are drawn in turn, from where they are, and not at once."""

    def continued(self, current: Population, rows: Moments, rng: Generator) -> Population: ...


@runtime_checkable
class Shrinks(Protocol):
    """Capability of a prior: columns that are of no use shrink, and the others can be counted."""

    @property
    def least(self) -> float:
        """The variance of a column that is as good as nothing."""
        ...

    @property
    def adds_columns(self) -> bool:
        """Whether one more is to be tried where all that there are are of use."""
        ...

    def active(self, population: Population) -> BoolArray:
        """Which columns are of use."""
        ...

    def in_units(self, unit: float) -> FactorPrior:
        """The same for columns whose variances are all times this."""
        ...


def population_given(prior: FactorPrior, current: Population, rows: Moments, rng: Generator) -> Population:
    """The next hyper-parameters of a side."""
    return prior.continued(current, rows, rng) if isinstance(prior, Continues) else prior.draw(rows, rng)


@dataclass(frozen=True)
class NormalWishartPrior:
    """Salakhutdinov and Mnih (2008), with biases beside the factors; in units of the ratings' standard deviation."""

    strength: float = 2.0  # how many rows the mean 0 is worth
    degrees: float | None = None  # of the Wishart; None for the number of factors, the least that is proper
    scale: float = 1.0  # of the Wishart: times the identity
    bias: NormalGamma | KnownMean = NormalGamma(centre=0.0, strength=2.0, shape=1.0, rate=0.25)

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> Population:
        return self._population(self._factors(n_factors), self.bias if biases else None, rng)

    def draw(self, rows: Moments, rng: Generator) -> Population:
        factors = self._factors(len(rows.total)).posterior(rows.n, rows.total, rows.gram)
        bias = self.bias.posterior(rows.n, rows.bias_total, rows.bias_squares) if rows.has_bias else None
        return self._population(factors, bias, rng)

    def log_density(self, population: Population) -> float:
        density = self._factors(len(population.mean)).log_density(population.mean, population.precision)
        if not population.bias_precision:
            return density
        return density + self.bias.log_density(population.bias_mean, population.bias_precision)

    def _factors(self, n_factors: int) -> NormalWishart:
        degrees = float(n_factors) if self.degrees is None else self.degrees
        return NormalWishart(np.zeros(n_factors), self.strength, np.eye(n_factors) / self.scale, degrees)

    def _population(
        self, factors: NormalWishart, bias: NormalGamma | KnownMean | None, rng: Generator
    ) -> NormalPopulation:
        mean, precision = factors.draw(rng)
        return NormalPopulation(mean, precision, *((0.0, 0.0) if bias is None else bias.draw(rng)))
