"""Probabilities of levels and expected ratings from beliefs about scores, against integration and simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import norm

from tastespace.distributions import normal_mixture
from tastespace.distributions.latent_levels import (
    LOGISTIC_SCALES,
    LOGISTIC_WEIGHTS,
    LatentScores,
    RatingCurves,
)

# Stars, half stars, uneven levels, yes and no: each with where its cut-points lie about.
SCALES = {
    "stars": ([1.0, 2, 3, 4, 5], [-2.0, -1, 0.1, 1.3]),
    "half stars": (np.arange(1, 11) / 2, np.linspace(-2.5, 1.5, 9)),
    "uneven": ([1.0, 2, 5, 10], [-0.4, 0.0, 2.5]),
    "yes and no": ([0.0, 1.0], [0.0]),
}
N, S = 4, 3


@pytest.fixture(params=SCALES)
def scores(request, rng):
    """Beliefs of some pairs, wide and narrow; the draws have cut-points of their own."""
    levels, cuts = (np.array(values, np.float64) for values in SCALES[request.param])
    return LatentScores(
        means=(1.5 * rng.standard_normal((N, S))).astype(np.float32),
        sds=np.exp(0.7 * rng.standard_normal((N, S)) - 0.7).astype(np.float32),
        cuts=cuts + np.sort(0.1 * rng.standard_normal((S, len(cuts))), axis=1),
        levels=levels,
        weights=rng.dirichlet(np.ones(S), N).astype(np.float32),
    )


@pytest.fixture
def yes_no(rng):
    means, sds = (3 * rng.standard_normal((N, S)), np.exp(rng.standard_normal((N, S))))
    return LatentScores(means.astype(np.float32), sds.astype(np.float32), None, np.array([0.0, 1.0]))


def given_score(score, cuts, levels):
    """Probabilities of the levels, from the definition."""
    if cuts is None:
        return np.array([expit(-score), expit(score)])
    return np.diff(ndtr(np.concatenate([[-np.inf], cuts, [np.inf]]) - score))


def integrated(function, mean, sd):
    """E function(z) over N(mean, sd^2)."""
    return quad(lambda z: function(z) * norm.pdf(z, mean, sd), mean - 9 * sd, mean + 9 * sd, limit=300, epsabs=1e-11)[0]


def by_draw(found, function):
    """E function(probabilities given the score), over the belief of each pair in each draw; n x S."""
    rows = []
    for row in range(len(found)):
        rows.append([])
        for draw in range(found.means.shape[1]):
            cuts = None if found.cuts is None else found.cuts[draw]
            belief = float(found.means[row, draw]), float(found.sds[row, draw])
            of_score = integrated(lambda z, cuts=cuts: function(given_score(z, cuts, found.levels)), *belief)
            rows[-1].append(of_score)
    return np.array(rows)


def averaged(found, of_draws):
    return np.average(of_draws, axis=1, weights=found.weights)


def test_probabilities_by_integration(scores):
    found = scores.ratings.level_probabilities()
    assert found.shape == (N, len(scores.levels))
    assert_allclose(found.sum(1), 1, rtol=1e-14)
    for level in range(len(scores.levels)):
        assert_allclose(found[:, level], averaged(scores, by_draw(scores, lambda p, at=level: p[at])), atol=1e-7)


def test_logistic_probabilities_by_integration(yes_no):
    expected = averaged(yes_no, by_draw(yes_no, lambda p: p[1]))
    found = yes_no.ratings.probabilities
    assert_allclose(found[:, 1], expected, atol=3e-7)
    assert_allclose(found.sum(1), 1, rtol=1e-14)
    # What a narrow belief would say: far from it, so that the test sees whether the spread counts.
    assert np.abs(expit(yes_no.means).mean(1) - expected).max() > 0.01


def test_the_mixture_of_normals_is_logistic_everywhere():
    z = np.linspace(-60, 60, 120_001)
    mixture = ndtr(z[:, None] * np.array(LOGISTIC_SCALES)) @ np.array(LOGISTIC_WEIGHTS)
    assert np.abs(mixture - expit(z)).max() < 1e-7
    assert sum(LOGISTIC_WEIGHTS) == pytest.approx(1, abs=1e-12)


def test_two_levels_are_the_other_way_round_for_the_opposite_score(yes_no):
    back = replace(yes_no, means=-yes_no.means)
    assert_allclose(yes_no.ratings.probabilities, back.ratings.probabilities[:, ::-1], rtol=1e-12)


def test_expected_ratings_and_their_spread_by_integration(scores):
    levels = scores.levels
    expected = by_draw(scores, lambda p: p @ levels)
    squares = by_draw(scores, lambda p: (p @ levels) ** 2)
    mean = averaged(scores, expected)
    sd = np.sqrt(averaged(scores, squares) - mean**2)
    assert_allclose(scores.mean(), mean, rtol=1e-6)
    assert_allclose(scores.sd(), sd, rtol=5e-3)
    # Twins that forget what is uncertain within a draw, or between the draws, would be noticed.
    between = np.sqrt(averaged(scores, (expected - mean[:, None]) ** 2))
    within = np.sqrt(averaged(scores, squares - expected**2))
    assert (between < 0.95 * sd).any()
    assert (within < 0.95 * sd).any()


def test_the_spread_of_a_chance_by_integration(yes_no):
    expected, squares = by_draw(yes_no, lambda p: p[1]), by_draw(yes_no, lambda p: p[1] ** 2)
    sd = np.sqrt(squares.mean(1) - expected.mean(1) ** 2)
    assert_allclose(yes_no.sd(), sd, rtol=0.02)
    assert_allclose(yes_no.mean(), expected.mean(1), atol=3e-7)


def test_a_simulation_of_the_whole_story(scores, rng):
    """A draw by its weight, a score of its belief, noise, the cut-points: how often each level comes out."""
    n, row = 200_000, 2
    draws = rng.choice(S, n, p=scores.weights[row].astype(float) / scores.weights[row].astype(float).sum())
    latent = scores.means[row, draws] + scores.sds[row, draws] * rng.standard_normal(n) + rng.standard_normal(n)
    places = np.sum(latent[:, None] > scores.cuts[draws], axis=1)
    shares = np.bincount(places, minlength=len(scores.levels)) / n
    assert_allclose(scores.ratings.level_probabilities()[row], shares, atol=5 * 0.5 / np.sqrt(n))


def test_both_tails_are_right():
    """Far below and far above all cut-points: by symmetry the same, not rounded to nothing."""
    means, sds, cuts = np.array([[-20.0], [20.0]]), np.zeros((2, 1)), np.array([[-1.0, 1.0]])
    below, above = LatentScores(means, sds, cuts, np.arange(3.0)).ratings.probabilities
    assert_allclose(below, above[::-1], rtol=1e-12)
    assert below[2] == pytest.approx(ndtr(-21.0), rel=1e-12)
    assert below[1] == pytest.approx(ndtr(-19.0), rel=1e-8)
    low, high = LatentScores(np.array([[-25.0], [25.0]]), sds, None, np.array([0.0, 1.0])).ratings.probabilities
    assert 0 < low[1] == high[0] < 1e-8


def test_cut_points_of_all_draws_together(scores):
    shared = replace(scores, cuts=scores.cuts[:1])
    apart = replace(scores, cuts=np.repeat(scores.cuts[:1], S, axis=0))
    assert_array_equal(shared.ratings.probabilities, apart.ratings.probabilities)
    curves = RatingCurves.of(scores.cuts[:1], scores.levels)
    assert_array_equal(
        curves.at(scores.means), RatingCurves.of(np.repeat(scores.cuts[:1], S, 0), scores.levels).at(scores.means)
    )


def test_curves_against_the_formula(scores, rng):
    at = (6 * rng.standard_normal((200, S))).astype(np.float32)
    at[0], at[1] = 1e30, -1e30
    expected = [
        [given_score(z, scores.cuts[s], scores.levels) @ scores.levels for s, z in enumerate(row)] for row in at
    ]
    span = scores.levels[-1] - scores.levels[0]
    assert_allclose(RatingCurves.of(scores.cuts, scores.levels).at(at), expected, atol=2e-5 * span)
    some = [2, 0, 2]
    taken = RatingCurves.of(scores.cuts, scores.levels).take(some)
    assert_array_equal(taken.at(at[:, some]), RatingCurves.of(scores.cuts, scores.levels).at(at)[:, some])


def test_the_logistic_curve(rng):
    at = np.array([[-1e9, -3.3, 0.0], [1.7, 5.0, 1e9]], np.float32)
    assert_allclose(RatingCurves.of(None, np.array([0.0, 1.0])).at(at), expit(at), atol=1e-5)


def test_cut_points_far_apart_make_no_endless_table():
    curves = RatingCurves.of(np.array([[-1e5, 0.0, 1e5]]), np.array([1.0, 2, 3, 4]))
    assert curves.heights.shape[1] < 20_000
    assert_allclose(curves.at(np.array([[-2e5], [-5e4], [5e4], [2e5]], np.float32))[:, 0], [1, 2, 3, 4], atol=1e-3)


def test_blocks_make_no_difference(scores, yes_no, monkeypatch):
    def everything():
        return [
            answer
            for found in (scores, LatentScores(scores.means, scores.sds, scores.cuts, scores.levels), yes_no)
            for fresh in [LatentScores(found.means, found.sds, found.cuts, found.levels, found.weights)]
            for answer in (fresh.mean(), fresh.sd(), fresh.ratings.level_probabilities())
        ]

    whole = everything()
    monkeypatch.setattr(normal_mixture, "BLOCK", 2 * S)
    for one, other in zip(whole, everything(), strict=True):
        assert_array_equal(one, other)


def test_draws_count_by_their_weights(scores):
    equal = LatentScores(scores.means, scores.sds, scores.cuts, scores.levels)
    same = np.full((N, S), 1 / S, np.float32)
    weighed = LatentScores(scores.means, scores.sds, scores.cuts, scores.levels, same)
    assert_allclose(weighed.sd(), equal.sd(), rtol=1e-5)
    assert_allclose(weighed.ratings.probabilities, equal.ratings.probabilities, rtol=1e-6)
    assert equal.ratings.effective_draws is None
    assert_allclose(weighed.ratings.effective_draws, S, rtol=1e-6)
    assert (scores.ratings.effective_draws < S).all()
    one = np.zeros((N, S), np.float32)
    one[:, 2] = 1
    only = LatentScores(scores.means, scores.sds, scores.cuts, scores.levels, one)
    alone = LatentScores(scores.means[:, 2:3], scores.sds[:, 2:3], scores.cuts[2:3], scores.levels)
    assert_allclose(only.mean(), alone.mean(), rtol=1e-6)
    assert_allclose(only.sd(), alone.sd(), rtol=1e-4, atol=1e-5)


def test_no_pairs_at_all():
    nothing = LatentScores(
        np.zeros((0, S), np.float32), np.zeros((0, S), np.float32), np.zeros((1, 1)), np.array([0.0, 1])
    )
    assert nothing.mean().shape == nothing.sd().shape == (0,)
    assert nothing.ratings.level_probabilities().shape == (0, 2)
