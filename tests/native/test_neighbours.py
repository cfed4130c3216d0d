"""The neighbourhood kernels equal their twins; threads change nothing; bad arguments are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import neighbours as reference

from tastespace import _native
from tastespace.data.csr import CSR

SHAPES = {"n_users": st.integers(0, 12), "n_items": st.integers(1, 14), "density": st.sampled_from([0.1, 0.4, 0.9])}
ZERO = np.zeros(1, np.int64)


def drawn(rng, n_rows, n_columns, density):
    """Small integers, which are exact in float, so that ties are ties in both."""
    matrix = rng.integers(-3, 4, (n_rows, n_columns)).astype(float)
    matrix[rng.random((n_rows, n_columns)) >= density] = np.nan
    return matrix


def grouped(matrix):
    rows, columns = np.nonzero(~np.isnan(matrix))
    return CSR.group(rows, columns, matrix[rows, columns], len(matrix))


def parts(rows):
    return rows.offsets, rows.columns, rows.values


def squares(matrix):
    return np.nansum(np.nan_to_num(matrix) ** 2, axis=1)


def similarities(queries, others, rule, threads=1):
    out = np.full((len(queries), len(others)), 7, np.float32)
    arrays = (*parts(grouped(queries)), *parts(grouped(others.T)), squares(others))
    _native.similarities(*arrays, *rule.values(), out, threads)
    return out


def most_similar(rows, rule, first, least, width, threads=1):
    items, values = np.full((len(rows), width), 7, np.int32), np.full((len(rows), width), 7, np.float32)
    arrays = (*parts(grouped(rows)), *parts(grouped(rows.T)), squares(rows))
    _native.most_similar(*arrays, *rule.values(), first, least, items, values, threads)
    return items, values


def all_targets(n_users, n_items):
    return np.arange(n_users + 1) * n_items, np.tile(np.arange(n_items, dtype=np.int32), n_users)


def lists_of(alike, least, width):
    """Neighbour lists as the model keeps them: itself left out, best first."""
    n = len(alike)
    chosen = [reference.best(row, np.delete(np.arange(n), item), least, width) for item, row in enumerate(alike)]
    offsets = np.concatenate([[0], np.cumsum([len(entry) for entry in chosen])]).astype(np.int64)
    columns = np.concatenate([np.zeros(0), *chosen]).astype(np.int32)
    rows = np.repeat(np.arange(n), np.diff(offsets))
    return CSR(offsets, columns, alike[rows, columns].astype(np.float32))


def drawn_similarities(rng, n_rows, n_columns):
    """Few different values, so that there are ties; exact in float."""
    return rng.integers(-2, 5, (n_rows, n_columns)) / 8


@given(
    seed=st.integers(0, 2**32 - 1),
    n_others=st.integers(0, 12),
    common_norms=st.booleans(),
    shrinkage=st.sampled_from([0.0, 2.5, 25.0]),
    min_common=st.integers(1, 3),
    threads=st.integers(1, 3),
    **SHAPES,
)
def test_similarities_equal_their_twin(
    seed, n_users, n_items, density, n_others, common_norms, shrinkage, min_common, threads
):
    rng = np.random.default_rng(seed)
    queries, others = drawn(rng, n_users, n_items, density), drawn(rng, n_others, n_items, density)
    rule = {"common_norms": common_norms, "shrinkage": shrinkage, "min_common": min_common}
    found = similarities(queries, others, rule, threads)
    np.testing.assert_allclose(found, reference.similarities(queries, others, **rule), atol=1e-6)
    least, width = 0.1, 1 + n_items // 2
    items, values = most_similar(others, rule, 0, least, width, threads)
    alike = similarities(others, others, rule)
    for row in range(n_others):
        expected = reference.best(alike[row], np.delete(np.arange(n_others), row), least, width)
        np.testing.assert_array_equal(items[row], np.pad(expected, (0, width - len(expected)), constant_values=-1))
        np.testing.assert_array_equal(values[row, : len(expected)], alike[row, expected])
        assert (values[row, len(expected) :] == 0).all()


def test_a_forgotten_shrinkage_would_be_noticed(rng):
    matrix = drawn(rng, 6, 10, 0.5)
    rule = {"common_norms": True, "shrinkage": 3.0, "min_common": 1}
    broken = reference.similarities(matrix, matrix, **{**rule, "shrinkage": 0.0})
    assert np.abs(similarities(matrix, matrix, rule) - broken).max() > 0.1
    swapped = reference.similarities(matrix, matrix, **{**rule, "common_norms": False})
    assert np.abs(similarities(matrix, matrix, rule) - swapped).max() > 0.05


def test_no_row_is_left_out_when_rows_are_not_the_others(rng):
    matrix = drawn(rng, 5, 8, 0.9)
    rule = {"common_norms": False, "shrinkage": 0.0, "min_common": 1}
    items, values = most_similar(matrix, rule, -1, 0.0, 1)
    np.testing.assert_array_equal(items[:, 0], np.arange(5))
    np.testing.assert_allclose(values, 1, atol=1e-6)


def test_numbers_too_large_for_their_squares_are_not_similar_to_anything():
    huge = np.array([[1e30, 2e30], [3e30, 1e30]])
    for common_norms in (True, False):
        rule = {"common_norms": common_norms, "shrinkage": 0.0, "min_common": 1}
        found = similarities(huge, huge, rule)
        assert np.isfinite(found).all()
        assert (np.abs(found) <= 1).all()


@given(
    seed=st.integers(0, 2**32 - 1),
    n_neighbours=st.integers(1, 6),
    width=st.integers(1, 20),
    damping=st.sampled_from([0.0, 0.5]),
    threads=st.integers(1, 3),
    **SHAPES,
)
def test_averages_over_items_equal_their_twin(seed, n_users, n_items, density, n_neighbours, width, damping, threads):
    rng = np.random.default_rng(seed)
    residuals, alike = drawn(rng, n_users, n_items, density), drawn_similarities(rng, n_items, n_items)
    lists, histories = lists_of(alike, 0.0, width), grouped(residuals)
    rule = {"n_neighbours": n_neighbours, "least": 0.0, "damping": damping, "n_candidates": width}
    expected = reference.average_over_items(alike, residuals, **rule)
    pairs = np.full(n_users * n_items, 7, np.float32)
    targets = all_targets(n_users, n_items)
    _native.average_over_items(*targets, *parts(lists), *parts(histories), n_neighbours, damping, pairs, threads)
    np.testing.assert_allclose(pairs.reshape(expected.shape), expected, atol=1e-6)
    every = np.full((n_users, n_items), 7, np.float32)
    followers = lists.transposed(n_items)
    arrays = (*parts(lists), *parts(followers), *parts(histories))
    _native.average_over_items_of_all(*arrays, n_neighbours, damping, every, threads)
    np.testing.assert_allclose(every, expected, atol=1e-6)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_raters=st.integers(0, 12),
    n_neighbours=st.integers(1, 6),
    least=st.sampled_from([0.0, 0.25]),
    damping=st.sampled_from([0.0, 0.5]),
    threads=st.integers(1, 3),
    **SHAPES,
)
def test_averages_over_users_equal_their_twin(
    seed, n_users, n_items, density, n_raters, n_neighbours, least, damping, threads
):
    rng = np.random.default_rng(seed)
    residuals = drawn(rng, n_raters, n_items, density)
    alike = drawn_similarities(rng, n_users, n_raters).astype(np.float32)
    rule = {"n_neighbours": n_neighbours, "least": least, "damping": damping}
    expected = reference.average_over_users(alike, residuals, **rule)
    pairs, by_item = np.full(n_users * n_items, 7, np.float32), grouped(residuals).transposed(n_items)
    targets = all_targets(n_users, n_items)
    _native.average_over_users(*targets, alike, *parts(by_item), *rule.values(), pairs, threads)
    np.testing.assert_allclose(pairs.reshape(expected.shape), expected, atol=1e-6)
    every = np.full((n_users, n_items), 7, np.float32)
    _native.average_over_users_of_all(alike, *parts(grouped(residuals)), *rule.values(), every, threads)
    np.testing.assert_array_equal(every.reshape(-1), pairs)  # both sum from the most similar on


def test_a_forgotten_limit_would_be_noticed(rng):
    """The broken twin: all neighbours, however many."""
    residuals, alike = drawn(rng, 4, 9, 0.9), drawn_similarities(rng, 9, 9)
    found = np.empty((4, 9), np.float32)
    lists = lists_of(alike, 0.0, 9)
    arrays = (*parts(lists), *parts(lists.transposed(9)), *parts(grouped(residuals)))
    _native.average_over_items_of_all(*arrays, 2, 0.0, found)
    broken = reference.average_over_items(alike, residuals, n_neighbours=9, least=0.0, damping=0.0)
    assert np.abs(found - broken).max() > 0.1


def test_same_bytes_for_any_number_of_threads(rng):
    matrix = rng.standard_normal((60, 40))
    matrix[rng.random(matrix.shape) > 0.4] = np.nan
    rule = {"common_norms": True, "shrinkage": 5.0, "min_common": 2}
    lists, histories = most_similar(matrix.T, rule, 0, 0.0, 10), grouped(matrix)
    alike = similarities(matrix, matrix, rule)
    neighbours = lists_of(similarities(matrix.T, matrix.T, rule).astype(float), 0.0, 10)
    users = np.empty((60, 40), np.float32)
    _native.average_over_users_of_all(alike, *parts(histories), 5, 0.0, 0.1, users, 1)
    items = np.empty((60, 40), np.float32)
    arrays = (*parts(neighbours), *parts(neighbours.transposed(40)), *parts(histories))
    _native.average_over_items_of_all(*arrays, 5, 0.1, items, 1)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(similarities(matrix, matrix, rule, threads), alike)
        again = most_similar(matrix.T, rule, 0, 0.0, 10, threads)
        np.testing.assert_array_equal(again[0], lists[0])
        np.testing.assert_array_equal(again[1], lists[1])
        out = np.empty((60, 40), np.float32)
        _native.average_over_users_of_all(alike, *parts(histories), 5, 0.0, 0.1, out, threads)
        np.testing.assert_array_equal(out, users)
        _native.average_over_items_of_all(*arrays, 5, 0.1, out, threads)
        np.testing.assert_array_equal(out, items)


def one(column=0):
    """One row with one entry."""
    return np.array([0, 1]), np.array([column], np.int32), np.ones(1, np.float32)


@pytest.mark.parametrize(
    ("query", "others", "shape", "message"),
    [
        (one(1), one(), (1, 1), "columns"),
        (one(-1), one(), (1, 1), "columns"),
        (one(), one(1), (1, 1), "columns"),
        (one(), one(-1), (1, 1), "columns"),
        (one(), one(), (2, 1), "out"),
        (one(), one(), (1, 2), "out"),
        ((np.array([0, 2]), *one()[1:]), one(), (1, 1), "offsets"),
        (one(), (np.array([1, 0]), *one()[1:]), (1, 1), "offsets"),
        (one(), (np.zeros(0, np.int64), *one()[1:]), (1, 1), "offsets"),
        ((*one()[:2], np.ones(2, np.float32)), one(), (1, 1), "columns and values"),
    ],
)
def test_comparisons_that_do_not_fit_are_refused(query, others, shape, message):
    with pytest.raises(ValueError, match=message):
        _native.similarities(*query, *others, np.ones(1), False, 0.0, 1, np.empty(shape, np.float32))
    rows, values = np.empty((shape[0], 2), np.int32), np.empty((shape[0], 3 - shape[1]), np.float32)
    with pytest.raises(ValueError, match=message):
        _native.most_similar(*query, *others, np.ones(1), False, 0.0, 1, 0, 0.0, rows, values)


def test_averages_that_do_not_fit_are_refused():
    offsets, target, out = np.array([0, 1]), np.zeros(1, np.int32), np.empty(1, np.float32)
    alike, every = np.ones((1, 1), np.float32), np.empty((1, 1), np.float32)
    for wrong in (np.array([1], np.int32), np.array([-2], np.int32)):
        with pytest.raises(ValueError, match="targets"):
            _native.average_over_items(offsets, wrong, *one(), *one(), 1, 0.0, out)
        with pytest.raises(ValueError, match="targets"):
            _native.average_over_users(offsets, wrong, alike, *one(), 1, 0.0, 0.0, out)
    with pytest.raises(ValueError, match="histories"):
        _native.average_over_items(offsets, target, *one(), *one(1), 1, 0.0, out)
    with pytest.raises(ValueError, match="histories"):
        _native.average_over_items_of_all(*one(), *one(), *one(1), 1, 0.0, every)
    with pytest.raises(ValueError, match="follower"):
        _native.average_over_items_of_all(*one(), *one(1), *one(), 1, 0.0, every)
    with pytest.raises(ValueError, match="raters"):
        _native.average_over_users(offsets, target, alike, *one(1), 1, 0.0, 0.0, out)
    with pytest.raises(ValueError, match="rater_items"):
        _native.average_over_users_of_all(alike, *one(1), 1, 0.0, 0.0, every)
    with pytest.raises(ValueError, match="n_neighbours"):
        _native.average_over_users_of_all(alike, *one(), 0, 0.0, 0.0, every)
    # A neighbour that is none ends the list: what comes from a file is not trusted.
    _native.average_over_items(offsets, target, *one(5), *one(), 1, 0.0, out)
    assert out[0] == 0
