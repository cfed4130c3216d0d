"""Ratings on levels given normal beliefs about scores, one per draw: probabilities, curves, information.

With the belief N(m, v) about the score z, and the draw's cut-points k_1 < k_2 < ... between the levels:

    ordinal:   P(level <= l) = E Phi(k_(l + 1) - z) = Phi((k_(l + 1) - m) / sqrt(1 + v))
    logistic:  P(1) = E 1 / (1 + exp(-z)) = sum_i p_i Phi(s_i m / sqrt(1 + s_i^2 v)), nearly

The last follows from the logistic function being a mixture of normal distribution functions over their scale. Six
normals are enough for 1e-7 at every z, and so for every m and v. The probit model of yes and no is the ordinal one with
a single cut-point at 0. Results are averages over the draws.

The information in a rating about its score, and the slope of the expected rating in the score, with the probability P_l
of level l between the cut-points k_l and k_(l + 1):

    ordinal:   information = sum_l (phi(k_l - z) - phi(k_(l + 1) - z))^2 / P_l,   slope = sum_l step_l phi(k_l - z)
    logistic:  information = p (1 - p),   slope = step p (1 - p)

The information is Fisher's: near z, a rating is worth a normal response with this precision. A latent response itself
would have 1; a rating has less, and almost none where it is certain anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatMatrix
from tastespace.distributions.normal_mixture import average, blocks, effective_draws
from tastespace.distributions.rating_distribution import LevelRatings

CELLS = 64  # of a table, per unit of the score: accurate to 1e-5 of a step between levels
MAX_CELLS = 1 << 14  # of a table: where cut-points lie far apart, its cells are wider
PROBIT_REACH = 6.0  # beyond the outermost cut-points, where the table ends: 1e-9 are left
LOGISTIC_REACH = 20.0


@dataclass(frozen=True, eq=False)
class RatingCurves:
    """The expected rating given a score, one curve per draw; tabulated for speed.

    With levels l_0 < l_1 < ... and the draw's cut-points k_1 < k_2 < ..., for a score z

        ordinal:   l_0 + sum_j (l_j - l_(j - 1)) Phi(z - k_j)
        logistic:  l_0 + (l_1 - l_0) / (1 + exp(-z))
    """

    heights: FloatMatrix  # S x (cells + 1); one row if all draws have the same curve
    low: float  # the score where the tables begin
    cells: float  # per unit of the score

    @classmethod
    def of(cls, cuts: NDArray[Any] | None, levels: NDArray[Any]) -> RatingCurves:
        """Cut-points as S x (L - 1), ascending by row, or 1 x (L - 1); None for the logistic curve of two levels."""
        if cuts is None:
            scores = _grid(-LOGISTIC_REACH, LOGISTIC_REACH)
            return cls._at(scores, levels[0] + (levels[1] - levels[0]) * scipy.special.expit(scores)[None])
        scores = _grid(float(cuts.min()) - PROBIT_REACH, float(cuts.max()) + PROBIT_REACH)
        heights = np.full((len(cuts), len(scores)), float(levels[0]))
        for place, step in enumerate(np.diff(levels)):
            heights += step * scipy.special.ndtr(scores - cuts[:, place, None])
        return cls._at(scores, heights)

    def take(self, draws: Any) -> RatingCurves:
        """The curves of some of the draws."""
        return self if len(self.heights) == 1 else RatingCurves(self.heights[draws], self.low, self.cells)

    def at(self, scores: NDArray[Any]) -> FloatMatrix:
        """The expected ratings of scores, one column per draw; n x S."""
        n_draws, width = self.heights.shape
        place = (np.asarray(scores, np.float32) - np.float32(self.low)) * np.float32(self.cells)
        np.clip(place, 0, width - 2, out=place)
        cell = place.astype(np.int32)
        place -= cell
        if n_draws > 1:
            cell += np.arange(n_draws, dtype=np.int32) * np.int32(width)
        flat = self.heights.reshape(-1)
        left = flat.take(cell)
        cell += 1
        return np.asarray(left + place * (flat.take(cell) - left))

    @classmethod
    def _at(cls, scores: DoubleArray, heights: DoubleArray) -> RatingCurves:
        cells = (len(scores) - 1) / float(scores[-1] - scores[0])
        # One entry more, so that the last one has a successor, too.
        return cls(np.pad(heights, ((0, 0), (0, 1)), mode="edge").astype(np.float32), float(scores[0]), cells)


def _grid(low: float, high: float) -> DoubleArray:
    return np.linspace(low, high, min(int(np.ceil((high - low) * CELLS)), MAX_CELLS) + 1)


# Weights and scales of the normals, fitted so that the largest error over all z is smallest.
LOGISTIC_WEIGHTS = (0.00907634, 0.10890714, 0.31697868, 0.37392920, 0.17266749, 0.01844115)
LOGISTIC_SCALES = (0.26946655, 0.36669533, 0.49554426, 0.66834498, 0.89736766, 1.21129123)
NODES = 12  # of the integral over a belief: its sd is accurate to 0.1 % if that of the score is up to 1, to 2 % up to 3


@dataclass(frozen=True, eq=False)
class LatentScores:
    """Normal beliefs about the scores of n pairs, one in each of S draws, and the ratings that follow.

    `mean` and `sd` are of the expected rating, in units of ratings, and `ratings` are the distributions of single
    ratings. Each is computed on first use: lists need no sd of items that are not on them.
    """

    means: FloatMatrix  # n x S
    sds: FloatMatrix  # n x S
    cuts: NDArray[Any] | None  # S x (L - 1), or 1 x (L - 1); None for the logistic model of two levels
    levels: DoubleArray  # L, ascending
    weights: FloatMatrix | None = None  # n x S, rows sum to 1; None for equal ones

    def __len__(self) -> int:
        return len(self.means)

    def mean(self) -> DoubleArray:
        return self.ratings.mean()

    def sd(self) -> DoubleArray:
        """The sd of the expected rating given the score: between the draws, and within their beliefs.

        By Gauss-Hermite quadrature. It does not include the noise of a single rating.
        """
        curves = RatingCurves.of(self.cuts, self.levels)
        nodes, shares = np.polynomial.hermite_e.hermegauss(NODES)
        shares = (shares / shares.sum()).astype(np.float32)
        found = np.empty(len(self))
        for rows, means, sds, weights in self._blocks():
            centre, spread = means.astype(np.float32), sds.astype(np.float32)
            heights = np.stack([curves.at(centre + np.float32(node) * spread) for node in nodes])  # nodes x n x S
            heights -= average(np.einsum("q,qns->ns", shares, heights), weights).astype(np.float32)[:, None]
            found[rows] = average(np.einsum("q,qns->ns", shares, np.square(heights, out=heights)), weights)
        return np.sqrt(found)

    @cached_property
    def ratings(self) -> LevelRatings:
        found = np.empty((len(self), len(self.levels)))
        for rows, means, sds, weights in self._blocks():
            by_level = _logistic(means, sds) if self.cuts is None else _ordinal(means, sds, self.cuts)
            for level, likely in enumerate(by_level):
                found[rows, level] = average(likely, weights)
        n_draws = None if self.weights is None else effective_draws(self.weights)
        # Rows sum to 1: weights are single precision.
        return LevelRatings(found / found.sum(1, keepdims=True), self.levels, n_draws)

    def _blocks(self) -> Iterator[tuple[slice, FloatMatrix, FloatMatrix, FloatMatrix | None]]:
        for rows in blocks(self.means):
            yield rows, self.means[rows], self.sds[rows], None if self.weights is None else self.weights[rows]


def _ordinal(means: NDArray[Any], sds: NDArray[Any], cuts: NDArray[Any]) -> Iterator[DoubleArray]:
    """The probability of each level in each draw, n x S, one level after the other; accurate in both tails."""
    centre = means.astype(np.float64)
    spread = np.sqrt(1 + sds.astype(np.float64) ** 2)  # of the score, and of the noise around it, which is 1
    tail, is_above = np.zeros_like(centre), np.zeros(centre.shape, np.bool_)
    for level in range(cuts.shape[1] + 1):
        last_tail, was_above = tail, is_above
        if level < cuts.shape[1]:
            standard = (cuts[:, level] - centre) / spread
            tail, is_above = scipy.special.ndtr(-np.abs(standard)), standard > 0
        else:
            tail, is_above = np.zeros_like(centre), np.ones(centre.shape, np.bool_)
        # Differences of tail probabilities: those of distribution functions near 1 would lose digits.
        yield np.where(is_above == was_above, np.abs(tail - last_tail), 1 - tail - last_tail)


def _logistic(means: NDArray[Any], sds: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
    """The probabilities of the lower and of the higher of two levels in each draw, n x S.

    That of the less likely one is summed separately, so that small ones keep their digits.
    """
    distance, variance = -np.abs(means.astype(np.float64)), sds.astype(np.float64) ** 2
    tail, is_likely = np.zeros(means.shape), means > 0
    for weight, scale in zip(LOGISTIC_WEIGHTS, LOGISTIC_SCALES, strict=True):
        tail += weight * scipy.special.ndtr(scale * distance / np.sqrt(1 + scale**2 * variance))
    return np.where(is_likely, tail, 1 - tail), np.where(is_likely, 1 - tail, tail)


MIN_INFORMATION = 1e-6  # a lower bound of the information, since it may be divided by
ROOT_OF_TWO_PI = float(np.sqrt(2 * np.pi))


def ordinal_information(scores: NDArray[Any], cuts: NDArray[Any]) -> DoubleArray:
    """Fisher's information at scores with a column per draw (n x S), given cut-points (S x (L - 1), or 1 x (L - 1))."""
    total = np.zeros(scores.shape)
    below, height = np.zeros(scores.shape), np.zeros(scores.shape)  # at the infinite lower end
    for place in range(cuts.shape[1] + 1):
        is_last = place == cuts.shape[1]
        last_below, last_height = below, height
        below = np.ones(scores.shape) if is_last else scipy.special.ndtr(cuts[:, place] - scores)
        height = np.zeros(scores.shape) if is_last else _density(cuts[:, place] - scores)
        chance = below - last_below
        total += np.divide((last_height - height) ** 2, chance, out=np.zeros_like(chance), where=chance > 1e-12)
    return np.maximum(total, MIN_INFORMATION)


def ordinal_slope(scores: NDArray[Any], cuts: NDArray[Any], levels: NDArray[Any]) -> DoubleArray:
    """The slope of the expected rating, at scores and cut-points as above."""
    slope = np.zeros(scores.shape)
    for place, step in enumerate(np.diff(levels)):
        slope += step * _density(cuts[:, place] - scores)
    return slope


def logistic_information(scores: NDArray[Any]) -> DoubleArray:
    """The information of yes or no with a logistic link, which is also the slope of the probability of yes."""
    chance = scipy.special.expit(np.asarray(scores, np.float64))
    return np.maximum(chance * (1 - chance), MIN_INFORMATION)


def _density(standard: NDArray[Any]) -> DoubleArray:
    return np.asarray(np.exp(-0.5 * np.asarray(standard, np.float64) ** 2) / ROOT_OF_TWO_PI)
