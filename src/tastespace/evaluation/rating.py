"""How far predicted ratings are from the true ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def rmse(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Root of the mean squared error over all test ratings."""
    errors = np.asarray(predicted, np.float64) - np.asarray(true, np.float64)
    return float(np.sqrt(np.mean(errors**2)))


def mae(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Mean absolute error over all test ratings."""
    return float(np.mean(np.abs(np.asarray(predicted, np.float64) - np.asarray(true, np.float64))))
