"""How far predicted ratings are from the true ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray


def rmse(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Root of the mean squared error over all test ratings."""
    return float(np.sqrt(np.mean(squared_errors(predicted, true))))


def mae(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Mean absolute error over all test ratings."""
    return float(np.mean(absolute_errors(predicted, true)))


def squared_errors(predicted: NDArray[Any], true: NDArray[Any]) -> DoubleArray:
    """One a rating: what the RMSE is the root of the mean of."""
    return np.asarray((np.asarray(predicted, np.float64) - np.asarray(true, np.float64)) ** 2)


def absolute_errors(predicted: NDArray[Any], true: NDArray[Any]) -> DoubleArray:
    """One a rating: what the MAE is the mean of."""
    return np.asarray(np.abs(np.asarray(predicted, np.float64) - np.asarray(true, np.float64)))
