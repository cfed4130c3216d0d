"""Mixtures of normals, the form of averages over posterior draws, and the ratings that follow from them.

With components N(m_s, sd_s^2) of the weights w_s, and Phi, phi the standard normal:

    F(x) = sum_s w_s Phi((x - m_s) / sd_s)
    CRPS(F, y) = int (F(x) - 1{y <= x})^2 dx = E|X - y| - E|X - X'| / 2,  X, X' ~ F independent
    E|X - y| = sum_s w_s A(m_s - y, sd_s),  A(d, sd) = d (2 Phi(d / sd) - 1) + 2 sd phi(d / sd)
    E|X - X'| / 2 = int F(x) (1 - F(x)) dx = 1/2 sum_s sum_t w_s w_t A(m_s - m_t, sqrt(sd_s^2 + sd_t^2))

The double sum over S draws is S^2 terms. The integrand of the integral before it is smooth and falls off like a
normal, and for such integrands the trapezoidal rule converges faster than any power of its step: 3/4 of the smallest
sd gives six digits with about 20 points. Where a component is so narrow that it would take too many, the double sum
is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import BoolArray, DoubleArray, FloatMatrix, contiguous
from tastespace.distributions import rating_distribution as ratings
from tastespace.distributions.rating_distribution import SAME_LEVEL, SMALLEST

INTEGRATION_STEP = 0.75  # in sds of the narrowest component
INTEGRATION_REACH = 5.0  # sds beyond which F (1 - F) is negligible
TERM_COST = 8  # of a term of the double sum, relative to a term of the integral
BLOCK = 1 << 15  # quantities times draws processed together: they stay in the cache


def blocks(of_draws: NDArray[Any]) -> list[slice]:
    """Slices of a few rows of n x S numbers at a time."""
    n, step = len(of_draws), max(1, BLOCK // max(of_draws.shape[1], 1))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def average(of_draws: NDArray[Any], weights: NDArray[Any] | None) -> DoubleArray:
    """The mean over draws; weights sum to 1 by row, None for equal ones."""
    if weights is None:
        return np.asarray(of_draws.mean(1, dtype=np.float64))
    return np.asarray(np.einsum("ns,ns->n", of_draws.astype(np.float64, copy=False), weights.astype(np.float64)))


def effective_draws(weights: NDArray[Any]) -> DoubleArray:
    """The effective number of draws for weights, one figure per row."""
    return np.asarray(1 / np.sum(weights.astype(np.float64) ** 2, axis=1))


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """Mixtures of S normals (one per draw), for n quantities; `weights` sum to 1 by row, None for equal ones."""

    means: FloatMatrix  # n x S
    sds: FloatMatrix  # n x S
    weights: FloatMatrix | None = None  # n x S

    def __len__(self) -> int:
        return len(self.means)

    def take(self, rows: Any) -> NormalMixture:
        """Some of the quantities."""
        weights = None if self.weights is None else self.weights[rows]
        return NormalMixture(self.means[rows], self.sds[rows], weights)

    def mean(self) -> DoubleArray:
        return average(self.means, self.weights)

    def sd(self) -> DoubleArray:
        """The spread of the components' means, and their own."""
        found = np.empty(len(self))
        _native.mixture_sd(out=found, **self._arrays)
        return found

    @property
    def effective_components(self) -> DoubleArray:
        """The effective number of components, one figure per quantity."""
        if self.weights is None:
            return np.full(len(self), float(self.means.shape[1]))
        return effective_draws(self.weights)

    def cdf(self, values: NDArray[Any], *, inclusive: bool = True) -> DoubleArray:
        """P(quantity <= value) to 1e-6, at one value per quantity or a row of them; P(quantity < value) if not
        `inclusive`.

        The two differ only where a component has no spread and equals the value.
        """
        values = np.asarray(values, np.float64)
        at = contiguous(values.reshape(len(self), values.shape[1] if values.ndim == 2 else 1), np.float64)
        below = np.empty(at.shape)
        _native.mixture_cdf(values=at, out=below, inclusive=inclusive, **self._arrays)
        return below.reshape(values.shape)

    def quantile(self, probability: float) -> DoubleArray:
        """The value at which the distribution function reaches a probability between 0 and 1."""
        found, standard = np.empty(len(self)), float(scipy.special.ndtri(probability))
        _native.mixture_quantile(probability=probability, standard=standard, out=found, **self._arrays)
        return found

    def log_density(self, values: NDArray[Any], *, least_sd: float = 0.0) -> DoubleArray:
        """The log density at one value per quantity; no component counts as narrower than `least_sd`."""
        found = np.empty(len(self))
        for rows in blocks(self.means):
            part, at = self.take(rows), np.asarray(values[rows], np.float64)[:, None]
            sds = np.maximum(part.sds.astype(np.float64), least_sd)
            terms = -(((at - part.means) / sds) ** 2) / 2 - np.log(sds) - np.log(2 * np.pi) / 2
            weights = 1 / part.means.shape[1] if part.weights is None else part.weights.astype(np.float64)
            found[rows] = scipy.special.logsumexp(terms, axis=1, b=weights)
        return np.maximum(found, np.log(SMALLEST))

    def log_between(self, low: NDArray[Any], high: NDArray[Any]) -> DoubleArray:
        """The logarithm of P(low < quantity <= high), one pair per quantity; accurate in both tails, never infinite."""
        found = np.empty(len(self))
        for rows in blocks(self.means):
            part = self.take(rows)
            left, right = (part._standard(ends[rows]) for ends in (low, high))
            with np.errstate(invalid="ignore"):
                is_above = left + right > 0
            # Far above the mean both are nearly 1: use the upper tail.
            left, right = np.where(is_above, -right, left), np.where(is_above, -left, right)
            found[rows] = average(scipy.special.ndtr(right) - scipy.special.ndtr(left), part.weights)
        return np.log(np.maximum(found, SMALLEST))

    def crps(self, values: NDArray[Any]) -> DoubleArray:
        """The continuous ranked probability score of one value per quantity, to 1e-5 of the sd; smaller is better."""
        found = np.empty(len(self))
        for rows in blocks(self.means):
            part, at = self.take(rows), np.asarray(values[rows], np.float64)[:, None]
            distance = average(_mean_distance(part.means - at, part.sds.astype(np.float64)), part.weights)
            found[rows] = distance - part._half_mean_difference()
        return found

    def _half_mean_difference(self) -> DoubleArray:
        """E|X - X'| / 2 of two independent draws: by the trapezoidal rule, or exactly where that would be slow."""
        low = (self.means - INTEGRATION_REACH * self.sds).min(1)
        span = (self.means + INTEGRATION_REACH * self.sds).max(1) - low
        with np.errstate(divide="ignore", invalid="ignore"):
            wanted = span / (INTEGRATION_STEP * self.sds.min(1))
        is_long = ~(wanted <= TERM_COST * self.means.shape[1])  # also where it is NaN: no spread at all
        # Rounded up to quarters of a power of two, so that many quantities are integrated together.
        n_points = np.ceil(2 ** (np.ceil(4 * np.log2(np.where(is_long, 1, wanted))) / 4)).astype(np.int64)
        n_points[is_long] = 0
        found = np.zeros(len(self))
        for count in np.unique(n_points).tolist():
            rows = np.flatnonzero(n_points == count)
            part = self.take(rows)
            found[rows] = part._integrated(low[rows], span[rows] / count, count) if count else part._exact()
        return found

    def _integrated(self, low: DoubleArray, step: DoubleArray, n_points: int) -> DoubleArray:
        total = np.zeros(len(self))
        for place in range(1, n_points):
            below = self.cdf(low + place * step)
            total += below * (1 - below)
        return total * step

    def _exact(self) -> DoubleArray:
        total = np.zeros(len(self))
        sds = self.sds.astype(np.float64)
        for draw in range(self.means.shape[1]):
            between = np.sqrt(sds**2 + sds[:, draw, None] ** 2)
            distances = average(_mean_distance(self.means - self.means[:, draw, None], between), self.weights)
            total += distances * (1 / self.means.shape[1] if self.weights is None else self.weights[:, draw])
        return total / 2

    def _standard(self, values: NDArray[Any]) -> DoubleArray:
        """(value - mean) / sd of each component. One without spread is a step, which counts as below itself."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            standard = (np.asarray(values, np.float64)[:, None] - self.means) / self.sds
        if not self.sds.all():
            standard[np.isnan(standard)] = np.inf
        return standard

    @property
    def _arrays(self) -> dict[str, Any]:
        """Means, sds and weights as kernels expect them."""
        arrays = {"means": self.means, "sds": self.sds, "weights": self.weights}
        return {name: contiguous(array, np.float32) for name, array in arrays.items() if array is not None}


def _mean_distance(distance: NDArray[Any], sds: NDArray[Any]) -> DoubleArray:
    """E|X| of X ~ N(distance, sd^2)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        standard = np.abs(distance / sds, dtype=np.float64)
    standard = np.where(np.isnan(standard), 0.0, standard)  # no distance and no spread
    density = np.exp(-np.square(np.minimum(standard, 40.0)) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.abs(distance) * (2 * scipy.special.ndtr(standard) - 1) + 2 * sds * density)


