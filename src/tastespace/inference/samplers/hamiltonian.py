"""Hamiltonian Monte Carlo: paths that follow the density, with a step size and a mass learned in warm-up.

With a momentum p ~ N(0, C^-1), the energy is H = -log p(x) + p C p / 2. A leap of size e, g the gradient of log p:

    p += e/2 g(x);   x += e C p;   p += e/2 g(x).

It preserves volume and is reversible, so that the end of L leaps is accepted with min(1, exp(H - H')). In the
first `warmup` steps dual averaging finds e, and windows of growing length the covariance C; nothing changes afterwards,
and only later draws should be kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers import target
from tastespace.inference.samplers.target import Gradient, LogDensity, Move
from tastespace.inference.transition import Stats

GAMMA, T0, K = 0.05, 10.0, 0.75
LARGEST_LOG = 60.0  # steps beyond exp(60) or below exp(-60) are a sign of overflow, not step sizes
LARGEST = math.exp(LARGEST_LOG)


@dataclass(frozen=True)
class DualAveraging:
    """The current step size, and the state of its adaptation to the wanted acceptance rate.

    After step t with acceptance probability a_t, wanted d (Hoffman and Gelman 2014, section 3.2; Nesterov 2009):

        error_t    = (1 - 1/(t + t0)) error_(t-1) + (d - a_t) / (t + t0)
        log step   = centre - sqrt(t)/gamma error_t                 what is tried next
        log kept   = t^-k log step + (1 - t^-k) log kept            what warm-up ends with

    with centre = log(10 first step): larger steps are cheaper, so those are tried first.
    """

    step_size: float
    kept: float  # the average used after warm-up
    centre: float  # of the logarithm
    error: float = 0.0
    count: int = 0


def begin(step_size: float) -> DualAveraging:
    """Start with this step size, which stays unless it is updated."""
    return DualAveraging(step_size, step_size, math.log(10 * step_size))


def update(averaging: DualAveraging, acceptance: float, *, wanted: float, largest: float = LARGEST) -> DualAveraging:
    """Update after a step with this acceptance probability; the next step size is at most `largest`."""
    count = averaging.count + 1
    weight = 1 / (count + T0)
    error = (1 - weight) * averaging.error + weight * (wanted - acceptance)
    log_step = averaging.centre - math.sqrt(count) / GAMMA * error
    log_step = min(max(log_step, -LARGEST_LOG), math.log(largest))
    share = count**-K
    kept = math.exp(share * log_step + (1 - share) * math.log(averaging.kept))
    return replace(averaging, step_size=math.exp(log_step), kept=kept, error=error, count=count)


def adapted(
    averaging: DualAveraging, acceptance: float, *, step: int, warmup: int, wanted: float, largest: float = LARGEST
) -> DualAveraging:
    """Adapt after this step (counted from 1) of a chain: updated during warm-up; afterwards the average is used."""
    if step > warmup:
        return averaging
    averaging = update(averaging, acceptance, wanted=wanted, largest=largest)
    return replace(averaging, step_size=averaging.kept) if step == warmup else averaging


def jittered(leaps: int, jitter: float, rng: Generator) -> int:
    """A number of leaps, uniform between (1 - jitter) and (1 + jitter) times this number, and at least 1.

    It is random, so that no path is periodic.
    """
    leaps, jitter = target.count("leaps", leaps, least=1), target.share("jitter", jitter)
    # A small tolerance, so that 0.5 x 10 is 5 despite rounding.
    least = max(1, math.ceil((1 - jitter) * leaps - 1e-9))
    most = max(least, math.floor((1 + jitter) * leaps + 1e-9))
    return int(rng.integers(least, most + 1))


# This many draws of SMALL variance are mixed in (as in Stan), so that few draws do not give a singular mass.
PRIOR_DRAWS, SMALL = 5, 1e-3
# The share of warm-up before the first window, in which chains approach the mode, and after the last, which is for the
# step size alone; and the length of the first window, each of the others being twice the one before.
BEFORE, AFTER, FIRST_WINDOW = 0.15, 0.2, 25


@dataclass(frozen=True, eq=False)
class Mass:
    """The mass of Hamiltonian paths: the inverse of a covariance C. Made by `mass_of`.

    With the covariance of the draws as inverse mass, momentum ~ N(0, C^-1) and velocity = C momentum: all
    directions are then equally wide. Diagonal: D variances. Dense: D x D.
    """

    covariance: DoubleArray  # D, or D x D
    spread: DoubleArray  # D, or D x D: a row of noise times this is a momentum

    def momentum(self, shape: tuple[int, ...], rng: Generator) -> DoubleArray:
        """Momenta from N(0, C^-1), one for each chain."""
        noise = rng.standard_normal(shape)
        return noise * self.spread if self.spread.ndim == 1 else noise @ self.spread

    def velocity(self, momentum: DoubleArray) -> DoubleArray:
        return momentum * self.covariance if self.covariance.ndim == 1 else momentum @ self.covariance

    def kinetic(self, momentum: DoubleArray) -> DoubleArray:
        """Half of p C p."""
        return np.asarray(np.sum(momentum * self.velocity(momentum), axis=-1) / 2)


def mass_of(covariance: ArrayLike, n_dimensions: int) -> Mass:
    """The mass whose inverse are these D variances, or this D x D covariance."""
    inverse = np.array(covariance, np.float64)
    if inverse.shape not in {(n_dimensions,), (n_dimensions, n_dimensions)}:
        raise InvalidParameterError(
            f"covariance has the shape {inverse.shape}; expected {n_dimensions} variances, "
            f"or {n_dimensions} x {n_dimensions} numbers"
        )
    if inverse.ndim == 1:
        if not (np.isfinite(inverse) & (inverse > 0)).all():
            raise InvalidParameterError("covariance has variances that are not positive numbers")
        return Mass(inverse, inverse**-0.5)
    try:
        lower = np.linalg.cholesky(inverse)
    except np.linalg.LinAlgError as error:
        raise InvalidParameterError("covariance is not positive definite; expected one that is") from error
    # C = L L^T; z L^-1 has the covariance L^-T L^-1 = C^-1.
    return Mass((inverse + inverse.T) / 2, scipy.linalg.solve_triangular(lower, np.eye(n_dimensions), lower=True))


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean, and sums of squared deviations (or of their products) of the draws of a window."""

    count: int
    mean: DoubleArray  # D
    scatter: DoubleArray  # D, or D x D


