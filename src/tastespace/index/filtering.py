"""Few of many items: where a filter leaves only some, they are looked at one by one."""

from __future__ import annotations

import numpy as np

from tastespace import _native
from tastespace.arrays import BoolArray, FloatMatrix, IntArray
from tastespace.index.index import Excluded, Neighbours

# With a filter that leaves the share f, a structure has to look at 1 / f times as many items to find as much. One that
# looks at 3 % otherwise then looks at more than the f that are left, each dearer than in a scan, from f = 0.1 or so.
FEW = 0.1


def few_allowed(allowed: BoolArray | None) -> IntArray | None:
    """The rows that may be found, where they are so few that a search makes no sense; else None."""
    if allowed is None or np.count_nonzero(allowed) > FEW * len(allowed):
        return None
    return np.flatnonzero(allowed).astype(np.int32)


def best_of(
    rows: IntArray, vectors: FloatMatrix, queries: FloatMatrix, k: int, excluded: Excluded | None, threads: int
) -> Neighbours:
    """The best of these rows, for every query; vectors and queries in single precision, C-ordered."""
    found = Neighbours(np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32))
    if excluded is None:
        _native.rank_candidates(vectors, queries, rows, found.items, found.scores, threads=threads)
    else:
        _native.rank_candidates(
            vectors,
            queries,
            rows,
            found.items,
            found.scores,
            excluded_offsets=excluded.offsets,
            excluded=excluded.items,
            threads=threads,
        )
    return found


def ranked(candidates: Neighbours, vectors: FloatMatrix, queries: FloatMatrix, k: int, threads: int) -> Neighbours:
    """The best of each query's own candidates, in the order of their whole vectors."""
    n_queries, n_candidates = candidates.items.shape
    found = Neighbours(np.empty((n_queries, k), np.int32), np.empty((n_queries, k), np.float32))
    offsets = np.arange(0, (n_queries + 1) * n_candidates, n_candidates)
    _native.rank_candidates(
        vectors,
        queries,
        candidates.items.reshape(-1),
        found.items,
        found.scores,
        candidate_offsets=offsets,
        threads=threads,
    )
    return found
