"""Bayesian matrix factorization by Gibbs sampling: one sweep for every pairing of likelihood and priors.

Each block is drawn from its distribution given all others (Salakhutdinov and Mnih 2008):

1. the hyper-parameters of users and items given their rows,
2. `inner_sweeps` times: all items given the users, all users given the items, the noise given the errors; before each,
   if the likelihood has them, latent responses given the scores.

A row's factors and bias are drawn together, with the other side's biases moved to the target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, contiguous
from tastespace.inference.drivers import ascend
from tastespace.inference.samplers.hamiltonian import DualAveraging
from tastespace.inference.transition import ACTIVE, Stats
from tastespace.models.base.resuming import Start
from tastespace.models.factorization.als.sweep import WEIGHTINGS, ALSState, AlternatingLeastSquares, Penalty, Strengths
from tastespace.models.factorization.likelihoods.base import Noise, Observations
from tastespace.models.factorization.priors.features import FeaturePopulation, FeaturePrior
from tastespace.models.factorization.priors.normal_wishart import FactorPrior, Population, on_sphere
from tastespace.models.factorization.rows import Axis, Factors, GivenRows, RatingBlock, require_finite

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.generative_model import FactorModel

START_SD = 0.1
# A few sweeps of ALS bring the factors close; then the sampler is better than more of them.
START_SWEEPS = 15
START_STRENGTH = 0.03
# On MovieLens 100K directions that matter have their width after 10 sweeps, and the others have lost theirs
# after 20 (32 factors; docs/explanation/models/rank-by-shrinkage.md).
SETTLING_SWEEPS = 20
MIN_SHARE = 1e-6  # of the mean variance of a column: a direction without any factors has none


@dataclass(frozen=True, eq=False)
class GibbsState:
    """One point of parameter space, in units of the ratings' standard deviation."""

    users: Factors
    items: Factors
    user_population: Population
    item_population: Population
    noise: Noise
    tuning: DualAveraging | None = None  # tuning parameters of moves


