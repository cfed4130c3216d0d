"""Factors in the coordinates that priors which shrink columns speak of: one side round, the other's columns apart.

No score changes: u goes to A u and v to A^-T v. It is where a chain starts, so that it need not first turn there, which
takes long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tastespace.arrays import DoubleArray, contiguous
from tastespace.models.factorization.als import Factors
from tastespace.models.factorization.rows import Points

LEAST_SHARE = 1e-6  # of the mean variance of a column: a direction that nobody takes has none


def in_columns(factors: Factors, *, shrinks_users: bool) -> Factors:
    """Uncorrelated columns, the widest first.

    Users are round where the items' columns shrink. Where those of the users do, items are on a sphere, and may be
    turned but not stretched.
    """
    users, items = factors.users, factors.items
    if shrinks_users:
        turn = _widest_first(_scatter(users))
        return Factors(_times(users, turn), _times(items, turn))
    n, gram = users.moments.n, users.moments.gram
    # One row more, so that a single user has a width, too.
    root = np.linalg.cholesky(_positive((_scatter(users) + gram / n) / n))
    turn = _widest_first(root.T @ _scatter(items) @ root)
    return Factors(_times(users, np.linalg.solve(root.T, turn)), _times(items, root @ turn))


def _scatter(points: Points) -> DoubleArray:
    """Around the mean."""
    rows = points.moments
    return np.asarray(rows.gram - np.outer(rows.total, rows.total) / rows.n)


def _widest_first(gram: DoubleArray) -> DoubleArray:
    """The rotation to the main axes."""
    _, turn = np.linalg.eigh(gram)
    return np.asarray(turn[:, ::-1])


def _positive(gram: DoubleArray) -> DoubleArray:
    least = max(LEAST_SHARE * float(np.trace(gram)) / len(gram), np.finfo(np.float64).tiny ** 0.5)
    return np.asarray(gram + least * np.eye(len(gram)))


def _times(points: Points, matrix: DoubleArray) -> Points:
    dtype: Any = points.factors.dtype
    return Points(contiguous(points.factors.astype(np.float64) @ matrix, dtype), points.bias)
