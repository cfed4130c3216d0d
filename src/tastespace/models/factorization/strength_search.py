"""`regularisation="auto"`: the strengths that predict held-out ratings best.

Only the product of the users' and items' strengths matters (scaling u up and v down by the same factor leaves
the ratings alone), so one number is searched: upward in small steps from far too weak, every fit starting from
the one before, until the held-out error has clearly turned; then a finer step on each side of the best. The
biases' own strength follows in the same way. Strengths of factors scale with the ratings, hence the unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, no_improvement
from tastespace.inference.transition import Stats, Transition
from tastespace.models.factorization.als import AlternatingLeastSquares, Factors
from tastespace.models.factorization.point import PointPosterior, Strengths
from tastespace.progress import Observer, Progress

FIRST, RATIO, FINE, LAST = 0.02, 1.3, 1.09, 3.0  # in units of the ratings' standard deviation
WORSE_IN_A_ROW = 2
BIAS_SHARES = (0.3, 0.1, 0.03)  # of the factors' strength
DEFAULT_STRENGTH = 0.1  # where there are too few ratings to hold any out
LEAST_HELD_OUT = 20

Bind = Callable[[Ratings, Strengths], AlternatingLeastSquares]


@dataclass(frozen=True, eq=False)
class Validation:
    """A share of the ratings held out, over the same rows as the rest."""

    train: Ratings
    held_out: Ratings
    mean: float

    @classmethod
    def split(cls, observed: Ratings, share: float, rng: Generator) -> Validation | None:
        """None when the share would be too few ratings to learn anything from."""
        n = len(observed)
        n_held_out = int(share * n)
        if n_held_out < LEAST_HELD_OUT:
            return None
        held_out: BoolArray = np.zeros(n, np.bool_)
        held_out[rng.permutation(n)[:n_held_out]] = True
        train = observed.masked(~held_out)
        return cls(train, observed.masked(held_out), train.mean)

    def rmse(self, state: Factors, strengths: Strengths, threads: int) -> float:
        posterior = PointPosterior(self.mean, state.users, state.items, strengths, np.zeros(0))
        predicted = posterior.predict(state.users, self.held_out.user_rows, self.held_out.item_rows, threads)
        low, high = self.train.range
        errors = np.clip(predicted, low, high).astype(np.float64) - self.held_out.values
        return float(np.sqrt(np.mean(errors**2)))


@dataclass(frozen=True, eq=False)
class Validated:
    """A transition that also measures the held-out error after each step."""

    inner: Transition[Factors]
    measure: Callable[[Factors], float]

    def init(self, rng: Generator) -> Factors:
        return self.inner.init(rng)

    def step(self, state: Factors, rng: Generator) -> tuple[Factors, Stats]:
        state, stats = self.inner.step(state, rng)
        return state, {**stats, "held-out rmse": self.measure(state)}


@dataclass(frozen=True, eq=False)
class Trial:
    """One fit of the search."""

    strengths: Strengths
    rmse: float
    state: Factors


def search_strengths(
    validation: Validation, bind: Bind, *, weighted: bool, sweeps: int, threads: int, rng: Generator, observer: Observer
) -> Trial:
    """The best strengths found, with the factors they led to."""
    unit = validation.train.standard_deviation or 1.0
    tried: list[Trial] = []

    def attempt(strength: float, bias_share: float, start: Factors | None) -> Trial:
        strengths = Strengths(strength, strength, bias_share * strength, bias_share * strength, weighted)
        transition = Validated(
            bind(validation.train, strengths), lambda state: validation.rmse(state, strengths, threads)
        )
        state = transition.init(rng) if start is None else start
        # The trial is worth its last error, not its luckiest: the refit runs to convergence as well.
        state, trace = ascend(
            transition,
            state,
            rng,
            steps=sweeps,
            stop=settled,
            phase="trial",
            observer=lambda progress: None,
        )
        trial = Trial(strengths, trace[-1]["held-out rmse"], state)
        tried.append(trial)
        observer(Progress("searching regularisation", len(tried), None, {"strength": strength, "rmse": trial.rmse}))
        return trial

    # Plain regularisation is one number a row whatever its ratings: weaker a rating by about their number.
    typical = 1.0 if weighted else float(np.median(validation.train.by_item.counts.clip(1)))
    strength, worse = FIRST * unit * typical, 0
    best = attempt(strength, 1.0, None)
    current = best
    while worse < WORSE_IN_A_ROW and strength < LAST * unit * typical:
        strength *= RATIO
        current = attempt(strength, 1.0, current.state)
        worse = 0 if current.rmse < best.rmse else worse + 1
        best = min(best, current, key=lambda trial: trial.rmse)
    for factor in (1 / FINE, FINE):
        trial = attempt(best.strengths.users * factor, 1.0, best.state)
        while trial.rmse < best.rmse:
            best = trial
            trial = attempt(best.strengths.users * factor, 1.0, best.state)
    for share in BIAS_SHARES:
        trial = attempt(best.strengths.users, share, best.state)
        if trial.rmse >= best.rmse:
            break
        best = trial
    return best


def settled(trace: list[Stats]) -> bool:
    """The held-out error has stopped moving, or has begun to rise."""
    return no_improvement("held-out rmse", 2)(trace) or (
        len(trace) > 2 and trace[-2]["held-out rmse"] - trace[-1]["held-out rmse"] < 2e-4 * trace[-1]["held-out rmse"]
    )
