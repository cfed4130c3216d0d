"""Products of sparse features with dense rows, and Gibbs passes over features, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import _native
from tastespace.models.factorization.priors.coefficients import STRIP, from_strips, in_strips
from tastespace.models.factorization.priors.design import Sparse
from tastespace.randomness import generator


def sparse(n_rows, n_columns, seed, density=0.3):
    return sp.random_array((n_rows, n_columns), density=density, rng=generator(seed), format="csr")


@pytest.mark.parametrize("width", [1, 3, 8, 17, 33, 64])
@pytest.mark.parametrize("threads", [1, 3])
def test_products_are_those_of_scipy(width, threads):
    matrix, dense = sparse(150, 40, 1), generator(2).standard_normal((40, width))
    np.testing.assert_allclose(Sparse.of(matrix).times(dense, threads), matrix @ dense, rtol=1e-12, atol=1e-12)


def test_empty_matrices_have_empty_products():
    assert Sparse.of(sp.csr_array((0, 4))).times(np.ones((4, 3))).shape == (0, 3)
    np.testing.assert_array_equal(Sparse.of(sp.csr_array((5, 0))).times(np.ones((0, 3))), np.zeros((5, 3)))


@pytest.mark.parametrize("width", [1, 8, 11])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_pass_draws_one_feature_after_another(width, threads):
    matrix, rng = sparse(30, 12, 3), generator(4)
    dense, prior = matrix.toarray(), rng.uniform(0.5, 2, 12)
    squares = (dense**2).sum(axis=0)
    start, noise, target = (rng.standard_normal((n, width)) for n in (12, 12, 30))
    expected, residual = start.copy(), target - dense @ start
    for feature in range(12):
        column, precision = dense[:, feature], squares[feature] + prior[feature]
        mean = (column @ residual + squares[feature] * expected[feature]) / precision
        drawn = mean + noise[feature] / np.sqrt(precision)
        residual -= np.outer(column, drawn - expected[feature])
        expected[feature] = drawn
    entries = Sparse.of(matrix.T)
    coefficients, residuals = in_strips(start), in_strips(target - dense @ start)
    _native.feature_pass(
        *(entries.offsets, entries.columns, entries.values, squares, prior, in_strips(noise), coefficients, residuals),
        threads,
    )
    np.testing.assert_allclose(from_strips(coefficients, width), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(from_strips(residuals, width), residual, rtol=1e-10, atol=1e-10)
    assert coefficients.shape[2] == STRIP


def test_wrong_shapes_are_refused():
    entries = Sparse.of(sparse(10, 4, 5))
    with pytest.raises(ValueError, match="out"):
        _native.sparse_product(entries.offsets, entries.columns, entries.values, np.ones((4, 3)), np.ones((10, 2)))
    with pytest.raises(ValueError, match="columns"):
        _native.sparse_product(entries.offsets, entries.columns, entries.values, np.ones((2, 3)), np.ones((10, 3)))
    strips = np.zeros((1, 4, STRIP))
    with pytest.raises(ValueError, match="noise"):
        _native.feature_pass(
            *(Sparse.of(sparse(10, 4, 5).T).offsets, np.zeros(len(entries.columns), np.int32), entries.values),
            *(np.ones(4), np.ones(4), np.zeros((1, 3, STRIP)), strips, np.zeros((1, 10, STRIP))),
        )
