"""Measures of yes/no predictions. A prediction is the probability of yes; `true` is 1 for yes and 0 for no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.evaluation.metrics.order import pairwise_accuracy
from tastespace.evaluation.metrics.rating import Loss, Metric, Predicted
from tastespace.evaluation.resampling import EMPTY, Interval, Sums, figure, jackknife
from tastespace.tables import TextTable

# Probabilities are clipped this far from 0 and 1: a wrong prediction of 0 or 1 would make the sum infinite.
MIN_PROBABILITY = 0.001
BINS = 10  # of equal widths, from 0 to 1
BY_USER = "yes_no_auc_by_user"


def log_loss(predicted: NDArray[Any], true: NDArray[Any]) -> DoubleArray:
    """Minus the log of the probability of the outcome, one per rating; probabilities are clipped to 0.001 to 0.999."""
    of_yes = np.clip(np.asarray(predicted, np.float64), MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.asarray(-np.log(np.where(is_yes(true), of_yes, 1 - of_yes)))


def calibration_error(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Expected calibration error: distance of the mean prediction from the share of yes in ten bins of probabilities.

    A mean over the bins, weighted by the number of ratings in each.
    """
    apart = np.bincount(bin_of(predicted), np.asarray(predicted, np.float64) - is_yes(true), BINS)
    return float(np.abs(apart).sum() / len(true))


def yes_no_auc(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """How often a yes is predicted above a no, over all pairs of ratings; a tie counts one half. NaN without both."""
    predicted, yes = np.asarray(predicted), is_yes(true)
    n_pairs = np.count_nonzero(yes) * np.count_nonzero(~yes)
    return float(_n_below(predicted[yes], predicted[~yes]).sum() / n_pairs) if n_pairs else float("nan")


def auc_by_group(predicted: NDArray[Any], true: NDArray[Any], groups: NDArray[Any], n_groups: int) -> DoubleArray:
    """The AUC among the ratings of each group, such as a user; NaN for groups without both a yes and a no."""
    return pairwise_accuracy(predicted, is_yes(true), groups, n_groups)


def auc_influence(predicted: NDArray[Any], true: NDArray[Any], users: NDArray[Any], n_users: int) -> DoubleArray:
    """The influence of each user on the AUC over all ratings: its derivative by the weight of the user."""
    predicted, yes = np.asarray(predicted), is_yes(true)
    n_yes, n_no = np.count_nonzero(yes), np.count_nonzero(~yes)
    wins = np.empty(len(predicted))  # of a yes: the number of no below it; of a no: the number of yes above it
    wins[yes] = _n_below(predicted[yes], predicted[~yes])
    wins[~yes] = n_yes - _n_below(predicted[~yes], predicted[yes])
    value = wins[yes].sum() / (n_yes * n_no)
    shares = np.bincount(users[yes], minlength=n_users) / n_yes + np.bincount(users[~yes], minlength=n_users) / n_no
    return np.asarray(np.bincount(users, wins, n_users) / (n_yes * n_no) - value * shares)


def bin_of(predicted: NDArray[Any]) -> NDArray[np.int64]:
    """The bin of each predicted probability."""
    return np.clip((np.asarray(predicted, np.float64) * BINS).astype(np.int64), 0, BINS - 1)


def _n_below(values: NDArray[Any], others: NDArray[Any]) -> DoubleArray:
    """How many of the others are below each value; ties count one half."""
    ordered = np.sort(others)
    sides = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return np.asarray(sides / 2)


def is_yes(true: NDArray[Any]) -> BoolArray:
    return np.asarray(np.asarray(true) > 0.5)


YES_NO: Mapping[str, Metric] = {"log_loss": log_loss, "ece": calibration_error, "yes_no_auc": yes_no_auc}


@dataclass(frozen=True)
class Bin:
    """Test ratings with similar predictions."""

    low: float
    high: float
    n: int
    predicted: float | None  # mean probability of yes; None if n is 0
    yes: float | None  # the share that was yes
    interval: Interval | None = None  # of that share

    @property
    def label(self) -> str:
        return f"{self.low:.1f}–{self.high:.1f}"

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON; an empty bin has nulls."""
        return asdict(self) | {"interval": self.interval and list(self.interval)}


@dataclass(frozen=True)
class Reliability:
    """All bins, from the least likely yes to the most likely."""

    bins: tuple[Bin, ...]

    @classmethod
    def of(cls, predicted: Predicted, intervals: Mapping[Any, Interval]) -> Reliability:
        """`intervals` has those of `reliability_sums` by the same keys."""
        bins, bounds = bin_of(predicted.predicted), np.linspace(0, 1, BINS + 1)
        both = predicted.predicted, is_yes(predicted.true)

        def entry(place: int) -> Bin:
            here = bins == place
            n, low, high = int(np.count_nonzero(here)), float(bounds[place]), float(bounds[place + 1])
            said, came = (float(np.mean(values[here], dtype=np.float64)) if n else None for values in both)
            return Bin(low, high, n, said, came, intervals.get(("bin", place)))

        return cls(tuple(map(entry, range(BINS))))

    def to_list(self) -> list[dict[str, Any]]:
        """The content for JSON."""
        return [entry.to_dict() for entry in self.bins]

    def table(self) -> TextTable:
        """One row per bin."""

        def row(entry: Bin) -> tuple[str, ...]:
            said = EMPTY if entry.predicted is None else figure(entry.predicted)
            came = EMPTY if entry.yes is None else figure(entry.yes, entry.interval)
            return entry.label, f"{entry.n:,}", said, came

        title = "Reliability: how often yes came, by its predicted probability"
        columns = ("predicted", "test ratings", "mean prediction", "share of yes")
        return TextTable(title, columns, tuple(map(row, self.bins)))


def auc_sums(predicted: Predicted) -> tuple[dict[str, Sums], dict[str, Interval]]:
    """The AUC by user, as sums; and the interval of the AUC over all ratings, which is not a quotient of sums."""
    pairs, users, n_users = (predicted.predicted, predicted.true), predicted.users, predicted.n_users
    value = yes_no_auc(*pairs)
    span = None if np.isnan(value) else jackknife(value, auc_influence(*pairs, users, n_users))
    sums = {BY_USER: Sums.of_values(auc_by_group(*pairs, users, n_users))}
    return sums, {} if span is None else {"yes_no_auc": span}


def reliability_sums(predicted: Predicted) -> dict[Any, Sums]:
    """The share of yes in each bin, as sums by user, for resampling."""
    bins, said = bin_of(predicted.predicted), replace(predicted, losses={"yes": Loss(is_yes(predicted.true))})
    return {("bin", place): said.sums(bins == place)["yes"] for place in range(BINS)}
