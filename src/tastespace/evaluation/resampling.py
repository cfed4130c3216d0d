"""Confidence intervals of measures by resampling users, because the ratings and lists of one user belong together.

Almost every measure is a quotient of two sums over users: a mean over users (of values, divided by 1), a mean over
ratings (a user's errors, divided by the number of their ratings), or its root. A resample weights the users, so that
all resamples of all measures are one matrix product.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import generator

LEVEL = 0.95  # of all intervals
NORMAL_QUANTILE = 1.959963984540054  # the quantile of a standard normal that leaves (1 - LEVEL) / 2 above
BLOCK_WEIGHTS = 1 << 20  # weights held at once: 8 MB

Key = TypeVar("Key", bound=Hashable)


class Interval(NamedTuple):
    """A 95 % confidence interval that treats the users as a sample of all possible users."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Sums:
    """A measure as a quotient of sums over users: sum of `totals` / sum of `counts`, or the root of that."""

    totals: DoubleArray  # one per user
    counts: DoubleArray  # one per user
    is_root: bool = False

    @classmethod
    def of_values(cls, values: DoubleArray) -> Sums:
        """A mean over users; NaN leaves a user out."""
        is_known = ~np.isnan(values)
        return cls(np.where(is_known, values, 0.0), is_known.astype(np.float64))

    @property
    def n_users(self) -> int:
        """The number of users that count."""
        return int(np.count_nonzero(self.counts))

    def value(self) -> float:
        return float(self.quotient(self.totals.sum(), self.counts.sum()))

    def quotient(self, total: Any, count: Any) -> DoubleArray:
        """The measure from the sums of a sample, NaN where no user of it counts."""
        mean = divided(total, count)
        return np.sqrt(mean) if self.is_root else mean


def divided(numerators: Any, denominators: Any) -> DoubleArray:
    """The quotients, NaN where the divisor is 0."""
    denominators = np.asarray(denominators, np.float64)
    quotients: DoubleArray = np.full(denominators.shape, np.nan)
    np.divide(numerators, denominators, out=quotients, where=denominators > 0)
    return quotients


def bootstrap(
    sums: Mapping[Key, Sums], resamples: int, seed: int, observer: Observer = silent
) -> dict[Key, DoubleArray]:
    """Each measure on `resamples` samples of as many users, drawn with replacement: the same for all measures."""
    columns, places = _stacked(sums)
    drawn = _resampled(columns, resamples, seed, _weights, observer)
    return {name: measure.quotient(*(drawn[:, place] for place in places[name])) for name, measure in sums.items()}


def intervals(sums: Mapping[Key, Sums], resamples: int, seed: int, observer: Observer = silent) -> dict[Key, Interval]:
    """The middle 95 % of the bootstrap; None where fewer than two users count."""
    able = {name: measure for name, measure in sums.items() if measure.n_users > 1}
    if not able or not resamples:
        return {}
    return {name: middle(values) for name, values in bootstrap(able, resamples, seed, observer).items()}


def those_of(intervals: Mapping[Any, Interval], keys: Mapping[str, Any]) -> dict[str, Interval]:
    """Intervals by name, for the keys that have one."""
    return {name: intervals[key] for name, key in keys.items() if key in intervals}


def middle(values: DoubleArray) -> Interval:
    """From the 2.5 % to the 97.5 % quantile; a resample in which no user counts is ignored."""
    low, high = np.nanquantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def jackknife(value: float, influences: DoubleArray, lowest: float = 0.0, highest: float = 1.0) -> Interval | None:
    """Intervals for measures of all lists together, from the influence of each user.

    The bootstrap is not suitable: a resample has only two thirds of the users, who are shown fewer items.
    """
    n = len(influences)
    if n < 2:
        return None
    reach = NORMAL_QUANTILE * np.sqrt(n / (n - 1) * np.sum((influences - influences.mean()) ** 2))
    return Interval(float(max(lowest, value - reach)), float(min(highest, value + reach)))


