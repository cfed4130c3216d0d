"""The normal-gamma distribution: a belief about mean and precision of a number.

precision ~ Gamma(shape, rate),   mean | precision ~ N(centre, 1 / (strength precision))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

from numpy.random import Generator

from tastespace.distributions.gamma import Gamma


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
