"""Monotone curves: the best ones for given predictions, of fixed mean and variance.

A curve sigma has a value for each level l. Given predictions s of the ratings on the curve, with n_l the number of
ratings at a level and m_l the mean prediction of these,

    sum (sigma(r) - s)^2 = sum_l n_l (sigma_l - m_l)^2 + a constant                     (Somani and Gupta 2017, 2.4)

so that the best increasing curve is the weighted isotonic regression of m on the levels. The trivial minimum is at
zero, with predictions of zero: mean and variance of the curve over its ratings must therefore be fixed. The best
increasing curve with these is the isotonic regression, shifted and scaled: with the length of sigma fixed, the least
distance to s is the greatest inner product with it, and over a cone that is reached by the scaled projection. So a step
never raises the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, DoubleArray, IntArray
from tastespace.data.kinds import distinct

MAX_BINS = 50


@dataclass(frozen=True, eq=False)
class Between:
    """Positions of ratings between levels: the share of the way from one level to the next."""

    lower: IntArray  # level; never the highest
    share: DoubleArray  # from 0 to 1
    beyond: DoubleArray  # how far outside the levels, as a share of the scale: below 0 under the lowest


@dataclass(frozen=True, eq=False)
class Places:
    """Positions of ratings on a scale."""

    nearest: NDArray[np.uint8]  # level: at most 101, for possibly very many ratings
    between: Between | None  # None if all ratings are levels


@dataclass(frozen=True, eq=False)
class Scale:
    """The levels at which a curve has values, ascending, and the positions of ratings among them.

    Ratings of up to 101 different values have these as levels, at any distances: stars, half stars, 0 to 100. Any other
    scale is continuous: its ratings are put into up to 50 bins of equal size, and the mean of a bin is a level. Between
    two levels a curve is a straight line, so that ratings of a continuous scale keep their order within a bin.
    """

    levels: DoubleArray

    @classmethod
    def of(cls, values: NDArray[Any]) -> Scale:
        """The scale of the ratings of a training part."""
        levels = distinct(values)
        return cls(_binned(values) if levels is None else levels)

    def __len__(self) -> int:
        return len(self.levels)

    def places(self, values: NDArray[Any]) -> Places:
        """The positions of these ratings."""
        levels = self.levels
        exact = values.astype(np.float64)
        nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, exact).astype(np.uint8)
        if len(levels) == 1 or np.array_equal(levels[nearest], exact):
            return Places(nearest, None)
        inside = np.clip(exact, levels[0], levels[-1])
        lower = np.clip(np.searchsorted(levels, inside, side="right") - 1, 0, len(levels) - 2).astype(np.int32)
        share = (inside - levels[lower]) / (levels[lower + 1] - levels[lower])
        return Places(nearest, Between(lower, share, (exact - inside) / (levels[-1] - levels[0])))

    def counts(self, rows: NDArray[Any], places: Places, n_rows: int) -> DoubleArray:
        """The number of ratings of each row at each level."""
        return per_level(rows, places, None, n_rows, len(self))


def per_level(
    rows: NDArray[Any], places: Places, amounts: NDArray[Any] | None, n_rows: int, n_levels: int
) -> DoubleArray:
    """The sum of amounts (None: of ones) of each row at each level: rows x levels."""
    cells = rows.astype(np.int64) * n_levels + places.nearest
    return np.bincount(cells, amounts, minlength=n_rows * n_levels).reshape(n_rows, n_levels).astype(np.float64)


def _binned(values: NDArray[Any]) -> DoubleArray:
    """The means of bins of equal size."""
    n_bins = int(np.clip(len(values) ** 0.5, 2, MAX_BINS))
    ordered = np.sort(values).astype(np.float64)
    # Equal ratings may fill several bins, which are one level.
    return np.unique([part.mean() for part in np.array_split(ordered, n_bins)])


BLOCK = 1 << 20  # entries of a table processed together, to bound memory
FAINT = 1e-6  # pseudo-ratings that keep an unused level on its line
MANY_LEVELS = 30
SAME = 1e-9  # of a curve's height: smaller differences are rounding


def isotonic(means: DoubleArray, weights: DoubleArray) -> DoubleArray:
    """Weighted isotonic regression of each row: rows x levels, weights above 0.

    All rows at once, by the formula x_l = max over a <= l of min over b >= l of the weighted mean of a..b. With 5
    levels this takes a thirtieth of the time of scipy called per row, with 10 a ninth; with many, scipy is faster.
    """
    if means.shape[1] > MANY_LEVELS:
        return np.stack(
            [scipy.optimize.isotonic_regression(row, weights=w).x for row, w in zip(means, weights, strict=True)]
        )
    sums = np.cumsum(np.pad(weights * means, ((0, 0), (1, 0))), axis=1)
    masses = np.cumsum(np.pad(weights, ((0, 0), (1, 0))), axis=1)
    best = np.full(means.shape, -np.inf)
    for first in range(means.shape[1]):
        runs = (sums[:, first + 1 :] - sums[:, [first]]) / (masses[:, first + 1 :] - masses[:, [first]])
        least = np.minimum.accumulate(runs[:, ::-1], axis=1)[:, ::-1]
        best[:, first:] = np.maximum(best[:, first:], least)
    return best


def moments(curves: DoubleArray, weights: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """Mean and standard deviation of each row."""
    mass = weights.sum(axis=1)
    mean = (weights * curves).sum(axis=1) / mass
    return mean, np.sqrt((weights * (curves - mean[:, None]) ** 2).sum(axis=1) / mass)


def normalised(curves: DoubleArray, weights: DoubleArray, like: DoubleArray) -> DoubleArray:
    """The curves, shifted and scaled to the mean and variance of `like` under the same weights.

    A curve without variance becomes `like` itself.
    """
    mean, sd = moments(curves, weights)
    like = np.broadcast_to(like, curves.shape)
    wanted_mean, wanted_sd = moments(like, weights)
    # Ignore differences due to rounding.
    flat = sd <= SAME * np.maximum(np.abs(mean), wanted_sd)
    stretched = (curves - mean[:, None]) * (wanted_sd / np.where(flat, 1.0, sd))[:, None] + wanted_mean[:, None]
    return np.where(flat[:, None], like, stretched)


def fitted(totals: DoubleArray, counts: DoubleArray, shared: DoubleArray, pull: float) -> DoubleArray:
    """The best curves for predictions with these totals: one row per curve, one column per level.

    Each level gets `pull` extra ratings, predicted by the shared curve. These keep the curve of few ratings near the
    shared one, and give unused levels a value. Mean and variance over all of them are those of the shared curve. Users
    of a single level get the shared curve, since they say nothing about distances.
    """
    weights = counts + max(pull, FAINT)
    curves = normalised(isotonic((totals + max(pull, FAINT) * shared) / weights, weights), weights, shared)
    return np.where(np.count_nonzero(counts, axis=1)[:, None] > 1, curves, shared)


def values_at(curves: DoubleArray, rows: NDArray[np.integer], places: Places) -> DoubleArray:
    """The value of each rating on the curve of its row: linear between levels and beyond.

    Beyond the last level the line has the average slope of the curve.
    """
    between = places.between
    if between is None:
        return np.asarray(curves[rows, places.nearest])
    low, high = curves[rows, between.lower], curves[rows, between.lower + 1]
    return np.asarray(low + between.share * (high - low) + between.beyond * (curves[:, -1] - curves[:, 0])[rows])


def ratings_of(curves: DoubleArray, counts: DoubleArray, levels: DoubleArray) -> DoubleArray:
    """The rating of each value of each curve: its level, or the mean of those with the same value.

    That mean is weighted by the counts.
    """
    n_curves, n_levels = curves.shape
    apart = np.diff(curves, axis=1) > SAME * (curves[:, -1:] - curves[:, :1])
    blocks = np.cumsum(np.pad(apart, ((0, 0), (1, 0))), axis=1)
    cells = (np.arange(n_curves)[:, None] * n_levels + blocks).reshape(-1)
    weights = counts + FAINT
    sums = np.bincount(cells, (weights * levels).reshape(-1), minlength=n_curves * n_levels)
    masses = np.bincount(cells, weights.reshape(-1), minlength=n_curves * n_levels)
    return np.asarray((sums[cells] / masses[cells]).reshape(curves.shape))


def inverted(curves: DoubleArray, ratings: DoubleArray, rows: IntArray, scores: AnyFloats) -> DoubleArray:
    """The rating of a score on the curve of its row: linear between values and beyond.

    Beyond the values the line has the average slope of the curve, so that the order of scores is kept; the caller clips
    ratings to the range.
    """
    out = np.empty(len(scores))
    step = max(1, BLOCK // curves.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        out[part] = _inverted(curves[rows[part]], ratings[rows[part]], scores[part].astype(np.float64))
    return out


def _inverted(values: DoubleArray, ratings: DoubleArray, scores: DoubleArray) -> DoubleArray:
    """The inverse for one row of values and ratings per score."""
    every = np.arange(len(scores))
    spread = values[:, -1] - values[:, 0]
    slope = (ratings[:, -1] - ratings[:, 0]) / np.where(spread > 0, spread, np.inf)
    upper = np.count_nonzero(values <= scores[:, None], axis=1)
    low, high = np.maximum(upper - 1, 0), np.minimum(upper, values.shape[1] - 1)
    width = values[every, high] - values[every, low]
    inside = np.where(width > 0, (ratings[every, high] - ratings[every, low]) / np.where(width > 0, width, 1), slope)
    return np.asarray(ratings[every, low] + inside * (scores - values[every, low]))


ITERATIONS = 30
FIRM = 2.0  # ratings of an average user added to each: the spread of one or two is uninformative


def grouped(curves: DoubleArray, counts: DoubleArray, n_clusters: int, rng: Generator) -> IntArray:
    """The cluster of each user by k-means (Lloyd) of the curves; at most as many clusters as curves.

    The distance of two curves is the mean difference of ratings on them. Users are weighted by their ratings, and first
    centres are drawn far from one another (Arthur and Vassilvitskii 2007).
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
    """The fit of one curve for each user: their squared errors on it, relative to the spread of their ratings on it.

    Without this unit the flattest curve would fit all users best. `average` are the shares of the levels.
    """
    weights = counts + FIRM * average
    _, spread = moments(np.broadcast_to(curve, weights.shape), weights)
    _, usual = moments(curve[None], average[None])
    n = counts.sum(axis=1)
    mean_square = (squares + FIRM * usual**2) / (n + FIRM)
    return np.asarray(n * np.log(mean_square / np.maximum(spread, 1e-3 * usual) ** 2))


