"""What lists are compared with: who is asked about, which test items are relevant, and what each is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.kinds import CHOICES, Kind, guess_kind
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.metrics.binary import YES_NO
from tastespace.evaluation.metrics.rating import STANDARD, Metric
from tastespace.models import Recommender
from tastespace.models.base.query import Query


@dataclass(frozen=True)
class EvaluationTask:
    """What a recommender can be asked on test ratings."""

    kind: Kind  # of training and test ratings
    predicts_ratings: bool

    @property
    def is_of_lists(self) -> bool:
        """Whether lists are all there is to measure."""
        return self.kind in CHOICES or not self.predicts_ratings

    @property
    def is_of_answers(self) -> bool:
        """Whether predictions are probabilities of yes."""
        return self.kind == "yes-no" and self.predicts_ratings

    @property
    def is_of_stars(self) -> bool:
        """Whether predictions are ratings, whose distributions may be assessed."""
        return self.kind == "stars" and self.predicts_ratings

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Measures of predictions."""
        return STANDARD if self.is_of_stars else YES_NO if self.is_of_answers else {}


def kind_of(trained: Ratings, test: Ratings, known: FloatArray | None = None) -> Kind:
    """What all ratings together say: what is declared is believed, that of the test ratings first; else a guess."""
    parts = [trained.values if known is None else known, test.values]
    return test.declared_kind or trained.declared_kind or guess_kind(np.concatenate(parts)).kind


def task_of(recommender: Recommender, test: Ratings) -> EvaluationTask:
    """What this recommender can be asked on these ratings.

    A declared kind is believed, that of the test ratings first. A guess is made of all values together: a few test
    ratings of five stars are no one-class data. But a model that has learned from choices alone knows no stars, and an
    error of ones says nothing.
    """
    trained = recommender.ratings_
    # Without the ratings, all that is known of them is their range.
    kind = kind_of(trained, test, None if len(trained) else np.array(recommender.rating_range_, np.float32))
    # What it was fitted on was declared to be choices, or is all 1.
    declared = trained.declared_kind
    if kind == "stars" and (declared in CHOICES or (declared is None and len(trained) and trained.range == (1, 1))):
        kind = "counts"
    # To a model of choices it says something that a thing was not rated.
    return EvaluationTask(kind, predicts_ratings=recommender.not_rated is None)


# From which test rating on an item is relevant; None for what makes task.
Relevant = float | Literal["all"] | None


@dataclass(frozen=True)
class Relevance:
    """Which test ratings are relevant, and what they are worth."""

    threshold: float | None  # at least this; None for all
    lowest: float  # the gain of an item is its rating less this; NaN: everything relevant is worth 1

    @property
    def is_graded(self) -> bool:
        return not math.isnan(self.lowest)


EVERYTHING = Relevance(None, math.nan)


@dataclass(frozen=True, eq=False)
class Matched:
    """Test ratings in the rows of a model."""

    users: IntArray  # of each test rating, its user's position among the test users
    items: IntArray  # of each test rating, its item's row in the training ratings, -1 for a cold one
    values: FloatArray
    is_seen: BoolArray  # whether the model knows a rating of the same pair already

    @classmethod
    def of(cls, trained: Ratings, test: Ratings, asked: Query) -> Matched:
        """Match by id; `asked` are the test users, with what they are known to have rated."""
        users = asked.each.rows_of(test.users.ids)[test.user_rows]
        items = trained.items.rows_of(test.items.ids)[test.item_rows]
        history = asked.people.history
        seen = _keys(history.rows(), history.columns, trained.n_items)  # ascending, as the seen items are
        return cls(users, items, test.values, _found(_keys(users, items, trained.n_items), seen)[0])

    def is_relevant(self, relevance: Relevance) -> BoolArray:
        """Which test ratings lists are to hold; what the model knows already cannot be recommended."""
        # In single precision, as the ratings are: 0.7 must be at least 0.7.
        least = np.float32(-np.inf if relevance.threshold is None else relevance.threshold)
        return np.asarray((self.values >= least) & ~self.is_seen)