@dataclass(frozen=True, eq=False)
class NormalRatings(ratings.RatingDistribution):
    """Normal ratings around uncertain tastes, known to lie within a range.

    Where ratings are `levels` (stars), the density between the midpoints to the levels beside it belongs to a level;
    the lowest and the highest include everything beyond.
    """

    mixture: NormalMixture  # of the rating: belief and noise
    low: float
    high: float
    levels: DoubleArray | None = None  # ascending; None for a continuous scale

    def __len__(self) -> int:
        return len(self.mixture)

    def take(self, rows: Any) -> NormalRatings:
        return NormalRatings(self.mixture.take(rows), self.low, self.high, self.levels)

    @property
    def effective_draws(self) -> DoubleArray | None:  # type: ignore[override]
        return None if self.mixture.weights is None else self.mixture.effective_components

    def mean(self) -> DoubleArray:
        """The mean of the normal before it is cut to range and levels."""
        return self.mixture.mean()

    def sd(self) -> DoubleArray:
        """The sd of the normal before it is cut to range and levels."""
        return self.mixture.sd()

    def quantile(self, probability: float) -> DoubleArray:
        return np.clip(self.mixture.quantile(probability), self.low, self.high)

    def cdf(self, values: NDArray[Any]) -> DoubleArray:
        """P(rating <= value), one value per rating, of the normal before it is cut to range and levels."""
        return self.mixture.cdf(values)

    def at_least(self, threshold: float | NDArray[Any]) -> DoubleArray:
        slack = SAME_LEVEL * max(abs(self.low), abs(self.high)) if self.levels is None else self._scale.slack
        thresholds = np.broadcast_to(np.asarray(threshold, np.float64), len(self))
        reached = thresholds
        if self.levels is not None and len(self.levels) > 1:
            above = np.clip(self._scale.first_reaching(thresholds), 1, len(self.levels) - 1)
            reached = self._scale.midpoints[above - 1]
        found = 1 - self.mixture.cdf(contiguous(reached, np.float64))
        found[thresholds <= self.low + slack] = 1
        found[thresholds > self.high + slack] = 0
        return found

    def level_probabilities(self) -> DoubleArray:
        # Each is accurate to 1e-6, so two that hardly differ may come out in the wrong order.
        return np.maximum(np.diff(self._edges, axis=1), 0.0)

    def log_score(self, values: NDArray[Any]) -> DoubleArray:
        """The log probability of the level of each observed rating, or its log density on a continuous scale.

        Larger is better. A value that is not a level counts as the nearest one. No probability counts as less than
        2e-308, and on a continuous scale no component as narrower than single precision, so that all scores are finite.
        """
        if self.levels is None:
            width = float(np.finfo(np.float32).eps) * max(abs(self.low), abs(self.high), self.high - self.low, 1e-30)
            return self.mixture.log_density(values, least_sd=width)
        edges = np.concatenate([[-np.inf], self._scale.midpoints, [np.inf]])
        nearest = self._scale.nearest(values)
        return self.mixture.log_between(edges[nearest], edges[nearest + 1])

    def crps(self, values: NDArray[Any]) -> DoubleArray:
        """The CRPS; on a continuous scale that of the normal before it is cut to the range."""
        return self.mixture.crps(values) if self.levels is None else super().crps(values)

    def cdf_steps(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        return self._both_sides(values) if self.levels is None else super().cdf_steps(values)

    def contains(self, values: NDArray[Any], coverages: Sequence[float]) -> BoolArray:
        """Whether each value lies in the central interval of each coverage, ends included; n x coverages.

        The same as comparing with the quantiles, which lie within the range, but without computing them.
        """
        # A quantile beyond the range is moved to its end, and so meets a value there.
        below, up_to = self._both_sides(values)
        passed, reached = np.where(values <= self.low, -np.inf, below), np.where(values >= self.high, np.inf, up_to)
        tails = (1 - np.asarray(coverages, np.float64)) / 2
        is_possible = (values >= self.low) & (values <= self.high)
        return is_possible[:, None] & (reached[:, None] >= tails) & (passed[:, None] <= 1 - tails)

    @cached_property
    def _edges(self) -> DoubleArray:
        """P(rating <= midpoint) between levels, from 0 below the lowest to 1 above the highest; n x (L + 1)."""
        midpoints = self._scale.midpoints
        edges = np.zeros((len(self), len(midpoints) + 2))
        edges[:, 1:-1] = self.mixture.cdf(np.broadcast_to(midpoints, (len(self), len(midpoints))))
        edges[:, -1] = 1.0
        return edges

    def _both_sides(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        """P(rating < value) and P(rating <= value) before it is cut, which are the same where everything has spread."""
        up_to = self.mixture.cdf(values)
        return up_to if self.mixture.sds.all() else self.mixture.cdf(values, inclusive=False), up_to