def best_curves(errors: DoubleArray) -> IntArray:
    """The most likely curve of each user, given such errors (users x curves), the first curve being the shared one.

    n log(error) is minus twice the log likelihood of normal errors. A priori the shared curve is as likely as all
    others together: users with few ratings keep it.
    """
    n_clusters = max(errors.shape[1] - 1, 1)
    doubt = np.where(np.arange(errors.shape[1]) > 0, 2 * np.log(n_clusters), 0.0)
    return np.asarray(np.argmin(errors + doubt, axis=1), np.int32)


def _distances(points: DoubleArray, centres: DoubleArray) -> DoubleArray:
    """Squared distances, users x centres."""
    return np.stack([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=1)


@dataclass(frozen=True, eq=False)
class Straight:
    """Unchanged ratings, the start of every fit."""

    levels: DoubleArray
    reassigns: ClassVar[bool] = False  # whether users may change from one curve to another

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        """The table of curves, given sums and counts of the predictions by user and level."""
        return self.levels[None]


@dataclass(frozen=True, eq=False)
class OneCurve(Straight):
    """The same curve for all, with the mean and variance of the ratings."""

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
class CurvePerCluster(CurvePerUser):
    """A curve for each cluster of users, after the shared one, which users keep if no cluster fits better."""

    n_clusters: int
    reassigns: ClassVar[bool] = True

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        totals, counts = (by_cluster(amounts, of_user, self.n_clusters + 1)[1:] for amounts in (totals, counts))
        return super().curves(totals, counts, of_user)


CurveRule = Straight | CurvePerUser  # how curves are shared among users
