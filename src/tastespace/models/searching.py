"""The best items of each user under a posterior: through an index over its vectors, or score by score in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tastespace.arrays import BoolArray, FloatMatrix, IntArray
from tastespace.errors import InvalidParameterError
from tastespace.index.index import Excluded, Index, Neighbours
from tastespace.models.posterior import InnerProduct, Posterior, Scored

BLOCK_SCORES = 1 << 22  # scores held at once: 16 MB, whatever the numbers of users and items


def best_items(
    posterior: Posterior[Any],
    belief: Any,
    n_users: int,
    k: int,
    *,
    n_items: int,
    excluded: Excluded | None,
    allowed: BoolArray | None,
    index: Index | None,
    threads: int,
) -> Neighbours:
    """The k best items of each of the belief's users; scores include the user's offset."""
    if isinstance(posterior, InnerProduct) and index is not None:
        found = index.search(posterior.query_vectors(belief), k, excluded=excluded, allowed=allowed)
        return Neighbours(found.items, found.scores + posterior.offsets(belief)[:, None])
    if index is not None:
        raise InvalidParameterError("this model has no item vectors, so that no index can search them; expected None")
    items, scores = np.full((n_users, k), -1, np.int32), np.full((n_users, k), -np.inf, np.float32)
    for rows, block in score_blocks(posterior, belief, n_users, n_items, threads):
        _forbid(block, rows, excluded, allowed)
        items[rows], scores[rows] = _top(block, k)
    return Neighbours(items, scores)


def score_blocks(
    posterior: Posterior[Any], belief: Any, n_users: int, n_items: int, threads: int
) -> Iterator[tuple[IntArray, FloatMatrix]]:
    """The scores of every item, some users (rows of the belief) at a time, so that memory stays bounded."""
    step = max(1, BLOCK_SCORES // max(n_items, 1))
    vectors = posterior.item_vectors() if isinstance(posterior, InnerProduct) else None
    for start in range(0, n_users, step):
        rows = np.arange(start, min(start + step, n_users), dtype=np.int32)
        if vectors is not None and isinstance(posterior, InnerProduct):
            queries, offsets = posterior.query_vectors(belief), posterior.offsets(belief)
            yield rows, queries[rows] @ vectors.T + offsets[rows, None]
        elif isinstance(posterior, Scored):
            yield rows, posterior.scores(belief, rows, threads)
        else:
            raise InvalidParameterError(f"{type(posterior).__name__} can neither score items nor be indexed")


def _forbid(scores: FloatMatrix, rows: IntArray, excluded: Excluded | None, allowed: BoolArray | None) -> None:
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
    if excluded is not None:
        first, last = excluded.offsets[rows[0]], excluded.offsets[rows[-1] + 1]
        counts = np.diff(excluded.offsets[rows[0] : rows[-1] + 2])
        scores[np.repeat(np.arange(len(rows)), counts), excluded.items[first:last]] = -np.inf


def _top(scores: FloatMatrix, k: int) -> tuple[IntArray, FloatMatrix]:
    """The best k of each row, best first; of equal scores the lower item, as the exact scan has it."""
    n = scores.shape[1]
    items, best = np.full((len(scores), k), -1, np.int32), np.full((len(scores), k), -np.inf, np.float32)
    kept = min(k, n)
    if kept < n:
        # All that reach the k-th score, so that ties at the edge are settled by the item and not by chance.
        edge = -np.partition(-scores, kept - 1, axis=1)[:, kept - 1]
    else:
        edge = np.full(len(scores), -np.inf, np.float32)
    for row, (line, limit) in enumerate(zip(scores, edge, strict=True)):
        candidates = np.flatnonzero((line >= limit) & (line > -np.inf))
        chosen = candidates[np.argsort(-line[candidates], kind="stable")[:k]]
        items[row, : len(chosen)], best[row, : len(chosen)] = chosen, line[chosen]
    return items, best
