"""The gamma distribution, as a belief about a precision."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, lgamma, log

from numpy.random import Generator
from scipy.special import digamma


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
        return float(digamma(self.shape)) - log(self.rate)

    def divergence(self, prior: Gamma) -> float:
        """Kullback-Leibler, from the prior to this."""
        return (
            (self.shape - prior.shape) * float(digamma(self.shape))
            - lgamma(self.shape)
            + lgamma(prior.shape)
            + prior.shape * (log(self.rate) - log(prior.rate))
            + self.shape * (prior.rate - self.rate) / self.rate
        )

    def log_density(self, value: float) -> float:
        if value <= 0:  # A precision that was rounded to nothing.
            return -inf
        return self.shape * log(self.rate) - lgamma(self.shape) + (self.shape - 1) * log(value) - self.rate * value
