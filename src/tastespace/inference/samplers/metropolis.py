"""Metropolis-Hastings: propose a point, and accept it with a probability that preserves the density.

From x to x', proposed with the density q(x' | x), with the probability

    min(1, p(x') q(x | x') / (p(x) q(x' | x))).

`gaussian` and `von_mises_fisher` are symmetric, q(x' | x) = q(x | x'), so that the ratio of the q is 1. A custom
proposal is any function of positions and rng; if it is not symmetric, `log_ratio` must return log q(x | x') - log q(x'
| x).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from tastespace.arrays import DoubleArray
from tastespace.distributions import von_mises_fisher as directions
from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers import target
from tastespace.inference.samplers.target import LogDensity

Propose = Callable[[DoubleArray, Generator], ArrayLike]  # current -> proposed positions, each ... x D
LogRatio = Callable[[DoubleArray, DoubleArray], ArrayLike]  # from, to -> log q(from | to) - log q(to | from)


class State(target.Chains):
    """Positions of the chains and their last moves."""


def init(position: ArrayLike, log_density: LogDensity) -> State:
    """Start here."""
    return State(**target.started(target.checked_position(position), log_density))


def step(
    state: State, rng: Generator, log_density: LogDensity, propose: Propose, log_ratio: LogRatio | None = None
) -> State:
    """One proposal for each chain."""
    proposed = np.asarray(propose(state.position, rng), np.float64)
    if proposed.shape != state.position.shape:
        raise InvalidParameterError(
            f"propose returned the shape {proposed.shape} for positions of the shape {state.position.shape}; "
            "expected the same shape"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # NaN is rejected and counted.
        value = target.evaluate(log_density, proposed)
        error = state.log_density - value
        if log_ratio is not None:
            error = error - np.asarray(log_ratio(state.position, proposed), np.float64)
    # Infinite errors are points of zero density, which is valid; negative infinity has no meaning.
    move = target.accept(error, np.asarray(np.isnan(error) | (error == -np.inf)), rng)
    return state.after(move, position=proposed, log_density=value)


def gaussian(scale: ArrayLike) -> Propose:
    """x' = x + scale z: one standard deviation for all coordinates, D of them, or a D x D factor L of L L^T."""
    spread = np.asarray(scale, np.float64)
    if spread.ndim > 2 or not np.isfinite(spread).all() or (spread.ndim < 2 and not (spread > 0).all()):
        raise InvalidParameterError(
            f"scale is {scale!r}; expected a positive number, one for each coordinate, or a D x D factor"
        )

    def propose(position: DoubleArray, rng: Generator) -> DoubleArray:
        noise = rng.standard_normal(position.shape)
        if spread.ndim > 0 and spread.shape[-1] != position.shape[-1]:
            raise InvalidParameterError(
                f"scale has the shape {spread.shape}; expected {position.shape[-1]} for each coordinate of the position"
            )
        return position + (noise @ spread.T if spread.ndim == 2 else noise * spread)

    return propose


def von_mises_fisher(concentration: float) -> Propose:
    """A direction around that of x, von Mises-Fisher with this concentration; the length is unchanged."""
    concentration = target.positive("concentration", concentration)

    def propose(position: DoubleArray, rng: Generator) -> DoubleArray:
        lengths = np.linalg.norm(position, axis=-1, keepdims=True)
        if not (lengths > 0).all():
            raise InvalidParameterError("position is the origin, which has no direction; expected a point on a sphere")
        return np.asarray(lengths * directions.draw_around(position / lengths, concentration, rng))

    return propose
