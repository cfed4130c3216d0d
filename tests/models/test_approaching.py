"""Newton steps to the mode of latent rows, and new items that nearly everybody rates alike."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_expit, log_ndtr, ndtr

from tastespace import BPMF
from tastespace.data.csr import CSR
from tastespace.models.factorization.likelihoods.base import Likelihood, Noise
from tastespace.models.factorization.likelihoods.logistic import Logistic
from tastespace.models.factorization.likelihoods.ordinal import LEAST_CURVATURE, CutPoints, Ordinal
from tastespace.models.factorization.rows import Factors, GivenRows, RatingBlock
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

CUTS = np.array([-1.0, 0.5])
SCORES, STEP = np.linspace(-2.5, 2.5, 33), 1e-4


def touched(likelihood, noise, scores, rating):
    """Targets and weights of one row of ratings at these scores."""
    n = len(scores)
    ratings = CSR(np.array([0, n]), np.arange(n, dtype=np.int32), np.full(n, rating, np.float32))
    rows, other = Factors(np.ones((1, 1))), Factors(scores[:, None])
    given = GivenRows("user", RatingBlock.of(ratings, np.float64, 0.0), rows, other)
    return likelihood.approach(given, noise).side


def ordinal_chance(scores, level):
    ends = np.array([-np.inf, *CUTS, np.inf])
    return np.log(ndtr(ends[level + 1] - scores) - ndtr(ends[level] - scores))


def logistic_chance(scores, level):
    return log_expit(0.3 + scores) if level else log_expit(-0.3 - scores)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_parabolas_of_levels_touch_the_log_likelihood(level):
    side = touched(Ordinal((1.0, 2.0, 3.0)), CutPoints(1.0, CUTS), SCORES, level + 1)
    above, middle, below = (ordinal_chance(SCORES + shift, level) for shift in (STEP, 0, -STEP))
    assert_allclose(side.weights * (side.targets - SCORES), (above - below) / (2 * STEP), rtol=1e-5, atol=1e-7)
    curvature = np.maximum(-(above - 2 * middle + below) / STEP**2, LEAST_CURVATURE)
    assert_allclose(side.weights, curvature, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("yes", [0, 1])
def test_parabolas_of_yes_or_no_touch_and_stay_below(yes):
    side = touched(Logistic(0.3), Noise(1.0), SCORES, yes)
    assert side.offset == 0.3
    slope = (logistic_chance(SCORES + STEP, yes) - logistic_chance(SCORES - STEP, yes)) / (2 * STEP)
    # Responses are around offset + score.
    assert_allclose(side.weights * (side.targets - 0.3 - SCORES), slope, rtol=1e-5, atol=1e-7)
    is_wrong = (0.3 + SCORES > 0) != bool(yes)
    for far in (-3.0, 1.0, 5.0):
        parabola = logistic_chance(SCORES, yes) + slope * far - 0.5 * side.weights * far**2
        assert (parabola - logistic_chance(SCORES + far, yes))[is_wrong].max() < 1e-9


def test_what_is_as_good_as_impossible_is_gone_to_straight():
    side = touched(Ordinal((1.0, 2.0, 3.0)), CutPoints(1.0, CUTS), np.array([-60.0, 60.0]), 2)
    assert_allclose(side.targets, [-1.0, 0.5])
    assert np.isfinite(log_ndtr(-60.0))  # the chance itself is not


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["probit", "logistic"])
def test_a_new_item_that_all_like_is_believed(kind, monkeypatch):
    """As after many more Gibbs steps; without the approach it would lag behind."""
    ratings = tastes(80, 50, density=0.5, rng=generator(3))[0].at_least(3)
    model = BPMF(n_factors=2, likelihood=kind, warmup=20, draws=20, thin=1, seed=1, threads=1).fit(ratings)
    users = ratings.users.ids.to_list()
    news = pl.DataFrame({"user": users, "item": [999] * len(users), "rating": [1.0] * len(users)})

    def chance(steps):
        monkeypatch.setattr(Likelihood, "row_steps", steps)
        return float(model.update(news, sweeps=0).predict(["new"], [999]).mean[0])

    found, right = chance(Likelihood.row_steps), chance(60)
    assert abs(found - right) < 0.02
    for served in (Ordinal, Logistic):  # kept draws of probit are those of two levels
        monkeypatch.setattr(served, "approach", lambda _, given, noise: given.responding(0 * given.side.targets, 0.0))
    assert chance(2) < right - 0.04
