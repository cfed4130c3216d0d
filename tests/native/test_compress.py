"""Grouping by counting sort equals scipy's; bad rows are refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from tastespace.data.compressed import Compressed


@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 30), n_columns=st.integers(1, 30))
def test_equals_scipy_both_ways(seed, n_rows, n_columns):
    rng = np.random.default_rng(seed)
    matrix = scipy.sparse.random(n_rows, n_columns, 0.3, random_state=rng, dtype=np.float32).tocoo()
    order = rng.permutation(matrix.nnz)
    rows, columns, values = matrix.row[order], matrix.col[order], matrix.data[order]
    grouped = Compressed.group(rows, columns, values, n_rows).transposed(n_columns).transposed(n_rows)
    expected = matrix.tocsr()
    expected.sort_indices()
    np.testing.assert_array_equal(grouped.offsets, expected.indptr)
    np.testing.assert_array_equal(grouped.columns, expected.indices)
    np.testing.assert_array_equal(grouped.values, expected.data)
    np.testing.assert_array_equal(grouped.rows(), np.repeat(np.arange(n_rows), np.diff(expected.indptr)))


def test_order_within_a_row_is_kept():
    rows, columns = np.array([1, 0, 1, 1], np.int32), np.array([5, 2, 3, 4], np.int32)
    grouped = Compressed.group(rows, columns, np.arange(4, dtype=np.float32), 2)
    assert grouped.columns.tolist() == [2, 5, 3, 4]
    assert grouped.values.tolist() == [1, 0, 2, 3]


def test_take_picks_rows_and_leaves_strangers_empty():
    rows, columns = np.array([0, 0, 1, 2], np.int32), np.array([1, 2, 3, 4], np.int32)
    grouped = Compressed.group(rows, columns, np.ones(4, np.float32), 3)
    taken = grouped.take(np.array([2, -1, 0, 0], np.int32))
    assert taken.offsets.tolist() == [0, 1, 1, 3, 5]
    assert taken.columns.tolist() == [4, 1, 2, 1, 2]


@pytest.mark.parametrize("row", [-1, 3])
def test_rows_out_of_range_are_refused(row):
    one = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="rows"):
        Compressed.group(np.array([row], np.int32), np.zeros(1, np.int32), one, 3)
    with pytest.raises(ValueError, match="columns"):
        Compressed.group(np.zeros(1, np.int32), np.array([row], np.int32), one, 1).transposed(3)
