"""Every likelihood is drawn from its own posterior: uneven noise, levels, yes and no.

Geweke's test, calibration and the log joint, as for the Gaussian sweep (test_gibbs.py), on the same few ratings. Each
fault a likelihood invites has a broken twin, which must fail. Seeds are fixed; over fresh ones a right sampler would
fail a test once in a million times (1e-6 after Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from reference.small_story import N_FACTORS, PRIOR, WHERE, Silent, functionals
from scipy import stats
from scipy.special import expit

from tastespace import _native
from tastespace.distributions.gamma import Gamma
from tastespace.distributions.known_mean import KnownMean
from tastespace.models.factorization import cut_points
from tastespace.models.factorization.likelihoods import Responses
from tastespace.models.factorization.ordered_probit import CutPoints, OrderedProbit
from tastespace.models.factorization.rows import Side, row_scores
from tastespace.models.factorization.story import FactorModel, scores
from tastespace.models.factorization.uneven_noise import UnevenNoise, UnevenPrecision
from tastespace.models.factorization.yes_no import Logistic, Probit
from tastespace.randomness import generator
from tastespace.testing.calibration import simulation_based_calibration
from tastespace.testing.geweke import geweke

pytestmark = pytest.mark.statistical

CENTRED = replace(PRIOR, bias=KnownMean(0.0, 5.0, 5.0))  # cut-points are where the scores are: biases have no mean
LEVELS = OrderedProbit((1.0, 1.5, 4.0))
UNEVEN = UnevenNoise(Gamma(5.0, 5.0))
LIKELIHOODS = {
    "uneven": UNEVEN,
    "uneven, alpha fixed": UnevenNoise(1.7),
    "levels": LEVELS,
    "two levels": OrderedProbit((0.0, 1.0)),
    "probit": Probit(0.3),
    "logistic": Logistic(-0.4),
}


def story(likelihood):
    prior = CENTRED if isinstance(likelihood, OrderedProbit) else PRIOR
    return FactorModel(N_FACTORS, True, likelihood, prior, prior, offset=0.0, scale=1.0, dtype=np.float64)


def sampler(likelihood, observed, **options):
    return Silent(**vars(story(likelihood).bind(observed, **options)))


def errors_in_their_units(params, ratings):
    noise = params.noise
    errors = ratings.values - scores(params, ratings.user_rows, ratings.item_rows)
    return np.cbrt(np.sum(noise.alpha * noise.users[ratings.user_rows] * noise.items[ratings.item_rows] * errors**2))


def first_user_error(params, ratings):
    """The noise of a user goes with his errors."""
    errors = ratings.values - scores(params, ratings.user_rows, ratings.item_rows)
    return np.log(params.noise.users[0]) * np.tanh(np.sum(errors[ratings.user_rows == 0] ** 2))


OF_UNEVEN = {
    "log alpha": lambda params, ratings: np.log(params.alpha),
    "log user precisions": lambda params, ratings: np.log(params.noise.users).mean(),
    "log item precisions": lambda params, ratings: np.log(params.noise.items).mean(),
    "of the user without ratings": lambda params, ratings: np.log(params.noise.users[3]),
    "log user concentration": lambda params, ratings: np.log(params.noise.user_concentration),
    "log item concentration": lambda params, ratings: np.log(params.noise.item_concentration),
    "errors in their units": errors_in_their_units,
    "precision with error": first_user_error,
}


def of_ratings(params, ratings):
    score = scores(params, ratings.user_rows, ratings.item_rows)
    return np.mean(np.tanh(score) * (ratings.values > 1.25 if ratings.values.max() > 1 else ratings.values))


def cut_levels(params):
    return LEVELS.levels if len(params.noise.cuts) == 2 else (0.0, 1.0)


def log_chance(params, ratings):
    """Whether cut-points go with the scores that they were drawn beside."""
    log_p = cut_points.log_probabilities(scores(params, ratings.user_rows, ratings.item_rows), params.noise.cuts)
    return np.mean(log_p[np.searchsorted(cut_levels(params), ratings.values), np.arange(len(ratings))])


def cuts_with_scores(params, ratings):
    """Independent under the story, though ratings tell of both."""
    score = scores(params, ratings.user_rows, ratings.item_rows)
    return np.tanh(params.noise.cuts.mean()) * np.tanh(score.mean())


def chosen(likelihood):
    """What is looked at: as for the Gaussian, and what the likelihood learns."""
    kept = {
        name: function
        for name, function in functionals(biases=True).items()
        if name not in ("log noise precision", "squared errors") and not ("bias mean" in name and is_levels(likelihood))
    }
    if isinstance(likelihood, UnevenNoise):
        return kept | OF_UNEVEN
    kept |= {"levels with scores": of_ratings, "mean level": lambda params, ratings: ratings.values.mean()}
    if is_levels(likelihood):
        kept["log chance"] = log_chance
        kept["cuts with scores"] = cuts_with_scores
        kept["first cut"] = lambda params, ratings: params.noise.cuts[0]
        for gap in range(len(likelihood.levels) - 2):
            kept[f"log gap {gap + 1}"] = lambda params, ratings, at=gap: np.log(np.diff(params.noise.cuts)[at])
    return kept


def is_levels(likelihood):
    return isinstance(likelihood, OrderedProbit)


# The log joint


def log_likelihood_by_the_book(params, ratings, likelihood):
    score = scores(params, ratings.user_rows, ratings.item_rows)
    noise, values = params.noise, ratings.values.astype(np.float64)
    if isinstance(likelihood, UnevenNoise):
        precision = noise.alpha * noise.users[ratings.user_rows] * noise.items[ratings.item_rows]
        total = stats.norm.logpdf(values, score, precision**-0.5).sum()
        total += stats.gamma.logpdf(noise.users, noise.user_concentration, scale=1 / noise.user_concentration).sum()
        total += stats.gamma.logpdf(noise.items, noise.item_concentration, scale=1 / noise.item_concentration).sum()
        return total + (stats.gamma.logpdf(noise.alpha, 5.0, scale=0.2) if likelihood is UNEVEN else 0.0)
    if is_levels(likelihood):
        edges = np.concatenate([[-np.inf], noise.cuts, [np.inf]])
        level = np.searchsorted(likelihood.levels, values)
        chances = stats.norm.cdf(edges[level + 1] - score) - stats.norm.cdf(edges[level] - score)
        prior = stats.norm.logpdf(noise.cuts[0], 0, 2) + stats.norm.logpdf(np.log(np.diff(noise.cuts)), -0.5, 1).sum()
        return np.log(chances).sum() + prior
    yes = stats.norm.cdf(0.3 + score) if isinstance(likelihood, Probit) else expit(-0.4 + score)
    return np.log(np.where(values == 1, yes, 1 - yes)).sum()


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_log_joint_is_that_of_the_story(name):
    likelihood, rng = LIKELIHOODS[name], generator(1)
    model = story(likelihood)
    for _ in range(5):
        params = model.sample_prior(WHERE, rng)
        ratings = model.simulate(params, WHERE, rng)
        rest = model.user_prior.log_density(params.user_population) + model.item_prior.log_density(
            params.item_population
        )
        rest += params.user_population.log_density(params.users.moments)
        rest += params.item_population.log_density(params.items.moments)
        expected = log_likelihood_by_the_book(params, ratings, likelihood) + rest
        assert model.log_joint(params, ratings) == pytest.approx(expected, rel=1e-6, abs=1e-5)


# Geweke and calibration


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_steps_and_simulations_keep_the_joint_distribution(name):
    likelihood = LIKELIHOODS[name]
    result = geweke(
        story(likelihood),
        lambda observed: sampler(likelihood, observed),
        WHERE,
        chosen(likelihood),
        n=6000 if is_levels(likelihood) else 4000,
        rng=generator(7),
    )
    result.assert_passes()


@pytest.mark.parametrize("name", ["uneven", "levels", "probit", "logistic"])
def test_posteriors_are_calibrated(name):
    """From the start that a fit makes, too."""
    likelihood = LIKELIHOODS[name]
    looked_at = {key: value for key, value in chosen(likelihood).items() if "log squared biases" not in key}
    looked_at["unrated pair"] = lambda params, ratings: scores(params, np.array([0]), np.array([2]))[0]
    result = simulation_based_calibration(
        story(likelihood),
        lambda observed: sampler(likelihood, observed),
        WHERE,
        looked_at,
        n=100,
        draws=19,
        warmup=20,
        thin=4,
        rng=generator(7),
    )
    result.assert_passes()


# Broken twins


class NotRedrawn(OrderedProbit):
    """Cut-points move with the latent responses integrated out, and these stay where they were: of the old levels."""

    def settle(self, observed, users, items, noise, rng, threads):
        moved = super().settle(observed, users, items, CutPoints(1.0, noise.cuts), rng, threads)
        return Stale(1.0, moved.cuts, noise.cuts)

    def responses(self, axis, side, rows, other, noise, rng, threads):
        before = CutPoints(1.0, noise.before) if isinstance(noise, Stale) else noise
        return super().responses(axis, side, rows, other, before, rng, threads)


@dataclass(frozen=True, eq=False)
class Stale(CutPoints):
    """Cut-points, and those before them."""

    before: np.ndarray


class NoGapPrior(OrderedProbit):
    """The prior of the log gaps dropped from the Metropolis ratio."""

    def settle(self, observed, users, items, noise, rng, threads):
        kept = cut_points.log_prior
        cut_points.log_prior = lambda place: kept(np.append(place[0], np.full(len(place) - 1, -0.5)))
        try:
            return super().settle(observed, users, items, noise, rng, threads)
        finally:
            cut_points.log_prior = kept


class NoProposalRatio(OrderedProbit):
    """Always accepted: as if the proposal were the posterior."""

    def settle(self, observed, users, items, noise, rng, threads):
        side = observed.by_user
        score = row_scores(side, users, items)
        grid = cut_points.ScoreGrid.of(score, side.targets, self.edges, 1)
        return CutPoints(1.0, cut_points.cuts_at(cut_points.propose(grid).draw(rng)))


class NotTruncated(Probit):
    """Latent responses that do not know their label."""

    def responses(self, axis, side, rows, other, noise, rng, threads):
        responses = row_scores(side, rows, other, self.offset) + rng.standard_normal(len(side.columns))
        return Responses(Side(side.offsets, side.columns, responses, offset=self.offset), 1.0)


class OneTail(OrderedProbit):
    """The upper end of a level forgotten."""

    def responses(self, axis, side, rows, other, noise, rng, threads):
        score = row_scores(side, rows, other)
        level = np.searchsorted(self.edges, side.targets)
        low = np.append(-np.inf, noise.cuts)[level]
        drawn = stats.truncnorm.rvs(low - score, np.inf, loc=score, random_state=rng)
        return Responses(Side(side.offsets, side.columns, drawn), 1.0)


class IgnoresScore(Logistic):
    """Weights drawn as if every score were 0."""

    def responses(self, axis, side, rows, other, noise, rng, threads):
        weights = np.zeros(len(side.columns))
        _native.draw_polya_gamma(weights, int(rng.integers(1 << 63)), weights, 1)
        targets = (side.targets - 0.5) / weights
        return Responses(Side(side.offsets, side.columns, targets, weights=weights, offset=self.offset), 1.0)


class WrongShape(UnevenNoise):
    """The precision of a user with n ratings drawn from Gamma(k + n, ...) for Gamma(k + n / 2, ...)."""

    def learn(self, axis, side, squares, noise, rng):
        drawn = super().learn(axis, side, squares, noise, rng)
        if axis == "item":
            return drawn
        shape = noise.user_concentration + np.diff(side.offsets)
        users = rng.gamma(shape) / (noise.user_concentration + noise.alpha * squares / 2)
        return replace(drawn, users=users)


class UnweightedErrors(UnevenNoise):
    """alpha learned from errors that are not weighted with the users' precisions."""

    def learn(self, axis, side, squares, noise, rng):
        drawn = super().learn(axis, side, squares, noise, rng)
        if axis == "item":
            return drawn
        return replace(drawn, alpha=self.precision.posterior(len(side.columns), float(squares.sum())).draw(rng))


