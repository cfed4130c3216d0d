"""What a sampler draws from: a log density, known up to a constant, and its gradient.

Both take positions as an array whose last axis has the D coordinates. What stands in front of it are chains: one chain
is a vector of D numbers with one log density, n chains are n x D with n log densities. They share the tuning and
nothing else, and a step of all of them costs little more than that of one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError, NonFiniteStateError

LogDensity = Callable[[DoubleArray], ArrayLike]  # ... x D -> ...
Gradient = Callable[[DoubleArray], ArrayLike]  # ... x D -> ... x D


def value_at(log_density: LogDensity, position: DoubleArray) -> DoubleArray:
    """The log density of each chain."""
    return np.asarray(log_density(position), np.float64)


def slope_at(gradient: Gradient, position: DoubleArray) -> DoubleArray:
    """The gradient of each chain."""
    return np.asarray(gradient(position), np.float64)


def checked_position(position: ArrayLike) -> DoubleArray:
    """Where chains start, as an array of its own: finite, and with at least one coordinate."""
    start = np.array(position, np.float64)
    if start.ndim == 0 or start.size == 0:
        raise InvalidParameterError(
            f"position has the shape {start.shape}; expected D numbers, or a row of D numbers for each chain"
        )
    if not np.isfinite(start).all():
        raise InvalidParameterError("position has coordinates that are not finite; expected numbers")
    return start


def checked_value(log_density: LogDensity, start: DoubleArray) -> DoubleArray:
    """The log density of the start: one finite number a chain."""
    value = value_at(log_density, start)
    if value.shape != start.shape[:-1]:
        raise InvalidParameterError(
            f"log_density gave the shape {value.shape} for positions of the shape {start.shape}; "
            f"expected {start.shape[:-1]}: one number a chain"
        )
    if not np.isfinite(value).all():
        bad = value[~np.isfinite(value)]
        raise NonFiniteStateError(
            f"the log density of the start is {bad[0]} in {bad.size} of {value.size} chains; "
            "expected finite numbers: start where the density is positive"
        )
    return value


def checked_slope(gradient: Gradient, start: DoubleArray) -> DoubleArray:
    """The gradient of the start: as many finite numbers as coordinates."""
    slope = slope_at(gradient, start)
    if slope.shape != start.shape:
        raise InvalidParameterError(
            f"gradient gave the shape {slope.shape} for positions of the shape {start.shape}; expected the same shape"
        )
    if not np.isfinite(slope).all():
        raise NonFiniteStateError("the gradient of the start is not finite; expected numbers: start somewhere else")
    return slope
