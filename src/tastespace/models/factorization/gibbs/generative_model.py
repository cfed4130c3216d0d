"""The generative model of Bayesian matrix factorization.

    score = c_i + d_j + u_i . v_j
    rating = g + scale * (score + noise),   noise ~ N(0, 1/alpha), or by another likelihood
    u_i, c_i: a row of the users' population, v_j, d_j: one of the items'
    populations and noise have priors of their own, and are learned

g and scale are constants: mean and standard deviation of the ratings where a model is fitted to numbers; 0 and 1 where
ratings are levels, and where a test draws ratings from the prior (constants that depend on the data would make it
another model).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, IntArray
from tastespace.data.ratings import Ratings
from tastespace.models.factorization.gibbs.sweep import GibbsState, GibbsSweep
from tastespace.models.factorization.likelihoods.base import Likelihood, Observations
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.models.factorization.priors.normal_wishart import FactorPrior, NormalWishartPrior
from tastespace.models.factorization.rows import NORMAL_ROWS, Factors, RowMoves


@dataclass(frozen=True)
class FactorModel:
    """The prior and likelihood of Bayesian matrix factorization."""

    n_factors: int
    has_biases: bool = True
    likelihood: Likelihood[Any] = Gaussian()
    user_prior: FactorPrior = NormalWishartPrior()
    item_prior: FactorPrior = NormalWishartPrior()
    offset: float = 0.0  # g
    scale: float = 1.0
    dtype: Any = np.float32
    user_moves: RowMoves = NORMAL_ROWS
    item_moves: RowMoves = NORMAL_ROWS
    settling: tuple[FactorPrior, FactorPrior] | None = None  # of users and items, while a chain settles

    def sample_prior(self, where: Ratings, rng: Generator) -> GibbsState:
        """Parameters for as many users and items as these ratings have."""
        user_population = self.user_prior.sample(self.n_factors, self.has_biases, rng)
        item_population = self.item_prior.sample(self.n_factors, self.has_biases, rng)
        users = user_population.draw_rows(where.n_users, self.dtype, rng)
        items = item_population.draw_rows(where.n_items, self.dtype, rng)
        noise = self.likelihood.sample(where.n_users, where.n_items, rng)
        return GibbsState(users, items, user_population, item_population, noise)

    def simulate(self, params: GibbsState, where: Ratings, rng: Generator) -> Ratings:
        """Ratings of the same pairs."""
        score = scores(params, where.user_rows, where.item_rows)
        simulated = self.likelihood.simulate(score, where, params.noise, rng)
        return replace(where, values=(self.offset + self.scale * simulated).astype(np.float32))

    def log_joint(self, params: GibbsState, observed: Ratings) -> float:
        """Log density of parameters and ratings, the latter in units of `scale`."""
        ratings = Observations.of(observed, self.dtype, self.offset, self.scale)
        return GibbsSweep(self, ratings).log_joint(params, None)

    def expected_value(self, params: GibbsState, user_rows: IntArray, item_rows: IntArray) -> DoubleArray:
        """The mean rating of each pair."""
        expected = self.likelihood.expected(scores(params, user_rows, item_rows), params.noise)
        return np.asarray(self.offset + self.scale * expected)


def scores(params: GibbsState, user_rows: IntArray, item_rows: IntArray) -> DoubleArray:
    """c_i + d_j + u_i . v_j of each pair, in double."""

    def of(points: Factors, rows: IntArray) -> tuple[DoubleArray, DoubleArray]:
        factors = points.factors[rows].astype(np.float64)
        return factors, np.zeros(len(rows)) if points.bias is None else points.bias[rows].astype(np.float64)

    (users, user_bias), (items, item_bias) = of(params.users, user_rows), of(params.items, item_rows)
    total: DoubleArray = user_bias + item_bias + np.einsum("nd,nd->n", users, items)
    return total
