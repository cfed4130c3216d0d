"""Measures of predicted ratings, over all of them or some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, IntArray
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.rating import absolute_errors, mae, rmse, squared_errors
from tastespace.evaluation.resampling import Sums

# Of predicted and true ratings: one number, or one for each rating, which are averaged.
Metric = Callable[[NDArray[Any], NDArray[Any]], Any]

STANDARD: Mapping[str, Metric] = {"rmse": rmse, "mae": mae}


@dataclass(frozen=True, eq=False)
class Predicted:
    """Test ratings with what was predicted, and what each measure makes of them."""

    users: IntArray  # of each test rating, its user's position among the test users
    n_users: int
    predicted: FloatArray
    true: FloatArray
    metrics: Mapping[str, Metric]
    losses: Mapping[str, DoubleArray]  # of measures that are means: one a rating

    @classmethod
    def of(
        cls, users: IntArray, n_users: int, predicted: FloatArray, true: FloatArray, metrics: Mapping[str, Metric]
    ) -> Predicted:
        losses = {name: _losses(name, metric, predicted, true) for name, metric in metrics.items()}
        means = {name: loss for name, loss in losses.items() if loss is not None}
        return cls(users, n_users, predicted, true, metrics, means)

    def values(self, which: Any = slice(None)) -> dict[str, float]:
        """Each measure over these ratings."""
        return {name: self._value(name, which) for name in self.metrics}

    def sums(self, which: Any = slice(None)) -> dict[str, Sums]:
        """The measures that are means over ratings, as sums by user."""
        users = self.users[which]
        counts = np.bincount(users, minlength=self.n_users).astype(np.float64)
        return {
            name: Sums(_total(users, loss[which], self.n_users), counts, self._is_root(name))
            for name, loss in self.losses.items()
        }

    def _value(self, name: str, which: Any) -> float:
        if name in self.losses:
            mean = float(np.mean(self.losses[name][which]))
            return float(np.sqrt(mean)) if self._is_root(name) else mean
        return float(self.metrics[name](self.predicted[which], self.true[which]))

    def _is_root(self, name: str) -> bool:
        return self.metrics[name] is rmse


def _total(users: IntArray, values: DoubleArray, n_users: int) -> DoubleArray:
    """The sum of each user's."""
    return np.asarray(np.bincount(users, values, n_users), np.float64)


def _losses(name: str, metric: Metric, predicted: FloatArray, true: FloatArray) -> DoubleArray | None:
    """What a measure is the mean of, one a rating; None if it does not say."""
    if metric is rmse:
        return squared_errors(predicted, true)
    if metric is mae:
        return absolute_errors(predicted, true)
    found = np.asarray(metric(predicted, true))
    if found.shape not in ((), true.shape):
        raise InvalidParameterError(
            f"the measure {name!r} gave an array of the shape {found.shape}; expected one number, or one for each of "
            f"the {len(true)} ratings"
        )
    return found.astype(np.float64) if found.shape else None