@dataclass(frozen=True, eq=False)
class RelevantItems:
    """The users with relevant test items, and what their test items are worth.

    The gain of an item is its rating less the lowest training rating, or 1 for all that is relevant. What the model
    knows already cannot be recommended and is left out; what is cold cannot be found, but counts in `n_relevant` and
    among the best gains.
    """

    positions: NDArray[np.int64]  # of each user to rank for, among all test users
    n_relevant: NDArray[np.int64]  # one a user
    n_items: int
    keys: NDArray[np.int64]  # user and item of each test rating that can be found, ascending
    gains: FloatArray  # one a key
    is_relevant: BoolArray  # one a key
    offsets: NDArray[np.int64]  # where the best gains of each user begin
    best_gains: FloatArray  # of all test items of each user, best first

    @classmethod
    def of(cls, matched: Matched, n_users: int, n_items: int, relevance: Relevance) -> RelevantItems:
        is_relevant = matched.is_relevant(relevance)
        gains = is_relevant.astype(np.float32)
        if relevance.is_graded:
            gains = np.where(matched.is_seen, 0, np.maximum(matched.values - np.float32(relevance.lowest), 0))
        counts = np.bincount(matched.users[is_relevant], minlength=n_users)
        positions = np.flatnonzero(counts)
        rank = np.full(n_users, -1)
        rank[positions] = np.arange(len(positions))
        users = rank[matched.users]
        used = np.flatnonzero((users >= 0) & ~matched.is_seen)
        findable = used[matched.items[used] >= 0]
        keys = _keys(users[findable], matched.items[findable], n_items)
        order = np.argsort(keys)
        found = findable[order]
        best = used[np.lexsort((-gains[used], users[used]))]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(users[used], minlength=len(positions)))])
        of_keys = keys[order], gains[found], is_relevant[found]
        return cls(positions, counts[positions], n_items, *of_keys, offsets, best_gains=gains[best])

    def __len__(self) -> int:
        return len(self.positions)

    def look_up(self, start: int, item_rows: IntArray) -> tuple[BoolArray, FloatMatrix]:
        """Whether the item at each place of the lists of users from `start` on is relevant, and what it is worth."""
        users = np.arange(start, start + len(item_rows))
        is_found, places = _found(_keys(users[:, None], item_rows, self.n_items), self.keys)
        if not len(self.keys):
            return is_found, np.zeros(item_rows.shape, np.float32)
        return is_found & self.is_relevant[places], np.where(is_found, self.gains[places], np.float32(0))

    def ideal_gains(self, start: int, stop: int, k: int) -> FloatMatrix:
        """The gains of the best list that each user could be shown."""
        places = self.offsets[start:stop, None] + np.arange(k)
        is_there = places < self.offsets[start + 1 : stop + 1, None]
        return np.where(is_there, self.best_gains[np.where(is_there, places, 0)], np.float32(0))

    def relevant_items(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """The relevant items that can be found: users, counted from `start`, and items."""
        first, last = np.searchsorted(self.keys, _keys(np.array([start, stop]), np.array(-1), self.n_items))
        keys = self.keys[first:last][self.is_relevant[first:last]]
        users, items = np.divmod(keys, self.n_items + 1)
        return (users - start).astype(np.int32), (items - 1).astype(np.int32)


def relevance_of(relevant: Any, task: EvaluationTask, recommender: Recommender, test: Ratings) -> Relevance:
    """What is relevant: as said (a rating, or "all"), or as makes task.

    Stars: ratings of at least the training mean, worth what they are above the lowest. Yes and no: yes. Choices: all.
    """
    if relevant == "all":
        return EVERYTHING
    if relevant is not None:
        _check(relevant, test)
        return Relevance(float(relevant), _lowest(task, recommender))
    if task.kind == "yes-no":
        return Relevance(1.0, math.nan)
    if task.is_of_lists:
        least = test.values.min()
        if least < 0 or (least == 0 and task.kind in CHOICES):  # As a star, 0 is a choice like any other.
            raise InvalidParameterError(
                f"test values go down to {least:g}, and what was chosen has one above 0; expected such test ratings "
                "alone, or to say from which value on they count (in Python relevant=, else --relevant)"
            )
        return EVERYTHING
    low, high = recommender.rating_range_
    # If all ratings are equal, the mean of many may miss them by a rounding error.
    return Relevance(low if low == high else recommender.ratings_.mean, _lowest(task, recommender))


def _lowest(task: EvaluationTask, recommender: Recommender) -> float:
    """What gains count from: only stars are worth more the higher they are."""
    if task.kind != "stars":
        return math.nan
    # The range of a model of choices is that of its scores.
    low, high = recommender.rating_range_ if task.predicts_ratings else recommender.ratings_.range
    return low if low < high else math.nan


def _check(relevant: Any, test: Ratings) -> None:
    if isinstance(relevant, bool) or not isinstance(relevant, Real) or not math.isfinite(relevant):
        raise InvalidParameterError(
            f'relevant is {relevant!r}; expected a rating, "all", or None for what suits the ratings'
        )
    if not (test.values >= np.float32(relevant)).any():
        raise InvalidParameterError(
            f"relevant is {relevant:g}, and no test rating is that high; expected at most {test.values.max():g}"
        )


def _keys(users: NDArray[np.integer], items: NDArray[np.integer], n_items: int) -> NDArray[np.int64]:
    """User and item as one number; -1, no item, has a number of its own that no rating has."""
    return users.astype(np.int64) * (n_items + 1) + items + 1


def _found(asked: NDArray[np.int64], known: NDArray[np.int64]) -> tuple[BoolArray, NDArray[np.int64]]:
    """Which are among the known (ascending), and where; any place for those that are not."""
    if not len(known):
        return np.zeros(asked.shape, np.bool_), np.zeros(asked.shape, np.int64)
    places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return known[places] == asked, places