class SharedWithoutVolume(UnevenNoise):
    """alpha c and factors / c with the volume of the change of scale left out."""

    def settle(self, observed, users, items, noise, rng, threads):
        shape = len(noise.users) * (noise.user_concentration - 1) - self.precision.shape
        if shape > 0:
            factor = noise.user_concentration * noise.users.sum() / rng.gamma(shape)
            noise = replace(noise, alpha=noise.alpha * factor, users=noise.users / factor)
        return super().settle(observed, users, items, noise, rng, threads)


TWINS = {
    "latent responses not redrawn": NotRedrawn((1.0, 1.5, 4.0)),
    "prior of the gaps dropped": NoGapPrior((1.0, 1.5, 4.0)),
    "proposal not corrected for": NoProposalRatio((1.0, 1.5, 4.0)),
    "one tail forgotten": OneTail((1.0, 1.5, 4.0)),
    "not truncated": NotTruncated(0.3),
    "weights ignore the score": IgnoresScore(-0.4),
    "wrong gamma shape": WrongShape(Gamma(5.0, 5.0)),
    "errors not weighted": UnweightedErrors(Gamma(5.0, 5.0)),
    "volume left out": SharedWithoutVolume(Gamma(5.0, 5.0)),
}


# Steps, and inner sweeps of each, for faults that take longer to tell: scores that ignore the labels stay near those
# that the labels were drawn from, until several sweeps have moved them.
LONGER = {"latent responses not redrawn": (3500, 5), "not truncated": (2000, 5), "weights ignore the score": (8000, 1)}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_do_not_keep_it(twin):
    likelihood, (n, inner_sweeps) = TWINS[twin], LONGER.get(twin, (4000, 1))
    result = geweke(
        story(likelihood),
        lambda observed: sampler(likelihood, observed, inner_sweeps=inner_sweeps),
        WHERE,
        chosen(likelihood),
        n=n,
        rng=generator(7),
    )
    assert result.p_value < 1e-6, result
    assert "not finite" in (result.failure or "") or max(abs(row.z) for row in result.rows) > 6, result


