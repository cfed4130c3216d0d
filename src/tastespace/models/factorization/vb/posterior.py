"""The posterior of variational Bayes: that of one draw of the items, which are uncertain themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.models.base.posterior import Inquiry
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.gibbs.information import most_informative
from tastespace.models.factorization.gibbs.item_draws import UserBeliefs
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior, by_block
from tastespace.models.factorization.likelihoods.kept_noise import Answers, ScoreDraws
from tastespace.models.factorization.likelihoods.uncertain_items import UncertainItems


@dataclass(frozen=True, eq=False)
class VariationalPosterior(DrawsPosterior):
    """What VB concluded: as one draw of the items, which are uncertain themselves.

    Users are recomputed from their ratings. A query drawn for a user meets the items where they are expected.
    """

    @property
    def uncertain(self) -> UncertainItems:
        noise = self.draws.noise
        assert isinstance(noise, UncertainItems)
        return noise

    @property
    def bounds(self) -> DoubleArray:
        """On the log evidence of the ratings, after each pass."""
        return self.uncertain.bounds

    @property
    def items_are_certain(self) -> bool:
        return False

    def _foreseen(self, belief: UserBeliefs, belief_rows: IntArray, item_rows: IntArray, threads: int) -> ScoreDraws:
        foreseen = super()._foreseen(belief, belief_rows, item_rows, threads)
        of_items = self._variance_of_items(belief, belief_rows, item_rows, threads)
        return replace(foreseen, sds=np.sqrt(foreseen.sds**2 + of_items[:, None]))

    def summary(
        self, belief: UserBeliefs, belief_rows: IntArray, item_rows: IntArray, threads: int
    ) -> tuple[FloatArray, FloatArray]:
        mean, sd = super().summary(belief, belief_rows, item_rows, threads)
        of_items = self._variance_of_items(belief, belief_rows, item_rows, threads)
        return mean, np.hypot(sd, np.float32(self.draws.scale) * np.sqrt(of_items))

    def _variance_of_items(
        self, belief: UserBeliefs, belief_rows: IntArray, item_rows: IntArray, threads: int
    ) -> FloatArray:
        """The part of the scores' variance that is not the users'."""
        variance = np.empty(len(belief_rows), np.float32)
        for some, pairs, inside in by_block(belief, belief_rows):
            users, places = np.unique(inside, return_inverse=True)
            roots = some.roots[users, 0]
            weights = self.uncertain.weights_of(some.means[users, 0], roots @ roots.transpose(0, 2, 1))
            items = contiguous(item_rows[pairs], np.int32)
            variance[pairs] = self.uncertain.variance_seen_by(weights, places.astype(np.int32), items, threads)
        return variance

    def item_points(self) -> ItemPoints:
        """Around the mean, also where ratings are not centred: what the usual user gives is the items' biases there."""
        points, stranger = super().item_points(), self.uncertain.stranger
        if stranger is None:
            return points
        scale, n_factors = self.draws.scale, self.draws.n_factors
        usual = np.sqrt(scale) * points.factors @ stranger.mean[:n_factors] + points.bias
        usual += scale * stranger.mean[n_factors:].sum()
        return ItemPoints(points.factors, usual - (self.units.usual - self.draws.offset))

    def draw_scores(
        self, belief: UserBeliefs, belief_row: int, n: int, rng: Generator, items: IntArray | None = None
    ) -> FloatMatrix:
        draws, uncertain = self.draws, self.uncertain
        _, vectors, biases = self._drawn(belief, belief_row, n, rng)
        meant = slice(None) if items is None else items
        expected = vectors @ uncertain.items[meant].T + biases[:, None]
        variance = uncertain.weights_of(vectors, None) @ uncertain.covariances[meant].T
        noise = rng.standard_normal(expected.shape, np.float32)
        scores = expected + np.sqrt(np.maximum(variance, 0)) * noise
        return np.asarray(draws.offset + draws.scale * scores, np.float32)

    def inquire(
        self,
        belief: UserBeliefs,
        belief_row: int,
        askable: IntArray,
        targets: IntArray,
        importance: DoubleArray,
        n: int,
    ) -> Inquiry:
        def answers(items: IntArray) -> Answers:
            """What is not known of an item is noise to an answer about it."""
            rows = np.full(len(items), belief_row, np.int32)
            of_items = self._variance_of_items(belief, rows, items, belief.threads).astype(np.float64)
            return Answers(1 / self.draws.alpha[0] + of_items[:, None], np.full((1, 1), self.draws.scale))

        (users, some), *_ = belief.blocks(np.array([belief_row]))
        row = belief_row - users.start
        return most_informative(self.draws, some, row, askable, targets, importance, n, answers)
