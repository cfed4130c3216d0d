"""What a user's ratings say of himself: predictions of each from the others, given the items."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tastespace.arrays import DoubleArray, IntArray
from tastespace.data.compressed import Compressed
from tastespace.models.factorization.monotone.clusters import best_curves, relative_errors
from tastespace.models.factorization.monotone.curves import fitted, values_at
from tastespace.models.factorization.monotone.scale import Places, per_level
from tastespace.models.factorization.rows import Points, RowPrior, Side, row_scores, solve_rows

ROUNDS = 3  # of a user's curve, each from the predictions that the last one led to


@dataclass(frozen=True, eq=False)
class Folding:
    """Ratings of some users, and the items that predict them."""

    history: Compressed
    places: Places
    counts: DoubleArray  # users x levels
    items: Points
    prior: RowPrior
    mean: float
    folds: int
    threads: int

    @property
    def rows(self) -> IntArray:
        return self.history.rows()

    def solve(self, targets: DoubleArray) -> Points:
        """Users where these values of their ratings put them."""
        return solve_rows(self._side(targets), self.items, self.prior, name="user", threads=self.threads).points

    def best_curves(self, curves: DoubleArray, average: DoubleArray) -> IntArray:
        """Which of these curves suits each user best; the first is the shared one."""
        rows, n_users = self.rows, len(self.history)
        errors = np.empty((n_users, len(curves)))
        for place, curve in enumerate(curves):
            targets = values_at(curve[None], np.zeros(len(rows), np.int32), self.places)
            squares: DoubleArray = np.bincount(rows, (targets - self._predicted(targets)) ** 2, n_users).astype(float)
            errors[:, place] = relative_errors(squares, curve, self.counts, average)
        return best_curves(errors)

    def own_curves(self, shared: DoubleArray, pull: float) -> DoubleArray:
        """A curve for each user, from the shared one on."""
        rows, n_users = self.rows, len(self.history)
        curves = np.repeat(shared[None], n_users, axis=0)
        for _ in range(ROUNDS):
            predicted = self._predicted(values_at(curves, rows, self.places))
            totals = per_level(rows, self.places, predicted, n_users, self.counts.shape[1])
            curves = fitted(totals, self.counts, shared, pull)
        return curves

    def _predicted(self, targets: DoubleArray) -> DoubleArray:
        """Each rating, from the user's ratings in other folds; with one fold, from all of them."""
        side = self._side(targets)
        fold_of = (np.arange(len(targets)) - np.repeat(self.history.offsets[:-1], self.history.counts)) % self.folds
        predicted = np.empty(len(targets))
        for fold in range(self.folds):
            is_out = fold_of == fold
            weights = None if self.folds == 1 else (~is_out).astype(side.targets.dtype)
            points = solve_rows(
                replace(side, weights=weights), self.items, self.prior, name="user", threads=self.threads
            ).points
            predicted[is_out] = row_scores(side, points, self.items, self.mean, self.threads)[is_out]
        return predicted

    def _side(self, targets: DoubleArray) -> Side:
        return Side(
            self.history.offsets,
            self.history.columns,
            targets.astype(self.items.factors.dtype),
            offset=self.mean,
        )
