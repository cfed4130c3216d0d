"""Moments equal their NumPy twin, are symmetric, and do not depend on the number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import moments as reference

from tastespace import _native


def run(points, threads=1):
    n_factors = points.shape[1]
    total, gram = np.full(n_factors, np.nan), np.full((n_factors, n_factors), np.nan)
    _native.moments(points, total, gram, threads)
    return total, gram


def assert_equals_twin(points):
    for got, expected in zip(run(points), reference.moments(points), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@given(
    n=st.integers(0, 80),
    n_factors=st.integers(0, 30),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_its_twin_on_generated_shapes(n, n_factors, dtype, seed):
    assert_equals_twin(np.random.default_rng(seed).standard_normal((n, n_factors)).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_factors", [1, 7, 8, 9, 16, 20, 31, 32, 33, 50])
def test_equals_its_twin_at_the_edges_of_registers(n_factors, dtype, rng):
    assert_equals_twin(rng.standard_normal((65, n_factors)).astype(dtype))


@pytest.mark.parametrize("n", [4095, 4096, 4097, 300_001])
def test_equals_its_twin_at_the_edges_of_shares(n, rng):
    assert_equals_twin(rng.standard_normal((n, 3), dtype=np.float32))


def test_the_matrix_is_symmetric_to_the_last_bit(rng):
    _, gram = run(rng.standard_normal((10_000, 21), dtype=np.float32))
    assert np.array_equal(gram, gram.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bytes_with_any_number_of_threads(dtype, rng):
    points = rng.standard_normal((30_000, 20)).astype(dtype)
    one = run(points)
    for threads in (2, 3, 8):
        for got, expected in zip(run(points, threads), one, strict=True):
            assert got.tobytes() == expected.tobytes()


def test_sums_in_single_precision_would_be_noticed(rng):
    """Broken twin: what the tolerance is there to find."""
    points = rng.standard_normal((10_000, 2), dtype=np.float32)
    assert not np.allclose(points.sum(axis=0), reference.moments(points)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("total", "gram", "message"),
    [(np.zeros(2), np.zeros((3, 3)), "out_sum"), (np.zeros(3), np.zeros((3, 2)), "out_gram")],
)
def test_arguments_that_do_not_fit_are_refused(total, gram, message):
    with pytest.raises(ValueError, match=message):
        _native.moments(np.zeros((5, 3)), total, gram)
