"""Lists for the test users, and the table of measures on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatMatrix, IntArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError, named
from tastespace.evaluation.metrics import catalogue, order
from tastespace.evaluation.predictions import of_users
from tastespace.evaluation.relevance import Matched, RelevantItems
from tastespace.evaluation.report import ListsMade
from tastespace.evaluation.resampling import Interval, Sums, divided, jackknife
from tastespace.models import Recommender
from tastespace.models.base.query import Query
from tastespace.models.base.results import Ranking
from tastespace.progress import Observer, Progress


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The training ratings, in the form needed to measure lists."""

    trained: Ratings

    @cached_property
    def shares(self) -> DoubleArray:
        """The popularity of each item: the share of the training users who rated it."""
        return np.asarray(self.trained.by_item.counts / max(self.trained.n_users, 1))


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of some users with relevant test items, best first, compared with their test ratings."""

    item_rows: IntArray  # users x k, rows of the training ratings, -1 where there is no item
    hits: BoolArray  # users x k: is the item relevant?
    gains: FloatMatrix  # users x k: what the item is worth
    ideal_gains: FloatMatrix  # users x k: what the items of the best list would be worth
    n_relevant: NDArray[np.int64]  # one per user
    catalogue: Catalogue

    def __len__(self) -> int:
        return len(self.item_rows)

    def first(self, k: int) -> Lists:
        """The first k places of each list."""
        names = ("item_rows", "hits", "gains", "ideal_gains")
        return replace(self, **{name: getattr(self, name)[:, :k] for name in names})


ListMetric = Callable[[Lists], DoubleArray]  # one value per user, NaN where undefined


def _ndcg_binary(lists: Lists) -> DoubleArray:
    ideal = np.arange(lists.hits.shape[1]) < lists.n_relevant[:, None]
    return order.ndcg(lists.hits.astype(np.float64), ideal.astype(np.float64))


LIST_METRICS: Mapping[str, ListMetric] = {
    "precision": lambda lists: order.precision(lists.hits),
    "recall": lambda lists: order.recall(lists.hits, lists.n_relevant),
    "hit_rate": lambda lists: order.hit_rate(lists.hits),
    "mrr": lambda lists: order.reciprocal_rank(lists.hits),
    "map": lambda lists: order.average_precision(lists.hits, lists.n_relevant),
    "ndcg": lambda lists: order.ndcg(lists.gains, lists.ideal_gains),
    "ndcg_binary": _ndcg_binary,
    "novelty": lambda lists: catalogue.novelty(lists.item_rows, lists.catalogue.shares),
    "diversity": lambda lists: catalogue.diversity(lists.item_rows, lists.catalogue.trained.by_item),
    "popularity": lambda lists: catalogue.popularity(lists.item_rows, lists.catalogue.shares),
}


BLOCK_USERS = 1 << 13
BLOCK_RATINGS = 1 << 17  # looked up at once

# Makes the lists of users from their ids, a length, and their ratings since training.
ListMaker = Callable[[pl.Series, int, Ratings | None], Ranking]


@dataclass(frozen=True, eq=False)
class ListMeasures:
    """The result of measuring lists; empty if lists were not measured."""

    values: Mapping[str, float] = field(default_factory=dict[str, float])
    sums: dict[str, Sums] = field(default_factory=dict[str, Sums])
    intervals: dict[str, Interval] = field(default_factory=dict[str, Interval])  # not quotients of sums
    made: ListsMade | None = None
    is_sought: BoolArray | None = None  # one per test rating: whether its user's list should contain it
    places: IntArray | None = None  # one per test rating: position of the item in its user's list, from 0; -1 if absent


def measure_lists(
    recommender: Recommender,
    asked: Query,  # the test users
    matched: Matched,
    history: Ratings | None,
    observer: Observer,
    *,
    ks: tuple[int, ...],
    sought: RelevantItems,
    more: Mapping[str, ListMetric],  # additional measures beside LIST_METRICS
    make: ListMaker,
) -> ListMeasures:
    """All measures of lists, out of all items that a user is not known to have rated."""
    trained, n_users = recommender.ratings_, len(asked.people)
    known = Catalogue(trained)
    user_ids, item_rows = asked.each.at(sought.positions), np.full((len(sought), max(ks)), -1, np.int32)
    # If all relevant items have the same gain, there is no separate binary NDCG.
    left_out = () if sought.relevance.is_graded else ("ndcg_binary",)
    metrics = {name: metric for name, metric in LIST_METRICS.items() if name not in left_out} | dict(more)
    names = [*(f"{name}@{k}" for name in metrics for k in ks), "auc"]
    by_user = {name: np.full(n_users, np.nan) for name in names}  # NaN for users without a list
    for start in range(0, len(sought), BLOCK_USERS):
        stop = min(start + BLOCK_USERS, len(sought))
        ids, here = user_ids[start:stop], sought.positions[start:stop]
        own = of_users(history, ids)
        shown = _checked(make(ids, max(ks), own), ids, trained.n_items)[:, : max(ks)]
        item_rows[start:stop, : shown.shape[1]] = shown
        hits, gains = sought.look_up(start, item_rows[start:stop])
        ideal = sought.ideal_gains(start, stop, max(ks))
        lists = Lists(item_rows[start:stop], hits, gains, ideal, sought.n_relevant[start:stop], known)
        for name, metric in metrics.items():
            for k in ks:
                by_user[f"{name}@{k}"][here] = _measured(name, metric, lists.first(k))
        for rows, scores in recommender.scores(ids, history=own):
            first, last = start + int(rows[0]), start + int(rows[-1]) + 1
            relevant, n_relevant = sought.relevant_items(first, last), sought.n_relevant[first:last]
            by_user["auc"][sought.positions[first:last]] = order.auc(scores, *relevant, n_relevant)
            observer(Progress("ranking", last, len(sought)))
    sums = {name: Sums.of_values(values) for name, values in by_user.items()}
    profiles, intervals = _profiles(asked, known.shares), dict[str, Interval | None]()
    values: dict[str, float] = {}
    for k in ks:
        # Both or neither: users without a list or without ratings of their own are left out.
        popular = by_user[f"popularity@{k}"]
        is_known = ~(np.isnan(popular) | np.isnan(profiles))
        sums[f"popularity_lift@{k}"] = Sums(np.where(is_known, popular, 0.0), np.where(is_known, profiles, 0.0))
        # Measures that no single list has.
        rows = item_rows[:, :k]
        exposures = catalogue.exposure(rows, trained.n_items)
        values[f"coverage@{k}"] = share = catalogue.coverage(exposures)
        values[f"gini@{k}"] = unequal = catalogue.gini(exposures)
        intervals[f"coverage@{k}"] = jackknife(share, catalogue.coverage_influence(rows, exposures))
        intervals[f"gini@{k}"] = jackknife(unequal, catalogue.gini_influence(rows, exposures))
    values = {name: measure.value() for name, measure in sums.items()} | values
    return ListMeasures(
        values={name: values[name] for name in _in_order(values, ks)},
        sums=sums,
        intervals={name: interval for name, interval in intervals.items() if interval is not None},
        made=ListsMade(
            k=ks,
            relevant=sought.relevance.threshold,
            graded=sought.relevance.is_graded,
            users=len(sought),
            users_not_drawn=sought.n_not_drawn,
            users_without_relevant=n_users - len(sought) - sought.n_not_drawn,
            cold_users=int(np.count_nonzero(asked.people.cold[sought.positions])),
            relevant_ratings=int(sought.n_relevant.sum()),
            cold_relevant_ratings=int(sought.n_relevant.sum() - np.count_nonzero(sought.is_relevant)),
        ),
        is_sought=sought.is_sought,
        places=_places(item_rows, sought, matched, n_users),
    )


def _checked(made: Any, user_ids: pl.Series, n_items: int) -> IntArray:
    """The item rows of lists from a user-defined function: for the requested users, without duplicates."""
    if not isinstance(made, Ranking):
        raise InvalidParameterError(f"lists gave {type(made).__name__}; expected a Ranking, such as recommend gives")
    if len(made) != len(user_ids) or len(made.item_rows) != len(user_ids):
        raise InvalidParameterError(
            f"lists gave {len(made.item_rows)} lists; expected one for each of {len(user_ids)} users"
        )
    if made.user_ids.to_list() != user_ids.to_list():
        raise InvalidParameterError(
            f"lists gave lists of the users {named(made.user_ids)}; expected {named(user_ids)}, in the order asked for"
        )
    ascending = np.sort(made.item_rows, axis=1)
    if ascending.size and not -1 <= ascending.min() <= ascending.max() < n_items:
        raise InvalidParameterError(
            f"lists gave item rows from {ascending.min()} to {ascending.max()}; expected rows of the {n_items} "
            "training items, -1 where there is no item"
        )
    has_twice = ((ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)).any(axis=1)
    if has_twice.any():
        raise InvalidParameterError(
            f"lists gave an item twice in the list of {named(user_ids.filter(pl.Series(has_twice)))}; expected each "
            "item at most once"
        )
    return made.item_rows


def _measured(name: str, metric: ListMetric, lists: Lists) -> DoubleArray:
    values = np.asarray(metric(lists), np.float64)
    if values.shape != (len(lists),):
        raise InvalidParameterError(
            f"the measure {name!r} gave an array of the shape {values.shape}; expected one value for each of the "
            f"{len(lists)} lists"
        )
    return values


def _places(item_rows: IntArray, sought: RelevantItems, matched: Matched, n_users: int) -> IntArray:
    list_of = np.full(n_users, -1)
    list_of[sought.positions] = np.arange(len(sought))
    places = np.full(len(matched.users), -1, np.int32)
    able = np.flatnonzero((list_of[matched.users] >= 0) & (matched.items >= 0))
    for start in range(0, len(able), BLOCK_RATINGS):
        some = able[start : start + BLOCK_RATINGS]
        is_here = item_rows[list_of[matched.users[some]]] == matched.items[some, None]
        places[some] = np.where(is_here.any(axis=1), is_here.argmax(axis=1), -1)
    return places


def _profiles(asked: Query, shares: DoubleArray) -> DoubleArray:
    """The mean popularity of the known items of each test user."""
    totals = np.bincount(asked.people.history.rows(), shares[asked.people.history.columns], minlength=len(asked.people))
    return divided(totals, asked.people.history.counts)


def _in_order(names: Iterable[str], ks: Sequence[int]) -> list[str]:
    """Measure after measure, each by length; measures of the whole ranking come last."""
    names = list(names)
    measures = dict.fromkeys(name.partition("@")[0] for name in names if "@" in name)
    return [f"{measure}@{k}" for measure in measures for k in ks] + [name for name in names if "@" not in name]
