"""From normal beliefs about the score of a taste to probabilities of levels, one belief a draw.

With the belief N(m, v) about the score z, and the draw's cut-points k_1 < k_2 < ... between the levels:

    ordinal:   P(level <= l) = E Phi(k_(l + 1) - z) = Phi((k_(l + 1) - m) / sqrt(1 + v))
    logistic:  P(1) = E 1 / (1 + exp(-z)) = sum_i p_i Phi(s_i m / sqrt(1 + s_i^2 v)), nearly

The last follows from the logistic function being a mixture of normal distribution functions over their scale. Six
normals are enough for 1e-7 at every z, and so for every m and v. The probit model of yes and no is the ordinal one with
a single cut-point at 0. Answers are averages over the draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tastespace.arrays import DoubleArray
from tastespace.distributions.rating_curves import RatingCurves

BLOCK = 1 << 15  # pairs times draws looked at together: they stay in the cache
# Weights and scales of the normals, fitted so that the largest error over all z is smallest.
LOGISTIC_WEIGHTS = (0.00907634, 0.10890714, 0.31697868, 0.37392920, 0.17266749, 0.01844115)
LOGISTIC_SCALES = (0.26946655, 0.36669533, 0.49554426, 0.66834498, 0.89736766, 1.21129123)
NODES = 12  # of the integral over a belief: its sd is right to 0.1 % where that of the score is up to 1, to 2 % up to 3


def ordinal_probabilities(
    means: NDArray[Any],  # n x S
    sds: NDArray[Any],  # n x S
    cuts: NDArray[Any],  # S x (L - 1), ascending by row; or 1 x (L - 1)
    weights: NDArray[Any] | None = None,  # n x S
) -> DoubleArray:
    """Of each pair, how likely each of L levels is; n x L, right in both tails."""
    found = np.empty((len(means), cuts.shape[1] + 1))
    for rows in _blocks(means):
        centre, some = means[rows].astype(np.float64), None if weights is None else weights[rows]
        spread = _spread(sds[rows])
        tail, is_above = np.zeros_like(centre), np.zeros(centre.shape, np.bool_)
        for level in range(found.shape[1]):
            last_tail, was_above = tail, is_above
            if level < cuts.shape[1]:
                standard = (cuts[:, level] - centre) / spread
                tail, is_above = ndtr(-np.abs(standard)), standard > 0
            else:
                tail, is_above = np.zeros_like(centre), np.ones(centre.shape, np.bool_)
            # Differences of what lies beyond the cut-points: those of distribution functions near 1 would be rounded.
            likely = np.where(is_above == was_above, np.abs(tail - last_tail), 1 - tail - last_tail)
            found[rows, level] = _average(likely, some)
    return _normalised(found)


def logistic_probabilities(
    means: NDArray[Any],  # n x S
    sds: NDArray[Any],  # n x S
    weights: NDArray[Any] | None = None,  # n x S
) -> DoubleArray:
    """Of each pair, how likely the lower of two levels is and how likely the higher one; n x 2."""
    found = np.empty((len(means), 2))
    for rows in _blocks(means):
        tail, some = _logistic_tail(means[rows], sds[rows]), None if weights is None else weights[rows]
        is_likely = means[rows] > 0
        found[rows, 0] = _average(np.where(is_likely, tail, 1 - tail), some)
        found[rows, 1] = _average(np.where(is_likely, 1 - tail, tail), some)
    return _normalised(found)


def expected_sd(
    means: NDArray[Any],  # n x S
    sds: NDArray[Any],  # n x S
    curves: RatingCurves,
    weights: NDArray[Any] | None = None,  # n x S
) -> DoubleArray:
    """Of each pair, the sd of the expected rating given the score: between the draws, and within their beliefs.

    By Gauss-Hermite quadrature. The noise of a single rating does not count.
    """
    nodes, shares = np.polynomial.hermite_e.hermegauss(NODES)
    shares = (shares / shares.sum()).astype(np.float32)
    found = np.empty(len(means))
    for rows in _blocks(means):
        centre, spread = means[rows].astype(np.float32), sds[rows].astype(np.float32)
        some = None if weights is None else weights[rows]
        heights = np.stack([curves.at(centre + np.float32(node) * spread) for node in nodes])  # nodes x n x S
        heights -= _average(np.einsum("q,qns->ns", shares, heights), some).astype(np.float32)[:, None]
        found[rows] = _average(np.einsum("q,qns->ns", shares, np.square(heights, out=heights)), some)
    return np.sqrt(found)


def _logistic_tail(means: NDArray[Any], sds: NDArray[Any]) -> DoubleArray:
    """How likely the less likely of two levels is, in each draw; however small, it is not rounded off."""
    distance, variance = -np.abs(means.astype(np.float64)), sds.astype(np.float64) ** 2
    tail = np.zeros(means.shape)
    for weight, scale in zip(LOGISTIC_WEIGHTS, LOGISTIC_SCALES, strict=True):
        tail += weight * ndtr(scale * distance / np.sqrt(1 + scale**2 * variance))
    return tail


def _spread(sds: NDArray[Any]) -> DoubleArray:
    """Of the score and of the noise around it, which is 1."""
    return np.sqrt(1 + sds.astype(np.float64) ** 2)


def _average(of_draws: NDArray[Any], weights: NDArray[Any] | None) -> DoubleArray:
    if weights is None:
        return np.asarray(of_draws.mean(1, dtype=np.float64))
    return np.asarray(np.einsum("ns,ns->n", of_draws.astype(np.float64, copy=False), weights.astype(np.float64)))


def _normalised(probabilities: DoubleArray) -> DoubleArray:
    """1 together by row: weights are single precision."""
    return np.asarray(probabilities / probabilities.sum(1, keepdims=True))


def _blocks(of_pairs: NDArray[Any]) -> Iterator[slice]:
    step = max(1, BLOCK // max(of_pairs.shape[1], 1))
    for start in range(0, len(of_pairs), step):
        yield slice(start, min(start + step, len(of_pairs)))
