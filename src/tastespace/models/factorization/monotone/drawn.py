"""Ratings on curves, predicted by draws: curves as for a point estimate, then empirical Bayes on the curves' values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.compressed import Compressed
from tastespace.inference.trace import Trace
from tastespace.models.factorization.beliefs import UserBeliefs
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, Learning
from tastespace.models.factorization.monotone.curves import inverted, values_at
from tastespace.models.factorization.monotone.posterior import CurveBelief, MonotonePosterior
from tastespace.models.starting import ItemPoints

PREFIX = "drawn_"  # of the arrays of the draws, beside those of the point estimate that the curves are of


@dataclass(frozen=True, eq=False)
class DrawnCurveBelief(CurveBelief):
    """The same, and what the draws believe of each user."""

    drawn: UserBeliefs


@dataclass(frozen=True, eq=False)
class DrawnMonotonePosterior(MonotonePosterior):
    """Whose curve is which follows from the point estimate; scores are means over draws of what is on the curves.

    A rating is the inverse of the curve at the mean score, not the mean of inverses: within a user it has the order of
    the scores, as lists and indexes need it.
    """

    drawn: EmpiricalPosterior  # in units of the curves

    @property
    def trace(self) -> Trace | None:
        return self.drawn.trace

    @property
    def learning(self) -> Learning:
        return self.drawn.learning

    def remembering(self, ratings: Compressed) -> DrawnMonotonePosterior:
        """With the training ratings at hand, as they are on their users' curves."""
        if not len(ratings.columns):
            return replace(self, drawn=self.drawn.remembering(ratings))
        curves = self.table.curves[self.table.of_user]
        return replace(self, drawn=self.drawn.remembering(self._on(curves, ratings)))

    @property
    def remembers(self) -> bool:
        return self.drawn.remembers

    def known(self, user_rows: IntArray, threads: int = 1) -> DrawnCurveBelief:
        return _with(super().known(user_rows, threads), self.drawn.known(user_rows, threads))

    def fold_in(self, history: Compressed, threads: int) -> DrawnCurveBelief:
        belief = super().fold_in(history, threads)
        return _with(belief, self.drawn.fold_in(self._on(belief.curves, history), threads))

    def choose(self, which: BoolArray, one: CurveBelief, other: CurveBelief) -> DrawnCurveBelief:
        drawn = self.drawn.choose(which, _drawn_of(one), _drawn_of(other))
        return _with(super().choose(which, one, other), drawn)

    def predict(self, belief: CurveBelief, belief_rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        scores = self.drawn.predict(_drawn_of(belief), belief_rows, item_rows, threads)
        return inverted(belief.curves, belief.ratings, belief_rows, scores).astype(np.float32)

    def query_vectors(self, belief: CurveBelief) -> FloatMatrix:
        return self.drawn.query_vectors(_drawn_of(belief))

    def item_vectors(self) -> FloatMatrix:
        return self.drawn.item_vectors()

    def offsets(self, belief: CurveBelief) -> FloatArray:
        return self.drawn.offsets(_drawn_of(belief))

    def item_points(self) -> ItemPoints:
        return self.drawn.item_points()

    def item_places(self) -> FloatMatrix:
        return self.drawn.item_places()

    def user_places(self, belief: CurveBelief) -> FloatMatrix:
        return self.drawn.user_places(_drawn_of(belief))

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {**super().arrays(), **{PREFIX + name: array for name, array in self.drawn.arrays().items()}}

    def _on(self, curves: Any, ratings: Compressed) -> Compressed:
        """Ratings as they are on curves, one a row."""
        values = values_at(curves, ratings.rows(), self.table.scale.places(ratings.values))
        return Compressed(ratings.offsets, ratings.columns, contiguous(values, np.float32))


class CurvePosterior:
    """Reads back what was saved of either kind."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> MonotonePosterior:
        point = MonotonePosterior.from_arrays(arrays)
        drawn = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        if not drawn:
            return point
        return DrawnMonotonePosterior(point.plain, point.table, EmpiricalPosterior.from_arrays(drawn))


def _with(belief: CurveBelief, drawn: UserBeliefs) -> DrawnCurveBelief:
    return DrawnCurveBelief(belief.points, belief.curves, belief.ratings, belief.table_rows, drawn)


def _drawn_of(belief: CurveBelief) -> UserBeliefs:
    assert isinstance(belief, DrawnCurveBelief)
    return belief.drawn
