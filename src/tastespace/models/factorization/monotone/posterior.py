"""A point estimate on curves: ratings follow from scores through the inverse of each user's curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.inference.trace import Trace
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.als.posterior import PointPosterior
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, Learning
from tastespace.models.factorization.gibbs.item_draws import UserBeliefs
from tastespace.models.factorization.monotone.cross_fit import Folding
from tastespace.models.factorization.monotone.curves import Scale, inverted, ratings_of, values_at
from tastespace.models.factorization.rows import Factors

Way = Literal["one", "per-user", "clusters"]
WAYS: tuple[Way, ...] = ("one", "per-user", "clusters")


@dataclass(frozen=True, eq=False)
class CurveBelief:
    """Users as points, each with a curve."""

    points: Factors
    curves: DoubleArray  # users x levels
    ratings: DoubleArray  # users x levels: what the values stand for
    table_rows: IntArray  # the row of each user's curve in the posterior's table; -1 for one of his own


@dataclass(frozen=True, eq=False)
class CurveTable:
    """All curves of a fit. The first is the shared one; with clusters, or a curve a user, the others follow."""

    way: Way
    scale: Scale
    curves: DoubleArray  # curves x levels
    counts: DoubleArray  # curves x levels: the training ratings that each serves
    of_user: IntArray  # the curve of each training user
    pull: float
    folds: int

    @cached_property
    def ratings(self) -> DoubleArray:
        """What the values of the curves stand for."""
        return ratings_of(self.curves, self.counts, self.scale.levels)

    @property
    def average(self) -> DoubleArray:
        """The shares of the levels in all training ratings."""
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum())

    @property
    def is_straight(self) -> bool:
        """Whether the ratings were left as they are."""
        return self.way == "one" and np.array_equal(self.curves[0], self.scale.levels)


@dataclass(frozen=True, eq=False)
class MonotonePosterior:
    """curve of the user (rating) = mean + user bias + item bias + user . item."""

    plain: PointPosterior  # in units of the curves
    table: CurveTable

    @property
    def is_latent(self) -> bool:
        return True

    @property
    def levels(self) -> DoubleArray | None:
        return None  # Predictions are numbers,

    @property
    def history_levels(self) -> DoubleArray | None:
        return None  # and so may ratings be: between two levels a curve is a straight line.

    def known(self, user_rows: IntArray, threads: int = 1) -> CurveBelief:
        rows = np.where(user_rows < 0, 0, self.table.of_user[np.maximum(user_rows, 0)]).astype(np.int32)
        return CurveBelief(
            self.plain.known(user_rows, threads), self.table.curves[rows], self.table.ratings[rows], rows
        )

    def fold_in(self, history: CSR, threads: int) -> CurveBelief:
        """The curve that suits the user's ratings, and where these put him on it: the last step of training, too."""
        table, items, penalty = self.table, self.plain.items, self.plain.penalty
        places = table.scale.places(history.values)
        folding = Folding(
            history=history,
            places=places,
            counts=table.scale.counts(history.rows(), places, len(history)),
            items=items,
            prior=penalty.prior("users", items.factors.shape[1], history.counts, items.factors.dtype),
            mean=self.plain.mean,
            folds=table.folds,
            threads=threads,
        )
        if table.way == "per-user":
            curves, rows = folding.own_curves(table.curves[0], table.pull), np.full(len(history), -1, np.int32)
            ratings = ratings_of(curves, folding.counts, table.scale.levels)
        else:
            rows = np.zeros(len(history), np.int32)
            if table.way == "clusters":
                rows = folding.best_curves(table.curves, table.average)
            curves, ratings = table.curves[rows], table.ratings[rows]
        return CurveBelief(folding.solve(values_at(curves, folding.rows, places)), curves, ratings, rows)

    def choose(self, which: BoolArray, one: CurveBelief, other: CurveBelief) -> CurveBelief:
        return CurveBelief(
            self.plain.choose(which, one.points, other.points),
            np.where(which[:, None], one.curves, other.curves),
            np.where(which[:, None], one.ratings, other.ratings),
            np.where(which, one.table_rows, other.table_rows),
        )

    def predict(self, belief: CurveBelief, belief_rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        scores = self.plain.predict(belief.points, belief_rows, item_rows, threads)
        return inverted(belief.curves, belief.ratings, belief_rows, scores).astype(np.float32)

    def query_vectors(self, belief: CurveBelief) -> FloatMatrix:
        return self.plain.query_vectors(belief.points)

    def item_vectors(self) -> FloatMatrix:
        return self.plain.item_vectors()

    def offsets(self, belief: CurveBelief) -> FloatArray:
        return self.plain.offsets(belief.points)

    def item_points(self) -> ItemPoints:
        """Curves have the mean and variance of the ratings, and so are their units."""
        return self.plain.item_points()

    def item_places(self) -> FloatMatrix:
        return self.plain.item_places()

    def user_places(self, belief: CurveBelief) -> FloatMatrix:
        return self.plain.user_places(belief.points)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        table = self.table
        return {
            **self.plain.arrays(),
            "levels": table.scale.levels,
            "curves": table.curves,
            "curve_counts": table.counts,
            "curve_of_user": table.of_user,
            "curve_rule": np.array([float(WAYS.index(table.way)), table.pull, float(table.folds)]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> MonotonePosterior:
        way, pull, folds = (float(value) for value in arrays["curve_rule"])
        table = CurveTable(
            way=WAYS[int(way)],
            scale=Scale(arrays["levels"]),
            curves=arrays["curves"],
            counts=arrays["curve_counts"],
            of_user=arrays["curve_of_user"],
            pull=pull,
            folds=int(folds),
        )
        return cls(PointPosterior.from_arrays(arrays), table)


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

    def remembering(self, ratings: CSR) -> DrawnMonotonePosterior:
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

    def fold_in(self, history: CSR, threads: int) -> DrawnCurveBelief:
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

    def _on(self, curves: Any, ratings: CSR) -> CSR:
        """Ratings as they are on curves, one a row."""
        values = values_at(curves, ratings.rows(), self.table.scale.places(ratings.values))
        return CSR(ratings.offsets, ratings.columns, contiguous(values, np.float32))


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