def no_moments(mass: Mass) -> Moments:
    """The moments before the first draw."""
    return Moments(0, np.zeros(len(mass.covariance)), np.zeros_like(mass.covariance))


def with_draws(moments: Moments, position: DoubleArray) -> Moments:
    """The moments after one more draw of each chain."""
    rows = position.reshape(-1, position.shape[-1])
    n, centre = len(rows), rows.mean(axis=0)
    deviations, apart = rows - centre, centre - moments.mean
    total = moments.count + n
    weight = moments.count * n / total
    if moments.scatter.ndim == 1:
        scatter = np.sum(deviations**2, axis=0) + weight * apart**2
    else:
        scatter = deviations.T @ deviations + weight * np.outer(apart, apart)
    return Moments(total, moments.mean + apart * (n / total), moments.scatter + scatter)


def mass_from(moments: Moments) -> Mass:
    """The mass that the draws of a window suggest."""
    n = moments.count
    share = n / (n + PRIOR_DRAWS)
    small = SMALL * (1 - share)
    covariance = moments.scatter / max(n - 1, 1) * share
    ridge = small if covariance.ndim == 1 else small * np.eye(len(covariance))
    return mass_of(covariance + ridge, len(covariance))


def windows(warmup: int) -> tuple[int, tuple[int, ...]]:
    """The step after which draws are collected, and those after which a mass is estimated from them."""
    at, end = int(BEFORE * warmup), warmup - int(AFTER * warmup)
    first, ends, length = at, [], FIRST_WINDOW
    while at + length <= end:
        # A remainder that is too short for the next window is added to this one.
        at = end if at + 3 * length > end else at + length
        ends.append(at)
        length *= 2
    return first, tuple(ends)


