"""Monotone curves: the best ones for given predictions, of fixed mean and variance.

A curve sigma has a value for each level l. Given predictions s of the ratings that it serves, with n_l the number of
ratings at a level and m_l the mean prediction of these,

    sum (sigma(r) - s)^2 = sum_l n_l (sigma_l - m_l)^2 + a constant                     (Somani and Gupta 2017, 2.4)

so that the best rising curve is the weighted isotonic regression of m on the levels. Its least value is at zero, with
predictions of zero: mean and variance of the curve over the ratings that it serves must therefore be fixed. The best
rising curve with these is the isotonic regression, shifted and stretched: with the length of sigma fixed, the least
distance to s is the greatest inner product with it, and over a cone that is reached by the projection, made as long
as wanted. So a step never raises the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, DoubleArray, IntArray
from tastespace.data.kinds import distinct
from tastespace.lazy import optimize

MAX_BINS = 50


@dataclass(frozen=True, eq=False)
class Between:
    """Where ratings lie that are no levels: this share of the way from one level to the next."""

    lower: IntArray  # level; never the highest
    share: DoubleArray  # from 0 to 1
    beyond: DoubleArray  # how far outside the levels, as a share of the scale: below 0 under the lowest


@dataclass(frozen=True, eq=False)
class Places:
    """Where ratings lie on a scale."""

    nearest: NDArray[np.uint8]  # level; of these there are at most 101, and there may be very many ratings
    between: Between | None  # None if all ratings are levels


@dataclass(frozen=True, eq=False)
class Scale:
    """The levels that a curve has values at, ascending, and where ratings lie among them.

    Ratings of up to 101 different values have these as levels, at whatever distances: stars, half stars, 0 to 100. Any
    other scale is continuous: its ratings are put into up to 50 bins of as many each, and the mean of a bin is a level.
    Between two levels a curve is a straight line, so that ratings of a continuous scale keep their order within a bin.
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
        """Where these ratings lie."""
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
        """How many ratings each row has at each level."""
        return per_level(rows, places, None, n_rows, len(self))


def per_level(
    rows: NDArray[Any], places: Places, amounts: NDArray[Any] | None, n_rows: int, n_levels: int
) -> DoubleArray:
    """The sum of amounts (None: of ones) of each row at each level: rows x levels."""
    cells = rows.astype(np.int64) * n_levels + places.nearest
    return np.bincount(cells, amounts, minlength=n_rows * n_levels).reshape(n_rows, n_levels).astype(np.float64)


def _binned(values: NDArray[Any]) -> DoubleArray:
    """The means of bins of as many ratings each."""
    n_bins = int(np.clip(len(values) ** 0.5, 2, MAX_BINS))
    ordered = np.sort(values).astype(np.float64)
    # Equal ratings may fill several bins: these are one level.
    return np.unique([part.mean() for part in np.array_split(ordered, n_bins)])


BLOCK = 1 << 20  # entries of a table looked at together, to bound the memory
FAINT = 1e-6  # so many ratings keep a level without any on its line
MANY_LEVELS = 30
SAME = 1e-9  # of a curve's height: values that are no further apart differ by rounding


def isotonic(means: DoubleArray, weights: DoubleArray) -> DoubleArray:
    """The rising rows nearest to these in weighted squares: rows x levels, weights above 0.

    All rows at once, by the formula x_l = max over a <= l of min over b >= l of the weighted mean of a..b. With 5
    levels this takes a thirtieth of the time of a call of scipy's a row, with 10 a ninth; with many, those are faster.
    """
    if means.shape[1] > MANY_LEVELS:
        return np.stack([optimize.isotonic_regression(row, weights=w).x for row, w in zip(means, weights, strict=True)])
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
    """The curves, shifted and stretched to the mean and variance that `like` has under the same weights.

    One without any variance becomes `like` itself: there is nothing to stretch.
    """
    mean, sd = moments(curves, weights)
    like = np.broadcast_to(like, curves.shape)
    wanted_mean, wanted_sd = moments(like, weights)
    # Differences that are mere rounding are none.
    flat = sd <= SAME * np.maximum(np.abs(mean), wanted_sd)
    stretched = (curves - mean[:, None]) * (wanted_sd / np.where(flat, 1.0, sd))[:, None] + wanted_mean[:, None]
    return np.where(flat[:, None], like, stretched)


