"""What is watched of a chain while it runs: a few pairs nobody has rated, and ratings held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, FloatArray, IntArray
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import Chain, Schedule
from tastespace.inference.transition import Stats, Trace
from tastespace.models.factorization.gibbs.generative_model import FactorModel
from tastespace.models.factorization.gibbs.item_draws import Hyper
from tastespace.models.factorization.gibbs.sweep import GibbsState
from tastespace.models.factorization.rows import score_pairs

PAIRS = 100
TRIES = 20  # for each pair: where almost everything is rated, a rated one will do


@dataclass(frozen=True, eq=False)
class Watched:
    """The pairs that all chains of a run are watched by."""

    user_rows: IntArray
    item_rows: IntArray
    held_out_users: IntArray
    held_out_items: IntArray
    held_out_values: FloatArray
    model: FactorModel
    rating_range: tuple[float, float]

    @classmethod
    def of(cls, observed: Ratings, held_out: Ratings | None, model: FactorModel, rng: Generator) -> Watched:
        """Users and items as often as they rate and are rated, paired at random; unrated pairs where there are any."""
        user_rows, item_rows = _unrated_pairs(observed, rng)
        users, items, values = aligned(observed, held_out)
        return cls(user_rows, item_rows, users, items, values, model, observed.range)

    def predict(self, state: GibbsState, user_rows: IntArray, item_rows: IntArray) -> FloatArray:
        """Expected ratings of a state."""
        scores = score_pairs(state.users, user_rows, state.items, item_rows, 0.0, 1)
        expected = self.model.likelihood.expected(scores, state.noise)
        return np.asarray(self.model.offset + self.model.scale * expected, np.float32)


@dataclass(eq=False)
class Watch:
    """The watch over one chain."""

    watched: Watched
    warmup: int
    predictions: list[FloatArray] = field(default_factory=list)
    total: DoubleArray | None = None  # of the predictions of held-out ratings since warm-up
    n: int = 0

    def __call__(self, state: GibbsState, step: int) -> Stats:
        watched = self.watched
        self.predictions.append(watched.predict(state, watched.user_rows, watched.item_rows))
        if not len(watched.held_out_values):
            return {}
        now = watched.predict(state, watched.held_out_users, watched.held_out_items).astype(np.float64)
        if step <= self.warmup:
            mean = now
        else:
            self.total = now if self.total is None else self.total + now
            self.n += 1
            mean = self.total / self.n
        errors = np.clip(mean, *watched.rating_range) - watched.held_out_values
        return {"held-out rmse": sqrt(float(np.mean(errors**2)))}

    def saved(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"predictions": np.stack(self.predictions), "total": self.total, "n": self.n}

    def restore(self, remembered: Mapping[str, Any]) -> None:
        self.predictions = list(remembered["predictions"])
        self.total, self.n = remembered["total"], remembered["n"]


def trace_of(
    chains: Sequence[Chain[Any, Hyper]], watches: Sequence[Watch], schedule: Schedule, sweeps: int | None = None
) -> Trace:
    """What was watched, of all chains: of the first so many sweeps, or of all."""
    names = list(chains[0].trace[0])
    return Trace(
        warmup=schedule.warmup,
        thin=schedule.thin,
        quantities={
            name: np.array([[stats[name] for stats in chain.trace[:sweeps]] for chain in chains]) for name in names
        },
        predictions=np.stack([np.stack(watch.predictions[:sweeps]) for watch in watches]).astype(np.float32),
        wanted_error=None if schedule.until is None else schedule.until.error,
    )


def _unrated_pairs(observed: Ratings, rng: Generator) -> tuple[IntArray, IntArray]:
    by_user = observed.by_user
    user_rows, item_rows = np.empty(PAIRS, np.int32), np.empty(PAIRS, np.int32)
    for place in range(PAIRS):
        for _ in range(TRIES):
            user = int(observed.user_rows[rng.integers(len(observed))])
            item = int(observed.item_rows[rng.integers(len(observed))])
            if item not in by_user.columns[by_user.offsets[user] : by_user.offsets[user + 1]]:
                break
        user_rows[place], item_rows[place] = user, item
    return user_rows, item_rows


def aligned(observed: Ratings, held_out: Ratings | None) -> tuple[IntArray, IntArray, FloatArray]:
    """The held-out ratings of users and items that are known, in the rows of the training ratings."""
    if held_out is None:
        return np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32)
    users = observed.users.rows_of(held_out.users.ids)[held_out.user_rows]
    items = observed.items.rows_of(held_out.items.ids)[held_out.item_rows]
    known = (users >= 0) & (items >= 0)
    return users[known], items[known], held_out.values[known]
