"""The normal-Wishart distribution: a belief about mean and precision matrix of a vector.

precision ~ Wishart(scale, degrees),   mean | precision ~ N(centre, (strength precision)^-1)

The normal-gamma distribution: a belief about mean and precision of a number.

precision ~ Gamma(shape, rate),   mean | precision ~ N(centre, 1 / (strength precision))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, lgamma, log, pi

import numpy as np
import scipy
from numpy.random import Generator

from tastespace.arrays import DoubleArray


@dataclass(frozen=True, eq=False)
class NormalWishart:
    """A normal-Wishart belief; `strength` is the number of observations that the centre is worth; degrees > D - 1."""

    centre: DoubleArray  # D
    strength: float
    inverse_scale: DoubleArray  # D x D
    degrees: float

    def posterior(self, n: int, total: DoubleArray, gram: DoubleArray) -> NormalWishart:
        """After n vectors with this sum and this sum of outer products (Salakhutdinov and Mnih 2008, eq. 14)."""
        if n == 0:
            return self
        mean = total / n
        scatter = gram - n * np.outer(mean, mean)
        strength = self.strength + n
        apart = mean - self.centre
        return NormalWishart(
            centre=(self.strength * self.centre + total) / strength,
            strength=strength,
            inverse_scale=self.inverse_scale + scatter + self.strength * n / strength * np.outer(apart, apart),
            degrees=self.degrees + n,
        )

    def draw(self, rng: Generator) -> tuple[DoubleArray, DoubleArray]:
        """A mean and a precision matrix, the latter by Bartlett's decomposition."""
        size = len(self.centre)
        lower = np.linalg.cholesky(self.inverse_scale)
        bartlett = np.tril(rng.standard_normal((size, size)), -1)
        bartlett[np.diag_indices(size)] = np.sqrt(rng.chisquare(self.degrees - np.arange(size)))
        # precision = root root^T, since lower^-T is a root of the scale
        root = np.linalg.solve(lower.T, bartlett)
        about = np.linalg.solve(bartlett.T, rng.standard_normal(size))
        return self.centre + lower @ about / self.strength**0.5, root @ root.T

    @cached_property
    def mean_precision(self) -> DoubleArray:
        """The expected precision matrix."""
        precision = self.degrees * np.linalg.inv(self.inverse_scale)
        return np.asarray((precision + precision.T) / 2)

    @property
    def mean_log_determinant(self) -> float:
        """The expected log determinant of the precision matrix."""
        size = len(self.centre)
        halves = (self.degrees - np.arange(size)) / 2
        return (
            float(np.sum(scipy.special.digamma(halves)))
            + size * log(2)
            - float(np.linalg.slogdet(self.inverse_scale)[1])
        )

    def divergence(self, prior: NormalWishart) -> float:
        """Kullback-Leibler, from the prior to this."""
        size, apart = len(self.centre), self.centre - prior.centre
        ratio = prior.strength / self.strength
        distance = prior.strength * float(apart @ self.mean_precision @ apart)
        of_mean = (size * (ratio - 1 - log(ratio)) + distance) / 2
        of_precision = (
            (self.degrees - prior.degrees) * self.mean_log_determinant
            - self.degrees * size
            + float(np.einsum("ij,ij->", prior.inverse_scale, self.mean_precision))
        ) / 2
        return of_mean + of_precision + prior._log_normaliser - self._log_normaliser

    @property
    def _log_normaliser(self) -> float:
        """The log normaliser of the Wishart's density."""
        size, log_inverse_scale = len(self.centre), float(np.linalg.slogdet(self.inverse_scale)[1])
        constant = self.degrees * (size * log(2) - log_inverse_scale) / 2
        return constant + float(scipy.special.multigammaln(self.degrees / 2, size))

    def log_density(self, mean: DoubleArray, precision: DoubleArray) -> float:
        size, apart = len(mean), mean - self.centre
        log_precision, log_inverse_scale = (
            float(np.linalg.slogdet(matrix)[1]) for matrix in (precision, self.inverse_scale)
        )
        wishart = (
            (self.degrees - size - 1) / 2 * log_precision
            - float(np.einsum("ij,ij->", self.inverse_scale, precision)) / 2
            - self.degrees * size / 2 * log(2)
            + self.degrees / 2 * log_inverse_scale
            - float(scipy.special.multigammaln(self.degrees / 2, size))
        )
        quadratic = self.strength * float(apart @ precision @ apart)
        return wishart + (size * log(self.strength / (2 * pi)) + log_precision - quadratic) / 2