# What is drawn with the responses integrated out


def test_the_grid_gives_the_sums_over_all_ratings(rng):
    score, cuts = rng.normal(0.3, 1.2, 5000), np.array([-1.0, 0.2, 1.7])
    values = np.searchsorted(cuts, score + rng.standard_normal(5000)).astype(np.float64)
    grid = cut_points.ScoreGrid.of(score, values, np.array([0.5, 1.5, 2.5]), 1)
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
    grid = cut_points.ScoreGrid.of(score, values, np.array([1.5, 2.5, 3.5, 4.5]), 1)
    here, drawn = cuts, []
    for _ in range(200):
        here = cut_points.draw_cuts(grid, here, rng)
        drawn.append(here)
    drawn = np.array(drawn)
    assert np.mean(np.any(np.diff(drawn, axis=0) != 0, axis=1)) > 0.7
    # Where the truth is, within five posterior standard deviations: once in 400 000 times for four cut-points.
    assert np.all(np.abs(drawn.mean(0) - cuts) < 5 * drawn.std(0) + 1e-3)


def test_concentrations_are_found_again(rng):
    for true in (1.0, 5.0, 30.0):
        factors = rng.gamma(true, size=20_000) / true
        drawn = np.array([draw_concentration_of(factors, rng) for _ in range(50)])
        assert abs(np.log(drawn.mean() / true)) < 0.15


def draw_concentration_of(factors, rng):
    from tastespace.models.factorization.uneven_noise import draw_concentration

    return draw_concentration(factors, rng)


def test_states_know_their_kind():
    assert isinstance(story(UNEVEN).sample_prior(WHERE, generator(1)).noise, UnevenPrecision)
