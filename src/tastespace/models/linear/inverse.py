"""The inverse of a large symmetric matrix in the memory that the matrix has."""

from __future__ import annotations

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.errors import NonFiniteStateError
from tastespace.progress import Observer, Progress

BLOCK_ROWS = 512  # mirrored at once: both sides of a block stay in the cache


def invert(matrix: DoubleArray, observer: Observer) -> None:
    """Replace a positive definite matrix (n x n, C-ordered) by its inverse: Cholesky, then the inverse of the factors.

    LAPACK does both in place: n^3 multiplications in all, a third of them for the factors.
    """
    from scipy.linalg.lapack import dpotrf, dpotri

    observer(Progress("inverting", 0, 2))
    # LAPACK counts by columns: what it calls the lower triangle is the upper one by rows.
    factor, failed = dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    _require(failed)
    observer(Progress("inverting", 1, 2))
    inverse, failed = dpotri(factor, lower=1, overwrite_c=1)
    _require(failed)
    assert np.shares_memory(inverse, matrix), "LAPACK worked on a copy"
    _mirror(matrix)
    observer(Progress("inverting", 2, 2))


def _mirror(matrix: DoubleArray) -> None:
    """Copy the upper triangle to the lower one."""
    n = len(matrix)
    for start in range(0, n, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, n)
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
        block = matrix[start:stop, start:stop]
        block[:] = np.triu(block) + np.triu(block, 1).T


def _require(failed: int) -> None:
    if failed:
        raise NonFiniteStateError(
            "the matrix of what occurs together cannot be inverted: in double precision it is singular; expected a "
            "larger regularisation"
        )
