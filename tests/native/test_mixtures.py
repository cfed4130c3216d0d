"""What the kernels of mixtures refuse; what they find is tested with the mixtures (tests/distributions)."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import _native


def test_other_shapes_are_refused():
    means, values = np.zeros((2, 3), np.float32), np.zeros((2, 1))
    wrong = np.zeros((3, 2), np.float32)
    for sds, weights, at, out in (
        (wrong, None, values, values),
        (means, np.zeros((1, 3), np.float32), values, values),
        (means, None, np.zeros((3, 1)), values),
        (means, None, values, np.zeros((2, 2))),
    ):
        with pytest.raises(ValueError, match="as many|one row|one a value"):
            _native.mixture_cdf(means, sds, at, out, weights=weights)
    for probability, n in ((0.0, 2), (1.0, 2), (np.nan, 2), (0.5, 3)):
        with pytest.raises(ValueError, match="probability|one a mixture"):
            _native.mixture_quantile(means, means, probability, 0.0, np.zeros(n))
    with pytest.raises(ValueError, match="component"):
        _native.mixture_cdf(np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32), values, values)


def test_what_is_no_number_is_no_place_in_the_table():
    means = np.array([[np.nan], [np.inf], [0.0]], np.float32)
    out = np.empty((3, 1))
    _native.mixture_cdf(means, np.ones((3, 1), np.float32), np.array([[0.0], [0.0], [np.nan]]), out)
    assert ((out >= 0) & (out <= 1)).all()
