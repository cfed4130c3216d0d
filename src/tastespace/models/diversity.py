"""Lists of different things: maximal marginal relevance.

    next = argmax over the pool, less what is chosen, of
           (1 - diversity) * relevance - diversity * (largest similarity to anything chosen)

(Carbonell and Goldstein 1998, with lambda = 1 - diversity.) The relevance of an item is its score, scaled so that the
pool of a user's best items reaches from 0 to 1; similarity is what the model says, or else the cosine of co-rating. The
first of the list stays the first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatMatrix
from tastespace.index.index import Neighbours
from tastespace.models.likeness import PoolLikeness

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
