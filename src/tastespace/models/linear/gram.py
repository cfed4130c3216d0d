"""How often things occur together: the Gram matrix of sparse rows, plus a constant on the diagonal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.progress import Observer, Progress

if TYPE_CHECKING:
    import scipy.sparse

BLOCK_PRODUCTS = 1 << 22  # products of rows held at once in sparse form: at most 64 MB


def fill_with_gram(
    out: DoubleArray,  # n x n, C-ordered
    rows: scipy.sparse.csr_array,  # n x m
    columns: scipy.sparse.csr_array,  # m x n: the same, transposed
    diagonal: float,
    observer: Observer,
) -> None:
    """Write rows . rows^T + diagonal * I, some rows at a time."""
    n = len(out)
    step = max(1, BLOCK_PRODUCTS // max(n, 1))
    for start in range(0, n, step):
        stop = min(start + step, n)
        (rows[start:stop] @ columns).toarray(out=out[start:stop])
        observer(Progress("occurring together", stop, n))
    out[np.diag_indices(n)] += diagonal
