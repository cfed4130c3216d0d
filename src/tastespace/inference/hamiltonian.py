"""Hamiltonian Monte Carlo: paths that follow the density, with a step size and a mass learned in warm-up.

With a momentum p ~ N(0, C^-1), the energy is H = -log p(x) + p C p / 2. A leap of size e, g the gradient of log p:

    p += e/2 g(x);   x += e C p;   p += e/2 g(x).

It keeps volumes, and backwards it is itself, so that the end of L leaps is accepted with min(1, exp(H - H')). In the
first `warmup` steps dual averaging finds e, and windows of growing length the covariance C; nothing changes
afterwards, and only draws from then on should be kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from tastespace.arrays import DoubleArray
from tastespace.inference.checks import count, positive, share
from tastespace.inference.dual_averaging import DualAveraging, adapted, begin
from tastespace.inference.lengths import jittered
from tastespace.inference.mass import Mass, Moments, learned, mass_of, no_moments, windows, with_draws
from tastespace.inference.moves import Move, chosen, judged_path, none_yet
from tastespace.inference.target import (
    Gradient,
    LogDensity,
    checked_position,
    checked_slope,
    checked_value,
    slope_at,
    value_at,
)
from tastespace.inference.transition import Stats


@dataclass(frozen=True, eq=False)
class State:
    """Where the chains are, how they got there, and what they have learned of the density."""

    position: DoubleArray  # ... x D
    log_density: DoubleArray  # ...
    slope: DoubleArray  # ... x D
    averaging: DualAveraging
    mass: Mass
    moments: Moments  # of the draws of this window
    move: Move
    steps: int = 0

    @property
    def step_size(self) -> float:
        return self.averaging.step_size

    def stats(self) -> Stats:
        return {**self.move.stats(), "step_size": self.step_size}


def init(
    position: ArrayLike,
    log_density: LogDensity,
    gradient: Gradient,
    *,
    step_size: float = 0.1,
    covariance: ArrayLike | None = None,
    dense: bool = False,
) -> State:
    """Start here with this step size, and with this inverse mass, which is 1 in all directions unless it is given.

    D variances make a diagonal mass, D x D numbers (or `dense`) a dense one, and warm-up learns one of the same kind.
    """
    start = checked_position(position)
    value, slope = checked_value(log_density, start), checked_slope(gradient, start)
    inverse = np.ones(start.shape[-1]) if covariance is None else np.asarray(covariance, np.float64)
    mass = mass_of(np.diag(inverse) if dense and inverse.ndim == 1 else inverse, start.shape[-1])
    averaging = begin(positive("step_size", step_size))
    return State(start, value, slope, averaging, mass, no_moments(mass), none_yet(value.shape))


def step(
    state: State,
    rng: Generator,
    log_density: LogDensity,
    gradient: Gradient,
    *,
    leaps: int = 20,
    jitter: float = 0.5,
    warmup: int = 0,
    wanted: float = 0.8,
) -> State:
    """One path for each chain.

    Its length is `leaps`, more or less by up to the share `jitter`, the same for all chains. In the first `warmup`
    steps step size and mass are adapted, so that the share `wanted` of the paths is accepted.
    """
    n_leaps = jittered(count("leaps", leaps, least=1), share("jitter", jitter), rng)
    start = state.mass.momentum(state.position.shape, rng)
    with np.errstate(over="ignore", invalid="ignore"):  # A path that runs away is rejected, and counted.
        position, momentum, slope = leapfrog(
            state.position, start, state.slope, gradient, state.step_size, n_leaps, state.mass
        )
        value = value_at(log_density, position)
        error = state.log_density - value + state.mass.kinetic(momentum) - state.mass.kinetic(start)
    move = judged_path(error, rng)
    position = chosen(move.accepted, position, state.position)
    averaging, mass, moments = _learned(state, position, float(move.acceptance.mean()), warmup, share("wanted", wanted))
    return State(
        position,
        chosen(move.accepted, value, state.log_density),
        chosen(move.accepted, slope, state.slope),
        averaging,
        mass,
        moments,
        move,
        state.steps + 1,
    )


def leapfrog(
    position: DoubleArray,
    momentum: DoubleArray,
    slope: DoubleArray,
    gradient: Gradient,
    step_size: float,
    leaps: int,
    mass: Mass,
) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
    """Position, momentum and gradient after so many leaps."""
    for _ in range(leaps):
        momentum = momentum + step_size / 2 * slope
        position = position + step_size * mass.velocity(momentum)
        slope = slope_at(gradient, position)
        momentum = momentum + step_size / 2 * slope
    return position, momentum, slope


def _learned(
    state: State, position: DoubleArray, acceptance: float, warmup: int, wanted: float
) -> tuple[DualAveraging, Mass, Moments]:
    """Step size, mass and window after this step."""
    step = state.steps + 1
    if step > warmup:
        return state.averaging, state.mass, state.moments
    averaging = adapted(state.averaging, acceptance, step=step, warmup=warmup, wanted=wanted)
    first, ends = windows(warmup)
    if not ends or not first < step <= ends[-1]:
        return averaging, state.mass, state.moments
    moments = with_draws(state.moments, position)
    if step not in ends:
        return averaging, state.mass, moments
    mass = learned(moments)
    # Another mass wants another step: dual averaging begins anew, from the step that the old mass had.
    return begin(averaging.kept), mass, no_moments(mass)
