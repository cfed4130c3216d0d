"""Scores in draws and the places they give, against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import _native


@pytest.mark.parametrize("width", [1, 7, 16, 33, 64])
def test_scores_equal_the_formula(width, rng):
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
