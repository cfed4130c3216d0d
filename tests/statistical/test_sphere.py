"""The whole sampler of items on a sphere is drawn from its own posterior.

Geweke's test and the log joint, as for the Gaussian sweep (test_gibbs.py), on the same few ratings; on a circle, and
with the bias on a sphere in three dimensions. Every sampler, and each fault it invites as a broken twin, which must
fail. Seeds are fixed; over fresh ones a right sampler would fail a test once in a million times (1e-6, Bonferroni).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from reference.small_story import N_FACTORS, PRIOR, WHERE, functionals, is_broken, rows_of, sampler_of
from scipy import integrate, stats
from scipy.special import iv

from tastespace.distributions.conjugate import Gamma
from tastespace.distributions.von_mises_fisher import VonMisesFisher, mean_resultant_length
from tastespace.models.factorization.gibbs.generative_model import FactorModel, scores
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.models.factorization.likelihoods.heteroscedastic import HeteroscedasticGaussian
from tastespace.models.factorization.likelihoods.probit import Probit
from tastespace.models.factorization.priors.normal_wishart import Sphere
from tastespace.models.factorization.priors.von_mises_fisher import SpherePopulation, SpherePrior
from tastespace.models.factorization.rows import Factors, Moments
from tastespace.models.factorization.sphere.moves import SphereMoves
from tastespace.randomness import generator
from tastespace.testing.calibration import simulation_based_calibration
from tastespace.testing.geweke import geweke

pytestmark = pytest.mark.statistical

RADIUS, CONCENTRATION = 1.4, Gamma(3.0, 1.0)
NOISE = Gaussian(shape=5.0, rate=5.0)


def prior(*, joint=False, concentration=CONCENTRATION, kind=SpherePrior):
    return kind(Sphere(RADIUS, joint), concentration, PRIOR.bias)


def story(*, moves=SphereMoves, sampler="geodesic", steps=4, likelihood=NOISE, has_biases=True, **of_prior):
    own = prior(**of_prior)
    return FactorModel(
        N_FACTORS,
        has_biases,
        likelihood,
        PRIOR,
        own,
        offset=0.0,
        scale=1.0,
        dtype=np.float64,
        item_moves=moves(own.sphere, sampler, steps),
    )


def bound(model, observed):
    return sampler_of(model, observed)


def whole(params):
    items = params.items.factors
    if params.item_population.sphere.has_joint_bias:
        items = np.column_stack([items, params.items.bias])
    return items / RADIUS


def towards_mean(params):
    total = whole(params).sum(axis=0)
    return total @ params.item_population.direction / np.linalg.norm(total)


# Turning users and items together changes none of them.
OF_ITEMS = {
    "items: log concentration": lambda params, _: np.log(params.item_population.concentration),
    "items: towards their direction": lambda params, _: (whole(params) @ params.item_population.direction).mean(),
    "items: nearest to their direction": lambda params, _: (whole(params) @ params.item_population.direction).max(),
    "items: how alike": lambda params, _: np.linalg.norm(whole(params).sum(axis=0)),
    "items: direction towards their mean": lambda params, _: towards_mean(params),
}
OF_OWN_BIAS = {
    "items: log bias precision": lambda params, _: np.log(params.item_population.own_bias_precision),
    "items: log squared biases": lambda params, _: np.log((params.items.bias**2).sum()),
}


def chosen(model):
    """What is looked at: of users and noise as for the Gaussian, of items what a sphere has."""
    kept = {name: of for name, of in functionals(model.has_biases).items() if not name.startswith("items")}
    if not isinstance(model.likelihood, Gaussian):
        kept = {name: of for name, of in kept.items() if name not in ("log noise precision", "squared errors")}
    of_items = OF_ITEMS
    if model.item_prior.concentration is None:
        of_items = {name: of for name, of in OF_ITEMS.items() if name == "items: how alike"}
    is_beside = model.has_biases and not model.item_prior.sphere.has_joint_bias
    return kept | of_items | (OF_OWN_BIAS if is_beside else {})


def compared(model, n, transition=None):
    return geweke(
        model,
        transition or partial(bound, model),
        WHERE,
        chosen(model),
        n=n,
        rng=generator(7),
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"sampler": "geodesic"},
        {"sampler": "slice", "joint": True},
        {"sampler": "metropolis", "steps": 10},
        {"sampler": "geodesic", "has_biases": False, "concentration": None},
        {"sampler": "slice", "likelihood": Probit(0.3)},
        pytest.param(
            {"sampler": "geodesic", "likelihood": HeteroscedasticGaussian(shape=5.0, rate=5.0), "joint": True},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["geodesic", "slice, joint", "metropolis", "no biases, uniform", "probit", "uneven"],
)
def test_steps_and_simulations_keep_the_joint_distribution(parameters):
    result = compared(story(**parameters), 2000)
    assert result.failure is None
    assert result.p_value > 1e-6, result


# Broken twins


class ConcentrationDropped(SphereMoves):
    """Items that do not feel their prior."""

    def moved(self, given, population, tuning, rng):
        return super().moved(given, replace(population, concentration=0.0), tuning, rng)


class WithoutHalf(SphereMoves):
    """-x^T A x + b.x, without the 1/2 of its quadratic part."""

    def moved(self, given, population, tuning, rng):
        side, other = replace(given.side, targets=given.side.targets / 2), given.other
        other = Factors(other.factors, other.bias / 2)
        twice = replace(given, side=side, other=other, alpha=2 * given.alpha)
        return super().moved(twice, population, tuning, rng)


class ConcentrationOfFewer(SpherePrior):
    """The concentration as if one item less were there."""

    def draw(self, rows, current, rng):
        return super().draw(rows_of(replace(rows.moments, n=rows.moments.n - 1)), current, rng)


@pytest.mark.parametrize(
    "parameters",
    [
        {"moves": ConcentrationDropped, "sampler": "slice", "joint": True},
        {"moves": WithoutHalf},
        {"kind": ConcentrationOfFewer},
    ],
    ids=["no concentration", "no half", "of fewer items"],
)
def test_broken_twins_do_not_keep_it(parameters):
    assert is_broken(compared(story(**parameters), 2000))


# Calibration


def score_of(user, item):
    return lambda params, _: float(scores(params, np.array([user]), np.array([item]))[0])


def calibration(model, n):
    ranked = {
        "noise": lambda params, _: params.noise.alpha,
        "rated pair": score_of(0, 0),
        "unrated pair": score_of(0, 2),
        "user without ratings": score_of(3, 1),
        "concentration": lambda params, _: params.item_population.concentration,
        "log joint": lambda params, ratings: story().log_joint(params, ratings),
    }
    return simulation_based_calibration(
        model, partial(bound, model), WHERE, ranked, n=n, draws=19, warmup=15, thin=2, rng=generator(7)
    )


def test_posteriors_are_calibrated():
    """From the start at least squares on the sphere that a fit makes, too."""
    result = calibration(story(steps=10), n=100)
    result.assert_passes()
    for row in result.rows:
        assert row.coverage(0.9).p_value > 1e-6 / len(result.rows), result


@pytest.mark.slow
def test_posteriors_of_a_broken_twin_are_not():
    assert calibration(story(steps=10, moves=ConcentrationDropped), n=100).p_value < 1e-6


# The log joint, and the moments of the population


@pytest.mark.parametrize("joint", [False, True])
def test_the_log_joint_is_that_of_the_story(joint):
    model, rng = story(joint=joint), generator(1)
    params = model.sample_prior(WHERE, rng)
    ratings = model.simulate(params, WHERE, rng)
    normal = FactorModel(N_FACTORS, True, NOISE, PRIOR, PRIOR, dtype=np.float64)
    plain = replace(params, item_population=normal.sample_prior(WHERE, rng).item_population)
    own = plain.item_population
    others = normal.log_joint(plain, ratings) - own.log_density(plain.items) - PRIOR.log_density(own)
    items, population = whole(params), params.item_population
    around = VonMisesFisher(population.direction, population.concentration)
    area = 2 * np.pi if not joint else 4 * np.pi
    expected = around.log_density(items).sum() - len(items) * (items.shape[1] - 1) * np.log(RADIUS) - np.log(area)
    expected += stats.gamma.logpdf(population.concentration, 3.0, scale=1.0)
    if not joint:
        mean, precision = population.own_bias_mean, population.own_bias_precision
        expected += stats.norm.logpdf(params.items.bias, mean, precision**-0.5).sum()
        expected += PRIOR.bias.log_density(mean, precision)
    assert model.log_joint(params, ratings) == pytest.approx(others + expected, rel=1e-9)


@pytest.mark.parametrize(("n", "kappa"), [(1, 0.7), (2, 0.0), (3, 2.5), (20, 40.0), (20, 1e5)])
@pytest.mark.parametrize("joint", [False, True])
def test_the_moments_are_those_of_the_rows(n, kappa, joint):
    rng = generator(3)
    direction = rng.standard_normal(n + joint)
    own = (0.0, 0.0) if joint else (0.3, 2.0)
    population = SpherePopulation(Sphere(1.7, joint), direction / np.linalg.norm(direction), kappa, *own)
    rows = population.draw_rows(100_000, np.float64, rng)
    assert rows.bias is not None
    # Six standard errors of a mean, and of a covariance.
    sd = np.sqrt(np.diag(np.linalg.inv(population.precision)))
    np.testing.assert_array_less(np.abs(rows.factors.mean(axis=0) - population.mean), 6 * sd / np.sqrt(100_000) + 1e-12)
    apart = np.cov(rows.factors.T).reshape(n, n) - np.linalg.inv(population.precision)
    np.testing.assert_array_less(np.abs(apart), 10 * np.outer(sd, sd) / np.sqrt(100_000) + 1e-9)
    assert rows.bias.mean() == pytest.approx(population.bias_mean, abs=6 * rows.bias.std() / np.sqrt(100_000) + 1e-9)
    assert rows.bias.var() == pytest.approx(1 / population.bias_precision, rel=0.05)
    back = SpherePopulation.with_mean(
        population.sphere, population.mean, population.bias_mean, population.bias_precision
    )
    assert back.concentration == pytest.approx(kappa, rel=1e-3, abs=1e-9)
    if kappa:
        np.testing.assert_allclose(back.direction, population.direction, rtol=1e-6)


def test_the_concentration_is_drawn_from_its_distribution():
    """On the circle, against numerical integration."""
    rows = rows_of(Moments(5, RADIUS * np.array([2.0, 1.5]), np.eye(2)))

    def density(kappa):
        return stats.gamma.pdf(kappa, 3.0) * iv(0, kappa * 2.5) / iv(0, kappa) ** 5

    total = integrate.quad(density, 0, 50)[0]
    own, rng = prior(), generator(5)
    populations = [own.draw(rows, None, rng) for _ in range(2000)]
    drawn = np.array([population.concentration for population in populations])
    edges = np.quantile(drawn, [0.1, 0.3, 0.5, 0.7, 0.9])
    below = np.array([integrate.quad(density, 0, edge)[0] for edge in edges]) / total
    shares = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    assert (np.abs(below - shares) < 5.5 * np.sqrt(shares * (1 - shares) / 2000)).all()
    # The direction is around that of the sum, S, as closely as concentration and |S| together have it.
    towards = np.array([population.direction @ [0.8, 0.6] for population in populations])
    apart = towards - mean_resultant_length(2, 2.5 * drawn)
    assert abs(apart.mean()) < 5 * apart.std() / np.sqrt(2000)
    assert abs((towards - mean_resultant_length(2, drawn)).mean()) > 5 * apart.std() / np.sqrt(2000)
    # A broken twin: of four items the concentration is another one.
    of_four = integrate.quad(lambda kappa: density(kappa) * iv(0, kappa), 0, 50)[0]
    wrong = integrate.quad(lambda kappa: density(kappa) * iv(0, kappa), 0, edges[2])[0] / of_four
    assert abs(wrong - 0.5) > 5.5 * 0.5 / np.sqrt(2000)
