"""The smallest model with a Gibbs sampler: what the tests of the test tools are tried on.

r_k ~ N(mean, 1/precision),   mean ~ N(0, 1),   precision ~ Gamma(5, 5)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tastespace.data.ratings import Ratings

SHAPE, RATE = 5.0, 5.0
WHERE = Ratings.from_arrays([0, 0, 1, 2, 2], [0, 1, 1, 0, 2], [0.0] * 5)


@dataclass(frozen=True)
class Normal:
    mean: float
    precision: float


class NormalModel:
    def sample_prior(self, where, rng):
        return Normal(rng.standard_normal(), rng.gamma(SHAPE) / RATE)

    def simulate(self, params, where, rng):
        values = params.mean + rng.standard_normal(len(where)) / params.precision**0.5
        return replace(where, values=values.astype(np.float32))


@dataclass(frozen=True)
class Gibbs:
    """Mean given precision, precision given mean."""

    values: np.ndarray

    @classmethod
    def bind(cls, ratings):
        return cls(ratings.values.astype(np.float64))

    def init(self, rng):
        return Normal(0.0, 1.0)

    def step(self, state, rng):
        mean = self.draw_mean(state.precision, rng)
        return Normal(mean, self.draw_precision(mean, rng)), {}

    def draw_mean(self, precision, rng):
        total = 1 + len(self.values) * precision
        return precision * self.values.sum() / total + rng.standard_normal() / total**0.5

    def draw_precision(self, mean, rng):
        squares = np.sum((self.values - mean) ** 2)
        return rng.gamma(SHAPE + len(self.values) / 2) / (RATE + squares / 2)


class HalfShape(Gibbs):
    """Half a rating too many in the shape of the precision."""

    def draw_precision(self, mean, rng):
        squares = np.sum((self.values - mean) ** 2)
        return rng.gamma(SHAPE + (len(self.values) + 1) / 2) / (RATE + squares / 2)


class NoPriorRate(Gibbs):
    """The prior's rate forgotten."""

    def draw_precision(self, mean, rng):
        squares = np.sum((self.values - mean) ** 2)
        return rng.gamma(SHAPE + len(self.values) / 2) / (squares / 2)


class TooSure(Gibbs):
    """The mean drawn with three quarters of its standard deviation."""

    def draw_mean(self, precision, rng):
        total = 1 + len(self.values) * precision
        return precision * self.values.sum() / total + 0.75 * rng.standard_normal() / total**0.5


class NoPriorPrecision(Gibbs):
    """The prior of the mean forgotten."""

    def draw_mean(self, precision, rng):
        total = len(self.values) * precision
        return self.values.mean() + rng.standard_normal() / total**0.5


class StaleMean(Gibbs):
    """The precision drawn given the mean before the step: the two no longer belong together."""

    def step(self, state, rng):
        return Normal(self.draw_mean(state.precision, rng), self.draw_precision(state.mean, rng)), {}


class Exploding(Gibbs):
    """Doubles the mean at every step: soon no number is large enough."""

    def step(self, state, rng):
        return Normal(2e3 * state.mean + 1, state.precision), {}


class Raising(Gibbs):
    """Notices that something is wrong."""

    def step(self, state, rng):
        raise np.linalg.LinAlgError("not positive definite")


class Still(Gibbs):
    """Leaves everything as it is, which keeps any distribution."""

    def step(self, state, rng):
        return state, {}


FUNCTIONALS = {
    "mean": lambda params, ratings: params.mean,
    "squared mean": lambda params, ratings: params.mean**2,
    "log precision": lambda params, ratings: np.log(params.precision),
    "mean rating x mean": lambda params, ratings: params.mean * float(ratings.values.mean()),
    "precision x squares": lambda params, ratings: (
        params.precision * float(np.sum((ratings.values.astype(np.float64) - params.mean) ** 2))
    ),
}
