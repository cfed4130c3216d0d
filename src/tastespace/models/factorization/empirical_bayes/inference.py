"""Empirical Bayes from ratings to posterior: learn the precisions, then draw at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.errors import ConvergenceWarning, warn
from tastespace.inference.diagnosis import MAX_ERROR
from tastespace.inference.drivers import Schedule, ascend, sample
from tastespace.inference.samplers import stochastic_approximation as approximation
from tastespace.inference.transition import HELD_OUT, NOISE, Stats, Trace
from tastespace.models.base.resuming import Start
from tastespace.models.factorization.als.sweep import ALSState, AlternatingLeastSquares, Penalty, Strengths, Weighting
from tastespace.models.factorization.empirical_bayes import sweep as sweeps
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, Learning, WeightedUsers
from tastespace.models.factorization.empirical_bayes.settings import STEPS, TRANSITIONS, EmpiricalBayes
from tastespace.models.factorization.gibbs.generative_model import FactorModel
from tastespace.models.factorization.gibbs.item_draws import ItemDraws, KeptItems, Watch, Watched, trace_of
from tastespace.models.factorization.held_out_search import PLAIN
from tastespace.models.factorization.likelihoods.base import Observations, squared_errors
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.models.factorization.rows import RatingBlock
from tastespace.progress import Observer

# Too weak rather than too strong: factors that are shrunk too much may vanish, and then their precision is
# undetermined.
START_SWEEPS, START_STRENGTH, FIRST_STRENGTH = 5, 0.05, 0.02
TUNING_GAIN = 0.3  # of angles: how far a proposal that was accepted, or not, changes the logarithm of the next
MIN_PRECISION, MAX_PRECISION = 1e-6, 1e6  # of precisions


@dataclass(frozen=True, eq=False)
class FactorEvidence:
    """The evidence of a factorization, for stochastic approximation.

    With S_u = sum of w_i |u_i|^2 and N D numbers in U (likewise for items and biases), and |O| ratings,

        d log p / d lam_u = N D / (2 lam_u) - S_u / 2,      d log p / d alpha = |O| / (2 alpha) - 1/2 sum e^2

    with respect to the logarithm, and divided by the information N D / 2 about a precision of N D normal numbers:

        1 - lam_u S_u / (N D),                              1 - alpha sum e^2 / |O|

    Somani and Gupta (2017, equation 3.20) and Dey and Jhamb (2018, equation 10) print -S_u alone: the normaliser of the
    prior, which has the other term, was left out. Then a precision can only fall.
    """

    sweep: sweeps.FactorSweep
    coordinates: sweeps.Coordinates
    strengths: Strengths | None = None  # the start, in units of the ratings' standard deviation
    given: Start | None = None  # the items of another model, to start from

    @property
    def names(self) -> Sequence[str]:
        return self.coordinates.names

    def begin(self, rng: Generator) -> tuple[sweeps.FactorState, DoubleArray]:
        """The factors of a few sweeps of ALS, the noise that they leave, and the precisions of its strengths."""
        factors = self._start(rng)
        squares = float(squared_errors(self.sweep.observed.by_user, factors.users, factors.items).sum())
        found = len(self.sweep.observed) / squares if squares > 0 else MAX_PRECISION
        noise = min(max(found, MIN_PRECISION), MAX_PRECISION)
        strengths = self._usual(FIRST_STRENGTH) if self.strengths is None else self.strengths
        precisions = sweeps.Precisions.of_strengths(strengths, noise)
        return self.sweep.state(factors.users, factors.items, precisions), self.coordinates.logarithms(precisions)

    def moved(
        self, state: sweeps.FactorState, logarithms: DoubleArray, rng: Generator
    ) -> tuple[sweeps.FactorState, Stats]:
        return self.sweep.moved(state, self.coordinates.precisions(logarithms), TUNING_GAIN, rng)

    def gradient(self, state: sweeps.FactorState, logarithms: DoubleArray) -> DoubleArray:
        sizes, squares = (
            self.coordinates.values(of, of.users + of.items)
            for of in (self.sweep.sizes(), self.sweep.weighted_squares(state))
        )
        return np.array(list(map(self.slope, sizes, squares, map(exp, logarithms))))

    def slope(self, size: float, squares: float, precision: float) -> float:
        """The slope in the logarithm of the precision of `size` numbers, divided by its information."""
        return 1 - precision * squares / size

    def _usual(self, strength: float) -> Strengths:
        return Strengths.tied(strength * (1.0 if self.sweep.weighting.per_rating else PLAIN))

    def _start(self, rng: Generator) -> ALSState:
        sweep, penalty = self.sweep, Penalty(self._usual(START_STRENGTH), self.sweep.weighting)
        sides = sweep.observed.by_user, sweep.observed.by_item
        ascent = AlternatingLeastSquares(*sides, sweep.n_factors, penalty, sweep.has_biases, sweep.threads)
        if self.given is not None:
            return ascent.from_model(self.given, rng)
        return ascend(ascent, None, rng, steps=START_SWEEPS)[0]


# Both halves of this many steps must agree to this share of a precision: smaller changes do not affect predictions.
WINDOW, TOLERANCE = 12, 0.02
# Watched predictions use drawn users. Answers average expectations of users given items, which scatter about half as
# much.
INEXACT = 2 * MAX_ERROR
VANISHED = 0.01  # of the variance of the noise: tastes that vary by less are negligible


@dataclass(frozen=True)
class EmpiricalFactorization:
    """A factorization whose regularization is learned, with the settings of ALS and similar models."""

    settings: EmpiricalBayes
    weighting: Weighting
    n_factors: int
    has_biases: bool
    dtype: Any
    threads: int

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None, given: Start | None
    ) -> EmpiricalPosterior:
        """Learn the precisions, then draw at them."""
        offset, scale = observed.mean, observed.standard_deviation or 1.0
        sides = (RatingBlock.of(side, self.dtype, offset, scale) for side in (observed.by_user, observed.by_item))
        rest = (self.weighting, self.n_factors, self.has_biases, TRANSITIONS[self.settings.transition], self.threads)
        sweep = sweeps.FactorSweep(Observations(*sides), *rest)
        drawing, learning = self._learned(sweep, scale, given, rng, observer)
        noise = Gaussian(drawing.precisions.noise)
        model = FactorModel(self.n_factors, self.has_biases, noise, offset=offset, scale=scale, dtype=self.dtype)
        draws, trace = self._drawn(drawing, model, Watched.of(observed, held_out, model, rng), rng, observer)
        return EmpiricalPosterior(draws=draws, units=model.likelihood.units(observed), trace=trace, learning=learning)

    def _learned(
        self, sweep: sweeps.FactorSweep, scale: float, given: Start | None, rng: Generator, observer: Observer
    ) -> tuple[sweeps.DrawingSweep, Learning]:
        """The sampler at the precisions found, from the current state, and the path in units of the ratings."""
        settings, coordinates = self.settings, sweeps.Coordinates(self.settings.tied, self.has_biases)
        start = settings.start
        strengths = None if start is None else Strengths(start / scale, start / scale, start, start)
        evidence = FactorEvidence(sweep, coordinates, strengths, given)
        transition = approximation.StochasticApproximation(
            evidence, STEPS[settings.steps], float(np.log(MIN_PRECISION)), float(np.log(MAX_PRECISION))
        )
        converged = approximation.has_converged(coordinates.names, WINDOW, TOLERANCE)
        phase = "learning the regularization"
        last, trace = ascend(
            transition, None, rng, steps=settings.most_steps, stop=converged, phase=phase, observer=observer
        )
        if not converged(trace):
            warn(
                f"the regularization has not converged in {len(trace)} steps; expected the halves of the last "
                f"{WINDOW} to agree: set most_steps={2 * len(trace)} or more, such as "
                f"regularization='empirical-bayes:most_steps={2 * len(trace)}'",
                ConvergenceWarning,
            )

        def named(found: Mapping[str, float]) -> sweeps.Precisions:
            return coordinates.precisions(np.log([found[name] for name in coordinates.names]))

        precisions = named(approximation.averaged(trace, coordinates.names, WINDOW))
        if start is not None and sweep.taste_share(precisions) < VANISHED:
            warn(
                f"all factors vanished: the start {start:g} is too strong; expected a weaker one, or None",
                ConvergenceWarning,
            )
        path = np.array([named(stats).in_ratings(scale).array() for stats in trace])
        drawing = sweeps.DrawingSweep(sweep, precisions, last.state, scale)
        return drawing, Learning(path, precisions.in_ratings(scale))

    def _drawn(
        self, drawing: sweeps.DrawingSweep, model: FactorModel, watched: Watched, rng: Generator, observer: Observer
    ) -> tuple[ItemDraws, Trace]:
        """Draws at these precisions, starting from the final state of learning."""
        schedule, n_items = Schedule(chains=1, warmup=0, draws=self.settings.draws), len(drawing.start.items.factors)
        watches = [Watch(watched, schedule.warmup)]
        kept = KeptItems(schedule, n_items, model, np.float32)
        chains = sample(
            drawing,
            rng,
            schedule,
            keeps=kept.keepers,
            watches=watches,
            phase="drawing",
            reported=(HELD_OUT,),
            threads=1,
            observer=observer,
        )
        trace = trace_of(chains, watches, schedule)
        _say_if_inexact(trace)
        draws = ItemDraws.of(kept.items(), chains[0].draws, model)
        if self.weighting.per_rating:
            # A row without ratings has the weight of one with one rating.
            weight = float(self.weighting.of(np.zeros(1))[0])
            unrated = replace(
                draws.new_items,
                precisions=weight * draws.new_items.precisions,
                bias_precisions=weight * draws.new_items.bias_precisions,
            )
            draws = replace(draws, new_items=unrated, likelihood=WeightedUsers(weighting=self.weighting))
        return draws, trace


def _say_if_inexact(trace: Trace) -> None:
    """Warn about predictions whose Monte Carlo error is large relative to the noise.

    `tastespace diagnose` has all details. This check is fast; it uses pairs of draws, since mirrored draws belong
    together with their originals.
    """
    n = trace.sweeps // 2
    drawn = trace.predictions[0, : 2 * n].astype(np.float64).reshape(n, 2, -1).mean(axis=1)
    errors = [approximation.monte_carlo_error(series) for series in drawn.T] if n else []
    relative = float(np.sqrt(np.mean(np.square(errors)))) / float(trace.quantities[NOISE][0, 0]) if errors else 0.0
    if relative > INEXACT:
        wanted = int(np.ceil(trace.sweeps * (relative / INEXACT) ** 2))
        warn(
            f"predictions are not exact enough: their Monte Carlo error is {relative:.3f} times the noise sd (at most "
            f"{INEXACT:g} expected): set regularization='empirical-bayes:draws={wanted}' (now {trace.sweeps})",
            ConvergenceWarning,
        )
