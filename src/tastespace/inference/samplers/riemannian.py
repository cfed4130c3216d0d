"""Riemann-manifold Hamiltonian Monte Carlo: the mass depends on the position (Girolami and Calderhead 2011).

With a metric G(x), symmetric and positive definite, and momentum p ~ N(0, G(x)), the energy is

    H(x, p) = -log p(x) + log|G(x)| / 2 + p G(x)^-1 p / 2

and its slope  dH/dx_k = -d log p/dx_k + tr(G^-1 dG_k) / 2 - v dG_k v / 2,  v = G^-1 p,  dG_k = dG/dx_k. Position and
momentum are no longer separable, so two of the three parts of a leap of size e are implicit:

    p' = p - e/2 dH/dx(x, p');   x' = x + e/2 (G(x)^-1 + G(x')^-1) p';   p'' = p' - e/2 dH/dx(x', p').

Each is solved by fixed-point iteration. If steps are too long for it, a leap may converge while the reverse leap does
not, or converges elsewhere: the path would not be reversible. So every leap is also made backwards, and a path with one
that does not converge, or does not return, is rejected and counted as divergent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.inference.samplers import target
from tastespace.inference.samplers.hamiltonian import Adapting, jittered, started
from tastespace.inference.samplers.target import Gradient, LogDensity

RETURNS = 1000.0  # times the tolerance, which is per iteration: many slow ones add up


@dataclass(frozen=True)
class Manifold:
    """The density and the metric, with their derivatives."""

    log_density: LogDensity
    gradient: Gradient
    metric: Callable[[DoubleArray], ArrayLike]  # ... x D -> ... x D x D
    metric_gradient: Callable[[DoubleArray], ArrayLike]  # ... x D -> ... x D x D x D; [..., k, :, :] is dG/dx_k


class State(Adapting):
    """Positions of the chains, their last moves, and their step sizes."""


def init(position: ArrayLike, manifold: Manifold, *, step_size: float = 0.1) -> State:
    """Start here with this step size."""
    start = target.checked_position(position)
    common = started(start, manifold.log_density, step_size)
    target.checked_slope(manifold.gradient, start)
    _check_metric(manifold, start)
    return State(**common)


def step(
    state: State,
    rng: Generator,
    manifold: Manifold,
    *,
    leaps: int = 10,
    jitter: float = 0.5,
    warmup: int = 0,
    wanted: float = 0.8,
    iterations: int = 30,
    tolerance: float = 1e-8,
) -> State:
    """One path for each chain.

    Its length is `leaps`, more or less by up to the share `jitter`, the same for all chains. In the first `warmup`
    steps the step size is adapted, so that the share `wanted` of the paths is accepted. Fixed points have converged
    when an iteration moves no coordinate by more than `tolerance` of its size, or of 1 if that is less.
    """
    n_leaps = jittered(leaps, jitter, rng)
    solver = _Solver(target.count("iterations", iterations, least=1), target.positive("tolerance", tolerance))
    here = _local(manifold, state.position)
    start = here.momentum(rng)
    with np.errstate(all="ignore"):  # A divergent path is rejected and counted.
        position, momentum, there, converged = _generalised_leaps(
            manifold, state.position, start, here, state.step_size, n_leaps, solver
        )
        value = target.evaluate(manifold.log_density, position)
        error = state.log_density - value + there.energy(momentum) - here.energy(start)
    move = target.accept_path(np.where(converged, error, np.nan), rng)
    return state.adapted(move, warmup, wanted).after(move, position=position, log_density=value)


def generalised_leapfrog(
    position: DoubleArray,
    momentum: DoubleArray,
    manifold: Manifold,
    step_size: float,
    leaps: int,
    *,
    iterations: int = 30,
    tolerance: float = 1e-8,
) -> tuple[DoubleArray, DoubleArray, BoolArray]:
    """Position and momentum after `leaps` leaps, and whether all of them are reversible."""
    here, solver = _local(manifold, position), _Solver(iterations, tolerance)
    position, momentum, _, converged = _generalised_leaps(manifold, position, momentum, here, step_size, leaps, solver)
    return position, momentum, converged


@dataclass(frozen=True, eq=False)
class _Local:
    """The eigendecomposition of the metric at the positions: G = Q diag(w) Q^T. NaN where it is not a metric."""

    values: DoubleArray  # ... x D
    vectors: DoubleArray  # ... x D x D
    inverse: DoubleArray  # ... x D x D

    def momentum(self, rng: Generator) -> DoubleArray:
        """Momenta from N(0, G), one for each chain."""
        return _times(self.vectors, np.sqrt(self.values) * rng.standard_normal(self.values.shape))

    def velocity(self, momentum: DoubleArray) -> DoubleArray:
        """G^-1 p."""
        return _times(self.inverse, momentum)

    def energy(self, momentum: DoubleArray) -> DoubleArray:
        """Half of log|G| + p G^-1 p."""
        squares = np.sum(momentum * self.velocity(momentum), axis=-1)
        return np.asarray((np.sum(np.log(self.values), axis=-1) + squares) / 2)


@dataclass(frozen=True)
class _Solver:
    """Fixed-point iteration, chain by chain: one that has converged stays unchanged, whatever the others do."""

    iterations: int
    tolerance: float

    def solve(self, start: DoubleArray, image: Callable[[DoubleArray], DoubleArray]) -> tuple[DoubleArray, BoolArray]:
        point, converged = start, np.zeros(start.shape[:-1], np.bool_)
        for _ in range(self.iterations):
            new = image(point)
            near = np.abs(new - point) <= self.tolerance * np.maximum(np.abs(point), 1)
            point = target.select(converged, point, new)
            converged = np.asarray(converged | near.all(axis=-1))
            if (converged | ~np.isfinite(point).all(axis=-1)).all():
                break
        return point, converged

    def near(self, first: DoubleArray, second: DoubleArray) -> BoolArray:
        """Whether points are equal up to the tolerance of two solutions."""
        apart = np.abs(first - second) <= RETURNS * self.tolerance * np.maximum(np.abs(second), 1)
        return np.asarray(apart.all(axis=-1))


@dataclass(frozen=True, eq=False)
class _Phase:
    """Position and momentum, with the local quantities."""

    position: DoubleArray
    momentum: DoubleArray
    here: _Local
    force: Callable[[DoubleArray], DoubleArray]


def _generalised_leaps(
    manifold: Manifold,
    position: DoubleArray,
    momentum: DoubleArray,
    here: _Local,
    step_size: float,
    leaps: int,
    solver: _Solver,
) -> tuple[DoubleArray, DoubleArray, _Local, BoolArray]:
    sound = np.ones(position.shape[:-1], np.bool_)
    phase = _Phase(position, momentum, here, _force(manifold, position, here))
    for _ in range(leaps):
        following, converged = _leap(manifold, phase, step_size / 2, solver)
        back, returned = _leap(manifold, replace(following, momentum=-following.momentum), step_size / 2, solver)
        is_back = solver.near(back.position, phase.position) & solver.near(-back.momentum, phase.momentum)
        sound, phase = np.asarray(sound & converged & returned & is_back), following
    return phase.position, phase.momentum, phase.here, sound


def _leap(manifold: Manifold, phase: _Phase, half: float, solver: _Solver) -> tuple[_Phase, BoolArray]:
    """One leap, and whether its fixed points have converged."""
    # p' = p + e/2 force(p')
    momentum, has_turned = solver.solve(phase.momentum, lambda guess: phase.momentum + half * phase.force(guess))
    # x' = x + e/2 (G(x)^-1 + G(x')^-1) p'
    fixed = phase.position + half * phase.here.velocity(momentum)
    position, has_moved = solver.solve(
        phase.position, lambda guess: fixed + half * _velocity(manifold, guess, momentum)
    )
    here = _local(manifold, position)
    force = _force(manifold, position, here)
    return _Phase(position, momentum + half * force(momentum), here, force), np.asarray(has_turned & has_moved)


def _velocity(manifold: Manifold, position: DoubleArray, momentum: DoubleArray) -> DoubleArray:
    """G(x)^-1 p at an intermediate point, faster than by eigenvectors; G is checked after convergence."""
    try:
        metric = np.asarray(manifold.metric(position), np.float64)
        return np.asarray(np.linalg.solve(metric, momentum[..., None])[..., 0])
    except np.linalg.LinAlgError:  # If one of the chains has a singular metric, all would fail.
        return _local(manifold, position).velocity(momentum)


def _force(manifold: Manifold, position: DoubleArray, here: _Local) -> Callable[[DoubleArray], DoubleArray]:
    """-dH/dx at these positions, as a function of the momentum."""
    slopes = np.asarray(manifold.metric_gradient(position), np.float64)
    steady = target.evaluate(manifold.gradient, position) - np.einsum("...ij,...kji->...k", here.inverse, slopes) / 2

    def force(momentum: DoubleArray) -> DoubleArray:
        velocity = here.velocity(momentum)
        return np.asarray(steady + _times(_times(slopes, velocity[..., None, :]), velocity) / 2)

    return force


def _local(manifold: Manifold, position: DoubleArray) -> _Local:
    metric = np.asarray(manifold.metric(position), np.float64)
    # The decomposition of many matrices fails as a whole if one of them is not finite.
    finite = np.asarray(np.isfinite(metric).all(axis=(-2, -1)))
    values, vectors = np.linalg.eigh(np.where(finite[..., None, None], metric, np.eye(metric.shape[-1])))
    positive_definite = np.asarray(finite & (values > 0).all(axis=-1))
    values = np.where(positive_definite[..., None], values, np.nan)
    return _Local(values, vectors, np.asarray((vectors / values[..., None, :]) @ vectors.swapaxes(-1, -2)))


def _times(matrices: DoubleArray, vectors: DoubleArray) -> DoubleArray:
    """One product per chain."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _check_metric(manifold: Manifold, start: DoubleArray) -> None:
    for name, n_more in (("metric", 1), ("metric_gradient", 2)):
        shape, expected = np.shape(getattr(manifold, name)(start)), start.shape + start.shape[-1:] * n_more
        if shape != expected:
            raise InvalidParameterError(
                f"{name} returned the shape {shape} for positions of the shape {start.shape}; expected {expected}"
            )
    if not np.isfinite(_local(manifold, start).values).all():
        raise NonFiniteStateError(
            "the metric of the start is not positive definite; expected one that is: start somewhere else"
        )
