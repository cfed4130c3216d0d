"""How well yes and no are foretold. A prediction is the probability of yes; `true` is 1 for yes and 0 for no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.evaluation.predicted import Metric
from tastespace.evaluation.ranking import divided

# Nobody is surer than this: a model that predicts a point may say 0 or 1, and be wrong, which no sum would survive.
SUREST = 0.001
BINS = 10  # of equal widths, from 0 to 1
BY_USER = "yes_no_auc_by_user"


def log_loss(predicted: NDArray[Any], true: NDArray[Any]) -> DoubleArray:
    """Minus the log of the probability of what came, one a rating; probabilities are kept from 0.001 to 0.999."""
    of_yes = np.clip(np.asarray(predicted, np.float64), SUREST, 1 - SUREST)
    return np.asarray(-np.log(np.where(is_yes(true), of_yes, 1 - of_yes)))


def calibration_error(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Expected calibration error: in ten bins of predicted probabilities, how far their mean is from the share of yes.

    A mean over the bins, weighted by the number of ratings in each.
    """
    apart = np.bincount(bin_of(predicted), np.asarray(predicted, np.float64) - is_yes(true), BINS)
    return float(np.abs(apart).sum() / len(true))


def yes_no_auc(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """How often a yes is predicted above a no, over all pairs of ratings; a tie counts one half. NaN without both."""
    return float(auc_by_group(predicted, true, np.zeros(len(true), np.int64), 1)[0])


def auc_by_group(
    predicted: NDArray[Any], true: NDArray[Any], groups: NDArray[Any], n_groups: int
) -> DoubleArray:  # one a group
    """The AUC among the ratings of each group, such as a user; NaN for those without a yes and a no."""
    order = np.lexsort((predicted, groups))
    group, value, yes = groups[order], np.asarray(predicted)[order], is_yes(true)[order]
    starts = np.searchsorted(group, np.arange(n_groups))
    # Equal predictions of a group share the mean of their ranks.
    is_first = np.append(True, (group[1:] != group[:-1]) | (value[1:] != value[:-1]))[: len(group)]
    begins = np.flatnonzero(is_first)
    middles = (begins + np.append(begins[1:], len(group)) + 1) / 2
    ranks = middles[np.cumsum(is_first) - 1] - starts[group]
    n_yes = np.bincount(group[yes], minlength=n_groups)
    n_no = np.bincount(group[~yes], minlength=n_groups)
    above = np.bincount(group[yes], ranks[yes], n_groups) - n_yes * (n_yes + 1) / 2
    return divided(above, n_yes * n_no)


def auc_influence(
    predicted: NDArray[Any], true: NDArray[Any], users: NDArray[Any], n_users: int
) -> DoubleArray:  # one a user
    """How much each user moves the AUC over all ratings: its derivative by the weight of the user."""
    predicted, yes = np.asarray(predicted), is_yes(true)
    n_yes, n_no = np.count_nonzero(yes), np.count_nonzero(~yes)
    wins = np.empty(len(predicted))  # of a yes: over how many no; of a no: how many yes win over it
    wins[yes] = _n_below(predicted[yes], predicted[~yes])
    wins[~yes] = n_yes - _n_below(predicted[~yes], predicted[yes])
    value = wins[yes].sum() / (n_yes * n_no)
    shares = np.bincount(users[yes], minlength=n_users) / n_yes + np.bincount(users[~yes], minlength=n_users) / n_no
    return np.asarray(np.bincount(users, wins, n_users) / (n_yes * n_no) - value * shares)


def bin_of(predicted: NDArray[Any]) -> NDArray[np.int64]:
    """The bin of each predicted probability."""
    return np.clip((np.asarray(predicted, np.float64) * BINS).astype(np.int64), 0, BINS - 1)


def _n_below(values: NDArray[Any], others: NDArray[Any]) -> DoubleArray:
    """How many of the others are below each value; equal ones count one half."""
    ordered = np.sort(others)
    sides = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return np.asarray(sides / 2)


def is_yes(true: NDArray[Any]) -> BoolArray:
    return np.asarray(np.asarray(true) > 0.5)


YES_NO: Mapping[str, Metric] = {"log_loss": log_loss, "ece": calibration_error, "yes_no_auc": yes_no_auc}
