"""How good approximate answers are: what share of the true best was found, and how bad the worst suggestion is.

Scores are inner products, one row a query, best first, minus infinity where there is no item. Sums of single precision
depend on the order they are taken in, so that scores count as equal to within a tolerance; then of two items as good
as each other it does not matter which was found.
"""

from __future__ import annotations

import numpy as np

from tastespace.arrays import DoubleArray, FloatMatrix, OffsetArray

N_TH = 100  # a suggestion from among the true best so many is good enough
TOLERANCE = 1e-5  # of the largest score of the query


def accuracies(found: FloatMatrix, best: FloatMatrix) -> DoubleArray:
    """Of each query, the share of its true best items, those of `best`, that was found; 1 where there are none."""
    wanted = np.isfinite(best).sum(axis=1)
    # Whatever scores as much as the last of the true best is one of them.
    edge = np.where(np.isfinite(best), best, np.inf).min(axis=1, initial=np.inf)
    hits = (found >= (edge - tolerances(best))[:, None]).sum(axis=1)
    shares: DoubleArray = np.where(wanted > 0, np.minimum(hits, wanted) / np.maximum(wanted, 1), 1.0)
    return shares


def accuracy(found: FloatMatrix, best: FloatMatrix) -> float:
    """The mean over the queries."""
    return float(accuracies(found, best).mean())


def positions(found: FloatMatrix, best: FloatMatrix) -> OffsetArray:
    """Where each found item truly stands, from 1, among the scores of `best`; 0 where none was found.

    What is worse than all of them stands behind the last.
    """
    limits = found.astype(np.float64) + tolerances(best)[:, None]
    places = np.stack([np.searchsorted(-row, -line) for row, line in zip(best.astype(np.float64), limits, strict=True)])
    return np.where(np.isfinite(found), places + 1, 0).astype(np.int64)


def worst_positions(positions: OffsetArray, n_wanted: int, n_items: int) -> OffsetArray:
    """The position of each query's worst suggestion; the last of all where fewer were found than `n_wanted`."""
    complete = (positions > 0).sum(axis=1) >= n_wanted
    return np.where(complete, positions.max(axis=1, initial=min(1, n_items)), n_items).astype(np.int64)


def acceptance(worst: OffsetArray, n_th: int = N_TH) -> float:
    """The share of queries whose worst suggestion is one of the true best `n_th`."""
    return float(np.mean(worst <= n_th))


def tolerances(best: FloatMatrix) -> DoubleArray:
    """What scores of each query may differ by and still be equal."""
    sizes = np.where(np.isfinite(best), np.abs(best), 0.0).max(axis=1, initial=0.0)
    allowed: DoubleArray = TOLERANCE * sizes.astype(np.float64)
    return allowed