def swapped(differences: DoubleArray, resamples: int, seed: int) -> DoubleArray:
    """Sums of differences (users x measures), each user's with a random sign, as if the models were swapped."""
    return _resampled(differences, resamples, seed, _signs)


def _resampled(
    columns: DoubleArray,  # users x sums
    resamples: int,
    seed: int,
    weights: Callable[[int, int, np.random.Generator], DoubleArray],  # for n resamples of a number of users: n x users
    observer: Observer = silent,
) -> DoubleArray:  # resamples x sums
    """Sums of columns with random weights of the users, some resamples at a time."""
    drawn, rng = np.empty((resamples, columns.shape[1])), generator(seed)
    step = max(1, BLOCK_WEIGHTS // max(len(columns), 1))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn[start:stop] = weights(stop - start, len(columns), rng) @ columns
        observer(Progress("resampling", stop, resamples))
    return drawn


def _signs(n: int, n_users: int, rng: np.random.Generator) -> DoubleArray:
    """The users for which the models are swapped, in each of n resamples."""
    return np.asarray(1.0 - 2.0 * rng.integers(0, 2, (n, n_users), dtype=np.int8))


def _weights(n: int, n_users: int, rng: np.random.Generator) -> DoubleArray:
    """How often each user is drawn in each of n resamples."""
    drawn = rng.integers(0, n_users, (n, n_users)) + n_users * np.arange(n)[:, None]
    return np.bincount(drawn.reshape(-1), minlength=n * n_users).reshape(n, n_users).astype(np.float64)


def _stacked(sums: Mapping[Key, Sums]) -> tuple[DoubleArray, dict[Key, tuple[int, int]]]:
    """All sums as columns, each distinct one once (most measures share a divisor), and the column of each."""
    columns: list[NDArray[Any]] = []
    place_of: dict[bytes, int] = {}

    def placed(array: NDArray[Any]) -> int:
        digest = hashlib.sha256(array.tobytes()).digest()
        if digest not in place_of:
            place_of[digest] = len(columns)
            columns.append(array)
        return place_of[digest]

    places = {name: (placed(measure.totals), placed(measure.counts)) for name, measure in sums.items()}
    return np.stack(columns, axis=1), places


# How measures are displayed; others are displayed under their own name.
NAMES = {name: name.upper() for name in ("rmse", "mae", "crps", "ece", "mrr", "map", "ndcg", "auc")}
NAMES |= {
    name: name.replace("_", " ")
    for name in ("log_score", "log_loss", "hit_rate", "popularity_lift", "pairwise_accuracy")
}
NAMES |= {"gini": "Gini", "kendall_tau": "Kendall tau-b", "yes_no_auc": "AUC of yes over no"}
NAMES |= {"yes_no_auc_by_user": "AUC by user", "ndcg_binary": "NDCG (binary)", "ndcg_rated": "NDCG (rated items)"}
UNDEFINED, EMPTY = "–", "empty"


def display_name(measure: str) -> str:
    """The display name of a measure: "NDCG@10" for "ndcg@10"."""
    name, at, k = measure.partition("@")
    return NAMES.get(name, name) + at + k


def counted(n: int, what: str) -> str:
    """A number with its noun: "1 user", "2,000 users"."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def plain_number(value: float) -> float | None:
    """A value for JSON: null if undefined."""
    return None if math.isnan(value) else value


def plain_measures(measures: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """Measures and their intervals for JSON, null where there are none."""
    values = {name: plain_number(value) for name, value in measures.items()}
    return {"measures": values or None, "intervals": {name: list(span) for name, span in intervals.items()} or None}


def figure(value: float, interval: Interval | None = None) -> str:
    """A value with its interval, if it has any."""
    if math.isnan(value):
        return UNDEFINED
    return f"{value:.4f}" if interval is None else f"{value:.4f} ({interval.low:.4f}–{interval.high:.4f})"
