"""A belief about the precision of a number whose mean is known: the normal-gamma without its normal."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from tastespace.distributions.gamma import Gamma


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
        """Of the precision; the mean is what it is."""
        return Gamma(self.shape, self.rate).log_density(precision)
