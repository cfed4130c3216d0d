"""The ground truth of lists: which users are measured, which test items are relevant, and the gain of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.kinds import CHOICES, Kind, guess_kind, liked_from
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.metrics.binary import YES_NO
from tastespace.evaluation.metrics.rating import STANDARD, Metric
from tastespace.models import Recommender
from tastespace.models.base.query import Query
from tastespace.randomness import generator


@dataclass(frozen=True)
class EvaluationTask:
    """What can be measured of a recommender on test ratings."""

    kind: Kind  # of training and test ratings
    predicts_ratings: bool

    @property
    def is_of_lists(self) -> bool:
        """Whether only lists can be measured."""
        return self.kind in CHOICES or not self.predicts_ratings

    @property
    def is_of_answers(self) -> bool:
        """Whether predictions are probabilities of yes."""
        return self.kind == "yes-no" and self.predicts_ratings

    @property
    def is_of_stars(self) -> bool:
        """Whether predictions are ratings, whose distributions can be assessed."""
        return self.kind == "stars" and self.predicts_ratings

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Measures of predictions."""
        return STANDARD if self.is_of_stars else YES_NO if self.is_of_answers else {}


def kind_of(trained: Ratings, test: Ratings, known: FloatArray | None = None) -> Kind:
    """The feedback type of all ratings together: declared, that of the test ratings first, or else guessed."""
    parts = [trained.values if known is None else known, test.values]
    return test.declared_kind or trained.declared_kind or guess_kind(np.concatenate(parts)).kind


def task_of(recommender: Recommender, test: Ratings) -> EvaluationTask:
    """What can be measured of this recommender on these ratings.

    A declared kind takes precedence, that of the test ratings first. A guess is based on all values together: a few
    test ratings of five stars are not one-class data. But a model fitted on implicit feedback alone knows no stars, and
    errors against ones mean nothing.
    """
    trained = recommender.ratings_
    # Without the ratings, only their range is known.
    kind = kind_of(trained, test, None if len(trained) else np.array(recommender.rating_range_, np.float32))
    # The training data was declared implicit, or is all 1.
    declared = trained.declared_kind
    if kind == "stars" and (declared in CHOICES or (declared is None and len(trained) and trained.range == (1, 1))):
        kind = "counts"
    # For an implicit model, an item that was not rated is information.
    return EvaluationTask(kind, predicts_ratings=recommender.not_rated is None)


@dataclass(frozen=True, eq=False)
class Relevance:
    """Which test ratings are relevant, and their gains."""

    threshold: float | Literal["liked"] | None  # at least this; None for all
    lowest: float  # the gain of an item is its rating less this; NaN: every relevant item has the gain 1
    liked_from: FloatArray | None = None  # one per test user, in the order of their ids, if liked items are relevant

    @property
    def is_graded(self) -> bool:
        return not math.isnan(self.lowest)

    def least(self, users: IntArray) -> FloatArray:
        """The lowest relevant rating of each of these users."""
        # In single precision, as the ratings are: 0.7 must be at least 0.7.
        if self.liked_from is not None:
            return self.liked_from[users]
        return np.full(len(users), -np.inf if self.threshold is None else self.threshold, np.float32)


# The lowest relevant test rating, or the relevance of another report; None for what suits the ratings.
Relevant = float | Literal["all", "liked"] | Relevance | None
EVERYTHING = Relevance(None, math.nan)


@dataclass(frozen=True, eq=False)
class Matched:
    """Test ratings in the rows of a model."""

    users: IntArray  # one per test rating: its user's position among the test users
    items: IntArray  # one per test rating: its item's row in the training ratings, -1 for a cold one
    values: FloatArray
    is_seen: BoolArray  # whether the model knows a rating of the same pair already

    @classmethod
    def of(cls, trained: Ratings, test: Ratings, asked: Query) -> Matched:
        """Match by id; `asked` are the test users with their known ratings."""
        users = asked.each.rows_of(test.users.ids)[test.user_rows]
        items = trained.items.rows_of(test.items.ids)[test.item_rows]
        history = asked.people.history
        seen = _keys(history.rows(), history.columns, trained.n_items)  # ascending, as the seen items are
        return cls(users, items, test.values, _found(_keys(users, items, trained.n_items), seen)[0])

    def is_relevant(self, relevance: Relevance) -> BoolArray:
        """Which test ratings lists should contain; pairs that the model knows already cannot be recommended."""
        return np.asarray((self.values >= relevance.least(self.users)) & ~self.is_seen)


