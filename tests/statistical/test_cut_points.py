"""The move of the cut-points, with the latent responses integrated out: it keeps their prior, and it moves.

Seeds are fixed. Over fresh ones a right move would fail once in a million times where nothing else is said.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tastespace.data.ratings import Ratings
from tastespace.models.factorization.likelihoods import cut_points
from tastespace.models.factorization.likelihoods.ordinal import CutPoints, Ordinal
from tastespace.models.factorization.rows import Factors, GivenRows, RatingBlock
from tastespace.randomness import generator

pytestmark = pytest.mark.statistical

LEVELS = (1.0, 1.5, 4.0)


class NoGapPrior(Ordinal):
    """The prior of the log gaps dropped from the Metropolis ratio."""

    def settle(self, users, noise, rng):
        kept = cut_points.log_prior
        cut_points.log_prior = lambda place: kept(np.append(place[0], np.full(len(place) - 1, -0.5)))
        try:
            return super().settle(users, noise, rng)
        finally:
            cut_points.log_prior = kept


class NoProposalRatio(Ordinal):
    """Always accepted: as if the proposal were the posterior."""

    def settle(self, users, noise, rng):
        grid = cut_points.ScoreGrid.of(users.side, users.scores(), self.edges, 1)
        return CutPoints(1.0, cut_points.cuts_at(cut_points.propose(grid).draw(rng)))


def moved_cuts(likelihood, n, moves, n_ratings=4):
    """Cut-points from the prior, moved so often given ratings drawn with them: n independent draws of the prior again.

    Ratings have known scores, and are few, where Newton's approximation to propose from is at its worst. As standard
    normals, n x 2: the first cut-point and the log gap.
    """
    rng, places = generator(7), np.arange(n_ratings)
    where = Ratings.from_arrays(np.zeros_like(places), places, np.zeros(n_ratings))
    user, drawn = Factors(np.zeros((1, 1)), np.zeros(1)), np.empty((n, 2))
    for place in range(n):
        noise = likelihood.sample(1, n_ratings, rng)
        items = Factors(np.zeros((n_ratings, 1)), rng.standard_normal(n_ratings))
        values = likelihood.simulate(items.bias, where, noise, rng)
        rated = replace(where, values=values.astype(np.float32))
        given = GivenRows("user", RatingBlock.of(rated.by_user, np.float64, 0.0), user, items)
        for _ in range(moves):
            noise = likelihood.settle(given, noise, rng)
        drawn[place] = noise.cuts[0] / 2, np.log(np.diff(noise.cuts)[0]) + 0.5
    return drawn


def p_value_of_normals(drawn):
    """That columns are standard normal, by their means and sums of squares, which have exact distributions."""
    n = len(drawn)
    of_means = 2 * stats.norm.sf(np.abs(drawn.sum(0)) / n**0.5)
    squares = (drawn**2).sum(0)
    of_squares = 2 * np.minimum(stats.chi2.cdf(squares, n), stats.chi2.sf(squares, n))
    return min(1.0, (len(of_means) + len(of_squares)) * min(of_means.min(), of_squares.min()))


@pytest.mark.parametrize(("n", "moves", "n_ratings"), [(2500, 1, 4), (300, 3, 4), (500, 3, 20)])
def test_moving_cut_points_keeps_their_prior(n, moves, n_ratings):
    """On ratings that were drawn with them: sharper than Geweke's test, as no draw depends on another."""
    assert p_value_of_normals(moved_cuts(Ordinal(LEVELS), n, moves, n_ratings)) > 1e-6


@pytest.mark.parametrize(
    ("twin", "n", "moves"),
    [(NoGapPrior, 300, 3), (NoProposalRatio, 2500, 1)],
    ids=["prior of the gaps dropped", "proposal not corrected for"],
)
def test_broken_moves_do_not_keep_it(twin, n, moves):
    assert p_value_of_normals(moved_cuts(twin(LEVELS), n, moves)) < 1e-8


def of_one_row(values):
    return RatingBlock(np.array([0, len(values)]), np.zeros(len(values), np.int32), values)


def test_the_grid_gives_the_sums_over_all_ratings(rng):
    score, cuts = rng.normal(0.3, 1.2, 5000), np.array([-1.0, 0.2, 1.7])
    values = np.searchsorted(cuts, score + rng.standard_normal(5000)).astype(np.float64)
    grid = cut_points.ScoreGrid.of(of_one_row(values), score, np.array([0.5, 1.5, 2.5]), 1)
    exact = cut_points.log_probabilities(score, cuts)[values.astype(int), np.arange(5000)].sum()
    assert grid.log_likelihood(cuts) == pytest.approx(exact, abs=1e-4)
    np.testing.assert_allclose(grid.counts, np.bincount(values.astype(int)), atol=1e-8)
    _, gradient, hessian = grid.derivatives(cuts)
    for place in range(3):
        move = np.eye(3)[place] * 1e-4
        up, down = grid.derivatives(cuts + move), grid.derivatives(cuts - move)
        assert (up[0] - down[0]) / 2e-4 == pytest.approx(gradient[place], rel=1e-5, abs=1e-4)
        np.testing.assert_allclose((up[1] - down[1]) / 2e-4, hessian[place], rtol=1e-4, atol=1e-2)


def test_cut_points_of_a_million_ratings_move(rng):
    """Given the latent responses they would be frozen; given the scores a proposal is taken most times."""
    n, cuts = 1_000_000, np.array([-1.5, -0.5, 0.6, 1.8])
    score = rng.standard_normal(n)
    values = 1.0 + np.searchsorted(cuts, score + rng.standard_normal(n))
    grid = cut_points.ScoreGrid.of(of_one_row(values), score, np.array([1.5, 2.5, 3.5, 4.5]), 1)
    here, drawn = cuts, []
    for _ in range(200):
        here = cut_points.draw_cuts(grid, here, rng)
        drawn.append(here)
    drawn = np.array(drawn)
    assert np.mean(np.any(np.diff(drawn, axis=0) != 0, axis=1)) > 0.7
    # Where the truth is, within five posterior standard deviations: once in 400 000 times for four cut-points.
    assert np.all(np.abs(drawn.mean(0) - cuts) < 5 * drawn.std(0) + 1e-3)
