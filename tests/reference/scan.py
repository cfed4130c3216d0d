"""The exact scan, with all scores in memory."""

from __future__ import annotations

import numpy as np


def search(vectors, queries, k, excluded=None, allowed=None):
    """Items and scores of each query, best first, ties by the smaller row, padded with -1."""
    items = np.full((len(queries), k), -1, np.int32)
    scores = np.full((len(queries), k), -np.inf)
    for row, query in enumerate(queries):
        value = vectors.astype(np.float64) @ query.astype(np.float64)
        candidates = np.ones(len(vectors), bool) if allowed is None else allowed.astype(bool).copy()
        if excluded is not None:
            candidates[excluded[row]] = False
        found = np.flatnonzero(candidates)
        found = found[np.lexsort((found, -value[found]))][:k]
        items[row, : len(found)] = found
        scores[row, : len(found)] = value[found]
    return items, scores


def moments(items, queries, offsets, weights):
    """The mean over draws of each item's score, and that of its square: items n x S x W, queries q x S x W."""
    scores = np.einsum("nsw,qsw->qns", items.astype(np.float64), queries) + offsets[:, None]
    return np.einsum("qns,qs->qn", scores, weights), np.einsum("qns,qs->qn", scores**2, weights)
