"""Mixtures of normals: what an average over posterior draws is, before anything is rounded off.

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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatMatrix, contiguous

BLOCK = 1 << 15  # components looked at together: they stay in the cache
INTEGRATION_STEP = 0.75  # in sds of the narrowest component
INTEGRATION_REACH = 5.0  # sds beyond which F (1 - F) is nothing
TERM_COST = 8  # of a term of the double sum, in terms of the integral
SMALLEST = float(np.finfo(np.float64).tiny)  # what a probability counts as at least when its logarithm is taken


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """Of each of n quantities, a mixture of S normals (one a draw); `weights` sum to 1 by row, None for equal ones."""

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
        return self._average(self.means)

    def sd(self) -> DoubleArray:
        """The spread of the components' means, and their own."""
        found = np.empty(len(self))
        _native.mixture_sd(*self._components, found, weights=self._weights)
        return found

    @property
    def effective_components(self) -> DoubleArray:
        """How many equal components the weights are worth, one figure a quantity."""
        if self.weights is None:
            return np.full(len(self), float(self.means.shape[1]))
        return np.asarray(1 / np.sum(self.weights.astype(np.float64) ** 2, axis=1))

    def cdf(self, values: NDArray[Any], *, inclusive: bool = True) -> DoubleArray:
        """P(quantity <= value) to 1e-6, at one value a quantity or at a row of them; P(quantity < value) if not
        `inclusive`.

        The two differ only where a component has no spread and stands on the value.
        """
        values = np.asarray(values, np.float64)
        at = contiguous(values.reshape(len(self), values.shape[1] if values.ndim == 2 else 1), np.float64)
        below = np.empty(at.shape)
        _native.mixture_cdf(*self._components, at, below, weights=self._weights, inclusive=inclusive)
        return below.reshape(values.shape)

    def quantile(self, probability: float) -> DoubleArray:
        """Where the distribution function reaches a probability between 0 and 1."""
        found = np.empty(len(self))
        _native.mixture_quantile(
            *self._components, probability, float(ndtri(probability)), found, weights=self._weights
        )
        return found

    def log_density(self, values: NDArray[Any], *, least_sd: float = 0.0) -> DoubleArray:
        """The logarithm of the density, at one value a quantity; no component counts as narrower than `least_sd`."""
        found = np.empty(len(self))
        for rows in self._blocks():
            part, at = self.take(rows), np.asarray(values[rows], np.float64)[:, None]
            sds = np.maximum(part.sds.astype(np.float64), least_sd)
            terms = -(((at - part.means) / sds) ** 2) / 2 - np.log(sds) - np.log(2 * np.pi) / 2
            weights = 1 / part.means.shape[1] if part.weights is None else part.weights.astype(np.float64)
            found[rows] = logsumexp(terms, axis=1, b=weights)
        return np.maximum(found, np.log(SMALLEST))

    def log_between(self, low: NDArray[Any], high: NDArray[Any]) -> DoubleArray:
        """The logarithm of P(low < quantity <= high), one pair a quantity; right in both tails, never infinite."""
        found = np.empty(len(self))
        for rows in self._blocks():
            part = self.take(rows)
            left, right = (part._standard(ends[rows]) for ends in (low, high))
            with np.errstate(invalid="ignore"):
                is_above = left + right > 0
            # Far above the mean both are 1 less next to nothing: so look from the other side.
            left, right = np.where(is_above, -right, left), np.where(is_above, -left, right)
            found[rows] = part._average(ndtr(right) - ndtr(left))
        return np.log(np.maximum(found, SMALLEST))

    def crps(self, values: NDArray[Any]) -> DoubleArray:
        """The continuous ranked probability score of one value a quantity, to 1e-5 of the sd; smaller is better."""
        found = np.empty(len(self))
        for rows in self._blocks():
            part, at = self.take(rows), np.asarray(values[rows], np.float64)[:, None]
            distance = part._average(_mean_distance(part.means - at, part.sds.astype(np.float64)))
            found[rows] = distance - part._half_mean_difference()
        return found

    def _half_mean_difference(self) -> DoubleArray:
        """E|X - X'| / 2 of two independent draws: by the trapezoidal rule, or exactly where that would be long."""
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
            distances = self._average(_mean_distance(self.means - self.means[:, draw, None], between))
            total += distances * (1 / self.means.shape[1] if self.weights is None else self.weights[:, draw])
        return total / 2

    def _standard(self, values: NDArray[Any]) -> DoubleArray:
        """(value - mean) / sd of each component. One without spread is a step; on its own place it counts as below."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            standard = (np.asarray(values, np.float64)[:, None] - self.means) / self.sds
        if not self.sds.all():
            standard[np.isnan(standard)] = np.inf
        return standard

    @property
    def _components(self) -> tuple[FloatMatrix, FloatMatrix]:
        """As kernels want them."""
        return contiguous(self.means, np.float32), contiguous(self.sds, np.float32)

    @property
    def _weights(self) -> FloatMatrix | None:
        return None if self.weights is None else contiguous(self.weights, np.float32)

    def _average(self, of_components: NDArray[Any]) -> DoubleArray:
        if self.weights is None:
            return np.asarray(of_components.mean(1, dtype=np.float64))
        return np.asarray(np.einsum("ns,ns->n", of_components.astype(np.float64), self.weights.astype(np.float64)))

    def _blocks(self) -> list[slice]:
        step = max(1, BLOCK // max(self.means.shape[1], 1))
        return [slice(start, min(start + step, len(self))) for start in range(0, len(self), step)]


def _mean_distance(distance: NDArray[Any], sds: NDArray[Any]) -> DoubleArray:
    """E|X| of X ~ N(distance, sd^2)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        standard = np.abs(distance / sds, dtype=np.float64)
    standard = np.where(np.isnan(standard), 0.0, standard)  # no distance and no spread
    density = np.exp(-np.square(np.minimum(standard, 40.0)) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.abs(distance) * (2 * ndtr(standard) - 1) + 2 * sds * density)
