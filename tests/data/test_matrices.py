"""Ratings from and to matrices: what is stored, what is missing, whose row it is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from reference.triples import triples

from tastespace.data.ratings import Ratings
from tastespace.errors import DataError, InvalidParameterError

NAN = float("nan")
DENSE = np.array([[5.0, 0.0, 3.0], [0.0, 0.0, 0.0], [0.0, 1.0, 4.0]])
FORMATS = ["coo", "csr", "csc", "lil", "dok", "bsr", "dia"]
matrices = arrays.arrays(
    np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(-2, 5)
)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("make", [sparse.coo_array, sparse.coo_matrix], ids=["array", "matrix"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8])
def test_every_format_says_the_same(name, make, dtype):
    ratings = Ratings.from_sparse(make(DENSE.astype(dtype)).asformat(name))
    assert sorted(triples(ratings)) == [(0, 0, 5), (0, 2, 3), (2, 1, 1), (2, 2, 4)]
    assert ratings.values.dtype == np.float32


def test_yes_and_no_are_one_and_nothing():
    assert triples(Ratings.from_sparse(sparse.csr_array(DENSE > 3))) == [(0, 0, 1), (2, 2, 1)]
    assert triples(Ratings.from_dense(DENSE > 3, missing=0)) == [(0, 0, 1), (2, 2, 1)]
    assert len(Ratings.from_dense(DENSE > 3, missing=NAN)) == 9


def test_those_without_ratings_are_left_out_and_the_others_keep_their_ids():
    ratings = Ratings.from_sparse(sparse.csr_array(DENSE), user_ids=["ann", "bob", "cat"])
    assert ratings.users.ids.to_list() == ["ann", "cat"]
    assert ratings.items.ids.to_list() == [0, 2, 1]
    assert Ratings.from_sparse(sparse.csr_array(DENSE)).users.ids.to_list() == [0, 2]


@pytest.mark.parametrize("name", ["coo", "csr", "csc"])
def test_a_stored_zero_is_a_rating(name):
    matrix = sparse.coo_array(([0.0, 2.0], ([0, 1], [1, 0])), shape=(2, 2)).asformat(name)
    assert sorted(triples(Ratings.from_sparse(matrix))) == [(0, 1, 0), (1, 0, 2)]


@pytest.mark.parametrize("name", ["bsr", "dia"])
def test_zeros_that_fill_up_are_none(name):
    matrix = sparse.coo_array(DENSE[:2, :2]).asformat(name)
    assert triples(Ratings.from_sparse(matrix)) == [(0, 0, 5)]


@pytest.mark.parametrize(("duplicates", "value"), [("last", 2), ("sum", 6), ("mean", 2)])
def test_entries_of_the_same_place_are_duplicates(duplicates, value):
    matrix = sparse.coo_array(([1.0, 3.0, 4.0, 2.0], ([0, 0, 1, 0], [1, 1, 0, 1])), shape=(2, 2))
    ratings = Ratings.from_sparse(matrix, duplicates=duplicates)
    assert dict([(pair[:2], pair[2]) for pair in triples(ratings)]) == {(1, 0): 4, (0, 1): value}
    assert ratings.merged == 2
    assert matrix.nnz == 4  # the caller's matrix is as it was


def test_duplicates_can_be_refused():
    matrix = sparse.csr_array(([1.0, 3.0], [1, 1], [0, 2]), shape=(1, 2))
    with pytest.raises(DataError, match="user 'ann' rated item 1 more than once"):
        Ratings.from_sparse(matrix, user_ids=["ann"], duplicates="error")
    assert triples(Ratings.from_sparse(matrix)) == [(0, 1, 3)]
    with pytest.raises(InvalidParameterError, match="duplicates is 'first'"):
        Ratings.from_sparse(matrix, duplicates="first")


@pytest.mark.parametrize("missing", [None, "0", True, float("inf"), [0]])
def test_what_is_missing_must_be_said(missing):
    with pytest.raises(
        InvalidParameterError, match=r"missing is .*not rated' in the matrix: missing=0, missing=float\('nan'\)"
    ):
        Ratings.from_dense(DENSE, missing=missing)


def test_saying_nothing_says_why():
    with pytest.raises(InvalidParameterError, match="missing is None; expected the value that means 'not rated'"):
        Ratings.from_dense(DENSE)


def test_missing_zero():
    assert triples(Ratings.from_dense(DENSE, missing=0)) == [(0, 0, 5), (0, 2, 3), (2, 1, 1), (2, 2, 4)]
    with pytest.raises(DataError, match="row 1, column 2: not a rating: 'nan'; expected a finite number"):
        Ratings.from_dense(np.array([[5, 0, 3], [0, 0, NAN]]), missing=0)


def test_missing_nan():
    ratings = Ratings.from_dense([[5, NAN, 0], [NAN, NAN, 3]], missing=NAN)
    assert triples(ratings) == [(0, 0, 5), (0, 2, 0), (1, 2, 3)]  # zeros are ratings


def test_another_number_can_be_missing():
    assert triples(Ratings.from_dense([[99, -9.5], [0, 99]], missing=99)) == [(0, 1, -9.5), (1, 0, 0)]


@pytest.mark.parametrize("missing", [0, NAN])
@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e39])
def test_what_is_not_finite_is_refused(missing, value):
    with pytest.raises(DataError, match="row 1, column 0: not a rating: '-?(inf|1e[+]39)'; expected a finite number"):
        Ratings.from_dense([[1.0, 2.0], [value, 1.0]], missing=missing)
    with pytest.raises(DataError, match="row 0, column 1: not a rating"):
        Ratings.from_sparse(sparse.csr_array([[0.0, value]]))


def test_ids_of_a_pandas_frame():
    frame = pd.DataFrame([[5, None], [None, 3.5]], index=["ann", "bob"], columns=[10, 20])
    assert triples(Ratings.from_dense(frame, missing=NAN)) == [("ann", 10, 5), ("bob", 20, 3.5)]
    given = Ratings.from_dense(frame, missing=NAN, user_ids=[1, 2], item_ids=["x", "y"])
    assert triples(given) == [(1, "x", 5), (2, "y", 3.5)]
    nullable = frame.astype("Float64")
    assert triples(Ratings.from_dense(nullable, missing=NAN)) == [("ann", 10, 5), ("bob", 20, 3.5)]
    pivoted = pd.DataFrame({"user": [1, 2], "item": list("ab"), "rating": [4, 5]}).pivot(
        index="user", columns="item", values="rating"
    )
    assert triples(Ratings.from_dense(pivoted, missing=NAN)) == [(1, "a", 4), (2, "b", 5)]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (sparse.csr_array(DENSE), r"a dense matrix that is sparse; expected Ratings.from_sparse\(matrix\)"),
        (np.ma.masked_equal(DENSE, 0), "a dense matrix that is masked; expected matrix.filled"),
        (pl.DataFrame({"user": [1, 2], "x": [3, 4]}), "a dense matrix that is a polars frame; expected .*user_ids="),
        (pd.DataFrame({"user": ["a", "b"], "x": [3, 4]}), "entries that are no numbers .* expected a frame of ratings"),
        ([[1, 2], [3]], "this is no matrix .* expected rows of the same length"),
        ([1, 2, 3], "a matrix of 1 dimensions; expected a row per user, a column per item"),
        (np.ones((2, 2, 2)), "a matrix of 3 dimensions"),
        ([["1", "2"]], "a matrix of type <U1; expected numbers"),
        ([[1 + 2j]], "a matrix of type complex128; expected numbers"),
        (np.zeros((3, 3)), "the matrix has no ratings; expected at least one"),
        (np.zeros((0, 3)), "the matrix has no ratings"),
    ],
)
def test_what_is_no_dense_matrix_is_refused(matrix, message):
    with pytest.raises(DataError, match=message):
        Ratings.from_dense(matrix, missing=0)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (DENSE, "a sparse matrix that is a ndarray; expected one of scipy.sparse; Ratings.from_dense takes dense"),
        (None, "a sparse matrix that is a NoneType"),
        (sparse.coo_array(np.ones(3)), "a matrix of 1 dimensions"),
        (sparse.csr_array((3, 3)), "the matrix has no ratings"),
        (sparse.csr_array([[1j]]), "a matrix of type complex128"),
    ],
)
def test_what_is_no_sparse_matrix_is_refused(matrix, message):
    with pytest.raises(DataError, match=message):
        Ratings.from_sparse(matrix)


def test_ids_must_fit():
    for build in (
        lambda **ids: Ratings.from_dense(DENSE, missing=0, **ids),
        lambda **ids: Ratings.from_sparse(sparse.csr_array(DENSE), **ids),
    ):
        with pytest.raises(DataError, match="2 user ids for 3 users in the matrix; expected as many of each"):
            build(user_ids=["a", "b"])
        with pytest.raises(DataError, match="4 item ids for 3 items in the matrix"):
            build(item_ids=range(4))
        with pytest.raises(DataError, match="the item id 'x' occurs more than once; expected different ids"):
            build(item_ids=["x", "y", "x"])
        with pytest.raises(DataError, match="user: the id at position 1 is missing"):
            build(user_ids=["a", None, "b"])


@given(matrices)
def test_dense_there_and_back(dense):
    is_rated = dense != -2
    if not is_rated.any():
        return
    ratings = Ratings.from_dense(dense, missing=-2)
    back = np.full(dense.shape, -2, np.float32)
    stored = ratings.to_sparse().tocoo()
    users, items = ratings.users.ids.to_numpy(), ratings.items.ids.to_numpy()
    back[users[stored.row], items[stored.col]] = stored.data
    np.testing.assert_array_equal(back, dense)


@given(matrices, st.sampled_from(["coo", "csr", "csc"]))
def test_sparse_there_and_back(dense, name):
    matrix = sparse.coo_array(dense)
    if not matrix.nnz:
        return
    ratings = Ratings.from_sparse(matrix.asformat(name))
    users, items = ratings.users.ids.to_numpy(), ratings.items.ids.to_numpy()
    np.testing.assert_array_equal(ratings.to_sparse().toarray(), dense[np.ix_(users, items)])


def test_the_matrix_of_ratings():
    ratings = Ratings.from_arrays(["b", "a", "b"], [7, 7, 3], [0, 2, 3])
    matrix = ratings.to_sparse()
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.shape == (2, 2)
    assert matrix.nnz == 3  # the zero is there
    assert (matrix.indices.dtype, matrix.indptr.dtype, matrix.data.dtype) == (np.int32, np.int32, np.float32)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 3], [2, 0]])
    matrix.data[:] = 9  # the caller's to change
    assert ratings.values.tolist() == [0, 2, 3]
    assert ratings.by_user.values.tolist() == [0, 3, 2]


def test_rows_without_ratings_stay_in_the_matrix():
    ratings = Ratings.from_arrays([1, 2], [1, 2], [4, 5]).masked(np.array([True, False]))
    np.testing.assert_array_equal(ratings.to_sparse().toarray(), [[4, 0], [0, 0]])
