"""Yes (1) and no (0): a chance that grows with the score.

    P(1) = Phi(offset + score)                       probit
    P(1) = 1 / (1 + exp(-(offset + score)))          logistic

The offset is a constant: where the average rating would put a score. Latent variables make both normal: a response
that is positive for yes (Albert and Chib 1993), or a weight (Polya-Gamma: Polson, Scott and Windle 2013).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import expit, log_expit, log_ndtr, ndtr

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, IntArray
from tastespace.inference.transition import Stats
from tastespace.models.factorization.likelihoods.base import Axis, Noise, Observations, Responses
from tastespace.models.factorization.likelihoods.ordinal import latent, standardised
from tastespace.models.factorization.rows import Factors, RatingBlock, row_scores

EDGE, CUT = np.array([0.5]), np.zeros(1)  # what tells yes from no, and where the latent response does


@dataclass(frozen=True)
class YesNo(ABC):
    """What both links share: there is nothing to learn but the scores."""

    offset: float = 0.0

    @abstractmethod
    def responses(
        self, axis: Axis, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Responses:
        """Latent responses, or weights, given the scores."""

    @abstractmethod
    def chance(self, scores: AnyFloats) -> AnyFloats:
        """Of yes."""

    @abstractmethod
    def log_chance(self, scores: DoubleArray) -> DoubleArray:
        """Of yes; that of no is the one of the negative score."""

    def first(self, observed: Observations) -> Noise:
        return Noise(1.0)

    def starting(self, side: RatingBlock) -> RatingBlock:
        return standardised(side)

    def sample(self, n_users: int, n_items: int, rng: Generator) -> Noise:
        return Noise(1.0)

    def settle(
        self, observed: Observations, users: Factors, items: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Noise:
        return noise

    def learn(self, axis: Axis, side: RatingBlock, squares: DoubleArray, noise: Noise, rng: Generator) -> Noise:
        return noise

    def simulate(
        self, scores: DoubleArray, user_rows: IntArray, item_rows: IntArray, noise: Noise, rng: Generator
    ) -> DoubleArray:
        return np.asarray(rng.random(len(scores)) < self.expected(scores, noise), np.float64)

    def expected(self, scores: AnyFloats, noise: Noise) -> AnyFloats:
        return self.chance(self.offset + scores)

    def log_density(
        self, observed: Observations, users: Factors, items: Factors, squares: DoubleArray | None, noise: Noise
    ) -> float:
        side = observed.by_user
        scores = row_scores(side, users, items, self.offset).astype(np.float64)
        return float(self.log_chance(np.where(side.targets > EDGE, scores, -scores)).sum())

    def figures(self, noise: Noise, unit: float) -> Stats:
        return {}


@dataclass(frozen=True)
class Probit(YesNo):
    """The normal distribution function as link."""

    def responses(
        self, axis: Axis, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Responses:
        return Responses(latent(side, rows, other, EDGE, CUT, self.offset, rng, threads), 1.0)

    def chance(self, scores: AnyFloats) -> AnyFloats:
        return np.asarray(ndtr(scores))

    def log_chance(self, scores: DoubleArray) -> DoubleArray:
        return np.asarray(log_ndtr(scores))


@dataclass(frozen=True)
class Logistic(YesNo):
    """The logistic function as link: given w ~ PG(1, score), (r - 1/2) / w is normal with precision w."""

    def responses(
        self, axis: Axis, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Responses:
        weights = row_scores(side, rows, other, self.offset, threads)
        _native.draw_polya_gamma(weights, int(rng.integers(1 << 63)), weights, threads)
        targets = (side.targets - weights.dtype.type(0.5)) / weights
        return Responses(RatingBlock(side.offsets, side.columns, targets, weights=weights, offset=self.offset), 1.0)

    def chance(self, scores: AnyFloats) -> AnyFloats:
        return np.asarray(expit(scores))

    def log_chance(self, scores: DoubleArray) -> DoubleArray:
        return np.asarray(log_expit(scores))
