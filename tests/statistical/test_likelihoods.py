"""Every likelihood is drawn from its own posterior: uneven noise, levels, yes and no.

Geweke's test, calibration and the log joint, as for the Gaussian sweep (test_gibbs.py), on the same few ratings. Each
fault a likelihood invites has a broken twin, which must fail (those of the move of the cut-points are in
test_cut_points.py). Seeds are fixed; over fresh ones a right sampler would fail a test once in a million times (1e-6
after Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from reference.small_story import N_FACTORS, PRIOR, WHERE, functionals, is_broken, sampler_of
from scipy import stats
from scipy.special import expit, ndtr, ndtri

from tastespace import _native
from tastespace.distributions.conjugate import KnownMean
from tastespace.models.factorization.gibbs.generative_model import FactorModel, scores
from tastespace.models.factorization.likelihoods import cut_points
from tastespace.models.factorization.likelihoods.heteroscedastic import (
    HeteroscedasticGaussian,
    RowPrecisions,
    draw_concentration,
)
from tastespace.models.factorization.likelihoods.logistic import Logistic
from tastespace.models.factorization.likelihoods.ordinal import CutPoints, Ordinal
from tastespace.models.factorization.likelihoods.probit import Probit
from tastespace.randomness import generator
from tastespace.testing.calibration import simulation_based_calibration
from tastespace.testing.geweke import geweke

pytestmark = pytest.mark.statistical

CENTRED = replace(PRIOR, bias=KnownMean(0.0, 5.0, 5.0))  # cut-points are where the scores are: biases have no mean
LEVELS = Ordinal((1.0, 1.5, 4.0))
UNEVEN = HeteroscedasticGaussian(shape=5.0, rate=5.0)
LIKELIHOODS = {
    "uneven": UNEVEN,
    "uneven, alpha fixed": HeteroscedasticGaussian(1.7),
    "levels": LEVELS,
    "two levels": Ordinal((0.0, 1.0)),
    "probit": Probit(0.3),
    "logistic": Logistic(-0.4),
}


def story(likelihood):
    prior = CENTRED if isinstance(likelihood, Ordinal) else PRIOR
    return FactorModel(N_FACTORS, True, likelihood, prior, prior, offset=0.0, scale=1.0, dtype=np.float64)


def sampler(likelihood, observed, **options):
    return sampler_of(story(likelihood), observed, **options)


def errors_in_their_units(params, ratings):
    noise = params.noise
    errors = ratings.values - scores(params, ratings.user_rows, ratings.item_rows)
    return np.cbrt(np.sum(noise.alpha * noise.users[ratings.user_rows] * noise.items[ratings.item_rows] * errors**2))


def first_user_error(params, ratings):
    """The noise of a user goes with their errors."""
    errors = ratings.values - scores(params, ratings.user_rows, ratings.item_rows)
    return np.log(params.noise.users[0]) * np.tanh(np.sum(errors[ratings.user_rows == 0] ** 2))


OF_UNEVEN = {
    "log alpha": lambda params, ratings: np.log(params.noise.alpha),
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


def log_probabilities(params, ratings):
    """Of every level, and the place of the one that was given."""
    score = scores(params, ratings.user_rows, ratings.item_rows)
    return cut_points.log_probabilities(score, params.noise.cuts), np.searchsorted(cut_levels(params), ratings.values)


def log_chance(params, ratings):
    """Whether cut-points go with the scores that they were drawn beside."""
    log_p, level = log_probabilities(params, ratings)
    return np.mean(log_p[level, np.arange(len(ratings))])


def common_error(params, ratings):
    """How far all levels together are from those expected: further if scores do not go with the cut-points."""
    log_p, level = log_probabilities(params, ratings)
    expected = np.arange(len(log_p)) @ np.exp(log_p)
    return np.sqrt(abs(np.mean(expected - level)))


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
    if isinstance(likelihood, HeteroscedasticGaussian):
        return kept | OF_UNEVEN
    kept |= {"levels with scores": of_ratings, "mean level": lambda params, ratings: ratings.values.mean()}
    if is_levels(likelihood):
        kept["log chance"] = log_chance
        kept["common error"] = common_error
        kept["cuts with scores"] = cuts_with_scores
        kept["first cut"] = lambda params, ratings: params.noise.cuts[0]
        for gap in range(len(likelihood.levels) - 2):
            kept[f"log gap {gap + 1}"] = lambda params, ratings, at=gap: np.log(np.diff(params.noise.cuts)[at])
    return kept


def is_levels(likelihood):
    return isinstance(likelihood, Ordinal)


# The log joint


def log_likelihood_by_the_book(params, ratings, likelihood):
    score = scores(params, ratings.user_rows, ratings.item_rows)
    noise, values = params.noise, ratings.values.astype(np.float64)
    if isinstance(likelihood, HeteroscedasticGaussian):
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
        rest += params.user_population.log_density(params.users)
        rest += params.item_population.log_density(params.items)
        expected = log_likelihood_by_the_book(params, ratings, likelihood) + rest
        assert model.log_joint(params, ratings) == pytest.approx(expected, rel=1e-6, abs=1e-5)


# Geweke and calibration

# Steps: chains move slowly where ratings are levels, which few ratings tell apart from another place of the cut-points.
STEPS = {"levels": 5000, "two levels": 3500}


# Special cases of others, which are always looked at: these in `make test-all`.
SPECIAL = ("two levels", "uneven, alpha fixed")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SPECIAL else name for name in LIKELIHOODS]
)
def test_steps_and_simulations_keep_the_joint_distribution(name):
    likelihood = LIKELIHOODS[name]
    result = geweke(
        story(likelihood),
        lambda observed: sampler(likelihood, observed),
        WHERE,
        chosen(likelihood),
        n=STEPS.get(name, 4000),
        rng=generator(7),
    )
    result.assert_passes()


def calibration(likelihood):
    looked_at = {key: value for key, value in chosen(likelihood).items() if "log squared biases" not in key}
    looked_at["unrated pair"] = lambda params, ratings: scores(params, np.array([0]), np.array([2]))[0]
    return simulation_based_calibration(
        story(likelihood),
        lambda observed: sampler(likelihood, observed),
        WHERE,
        looked_at,
        n=100,
        draws=9,
        warmup=20,
        thin=4,
        rng=generator(7),
    )


@pytest.mark.parametrize(
    "name", ["uneven", "probit", *(pytest.param(name, marks=pytest.mark.slow) for name in ("levels", "logistic"))]
)
def test_posteriors_are_calibrated(name):
    """From the start that a fit makes, too."""
    calibration(LIKELIHOODS[name]).assert_passes()


@pytest.mark.parametrize("twin", ["not truncated", "wrong gamma shape"])
def test_posteriors_of_broken_twins_are_not(twin):
    assert calibration(TWINS[twin]).p_value < 1e-6


# Broken twins


class NotRedrawn(Ordinal):
    """Cut-points move with the latent responses integrated out, and these stay where they were: of the old levels."""

    def settle(self, users, noise, rng):
        moved = super().settle(users, CutPoints(1.0, noise.cuts), rng)
        return Stale(1.0, moved.cuts, noise.cuts)

    def augment(self, given, noise, rng):
        before = CutPoints(1.0, noise.before) if isinstance(noise, Stale) else noise
        return super().augment(given, before, rng)


@dataclass(frozen=True, eq=False)
class Stale(CutPoints):
    """Cut-points, and those before them."""

    before: np.ndarray


class NotTruncated(Probit):
    """Latent responses that do not know their label."""

    def augment(self, given, noise, rng):
        responses = given.scores(self.offset) + rng.standard_normal(len(given.side.columns))
        return given.responding(responses, self.offset)


class OneTail(Ordinal):
    """The upper end of a level forgotten."""

    def augment(self, given, noise, rng):
        score = given.scores()
        level = np.searchsorted(self.edges, given.side.targets)
        low = np.append(-np.inf, noise.cuts)[level]
        below = ndtr(low - score)
        drawn = score + ndtri(below + (1 - below) * rng.random(len(score)))
        return given.responding(drawn, 0.0)


class IgnoresScore(Logistic):
    """Weights drawn as if every score were 0."""

    def augment(self, given, noise, rng):
        weights = np.zeros(len(given.side.columns))
        _native.draw_polya_gamma(weights, int(rng.integers(1 << 63)), weights, 1)
        return given.responding((given.side.targets - 0.5) / weights, self.offset, weights)


class WrongShape(HeteroscedasticGaussian):
    """The precision of a user with n ratings drawn from Gamma(k + n, ...) for Gamma(k + n / 2, ...)."""

    def learn(self, given, squares, noise, rng):
        drawn = super().learn(given, squares, noise, rng)
        if given.axis == "item":
            return drawn
        shape = noise.user_concentration + np.diff(given.side.offsets)
        users = rng.gamma(shape) / (noise.user_concentration + noise.alpha * squares / 2)
        return replace(drawn, users=users)


class UnweightedErrors(HeteroscedasticGaussian):
    """alpha learned from errors that are not weighted with the users' precisions."""

    def learn(self, given, squares, noise, rng):
        drawn = super().learn(given, squares, noise, rng)
        if given.axis == "item":
            return drawn
        return replace(drawn, alpha=self.prior.posterior(len(given.side.columns), float(squares.sum())).draw(rng))


