"""Noise that differs: some people rate at random, some items divide opinion.

    r ~ N(score, 1 / (alpha a_i b_j)),   a_i ~ Gamma(k, k),   b_j ~ Gamma(l, l)

a_i and b_j are 1 on average; how far they spread, k and l, is learned on a grid (log-uniform). Squared errors weighted
with the other side's precisions come with the draw of each side's rows, so that the noise costs no further pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi, sqrt
from typing import Self

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from tastespace.arrays import AnyFloats, DoubleArray, IntArray
from tastespace.distributions.normal_gamma import Gamma
from tastespace.inference.transition import Stats
from tastespace.models.factorization.likelihoods.base import (
    FIRST_PRECISION,
    Axis,
    Noise,
    Observations,
    Responses,
    squared_errors,
)
from tastespace.models.factorization.rows import Factors, RatingBlock

# From everybody his own (half of the precisions beyond a factor of 5) to all alike (within 10 %).
CONCENTRATIONS = np.geomspace(0.5, 100.0, 60)
FIRST_CONCENTRATION = 10.0


@dataclass(frozen=True, eq=False)
class UnevenPrecision(Noise):
    """alpha, and the factors of users and items."""

    users: AnyFloats  # a, one a user
    items: AnyFloats  # b, one an item
    user_concentration: float  # k
    item_concentration: float  # l

    def lean(self) -> Self:
        return replace(self, users=self.users.astype(np.float32), items=self.items.astype(np.float32))


@dataclass(frozen=True)
class UnevenNoise:
    """The likelihood; alpha has a Gamma prior or is fixed."""

    precision: Gamma | float = Gamma(1.0, 1.0)

    def first(self, observed: Observations) -> UnevenPrecision:
        alpha = FIRST_PRECISION if isinstance(self.precision, Gamma) else self.precision
        users, items = (np.ones(len(side.offsets) - 1) for side in (observed.by_user, observed.by_item))
        return UnevenPrecision(alpha, users, items, FIRST_CONCENTRATION, FIRST_CONCENTRATION)

    def starting(self, side: RatingBlock) -> RatingBlock:
        return side

    def sample(self, n_users: int, n_items: int, rng: Generator) -> UnevenPrecision:
        alpha = self.precision.draw(rng) if isinstance(self.precision, Gamma) else self.precision
        of_users, of_items = (float(rng.choice(CONCENTRATIONS)) for _ in range(2))
        users, items = rng.gamma(of_users, size=n_users) / of_users, rng.gamma(of_items, size=n_items) / of_items
        return UnevenPrecision(alpha, users, items, of_users, of_items)

    def settle(
        self, observed: Observations, users: Factors, items: Factors, noise: Noise, rng: Generator, threads: int
    ) -> UnevenPrecision:
        """The spreads, and how alpha shares with the factors, which the errors do not tell."""
        noise = _uneven(noise)
        noise = replace(
            noise,
            user_concentration=draw_concentration(noise.users, rng),
            item_concentration=draw_concentration(noise.items, rng),
        )
        if not isinstance(self.precision, Gamma):
            return noise
        factor = share(self.precision, noise.alpha, noise.users, noise.user_concentration, rng)
        noise = replace(noise, alpha=noise.alpha * factor, users=noise.users / factor)
        factor = share(self.precision, noise.alpha, noise.items, noise.item_concentration, rng)
        return replace(noise, alpha=noise.alpha * factor, items=noise.items / factor)

    def responses(
        self, axis: Axis, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Responses:
        noise, dtype = _uneven(noise), other.factors.dtype
        own, others = (noise.users, noise.items) if axis == "user" else (noise.items, noise.users)
        return Responses(replace(side, column_weights=others.astype(dtype)), noise.alpha, own.astype(dtype))

    def learn(
        self, axis: Axis, side: RatingBlock, squares: DoubleArray, noise: Noise, rng: Generator
    ) -> UnevenPrecision:
        noise = _uneven(noise)
        counts = np.diff(side.offsets)
        if axis == "item":
            return replace(noise, items=draw_precisions(noise.item_concentration, counts, noise.alpha * squares, rng))
        users = draw_precisions(noise.user_concentration, counts, noise.alpha * squares, rng)
        if not isinstance(self.precision, Gamma):
            return replace(noise, users=users)
        alpha = self.precision.posterior(len(side.columns), float(np.sum(users * squares))).draw(rng)
        return replace(noise, users=users, alpha=alpha)

    def simulate(
        self, scores: DoubleArray, user_rows: IntArray, item_rows: IntArray, noise: Noise, rng: Generator
    ) -> DoubleArray:
        noise = _uneven(noise)
        precision = noise.alpha * noise.users[user_rows] * noise.items[item_rows]
        return np.asarray(scores + rng.standard_normal(len(scores)) / np.sqrt(precision))

    def expected(self, scores: AnyFloats, noise: Noise) -> AnyFloats:
        return scores

    def log_density(
        self, observed: Observations, users: Factors, items: Factors, squares: DoubleArray | None, noise: Noise
    ) -> float:
        noise, by_user = _uneven(noise), observed.by_user
        if squares is None:
            squares = squared_errors(replace(by_user, column_weights=noise.items), users, items)
        n_rated, n_raters = np.diff(by_user.offsets), np.diff(observed.by_item.offsets)
        # Sums, not products of matrices: those depend on the threads of their library.
        normal = len(observed) * log(noise.alpha / (2 * pi)) + float(np.sum(n_rated * np.log(noise.users)))
        normal += float(np.sum(n_raters * np.log(noise.items))) - noise.alpha * float(np.sum(noise.users * squares))
        prior = self.precision.log_density(noise.alpha) if isinstance(self.precision, Gamma) else 0.0
        prior += log_density_of(noise.users, noise.user_concentration)
        return prior + log_density_of(noise.items, noise.item_concentration) + normal / 2

    def figures(self, noise: Noise, unit: float) -> Stats:
        noise = _uneven(noise)
        return {
            "noise sd": unit / sqrt(noise.alpha),
            "user noise spread": 1 / sqrt(noise.user_concentration),
            "item noise spread": 1 / sqrt(noise.item_concentration),
        }


def draw_precisions(concentration: float, counts: DoubleArray, squares: DoubleArray, rng: Generator) -> DoubleArray:
    """Factors of rows given their squared errors in units of alpha: Gamma(k + n/2, k + squares/2)."""
    return np.asarray(rng.gamma(concentration + counts / 2) / (concentration + squares / 2))


def draw_concentration(factors: AnyFloats, rng: Generator) -> float:
    """How far the factors of a side spread, given them: one point of the grid."""
    k = CONCENTRATIONS
    log_weights = len(factors) * (k * np.log(k) - gammaln(k)) + k * float(np.log(factors).sum() - factors.sum())
    weights = np.exp(log_weights - log_weights.max())
    edges = np.cumsum(weights)
    return float(k[min(int(np.searchsorted(edges, rng.random() * edges[-1], side="right")), len(k) - 1)])


def share(precision: Gamma, alpha: float, factors: AnyFloats, concentration: float, rng: Generator) -> float:
    """A factor c for alpha c and factors / c, which leaves all precisions as they are: 1, or a new one.

    Without it, alpha and n factors given one another would take some n steps to move together. The density of c along
    that line is c^(a - 1 - n k) exp(-b alpha c - k sum / c): proposed without the middle term, which hardly matters,
    and accepted for it (a, b: shape and rate of alpha's prior).
    """
    shape = len(factors) * concentration - precision.shape
    if shape <= 0:
        return 1.0
    proposed = concentration * float(factors.sum()) / float(rng.gamma(shape))
    accepted = log(max(rng.random(), 1e-300)) < -precision.rate * alpha * (proposed - 1)
    return proposed if accepted else 1.0


def log_density_of(factors: AnyFloats, concentration: float) -> float:
    """Of all factors of a side; the grid of concentrations is uniform."""
    k = concentration
    constant = len(factors) * (k * log(k) - float(gammaln(k)))
    return constant + float(((k - 1) * np.log(factors) - k * factors).sum())


def _uneven(noise: Noise) -> UnevenPrecision:
    assert isinstance(noise, UnevenPrecision)
    return noise
