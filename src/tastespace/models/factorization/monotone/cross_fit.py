"""Curves and factors in alternation, with curves fitted to ratings that the factors have not seen.

Ratings are split into folds. Factors are fitted for each fold to the ratings of the others, and predict its own; the
curves are the best for these predictions. With one fold the predictions are those of the ratings that were fitted, as
in Somani and Gupta (2017): curves then adapt to what factors overfit (see docs/explanation/models/rating-curves.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, IntArray
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.inference.transition import Stats
from tastespace.models.factorization.als.posterior import PointPosterior
from tastespace.models.factorization.als.sweep import ALSState, AlternatingLeastSquares
from tastespace.models.factorization.monotone import curves as curve_fits
from tastespace.models.factorization.rows import Factors, RatingBlock, RowPrior, row_scores, score_pairs, solve_rows


@dataclass(frozen=True, eq=False)
class CurveState:
    """Curves, their assignment to users, and the factors of each fold."""

    curves: DoubleArray  # curves x levels; the first is the shared one
    of_user: IntArray
    factors: tuple[ALSState, ...]


@dataclass(frozen=True, eq=False)
class CurvedRatings:
    """Ratings to be fitted, each on the curve of its user."""

    transition: AlternatingLeastSquares
    user_rows: IntArray  # by user
    user_places: curve_fits.Places
    raters: IntArray  # by item
    item_places: curve_fits.Places

    @classmethod
    def of(
        cls, ratings: Ratings, transition: AlternatingLeastSquares, scale: curve_fits.Scale, mean: float
    ) -> CurvedRatings:
        by_user, by_item = ratings.by_user, ratings.by_item
        of_users, of_items = (replace(side, offset=mean) for side in (transition.by_user, transition.by_item))
        transition = replace(transition, by_user=of_users, by_item=of_items)
        user_places, item_places = scale.places(by_user.values), scale.places(by_item.values)
        return cls(transition, by_user.rows(), user_places, by_item.columns, item_places)

    def on(self, curves: DoubleArray, of_user: IntArray) -> AlternatingLeastSquares:
        """Least squares of these ratings on these curves."""
        side = self.transition.by_item
        targets = curve_fits.values_at(curves, of_user[self.raters], self.item_places).astype(side.targets.dtype)
        by_item = replace(side, targets=targets)
        return replace(self.transition, by_user=self.by_user_on(curves, of_user), by_item=by_item)

    def by_user_on(self, curves: DoubleArray, of_user: IntArray) -> RatingBlock:
        """The same ratings, grouped only by user."""
        side = self.transition.by_user
        targets = curve_fits.values_at(curves, of_user[self.user_rows], self.user_places)
        return replace(side, targets=targets.astype(side.targets.dtype))


@dataclass(frozen=True, eq=False)
class Fold:
    """The ratings that factors are fitted to, and those they predict."""

    fitted: CurvedRatings
    own: Ratings
    places: curve_fits.Places  # the fold's own ratings

    def predicted(self, users: Factors, items: Factors, mean: float, threads: int) -> DoubleArray:
        """The scores of this fold's own ratings."""
        return score_pairs(users, self.own.user_rows, items, self.own.item_rows, mean, threads).astype(np.float64)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """One sweep: curves given the predictions, the factors of every fold given the curves, and the users' curves."""

    folds: tuple[Fold, ...]
    scale: curve_fits.Scale
    counts: DoubleArray  # users x levels
    mean: float
    rating_range: tuple[float, float]
    rule: curve_fits.CurveRule
    threads: int

    def init(self, rng: Generator) -> CurveState:
        """Unchanged ratings, and random factors."""
        factors = tuple(fold.fitted.transition.init(rng) for fold in self.folds)
        return CurveState(self.scale.levels[None], np.zeros(len(self.counts), np.int32), factors)

    def step(self, state: CurveState, rng: Generator) -> tuple[CurveState, Stats]:
        curves = self.rule.curves(self._totals(state), self.counts, state.of_user)
        factors, losses = [], []
        for fold, before in zip(self.folds, state.factors, strict=True):
            after, stats = fold.fitted.on(curves, state.of_user).step(before, rng)
            factors.append(after)
            losses.append(stats["loss"])
        moved = CurveState(curves, state.of_user, tuple(factors))
        figures: Stats = {"loss": float(np.mean(losses)), "change": self._change(state, moved)}
        if not self.rule.reassigns:
            return moved, figures
        moved = replace(moved, of_user=self._reassigned(moved))
        return moved, {**figures, "moved": float(np.mean(moved.of_user != state.of_user))}

    def rmse(self, state: CurveState) -> float:
        """The error of the predicted ratings, clipped to the range."""
        served = curve_fits.by_cluster(self.counts, state.of_user, len(state.curves))
        ratings, squares, n = curve_fits.ratings_of(state.curves, served, self.scale.levels), 0.0, 0
        for fold, scores in self._predictions(state):
            rows = state.of_user[fold.own.user_rows]
            predicted = np.clip(curve_fits.inverted(state.curves, ratings, rows, scores), *self.rating_range)
            squares += float(np.sum((predicted - fold.own.values) ** 2))
            n += len(scores)
        return float(np.sqrt(squares / n))

    def _predictions(self, state: CurveState) -> Iterator[tuple[Fold, DoubleArray]]:
        for fold, factors in zip(self.folds, state.factors, strict=True):
            yield fold, fold.predicted(factors.users, factors.items, self.mean, self.threads)

    def _totals(self, state: CurveState) -> DoubleArray:
        """Sums of the predictions by user and level."""
        totals = np.zeros(self.counts.shape)
        for fold, scores in self._predictions(state):
            totals += curve_fits.per_level(fold.own.user_rows, fold.places, scores, *self.counts.shape)
        return totals

    def _change(self, before: CurveState, after: CurveState) -> float:
        """How far ratings have moved on their curves, as a share of the shared curve's spread."""
        moved = (after.curves[after.of_user] - before.curves[before.of_user]) ** 2
        mean = (self.counts * moved).sum() / self.counts.sum()
        return float(np.sqrt(mean)) / float(np.ptp(self.scale.levels))

    def _reassigned(self, state: CurveState) -> IntArray:
        """The best curve for each user, and their factors on it."""
        n_users, average = len(self.counts), self.counts.sum(axis=0) / self.counts.sum()
        errors = np.empty((n_users, len(state.curves)))
        for curve in range(len(state.curves)):
            chosen, squares = np.full(n_users, curve, np.int32), np.zeros(n_users)
            for fold, factors in zip(self.folds, state.factors, strict=True):
                side, prior = fold.fitted.by_user_on(state.curves, chosen), fold.fitted.transition.user_prior
                users = solve_rows(side, factors.items, prior, name="user", threads=self.threads).points
                scores = fold.predicted(users, factors.items, self.mean, self.threads)
                rows = fold.own.user_rows
                wanted = curve_fits.values_at(state.curves, chosen[rows], fold.places)
                squares += np.bincount(rows, (scores - wanted) ** 2, n_users)
            errors[:, curve] = curve_fits.relative_errors(squares, state.curves[curve], self.counts, average)
        return curve_fits.best_curves(errors)


