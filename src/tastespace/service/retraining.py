"""A new model from the ratings of the database, which starts from the old one and must not be worse.

The latest of the ratings that are new to the old model are held out, where there are enough of them to judge by. Both
models predict them from the earlier ratings of the same users. Then a model is fitted on all ratings; that one is
published. Its parameters are those of the old one, among them what was found when that was chosen; or a model is chosen
again, on ratings that are not held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, IntArray
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.data.vocabulary import Vocabulary, is_canonical_integer
from tastespace.errors import DataError, DataWarning, InvalidParameterError
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.relevance import task_of
from tastespace.evaluation.retrieval import tune_index
from tastespace.evaluation.significance import compare_reports
from tastespace.models import Recommender
from tastespace.models.base.posterior import abilities_of
from tastespace.parameters import check_number
from tastespace.progress import Observer, silent
from tastespace.selection.choose import ModelChoice, choose
from tastespace.service.catalogue import StoredItem, catalogued

SHARE = 0.2  # of the ratings that the old model has not seen, the latest
TOLERANCE = 0.005  # how much worse the new model may be, as a share of the old one's metric
MIN_TEST = 30  # held-out ratings: fewer say nothing about a model, whatever the difference
MAX_P_VALUE = 0.1  # of a difference that counts
SMALLER_IS_BETTER = ("rmse", "log_loss")


@dataclass(frozen=True)
class Comparison:
    """How the old and the new model predict the latest ratings."""

    measure: str
    old: float
    new: float
    n_test: int
    p_value: float  # of a paired test over users

    def is_worse(self, tolerance: float) -> bool:
        """Whether the new model is worse by more than the tolerance, and significantly so."""
        return self.loss > tolerance and self.p_value < MAX_P_VALUE

    @property
    def loss(self) -> float:
        """How much worse the new model is, as a share of the old one's metric; below 0 if it is better."""
        change = self.new - self.old if self.measure in SMALLER_IS_BETTER else self.old - self.new
        return change / max(abs(self.old), 1e-12)


@dataclass(frozen=True, eq=False)
class Retraining:
    """The new model, and its comparison with the old one; None if fewer than `MIN_TEST` ratings could be held out."""

    recommender: Recommender
    comparison: Comparison | None
    n_test: int  # ratings that could be held out
    n_new: int  # ratings that the old model has not seen
    n_gone: int  # ratings of the old model that are not in the database any more


class WorseModelError(InvalidParameterError):
    """The new model predicts the latest ratings worse than the old one; it is not published."""

    def __init__(self, comparison: Comparison, tolerance: float) -> None:
        super().__init__(
            f"the new model is worse: {comparison.measure} {comparison.new:.4f} against {comparison.old:.4f} of the "
            f"old one, on the latest {comparison.n_test:,} ratings (at most {tolerance:.1%} worse expected, p = "
            f"{comparison.p_value:.2g}); nothing was written. Publish it all the same with --force"
        )
        self.comparison = comparison


def retrain(
    old: Recommender,
    stored: pl.DataFrame,
    *,
    share: float = SHARE,
    tolerance: float = TOLERANCE,
    force: bool = False,
    choose_again: bool = False,
    budget: float | None = None,
    index_seconds: float = 60.0,
    items: Sequence[StoredItem] = (),
    observer: Observer = silent,
) -> Retraining:
    """A model like the old one, fitted on the ratings of a database (user, item, rating, time).

    `items` are those of the database: what is said of them counts where they were rated.

    With `choose_again` which model it is, and its settings, are chosen on these ratings (`tastespace.choose`, with its
    `budget`). A worse model is an error (`WorseModelError`), unless it is forced. An index is chosen again if the old
    model had one, and the new one can have one.
    """
    check_number("share", share, above=0, below=1)
    check_number("tolerance", tolerance, least=0)
    ratings = convert(stored, old, items)
    is_new, n_gone = _unseen(ratings, old)
    comparison, begin, test = None, old, _latest(ratings, is_new, share)
    train = ratings.take(np.setdiff1d(np.arange(len(ratings)), test))
    plan = Plan.like(old)
    if choose_again:
        plan = Plan.of(choose(train, budget=budget, seed=old.seed_, threads=old.threads, observer=observer))
    if len(test) >= MIN_TEST:
        begin = plan.fit(train, begin, observer)
        comparison = _compare(old, begin, Split(begin.ratings_, ratings.take(test)), observer)
        if comparison.is_worse(tolerance) and not force:
            raise WorseModelError(comparison, tolerance)
    final = plan.fit(ratings, begin, observer)
    if old.index_ is not None and final.posterior_.item_vectors is not None:
        target = old.index_.target.to_dict()
        final.index_ = tune_index(final, **target, seconds=index_seconds, observer=observer)
    return Retraining(final, comparison, len(test), int(is_new.sum()), n_gone)


def convert(stored: pl.DataFrame, old: Recommender, items: Sequence[StoredItem] = ()) -> Ratings:
    """The stored ratings, with the id types of the old model, and what it and the database know of users and items."""
    if not stored.height:
        raise DataError("the database has no ratings", expected="some to learn from")
    before = catalogued(old.ratings_, items)
    frame = stored.with_columns(_typed(stored["user"], before.users), _typed(stored["item"], before.items))
    is_timed = stored["time"].null_count() < stored.height
    frame = frame.with_columns(time=pl.from_epoch("time", "s")) if is_timed else frame.drop("time")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # Ratings imported with a model have no time.
        ratings = Ratings.from_frame(frame, kind=before.declared_kind)
    user_rows, item_rows = before.users.rows_of(ratings.users.ids), before.items.rows_of(ratings.items.ids)
    titles = None if before.item_titles is None else before.title_of(item_rows)
    known = ratings.with_items(titles, _attributes_at(before.item_attributes, item_rows))
    known = known.with_users(_attributes_at(before.user_attributes, user_rows))
    of_items, of_users = before.item_features, before.user_features
    return replace(
        known,
        item_features=None if of_items is None else of_items.take(item_rows, known.items),
        user_features=None if of_users is None else of_users.take(user_rows, known.users),
    )


