"""Bayesian matrix factorization by Gibbs sampling: one sweep for every pairing of likelihood and priors.

Each block is drawn from its distribution given all others (Salakhutdinov and Mnih 2008):

1. the hyper-parameters of users and items given their rows,
2. `inner_sweeps` times: all items given the users, all users given the items, the noise given the errors; before
   each, where the likelihood has them, latent responses given the scores.

A row's factors and bias are drawn together, with the other side's biases moved to the target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.inference.drivers import ascend
from tastespace.inference.samplers.hamiltonian import DualAveraging
from tastespace.inference.transition import ACTIVE, Stats
from tastespace.models.base.resuming import Start
from tastespace.models.factorization.als.sweep import WEIGHTINGS, ALSState, AlternatingLeastSquares, Penalty, Strengths
from tastespace.models.factorization.likelihoods.base import Likelihood, Noise, Observations
from tastespace.models.factorization.priors.normal_wishart import (
    FactorPrior,
    Population,
    on_sphere,
)
from tastespace.models.factorization.rows import NORMAL_ROWS, Factors, GivenRows, RatingBlock, RowMoves, require_finite

START_SD = 0.1
# A few sweeps of ALS bring the factors near; the sampler does the rest better than more of them.
START_SWEEPS = 15
START_STRENGTH = 0.03


@dataclass(frozen=True, eq=False)
class GibbsState:
    """One point of parameter space, in units of the ratings' standard deviation."""

    users: Factors
    items: Factors
    user_population: Population
    item_population: Population
    noise: Noise
    tuning: DualAveraging | None = None  # of moves that have something to be tuned

    @property
    def alpha(self) -> float:
        """The precision of the noise."""
        return self.noise.alpha


