"""Moves of rows on a sphere, by the kernel: to the minimum of the energy, or by a sampler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import Generator

from tastespace import _native
from tastespace.arrays import DoubleArray, contiguous
from tastespace.errors import NonFiniteStateError
from tastespace.inference.samplers import hamiltonian
from tastespace.inference.samplers.hamiltonian import DualAveraging
from tastespace.inference.transition import ACCEPTANCE, ENERGY_ERROR
from tastespace.models.factorization.priors.normal_wishart import Population, Sphere, on_sphere
from tastespace.models.factorization.rows import Factors, GivenRows, Moved, RowPrior, kernel_arguments

SphereSampler = Literal["geodesic", "slice", "metropolis"]
SPHERE_SAMPLERS: tuple[SphereSampler, ...] = get_args(SphereSampler)
# Steps of a move. On MovieLens 100K and 1M (benchmarks/sphere.py) 3 to 5 steps of a trajectory give most items the most
# effective draws per second, and 20 the slowest item with 50 factors: 10 is between them. 20 is best for the others.
STEPS = {"geodesic": 10, "slice": 20, "metropolis": 20}
# In units of the narrowest direction: the initial step size of a chain.
FIRST_STEP = {"geodesic": 0.5, "metropolis": 0.5}
WANTED = {"geodesic": 0.9, "metropolis": 0.3}  # acceptance
LARGEST_STEP = {"geodesic": 2.0, "metropolis": 100.0}  # leapfrog steps beyond 2 are unstable
# An independent draw: this many trajectories from the minimum of the energy. With 12 of them the spread of rows
# with 200 ratings is 0.99 to 1.00 of what it is after thousands of moves, with 20 to 100 factors.
TRAJECTORIES, TRAJECTORY_STEPS, TRAJECTORY_STEP_SIZE = 12, 10, 0.5


@dataclass(frozen=True, eq=False)
class _Call:
    """The result of a call of the kernel."""

    points: Factors
    squares: DoubleArray
    acceptance: DoubleArray
    energy_error: DoubleArray


@dataclass(frozen=True)
class SphereMoves:
    """Moves of items on a sphere; `steps` are those of a trajectory, or slices, or proposals."""

    sphere: Sphere
    sampler: SphereSampler = "slice"
    steps: int = 10
    warmup: int = 0  # moves of a chain during which its step size is adapted

    def solved(self, given: GivenRows, prior: RowPrior) -> Factors:
        return self._call(given, prior, "least", 1, 1.0, key=0).points

    def drawn(self, given: GivenRows, population: Population, rng: Generator) -> tuple[Factors, DoubleArray]:
        dtype: Any = given.other.factors.dtype
        prior, key = population.prior(dtype), int(rng.integers(1 << 62))
        drawn = self._call(given, prior, "least", 1, 1.0, key=0)
        for trajectory in range(TRAJECTORIES):
            given = replace(given, rows=drawn.points)
            drawn = self._call(given, prior, "geodesic", TRAJECTORY_STEPS, TRAJECTORY_STEP_SIZE, key=key + trajectory)
        # Rows without ratings are drawn from the population, which needs no moves.
        is_rated = np.diff(given.side.offsets) > 0
        if is_rated.all():
            return drawn.points, drawn.squares
        fresh = population.draw_rows(len(is_rated), dtype, rng)
        return drawn.points.where(is_rated, fresh), drawn.squares

    def moved(self, given: GivenRows, population: Population, tuning: DualAveraging | None, rng: Generator) -> Moved:
        if tuning is None:
            tuning = hamiltonian.begin(FIRST_STEP.get(self.sampler, 1.0))
        prior, key = population.prior(given.other.factors.dtype), int(rng.integers(1 << 63))
        call = self._call(given, prior, self.sampler, self.steps, tuning.step_size, key=key)
        if self.sampler == "slice":  # nothing is tuned, and everything accepted
            return Moved(call.points, call.squares, None, {})
        is_rated = np.diff(given.side.offsets) > 0
        is_rated |= not is_rated.any()
        acceptance = float(call.acceptance[is_rated].mean())
        wanted, largest, step = WANTED[self.sampler], LARGEST_STEP[self.sampler], tuning.count + 1
        tuning = hamiltonian.adapted(tuning, acceptance, step=step, warmup=self.warmup, wanted=wanted, largest=largest)
        stats = {ACCEPTANCE: acceptance}
        if self.sampler == "geodesic":
            errors = np.abs(call.energy_error[is_rated])
            finite = errors[np.isfinite(errors)]
            stats[ENERGY_ERROR] = float(finite.mean()) if len(finite) else 0.0
        return Moved(call.points, call.squares, tuning, stats)

    def _call(self, given: GivenRows, prior: RowPrior, move: str, steps: int, step_size: float, *, key: int) -> _Call:
        start, own, dtype = on_sphere(given.rows, self.sphere), given.row_precision, given.other.factors.dtype
        n_rows, n_factors = start.factors.shape
        is_joint, linear = self.sphere.has_joint_bias, prior.linear
        if linear.shape[1] < n_factors + is_joint:  # a penalty without a mean direction
            prior = replace(prior, linear=np.hstack([linear, np.zeros((len(linear), 1), linear.dtype)]))
        bias = None if start.bias is None else contiguous(start.bias, dtype).copy()
        points = Factors(contiguous(start.factors, dtype).copy(), bias)
        done = _Call(points, np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows))
        failed = _native.move_on_sphere(
            **kernel_arguments(given.side, given.other, prior, points),
            radius=self.sphere.radius,
            has_joint_bias=is_joint,
            move=move,
            steps=steps,
            step_size=step_size,
            key=key,
            alpha=given.alpha,
            row_precision=None if own is None else contiguous(own, dtype),
            squares=done.squares,
            acceptance=done.acceptance,
            energy_error=done.energy_error,
            threads=given.threads,
        )
        if failed >= 0:
            raise NonFiniteStateError(
                f"the {given.axis} update on the sphere failed at row {failed}; expected finite ratings of ordinary "
                "size; try precision='float64'"
            )
        return done
