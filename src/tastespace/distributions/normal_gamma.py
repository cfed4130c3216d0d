"""The normal-gamma distribution: a belief about mean and precision of a number.

precision ~ Gamma(shape, rate),   mean | precision ~ N(centre, 1 / (strength precision))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, lgamma, log, pi

from numpy.random import Generator

from tastespace.lazy import special


@dataclass(frozen=True)
class Gamma:
    """Density proportional to x^(shape - 1) exp(-rate x)."""

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
        return float(special.digamma(self.shape)) - log(self.rate)

    def divergence(self, prior: Gamma) -> float:
        """Kullback-Leibler, from the prior to this."""
        return (
            (self.shape - prior.shape) * float(special.digamma(self.shape))
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
    """precision ~ Gamma(shape, rate), the mean is `centre`."""

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
        """The log density of the precision; the mean is what it is."""
        return Gamma(self.shape, self.rate).log_density(precision)
