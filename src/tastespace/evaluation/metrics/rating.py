"""Errors of predicted ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, IntArray
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.resampling import Sums


def rmse(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Root of the mean squared error over all test ratings."""
    return float(np.sqrt(np.mean(squared_errors(predicted, true))))


def mae(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Mean absolute error over all test ratings."""
    return float(np.mean(absolute_errors(predicted, true)))


def squared_errors(predicted: NDArray[Any], true: NDArray[Any]) -> DoubleArray:
    """One per rating; the RMSE is the root of their mean."""
    return np.asarray((np.asarray(predicted, np.float64) - np.asarray(true, np.float64)) ** 2)


def absolute_errors(predicted: NDArray[Any], true: NDArray[Any]) -> DoubleArray:
    """One per rating; the MAE is their mean."""
    return np.asarray(np.abs(np.asarray(predicted, np.float64) - np.asarray(true, np.float64)))


# A function of predicted and true ratings: one number, or one per rating, which are averaged.
Metric = Callable[[NDArray[Any], NDArray[Any]], Any]

STANDARD: Mapping[str, Metric] = {"rmse": rmse, "mae": mae}


@dataclass(frozen=True, eq=False)
class Loss:
    """A measure as the mean of one value per rating, or the root of that mean."""

    values: NDArray[Any]
    is_root: bool = False

    def over(self, which: Any) -> float:
        """The measure over these ratings."""
        mean = float(np.mean(self.values[which], dtype=np.float64))
        return float(np.sqrt(mean)) if self.is_root else mean


@dataclass(frozen=True, eq=False)
class Predicted:
    """Test ratings with their predictions, and the losses of each measure."""

    users: IntArray  # one per test rating: its user's position among the test users
    n_users: int
    predicted: FloatArray
    true: FloatArray
    metrics: Mapping[str, Metric]
    losses: Mapping[str, Loss]  # of measures that are means, requested or not

    @property
    def names(self) -> list[str]:
        """All measures, in the requested order."""
        return list(dict.fromkeys([*self.metrics, *self.losses]))

    def values(self, which: Any = slice(None)) -> dict[str, float]:
        """Each measure over these ratings."""
        return {name: self._value(name, which) for name in self.names}

    def sums(self, which: Any = slice(None)) -> dict[str, Sums]:
        """The measures that are means over ratings, as sums by user."""
        users = self.users[which]
        counts = np.bincount(users, minlength=self.n_users).astype(np.float64)
        return {
            name: Sums(np.asarray(np.bincount(users, loss.values[which], self.n_users)), counts, loss.is_root)
            for name, loss in self.losses.items()
        }

    def _value(self, name: str, which: Any) -> float:
        if name in self.losses:
            return self.losses[name].over(which)
        return float(self.metrics[name](self.predicted[which], self.true[which]))


def losses_of(metrics: Mapping[str, Metric], predicted: FloatArray, true: FloatArray) -> dict[str, Loss]:
    """The losses by measure name, of the measures that are means."""
    found = {name: _loss(name, metric, predicted, true) for name, metric in metrics.items()}
    return {name: loss for name, loss in found.items() if loss is not None}


def _loss(name: str, metric: Metric, predicted: FloatArray, true: FloatArray) -> Loss | None:
    """The loss of a measure, one value per rating; None if it is not a mean."""
    if metric is rmse:
        return Loss(squared_errors(predicted, true), is_root=True)
    if metric is mae:
        return Loss(absolute_errors(predicted, true))
    found = np.asarray(metric(predicted, true))
    if found.shape not in ((), true.shape):
        raise InvalidParameterError(
            f"the measure {name!r} gave an array of the shape {found.shape}; expected one number, or one for each of "
            f"the {len(true)} ratings"
        )
    return Loss(found.astype(np.float64)) if found.shape else None
