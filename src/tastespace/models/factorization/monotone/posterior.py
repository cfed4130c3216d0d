"""A point estimate on curves: ratings are derived from scores by the inverse of each user's curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.inference.transition import Trace
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior, Queries
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.als.posterior import PointBelief, PointPosterior
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, Learning
from tastespace.models.factorization.gibbs.posterior import DrawsBelief
from tastespace.models.factorization.monotone.cross_fit import Folding
from tastespace.models.factorization.monotone.curves import Scale, inverted, ratings_of, values_at

Way = Literal["one", "per-user", "clusters"]
WAYS: tuple[Way, ...] = ("one", "per-user", "clusters")


@dataclass(frozen=True, eq=False)
class CurveTable:
    """All curves of a fit. The first is the shared one; with clusters, or a curve per user, the others follow."""

    way: Way
    scale: Scale
    curves: DoubleArray  # curves x levels
    counts: DoubleArray  # curves x levels: the number of training ratings on each
    of_user: IntArray  # the curve of each training user
    pull: float
    folds: int

    @cached_property
    def ratings(self) -> DoubleArray:
        """The ratings of the values of the curves."""
        return ratings_of(self.curves, self.counts, self.scale.levels)

    @property
    def average(self) -> DoubleArray:
        """The shares of the levels in all training ratings."""
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum())

    @property
    def is_straight(self) -> bool:
        """Whether the ratings are unchanged."""
        return self.way == "one" and np.array_equal(self.curves[0], self.scale.levels)


@dataclass(frozen=True, eq=False)
class MonotonePosterior(Posterior):
    """A posterior on curves: curve of the user (rating) = mean + user bias + item bias + user . item."""

    plain: PointPosterior  # in units of the curves
    table: CurveTable

    def believe(self, people: People, threads: int) -> CurveBelief:
        rows = np.where(people.rows < 0, 0, self.table.of_user[np.maximum(people.rows, 0)]).astype(np.int32)
        points = PointBelief(self.plain, self.plain.known(people.rows), threads)
        known = CurveBelief(self, points, self.table.curves[rows], self.table.ratings[rows], rows)
        if not people.is_new.any():
            return known
        folded, which = self.fold_in(people.history, threads), people.is_new
        return CurveBelief(
            self,
            PointBelief(self.plain, folded.points.points.where(which, points.points), threads),
            np.where(which[:, None], folded.curves, known.curves),
            np.where(which[:, None], folded.ratings, known.ratings),
            np.where(which, folded.table_rows, known.table_rows),
        )

    def fold_in(self, history: CSR, threads: int) -> CurveBelief:
        """The best curve for the user's ratings, and the user fitted on it; also the last step of training."""
        table = self.table
        folding = Folding(history, table.scale, self.plain, table.folds, threads)
        if table.way == "per-user":
            curves, rows = folding.own_curves(table.curves[0], table.pull), np.full(len(history), -1, np.int32)
            ratings = ratings_of(curves, folding.counts, table.scale.levels)
        else:
            rows = np.zeros(len(history), np.int32)
            if table.way == "clusters":
                rows = folding.best_curves(table.curves, table.average)
            curves, ratings = table.curves[rows], table.ratings[rows]
        points = folding.solve(values_at(curves, folding.rows, folding.places))
        return CurveBelief(self, PointBelief(self.plain, points, threads), curves, ratings, rows)

    @property
    def scored(self) -> PointPosterior | EmpiricalPosterior:
        """The source of scores on the curves."""
        return self.plain

    @property
    def item_vectors(self) -> FloatMatrix:
        return self.scored.item_vectors

    @property
    def embeddings(self) -> FloatMatrix:
        return self.scored.embeddings

    def item_points(self) -> ItemPoints:
        """Item factors; curves have the mean and variance of the ratings, and so the same units."""
        return self.scored.item_points()

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
        plain = PointPosterior.from_arrays(arrays)
        drawn = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        if not drawn:
            return MonotonePosterior(plain, table)
        return DrawnMonotonePosterior(plain, table, EmpiricalPosterior.from_arrays(drawn))


@dataclass(frozen=True, eq=False)
class CurveBelief(Belief):
    """Users as points, each with a curve."""

    posterior: MonotonePosterior
    points: PointBelief
    curves: DoubleArray  # users x levels
    ratings: DoubleArray  # users x levels: the ratings of the values
    table_rows: IntArray  # the row of each user's curve in the posterior's table; -1 for their own curve
    drawn: DrawsBelief | None = None  # the belief of the draws about each user, if there are any

    is_latent = True

    def __len__(self) -> int:
        return len(self.points)

    @property
    def scored(self) -> PointBelief | DrawsBelief:
        """The source of scores on the curves."""
        return self.points if self.drawn is None else self.drawn

    def mean(self, pairs: Pairs) -> FloatArray:
        return inverted(self.curves, self.ratings, pairs.rows, self.scored.mean(pairs)).astype(np.float32)

    @property
    def queries(self) -> Queries:
        return self.scored.queries

    @property
    def embeddings(self) -> FloatMatrix:
        return self.scored.embeddings


PREFIX = "drawn_"  # prefix of the arrays of the draws, beside those of the point estimate


@dataclass(frozen=True, eq=False)
class DrawnMonotonePosterior(MonotonePosterior):
    """Users' curves from the point estimate; scores are means over draws on the curves.

    A rating is the inverse of the curve at the mean score, not the mean of inverses: within a user it preserves the
    order of the scores, as lists and indexes need it.
    """

    drawn: EmpiricalPosterior  # in units of the curves

    keeps_users = False

    @property
    def trace(self) -> Trace | None:
        return self.drawn.trace

    @property
    def learning(self) -> Learning:
        return self.drawn.learning

    def believe(self, people: People, threads: int) -> CurveBelief:
        belief = super().believe(people, threads)
        history = people.history
        if len(history.columns):  # values on the users' curves
            values = values_at(belief.curves, history.rows(), self.table.scale.places(history.values))
            history = CSR(history.offsets, history.columns, contiguous(values, np.float32))
        drawn = self.drawn.believe(replace(people, history=history, trained=None), threads)
        return replace(belief, drawn=drawn)

    @property
    def scored(self) -> EmpiricalPosterior:
        return self.drawn

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {**super().arrays(), **{PREFIX + name: array for name, array in self.drawn.arrays().items()}}