@dataclass(frozen=True)
class Gamma:
    """The gamma distribution, with density proportional to x^(shape - 1) exp(-rate x)."""

    shape: float
    rate: float

    def posterior(self, n: int, squares: float) -> Gamma:
        """After n normal errors with this precision, whose squares sum to this."""
        return Gamma(self.shape + n / 2, self.rate + squares / 2)

    def draw(self, rng: Generator) -> float:
        return float(rng.gamma(self.shape)) / self.rate

    @property
    def mean(self) -> float:
        return self.shape / self.rate

    @property
    def mean_log(self) -> float:
        """The expected logarithm."""
        return float(scipy.special.digamma(self.shape)) - log(self.rate)

    def divergence(self, prior: Gamma) -> float:
        """Kullback-Leibler, from the prior to this."""
        return (
            (self.shape - prior.shape) * float(scipy.special.digamma(self.shape))
            - lgamma(self.shape)
            + lgamma(prior.shape)
            + prior.shape * (log(self.rate) - log(prior.rate))
            + self.shape * (prior.rate - self.rate) / self.rate
        )

    def log_density(self, value: float) -> float:
        if value <= 0:  # A precision that was rounded to nothing.
            return -inf
        return self.shape * log(self.rate) - lgamma(self.shape) + (self.shape - 1) * log(value) - self.rate * value


@dataclass(frozen=True)
class NormalGamma:
    """`strength` is the number of observations that the centre is worth."""

    centre: float
    strength: float
    shape: float
    rate: float

    def posterior(self, n: int, total: float, squares: float) -> NormalGamma:
        """After n numbers with this sum and sum of squares."""
        if n == 0:
            return self
        mean = total / n
        scatter = max(squares - n * mean**2, 0.0)
        strength = self.strength + n
        apart = self.strength * n / strength * (mean - self.centre) ** 2
        return NormalGamma(
            centre=(self.strength * self.centre + total) / strength,
            strength=strength,
            shape=self.shape + n / 2,
            rate=self.rate + (scatter + apart) / 2,
        )

    def draw(self, rng: Generator) -> tuple[float, float]:
        """A mean and a precision."""
        precision = Gamma(self.shape, self.rate).draw(rng)
        return self.centre + float(rng.standard_normal()) / (self.strength * precision) ** 0.5, precision

    @property
    def precision(self) -> Gamma:
        """The belief about the precision alone."""
        return Gamma(self.shape, self.rate)

    def divergence(self, prior: NormalGamma) -> float:
        """Kullback-Leibler, from the prior to this."""
        ratio = prior.strength / self.strength
        apart = prior.strength * self.precision.mean * (self.centre - prior.centre) ** 2
        return (ratio - 1 - log(ratio) + apart) / 2 + self.precision.divergence(prior.precision)

    def log_density(self, mean: float, precision: float) -> float:
        about = self.strength * precision
        normal = 0.5 * log(about / (2 * pi)) - 0.5 * about * (mean - self.centre) ** 2
        return Gamma(self.shape, self.rate).log_density(precision) + normal


@dataclass(frozen=True)
class KnownMean:
    """A belief about the precision alone, Gamma(shape, rate); the mean is known to be `centre`."""

    centre: float
    shape: float
    rate: float

    def posterior(self, n: int, total: float, squares: float) -> KnownMean:
        """After n numbers with this sum and sum of squares."""
        apart = max(squares - 2 * self.centre * total + n * self.centre**2, 0.0)
        return KnownMean(self.centre, self.shape + n / 2, self.rate + apart / 2)

    def draw(self, rng: Generator) -> tuple[float, float]:
        """The mean and a precision."""
        return self.centre, Gamma(self.shape, self.rate).draw(rng)

    def log_density(self, mean: float, precision: float) -> float:
        """The log density of the precision; the mean is fixed."""
        return Gamma(self.shape, self.rate).log_density(precision)
