"""Variational rows equal their NumPy twin, in every family, and do not depend on the number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference import variational as reference

from tastespace import _native
from tastespace.models.factorization.vb.rows import Shape, packed, records_of

TOLERANCE = {np.float32: 2e-3, np.float64: 1e-10}


def problem(
    n_rows, n_columns, n_factors, *, biases, dtype, family="full", seed=1, density=0.4, long_row=0, by_row=False
):
    """Ratings of rows, beliefs about the columns, and a prior that is not a multiple of the identity.

    With `by_row` its mean differs between rows.
    """
    rng = np.random.default_rng(seed)
    is_rated = rng.random((n_rows, n_columns)) < density
    rows, columns = np.nonzero(is_rated)
    counts = np.bincount(rows, minlength=n_rows)
    if long_row:
        columns, counts = np.append(columns, rng.integers(0, n_columns, long_row)), np.append(counts, long_row)
    width = n_factors + biases
    means = (0.5 * rng.standard_normal((n_columns, width))).astype(dtype)
    roots = 0.3 * rng.standard_normal((n_columns, width, width)) / np.sqrt(width)
    covariances = roots @ roots.transpose(0, 2, 1) + 0.01 * np.eye(width)
    if family == "diagonal":
        covariances = np.stack([np.diag(np.diag(matrix)) for matrix in covariances])
    root = rng.standard_normal((n_factors, n_factors))
    given_ratings = {
        "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "columns": columns.astype(np.int32),
        "targets": rng.standard_normal(len(columns)).astype(dtype),
        "prior_precision": np.eye(n_factors) + 0.1 * root @ root.T,
        "prior_linear": rng.standard_normal(n_factors),
        "alpha": 2.5,
        "bias_precision": 1.7 if biases else None,
        "bias_linear": 0.4,
        "target_offset": 0.3,
        "target_scale": 1.5,
        "row_linear": rng.standard_normal((n_rows, width)) if by_row else None,
    }
    return given_ratings, reference.Rows(means.astype(np.float64), covariances)


def twin_prior(given_ratings, width):
    n_factors = len(given_ratings["prior_linear"])
    precision, linear = np.zeros((width, width)), np.zeros(width)
    precision[:n_factors, :n_factors] = given_ratings["prior_precision"]
    linear[:n_factors] = given_ratings["prior_linear"]
    if width > n_factors:
        precision[-1, -1], linear[-1] = given_ratings["bias_precision"], given_ratings["bias_linear"]
    return reference.Prior(precision, linear)


def of_row(given_ratings, row):
    """The arguments as they are for one row, where rows have linear terms of their own."""
    if given_ratings.get("row_linear") is None:
        return given_ratings
    n_factors, own = len(given_ratings["prior_linear"]), given_ratings["row_linear"][row]
    return given_ratings | {"prior_linear": own[:n_factors], "bias_linear": own[-1]}


def twin(given_ratings, other, biases, conclude):
    """(means, covariances, log determinants, squares) of all rows, where `conclude` says which belief is taken."""
    offsets, width = given_ratings["offsets"], other.means.shape[1]
    found = []
    values = (given_ratings["targets"].astype(np.float64) - given_ratings["target_offset"]) / given_ratings[
        "target_scale"
    ]
    for row in range(len(offsets) - 1):
        here = slice(offsets[row], offsets[row + 1])
        rated, prior = given_ratings["columns"][here], twin_prior(of_row(given_ratings, row), width)
        precision, linear = reference.natural(values[here], rated, other, prior, given_ratings["alpha"], biases)
        mean, covariance = conclude(row, precision, linear)
        squares = sum(
            reference.squared_error(value, (mean, covariance), (other.means[column], other.covariances[column]), biases)
            for value, column in zip(values[here], rated, strict=True)
        )
        found.append((mean, covariance, -np.linalg.slogdet(covariance)[1], squares))
    return [np.array(part) for part in zip(*found, strict=True)]


def packed_as(shape, covariances):
    return packed(covariances) if shape.family == "full" else np.diagonal(covariances, axis1=1, axis2=2).copy()


def solved(given_ratings, other, biases, dtype, *, diagonal=False, threads=1):
    shape = Shape(other.means.shape[1] - biases, biases, "full")
    n_rows, width = len(given_ratings["offsets"]) - 1, shape.width
    out = {
        "means": np.empty((n_rows, width), dtype),
        "records": np.empty((n_rows, shape.record), dtype),
        "covariances": np.empty((n_rows, width if diagonal else shape.covariance), dtype),
        "roots": np.empty((n_rows, width, width), dtype),
        "log_determinant": np.empty(n_rows),
        "squares": np.empty(n_rows),
    }
    records = records_of(shape, other.means.astype(dtype), packed_as(shape, other.covariances).astype(dtype))
    failed = _native.variational_rows(**given_ratings, other=records, **out, diagonal=diagonal, threads=threads)
    assert failed == -1
    return out


def assert_solved_equals_twin(n_rows, n_columns, n_factors, biases, dtype, seed, diagonal=False, **more):
    given_ratings, other = problem(
        n_rows, n_columns, n_factors, biases=biases, dtype=dtype, seed=seed, by_row=seed % 2 == 0, **more
    )
    out = solved(given_ratings, other, biases, dtype, diagonal=diagonal)
    means, covariances, log_determinants, squares = twin(
        given_ratings, other, biases, lambda row, precision, linear: reference.best(precision, linear, diagonal)
    )
    tolerance = TOLERANCE[dtype]
    close = {"rtol": tolerance, "atol": tolerance}
    assert_allclose(out["means"], means, **close)
    assert_allclose(out["roots"] @ out["roots"].transpose(0, 2, 1), covariances, **close)
    kept = np.diagonal(covariances, axis1=1, axis2=2) if diagonal else packed(covariances)
    assert_allclose(out["covariances"], kept, **close)
    assert_allclose(out["log_determinant"], log_determinants, **close)
    assert_allclose(out["squares"], squares, rtol=tolerance, atol=10 * tolerance)
    width = n_factors + biases
    assert_allclose(out["records"][:, :width], means, **close)
    second = packed(covariances + means[:, :, None] * means[:, None, :])
    assert_allclose(out["records"][:, width : width + second.shape[1]], second, **close)
    assert not out["records"][:, width + second.shape[1] :].any()


@settings(max_examples=30)
@given(
    n_rows=st.integers(1, 6),
    n_columns=st.integers(1, 90),
    n_factors=st.integers(1, 20),
    biases=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    diagonal=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_equal_their_twin_on_generated_shapes(n_rows, n_columns, n_factors, biases, dtype, diagonal, seed):
    assert_solved_equals_twin(n_rows, n_columns, n_factors, biases, dtype, seed, diagonal)


@pytest.mark.parametrize("n_factors", [7, 8, 9, 15, 16, 17, 31, 32, 33])
@pytest.mark.parametrize("biases", [True, False])
def test_rows_equal_their_twin_at_the_edges_of_registers(n_factors, biases):
    assert_solved_equals_twin(2, 70, n_factors, biases, np.float64, 3)


def coordinates(given_ratings, other, start, biases, dtype, threads=1):
    shape = Shape(other.means.shape[1] - biases, biases, "diagonal")
    n_rows = len(given_ratings["offsets"]) - 1
    records = records_of(shape, start.astype(dtype), np.zeros(start.shape, dtype))
    out = {
        "covariances": np.empty((n_rows, shape.width), dtype),
        "log_determinant": np.empty(n_rows),
        "squares": np.empty(n_rows),
    }
    others = records_of(shape, other.means.astype(dtype), packed_as(shape, other.covariances).astype(dtype))
    failed = _native.variational_coordinates(**given_ratings, other=others, records=records, **out, threads=threads)
    assert failed == -1
    return {**out, "records": records}


@settings(max_examples=30)
@given(
    n_rows=st.integers(1, 6),
    n_columns=st.integers(1, 90),
    n_factors=st.integers(1, 40),
    biases=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_coordinates_equal_their_twin_on_generated_shapes(n_rows, n_columns, n_factors, biases, dtype, seed):
    given_ratings, other = problem(
        n_rows, n_columns, n_factors, biases=biases, dtype=dtype, family="diagonal", seed=seed, by_row=seed % 2 == 0
    )
    width, tolerance = n_factors + biases, TOLERANCE[dtype]
    start = (0.3 * np.random.default_rng(seed).standard_normal((n_rows, width))).astype(dtype)
    out = coordinates(given_ratings, other, start, biases, dtype)
    means, covariances, log_determinants, squares = twin(
        given_ratings,
        other,
        biases,
        lambda row, precision, linear: reference.moved(
            precision, linear, start[row].astype(np.float64), [n_factors] if biases else []
        ),
    )
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    close = {"rtol": tolerance, "atol": tolerance}
    assert_allclose(out["records"][:, :width], means, **close)
    assert_allclose(out["records"][:, width : 2 * width], variances, **close)
    assert_allclose(out["covariances"], variances, **close)
    assert_allclose(out["log_determinant"], log_determinants, **close)
    assert_allclose(out["squares"], squares, rtol=tolerance, atol=10 * tolerance)


def far_away(family, biases, dtype, n_factors=3):
    """A problem far from 0, its twin's columns, and what the kernels are told: all less the centres of both sides."""
    given_ratings, near = problem(4, 60, n_factors, biases=biases, dtype=dtype, family=family, seed=8)
    width, rng = n_factors + biases, np.random.default_rng(2)
    rows_at, columns_at = 20 + rng.standard_normal(width), 30 + rng.standard_normal(width)
    said = rows_at[:n_factors] @ columns_at[:n_factors] + rows_at[n_factors:].sum() + columns_at[n_factors:].sum()
    prior = given_ratings["prior_precision"]
    far_ratings = given_ratings | {
        "targets": given_ratings["targets"].astype(np.float64) + given_ratings["target_scale"] * said,
        "prior_linear": given_ratings["prior_linear"] + prior @ rows_at[:n_factors],
    }
    if biases:
        far_ratings["bias_linear"] = given_ratings["bias_linear"] + given_ratings["bias_precision"] * rows_at[-1]
    far = reference.Rows(near.means + columns_at, near.covariances)
    return far_ratings, far, given_ratings | {"row_centre": rows_at, "column_centre": columns_at}, near


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("biases", [True, False])
def test_rows_far_from_nought_equal_their_twin_about_centres(biases, dtype):
    far_ratings, far, told, near = far_away("full", biases, dtype)
    means, covariances, log_determinants, squares = twin(
        far_ratings, far, biases, lambda row, precision, linear: reference.best(precision, linear)
    )
    out, tolerance = solved(told, near, biases, dtype), TOLERANCE[dtype]
    assert_allclose(out["means"], means - told["row_centre"], rtol=tolerance, atol=10 * tolerance)
    assert_allclose(out["covariances"], packed(covariances), rtol=tolerance, atol=tolerance)
    assert_allclose(out["log_determinant"], log_determinants, rtol=tolerance)
    assert_allclose(out["squares"], squares, rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("biases", [True, False])
def test_coordinates_far_from_nought_equal_their_twin_about_centres(biases, dtype):
    far_ratings, far, told, near = far_away("diagonal", biases, dtype)
    start = 0.3 * np.random.default_rng(5).standard_normal((4, 3 + biases)).astype(dtype)
    means, covariances, log_determinants, squares = twin(
        far_ratings,
        far,
        biases,
        lambda row, precision, linear: reference.moved(
            precision, linear, start[row] + told["row_centre"], [3] if biases else []
        ),
    )
    out, tolerance = coordinates(told, near, start, biases, dtype), TOLERANCE[dtype]
    assert_allclose(out["records"][:, : 3 + biases], means - told["row_centre"], rtol=tolerance, atol=10 * tolerance)
    assert_allclose(out["covariances"], np.diagonal(covariances, axis1=1, axis2=2), rtol=tolerance)
    assert_allclose(out["log_determinant"], log_determinants, rtol=tolerance)
    assert_allclose(out["squares"], squares, rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bytes_with_any_number_of_threads(dtype):
    """One row is longer than the pieces in which rows are summed."""
    given_ratings, other = problem(40, 50, 5, biases=True, dtype=dtype, long_row=70_000)
    one = solved(given_ratings, other, True, dtype)
    flat = reference.Rows(other.means, np.stack([np.diag(np.diag(matrix)) for matrix in other.covariances]))
    start = np.full((41, 6), 0.1)
    one_moved = coordinates(given_ratings, flat, start, True, dtype)
    for threads in (2, 3, 8):
        many = solved(given_ratings, other, True, dtype, threads=threads)
        assert all(many[name].tobytes() == one[name].tobytes() for name in one)
        many = coordinates(given_ratings, flat, start, True, dtype, threads)
        assert all(many[name].tobytes() == one_moved[name].tobytes() for name in one_moved)


def test_a_row_longer_than_a_piece_equals_its_twin():
    assert_solved_equals_twin(2, 20, 3, True, np.float64, 5, long_row=33_000)


def test_a_twin_that_takes_bias_and_factors_for_independent_is_noticed():
    given_ratings, other = problem(3, 30, 4, biases=True, dtype=np.float64)
    out = solved(given_ratings, other, True, np.float64)
    broken = reference.Rows(other.means, other.covariances.copy())
    broken.covariances[:, -1, :-1] = broken.covariances[:, :-1, -1] = 0
    means, *_ = twin(given_ratings, broken, True, lambda row, precision, linear: reference.best(precision, linear))
    assert np.abs(out["means"] - means).max() > 1e-3


def test_a_precision_that_is_not_positive_definite_is_named():
    given_ratings, other = problem(3, 10, 2, biases=False, dtype=np.float64)
    given_ratings["prior_precision"] = np.diag([1.0, -1e6])
    shape = Shape(2, False, "full")
    records = records_of(shape, other.means, packed(other.covariances))
    assert _native.variational_rows(**given_ratings, other=records, means=np.empty((3, 2))) == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("targets", np.zeros(1), "targets"),
        ("prior_precision", np.eye(3), "prior_precision"),
        ("alpha", 0.0, "alpha"),
        ("target_scale", 0.0, "target_scale"),
        ("columns", None, "columns"),
        ("row_centre", np.zeros(3), "row_centre"),
        ("column_centre", np.zeros(1), "column_centre"),
    ],
)
def test_what_does_not_fit_is_refused(name, value, message):
    given_ratings, other = problem(3, 10, 2, biases=False, dtype=np.float64)
    given_ratings[name] = given_ratings["columns"] + 10 if value is None else value
    records = records_of(Shape(2, False, "full"), other.means, packed(other.covariances))
    with pytest.raises(ValueError, match=message):
        _native.variational_rows(**given_ratings, other=records, means=np.empty((3, 2)))
