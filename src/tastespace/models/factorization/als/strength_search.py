"""`regularisation="auto"`: the strengths that predict held-out ratings best.

Only the product of the users' and items' strengths matters (scaling u up and v down by the same factor leaves
the ratings alone), so one number is searched: upward in small steps from far too weak, every fit starting from
the one before, until the held-out error has clearly turned; then a finer step on each side of the best. The
strengths of the user and item biases follow, one after the other. Strengths of factors scale with the ratings,
those of biases do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, no_improvement
from tastespace.inference.transition import Stats, Transition
from tastespace.models.factorization.als.sweep import ALSState, AlternatingLeastSquares, Penalty, Strengths, Weighting
from tastespace.models.factorization.rows import score_pairs
from tastespace.progress import Observer, Progress, silent

FIRST, RATIO, FINE, LAST = 0.02, 1.3, 1.09, 3.0  # for ratings of standard deviation 1
PLAIN = 100.0  # a penalty that does not grow with the ratings of a row must be stronger by about their number
WORSE_IN_A_ROW = 2
MEANINGFUL = 1e-4  # a smaller relative gain is noise, and following it leads nowhere
# One step either way and no more: held-out ratings are mostly those of busy users, whose biases need no penalty,
# whereas a stranger with one rating does.
BIAS_STEPS = (1 / 3, 3.0)
DEFAULT_STRENGTH = 0.1  # where there are too few ratings to hold any out
LEAST_HELD_OUT = 20

Bind = Callable[[Ratings, Penalty], AlternatingLeastSquares]


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
        if n_held_out < LEAST_HELD_OUT:
            return None
        held_out: BoolArray = np.zeros(n, np.bool_)
        held_out[rng.permutation(n)[:n_held_out]] = True
        return cls(observed.masked(~held_out), observed.masked(held_out))

    def measured(self, transition: Transition[ALSState], threads: int) -> Validated:
        """The transition, with the held-out error after each step."""
        return Validated(transition, lambda state: self.rmse(state, threads))

    def rmse(self, state: ALSState, threads: int) -> float:
        """The error of predictions, clipped as they will be."""
        user_rows, item_rows = self.held_out.user_rows, self.held_out.item_rows
        predicted = score_pairs(state.users, user_rows, state.items, item_rows, self.train.mean, threads)
        low, high = self.train.range
        errors = np.clip(predicted, low, high).astype(np.float64) - self.held_out.values
        return float(np.sqrt(np.mean(errors**2)))


@dataclass(frozen=True, eq=False)
class Validated:
    """A transition that also measures the held-out error after each step."""

    inner: Transition[ALSState]
    measure: Callable[[ALSState], float]

    def init(self, rng: Generator) -> ALSState:
        return self.inner.init(rng)

    def step(self, state: ALSState, rng: Generator) -> tuple[ALSState, Stats]:
        state, stats = self.inner.step(state, rng)
        return state, {**stats, "held-out rmse": self.measure(state)}


@dataclass(frozen=True, eq=False)
class Trial:
    """One fit of the search."""

    strengths: Strengths
    rmse: float
    state: ALSState


def standard(strength: float, ratings: Ratings) -> Strengths:
    """A strength for ratings of standard deviation 1 as the strengths of these ratings."""
    factors = strength * (ratings.standard_deviation or 1.0)
    return Strengths(factors, factors, strength, strength)


def search_strengths(
    validation: Validation,
    bind: Bind,
    *,
    weighting: Weighting,
    biases: bool,
    sweeps: int,
    threads: int,
    rng: Generator,
    observer: Observer,
) -> Trial:
    """The best strengths found, with the factors they led to."""
    tried: list[Trial] = []

    def attempt(strengths: Strengths, start: ALSState | None) -> Trial:
        penalty = Penalty(strengths, weighting)
        transition = validation.measured(bind(validation.train, penalty), threads)
        state = transition.init(rng) if start is None else start
        # The trial is worth its last error, not its luckiest: the refit runs to convergence as well.
        state, trace = ascend(
            transition,
            state,
            rng,
            steps=sweeps,
            stop=settled,
            phase="trial",
            observer=silent,
        )
        trial = Trial(strengths, trace[-1]["held-out rmse"], state)
        tried.append(trial)
        observer(Progress("searching regularisation", len(tried), None, _figures(trial)))
        return trial

    def scaled(best: Trial, blocks: Sequence[str], factor: float) -> Trial:
        """The best trial, or the better one with the strengths of some blocks times a factor."""
        strengths = replace(best.strengths, **{block: getattr(best.strengths, block) * factor for block in blocks})
        trial = attempt(strengths, best.state)
        return trial if trial.rmse < (1 - MEANINGFUL) * best.rmse else best

    unit = 1.0 if weighting.per_rating else PLAIN
    strength, worse = FIRST * unit, 0
    current = best = attempt(standard(strength, validation.train), None)
    while worse < WORSE_IN_A_ROW and strength < LAST * unit:
        strength *= RATIO
        current = attempt(standard(strength, validation.train), current.state)
        worse = 0 if current.rmse < best.rmse else worse + 1
        best = min(best, current, key=lambda trial: trial.rmse)
    for factor in (1 / FINE, FINE):
        while (better := scaled(best, ("users", "items", "user_bias", "item_bias"), factor)) is not best:
            best = better
    for block in ("user_bias", "item_bias") if biases else ():
        for factor in BIAS_STEPS:
            if (better := scaled(best, (block,), factor)) is not best:
                best = better
                break  # Weaker helped, so stronger does not.
    return best


def _figures(trial: Trial) -> Stats:
    return {"strength": trial.strengths.users, "held-out rmse": trial.rmse}


def settled(trace: list[Stats]) -> bool:
    """The held-out error has stopped moving, or has begun to rise."""
    return no_improvement("held-out rmse", 2)(trace) or (
        len(trace) > 2 and trace[-2]["held-out rmse"] - trace[-1]["held-out rmse"] < 2e-4 * trace[-1]["held-out rmse"]
    )