class SharedWithoutVolume(HeteroscedasticGaussian):
    """alpha c and factors / c with the volume of the change of scale left out."""

    def settle(self, users, noise, rng):
        shape = len(noise.users) * (noise.user_concentration - 1) - self.shape
        if shape > 0:
            factor = noise.user_concentration * float(noise.users.sum()) / rng.gamma(shape)
            noise = replace(noise, alpha=noise.alpha * factor, users=noise.users / factor)
        return super().settle(users, noise, rng)


TWINS = {
    "latent responses not redrawn": NotRedrawn(LEVELS.levels),
    "one tail forgotten": OneTail(LEVELS.levels),
    "not truncated": NotTruncated(0.3),
    "weights ignore the score": IgnoresScore(-0.4),
    "wrong gamma shape": WrongShape(shape=5.0, rate=5.0),
    "errors not weighted": UnweightedErrors(shape=5.0, rate=5.0),
    "volume left out": SharedWithoutVolume(shape=5.0, rate=5.0),
}


# Steps, and inner sweeps of each, for faults that take longer to tell: scores that ignore the labels stay near those
# that the labels were drawn from, until several sweeps have moved them.
LONGER = {"latent responses not redrawn": (5000, 1), "not truncated": (2000, 5), "weights ignore the score": (8000, 1)}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_do_not_keep_it(twin):
    likelihood, (n, inner_sweeps) = TWINS[twin], LONGER.get(twin, (1500, 1))
    result = geweke(
        story(likelihood),
        lambda observed: sampler(likelihood, observed, inner_sweeps=inner_sweeps),
        WHERE,
        chosen(likelihood),
        n=n,
        rng=generator(7),
    )
    assert is_broken(result), result


# What uneven noise learns


def test_concentrations_are_found_again(rng):
    for true in (1.0, 5.0, 30.0):
        factors = rng.gamma(true, size=20_000) / true
        drawn = np.array([draw_concentration(factors, rng) for _ in range(50)])
        assert abs(np.log(drawn.mean() / true)) < 0.15


def test_states_know_their_kind():
    assert isinstance(story(UNEVEN).sample_prior(WHERE, generator(1)).noise, RowPrecisions)
