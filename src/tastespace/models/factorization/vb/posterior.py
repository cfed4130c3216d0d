"""The posterior of variational Bayes: that of one draw of the items, which are uncertain themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.models.base.posterior import Pairs, People
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.gibbs.posterior import DrawsBelief, DrawsPosterior
from tastespace.models.factorization.likelihoods.base import Answers, ScoreDraws
from tastespace.models.factorization.vb.uncertain_items import UncertainItems
from tastespace.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class VariationalPosterior(DrawsPosterior):
    """What VB concluded: as one draw of the items, which are uncertain themselves.

    Users are recomputed from their ratings. A query drawn for a user meets the items where they are expected.
    """

    @property
    def uncertain(self) -> UncertainItems:
        likelihood = self.draws.likelihood
        assert isinstance(likelihood, UncertainItems)
        return likelihood

    @property
    def bounds(self) -> DoubleArray:
        """On the log evidence of the ratings, after each pass."""
        return self.uncertain.bounds

    @property
    def items_are_certain(self) -> bool:
        return False

    def believe(self, people: People, threads: int) -> VariationalBelief:
        return VariationalBelief(self, people.history, threads, self.seen_of(people))

    def item_points(self) -> ItemPoints:
        """Around the mean, also where ratings are not centred: what the usual user gives is the items' biases there."""
        points, stranger = super().item_points(), self.uncertain.stranger
        if stranger is None:
            return points
        scale, n_factors = self.draws.scale, self.draws.n_factors
        usual = np.sqrt(scale) * points.factors @ stranger.mean[:n_factors] + points.bias
        usual += scale * stranger.mean[n_factors:].sum()
        return ItemPoints(points.factors, usual - (self.units.usual - self.draws.offset))


@dataclass(eq=False)
class VariationalBelief(DrawsBelief):
    """Users given the items as they are expected; what is not known of the items is added."""

    posterior: VariationalPosterior

    def score_draws(self, pairs: Pairs) -> ScoreDraws:
        expected = super().score_draws(pairs)
        return replace(expected, sds=np.sqrt(expected.sds**2 + self._variance_of_items(pairs)[:, None]))

    def summary(self, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
        mean, sd = super().summary(pairs)
        return mean, np.hypot(sd, np.float32(self.posterior.draws.scale) * np.sqrt(self._variance_of_items(pairs)))

    def _variance_of_items(self, pairs: Pairs) -> FloatArray:
        """The part of the scores' variance that is not the users'."""
        variance, uncertain = np.empty(len(pairs.rows), np.float32), self.posterior.uncertain
        for some, which, inside in self.blocks(pairs.rows):
            users, places = np.unique(inside, return_inverse=True)
            roots = some.roots[users, 0]
            weights = uncertain.weights_of(some.means[users, 0], roots @ roots.transpose(0, 2, 1))
            items = contiguous(pairs.items[which], np.int32)
            variance[which] = uncertain.variance_seen_by(weights, places.astype(np.int32), items, self.threads)
        return variance

    def draw_scores(self, row: int, n: int, rng: Generator, items: IntArray | None = None) -> FloatMatrix:
        draws, uncertain = self.posterior.draws, self.posterior.uncertain
        _, vectors, biases = self.draw_users(row, n, rng)
        meant = slice(None) if items is None else items
        with one_blas_thread():
            expected = vectors @ uncertain.items[meant].T + biases[:, None]
            variance = uncertain.weights_of(vectors, None) @ uncertain.covariances[meant].T
        noise = rng.standard_normal(expected.shape, np.float32)
        scores = expected + np.sqrt(np.maximum(variance, 0)) * noise
        return np.asarray(draws.offset + draws.scale * scores, np.float32)

    def inquiry_answers(self, row: int, items: IntArray) -> Answers:
        """What is not known of an item is noise to an answer about it."""
        of_items = self._variance_of_items(Pairs.of_one(row, items)).astype(np.float64)
        draws = self.posterior.draws
        return Answers(1 / draws.alpha[0] + of_items[:, None], np.full((1, 1), draws.scale))
