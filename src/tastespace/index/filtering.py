"""Few of many items: where a filter leaves only some, they are looked at one by one."""

from __future__ import annotations

import numpy as np

from tastespace import _native
from tastespace.arrays import BoolArray, FloatMatrix, IntArray, contiguous
from tastespace.index.index import Excluded, Neighbours

# With a filter that leaves the share f of the items, a structure has to look at 1 / f times as many to find as much.
# One that looks at 2 % otherwise looks at 2 % / f; each item of a scattered few takes some ten times as long as one
# beside others. So the few cost less below f = 0.04 or so (benchmarks/retrieval.py, filters).
FEW = 0.03


def few_allowed(allowed: BoolArray | None) -> IntArray | None:
    """The rows that may be found, where they are so few that a search makes no sense; else None."""
    if allowed is None:
        return None
    rows = np.empty(int(FEW * len(allowed)), np.int32)
    # Numpy takes ten times as long over a hundred thousand flags.
    n = _native.set_rows(contiguous(allowed, np.bool_).view(np.uint8), rows)
    return None if n < 0 else rows[:n]


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
    if n_queries == 1:  # All that there are: no need to say where they begin.
        _native.rank_candidates(
            vectors, queries, candidates.items.reshape(-1), found.items, found.scores, threads=threads
        )
        return found
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