@dataclass(frozen=True, eq=False)
class GibbsSweep:
    """The transition, bound to a model and its ratings."""

    model: FactorModel
    observed: Observations
    inner_sweeps: int = 1
    starts_from_als: bool = True
    given: Start | None = None  # the items of another model, to start from
    threads: int = 1

    def init(self, rng: Generator) -> GibbsState:
        """Start from ALS, at random or from given items; the first step draws the hyper-parameters."""
        if self.model.settling is not None:
            return self._settled(*self.model.settling, rng)
        if self.given is not None:
            start = self._from_items(self.given, rng)
        else:
            start = self._als(rng) if self.starts_from_als else self._random(rng)
        return self.at(start.users, start.items, self.model.likelihood.init(self.observed), rng)

    def at(
        self, users: Factors, items: Factors, noise: Noise, rng: Generator, tuning: DualAveraging | None = None
    ) -> GibbsState:
        """The state with these rows, and populations drawn given them."""
        of_users = self.model.user_prior.draw(users, None, rng)
        return GibbsState(users, items, of_users, self.model.item_prior.draw(items, None, rng), noise, tuning)

    def step(self, state: GibbsState, rng: Generator) -> tuple[GibbsState, Stats]:
        users, items, noise, model, threads = state.users, state.items, state.noise, self.model, self.threads
        likelihood, by_item = model.likelihood, self.observed.by_item
        require_finite("precision of the noise", noise.alpha)
        user_population = model.user_prior.draw(users, state.user_population, rng)
        item_population = model.item_prior.draw(items, state.item_population, rng)
        squares, tuning = np.zeros(0), state.tuning
        of_moves: Stats = {}
        # An effect (time) would be drawn here given the errors. Its offsets would be subtracted from the ratings below,
        # before these are augmented; their blocks would carry times in the order of their columns.
        for _ in range(self.inner_sweeps):
            noise = likelihood.settle(self._users(users, items), noise, rng)
            given = likelihood.augment(GivenRows("item", by_item, items, users, threads), noise, rng)
            moved = model.item_moves.moved(given, item_population, tuning, rng)
            items, tuning, of_moves = moved.points, moved.tuning, moved.stats
            noise = likelihood.learn(given, moved.squares, noise, rng)
            given = likelihood.augment(self._users(users, items), noise, rng)
            users, squares = model.user_moves.drawn(given, user_population, rng)
            noise = likelihood.learn(given, squares, noise, rng)
            require_finite("precision of the noise", noise.alpha)
        state = GibbsState(users, items, user_population, item_population, noise, tuning)
        return state, {**self._figures(state, squares), **of_moves}

    def _users(self, users: Factors, items: Factors) -> GivenRows:
        return GivenRows("user", self.observed.by_user, users, items, self.threads)

    def log_joint(self, state: GibbsState, squares: DoubleArray | None) -> float:
        """The log joint density; `squares` are the squared errors of the users at this state, if they are known."""
        return (
            self.model.likelihood.log_density(self._users(state.users, state.items), squares, state.noise)
            + state.user_population.log_density(state.users)
            + state.item_population.log_density(state.items)
            + self.model.user_prior.log_density(state.user_population)
            + self.model.item_prior.log_density(state.item_population)
        )

    def _figures(self, state: GibbsState, squares: DoubleArray) -> Stats:
        """Quantities that are identified: factors can be rotated, these do not change."""
        users, items, model, unit = state.user_population, state.item_population, self.model, self.model.scale
        return {
            "log joint": self.log_joint(state, squares),
            **model.likelihood.figures(state.noise, unit),
            "taste sd": unit * taste_sd(users, items),
            "user effect sd": unit * effect_sd(users, items),
            "item effect sd": unit * effect_sd(items, users),
            **active_columns(model.user_prior, users),
            **active_columns(model.item_prior, items),
            **group_precisions("user", model.user_prior, users),
            **group_precisions("item", model.item_prior, items),
        }

    def _random(self, rng: Generator) -> ALSState:
        """Start with small random factors and no biases."""
        model = self.model

        def points(side: RatingBlock) -> Factors:
            n = side.n_rows
            factors = (START_SD * rng.standard_normal((n, model.n_factors))).astype(model.dtype)
            return Factors(factors, np.zeros(n, model.dtype) if model.has_biases else None)

        users, items = points(self.observed.by_user), points(self.observed.by_item)
        return ALSState(users, on_sphere(items, model.item_moves.sphere))

    def _from_items(self, given: Start, rng: Generator) -> ALSState:
        """Start with given items, in units of this sampler, and users fitted to them."""
        model, unit = self.model, self.model.scale
        factors = given.factors(model.n_factors, START_SD * sqrt(unit), rng) / sqrt(unit)
        bias = (given.points.bias / unit).astype(model.dtype) if model.has_biases else None
        items = Factors(factors.astype(model.dtype), bias)
        return self._ascent().from_items(on_sphere(items, model.item_moves.sphere))

    def _als(self, rng: Generator) -> ALSState:
        return ascend(self._ascent(), None, rng, steps=START_SWEEPS)[0]

    def _ascent(self) -> AlternatingLeastSquares:
        """The least squares that a chain may start from."""
        model, sphere, strengths = self.model, self.model.item_moves.sphere, Strengths.tied(START_STRENGTH)
        if sphere is not None:  # if items are longer, users are shorter
            strengths = replace(strengths, users=START_STRENGTH * sphere.radius**2)
        penalty = Penalty(strengths, WEIGHTINGS["blended"])
        by_user, by_item = (model.likelihood.start(side) for side in (self.observed.by_user, self.observed.by_item))
        return AlternatingLeastSquares(
            by_user, by_item, model.n_factors, penalty, model.has_biases, self.threads, START_SD, model.item_moves
        )

    def _settled(self, of_users: FactorPrior, of_items: FactorPrior, rng: Generator) -> GibbsState:
        """Start for shrinking columns: factors that the ratings support, rotated to uncorrelated columns.

        Least squares shrink all tastes, and useful columns would be dropped. A few sweeps with populations of any
        covariance find their widths; then the factors are rotated so that their columns are uncorrelated.
        """
        first = replace(self.model, user_prior=of_users, item_prior=of_items, settling=None)
        state, _ = ascend(replace(self, model=first), None, rng, steps=SETTLING_SWEEPS)
        shrinks_users = self.model.user_prior.columns is not None
        users, items = in_columns(state.users, state.items, shrinks_users=shrinks_users)
        return self.at(users, items, state.noise, rng, state.tuning)


