"""Search of settings on held-out ratings, shared by ALS, PMF, implicit feedback and curves.

A search tries one setting after the other, perhaps each from the result of another, and remembers the best. The caller
defines the settings and how a fit is judged.

`regularization="auto"`: the strengths that predict held-out ratings best.

Only the product of the users' and items' strengths matters (scaling u up and v down by the same factor does not change
the ratings), so one number is searched: upward in small steps from far too weak, every fit starting from the one
before, until the held-out error has clearly turned; then a finer step on each side of the best. The strengths of the
user and item biases follow, one after the other. Strengths of factors scale with the ratings, those of biases do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Generic, TypeVar

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, no_improvement
from tastespace.inference.transition import HELD_OUT, Measured, Stats, Transition
from tastespace.models.factorization.als.sweep import ALSState, Penalty, Strengths, Weighting
from tastespace.models.factorization.rows import score_pairs
from tastespace.progress import Observer, Progress

MIN_HELD_OUT = 20
MEANINGFUL = 1e-4  # a smaller relative gain is noise

Setting = TypeVar("Setting")
Fit = TypeVar("Fit")


@dataclass(frozen=True, eq=False)
class Validation:
    """A share of the ratings held out, over the same rows as the rest."""

    train: Ratings
    held_out: Ratings

    @classmethod
    def split(cls, observed: Ratings, share: float, rng: Generator) -> Validation | None:
        """Hold out a share of the ratings; None if that would be too few to be informative."""
        n = len(observed)
        n_held_out = int(share * n)
        if n_held_out < MIN_HELD_OUT:
            return None
        held_out: BoolArray = np.zeros(n, np.bool_)
        held_out[rng.permutation(n)[:n_held_out]] = True
        return cls(observed.masked(~held_out), observed.masked(held_out))


@dataclass(frozen=True, eq=False)
class Trial(Generic[Setting, Fit]):
    """One fit of a search, and its held-out error."""

    setting: Setting
    error: float
    fit: Fit


class HeldOutSearch(Generic[Setting, Fit]):
    """Tries settings and keeps the best; after `max_trials` it tries no more.

    `fit` takes a setting and the trial to start from, None for the first; `report` is called with every trial and the
    number of trials.
    """

    def __init__(
        self,
        fit: Callable[[Setting, Trial[Setting, Fit] | None], Trial[Setting, Fit]],
        report: Callable[[Trial[Setting, Fit], int], None] = lambda trial, n: None,
        max_trials: float = inf,
    ) -> None:
        self._fit, self._report, self._max_trials = fit, report, max_trials
        self._n_trials = 0
        self._best: Trial[Setting, Fit] | None = None
        self._last: Trial[Setting, Fit] | None = None

    @property
    def best(self) -> Trial[Setting, Fit]:
        assert self._best is not None, "nothing was tried yet"
        return self._best

    def try_all(
        self, settings: Iterable[Setting], *, patience: float = inf, gain: float = 0.0, from_last: bool = False
    ) -> bool:
        """Try settings until `patience` of them in a row are no better; returns whether the best has changed.

        Better is an error that is smaller by more than the share `gain`. Fits start from the best one, or from the
        last.
        """
        before, worse = self._best, 0
        for setting in settings:
            if worse >= patience or self._n_trials >= self._max_trials:
                break
            trial = self._last = self._fit(setting, self._last if from_last else self._best)
            self._n_trials += 1
            self._report(trial, self._n_trials)
            worse += 1
            if self._best is None or trial.error < (1 - gain) * self._best.error:
                self._best, worse = trial, 0
        return self._best is not before


def repeated(setting: Setting, step: Callable[[Setting], Setting]) -> Iterator[Setting]:
    """One step from the setting, two, three and so on without end."""
    while True:
        setting = step(setting)
        yield setting


FIRST, RATIO, FINE, LAST = 0.02, 1.3, 1.09, 3.0  # for ratings of standard deviation 1
PLAIN = 100.0  # a penalty that does not grow with the ratings of a row must be stronger by about their number
WORSE_IN_A_ROW = 2
# Only one step either way: held-out ratings are mostly those of active users, whose biases need no penalty,
# whereas a new user with one rating does.
BIAS_STEPS = (1 / 3, 3.0)
DEFAULT_STRENGTH = 0.1  # if there are too few ratings to hold any out
BLOCKS = ("users", "items", "user_bias", "item_bias")


def validated(transition: Transition[ALSState], validation: Validation, threads: int) -> Measured[ALSState]:
    """The transition, with the error of clipped predictions of the held-out ratings."""
    train, held_out = validation.train, validation.held_out

    def rmse(state: ALSState) -> float:
        rows = held_out.user_rows, held_out.item_rows
        predicted = score_pairs(state.users, rows[0], state.items, rows[1], train.mean, threads)
        errors = np.clip(predicted, *train.range).astype(np.float64) - held_out.values
        return float(np.sqrt(np.mean(errors**2)))

    return Measured(transition, {HELD_OUT: rmse})


def standard(strength: float, ratings: Ratings) -> Strengths:
    """Strengths for these ratings from one for ratings of standard deviation 1."""
    factors = strength * (ratings.standard_deviation or 1.0)
    return Strengths(factors, factors, strength, strength)


def scaled(strengths: Strengths, factor: float, blocks: Sequence[str] = BLOCKS) -> Strengths:
    """The strengths with those of some blocks times a factor."""
    return replace(strengths, **{block: getattr(strengths, block) * factor for block in blocks})


def search_strengths(
    train: Ratings,
    bind: Callable[[Penalty], Transition[ALSState]],
    *,
    weighting: Weighting,
    biases: bool,
    sweeps: int,
    rng: Generator,
    observer: Observer,
) -> Trial[Strengths, ALSState]:
    """The best strengths for a transition that measures the held-out error, with the resulting factors."""

    def fit(strengths: Strengths, start: Trial[Strengths, ALSState] | None) -> Trial[Strengths, ALSState]:
        transition = bind(Penalty(strengths, weighting))
        state = transition.init(rng) if start is None else start.fit
        # The last error counts, not the smallest: the refit runs to convergence as well.
        state, trace = ascend(transition, state, rng, steps=sweeps, stop=has_converged)
        return Trial(strengths, trace[-1][HELD_OUT], state)

    def report(trial: Trial[Strengths, ALSState], n: int) -> None:
        figures = {"strength": trial.setting.users, HELD_OUT: trial.error}
        observer(Progress("searching regularization", n, None, figures))

    unit = 1.0 if weighting.per_rating else PLAIN
    grid = [FIRST * unit]
    while grid[-1] < LAST * unit:
        grid.append(grid[-1] * RATIO)
    search = HeldOutSearch(fit, report)
    search.try_all((standard(strength, train) for strength in grid), patience=WORSE_IN_A_ROW, from_last=True)
    for factor in (1 / FINE, FINE):
        steps = repeated(search.best.setting, partial(scaled, factor=factor))
        search.try_all(steps, patience=1, gain=MEANINGFUL)
    for block in ("user_bias", "item_bias") if biases else ():
        for factor in BIAS_STEPS:
            if search.try_all([scaled(search.best.setting, factor, (block,))], gain=MEANINGFUL):
                break  # Weaker helped, so stronger cannot.
    return search.best


def has_converged(trace: list[Stats]) -> bool:
    """Whether the held-out error has stopped changing, or has started to rise."""
    return no_improvement(HELD_OUT, 2)(trace) or (
        len(trace) > 2 and trace[-2][HELD_OUT] - trace[-1][HELD_OUT] < 2e-4 * trace[-1][HELD_OUT]
    )