def fitted(totals: DoubleArray, counts: DoubleArray, shared: DoubleArray, pull: float) -> DoubleArray:
    """The best curves for predictions that sum up to these totals: one row a curve, one column a level.

    Each level has `pull` ratings more than were given, predicted as the shared curve has it. These hold the curve of
    few ratings near the shared one, and give levels that were never used a value. Mean and variance over all of them
    are those of the shared curve. Users of a single level have said nothing about distances: theirs is the shared
    curve.
    """
    weights = counts + max(pull, FAINT)
    curves = normalised(isotonic((totals + max(pull, FAINT) * shared) / weights, weights), weights, shared)
    return np.where(np.count_nonzero(counts, axis=1)[:, None] > 1, curves, shared)


def values_at(curves: DoubleArray, rows: NDArray[np.integer], places: Places) -> DoubleArray:
    """What each rating is on the curve of its row: between two levels and beyond, on straight lines.

    Beyond the last level the line has the average slope of the curve.
    """
    between = places.between
    if between is None:
        return np.asarray(curves[rows, places.nearest])
    low, high = curves[rows, between.lower], curves[rows, between.lower + 1]
    return np.asarray(low + between.share * (high - low) + between.beyond * (curves[:, -1] - curves[:, 0])[rows])


def ratings_of(curves: DoubleArray, counts: DoubleArray, levels: DoubleArray) -> DoubleArray:
    """The rating that each value of each curve stands for: its level, or the mean of those with the same value.

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
    """The rating that a score stands for on the curve of its row: straight between values, and beyond them.

    Beyond the values the line has the average slope of the curve, so that the order of scores is kept; who shows
    ratings clips them.
    """
    out = np.empty(len(scores))
    step = max(1, BLOCK // curves.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        out[part] = _inverted(curves[rows[part]], ratings[rows[part]], scores[part].astype(np.float64))
    return out


def _inverted(values: DoubleArray, ratings: DoubleArray, scores: DoubleArray) -> DoubleArray:
    """One row of values and ratings a score."""
    every = np.arange(len(scores))
    spread = values[:, -1] - values[:, 0]
    slope = (ratings[:, -1] - ratings[:, 0]) / np.where(spread > 0, spread, np.inf)
    upper = np.count_nonzero(values <= scores[:, None], axis=1)
    low, high = np.maximum(upper - 1, 0), np.minimum(upper, values.shape[1] - 1)
    width = values[every, high] - values[every, low]
    inside = np.where(width > 0, (ratings[every, high] - ratings[every, low]) / np.where(width > 0, width, 1), slope)
    return np.asarray(ratings[every, low] + inside * (scores - values[every, low]))


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

    Without the unit the flattest curve would suit all users. `average` are the shares of the levels.
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
    reassigns: ClassVar[bool] = False  # whether users may change from one curve to another

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        """The table of curves, given the predictions summed up and counted by user and level."""
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
    """A curve for each cluster of users, after the shared one, which those keep who suit no cluster better."""

    n_clusters: int
    reassigns: ClassVar[bool] = True

    def curves(self, totals: DoubleArray, counts: DoubleArray, of_user: IntArray) -> DoubleArray:
        totals, counts = (by_cluster(amounts, of_user, self.n_clusters + 1)[1:] for amounts in (totals, counts))
        return super().curves(totals, counts, of_user)


CurveRule = Straight | CurvePerUser  # how curves are shared among users