@dataclass(frozen=True, eq=False, kw_only=True)
class Adapting(target.Chains):
    """Chains whose step size is adapted in warm-up."""

    averaging: DualAveraging
    steps: int = 0

    def adapted(self, move: Move, warmup: int, wanted: float, largest: float = LARGEST) -> Self:
        """The number of the step that made this move, and the adapted step size."""
        step, acceptance, wanted = self.steps + 1, float(move.acceptance.mean()), target.share("wanted", wanted)
        tuned = adapted(self.averaging, acceptance, step=step, warmup=warmup, wanted=wanted, largest=largest)
        return replace(self, averaging=tuned, steps=step)

    @property
    def step_size(self) -> float:
        return self.averaging.step_size

    def stats(self) -> Stats:
        return {**super().stats(), "step_size": self.step_size}


def started(start: DoubleArray, log_density: LogDensity, step_size: float) -> dict[str, Any]:
    """The fields of `Adapting` at the start of chains."""
    chains = target.started(start, log_density)
    return {**chains, "averaging": begin(target.positive("step_size", step_size))}


@dataclass(frozen=True, eq=False, kw_only=True)
class State(Adapting):
    """Positions of the chains, their last moves, and the adapted step size and mass."""

    slope: DoubleArray  # ... x D
    mass: Mass
    moments: Moments  # of the draws of this window


def init(
    position: ArrayLike,
    log_density: LogDensity,
    gradient: Gradient,
    *,
    step_size: float = 0.1,
    covariance: ArrayLike | None = None,
    dense: bool = False,
) -> State:
    """Start here with this step size, and this inverse mass, by default 1 in all directions.

    D variances make a diagonal mass, D x D numbers (or `dense`) a dense one, and warm-up learns one of the same kind.
    """
    start = target.checked_position(position)
    common, slope = started(start, log_density, step_size), target.checked_slope(gradient, start)
    inverse = np.ones(start.shape[-1]) if covariance is None else np.asarray(covariance, np.float64)
    mass = mass_of(np.diag(inverse) if dense and inverse.ndim == 1 else inverse, start.shape[-1])
    return State(**common, slope=slope, mass=mass, moments=no_moments(mass))


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
    n_leaps = jittered(leaps, jitter, rng)
    start = state.mass.momentum(state.position.shape, rng)
    with np.errstate(over="ignore", invalid="ignore"):  # A divergent path is rejected and counted.
        position, momentum, slope = leapfrog(
            state.position, start, state.slope, gradient, state.step_size, n_leaps, state.mass
        )
        value = target.evaluate(log_density, position)
        error = state.log_density - value + state.mass.kinetic(momentum) - state.mass.kinetic(start)
    move = target.accept_path(error, rng)
    state = state.adapted(move, warmup, wanted).after(move, position=position, log_density=value, slope=slope)
    return _with_mass(state, warmup)


def leapfrog(
    position: DoubleArray,
    momentum: DoubleArray,
    slope: DoubleArray,
    gradient: Gradient,
    step_size: float,
    leaps: int,
    mass: Mass,
) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
    """Position, momentum and gradient after `leaps` leaps."""
    for _ in range(leaps):
        momentum = momentum + step_size / 2 * slope
        position = position + step_size * mass.velocity(momentum)
        slope = target.evaluate(gradient, position)
        momentum = momentum + step_size / 2 * slope
    return position, momentum, slope


def _with_mass(state: State, warmup: int) -> State:
    """The state with its draws added to the window, if it is in one, and with a new mass at the end of a window."""
    first, ends = windows(warmup)
    if not ends or not first < state.steps <= ends[-1]:
        return state
    moments = with_draws(state.moments, state.position)
    if state.steps not in ends:
        return replace(state, moments=moments)
    mass = mass_from(moments)
    # A new mass needs a new step size: dual averaging restarts from the one of the old mass.
    return replace(state, averaging=begin(state.averaging.kept), mass=mass, moments=no_moments(mass))
