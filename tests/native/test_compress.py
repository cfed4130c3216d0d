"""Grouping by counting sort equals scipy's; bad rows are refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from tastespace import _native
from tastespace.data.csr import CSR


@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 30), n_columns=st.integers(1, 30))
def test_equals_scipy_both_ways(seed, n_rows, n_columns):
    rng = np.random.default_rng(seed)
    matrix = scipy.sparse.random(n_rows, n_columns, 0.3, random_state=rng, dtype=np.float32).tocoo()
    order = rng.permutation(matrix.nnz)
    rows, columns, values = matrix.row[order], matrix.col[order], matrix.data[order]
    grouped = CSR.group(rows, columns, values, n_rows).transposed(n_columns).transposed(n_rows)
    expected = matrix.tocsr()
    expected.sort_indices()
    np.testing.assert_array_equal(grouped.offsets, expected.indptr)
    np.testing.assert_array_equal(grouped.columns, expected.indices)
    np.testing.assert_array_equal(grouped.values, expected.data)
    np.testing.assert_array_equal(grouped.rows(), np.repeat(np.arange(n_rows), np.diff(expected.indptr)))


@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 3000), is_sorted=st.booleans())
def test_columns_ascend_as_after_turning_round_twice(seed, n_rows, is_sorted):
    rng = np.random.default_rng(seed)
    n_columns = 20
    pairs = rng.permutation(n_rows * n_columns)[: rng.integers(1, n_rows * n_columns + 1)]
    pairs = np.sort(pairs) if is_sorted else pairs
    rows, columns = (pairs // n_columns).astype(np.int32), (pairs % n_columns).astype(np.int32)
    values = rng.standard_normal(len(pairs)).astype(np.float32)
    ascending = CSR.group_ascending(rows, columns, values, n_rows)
    expected = CSR.group(columns, rows, values, n_columns).transposed(n_rows)
    for name in ("offsets", "columns", "values"):
        np.testing.assert_array_equal(getattr(ascending, name), getattr(expected, name))


@pytest.mark.parametrize("bad", [{"offsets": [0, 1]}, {"offsets": [0, 3, 2]}, {"columns": [0, -1]}, {"values": [1.0]}])
def test_rows_that_cannot_be_sorted_are_refused(bad):
    arrays = {"offsets": [0, 1, 2], "columns": [1, 0], "values": [1.0, 2.0], **bad}
    types = {"offsets": np.int64, "columns": np.int32, "values": np.float32}
    with pytest.raises(ValueError, match="offsets|columns"):
        _native.sort_rows(*(np.array(arrays[name], types[name]) for name in types))


def test_order_within_a_row_is_kept():
    rows, columns = np.array([1, 0, 1, 1], np.int32), np.array([5, 2, 3, 4], np.int32)
    grouped = CSR.group(rows, columns, np.arange(4, dtype=np.float32), 2)
    assert grouped.columns.tolist() == [2, 5, 3, 4]
    assert grouped.values.tolist() == [1, 0, 2, 3]


def test_take_picks_rows_and_leaves_new_ones_empty():
    rows, columns = np.array([0, 0, 1, 2], np.int32), np.array([1, 2, 3, 4], np.int32)
    grouped = CSR.group(rows, columns, np.ones(4, np.float32), 3)
    taken = grouped.take(np.array([2, -1, 0, 0], np.int32))
    assert taken.offsets.tolist() == [0, 1, 1, 3, 5]
    assert taken.columns.tolist() == [4, 1, 2, 1, 2]


@pytest.mark.parametrize("row", [-1, 3])
def test_rows_out_of_range_are_refused(row):
    one = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="rows"):
        CSR.group(np.array([row], np.int32), np.zeros(1, np.int32), one, 3)
    with pytest.raises(ValueError, match="columns"):
        CSR.group(np.zeros(1, np.int32), np.array([row], np.int32), one, 1).transposed(3)
