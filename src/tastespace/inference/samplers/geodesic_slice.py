"""Geodesic slice sampling on the sphere |x| = q: no step size, no gradient (Habeck et al. 2023).

A great circle through x in a uniform direction w, x cos t + q w sin t; a level log p(x) - e, e exponential; then a
point of the circle above the level. The circle is cut at a uniform place: t is drawn uniformly from (r - 2 pi, r),
with r uniform on (0, 2 pi), and while it is below the level, the end on its side moves to it, which leaves t = 0, the
current point, inside.

The uniform r is essential. The fixed interval (-pi, pi) is cut opposite to the current point, so that the reverse move
would start from another cut: the moves would not be reversible, and the density would not be preserved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from tastespace.arrays import DoubleArray, OffsetArray
from tastespace.inference.samplers import target
from tastespace.inference.samplers.geodesic import checked_on_sphere, on_sphere, unit_tangent
from tastespace.inference.samplers.target import LogDensity, Move
from tastespace.inference.transition import Stats

# Each trial cuts the interval by a third or so: after this many, doubles cannot tell its ends apart. Only a density
# that is not deterministic gets there.
MAX_TRIALS = 300


@dataclass(frozen=True, eq=False, kw_only=True)
class State(target.Chains):
    """Positions of the chains, and the number of points that each tried."""

    radius: float
    trials: OffsetArray  # ...: points tried in the last step

    def stats(self) -> Stats:
        return {**super().stats(), "trials": float(self.trials.mean())}


def init(position: ArrayLike, log_density: LogDensity, *, radius: float = 1.0) -> State:
    """Start here; D >= 2."""
    start = checked_on_sphere(target.checked_position(position), radius)
    trials = np.zeros(start.shape[:-1], np.int64)
    return State(**target.started(start, log_density), radius=float(radius), trials=trials)


def step(state: State, rng: Generator, log_density: LogDensity) -> State:
    """One great circle for each chain."""
    tangent = state.radius * unit_tangent(state.position, state.radius, rng)
    shape = state.log_density.shape
    level = state.log_density - rng.standard_exponential(shape)
    low, high = first_interval(shape, rng)
    position, value = state.position, state.log_density
    found, strange = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    trials = np.zeros(shape, np.int64)
    for _ in range(MAX_TRIALS):
        angle = low + (high - low) * rng.random(shape)
        # Chains that are done are evaluated again and ignored: the density may differ from chain to chain.
        circle = np.cos(angle)[..., None] * state.position + np.sin(angle)[..., None] * tangent
        tried = on_sphere(circle, state.radius)
        with np.errstate(over="ignore", invalid="ignore"):  # NaN is below any level, and counted.
            value_there = target.evaluate(log_density, tried)
        trials = trials + ~found
        odd = np.isnan(value_there) | (value_there == np.inf)
        strange = strange | (odd & ~found)
        hit = np.asarray((value_there > level) & ~found & ~odd)
        position, value = target.select(hit, tried, position), target.select(hit, value_there, value)
        found = found | hit
        if found.all():
            break
        low, high = np.where(angle < 0, angle, low), np.where(angle < 0, high, angle)
    found = np.asarray(found)
    move = Move(found, found.astype(np.float64), np.zeros(shape), np.asarray(strange | ~found))
    return replace(state, position=position, log_density=value, move=move, trials=np.asarray(trials))


def first_interval(shape: tuple[int, ...], rng: Generator) -> tuple[DoubleArray, DoubleArray]:
    """The whole circle, cut at a uniform place; 0 is inside."""
    high = np.asarray(2 * np.pi * rng.random(shape))
    return high - 2 * np.pi, high
