"""Information and slope against finite differences of the chances themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr

from tastespace.distributions.latent_levels import (
    MIN_INFORMATION,
    logistic_information,
    ordinal_information,
    ordinal_slope,
)

SCORES = np.linspace(-3, 3, 25)[:, None].repeat(2, axis=1)
CUTS, LEVELS, STEP = np.array([[-1.5, 0.2, 0.9], [-0.5, 0.0, 2.0]]), np.array([1.0, 2.0, 2.5, 5.0]), 1e-5


def chances(scores):
    below = [ndtr(cut - scores) for cut in CUTS.T]
    return np.diff([np.zeros_like(scores), *below, np.ones_like(scores)], axis=0)


def test_levels():
    slopes = (chances(SCORES + STEP) - chances(SCORES - STEP)) / (2 * STEP)
    assert_allclose(ordinal_information(SCORES, CUTS), np.sum(slopes**2 / chances(SCORES), axis=0), rtol=1e-6)
    assert_allclose(ordinal_slope(SCORES, CUTS, LEVELS), np.einsum("lns,l->ns", slopes, LEVELS), rtol=1e-6)


def test_yes_or_no():
    slope = (expit(SCORES + STEP) - expit(SCORES - STEP)) / (2 * STEP)
    assert_allclose(logistic_information(SCORES), slope, rtol=1e-6)


def test_a_rating_tells_less_than_its_latent_response_and_more_levels_tell_more():
    few, many = ordinal_information(SCORES, CUTS[:, 1:2]), ordinal_information(SCORES, CUTS)
    assert (few < many).all()
    assert (many < 1).all()


@pytest.mark.parametrize("score", [-1e4, -40.0, 40.0, 1e4])
def test_what_is_certain_tells_nothing_and_breaks_nothing(score):
    scores = np.full((1, 2), score)
    assert_allclose(ordinal_information(scores, CUTS), MIN_INFORMATION)
    assert_allclose(logistic_information(scores), MIN_INFORMATION)
    assert_allclose(ordinal_slope(scores, CUTS, LEVELS), 0, atol=1e-12)
