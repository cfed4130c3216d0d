"""Groups of users who rate in a similar way, and how users share curves: one for all, each, or each cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, IntArray
from tastespace.models.factorization.monotone.curves import fitted, moments

ITERATIONS = 30
FIRM = 2.0  # so many ratings of an average user are added to each: the spread of one or two says little


def grouped(curves: DoubleArray, counts: DoubleArray, n_clusters: int, rng: Generator) -> IntArray:
    """The cluster of each user by k-means (Lloyd) of the curves; as many clusters at most as there are curves.

    Two curves are as far apart as ratings differ on them, on average. Users count by their ratings, and first centres
    are drawn far from one another (Arthur and Vassilvitskii 2007).
    """
    masses = counts.sum(axis=1)
    points = curves * np.sqrt(counts.sum(axis=0) / counts.sum())
    centres = points[[rng.choice(len(points), p=masses / masses.sum())]]
    while len(centres) < n_clusters:
        gaps = masses * _distances(points, centres).min(axis=1)
        if not gaps.sum() > 0:
            break  # Every curve is a centre already.
        centres = np.vstack([centres, points[rng.choice(len(points), p=gaps / gaps.sum())]])
    cells = _distances(points, centres).argmin(axis=1)
    for _ in range(ITERATIONS):
        totals = by_cluster(points * masses[:, None], cells, len(centres))
        weights = np.bincount(cells, masses, len(centres))[:, None]
        centres = np.where(weights > 0, totals / np.where(weights > 0, weights, 1), centres)
        cells, before = _distances(points, centres).argmin(axis=1), cells
        if (cells == before).all():
            break
    return np.asarray(cells, np.int32)


def by_cluster(amounts: DoubleArray, cells: IntArray, n_clusters: int) -> DoubleArray:
    """Sums over the users of each cluster, column by column."""
    return np.stack([np.bincount(cells, column, n_clusters) for column in amounts.T], axis=1)


def relative_errors(squares: DoubleArray, curve: DoubleArray, counts: DoubleArray, average: DoubleArray) -> DoubleArray:
    """How well one curve suits each user: their squared errors on it, in units of how far it spreads their ratings.

    Without the unit the flattest curve would suit everybody. `average` are the shares of the levels.
    """
    weights = counts + FIRM * average
    _, spread = moments(np.broadcast_to(curve, weights.shape), weights)
    _, usual = moments(curve[None], average[None])
    n = counts.sum(axis=1)
    mean_square = (squares + FIRM * usual**2) / (n + FIRM)
    return np.asarray(n * np.log(mean_square / np.maximum(spread, 1e-3 * usual) ** 2))


def best_curves(errors: DoubleArray) -> IntArray:
    """The most likely curve of each user, given such errors (users x curves), the first curve being the shared one.

    n log(error) is minus twice the log likelihood of normal errors. Beforehand the shared curve is as likely as all
    others together: who has rated little stays with it.
    """
    n_clusters = max(errors.shape[1] - 1, 1)
    doubt = np.where(np.arange(errors.shape[1]) > 0, 2 * np.log(n_clusters), 0.0)
    return np.asarray(np.argmin(errors + doubt, axis=1), np.int32)


def _distances(points: DoubleArray, centres: DoubleArray) -> DoubleArray:
    """Squared, users x centres."""
    return np.stack([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=1)


@dataclass(frozen=True, eq=False)
class Straight:
    """Ratings as they are: where every fit begins."""

    levels: DoubleArray
    reassigns: ClassVar[bool] = False

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        return self.levels[None]


@dataclass(frozen=True, eq=False)
class OneCurve(Straight):
    """The same curve for everybody, with the mean and variance of the ratings."""

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        return fitted(totals.sum(axis=0, keepdims=True), counts.sum(axis=0, keepdims=True), self.levels, 0.0)


@dataclass(frozen=True, eq=False)
class CurvePerUser:
    """A curve for each user, after the shared one."""

    shared: DoubleArray
    pull: float
    reassigns: ClassVar[bool] = False

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        return np.vstack([self.shared, fitted(totals, counts, self.shared, self.pull)])


@dataclass(frozen=True, eq=False)
class CurvePerCluster:
    """A curve for each cluster of users, after the shared one, which those keep whom no cluster suits better."""

    shared: DoubleArray
    pull: float
    n_clusters: int
    reassigns: ClassVar[bool] = True

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        totals, counts = (by_cluster(amounts, of_user, self.n_clusters + 1)[1:] for amounts in (totals, counts))
        return np.vstack([self.shared, fitted(totals, counts, self.shared, self.pull)])
