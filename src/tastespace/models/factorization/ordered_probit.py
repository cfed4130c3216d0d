"""Ratings that are levels: a latent response, normal around the score, falls between two cut-points.

    r = level l  iff  k_{l-1} < z <= k_l,   z ~ N(score, 1)

The cut-points are learned. Responses are drawn anew whenever rows are to be drawn, in the order of those rows (Albert
and Chib 1993).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, IntArray
from tastespace.inference.transition import Stats
from tastespace.models.factorization.cut_points import (
    ScoreGrid,
    coordinates,
    draw_cuts,
    likely_cuts,
    log_prior,
    sample_cuts,
)
from tastespace.models.factorization.likelihoods import FIRST_PRECISION, Axis, Noise, Observations, Responses
from tastespace.models.factorization.rows import Points, Side, row_scores


@dataclass(frozen=True, eq=False)
class CutPoints(Noise):
    """The cut-points between levels; alpha is 1."""

    cuts: DoubleArray


@dataclass(frozen=True)
class OrderedProbit:
    """The likelihood of levels, of which there are two or more, at any distances."""

    levels: tuple[float, ...]  # ascending

    @property
    def edges(self) -> DoubleArray:
        """Between two levels: what a rating is told by."""
        levels = np.array(self.levels)
        return np.asarray((levels[1:] + levels[:-1]) / 2)

    def first(self, observed: Observations) -> CutPoints:
        counts = np.bincount(np.searchsorted(self.edges, observed.by_user.targets), minlength=len(self.levels))
        return CutPoints(1.0, likely_cuts(counts.astype(np.float64), 0.0, 1.0))

    def starting(self, side: Side) -> Side:
        return standardised(side)

    def sample(self, n_users: int, n_items: int, rng: Generator) -> CutPoints:
        return CutPoints(1.0, sample_cuts(len(self.levels) - 1, rng))

    def settle(
        self, observed: Observations, users: Points, items: Points, noise: Noise, rng: Generator, threads: int
    ) -> CutPoints:
        noise, side = _cut(noise), observed.by_user
        scores = row_scores(side, users, items, threads=threads)
        edges = self.edges.astype(scores.dtype)
        return replace(noise, cuts=draw_cuts(ScoreGrid.of(scores, side.targets, edges, threads), noise.cuts, rng))

    def responses(
        self, axis: Axis, side: Side, rows: Points, other: Points, noise: Noise, rng: Generator, threads: int
    ) -> Responses:
        return Responses(latent(side, rows, other, self.edges, _cut(noise).cuts, 0.0, rng, threads), 1.0)

    def learn(self, axis: Axis, side: Side, squares: DoubleArray, noise: Noise, rng: Generator) -> Noise:
        return noise

    def simulate(
        self, scores: DoubleArray, user_rows: IntArray, item_rows: IntArray, noise: Noise, rng: Generator
    ) -> DoubleArray:
        responses = scores + rng.standard_normal(len(scores))
        return np.asarray(np.array(self.levels)[np.searchsorted(_cut(noise).cuts, responses)])

    def expected(self, scores: AnyFloats, noise: Noise) -> AnyFloats:
        """The lowest level, and for each cut-point the step to the next times the chance to pass it."""
        total = np.full(len(scores), self.levels[0])
        for cut, step in zip(_cut(noise).cuts, np.diff(self.levels), strict=True):
            total += step * ndtr(scores - cut)
        return total.astype(scores.dtype)

    def log_density(
        self, observed: Observations, users: Points, items: Points, squares: DoubleArray | None, noise: Noise
    ) -> float:
        noise, side = _cut(noise), observed.by_user
        scores = row_scores(side, users, items)
        grid = ScoreGrid.of(scores, side.targets, self.edges.astype(scores.dtype), 1)
        return grid.log_likelihood(noise.cuts) + log_prior(coordinates(noise.cuts))

    def figures(self, noise: Noise, unit: float) -> Stats:
        return {f"cut {place}": float(cut) for place, cut in enumerate(_cut(noise).cuts, 1)}


def latent(
    side: Side,
    rows: Points,
    other: Points,
    edges: DoubleArray,
    cuts: DoubleArray,
    offset: float,
    rng: Generator,
    threads: int,
) -> Side:
    """The same ratings with latent responses for targets, drawn from normals between cut-points."""
    scores = row_scores(side, rows, other, offset, threads)
    key = int(rng.integers(1 << 63))
    _native.draw_truncated(scores, side.targets, edges.astype(scores.dtype), cuts, key, scores, threads)
    return Side(side.offsets, side.columns, scores, offset=offset)


def standardised(side: Side) -> Side:
    """Levels taken for numbers, with so much noise as latent responses have."""
    mean, sd = float(side.targets.mean(dtype=np.float64)), float(side.targets.std(dtype=np.float64))
    return replace(side, offset=mean, scale=(sd or 1.0) / FIRST_PRECISION**0.5)


def _cut(noise: Noise) -> CutPoints:
    assert isinstance(noise, CutPoints)
    return noise