def _attributes_at(attributes: pl.DataFrame | None, rows: IntArray) -> pl.DataFrame | None:
    """Attributes of rows; null where a row is -1, which is new."""
    if attributes is None:
        return None
    places = pl.Series(np.where(rows < 0, attributes.height, rows)).cast(pl.UInt32)
    return pl.concat([attributes, attributes.clear(1)])[places]


def _typed(ids: pl.Series, before: Vocabulary) -> pl.Series:
    """Integers if the old model had integers and all ids can be converted."""
    is_integer = before.ids.dtype.is_integer() and bool(is_canonical_integer(ids).all())
    return ids.cast(pl.Int64) if is_integer else ids


def _unseen(ratings: Ratings, old: Recommender) -> tuple[BoolArray, int]:
    """Which ratings are of pairs that are new to the old model, and how many of its own are gone."""
    before = old.ratings_
    users, items = before.users.rows_of(ratings.users.ids), before.items.rows_of(ratings.items.ids)
    keys = _keys(users[ratings.user_rows], items[ratings.item_rows], before.n_items)
    known = _keys(before.user_rows, before.item_rows, before.n_items)
    return np.asarray(~np.isin(keys, known)), int(np.count_nonzero(~np.isin(known, keys)))


def _keys(users: Any, items: Any, n_items: int) -> Any:
    """One number per pair; -1 where either is unknown."""
    return np.where((users < 0) | (items < 0), -1, users.astype(np.int64) * n_items + items)


def _latest(ratings: Ratings, is_new: BoolArray, share: float) -> Any:
    """The latest share of the new ratings with a time, at least one of them, and never all ratings."""
    if ratings.times is None:
        return np.zeros(0, np.int64)
    candidates = np.flatnonzero(is_new & ~np.isnat(ratings.times))
    order = candidates[np.argsort(ratings.times[candidates], kind="stable")]
    n_test = min(int(np.ceil(share * len(order))), len(ratings) - 1)
    return np.sort(order[len(order) - n_test :])


@dataclass(frozen=True, eq=False)
class Plan:
    """The model to fit, its parameters, and the choice behind them."""

    model: type[Recommender]
    parameters: Mapping[str, Any]
    half_life: float | None
    describe: Callable[[Recommender], Mapping[str, Any] | None]  # why it is this one, of the fitted model

    @classmethod
    def like(cls, old: Recommender) -> Plan:
        """The plan to fit the same model again."""
        half_life = None if old.choice_ is None else old.choice_.get("half_life")
        return cls(type(old), {**old.get_params(), "seed": old.seed_}, half_life, lambda fitted: old.choice_)

    @classmethod
    def of(cls, chosen: ModelChoice) -> Plan:
        """The plan to fit the chosen model."""
        return cls(type(chosen.recommender()), chosen.parameters, chosen.taken.half_life, chosen.summary)

    def fit(self, ratings: Ratings, start: Recommender, observer: Observer) -> Recommender:
        """Fit the model; it starts from the item factors of another if it can."""
        new = self.model(**self.parameters)
        can_start = new.begins_from_others and start.posterior_.item_points is not None
        new.fit(self._faded(ratings), observer=observer, start=start if can_start else None)
        new.choice_ = self.describe(new)
        return new

    def _faded(self, ratings: Ratings) -> Ratings:
        """The ratings, decayed with age if that was chosen and all of them have times."""
        is_timed = ratings.times is not None and not np.isnat(ratings.times).any()
        return ratings.decayed(self.half_life) if self.half_life is not None and is_timed else ratings


def _compare(old: Recommender, new: Recommender, split: Split, observer: Observer) -> Comparison:
    """Evaluate both models; both know the earlier ratings of the test users.

    A model of choices and ratings is compared by both, and the comparison returned is the worse of the two.
    """
    train = split.train
    rows = train.users.rows_of(split.test.users.ids)
    mine = np.flatnonzero(np.isin(train.user_rows, rows[rows >= 0]))
    history = train.take(mine) if len(mine) else None
    is_of_lists = task_of(new, split.test).is_of_lists
    has_lists = is_of_lists or abilities_of(new.posterior_)["choices"]
    options: dict[str, Any] = {"ranking": has_lists, "groups": False, "calibration": False, "bootstrap": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        before = evaluate(old, Split(train, split.test, history), **options, observer=observer)
        options["relevant"] = before.relevance  # Both models use the same definition of liked items.
        after = evaluate(new, Split(train, split.test, None), **options, observer=observer)
    measures = [*([] if is_of_lists else [next(iter(before.rating))]), *(["ndcg@10"] if has_lists else [])]
    paired = {row.measure: row.p_value for row in compare_reports(before, after)}
    # There is no paired test for a single user: then the new model is accepted.
    found = [Comparison(name, before[name], after[name], len(split.test), paired.get(name, 1.0)) for name in measures]
    return max(found, key=lambda each: each.loss if each.p_value < MAX_P_VALUE else -np.inf)
