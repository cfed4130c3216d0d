"""Predictions of a model for all test ratings, a block of users at a time.

The distributions of n ratings are n x draws numbers, which for millions of ratings would not fit into memory. So
they are scored block by block, and only the scores of each rating are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, IntArray
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Vocabulary
from tastespace.evaluation.calibration import Outcomes
from tastespace.models import Recommender
from tastespace.progress import Observer, Progress
from tastespace.randomness import generator

BLOCK_PAIRS = 100_000


@dataclass(frozen=True, eq=False)
class Answers:
    """The prediction for each test rating; `outcomes` is None for a model that provides no uncertainty."""

    mean: FloatArray
    unclipped: FloatArray  # used to order the test items of a user
    cold: BoolArray
    outcomes: Outcomes | None = None


def predict_all(
    recommender: Recommender,
    test: Ratings,
    users: IntArray,  # one per test rating: its user's position among the test users
    history: Ratings | None,
    *,
    seed: int | None,  # of the randomized part of the outcomes; None to leave them out
    observer: Observer,
) -> Answers:
    """Predict all test ratings, keeping users whole, and score the predictions."""
    mean, unclipped = np.empty(len(test), np.float32), np.empty(len(test), np.float32)
    cold = np.empty(len(test), np.bool_)
    noise = None if seed is None else _noise(test, users, seed)
    parts: list[tuple[NDArray[np.int64], Outcomes]] = []
    n_done = 0
    for rows in user_blocks(users):
        item_ids = test.items.at(test.item_rows[rows])
        own = of_users(history, test.users.at(np.unique(test.user_rows[rows])))
        prediction = recommender.predict(test.users.at(test.user_rows[rows]), item_ids, history=own)
        mean[rows], cold[rows] = prediction.mean, prediction.cold
        unclipped[rows] = prediction.mean if prediction.unclipped is None else prediction.unclipped
        if noise is not None and prediction.is_uncertain:
            parts.append((rows, Outcomes.of(prediction, test.values[rows], noise[rows])))
        n_done += len(rows)
        if n_done > len(rows):  # No progress for a single block.
            observer(Progress("predicting", n_done, len(test)))
    return Answers(mean, unclipped, cold, Outcomes.joined(parts) if parts else None)


def user_blocks(users: IntArray) -> Iterator[NDArray[np.int64]]:
    """All positions in blocks of bounded size, those of a user in one block unless there are too many."""
    order = np.argsort(users, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(users[order])) + 1, len(order))
    start = 0
    while start < len(order):
        most = start + BLOCK_PAIRS
        last = int(np.searchsorted(ends, most, side="right")) - 1
        stop = int(ends[last]) if last >= 0 and ends[last] > start else min(most, len(order))
        yield order[start:stop]
        start = stop


def are_known(train: Ratings, test: Ratings) -> BoolArray:
    """Which test ratings have both a user and an item of the training ratings."""
    users = train.users.rows_of(test.users.ids)[test.user_rows]
    items = train.items.rows_of(test.items.ids)[test.item_rows]
    return np.asarray((users >= 0) & (items >= 0))


def of_users(history: Ratings | None, user_ids: pl.Series) -> Ratings | None:
    """The part of a history that belongs to these users, each given once."""
    if history is None:
        return None
    is_theirs = Vocabulary(user_ids).rows_of(history.users.ids)[history.user_rows] >= 0
    return history.take(np.flatnonzero(is_theirs)) if is_theirs.any() else None


def _noise(test: Ratings, users: IntArray, seed: int) -> DoubleArray:
    """Uniform random numbers, one per rating: the same for the same pair, whatever the order of the file."""
    items = Vocabulary(test.items.ids.sort()).rows_of(test.items.ids)[test.item_rows]
    noise = np.empty(len(test))
    (rng,) = generator(seed).spawn(1)  # independent of the numbers that the bootstrap draws
    noise[np.lexsort((items, users))] = rng.random(len(test))
    return noise
