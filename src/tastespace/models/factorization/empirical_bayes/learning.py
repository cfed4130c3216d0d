"""Learning the precisions: the evidence of factorization, for stochastic approximation.

With S_u = sum of w_i |u_i|^2 and N D numbers in U (likewise for items and biases), and |O| ratings,

    d log p / d lam_u = N D / (2 lam_u) - S_u / 2,      d log p / d alpha = |O| / (2 alpha) - 1/2 sum e^2

by the logarithm, and over the information N D / 2 that a precision of N D normal numbers has:

    1 - lam_u S_u / (N D),                              1 - alpha sum e^2 / |O|

Somani and Gupta (2017, equation 3.20) and Dey and Jhamb (2018, equation 10) print -S_u alone: the normaliser of the
prior, which has the other term, was left out. Then a precision can only fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.inference.drivers import ascend, never
from tastespace.inference.transition import Stats
from tastespace.models.factorization.als import AlternatingLeastSquares, Factors
from tastespace.models.factorization.empirical_bayes.precisions import Coordinates, Precisions
from tastespace.models.factorization.empirical_bayes.sweep import FactorState, FactorSweep
from tastespace.models.factorization.likelihoods import squared_errors
from tastespace.models.factorization.penalty import Penalty, Strengths, Weighting
from tastespace.models.factorization.rows import Points
from tastespace.models.factorization.strength_search import PLAIN
from tastespace.models.starting import Start
from tastespace.progress import silent

# Too weak rather than too strong: factors that are held down too much may vanish, and a precision that has nothing to
# hold is at rest anywhere.
START_SWEEPS, START_STRENGTH, FIRST_STRENGTH, START_SD = 5, 0.05, 0.02, 0.1
TUNING_GAIN = 0.3  # of angles: how far a proposal that was accepted, or not, changes the logarithm of the next
LEAST, MOST = 1e-6, 1e6  # of precisions


@dataclass(frozen=True, eq=False)
class FactorEvidence:
    """The evidence of a factorization, as stochastic approximation asks for it."""

    sweep: FactorSweep
    weighting: Weighting
    coordinates: Coordinates
    strengths: Strengths | None = None  # to begin with, in units of the ratings' standard deviation
    given: Start | None = None  # the items of another model, to begin from
    unit: float = 1.0  # the scale of the ratings, for those

    @property
    def names(self) -> Sequence[str]:
        return self.coordinates.names

    def begin(self, rng: Generator) -> tuple[FactorState, DoubleArray]:
        """The factors of a few sweeps of ALS, the noise that they leave, and the precisions of its strengths."""
        factors = self._start(rng)
        squares = float(squared_errors(self.sweep.observed.by_user, factors.users, factors.items).sum())
        noise = min(max(len(self.sweep.observed) / squares, LEAST), MOST) if squares > 0 else MOST
        strengths = self._usual(FIRST_STRENGTH) if self.strengths is None else self.strengths
        precisions = Precisions.of_strengths(strengths, noise)
        return self.sweep.state(factors.users, factors.items, precisions), self.coordinates.logarithms(precisions)

    def moved(self, state: FactorState, logarithms: DoubleArray, rng: Generator) -> tuple[FactorState, Stats]:
        return self.sweep.moved(state, self.coordinates.precisions(logarithms), TUNING_GAIN, rng)

    def gradient(self, state: FactorState, logarithms: DoubleArray) -> DoubleArray:
        sizes, squares = self.sweep.sizes(), self.sweep.weighted_squares(state)
        blocks = [(sizes.users, squares.users), (sizes.items, squares.items)]
        if self.coordinates.is_tied:
            blocks = [(sizes.users + sizes.items, squares.users + squares.items)]
        if self.coordinates.has_biases:
            blocks += [(sizes.user_bias, squares.user_bias), (sizes.item_bias, squares.item_bias)]
        blocks.append((sizes.noise, squares.noise))
        return np.array([self.slope(*block, exp(value)) for block, value in zip(blocks, logarithms, strict=True)])

    def slope(self, size: float, squares: float, precision: float) -> float:
        """By the logarithm of the precision of so many numbers, over its information."""
        return 1 - precision * squares / size

    def _usual(self, strength: float) -> Strengths:
        return Strengths.tied(strength * (1.0 if self.weighting.per_rating else PLAIN))

    def _start(self, rng: Generator) -> Factors:
        ascent = self._ascent()
        if self.given is not None:
            return ascent.from_items(self._given_items(self.given, rng))
        start, _ = ascend(
            ascent, ascent.init(rng), rng, steps=START_SWEEPS, stop=never, phase="starting", observer=silent
        )
        return start

    def _given_items(self, given: Start, rng: Generator) -> Points:
        sweep, root = self.sweep, np.sqrt(self.unit)
        factors = (given.factors(sweep.n_factors, START_SD * root, rng) / root).astype(sweep.dtype)
        return Points(factors, (given.points.bias / self.unit).astype(sweep.dtype) if sweep.has_biases else None)

    def _ascent(self) -> AlternatingLeastSquares:
        """The least squares that a chain starts from."""
        sweep = self.sweep
        penalty = Penalty(self._usual(START_STRENGTH), self.weighting)
        by_user, by_item = sweep.observed.by_user, sweep.observed.by_item
        return AlternatingLeastSquares(
            by_user=by_user,
            by_item=by_item,
            user_prior=penalty.prior("users", sweep.n_factors, np.diff(by_user.offsets), sweep.dtype),
            item_prior=penalty.prior("items", sweep.n_factors, np.diff(by_item.offsets), sweep.dtype),
            has_biases=sweep.has_biases,
            start_sd=START_SD,
            threads=sweep.threads,
        )