@dataclass(frozen=True, eq=False)
class GibbsSweep:
    """The transition, bound to a model and its ratings."""

    observed: Observations
    likelihood: Likelihood[Any]
    user_prior: FactorPrior
    item_prior: FactorPrior
    n_factors: int
    has_biases: bool
    inner_sweeps: int = 1
    starts_from_als: bool = True
    unit: float = 1.0  # of the figures: the scale of the ratings
    dtype: Any = np.float32
    threads: int = 1
    user_moves: RowMoves = NORMAL_ROWS
    item_moves: RowMoves = NORMAL_ROWS
    given: Start | None = None  # the items of another model, to begin from

    def init(self, rng: Generator) -> GibbsState:
        """From ALS, chance or given items; the first step draws the hyper-parameters that go with them."""
        if self.given is not None:
            start = self._from_items(self.given, rng)
        else:
            start = self._als(rng) if self.starts_from_als else self._random(rng)
        return GibbsState(
            users=start.users,
            items=start.items,
            user_population=self.user_prior.draw(start.users.moments, None, rng),
            item_population=self.item_prior.draw(start.items.moments, None, rng),
            noise=self.likelihood.init(self.observed),
        )

    def step(self, state: GibbsState, rng: Generator) -> tuple[GibbsState, Stats]:
        users, items, noise, likelihood = state.users, state.items, state.noise, self.likelihood
        require_finite("precision of the noise", noise.alpha)
        user_population = self.user_prior.draw(users.moments, state.user_population, rng)
        item_population = self.item_prior.draw(items.moments, state.item_population, rng)
        by_user, by_item = self.observed.by_user, self.observed.by_item
        squares, tuning = np.zeros(0), state.tuning
        of_moves: Stats = {}
        # The place of an effect (time): drawn here given the errors, its offsets taken from the ratings below. Their
        # blocks would carry times in the order of their columns.
        for _ in range(self.inner_sweeps):
            noise = likelihood.settle(self.observed, users, items, noise, rng, self.threads)
            responses = likelihood.augment("item", by_item, items, users, noise, rng, self.threads)
            given = GivenRows(responses, items, users, "item", self.threads)
            moved = self.item_moves.moved(given, item_population, tuning, rng)
            items, tuning, of_moves = moved.points, moved.tuning, moved.stats
            noise = likelihood.learn("item", by_item, moved.squares, noise, rng)
            responses = likelihood.augment("user", by_user, users, items, noise, rng, self.threads)
            given = GivenRows(responses, users, items, "user", self.threads)
            users, squares = self.user_moves.drawn(given, user_population, rng)
            noise = likelihood.learn("user", by_user, squares, noise, rng)
            require_finite("precision of the noise", noise.alpha)
        state = GibbsState(users, items, user_population, item_population, noise, tuning)
        return state, {**self._figures(state, squares), **of_moves}

    def log_joint(self, state: GibbsState, squares: DoubleArray | None) -> float:
        """Of everything; `squares` are the squared errors of the users at this state, if they are known."""
        return (
            self.likelihood.log_density(self.observed, state.users, state.items, squares, state.noise)
            + state.user_population.log_density(state.users.moments)
            + state.item_population.log_density(state.items.moments)
            + self.user_prior.log_density(state.user_population)
            + self.item_prior.log_density(state.item_population)
        )

    def _figures(self, state: GibbsState, squares: DoubleArray) -> Stats:
        """Quantities that mean the same in every chain: factors can be turned, these cannot."""
        users, items = state.user_population, state.item_population
        return {
            "log joint": self.log_joint(state, squares),
            **self.likelihood.figures(state.noise, self.unit),
            "taste sd": self.unit * taste_sd(users, items),
            "user effect sd": self.unit * effect_sd(users, items),
            "item effect sd": self.unit * effect_sd(items, users),
            **active_columns(self.user_prior, users),
            **active_columns(self.item_prior, items),
        }

    def _random(self, rng: Generator) -> ALSState:
        """Small factors, no biases."""

        def points(side: RatingBlock) -> Factors:
            n = len(side.offsets) - 1
            factors = (START_SD * rng.standard_normal((n, self.n_factors))).astype(self.dtype)
            return Factors(factors, np.zeros(n, self.dtype) if self.has_biases else None)

        users, items = points(self.observed.by_user), points(self.observed.by_item)
        return ALSState(users, items if self.item_moves.sphere is None else on_sphere(items, self.item_moves.sphere))

    def _from_items(self, given: Start, rng: Generator) -> ALSState:
        """Given items, in the unit of this sampler, and users where they put them."""
        factors = given.factors(self.n_factors, START_SD * sqrt(self.unit), rng) / sqrt(self.unit)
        bias = (given.points.bias / self.unit).astype(self.dtype) if self.has_biases else None
        items, sphere = Factors(factors.astype(self.dtype), bias), self.item_moves.sphere
        return self._ascent().from_items(items if sphere is None else on_sphere(items, sphere))

    def _als(self, rng: Generator) -> ALSState:
        return ascend(self._ascent(), None, rng, steps=START_SWEEPS)[0]

    def _ascent(self) -> AlternatingLeastSquares:
        """The least squares that a chain may start from."""
        sphere, strengths = self.item_moves.sphere, Strengths.tied(START_STRENGTH)
        if sphere is not None:  # where items are longer users are shorter
            strengths = replace(strengths, users=START_STRENGTH * sphere.radius**2)
        penalty = Penalty(strengths, WEIGHTINGS["blended"])
        by_user, by_item = (self.likelihood.start(side) for side in (self.observed.by_user, self.observed.by_item))
        return AlternatingLeastSquares(
            by_user, by_item, self.n_factors, penalty, self.has_biases, self.threads, START_SD, self.item_moves
        )


def active_columns(prior: FactorPrior, population: Population) -> Stats:
    """How many columns of a side are of use, where they are such as shrink."""
    return {} if prior.columns is None else {ACTIVE: float(prior.columns.active(population).sum())}


def taste_sd(users: Population, items: Population) -> float:
    """How far tastes move a rating: the standard deviation of (u - mean) . (v - mean) over the populations."""
    return sqrt(float(np.einsum("ij,ij->", np.linalg.inv(users.precision), np.linalg.inv(items.precision))))


def effect_sd(rows: Population, other: Population) -> float:
    """How far a row moves all its ratings: the standard deviation of its bias and its factors times the others' mean.

    The two can stand in for one another, so that only together they mean something.
    """
    of_factors = float(other.mean @ np.linalg.solve(rows.precision, other.mean))
    return sqrt(of_factors + (1 / rows.bias_precision if rows.bias_precision else 0.0))
