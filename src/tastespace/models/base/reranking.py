"""Popularity damping: what everybody knows anyway, moved down a user's list.

    value_ij = score_ij - strength * spread_i * standing_j

`standing_j` is log(1 + number of ratings of item j), less its mean over the items, divided by its standard deviation.
`spread_i` is the standard deviation of the scores of user i over all items. The strength therefore has no unit: with
1, an item one standard deviation more popular than usual loses one standard deviation of the user's own scores. Scores
that are shifted or stretched as a whole give the same order.

Where scores are inner products with item vectors v_j, spread_i^2 = q_i' C q_i with C the covariance of the v_j, and the
value is again an inner product: of (q_i, -strength * spread_i) and (v_j, standing_j). So the best are found exactly, by
the same scan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray
from tastespace.index.index import Neighbours
from tastespace.index.structures.exact import Exact
from tastespace.models.base.posterior import InnerProduct, Posterior, Scored
from tastespace.models.base.similarity import PoolLikeness

SAMPLED = 500  # items that stand for all where vectors are longer than that


def standing_of(counts: NDArray[Any]) -> FloatArray:
    """How popular each item is, among all: 0 on average, with a standard deviation of 1 (0 if all are equal)."""
    popularity = np.log1p(counts.astype(np.float64))
    spread = popularity.std()
    return np.asarray((popularity - popularity.mean()) / (spread if spread > 0 else 1.0), np.float32)


@dataclass(frozen=True, eq=False)
class DampedProduct:
    """Scores that are inner products, damped: one more coordinate."""

    inner: InnerProduct[Any]
    standing: FloatArray  # one an item
    root: DoubleArray  # of the covariance of the item vectors: root^T root
    strength: float

    def query_vectors(self, belief: Any) -> FloatMatrix:
        queries = self.inner.query_vectors(belief)
        wide = queries.astype(np.float64)
        # Not by BLAS, which may add in another order when a user is asked about alone.
        spread = np.sqrt(np.sum(np.einsum("nd,cd->nc", wide, self.root) ** 2, axis=1))
        return np.hstack([queries, -self.strength * spread[:, None]]).astype(np.float32)

    def item_vectors(self) -> FloatMatrix:
        return np.hstack([self.inner.item_vectors(), self.standing[:, None]]).astype(np.float32)

    def offsets(self, belief: Any) -> FloatArray:
        return self.inner.offsets(belief)


@dataclass(frozen=True, eq=False)
class DampedScores:
    """Any other scores, damped."""

    inner: Scored[Any]
    standing: FloatArray
    strength: float

    def scores(self, belief: Any, belief_rows: IntArray, threads: int) -> FloatMatrix:
        scores = self.inner.scores(belief, belief_rows, threads)
        spread = scores.std(axis=1, dtype=np.float64)
        return np.asarray(scores - self.strength * spread[:, None] * self.standing, np.float32)


class Damping:
    """All that damping needs and that is the same for every request."""

    def __init__(self, posterior: Posterior[Any], counts: NDArray[Any]) -> None:
        self.posterior, self.standing = posterior, standing_of(counts)
        self.exact: Exact | None = None
        if isinstance(posterior, InnerProduct):
            self.root = _covariance_root(posterior.item_vectors())
            self.exact = Exact().build(self.of(0.0).item_vectors())  # type: ignore[union-attr]

    def of(self, strength: float) -> DampedProduct | DampedScores:
        """The posterior's scores, damped so much."""
        if isinstance(self.posterior, InnerProduct):
            return DampedProduct(self.posterior, self.standing, self.root, strength)
        assert isinstance(self.posterior, Scored)
        return DampedScores(self.posterior, self.standing, strength)


def _covariance_root(vectors: FloatMatrix) -> DoubleArray:
    """A matrix whose product with itself is the covariance of the vectors: as few rows as will do.

    Very long vectors (draws, stacked) would make a very large covariance: there, every so many-th item stands for all.
    """
    if vectors.shape[1] > SAMPLED:
        vectors = vectors[:: max(1, len(vectors) // SAMPLED)]
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    centred /= max(len(vectors), 1) ** 0.5
    return np.asarray(centred if len(centred) <= centred.shape[1] else np.linalg.qr(centred, mode="r"))


def sorted_by(found: Neighbours, values: FloatMatrix) -> Neighbours:
    """The same items in the order of other values, best first; of equal ones the lower item."""
    values = np.where(found.items < 0, -np.inf, values).astype(np.float32)
    order = np.lexsort((found.items, -values), axis=1)
    return Neighbours(np.take_along_axis(found.items, order, 1), np.take_along_axis(values, order, 1))


BLOCK_NUMBERS = 1 << 22  # held at once for comparing: 16 MB


def pool_size(n: int, n_items: int) -> int:
    """From how many of the best a list of n is chosen."""
    return min(max(10 * n, 100), n_items)


def diversified(found: Neighbours, n: int, diversity: float, likeness: PoolLikeness, threads: int) -> Neighbours:
    """The n of each user's pool (best first, padded with -1) that are chosen, in the order of choice."""
    n_users, size = found.items.shape
    n = min(n, size)
    chosen = np.empty((n_users, n), np.intp)
    step = max(1, BLOCK_NUMBERS // max(likeness.numbers_held(size), 1))
    for start in range(0, n_users, step):
        here = slice(start, start + step)
        block = Neighbours(found.items[here], found.scores[here])
        chosen[here] = _choices(block, n, diversity, likeness, threads)
    return Neighbours(np.take_along_axis(found.items, chosen, axis=1), np.take_along_axis(found.scores, chosen, axis=1))


def _choices(pool: Neighbours, n: int, diversity: float, likeness: PoolLikeness, threads: int) -> NDArray[np.intp]:
    """The positions in each pool that are chosen, one after another; padding comes last, as it was."""
    users = np.arange(len(pool.items))
    is_there = pool.items >= 0
    compare = likeness.among(np.maximum(pool.items, 0), threads)
    merit = np.where(is_there, (1 - diversity) * _relevance(pool.scores, is_there), -np.inf).astype(np.float32)
    nearest = np.full(merit.shape, -np.inf, np.float32)
    value = merit.copy()
    choices = np.empty((len(users), n), np.intp)
    for step in range(n):
        choice = value.argmax(axis=1)  # of equal values the one that was better before
        choices[:, step] = choice
        np.maximum(nearest, compare(choice), out=nearest)
        merit[users, choice] = -np.inf
        value = merit - np.float32(diversity) * nearest
    # Where all that is there has been chosen, argmax has taken anything: the padding is what is left.
    short = np.arange(n) >= is_there.sum(axis=1)[:, None]
    return np.where(short, pool.items.shape[1] - 1, choices)


def _relevance(scores: FloatMatrix, is_there: BoolArray) -> FloatMatrix:
    """From 0 to 1 over each pool; 0 for padding."""
    worst = np.where(is_there, scores, np.inf).min(axis=1, keepdims=True)
    above = np.where(is_there, scores, worst) - np.where(np.isfinite(worst), worst, 0)
    above[~is_there] = 0
    spread = above.max(axis=1, keepdims=True)
    return (above / np.where(spread > 0, spread, 1)).astype(np.float32)
