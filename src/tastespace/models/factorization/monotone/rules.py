"""How users share curves: one for all, one for each, one for each cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tastespace.arrays import DoubleArray, IntArray
from tastespace.models.factorization.monotone.clusters import by_cluster
from tastespace.models.factorization.monotone.curves import fitted


@dataclass(frozen=True, eq=False)
class Straight:
    """Ratings as they are: where every fit begins."""

    levels: DoubleArray

    @property
    def reassigns(self) -> bool:
        return False

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

    @property
    def reassigns(self) -> bool:
        return False

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        return np.vstack([self.shared, fitted(totals, counts, self.shared, self.pull)])


@dataclass(frozen=True, eq=False)
class CurvePerCluster:
    """A curve for each cluster of users, after the shared one, which those keep whom no cluster suits better."""

    shared: DoubleArray
    pull: float
    n_clusters: int

    @property
    def reassigns(self) -> bool:
        return True

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        totals, counts = (by_cluster(amounts, of_user, self.n_clusters + 1)[1:] for amounts in (totals, counts))
        return np.vstack([self.shared, fitted(totals, counts, self.shared, self.pull)])
