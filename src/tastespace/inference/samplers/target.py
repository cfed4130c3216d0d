"""The target of a sampler: a log density, known up to a constant, and its gradient.

Both take positions as an array whose last axis has the D coordinates. The axes before it are chains: one chain
is a vector of D numbers with one log density, n chains are n x D with n log densities. They share only the tuning, and
a step of all of them costs little more than that of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.inference.transition import Stats

LogDensity = Callable[[DoubleArray], ArrayLike]  # ... x D -> ...
Gradient = Callable[[DoubleArray], ArrayLike]  # ... x D -> ... x D


def evaluate(function: LogDensity | Gradient, position: DoubleArray) -> DoubleArray:
    """The log density of each chain, or its gradient."""
    return np.asarray(function(position), np.float64)


def checked_position(position: ArrayLike) -> DoubleArray:
    """A copy of the starting positions: finite, and with at least one coordinate."""
    start = np.array(position, np.float64)
    if start.ndim == 0 or start.size == 0:
        raise InvalidParameterError(
            f"position has the shape {start.shape}; expected D numbers, or a row of D numbers for each chain"
        )
    if not np.isfinite(start).all():
        raise InvalidParameterError("position has coordinates that are not finite; expected numbers")
    return start


def checked_value(log_density: LogDensity, start: DoubleArray) -> DoubleArray:
    """The log density of the start: one finite number per chain."""
    value = evaluate(log_density, start)
    if value.shape != start.shape[:-1]:
        raise InvalidParameterError(
            f"log_density returned the shape {value.shape} for positions of the shape {start.shape}; "
            f"expected {start.shape[:-1]}: one number per chain"
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
    slope = evaluate(gradient, start)
    if slope.shape != start.shape:
        raise InvalidParameterError(
            f"gradient returned the shape {slope.shape} for positions of the shape {start.shape}; "
            "expected the same shape"
        )
    if not np.isfinite(slope).all():
        raise NonFiniteStateError("the gradient of the start is not finite; expected numbers: start somewhere else")
    return slope


# An energy error of this size never happens if leaps follow the flow: the path has diverged. (Stan's limit, too.)
MAX_ENERGY_ERROR = 1000.0


@dataclass(frozen=True, eq=False)
class Move:
    """The last move of each chain: whether it was accepted, with which probability, and its energy error."""

    accepted: BoolArray
    acceptance: DoubleArray  # the probability
    energy_error: DoubleArray  # of the end minus that of the start: minus the log of the acceptance ratio
    divergent: BoolArray  # the density was NaN, or the path diverged

    def stats(self) -> Stats:
        """Figures of all chains together, for a trace; the energy error is the mean absolute value if finite."""
        sound = np.abs(self.energy_error[~self.divergent])
        sound = sound[np.isfinite(sound)]
        return {
            "acceptance": float(self.acceptance.mean()),
            "accepted": float(self.accepted.mean()),
            "energy_error": float(sound.mean()) if sound.size else 0.0,
            "divergent": float(self.divergent.sum()),
        }


def started(start: DoubleArray, log_density: LogDensity) -> dict[str, Any]:
    """The fields of `Chains` before the first move."""
    value = checked_value(log_density, start)
    no, zero = np.zeros(value.shape, np.bool_), np.zeros(value.shape)
    return {"position": start, "log_density": value, "move": Move(no, zero, zero, no)}


def accept(energy_error: DoubleArray, divergent: BoolArray, rng: Generator) -> Move:
    """Accept with probability min(1, exp(-error)), but never a divergent move."""
    error, divergent = np.asarray(energy_error), np.asarray(divergent)
    acceptance = np.zeros(error.shape)
    acceptance[~divergent] = np.exp(-np.maximum(error[~divergent], 0.0))
    accepted = np.asarray(rng.random(error.shape) < acceptance)
    return Move(accepted, acceptance, np.where(np.isnan(error), np.inf, error), divergent)


def accept_path(energy_error: DoubleArray, rng: Generator) -> Move:
    """Accept or reject the end of a path by its energy error."""
    divergent = ~np.isfinite(energy_error) | (np.asarray(energy_error) > MAX_ENERGY_ERROR)
    return accept(energy_error, np.asarray(divergent), rng)


@dataclass(frozen=True, eq=False, kw_only=True)
class Chains:
    """Positions of chains and their last moves."""

    position: DoubleArray  # ... x D
    log_density: DoubleArray  # ...
    move: Move

    def after(self, move: Move, **there: DoubleArray) -> Self:
        """The state after a move: the new values of accepted chains, the old ones of the others."""
        found: dict[str, Any] = {name: select(move.accepted, new, getattr(self, name)) for name, new in there.items()}
        return replace(self, **found, move=move)

    def stats(self) -> Stats:
        return self.move.stats()


def select(accepted: BoolArray, new: DoubleArray, old: DoubleArray) -> DoubleArray:
    """The new values of accepted chains, the old ones of the others."""
    aligned = accepted.reshape(accepted.shape + (1,) * (np.ndim(old) - accepted.ndim))
    return np.where(aligned, new, old)


def positive(name: str, value: Any) -> float:
    """The value as a number, which must be finite and above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InvalidParameterError(f"{name} is {value!r}; expected a finite number above 0")
    return float(value)


def share(name: str, value: Any, *, most: float = 1.0) -> float:
    """The value as a number, which must be at least 0 and below `most`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < most:
        raise InvalidParameterError(f"{name} is {value!r}; expected a number of at least 0 and below {most:g}")
    return float(value)


def count(name: str, value: Any, *, least: int) -> int:
    """The value as a whole number of at least this size."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}")
    return int(value)
