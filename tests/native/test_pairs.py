"""Scores of pairs equal the formula; strangers contribute nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import _native


@pytest.mark.parametrize("n_factors", [0, 1, 7, 16, 33, 64, 100])
@pytest.mark.parametrize("biases", [True, False])
def test_equals_the_formula(n_factors, biases, rng):
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


def test_rows_out_of_range_are_refused():
    factors, out = np.zeros((2, 3), np.float32), np.zeros(1, np.float32)
    zero = np.zeros(1, np.int32)
    for user, item in ((2, 0), (0, 2), (-2, 0)):
        with pytest.raises(ValueError, match="rows"):
            _native.score_pairs(zero + user, zero + item, factors, factors, None, None, 0.0, out)
