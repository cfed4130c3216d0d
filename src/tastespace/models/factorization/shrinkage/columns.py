"""Rows whose columns have variances of their own: what the priors that shrink columns have in common.

One side's columns shrink, of the items or, where items lie on a sphere, of the users; the rows of the other side have
the variance 1 in every column. Then the variance of a column is that of what it adds to a score. Nothing is lost by
that: if u goes to A u and v to A^-T v no score changes, and some A makes one covariance the identity and the other
diagonal. Each column has a mean, as in the normal-Wishart prior:

    x_ih ~ N(m_h, theta_h),   m_h ~ N(0, theta_h / strength)

Without the mean, n rows have the density (2 pi theta)^(-n/2) exp(-s_h / 2 theta) but for a constant, with
s_h = sum x^2 - (sum x)^2 / (n + strength), from which theta_h is learned; then m_h | theta_h, x is normal.

ARD (automatic relevance determination; Bishop 1999) has one gamma prior for every column's precision:

    1/theta_h ~ Gamma(shape, rate),   1/theta_h | x ~ Gamma(shape + n/2, rate + s_h / 2)

Biases are beside the factors and shrink with nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lgamma, log, pi

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.distributions.known_mean import KnownMean
from tastespace.distributions.normal_gamma import NormalGamma
from tastespace.models.factorization.populations import NormalPopulation, Population
from tastespace.models.factorization.rows import Moments

BiasPrior = NormalGamma | KnownMean


@dataclass(frozen=True)
class UnitPrior:
    """The side that does not shrink: every column has the variance 1, and only means and biases are learned."""

    strength: float  # how many rows the mean 0 is worth
    bias: BiasPrior

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> NormalPopulation:
        means = drawn_means(self.strength, np.ones(n_factors), None, rng)
        return NormalPopulation(means, np.eye(n_factors), *drawn_bias(self.bias, biases, rng))

    def draw(self, rows: Moments, rng: Generator) -> NormalPopulation:
        n_factors = len(rows.total)
        means = drawn_means(self.strength, np.ones(n_factors), rows, rng)
        return NormalPopulation(means, np.eye(n_factors), *bias_given(self.bias, rows, rng))

    def log_density(self, population: Population) -> float:
        return means_log_density(self.strength, population) + bias_log_density(self.bias, population)


@dataclass(frozen=True)
class RelevancePrior:
    """ARD: a column without use has a large precision. One counts whose variance is above `least`."""

    shape: float
    rate: float
    least: float
    strength: float
    bias: BiasPrior

    adds_columns = False  # all that there may be are there from the beginning

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> NormalPopulation:
        precisions = rng.gamma(self.shape, size=n_factors) / self.rate
        means = drawn_means(self.strength, 1 / precisions, None, rng)
        return NormalPopulation(means, np.diag(precisions), *drawn_bias(self.bias, biases, rng))

    def draw(self, rows: Moments, rng: Generator) -> NormalPopulation:
        rates = self.rate + squares_of(rows, self.strength) / 2
        precisions = rng.gamma(self.shape + rows.n / 2, size=len(rates)) / rates
        means = drawn_means(self.strength, 1 / precisions, rows, rng)
        return NormalPopulation(means, np.diag(precisions), *bias_given(self.bias, rows, rng))

    def log_density(self, population: Population) -> float:
        precisions = np.diag(population.precision)
        density = len(precisions) * (self.shape * log(self.rate) - lgamma(self.shape))
        density += float(np.sum((self.shape - 1) * np.log(precisions) - self.rate * precisions))
        return density + means_log_density(self.strength, population) + bias_log_density(self.bias, population)

    def active(self, population: Population) -> BoolArray:
        """Which columns count."""
        return np.asarray(np.diag(population.precision) < 1 / self.least)

    def in_units(self, unit: float) -> RelevancePrior:
        """The same for columns whose variances are all times this."""
        return replace(self, rate=unit * self.rate, least=unit * self.least)


def squares_of(rows: Moments, strength: float) -> DoubleArray:
    """s_h of each column."""
    return np.maximum(np.diag(rows.gram) - rows.total**2 / (rows.n + strength), 0.0)


def drawn_means(strength: float, variances: DoubleArray, rows: Moments | None, rng: Generator) -> DoubleArray:
    """Of the columns, given their variances and, if there are any yet, rows."""
    n, total = (0, np.zeros(len(variances))) if rows is None else (rows.n, rows.total)
    normals = rng.standard_normal(len(variances))
    return np.asarray(total / (n + strength) + np.sqrt(variances / (n + strength)) * normals)


def means_log_density(strength: float, population: Population) -> float:
    precisions = strength * np.diag(population.precision)
    return float(np.sum(np.log(precisions / (2 * pi)) - precisions * population.mean**2)) / 2


def drawn_bias(bias: BiasPrior, biases: bool, rng: Generator) -> tuple[float, float]:
    """Mean and precision of biases; 0 where rows have none."""
    return bias.draw(rng) if biases else (0.0, 0.0)


def bias_given(bias: BiasPrior, rows: Moments, rng: Generator) -> tuple[float, float]:
    """The same, given rows."""
    return drawn_bias(bias.posterior(rows.n, rows.bias_total, rows.bias_squares), rows.has_bias, rng)


def bias_log_density(bias: BiasPrior, population: Population) -> float:
    """0 where rows have none."""
    if not population.bias_precision:
        return 0.0
    return bias.log_density(population.bias_mean, population.bias_precision)