@dataclass(frozen=True, eq=False)
class RelevantItems:
    """The users with relevant test items, and the gains of their test items.

    The gain of an item is its rating less the lowest training rating, or 1 for every relevant item. Items that the
    model knows for the user cannot be recommended and are left out; cold items cannot be found, but count in
    `n_relevant` and among the best gains.
    """

    relevance: Relevance
    positions: NDArray[np.int64]  # position of each measured user among all test users
    n_not_drawn: int  # other users with relevant test items, if only a sample is measured
    is_sought: BoolArray  # one per test rating: whether a list should contain it
    n_relevant: NDArray[np.int64]  # one per user
    n_items: int
    keys: NDArray[np.int64]  # user and item of each test rating that can be found, ascending
    gains: FloatArray  # one per key
    is_relevant: BoolArray  # one per key
    offsets: NDArray[np.int64]  # where the best gains of each user begin
    best_gains: FloatArray  # of all test items of each user, best first

    @classmethod
    def of(
        cls,
        matched: Matched,
        n_users: int,
        n_items: int,
        relevance: Relevance,
        max_users: int | None = None,
        seed: int = 0,
    ) -> RelevantItems:
        """For all users with relevant test items, or for `max_users` of them, drawn at random."""
        is_relevant = matched.is_relevant(relevance)
        gains = is_relevant.astype(np.float32)
        if relevance.is_graded:
            gains = np.where(matched.is_seen, 0, np.maximum(matched.values - np.float32(relevance.lowest), 0))
        counts = np.bincount(matched.users[is_relevant], minlength=n_users)
        everyone = positions = np.flatnonzero(counts)
        if max_users is not None and len(everyone) > max_users:
            positions = np.sort(generator(seed).permutation(everyone)[:max_users])
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
        return cls(
            relevance=relevance,
            positions=positions,
            n_not_drawn=len(everyone) - len(positions),
            is_sought=is_relevant & (users >= 0),
            n_relevant=counts[positions],
            n_items=n_items,
            keys=keys[order],
            gains=gains[found],
            is_relevant=is_relevant[found],
            offsets=offsets,
            best_gains=gains[best],
        )

    def __len__(self) -> int:
        return len(self.positions)

    def look_up(self, start: int, item_rows: IntArray) -> tuple[BoolArray, FloatMatrix]:
        """Relevance and gain of the item at each position of the lists of users from `start` on."""
        users = np.arange(start, start + len(item_rows))
        is_found, places = _found(_keys(users[:, None], item_rows, self.n_items), self.keys)
        if not len(self.keys):
            return is_found, np.zeros(item_rows.shape, np.float32)
        return is_found & self.is_relevant[places], np.where(is_found, self.gains[places], np.float32(0))

    def ideal_gains(self, start: int, stop: int, k: int) -> FloatMatrix:
        """The gains of the best possible list of each user."""
        places = self.offsets[start:stop, None] + np.arange(k)
        is_there = places < self.offsets[start + 1 : stop + 1, None]
        return np.where(is_there, self.best_gains[np.where(is_there, places, 0)], np.float32(0))

    def relevant_items(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """The relevant items that can be found: users, counted from `start`, and items."""
        first, last = np.searchsorted(self.keys, _keys(np.array([start, stop]), np.array(-1), self.n_items))
        keys = self.keys[first:last][self.is_relevant[first:last]]
        users, items = np.divmod(keys, self.n_items + 1)
        return (users - start).astype(np.int32), (items - 1).astype(np.int32)


def relevance_of(
    relevant: Any, task: EvaluationTask, recommender: Recommender, test: Ratings, asked: Query
) -> Relevance:
    """The given relevance (a rating, "liked" or "all"), or what suits the ratings.

    Stars: liked items, rated at least the user's own mean (`tastespace.data.kinds.liked_from`). Yes and no: yes.
    Implicit feedback: all. A given rating is the threshold for everyone, and the gain grows with the rating.
    """
    if isinstance(relevant, Relevance):
        return relevant
    if relevant == "all":
        return EVERYTHING
    if relevant == "liked" or (relevant is None and task.kind == "stars"):
        if task.kind in CHOICES:
            raise InvalidParameterError(
                f"relevant is 'liked', but {task.kind} ratings do not say what was liked; expected a threshold such "
                "as 1, or all"
            )
        history = asked.people.history
        return Relevance("liked", math.nan, liked_from(history, recommender.ratings_.mean).astype(np.float32))
    if relevant is not None:
        _check(relevant, test)
        return Relevance(float(relevant), _lowest(task, recommender))
    if task.kind == "yes-no":
        return Relevance(1.0, math.nan)
    if (least := test.values.min()) <= 0:
        raise InvalidParameterError(
            f"test values go down to {least:g}, but implicit feedback is above 0; expected only such test ratings, "
            "or a threshold from which on they count (in Python relevant=, else --relevant)"
        )
    return EVERYTHING


def _lowest(task: EvaluationTask, recommender: Recommender) -> float:
    """The rating with gain 0: only for stars does the gain grow with the rating."""
    if task.kind != "stars":
        return math.nan
    # The range of an implicit model is that of its scores.
    low, high = recommender.rating_range_ if task.predicts_ratings else recommender.ratings_.range
    return low if low < high else math.nan


def _check(relevant: Any, test: Ratings) -> None:
    if isinstance(relevant, bool) or not isinstance(relevant, Real) or not math.isfinite(relevant):
        raise InvalidParameterError(
            f'relevant is {relevant!r}; expected a rating, "liked", "all", or None for what suits the ratings'
        )
    if not (test.values >= np.float32(relevant)).any():
        raise InvalidParameterError(
            f"relevant is {relevant:g}, and no test rating is that high; expected at most {test.values.max():g}"
        )


def _keys(users: NDArray[np.integer], items: NDArray[np.integer], n_items: int) -> NDArray[np.int64]:
    """User and item as one number; -1 (no item) gets a number that no rating has."""
    return users.astype(np.int64) * (n_items + 1) + items + 1


def _found(asked: NDArray[np.int64], known: NDArray[np.int64]) -> tuple[BoolArray, NDArray[np.int64]]:
    """Which are among the known (ascending), and where; the place of others is arbitrary."""
    if not len(known):
        return np.zeros(asked.shape, np.bool_), np.zeros(asked.shape, np.int64)
    places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return known[places] == asked, places
