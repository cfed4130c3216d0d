"""Numbers with normal noise, the same for all.

    r ~ N(score, 1/alpha),   alpha ~ Gamma(shape, rate), or given

A fold-in is a normal in closed form, and ratings are normal around the score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.distributions.conjugate import Gamma
from tastespace.errors import InvalidParameterError
from tastespace.inference.transition import Stats
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.likelihoods import base
from tastespace.models.factorization.rows import GivenRows, sum_of_rows
from tastespace.parameters import check_number, check_option

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws

EXTREME = 1e12  # beyond this, single precision overflows somewhere


@dataclass(frozen=True)
class NormalNoise(base.Likelihood[base.N]):
    """The base class of Gaussian likelihoods: a precision alpha of all ratings, given or learned.

    `precision` is "learned", or 1 / variance of a rating. `shape` and `rate` are those of its gamma prior, for ratings
    of standard deviation 1.
    """

    precision: float | Literal["learned"] = "learned"
    shape: float = 1.0
    rate: float = 1.0

    def check(self) -> None:
        for name in ("shape", "rate"):
            check_number(name, getattr(self, name), above=1 / EXTREME, below=EXTREME)
        if isinstance(self.precision, str):
            check_option("precision", self.precision, ["learned"])
        else:
            check_number("precision", self.precision, above=0)

    def bind(self, observed: Ratings) -> tuple[base.Likelihood[base.N], float, float]:
        scale = observed.standard_deviation or 1.0
        if isinstance(self.precision, str):
            return self, observed.mean, scale
        standard = self.precision * scale**2
        if not 1 / EXTREME < standard < EXTREME:
            raise InvalidParameterError(
                f"precision is {self.precision:g}, for ratings with a standard deviation of {scale:g}; expected "
                f"something nearer to {2 / scale**2:.2g}, or 'learned'"
            )
        return replace(self, precision=standard), observed.mean, scale

    @property
    def prior(self) -> Gamma | None:
        """The prior of alpha; None if it is given."""
        return Gamma(self.shape, self.rate) if isinstance(self.precision, str) else None

    def first_alpha(self, rng: Generator | None = None) -> float:
        """The alpha at the start of a chain, or a draw of the prior."""
        if not isinstance(self.precision, str):
            return self.precision
        return base.FIRST_PRECISION if rng is None else Gamma(self.shape, self.rate).draw(rng)

    def figures(self, noise: base.N, unit: float) -> Stats:
        return {"noise sd": unit / sqrt(noise.alpha)}


@dataclass(frozen=True)
class Gaussian(NormalNoise[base.Noise]):
    """Ratings are numbers with normal noise, the same for all users and items.

    `precision` is "learned", or 1 / variance of a rating. `shape` and `rate` are those of its gamma prior, for ratings
    of standard deviation 1.
    """

    name: ClassVar[str] = "gaussian"
    has_evidence: ClassVar[bool] = True
    row_steps: ClassVar[int] = 1

    def init(self, observed: base.Observations) -> base.Noise:
        return base.Noise(self.first_alpha())

    def sample(self, n_users: int, n_items: int, rng: Generator) -> base.Noise:
        return base.Noise(self.first_alpha(rng))

    def augment(self, given: GivenRows, noise: base.Noise, rng: Generator) -> GivenRows:
        return replace(given, alpha=noise.alpha)

    def learn(self, given: GivenRows, squares: DoubleArray, noise: base.Noise, rng: Generator) -> base.Noise:
        if given.axis == "item" or self.prior is None:
            return noise
        return base.Noise(self.prior.posterior(given.side.n_entries, sum_of_rows(squares)).draw(rng))

    def simulate(self, scores: DoubleArray, where: Ratings, noise: base.Noise, rng: Generator) -> DoubleArray:
        simulated: DoubleArray = scores + rng.standard_normal(len(scores)) / noise.alpha**0.5
        return simulated

    def log_density(self, users: GivenRows, squares: DoubleArray | None, noise: base.Noise) -> float:
        alpha = noise.alpha
        if alpha <= 0:  # rounded to zero
            return -inf
        prior = 0.0 if self.prior is None else self.prior.log_density(alpha)
        total = sum_of_rows(base.squared_errors(users.side, users.rows, users.other) if squares is None else squares)
        return prior + (users.side.n_entries * log(alpha / (2 * pi)) - alpha * total) / 2

    def at(self, draws: ItemDraws, s: int, n_users: int, n_items: int) -> tuple[base.Likelihood[Any], base.Noise]:
        alpha = float(draws.alpha[s])
        return Gaussian(alpha), base.Noise(alpha)

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        return base.Folded(base.fold_in_normal(draws, ratings, roots, threads))

    def predictive(self, draws: ItemDraws, scores: base.ScoreDraws, units: base.Units) -> PredictiveDistribution:
        return base.normal_predictive(draws, scores, units, 1 / np.sqrt(draws.alpha))

    def information(self, draws: ItemDraws, scores: Callable[[], base.ScoreDraws], units: base.Units) -> base.Answers:
        return base.Answers(1 / draws.alpha[None], np.full((1, 1), draws.scale))

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([0], np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: base.Arrays) -> tuple[base.ServedLikelihood, base.Arrays]:
        return Gaussian(), {}
