"""Variational Bayes for matrix factorization: every step raises a lower bound on the evidence.

    log p(ratings) >= E_Q[log p(ratings | x, alpha)] - KL(Q | p) =: L
    Q = prod Q(x_i) prod Q(x_j) Q(parameters) Q(alpha)

with x_i = (u_i, c_i) and x_j = (v_j, d_j) normal, of full covariance or with independent coordinates. One pass learns
the populations and the noise, then the items given the users, then the users given the items, which then equal their
fold-in. docs/explanation/models/vb.md has the derivations.

Unused columns are dropped: their learned variances vanish by themselves.

The variance of the contribution of column h to a score is theta_h, an eigenvalue of (covariance of users) x (covariance
of items). Beliefs are transformed to coordinates in which columns are uncorrelated, which changes neither a score nor,
in the full family, the bound; those with a negligible theta_h are dropped. The bound may then fall by their
contribution, and rises again with every following pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log, pi, sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, DoubleArray, contiguous
from tastespace.data.csr import row_blocks
from tastespace.inference.transition import NOISE, Stats
from tastespace.models.factorization.rows import RatingBlock
from tastespace.models.factorization.vb.coefficients import CoefficientBeliefs
from tastespace.models.factorization.vb.populations import VariationalNoise, VariationalPopulation
from tastespace.models.factorization.vb.rows import RowBeliefs, moved_rows, packed, records_of


@dataclass(frozen=True, eq=False)
class VariationalState:
    """All beliefs, in units of the ratings' standard deviation."""

    users: RowBeliefs
    items: RowBeliefs
    user_population: VariationalPopulation
    item_population: VariationalPopulation
    noise: VariationalNoise
    passes: int = 0
    user_coefficients: CoefficientBeliefs | None = None  # of their features, if they have any
    item_coefficients: CoefficientBeliefs | None = None

    @property
    def sides(self) -> tuple[tuple[RowBeliefs, VariationalPopulation, CoefficientBeliefs | None], ...]:
        """Users and items: rows, population, and coefficients."""
        return (
            (self.users, self.user_population, self.user_coefficients),
            (self.items, self.item_population, self.item_coefficients),
        )


@dataclass(frozen=True, eq=False)
class VariationalAscent:
    """The transition, bound to its ratings and its start."""

    by_user: RatingBlock
    by_item: RatingBlock
    start: VariationalState
    threads: int = 1
    pruning: Pruning | None = None  # None if all columns stay

    def init(self, rng: Generator) -> VariationalState:
        return self.start

    def step(self, state: VariationalState, rng: Generator) -> tuple[VariationalState, Stats]:
        if self.pruning is not None and state.passes >= SETTLING_PASSES:
            state = self.pruning.pruned(state)
        noise, learned = state.noise, [(population, coefficients) for _, population, coefficients in state.sides]
        if state.passes:  # Learned from the rows, once there are beliefs about the rows.
            learned = [_learned(*side) for side in state.sides]
            noise = noise.learned(self.n_ratings, state.users.squares)
        (user_population, of_users), (item_population, of_items) = learned
        moved = partial(moved_rows, alpha=noise.mean, threads=self.threads)
        expected, means = item_population.expected, None if of_items is None else of_items.row_means
        items = moved(
            self.by_item, state.users, state.items, expected, name="item", keeps_covariances=True, means=means
        )
        means = None if of_users is None else of_users.row_means
        users = moved(self.by_user, items, state.users, user_population.expected, name="user", means=means)
        populations = user_population, item_population
        state = VariationalState(users, items, *populations, noise, state.passes + 1, of_users, of_items)
        columns = {} if self.pruning is None else {COLUMNS: float(users.shape.n_factors)}
        return state, {"bound": self.bound(state), NOISE: self.by_user.scale / sqrt(noise.mean), **columns}

    @property
    def n_ratings(self) -> int:
        return len(self.by_user.columns)

    def bound(self, state: VariationalState) -> float:
        """The bound L, in the original units of the ratings."""
        noise, n = state.noise, self.n_ratings
        fit = (n * (noise.mean_log - log(2 * pi)) - noise.mean * state.users.squares) / 2 - n * log(self.by_user.scale)
        for rows, population, coefficients in state.sides:
            entropy = (rows.moments.n * rows.shape.width * (1 + log(2 * pi)) - rows.log_determinant) / 2
            moments, expected = rows.moments, population.expected
            if coefficients is not None:
                moments = coefficients.residual_moments(rows)
                fit += coefficients.bound(expected)
            fit += expected.log_density(moments) + entropy - population.divergence
        return fit - noise.divergence


