"""`"auto"`: the confidence and the regularization whose lists rank held-out choices best.

Both matter jointly: the more a choice counts, the stronger the regularization has to be. The best values differ by a
factor of a hundred between data sets. So a coarse grid of both is tried with few factors and sweeps, since the best
values there are nearly the best with more of them; then half a step around the best. The measure is the NDCG of whole
lists: a held-out choice at place k counts 1 / log2(1 + k).

Where users or items have features, the regularization of their coefficients comes last. What is held out are choices of
known users and items, for which features matter little; those who have none need them most. So the smallest is taken
that is within a standard error (of the paired differences between users) of the best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product, starmap
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatMatrix, IntArray
from tastespace.data.ratings import Ratings
from tastespace.models.factorization.held_out_search import HeldOutSearch, Trial, Validation
from tastespace.models.factorization.implicit.cells import AlternatingChoices, ImplicitState
from tastespace.progress import Observer, Progress
from tastespace.randomness import generator

# Grids of the confidence, and of the ridge as a share of sqrt(users * items), by which sums over rows grow.
STRENGTHS, RIDGES = (1.0, 4.0, 16.0, 64.0), (0.0005, 0.002, 0.008, 0.03, 0.12)
TRIED_FACTORS, TRIED_SWEEPS = 32, 8
VALIDATION_SHARE = 0.1
FEATURE_STRENGTHS, USUAL_FEATURE_STRENGTH = (1.0, 3.0, 10.0, 30.0, 100.0), 10.0
MAX_SCORES = 30_000_000  # users in a measurement: this many are enough


@dataclass(frozen=True)
class Settings:
    """The settings that are searched for."""

    strength: float
    ridge: float
    of_features: float = USUAL_FEATURE_STRENGTH


Bind = Callable[[Ratings, Settings, int], AlternatingChoices]  # of ratings, settings, factors


def unit_of(observed: Ratings) -> float:
    """The unit of a ridge."""
    return float(np.sqrt(observed.n_users * observed.n_items))


def search_settings(
    observed: Ratings,
    bind: Bind,
    strengths: Sequence[float],
    ridges: Sequence[float],
    n_factors: int,
    rng: Generator,
    observer: Observer,
    of_features: Sequence[float] = (USUAL_FEATURE_STRENGTH,),
) -> Settings:
    """The best of these strengths and ridges, or between them; and of the regularizations of features."""
    validation, usual = Validation.split(observed, VALIDATION_SHARE, rng), of_features[len(of_features) // 2]
    if validation is None:
        return Settings(strengths[len(strengths) // 2], ridges[len(ridges) // 2], usual)
    judge = Judge.of(validation, rng)
    factors = min(n_factors, TRIED_FACTORS)
    total = len(strengths) * len(ridges) + 2 * (len(strengths) > 1) + 2 * (len(ridges) > 1) + len(of_features) - 1
    start_seed = int(rng.integers(1 << 63))

    def fit(settings: Settings, start: object) -> Trial[Settings, DoubleArray]:
        transition = bind(validation.train, settings, factors)
        # All from the same start, so that they can be compared.
        state = transition.init(generator(start_seed))
        for _ in range(TRIED_SWEEPS):
            state = transition.moved(state)
        values = judge.ndcgs(state, transition.has_biases)
        return Trial(settings, -float(values.mean()), values)

    def report(trial: Trial[Settings, DoubleArray], n: int) -> None:
        figures = {
            "strength": trial.setting.strength,
            "regularization": trial.setting.ridge,
            "held-out ndcg": -trial.error,
        }
        if len(of_features) > 1:
            figures["feature regularization"] = trial.setting.of_features
        observer(Progress("finding confidence and regularization", n, total, figures))

    search = HeldOutSearch(fit, report)
    search.try_all(starmap(Settings, product(strengths, ridges, (usual,))))
    for values, name in ((strengths, "strength"), (ridges, "ridge")):
        if len(values) > 1:
            best = search.best.setting
            search.try_all([replace(best, **{name: getattr(best, name) * factor}) for factor in (0.5, 2.0)])
    tried = [search.best]
    for value in of_features:
        if value != usual:
            tried.append(fit(replace(tried[0].setting, of_features=value), None))
            report(tried[-1], total - len(of_features) + len(tried))
    return least_as_good(tried)


def least_as_good(tried: Sequence[Trial[Settings, DoubleArray]]) -> Settings:
    """The smallest regularization of features that is within a standard error of the best."""
    best = min(tried, key=lambda trial: trial.error)
    for trial in sorted(tried, key=lambda trial: trial.setting.of_features):
        lost = best.fit - trial.fit
        if lost.mean() <= lost.std() / len(lost) ** 0.5:
            return trial.setting
    return best.setting


@dataclass(frozen=True, eq=False)
class Judge:
    """Held-out choices of some users."""

    train: Ratings
    held_out: Ratings
    users: IntArray

    @classmethod
    def of(cls, validation: Validation, rng: Generator) -> Judge:
        users = np.flatnonzero(validation.held_out.by_user.counts > 0)
        most = max(1, MAX_SCORES // max(validation.train.n_items, 1))
        if len(users) > most:
            users = np.sort(rng.permutation(users)[:most])
        return cls(validation.train, validation.held_out, users.astype(np.int32))

    def ndcgs(self, state: ImplicitState, has_biases: bool) -> DoubleArray:
        """The NDCG of each user."""
        return np.array([self._of_user(int(user), state, has_biases) for user in self.users])

    def _of_user(self, user: int, state: ImplicitState, has_biases: bool) -> float:
        scores = scores_of_user(state, user, has_biases)
        seen, wanted = self.train.by_user, self.held_out.by_user
        scores[seen.columns[seen.offsets[user] : seen.offsets[user + 1]]] = -np.inf
        own = scores[wanted.columns[wanted.offsets[user] : wanted.offsets[user + 1]]]
        # Tied scores count as if in the middle of the tie.
        ordered = np.sort(scores)
        above = len(scores) - np.searchsorted(ordered, own, side="right")
        level = len(scores) - np.searchsorted(ordered, own, side="left")
        places = np.sort((above + level + 1) / 2)
        return float(np.sum(_gain(places)) / np.sum(_gain(np.arange(1, len(own) + 1))))


def scores_of_user(state: ImplicitState, user: int, has_biases: bool) -> FloatMatrix:
    """The scores of all items for a user, without the common constant."""
    row = state.users[user]
    if not has_biases:
        return np.asarray(state.items @ row)
    return np.asarray(state.items[:, :-1] @ row[:-1] + state.items[:, -1])


def _gain(places: NDArray[Any]) -> DoubleArray:
    return np.asarray(1 / np.log2(1 + places))
