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

from numpy.random import Generator

from tastespace.inference.transition import Stats
from tastespace.models.factorization.rows import Moments, Side
from tastespace.models.factorization.variational.populations import VariationalNoise, VariationalPopulation
from tastespace.models.factorization.variational.rows import RowBeliefs, moved_rows


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

    by_user: Side
    by_item: Side
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
