"""Variational Bayes for matrix factorization: every step raises a lower bound on the evidence.

    log p(ratings) >= E_Q[log p(ratings | x, alpha)] - KL(Q | p) =: L
    Q = prod Q(x_i) prod Q(x_j) Q(parameters) Q(alpha)

with x_i = (u_i, c_i) and x_j = (v_j, d_j) normal, of full covariance or with independent coordinates. One pass learns
the populations and the noise, then the items given the users, then the users given the items: these end where a
fold-in would put them. docs/design/vb.md has the derivations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt

import numpy as np
from numpy.random import Generator

from tastespace.arrays import AnyFloats
from tastespace.inference.drivers import ascend, never
from tastespace.inference.transition import Stats
from tastespace.models.base.resuming import Start
from tastespace.models.factorization.als.sweep import WEIGHTINGS, AlternatingLeastSquares, Penalty, Strengths
from tastespace.models.factorization.gibbs.sweep import START_SD, START_STRENGTH, START_SWEEPS
from tastespace.models.factorization.rows import Factors, Moments, RatingBlock
from tastespace.models.factorization.vb.populations import VariationalNoise, VariationalPopulation
from tastespace.models.factorization.vb.rows import RowBeliefs, moved_rows
from tastespace.progress import silent


@dataclass(frozen=True, eq=False)
class VariationalState:
    """All beliefs, in units of the ratings' standard deviation."""

    users: RowBeliefs
    items: RowBeliefs
    user_population: VariationalPopulation
    item_population: VariationalPopulation
    noise: VariationalNoise
    moments: tuple[Moments, Moments] | None = None  # of users and items; None before the first pass


@dataclass(frozen=True, eq=False)
class VariationalAscent:
    """The transition, bound to its ratings and where it starts."""

    by_user: RatingBlock
    by_item: RatingBlock
    start: VariationalState
    threads: int = 1

    def init(self, rng: Generator) -> VariationalState:
        return self.start

    def step(self, state: VariationalState, rng: Generator) -> tuple[VariationalState, Stats]:
        user_population, item_population, noise = state.user_population, state.item_population, state.noise
        if state.moments is not None:  # What the rows say of these, once there are beliefs about the rows.
            user_population = user_population.learned(state.moments[0])
            item_population = item_population.learned(state.moments[1])
            noise = noise.learned(self.n_ratings, state.users.squares)
        items = moved_rows(
            self.by_item,
            state.users,
            state.items,
            item_population.expected,
            noise.mean,
            name="item",
            keeps_covariances=True,
            threads=self.threads,
        )
        users = moved_rows(
            self.by_user,
            items,
            state.users,
            user_population.expected,
            noise.mean,
            name="user",
            threads=self.threads,
        )
        moments = users.moments(), items.moments()
        state = VariationalState(users, items, user_population, item_population, noise, moments)
        return state, {"bound": self.bound(state), "noise sd": self.by_user.scale / sqrt(noise.mean)}

    @property
    def n_ratings(self) -> int:
        return len(self.by_user.columns)

    def bound(self, state: VariationalState) -> float:
        """L, of the ratings as they are."""
        assert state.moments is not None
        noise, n = state.noise, self.n_ratings
        fit = (n * (noise.mean_log - log(2 * pi)) - noise.mean * state.users.squares) / 2 - n * log(self.by_user.scale)
        sides = (
            (state.users, state.user_population, state.moments[0]),
            (state.items, state.item_population, state.moments[1]),
        )
        for rows, population, moments in sides:
            entropy = (moments.n * rows.shape.width * (1 + log(2 * pi)) - rows.log_determinant) / 2
            fit += population.expected.log_density(moments) + entropy - population.divergence
        return fit - noise.divergence


def starting_points(
    by_user: RatingBlock,
    by_item: RatingBlock,
    n_factors: int,
    *,
    biases: bool,
    is_als: bool,
    given: Start | None = None,
    rng: Generator,
    threads: int,
) -> tuple[Factors, Factors]:
    """Users and items to begin with, about which there is no doubt yet.

    Small random factors without biases, a few sweeps of alternating least squares, or the items of another model with
    users where these put them.
    """
    if given is not None or is_als:
        penalty = Penalty(Strengths.tied(START_STRENGTH), WEIGHTINGS["blended"])
        squares = AlternatingLeastSquares.over(
            by_user, by_item, n_factors, penalty, biases=biases, start_sd=START_SD, threads=threads
        )
        if given is not None:
            start = squares.from_model(given, rng)
        else:
            start, _ = ascend(
                squares, squares.init(rng), rng, steps=START_SWEEPS, stop=never, phase="starting", observer=silent
            )
        return start.users, start.items
    users, items = (_random(side, n_factors, biases, rng) for side in (by_user, by_item))
    return users, items


def _random(side: RatingBlock, n_factors: int, biases: bool, rng: Generator) -> Factors:
    n, dtype = len(side.offsets) - 1, side.targets.dtype
    factors: AnyFloats = (START_SD * rng.standard_normal((n, n_factors))).astype(dtype)
    return Factors(factors, np.zeros(n, dtype) if biases else None)
