"""Scores of pairs and in draws, the places they give, and what the kernels of mixtures refuse.

What mixtures find is tested with the mixtures (tests/distributions).
"""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import _native


@pytest.mark.parametrize("n_factors", [0, 1, 7, 16, 33, 64, 100])
@pytest.mark.parametrize("biases", [True, False])
def test_scores_of_pairs_equal_the_formula(n_factors, biases, rng):
    users = rng.standard_normal((20, n_factors)).astype(np.float32)
    items = rng.standard_normal((30, n_factors)).astype(np.float32)
    user_bias = rng.standard_normal(20).astype(np.float32) if biases else None
    item_bias = rng.standard_normal(30).astype(np.float32) if biases else None
    user_rows, item_rows = rng.integers(-1, 20, 500).astype(np.int32), rng.integers(-1, 30, 500).astype(np.int32)
    expected = np.full(500, 3.5)
    for k, (user, item) in enumerate(zip(user_rows, item_rows, strict=True)):
        if user >= 0 and item >= 0:
            expected[k] += users[user].astype(float) @ items[item].astype(float)
        if biases:
            expected[k] += (user_bias[user] if user >= 0 else 0) + (item_bias[item] if item >= 0 else 0)
    for threads in (1, 2):
        out = np.empty(500, np.float32)
        _native.score_pairs(user_rows, item_rows, users, items, user_bias, item_bias, 3.5, out, threads)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_pairs_out_of_range_are_refused():
    factors, out = np.zeros((2, 3), np.float32), np.zeros(1, np.float32)
    zero = np.zeros(1, np.int32)
    for user, item in ((2, 0), (0, 2), (-2, 0)):
        with pytest.raises(ValueError, match="rows"):
            _native.score_pairs(zero + user, zero + item, factors, factors, None, None, 0.0, out)


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "out",
    [np.zeros(2), np.zeros((2, 2), np.float32)[:, 0], read_only(np.zeros(2, np.float32))],
    ids=["of another type", "not contiguous", "read-only"],
)
def test_outputs_that_would_have_to_be_copied_are_refused(out):
    """A copy would be filled, and the caller would not see it. What is only read is converted."""
    rows, factors = np.zeros(2, np.int32), np.ones((1, 3))
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _native.score_pairs(rows, rows, factors, factors, None, None, 0.0, out)
    filled = np.zeros(2, np.float32)
    _native.score_pairs(rows, rows, factors, factors, None, None, 0.0, filled)
    assert filled.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("width", [1, 7, 16, 33, 64])
def test_scores_in_draws_equal_the_formula(width, rng):
    items = rng.standard_normal((90, 5, width)).astype(np.float32)
    users = rng.standard_normal((12, width)).astype(np.float32)
    rows, chosen = rng.permutation(90)[:70].astype(np.int32), rng.integers(0, 5, 12).astype(np.int32)
    expected = np.einsum("kdw,dw->dk", items[rows][:, chosen].astype(float), users)
    found = []
    for threads in (1, 2):
        out = np.empty((12, 70), np.float32)
        _native.drawn_scores(items, rows, chosen, users, out, threads=threads)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
        found.append(out)
    np.testing.assert_array_equal(*found)
    _native.drawn_scores(items, rows[:0], chosen, users, np.empty((12, 0), np.float32))


@pytest.mark.parametrize("n_places", [3, 60])
@pytest.mark.parametrize("k", [1, 10, 90])
def test_shares_equal_the_formula(n_places, k, rng):
    """With ties, and with items that may not be shown."""
    scores = rng.integers(0, 30, (40, 90)).astype(np.float32)
    scores[:, ::7] = -np.inf
    places = rng.permutation(90)[:n_places].astype(np.int32)
    edge = np.sort(scores, axis=1)[:, ::-1][:, k - 1]
    out = np.empty(n_places, np.float32)
    _native.top_shares(scores, places, k, out)
    np.testing.assert_allclose(out, (scores[:, places] >= edge[:, None]).mean(0), atol=1e-6)


@pytest.mark.parametrize("n_places", [3, 60])
def test_what_is_no_number_is_never_among_the_best(n_places):
    scores = np.full((2, 60), np.nan, np.float32)
    scores[:, 0], scores[:, 1] = 1.0, 2.0
    out = np.empty(n_places, np.float32)
    _native.top_shares(scores, np.arange(n_places, dtype=np.int32), 1, out)
    assert out.tolist() == [0.0, 1.0] + [0.0] * (n_places - 2)


def test_rows_out_of_range_are_refused():
    items, users = np.zeros((4, 2, 3), np.float32), np.zeros((1, 3), np.float32)
    out, zero = np.zeros((1, 1), np.float32), np.zeros(1, np.int32)
    for row, draw in ((4, 0), (-1, 0), (0, 2), (0, -1)):
        with pytest.raises(ValueError, match="rows|chosen"):
            _native.drawn_scores(items, zero + row, zero + draw, users, out)
    shares = np.zeros(1, np.float32)
    for place, k in ((1, 1), (-1, 1), (0, 0), (0, 2)):
        with pytest.raises(ValueError, match="places|k:"):
            _native.top_shares(out, zero + place, k, shares)


def test_mixtures_of_other_shapes_are_refused():
    means, values = np.zeros((2, 3), np.float32), np.zeros((2, 1))
    wrong = np.zeros((3, 2), np.float32)
    for sds, weights, at, out in (
        (wrong, None, values, values),
        (means, np.zeros((1, 3), np.float32), values, values),
        (means, None, np.zeros((3, 1)), values),
        (means, None, values, np.zeros((2, 2))),
    ):
        with pytest.raises(ValueError, match="as many|one row|one per value"):
            _native.mixture_cdf(means, sds, at, out, weights=weights)
    for probability, n in ((0.0, 2), (1.0, 2), (np.nan, 2), (0.5, 3)):
        with pytest.raises(ValueError, match="probability|one per mixture"):
            _native.mixture_quantile(means, means, probability, 0.0, np.zeros(n))
    with pytest.raises(ValueError, match="component"):
        _native.mixture_cdf(np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32), values, values)


def test_what_is_no_number_is_no_place_in_the_table():
    means = np.array([[np.nan], [np.inf], [0.0]], np.float32)
    out = np.empty((3, 1))
    _native.mixture_cdf(means, np.ones((3, 1), np.float32), np.array([[0.0], [0.0], [np.nan]]), out)
    assert ((out >= 0) & (out <= 1)).all()
