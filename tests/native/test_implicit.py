"""Conjugate gradients for rows of one-class data, and rotations, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import _native
from tastespace.randomness import generator

WIDTHS = [1, 3, 16, 17, 40, 64]


def problem(n_rows, n_columns, n_factors, seed=1, density=0.3):
    """Observations, and the other side in coordinates in which its Gram matrix is diagonal."""
    rng = generator(seed)
    observed = rng.random((n_rows, n_columns)) < density
    observed[0] = False  # somebody without any
    rows, columns = np.nonzero(observed)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64)
    points = rng.standard_normal((n_columns, n_factors))
    points = points @ np.linalg.eigh(points.T @ points)[1]
    return {
        "offsets": offsets,
        "columns": columns.astype(np.int32),
        "weights": rng.gamma(2.0, size=len(rows)).astype(np.float32),
        "pulls": rng.gamma(3.0, size=len(rows)).astype(np.float32),
        "other": points.astype(np.float32),
        "diagonal": np.diag(points.T @ points).astype(np.float32),
        "ridge": rng.gamma(2.0, size=n_rows).astype(np.float32),
    }, rng


def solved(given, row, linear=None):
    """The minimum of one row's energy, in double."""
    here = slice(given["offsets"][row], given["offsets"][row + 1])
    linear = linear[row] if linear is not None and linear.ndim == 2 else linear
    points = given["other"][given["columns"][here]].astype(float)
    matrix = np.diag(given["diagonal"].astype(float) + given["ridge"][row])
    matrix += (points * given["weights"][here, None]).T @ points
    right = points.T @ given["pulls"][here] + (0 if linear is None else linear)
    return np.linalg.solve(matrix, right)


@pytest.mark.parametrize("n_factors", WIDTHS)
@pytest.mark.parametrize("has_linear", [False, True])
def test_with_enough_steps_the_minimum_is_found(n_factors, has_linear):
    given, rng = problem(12, 50, n_factors)
    linear = rng.standard_normal(n_factors).astype(np.float32) if has_linear else None
    out = rng.standard_normal((12, n_factors)).astype(np.float32)
    _native.descend_rows(**given, out=out, linear=None if linear is None else linear[None], steps=60)
    for row in range(12):
        assert_allclose(out[row], solved(given, row, linear), rtol=2e-3, atol=2e-4)


def test_every_row_may_have_a_linear_term_of_its_own():
    given, rng = problem(12, 50, 17)
    linear = rng.standard_normal((12, 17)).astype(np.float32)
    out = np.zeros((12, 17), np.float32)
    _native.descend_rows(**given, out=out, linear=linear, steps=60)
    for row in range(12):
        assert_allclose(out[row], solved(given, row, linear), rtol=2e-3, atol=2e-4)
        if row:  # Another row's would be noticed.
            assert np.abs(out[row] - solved(given, row, np.roll(linear, 1, axis=0))).max() > 1e-2


def test_every_step_goes_down():
    given, rng = problem(8, 60, 24)
    start = rng.standard_normal((8, 24)).astype(np.float32)

    def energy(out, row):
        here = slice(given["offsets"][row], given["offsets"][row + 1])
        scores = given["other"][given["columns"][here]].astype(float) @ out[row]
        own = 0.5 * np.sum((given["diagonal"] + given["ridge"][row]) * out[row].astype(float) ** 2)
        return own + np.sum(0.5 * given["weights"][here] * scores**2 - given["pulls"][here] * scores)

    before = [energy(start, row) for row in range(8)]
    for steps in (1, 2, 4, 8):
        out = start.copy()
        _native.descend_rows(**given, out=out, steps=steps)
        after = [energy(out, row) for row in range(8)]
        assert (np.array(after) < np.array(before))[1:].all()
        before = after
    # The one without observations is there after the first step.
    assert after[0] == pytest.approx(0, abs=1e-6)


def test_at_the_minimum_it_stays():
    given, _ = problem(6, 40, 16)
    there = np.array([solved(given, row) for row in range(6)], np.float32)
    out = there.copy()
    _native.descend_rows(**given, out=out, steps=3)
    assert_allclose(out, there, rtol=1e-4, atol=1e-5)


def test_a_row_without_observations_is_where_the_prior_has_it():
    given, _ = problem(4, 30, 8)
    linear = np.arange(8, dtype=np.float32)
    out = np.ones((4, 8), np.float32)
    _native.descend_rows(**given, out=out, linear=linear[None], steps=1)
    assert_allclose(out[0], linear / (given["diagonal"] + given["ridge"][0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_nothing(threads):
    given, rng = problem(300, 90, 20)
    start = rng.standard_normal((300, 20)).astype(np.float32)
    one, many = start.copy(), start.copy()
    _native.descend_rows(**given, out=one, steps=3)
    _native.descend_rows(**given, out=many, steps=3, threads=threads)
    assert_array_equal(one, many)


@pytest.mark.parametrize("n_factors", WIDTHS)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1500])
def test_rotation(n, n_factors):
    rng = generator(2)
    points, matrix = rng.standard_normal((n, n_factors)), rng.standard_normal((n_factors, n_factors))
    one, two = np.empty((n, n_factors), np.float32), np.empty((n, n_factors), np.float32)
    _native.rotate_rows(points.astype(np.float32), matrix.astype(np.float32), one)
    _native.rotate_rows(points.astype(np.float32), matrix.astype(np.float32), two, threads=3)
    assert_allclose(one, points @ matrix, rtol=1e-4, atol=1e-4)
    assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("weights", np.ones(1, np.float32)),
        ("pulls", np.ones(1, np.float32)),
        ("other", np.ones((50, 3), np.float32)),
        ("diagonal", np.ones(3, np.float32)),
        ("ridge", np.ones(3, np.float32)),
        ("linear", np.ones((1, 3), np.float32)),
        ("steps", -1),
    ],
)
def test_what_does_not_fit_is_refused(name, wrong):
    given, _ = problem(6, 50, 4)
    with pytest.raises(ValueError, match=name):
        _native.descend_rows(**{**given, "out": np.zeros((6, 4), np.float32), name: wrong})


def test_columns_must_be_rows_of_the_other_side():
    given, _ = problem(6, 50, 4)
    with pytest.raises(ValueError, match="columns"):
        _native.descend_rows(**{**given, "columns": given["columns"] + 1000}, out=np.zeros((6, 4), np.float32))
    with pytest.raises(ValueError, match="matrix"):
        _native.rotate_rows(np.ones((5, 4), np.float32), np.ones((3, 3), np.float32), np.ones((5, 4), np.float32))
