"""Curves: the isotonic step against scipy's, its optimum, the inverse, and scales of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import isotonic_regression, minimize

from tastespace.models.factorization.monotone.curves import (
    Scale,
    best_curves,
    fitted,
    grouped,
    inverted,
    isotonic,
    moments,
    normalised,
    ratings_of,
    relative_errors,
    values_at,
)
from tastespace.randomness import generator

STARS = np.arange(1.0, 6.0)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_isotonic_rows_are_those_of_scipy(n_levels, seed):
    rng = generator(seed)
    means = np.round(rng.standard_normal((4, n_levels)), 1)  # rounded, so that there are ties
    weights = rng.integers(1, 9, (4, n_levels)).astype(float)
    rows = [isotonic_regression(m, weights=w).x for m, w in zip(means, weights, strict=True)]
    assert_allclose(isotonic(means, weights), rows, atol=1e-12)
    assert (np.diff(isotonic(means, weights), axis=1) >= 0).all()


def test_a_normalised_curve_has_the_mean_and_variance_that_it_should():
    rng = generator(1)
    weights, curves = rng.random((3, 5)) + 0.1, np.sort(rng.standard_normal((3, 5)), axis=1)
    changed = normalised(curves, weights, STARS)
    assert_allclose(moments(changed, weights), moments(np.tile(STARS, (3, 1)), weights))
    assert_array_equal(normalised(np.full((1, 5), 2.0), weights[:1], STARS), STARS[None])  # nothing to stretch


def test_no_rising_curve_of_that_mean_and_variance_is_nearer():
    """Against a general optimiser, from many starts: a curve as increments, normalised."""
    rng = generator(2)
    counts, means = np.array([[4.0, 9, 2, 7, 5]]), np.array([[1.0, 0.4, 2.2, 2.0, 3.5]])
    best = fitted(counts * means, counts, STARS, 0.0)

    def distance(steps):
        curve = normalised(np.cumsum(np.exp(steps))[None], counts, STARS)
        return float((counts * (curve - means) ** 2).sum())

    found = min(minimize(distance, rng.standard_normal(5), method="Nelder-Mead").fun for _ in range(10))
    ours = float((counts * (best - means) ** 2).sum())
    assert ours <= found + 1e-6
    # A plausible mistake: the variance fixed before the order is.
    wrong = isotonic(normalised(means, counts, STARS), counts)
    assert abs(moments(wrong, counts)[1][0] - moments(STARS[None], counts)[1][0]) > 0.01


def test_few_ratings_are_held_by_the_shared_curve_and_one_level_takes_it():
    shared = np.array([0.5, 2.2, 3.1, 4.0, 4.9])
    counts = np.array([[0.0, 0, 9, 0, 0], [1, 0, 0, 1, 0], [100, 100, 100, 100, 100]])
    own = np.array([1.0, 1.1, 1.2, 4.5, 5.0])
    curves = fitted(counts * own, counts, shared, 20.0)
    assert_array_equal(curves[0], shared)
    light, heavy = np.abs(curves[1] - shared).max(), np.abs(curves[2] - shared).max()
    assert light < 0.15 < 0.5 < heavy
    assert (np.diff(curves, axis=1) >= 0).all()
    nothing = fitted(np.zeros((1, 5)), np.zeros((1, 5)), shared, 20.0)
    assert_array_equal(nothing, shared[None])


def test_the_inverse_undoes_the_curve_and_keeps_the_order():
    curve = np.array([[0.5, 2.2, 3.1, 4.0, 4.9]])
    scale = Scale(STARS)
    values = np.linspace(0.0, 6.0, 61)
    rows = np.zeros(len(values), np.int32)
    scores = values_at(curve, rows, scale.places(values))
    assert (np.diff(scores) > 0).all()
    ratings = ratings_of(curve, np.ones((1, 5)), STARS)
    back = inverted(curve, ratings, rows, scores)
    assert_allclose(back, values, atol=1e-12)


def test_levels_of_one_value_stand_for_their_mean_by_count():
    curve, counts = np.array([[1.0, 2.0, 2.0, 2.0, 5.0]]), np.array([[1.0, 6, 2, 2, 1]])
    ratings = ratings_of(curve, counts, STARS)
    middle = (6 * 2 + 2 * 3 + 2 * 4) / 10
    assert_allclose(ratings, [[1, middle, middle, middle, 5]], atol=1e-5)
    scores = np.array([0.0, 1.0, 1.5, 2.0, 3.5, 5.0, 6.0])
    found = inverted(curve, ratings, np.zeros(7, np.int32), scores)
    assert_allclose(found, [0, 1, (1 + middle) / 2, middle, (middle + 5) / 2, 5, 6], atol=1e-5)
    flat = inverted(np.full((1, 5), 3.0), np.full((1, 5), 2.5), np.zeros(2, np.int32), np.array([0.0, 9.0]))
    assert_array_equal(flat, [2.5, 2.5])


@pytest.mark.parametrize("values", [[1, 2, 5], [0.5, 1.0, 4.5, 5.0], [3.0]])
def test_a_scale_of_levels_has_them_all(values):
    scale = Scale.of(np.array(values, np.float32))
    assert_array_equal(scale.levels, values)
    places = scale.places(np.array(values))
    assert_array_equal(places.nearest, np.arange(len(values)))
    assert_allclose(values_at(scale.levels[None], np.zeros(len(values), int), places), values)


def test_a_continuous_scale_has_bins_and_keeps_the_order_within():
    values = generator(3).uniform(-10, 10, 5000).astype(np.float32)
    scale = Scale.of(values)
    assert len(scale) == 50
    assert np.bincount(scale.places(values).nearest).min() > 50  # of 100 on average
    rows = np.zeros(len(values), np.int32)
    assert_allclose(values_at(scale.levels[None], rows, scale.places(values)), values, atol=1e-5)
    bent = np.cumsum(generator(4).random((1, 50)))[None]
    order = np.argsort(values)
    assert (np.diff(values_at(bent, rows, scale.places(values))[order]) >= 0).all()


def test_k_means_finds_groups_and_no_more_than_there_are():
    rng = generator(5)
    kinds = np.array([[1.0, 1.5, 3, 4.5, 5], [1, 2.8, 3, 3.2, 5], [1, 4, 4.4, 4.8, 5]])
    of = rng.integers(0, 3, 60)
    curves = kinds[of] + 0.02 * rng.standard_normal((60, 5))
    cells = grouped(curves, np.full((60, 5), 4.0), 3, generator(0))
    assert all(len(np.unique(cells[of == kind])) == 1 for kind in range(3))
    assert len(np.unique(cells)) == 3
    same = grouped(np.repeat(kinds[:1], 4, axis=0), np.ones((4, 5)), 7, generator(0))
    assert_array_equal(same, 0)
    two = grouped(kinds[:2], np.ones((2, 5)), 7, generator(0))
    assert sorted(two) == [0, 1]


def test_a_flat_curve_does_not_suit_because_it_is_flat():
    counts, average = np.full((1, 5), 10.0), np.full(5, 0.2)
    flat = 3 + 0.01 * (STARS - 3)
    # Errors as large as the spread of the ratings on each curve: neither says anything.
    squares = [50 * moments(curve[None], average[None])[1] ** 2 for curve in (STARS, flat)]
    errors = [relative_errors(s, c, counts, average)[0] for s, c in zip(squares, (STARS, flat), strict=True)]
    assert_allclose(*errors, atol=1e-9)
    assert squares[1] < squares[0] / 1000  # by plain squares the flat one would be chosen


def test_who_has_rated_little_stays_with_the_shared_curve():
    assert best_curves(np.array([[0.0, -1.0, -1.2], [0.0, -5.0, -9.0]])).tolist() == [0, 2]
