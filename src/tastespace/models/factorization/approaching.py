"""From anywhere to the mode of rows whose responses are latent: least squares with weights, a few times over.

The log likelihood of each rating is replaced by the parabola that touches it at the current score. Gibbs steps with
latent responses would creep there, where nearly all ratings agree: each moves by what one response can tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from tastespace.arrays import DoubleArray
from tastespace.models.factorization.likelihoods import Noise
from tastespace.models.factorization.ordered_probit import CutPoints, OrderedProbit
from tastespace.models.factorization.rows import Points, Side, row_scores
from tastespace.models.factorization.yes_no import EDGE, Logistic

LEAST_CURVATURE, LEAST_CHANCE = 1e-4, 1e-280


def touching(
    likelihood: OrderedProbit | Logistic, side: Side, rows: Points, other: Points, noise: Noise, threads: int
) -> Side:
    """Weighted responses: their squared errors are the parabolas that touch the log likelihood at the scores."""
    if isinstance(likelihood, Logistic):
        offset = likelihood.offset
        scores = row_scores(side, rows, other, offset, threads).astype(np.float64)
        slope, curvature = _logistic(scores, side.targets > EDGE)
    else:
        assert isinstance(noise, CutPoints)
        offset = 0.0
        scores = row_scores(side, rows, other, offset, threads).astype(np.float64)
        ends = np.concatenate([[-np.inf], noise.cuts, [np.inf]])
        level = np.searchsorted(likelihood.edges, side.targets)
        slope, curvature = _between(ends[level] - scores, ends[level + 1] - scores)
    dtype = other.factors.dtype
    targets = (scores + slope / curvature).astype(dtype)
    return Side(side.offsets, side.columns, targets, weights=curvature.astype(dtype), offset=offset)


def _between(low: DoubleArray, high: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """Slope and curvature of log(Phi(high) - Phi(low)), which falls on both sides; ends are above the score."""
    is_turned = low > 0  # the lower tail has more digits
    from_, to = np.where(is_turned, -high, low), np.where(is_turned, -low, high)
    chance = ndtr(to) - ndtr(from_)
    is_told = chance > LEAST_CHANCE
    safe = np.where(is_told, chance, 1)
    at_low, at_high = _density(low), _density(high)
    slope = np.where(is_told, (at_low - at_high) / safe, np.where(low > 0, low, high))  # else straight to the end
    bend = (_times(high, at_high) - _times(low, at_low)) / safe
    return slope, np.where(is_told, np.clip(slope**2 + bend, LEAST_CURVATURE, 1), 1.0)


def _logistic(scores: DoubleArray, is_yes: NDArray[np.bool_]) -> tuple[DoubleArray, DoubleArray]:
    """Slope and curvature; on the wrong side of 0 that of a bound from below, as the true one is next to nothing."""
    chance, half = expit(scores), np.maximum(0.5 * np.abs(scores), 1e-4)
    curvature = np.where((scores > 0) == is_yes, chance * (1 - chance), np.tanh(half) / (4 * half))
    return is_yes - chance, np.maximum(curvature, LEAST_CURVATURE)


def _density(standard: NDArray[Any]) -> DoubleArray:
    return np.asarray(np.exp(-0.5 * standard**2) / np.sqrt(2 * np.pi))


def _times(end: DoubleArray, density: DoubleArray) -> DoubleArray:
    """Their product, which is 0 at an infinite end."""
    return np.where(np.isinf(end), 0.0, np.where(np.isinf(end), 0.0, end) * density)
