"""Search of settings on held-out ratings: what ALS, PMF, implicit feedback and curves share.

A search tries one setting after the other, perhaps each from where another ended, and remembers the best. What is
tried, and how a fit is judged, is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray
from tastespace.data.ratings import Ratings

MIN_HELD_OUT = 20
MEANINGFUL = 1e-4  # a smaller relative gain is noise, and following it leads nowhere

Setting = TypeVar("Setting")
Fit = TypeVar("Fit")


@dataclass(frozen=True, eq=False)
class Validation:
    """A share of the ratings held out, over the same rows as the rest."""

    train: Ratings
    held_out: Ratings

    @classmethod
    def split(cls, observed: Ratings, share: float, rng: Generator) -> Validation | None:
        """None when the share would be too few ratings to learn anything from."""
        n = len(observed)
        n_held_out = int(share * n)
        if n_held_out < MIN_HELD_OUT:
            return None
        held_out: BoolArray = np.zeros(n, np.bool_)
        held_out[rng.permutation(n)[:n_held_out]] = True
        return cls(observed.masked(~held_out), observed.masked(held_out))


@dataclass(frozen=True, eq=False)
class Trial(Generic[Setting, Fit]):
    """One fit of a search, and its error on what was held out."""

    setting: Setting
    error: float
    fit: Fit


class HeldOutSearch(Generic[Setting, Fit]):
    """Tries settings and keeps the best; after `max_trials` it tries no more.

    `fit` is given a setting and the trial to start from, None for the first; `report` is told of every trial and of
    how many there have been.
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
        self,
        settings: Iterable[Setting],
        *,
        patience: float = inf,
        gain: float = 0.0,
        from_last: bool = False,
    ) -> bool:
        """Try settings until `patience` of them in a row were no better; returns whether the best has changed.

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