ROUNDS = 3  # iterations for a user's curve, each from the predictions of the last one


@dataclass(frozen=True, eq=False)
class Folding:
    """Users folded in by their ratings: predictions of each rating from the others, given the items."""

    history: CSR
    scale: curve_fits.Scale
    plain: PointPosterior
    folds: int
    threads: int

    @cached_property
    def rows(self) -> IntArray:
        return self.history.rows()

    @cached_property
    def places(self) -> curve_fits.Places:
        return self.scale.places(self.history.values)

    @cached_property
    def counts(self) -> DoubleArray:
        """users x levels"""
        return self.scale.counts(self.rows, self.places, len(self.history))

    @cached_property
    def prior(self) -> RowPrior:
        return self.plain.user_prior(self.history)

    def solve(self, targets: DoubleArray) -> Factors:
        """Users fitted to these values of their ratings."""
        return self._solved(self._side(targets))

    def best_curves(self, curves: DoubleArray, average: DoubleArray) -> IntArray:
        """The best of these curves for each user; the first is the shared one."""
        rows, n_users = self.rows, len(self.history)
        errors = np.empty((n_users, len(curves)))
        for place, curve in enumerate(curves):
            targets = curve_fits.values_at(curve[None], np.zeros(len(rows), np.int32), self.places)
            squares: DoubleArray = np.bincount(rows, (targets - self._predicted(targets)) ** 2, n_users).astype(float)
            errors[:, place] = curve_fits.relative_errors(squares, curve, self.counts, average)
        return curve_fits.best_curves(errors)

    def own_curves(self, shared: DoubleArray, pull: float) -> DoubleArray:
        """A curve for each user, starting from the shared one."""
        rows, n_users = self.rows, len(self.history)
        curves = np.repeat(shared[None], n_users, axis=0)
        for _ in range(ROUNDS):
            predicted = self._predicted(curve_fits.values_at(curves, rows, self.places))
            totals = curve_fits.per_level(rows, self.places, predicted, n_users, self.counts.shape[1])
            curves = curve_fits.fitted(totals, self.counts, shared, pull)
        return curves

    def _predicted(self, targets: DoubleArray) -> DoubleArray:
        """Each rating predicted from the user's ratings in other folds; with one fold, from all of them."""
        side = self._side(targets)
        fold_of = (np.arange(len(targets)) - np.repeat(self.history.offsets[:-1], self.history.counts)) % self.folds
        predicted = np.empty(len(targets))
        for fold in range(self.folds):
            is_out = fold_of == fold
            weights = None if self.folds == 1 else (~is_out).astype(side.targets.dtype)
            points = self._solved(replace(side, weights=weights))
            predicted[is_out] = row_scores(side, points, self.plain.items, self.plain.mean, self.threads)[is_out]
        return predicted

    def _side(self, targets: DoubleArray) -> RatingBlock:
        targets = targets.astype(self.plain.items.factors.dtype)
        return RatingBlock(self.history.offsets, self.history.columns, targets, offset=self.plain.mean)

    def _solved(self, side: RatingBlock) -> Factors:
        return solve_rows(side, self.plain.items, self.prior, name="user", threads=self.threads).points
