"""The best items of each user under a posterior: through an index over its vectors, or score by score in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError
from tastespace.index.index import Excluded, Index, Neighbours
from tastespace.models.base.posterior import InnerProduct, Posterior, Scored

BLOCK_SCORES = 1 << 22  # scores held at once: 16 MB, whatever the numbers of users and items
Searchable = Posterior[Any] | InnerProduct[Any] | Scored[Any]


def best_items(
    posterior: Searchable,
    belief: Any,
    n_users: int,
    k: int,
    *,
    n_items: int,
    excluded: Excluded | None,
    allowed: BoolArray | None,
    index: Index | None,
    threads: int,
    own: CSR | None = None,
) -> Neighbours:
    """The k best items of each of the belief's users; scores include the user's offset.

    With `own`, each user chooses from his own items (one row a user, already without what is not to be found),
    and these are looked at one by one.
    """
    if own is not None:
        return _best_of_own(posterior, belief, own, k, threads)
    if isinstance(posterior, InnerProduct) and index is not None:
        found = index.search(posterior.query_vectors(belief), k, excluded=excluded, allowed=allowed)
        return Neighbours(found.items, found.scores + posterior.offsets(belief)[:, None])
    if index is not None:
        raise InvalidParameterError("this model has no item vectors, so that no index can search them; expected None")
    items, scores = np.full((n_users, k), -1, np.int32), np.full((n_users, k), -np.inf, np.float32)
    for rows, block in score_blocks(posterior, belief, n_users, n_items, threads):
        items[rows], scores[rows] = best_of_scores(block, rows, k, excluded, allowed)
    return Neighbours(items, scores)


def pair_scores(
    posterior: Searchable, belief: Any, belief_rows: IntArray, item_rows: IntArray, threads: int
) -> FloatArray:
    """What items are ordered by, for pairs of users (rows of the belief, ascending) and items; in bounded memory."""
    scores = np.empty(len(belief_rows), np.float32)
    if isinstance(posterior, InnerProduct):
        queries, vectors, offsets = posterior.query_vectors(belief), posterior.item_vectors(), posterior.offsets(belief)
        step = max(1, BLOCK_SCORES // max(vectors.shape[1], 1))
        for start in range(0, len(scores), step):
            users, items = belief_rows[start : start + step], item_rows[start : start + step]
            products = np.einsum("nd,nd->n", queries[users], vectors[items])
            scores[start : start + step] = products + offsets[users]
        return scores
    if not isinstance(posterior, Scored):
        raise InvalidParameterError(f"{type(posterior).__name__} can neither score items nor be indexed")
    step, start = 1, 0
    while start < len(scores):
        rows = np.unique(belief_rows[start : start + step]).astype(np.int32)
        end = int(np.searchsorted(belief_rows, rows[-1], side="right"))
        block = posterior.scores(belief, rows, threads)
        scores[start:end] = block[np.searchsorted(rows, belief_rows[start:end]), item_rows[start:end]]
        step, start = max(1, BLOCK_SCORES // max(block.shape[1], 1)), end
    return scores


def score_blocks(
    posterior: Searchable, belief: Any, n_users: int, n_items: int, threads: int
) -> Iterator[tuple[IntArray, FloatMatrix]]:
    """The scores of every item, some users (rows of the belief) at a time, so that memory stays bounded."""
    step = max(1, BLOCK_SCORES // max(n_items, 1))
    blocks = (np.arange(start, min(start + step, n_users), dtype=np.int32) for start in range(0, n_users, step))
    if isinstance(posterior, InnerProduct):
        queries, vectors, offsets = posterior.query_vectors(belief), posterior.item_vectors(), posterior.offsets(belief)
        for rows in blocks:
            yield rows, queries[rows] @ vectors.T + offsets[rows, None]
    elif isinstance(posterior, Scored):
        for rows in blocks:
            yield rows, posterior.scores(belief, rows, threads)
    else:
        raise InvalidParameterError(f"{type(posterior).__name__} can neither score items nor be indexed")


def best_of_scores(
    scores: FloatMatrix, rows: IntArray, k: int, excluded: Excluded | None, allowed: BoolArray | None
) -> tuple[IntArray, FloatMatrix]:
    """The best k of each row of scores, which is written into; `rows` are consecutive rows of what is excluded."""
    forbid(scores, rows, excluded, allowed)
    return _top(scores, k)


def _best_of_own(posterior: Searchable, belief: Any, own: CSR, k: int, threads: int) -> Neighbours:
    users, scores = own.rows(), pair_scores(posterior, belief, own.rows(), own.columns, threads)
    order = np.lexsort((own.columns, -scores, users))  # of equal scores the lower item, as everywhere
    place = np.arange(len(order)) - np.repeat(own.offsets[:-1], own.counts)
    order, users, place = order[place < k], users[place < k], place[place < k]
    found = Neighbours(np.full((len(own), k), -1, np.int32), np.full((len(own), k), -np.inf, np.float32))
    found.items[users, place], found.scores[users, place] = own.columns[order], scores[order]
    return found


def forbid(scores: FloatMatrix, rows: IntArray, excluded: Excluded | None, allowed: BoolArray | None) -> None:
    """Write minus infinity where an item must not be found; `rows` as above."""
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
