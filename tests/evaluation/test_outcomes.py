"""Distributions over levels held against ratings drawn from them: as sure as they should be, and noticed if not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tastespace import Prediction
from tastespace.distributions.rating_distribution import LevelRatings
from tastespace.evaluation.calibration import COVERAGES, Outcomes

N = 20_000
LEVELS = np.array([1.0, 2, 5, 10])
WITHIN = 5 * 0.5 / np.sqrt(N)  # five standard errors of a share, at most


def outcomes(said, values, rng):
    rating = LevelRatings(said, LEVELS)
    found = Prediction(
        user_ids=pl.Series(np.arange(N)),
        item_ids=pl.Series(np.zeros(N, np.int64)),
        titles=None,
        mean=rating.mean().astype(np.float32),
        cold=np.zeros(N, np.bool_),
        belief_sd=np.full(N, 0.1, np.float32),
        rating_sd=rating.sd().astype(np.float32),
        rating=rating,
    )
    return Outcomes.of(found, values.astype(np.float32), rng.random(N))


@pytest.fixture
def true(rng):
    return rng.dirichlet([1.0, 2, 3, 2], N)


@pytest.fixture
def values(true, rng):
    return LEVELS[np.sum(rng.random((N, 1)) > np.cumsum(true, axis=1)[:, :-1], axis=1)]


def test_right_distributions_are_calibrated(true, values, rng):
    found = outcomes(true, values, rng)
    assert np.abs(found.is_covered.mean(0) - found.expected.mean(0)).max() < WITHIN
    assert (found.expected >= np.array(COVERAGES) - 1e-6).all()
    assert np.abs(np.histogram(found.pit, 10, (0, 1))[0] / N - 0.1).max() < WITHIN
    assert found.is_level.all()
    assert found.levels.tolist() == LEVELS.tolist()


def test_distributions_that_are_too_sure_are_noticed(true, values, rng):
    sharp = true**2 / np.sum(true**2, axis=1, keepdims=True)
    right, wrong = outcomes(true, values, rng), outcomes(sharp, values, rng)
    assert np.abs(wrong.is_covered.mean(0) - wrong.expected.mean(0)).max() > 2 * WITHIN
    assert wrong.log_score.mean() < right.log_score.mean()
    assert wrong.crps.mean() > right.crps.mean()