def in_columns(users: Factors, items: Factors, *, shrinks_users: bool) -> tuple[Factors, Factors]:
    """Uncorrelated columns, the widest first: the coordinates in which priors shrink columns.

    No score changes: u goes to A u and v to A^-T v. A chain that starts there need not rotate first, which is slow.

    Users are isotropic if the items' columns shrink. If those of the users do, items are on a sphere, and may be
    rotated but not scaled.
    """
    if shrinks_users:
        turn = _widest_first(_scatter(users))
        return _times(users, turn), _times(items, turn)
    n, gram = users.moments.n, users.moments.gram
    # One row more, so that a single user has a variance, too.
    root = np.linalg.cholesky(_positive((_scatter(users) + gram / n) / n))
    turn = _widest_first(root.T @ _scatter(items) @ root)
    return _times(users, np.linalg.solve(root.T, turn)), _times(items, root @ turn)


def _scatter(points: Factors) -> DoubleArray:
    """The scatter matrix around the mean."""
    rows = points.moments
    return np.asarray(rows.gram - np.outer(rows.total, rows.total) / rows.n)


def _widest_first(gram: DoubleArray) -> DoubleArray:
    """The rotation to the principal axes."""
    return np.asarray(np.linalg.eigh(gram)[1][:, ::-1])


def _positive(gram: DoubleArray) -> DoubleArray:
    least = max(MIN_SHARE * float(np.trace(gram)) / len(gram), np.finfo(np.float64).tiny ** 0.5)
    return np.asarray(gram + least * np.eye(len(gram)))


def _times(points: Factors, matrix: DoubleArray) -> Factors:
    return Factors(contiguous(points.factors.astype(np.float64) @ matrix, points.factors.dtype), points.bias)


def group_precisions(axis: Axis, prior: FactorPrior, population: Population) -> Stats:
    """The log precision of each group of features of a side, if its rows have features."""
    if not isinstance(prior, FeaturePrior) or not isinstance(population, FeaturePopulation):
        return {}
    logs = np.log(population.group_precisions).tolist()
    return {f"log precision of {axis} {group.name}": log for group, log in zip(prior.design.groups, logs, strict=True)}


def active_columns(prior: FactorPrior, population: Population) -> Stats:
    """The number of columns in use of a side, if its prior shrinks columns."""
    return {} if prior.columns is None else {ACTIVE: float(prior.columns.active(population).sum())}


def taste_sd(users: Population, items: Population) -> float:
    """The effect of tastes on a rating: the standard deviation of (u - mean) . (v - mean) over the populations."""
    return sqrt(float(np.einsum("ij,ij->", np.linalg.inv(users.precision), np.linalg.inv(items.precision))))


def effect_sd(rows: Population, other: Population) -> float:
    """The effect of a row on all its ratings: the sd of its bias plus its factors times the others' mean.

    The two can replace one another, so that only their sum is identified.
    """
    of_factors = float(other.mean @ np.linalg.solve(rows.precision, other.mean))
    return sqrt(of_factors + (1 / rows.bias_precision if rows.bias_precision else 0.0))