def _learned(
    rows: RowBeliefs, population: VariationalPopulation, coefficients: CoefficientBeliefs | None
) -> tuple[VariationalPopulation, CoefficientBeliefs | None]:
    """Population and coefficients of a side, given its rows."""
    if coefficients is None:
        return population.learned(rows.moments), None
    population = population.learned(coefficients.moments_for_population(rows))
    return population, coefficients.learned(rows, population.expected)


COLUMNS = "columns"
SETTLING_PASSES = 10  # passes before columns are dropped: least squares, the start, make all of them too narrow
# An unused column has lost most of its width after twenty passes, and is a hundredth of the smallest one in use after
# eighty (MovieLens 100K, 32 columns). In units of the threshold t (see priors/shrinkage.py).
VANISHED = 0.05

Populations = tuple[VariationalPopulation, VariationalPopulation]


@dataclass(frozen=True, eq=False)
class Pruning:
    """How columns are dropped during ascent."""

    min_variance: float  # theta of a column that stays
    populations: Callable[[int], Populations]  # the initial populations of users and items, given the number of columns

    def pruned(self, state: VariationalState) -> VariationalState:
        """The state without the columns that have vanished; one stays in any case."""
        variances, to_users, to_items = canonical(state)
        kept = max(1, int((variances > self.min_variance).sum()))
        if kept == len(variances):
            return state
        unit = np.sqrt(kept)  # items have the variance 1 / D by convention
        users, items = turned(state.users, unit * to_users[:kept]), turned(state.items, to_items[:kept] / unit)
        return VariationalState(users, items, *self.populations(kept), state.noise, state.passes)


def canonical(state: VariationalState) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
    """theta, largest first, and the maps of users and items to coordinates with covariances diag(theta) and I."""
    of_users, of_items = (
        np.linalg.inv(population.expected.precision) for population in (state.user_population, state.item_population)
    )
    root = np.linalg.cholesky(of_items)
    values, turn = np.linalg.eigh(root.T @ of_users @ root)
    turn = turn[:, ::-1]
    return values[::-1], turn.T @ root.T, np.linalg.solve(root.T, turn).T


def turned(rows: RowBeliefs, matrix: DoubleArray) -> RowBeliefs:
    """Beliefs about matrix x factors; biases stay. The factorized family loses covariances."""
    old, shape = rows.shape, replace(rows.shape, n_factors=len(matrix))
    whole = np.zeros((shape.width, old.width))
    whole[: len(matrix), : old.n_factors] = matrix
    if old.has_biases:
        whole[-1, -1] = 1.0
    records = np.empty((len(rows.records), shape.record), rows.records.dtype)
    for here in row_blocks(len(records)):
        apart = rows.records[here, : old.width].astype(np.float64)  # from the centre
        covariances = whole @ _covariances(rows, apart, here) @ whole.T
        stored = packed(covariances) if shape.family == "full" else np.diagonal(covariances, axis1=1, axis2=2)
        records[here] = records_of(shape, apart @ whole.T, stored).astype(records.dtype)
    records = contiguous(records, records.dtype)
    return RowBeliefs(shape, whole @ rows.centre, records, rows.log_determinant, rows.squares)


def _covariances(rows: RowBeliefs, apart: DoubleArray, here: slice) -> AnyFloats:
    """Covariances, n x width x width; in the factorized family records have the variances themselves."""
    shape, width = rows.shape, rows.shape.width
    second = rows.records[here, width : width + shape.covariance].astype(np.float64)
    matrices: NDArray[np.float64] = np.zeros((len(apart), width, width))
    if shape.family == "diagonal":
        matrices[:, np.arange(width), np.arange(width)] = second
        return matrices
    upper = np.triu_indices(width)
    matrices[:, upper[0], upper[1]] = second - apart[:, upper[0]] * apart[:, upper[1]]
    matrices[:, upper[1], upper[0]] = matrices[:, upper[0], upper[1]]
    return matrices


def last_stage(trace: list[Stats]) -> list[Stats]:
    """The passes after the last column was dropped: their bounds rise."""
    last = trace[-1][COLUMNS]
    return [stats for stats in trace if stats[COLUMNS] == last]
