"""Posteriors are prior times likelihood, exactly; draws have the moments of their density."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tastespace.distributions.conjugate import Gamma, NormalGamma, NormalWishart
from tastespace.randomness import generator

# Of each Kolmogorov-Smirnov test and each z-score below; there are about 30.
FALSE_ALARM = 1e-6


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def test_gamma_posterior_is_prior_times_likelihood(rng):
    errors, prior = rng.standard_normal(7), Gamma(2.0, 3.0)
    posterior = prior.posterior(7, float(np.sum(errors**2)))
    differences = [
        prior.log_density(a) + stats.norm.logpdf(errors, 0, a**-0.5).sum() - posterior.log_density(a)
        for a in (0.1, 1.0, 7.0)
    ]
    np.testing.assert_allclose(differences, differences[0], rtol=1e-12)


def test_gamma_density_and_draws_are_those_of_scipy(rng):
    gamma = Gamma(2.5, 0.5)
    assert gamma.log_density(1.3) == pytest.approx(stats.gamma(2.5, scale=2.0).logpdf(1.3), rel=1e-12)
    drawn = [gamma.draw(rng) for _ in range(4000)]
    assert stats.kstest(drawn, stats.gamma(2.5, scale=2.0).cdf).pvalue > FALSE_ALARM


def test_normal_gamma_posterior_is_prior_times_likelihood(rng):
    values, prior = 1 + 2 * rng.standard_normal(5), NormalGamma(0.3, 2.0, 1.5, 0.7)
    posterior = prior.posterior(5, float(values.sum()), float(np.sum(values**2)))
    differences = [
        prior.log_density(m, a) + stats.norm.logpdf(values, m, a**-0.5).sum() - posterior.log_density(m, a)
        for m, a in ((0.0, 1.0), (1.0, 0.3), (-2.0, 5.0))
    ]
    np.testing.assert_allclose(differences, differences[0], rtol=1e-11)


def test_normal_gamma_draws_have_its_marginals(rng):
    prior = NormalGamma(0.3, 2.0, 3.0, 0.7)
    means, precisions = np.array([prior.draw(rng) for _ in range(4000)]).T
    assert stats.kstest(precisions, stats.gamma(3.0, scale=1 / 0.7).cdf).pvalue > FALSE_ALARM
    marginal = stats.t(2 * 3.0, loc=0.3, scale=(0.7 / (3.0 * 2.0)) ** 0.5)
    assert stats.kstest(means, marginal.cdf).pvalue > FALSE_ALARM


def test_nothing_seen_changes_nothing():
    prior = NormalWishart(np.zeros(2), 2.0, np.eye(2), 3.0)
    assert prior.posterior(0, np.zeros(2), np.zeros((2, 2))) is prior
    scalar = NormalGamma(0.0, 2.0, 1.0, 1.0)
    assert scalar.posterior(0, 0.0, 0.0) is scalar


def random_prior(rng: np.random.Generator, size: int) -> NormalWishart:
    root = rng.standard_normal((size, size))
    return NormalWishart(rng.standard_normal(size), 1.7, root @ root.T + np.eye(size), size + 2.5)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_normal_wishart_posterior_is_prior_times_likelihood(rng, size):
    values, prior = rng.standard_normal((6, size)) + 1, random_prior(rng, size)
    posterior = prior.posterior(6, values.sum(0), values.T @ values)
    differences = []
    for _ in range(4):
        mean, root = rng.standard_normal(size), rng.standard_normal((size, size))
        precision = root @ root.T + np.eye(size)
        likelihood = stats.multivariate_normal(mean, np.linalg.inv(precision)).logpdf(values).sum()
        differences.append(prior.log_density(mean, precision) + likelihood - posterior.log_density(mean, precision))
    np.testing.assert_allclose(differences, differences[0], rtol=1e-9)


def test_wishart_density_is_that_of_scipy(rng):
    prior, root = random_prior(rng, 3), rng.standard_normal((3, 3))
    precision, mean = root @ root.T + np.eye(3), rng.standard_normal(3)
    expected = stats.wishart(prior.degrees, np.linalg.inv(prior.inverse_scale)).logpdf(precision)
    expected += stats.multivariate_normal(prior.centre, np.linalg.inv(prior.strength * precision)).logpdf(mean)
    assert prior.log_density(mean, precision) == pytest.approx(expected, rel=1e-9)


def test_normal_wishart_draws_have_its_marginals(rng):
    """w^T Lambda w / w^T W w is chi-squared; the mean is t distributed; both given each other fit as well."""
    prior, n = random_prior(rng, 3), 4000
    drawn = [prior.draw(rng) for _ in range(n)]
    scale = np.linalg.inv(prior.inverse_scale)
    for direction in (np.array([1.0, 0, 0]), np.array([0.3, -1.0, 2.0])):
        ratios = [direction @ precision @ direction / (direction @ scale @ direction) for _, precision in drawn]
        assert stats.kstest(ratios, stats.chi2(prior.degrees).cdf).pvalue > FALSE_ALARM
        freedom = prior.degrees - 3 + 1
        spread = direction @ prior.inverse_scale @ direction / (prior.strength * freedom)
        marginal = stats.t(freedom, loc=direction @ prior.centre, scale=spread**0.5)
        assert stats.kstest([direction @ mean for mean, _ in drawn], marginal.cdf).pvalue > FALSE_ALARM
    # The mean given the precision: standardised by it, a standard normal in every direction.
    standard = [np.linalg.cholesky(prior.strength * precision).T @ (mean - prior.centre) for mean, precision in drawn]
    for column in np.array(standard).T:
        assert stats.kstest(column, "norm").pvalue > FALSE_ALARM


def test_a_wrong_root_is_noticed(rng):
    """The twin of the test above: (L L^T) in place of (L^-T L^-1), and one degree of freedom too many."""
    prior, n = random_prior(rng, 3), 4000
    scale = np.linalg.inv(prior.inverse_scale)
    direction = np.array([0.3, -1.0, 2.0])
    broken = NormalWishart(prior.centre, prior.strength, scale, prior.degrees)
    more = NormalWishart(prior.centre, prior.strength, prior.inverse_scale, prior.degrees + 1)
    for wrong in (broken, more):
        ratios = [
            direction @ precision @ direction / (direction @ scale @ direction)
            for _, precision in (wrong.draw(rng) for _ in range(n))
        ]
        assert stats.kstest(ratios, stats.chi2(prior.degrees).cdf).pvalue < FALSE_ALARM


def belief_and_prior(kind):
    """Two of a kind."""
    if kind == "gamma":
        return Gamma(7.0, 3.0), Gamma(2.0, 1.5)
    if kind == "normal-gamma":
        return NormalGamma(0.4, 6.0, 7.0, 3.0), NormalGamma(0.0, 2.0, 3.0, 1.5)
    rng = generator(5)
    roots = rng.standard_normal((2, 3, 3))
    scales = roots @ roots.transpose(0, 2, 1) + np.eye(3)
    return NormalWishart(rng.standard_normal(3), 6.0, scales[0], 11.0), NormalWishart(np.zeros(3), 2.0, scales[1], 6.0)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gamma", "normal-gamma", "normal-wishart"])
def test_a_divergence_is_the_mean_of_log_ratios(kind):
    belief, prior = belief_and_prior(kind)
    rng, ratios = generator(1), []
    for _ in range(4000):
        drawn = belief.draw(rng)
        parts = drawn if isinstance(drawn, tuple) else (drawn,)
        ratios.append(belief.log_density(*parts) - prior.log_density(*parts))
    error = np.std(ratios) / len(ratios) ** 0.5
    assert abs(np.mean(ratios) - belief.divergence(prior)) < 5 * error
    assert belief.divergence(belief) == pytest.approx(0, abs=1e-9)
    assert abs(np.mean(ratios) - 1.1 * belief.divergence(prior)) > 5 * error  # it would notice a tenth


@pytest.mark.statistical
def test_expectations_of_a_normal_wishart_are_those_of_its_draws():
    belief, _ = belief_and_prior("normal-wishart")
    rng = generator(2)
    precisions = np.array([belief.draw(rng)[1] for _ in range(4000)])
    logs = np.linalg.slogdet(precisions)[1]
    assert abs(logs.mean() - belief.mean_log_determinant) < 5 * logs.std() / len(logs) ** 0.5
    errors = (precisions.mean(0) - belief.mean_precision) / (precisions.std(0) / len(precisions) ** 0.5)
    assert np.abs(errors).max() < 5


def test_the_expected_logarithm_of_a_gamma_is_that_of_its_density():
    belief, _ = belief_and_prior("gamma")
    grid = np.linspace(1e-6, 20, 400_001)
    weights = np.exp([belief.log_density(value) for value in grid[::100]])
    assert np.trapezoid(weights * np.log(grid[::100]), grid[::100]) == pytest.approx(belief.mean_log, abs=1e-3)
    assert belief.mean == pytest.approx(7 / 3)
