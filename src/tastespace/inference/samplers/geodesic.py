"""Geodesic Monte Carlo on the sphere |x| = q: Hamiltonian paths along great circles (Byrne and Girolami 2013).

A momentum from N(0, I), made tangent, p - x (x.p)/q^2. Then L leaps of size e, each with g the gradient of log p,

    p += e/2 g(x), made tangent;   free motion along the great circle for a time e;   p += e/2 g(x), made tangent.

The end is accepted by H = -log p(x) + |p|^2 / 2. Free motion keeps |x| and |p| exactly; lengths are still corrected
once per leap, because rounding adds up. `gradient` is in all D coordinates, the projection is done here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers import target
from tastespace.inference.samplers.hamiltonian import Adapting, jittered, started
from tastespace.inference.samplers.target import Gradient, LogDensity

ON_SPHERE = 1e-6  # how far, as a share of the radius, a point may be off the sphere: single precision is closer


def checked_on_sphere(position: DoubleArray, radius: float) -> DoubleArray:
    """Validated positions on the sphere, projected exactly, with a great circle through each."""
    radius = target.positive("radius", radius)
    if position.shape[-1] < 2:
        raise InvalidParameterError(
            "position has 1 coordinate; expected at least 2: the sphere is two points then, which no great circle "
            "joins: use metropolis.von_mises_fisher"
        )
    lengths = np.linalg.norm(position, axis=-1)
    off = np.abs(lengths / radius - 1)
    if not (off <= ON_SPHERE).all():
        raise InvalidParameterError(
            f"position has the length {lengths.flat[np.argmax(off)]:g}; expected the radius, {radius:g}: "
            "divide by the length, and multiply by the radius"
        )
    return on_sphere(position, radius)


def on_sphere(position: DoubleArray, radius: float) -> DoubleArray:
    """The nearest points of the sphere, which removes rounding errors of lengths."""
    return np.asarray(position * (radius / np.linalg.norm(position, axis=-1, keepdims=True)))


def projected(vector: DoubleArray, position: DoubleArray, radius: float) -> DoubleArray:
    """The part of a vector that is tangent to the sphere."""
    along = np.sum(vector * position, axis=-1, keepdims=True) / radius**2
    return np.asarray(vector - along * position)


def along_great_circle(
    position: DoubleArray, velocity: DoubleArray, time: float, radius: float
) -> tuple[DoubleArray, DoubleArray]:
    """Position and velocity after some time of free motion: with w = |velocity| / q an angle of w time."""
    speed = np.linalg.norm(velocity, axis=-1, keepdims=True) / radius
    cosine, sine = np.cos(speed * time), np.sin(speed * time)
    # sin(w t) / w is t where nothing moves.
    stretch = np.divide(sine, speed, out=np.full_like(speed, time), where=speed > 0)
    return position * cosine + velocity * stretch, velocity * cosine - position * (speed * sine)


def unit_tangent(position: DoubleArray, radius: float, rng: Generator) -> DoubleArray:
    """A uniform direction in the tangent space."""
    tangent = projected(rng.standard_normal(position.shape), position, radius)
    # Again: a Gaussian almost parallel to the position leaves a short remainder with large rounding errors.
    tangent = projected(tangent, position, radius)
    return np.asarray(tangent / np.linalg.norm(tangent, axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class State(Adapting):
    """Positions of the chains, their last moves, and their step sizes."""

    slope: DoubleArray  # ... x D
    radius: float


def init(
    position: ArrayLike, log_density: LogDensity, gradient: Gradient, *, radius: float = 1.0, step_size: float = 0.1
) -> State:
    """Start here with this step size; D >= 2."""
    start = checked_on_sphere(target.checked_position(position), radius)
    slope = target.checked_slope(gradient, start)
    return State(**started(start, log_density, step_size), slope=slope, radius=float(radius))


def step(
    state: State,
    rng: Generator,
    log_density: LogDensity,
    gradient: Gradient,
    *,
    leaps: int = 10,
    jitter: float = 0.5,
    warmup: int = 0,
    wanted: float = 0.8,
) -> State:
    """One path for each chain.

    Its length is `leaps`, more or less by up to the share `jitter`, the same for all chains. In the first `warmup`
    steps the step size is adapted, so that the share `wanted` of the paths is accepted.
    """
    n_leaps = jittered(leaps, jitter, rng)
    radius, start = state.radius, draw_momentum(state.position, state.radius, rng)
    with np.errstate(over="ignore", invalid="ignore"):  # A divergent path is rejected and counted.
        position, momentum, slope = leaps_on_sphere(
            state.position, start, state.slope, gradient, state.step_size, n_leaps, radius
        )
        value = target.evaluate(log_density, position)
        error = state.log_density - value + _kinetic(momentum) - _kinetic(start)
    move = target.accept_path(error, rng)
    # Half way round the sphere: without a limit, a flat density would let the step grow without bound.
    largest = math.pi * radius / math.sqrt(max(position.shape[-1] - 1, 1))
    state = state.adapted(move, warmup, wanted, largest)
    return state.after(move, position=position, log_density=value, slope=slope)


def draw_momentum(position: DoubleArray, radius: float, rng: Generator) -> DoubleArray:
    """A Gaussian momentum in the tangent space."""
    return projected(rng.standard_normal(position.shape), position, radius)


def leaps_on_sphere(
    position: DoubleArray,
    momentum: DoubleArray,
    slope: DoubleArray,
    gradient: Gradient,
    step_size: float,
    leaps: int,
    radius: float,
) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
    """Position, momentum and gradient after `leaps` leaps."""
    for _ in range(leaps):
        momentum = projected(momentum + step_size / 2 * slope, position, radius)
        position, momentum = along_great_circle(position, momentum, step_size, radius)
        position = on_sphere(position, radius)
        slope = target.evaluate(gradient, position)
        momentum = projected(momentum + step_size / 2 * slope, position, radius)
    return position, momentum, slope


def _kinetic(momentum: DoubleArray) -> DoubleArray:
    return np.asarray(np.sum(momentum**2, axis=-1) / 2)
