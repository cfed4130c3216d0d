"""Mixtures of normals against plain formulas, and where a component has no spread."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from tastespace.distributions.normal_mixture import NormalMixture

# Spread of the means, sd, spread of the log sds, draws: as of a posterior, far apart, narrow, single.
KINDS = {
    "posterior": (0.3, 0.85, 0.05, 50),
    "far apart": (2.0, 0.3, 0.5, 20),
    "narrow": (1.0, 1e-3, 0.3, 7),
    "single": (1.0, 0.5, 0.3, 1),
}


@pytest.fixture(params=KINDS)
def mixture(request, rng):
    apart, sd, uneven, n_draws = KINDS[request.param]
    shape = (40, n_draws)
    return NormalMixture(
        (3 + apart * rng.standard_normal(shape)).astype(np.float32),
        (sd * np.exp(uneven * rng.standard_normal(shape))).astype(np.float32),
    )


def weighted(mixture, rng):
    weights = rng.dirichlet(np.ones(mixture.means.shape[1]), len(mixture)).astype(np.float32)
    return NormalMixture(mixture.means, mixture.sds, weights)


def plain_cdf(mixture, values):
    weights = 1 / mixture.means.shape[1] if mixture.weights is None else mixture.weights
    return (weights * ndtr((values[:, None] - mixture.means.astype(float)) / mixture.sds)).sum(1)


def test_the_table_of_the_normal_distribution():
    """One component is the standard normal; all values at once, as a row."""
    values = np.concatenate([np.linspace(-9, 9, 200_001), [-1e30, 1e30, -np.inf, np.inf]])
    standard = NormalMixture(np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32))
    (found,) = standard.cdf(values[None])
    assert np.abs(found - ndtr(values)).max() < 1e-7
    assert found[-4:].tolist() == [0, 1, 0, 1]


def test_probabilities_stay_within_their_range():
    """A hundred times 0.01 is more than 1."""
    for n_draws in (3, 7, 10, 49, 100, 1000):
        mixture = NormalMixture(np.zeros((1, n_draws), np.float32), np.ones((1, n_draws), np.float32))
        assert mixture.cdf(np.array([[-50.0, 50.0]])).tolist() == [[0.0, 1.0]]
        even = NormalMixture(mixture.means, mixture.sds, np.full((1, n_draws), 1 / n_draws, np.float32))
        assert even.cdf(np.array([50.0]))[0] <= 1


def test_distribution_function(mixture, rng):
    for found in (mixture, weighted(mixture, rng)):
        values = 3 + rng.standard_normal(len(found))
        assert np.abs(found.cdf(values) - plain_cdf(found, values)).max() < 2e-7
        rows = 3 + rng.standard_normal((len(found), 4))
        expected = np.stack([plain_cdf(found, column) for column in rows.T], axis=1)
        assert np.abs(found.cdf(rows) - expected).max() < 2e-7


def test_quantiles_are_where_the_distribution_function_says(mixture, rng):
    for found in (mixture, weighted(mixture, rng)):
        for probability in (0.001, 0.025, 0.25, 0.5, 0.75, 0.975):
            at, reach = found.quantile(probability), 1e-4 * found.sds.min() + 1e-6
            assert (plain_cdf(found, at - reach) <= probability + 1e-6).all()
            assert (plain_cdf(found, at + reach) >= probability - 1e-6).all()


def test_quantiles_of_one_normal():
    single = NormalMixture(np.array([[2.0]], np.float32), np.array([[0.5]], np.float32))
    assert single.quantile(0.9) == pytest.approx(2 + 0.5 * ndtri(0.9))


def integrated_crps(means, sds, weights, value):
    """int (F(x) - 1{value <= x})^2 dx, piece by piece between the places where something happens."""

    def squared(x, side):
        return (weights @ ndtr((x - means) / sds) - side) ** 2

    ends = np.sort(np.concatenate([[value], *(means + reach * sds for reach in (-9, -3, -1, 0, 1, 3, 9))]))
    pieces = zip(ends[:-1], ends[1:], strict=True)
    return sum(quad(squared, low, high, (float(low >= value),))[0] for low, high in pieces)


def test_scores_by_numerical_integration(mixture, rng):
    for found in (mixture.take(slice(0, 5)), weighted(mixture.take(slice(0, 5)), rng)):
        values = 3 + rng.standard_normal(5)
        scores, densities = found.crps(values), found.log_density(values)
        for row, value in enumerate(values):
            means, sds = found.means[row].astype(float), found.sds[row].astype(float)
            weights = np.full(len(means), 1 / len(means)) if found.weights is None else found.weights[row]
            assert scores[row] == pytest.approx(integrated_crps(means, sds, weights, value), abs=1e-5)
            if (density := weights @ norm.pdf(value, means, sds)) > 1e-300:
                assert densities[row] == pytest.approx(np.log(density), rel=1e-4, abs=1e-4)


def test_the_crps_of_a_normal_is_the_known_formula(rng):
    """sd (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), whatever it is split into."""
    values = rng.standard_normal(30) * 2
    known = 0.7 * (values / 0.7 * (2 * ndtr(values / 0.7) - 1) + 2 * norm.pdf(values / 0.7) - 1 / np.sqrt(np.pi))
    for n_draws in (1, 2, 64):
        shape = (30, n_draws)
        same = NormalMixture(np.zeros(shape, np.float32), np.full(shape, 0.7, np.float32))
        assert same.crps(values) == pytest.approx(known, abs=1e-5)


def test_both_tails_of_a_log_probability():
    """Far below and far above are the same by symmetry; a difference of distribution functions would see 0 above."""
    means, sds = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    low, high = np.array([-21.0, 20.0]), np.array([-20.0, 21.0])
    found = NormalMixture(means, sds).log_between(low, high)
    assert found[0] == found[1] == pytest.approx(norm.logcdf(-20), rel=1e-6)
    whole = NormalMixture(means, sds).log_between(np.full(2, -np.inf), np.full(2, np.inf))
    assert whole.tolist() == [0, 0]
    assert np.isfinite(NormalMixture(means, sds).log_between(np.full(2, 90.0), np.full(2, 91.0))).all()


def test_components_without_spread():
    """Steps at 1, 2 and 4, by hand: F is 1/3 from 1 on, 2/3 from 2 on, 1 from 4 on."""
    values = np.array([0.0, 1, 2, 3, 4, 5])
    means = np.tile(np.array([1.0, 2, 4], np.float32), (6, 1))
    steps = NormalMixture(means, np.zeros_like(means))
    assert steps.cdf(values) == pytest.approx([0, 1 / 3, 2 / 3, 2 / 3, 1, 1])
    assert steps.cdf(values, inclusive=False) == pytest.approx([0, 0, 1 / 3, 2 / 3, 2 / 3, 1])
    assert [steps.quantile(p)[0] for p in (0.2, 0.5, 0.9)] == pytest.approx([1, 2, 4])
    # E|X - y| - E|X - X'| / 2, the latter being (1 + 3 + 2) / 9.
    distances = np.abs(values[:, None] - [1, 2, 4]).mean(1)
    assert steps.crps(values) == pytest.approx(distances - 6 / 9)
    between = steps.log_between(values - 1, values)
    assert np.exp(between) == pytest.approx([0, 1 / 3, 1 / 3, 0, 1 / 3, 0])
    assert np.isfinite(between).all()
    assert np.isfinite(steps.log_density(values, least_sd=1e-6)).all()


def test_some_of_the_quantities_and_blocks(mixture, monkeypatch):
    values = np.linspace(1, 5, len(mixture))
    measures = ("cdf", "crps", "log_density")
    whole = [getattr(mixture, name)(values) for name in measures] + [mixture.quantile(0.8)]
    monkeypatch.setattr("tastespace.distributions.normal_mixture.BLOCK", 3)
    parts = [getattr(mixture, name)(values) for name in measures] + [mixture.quantile(0.8)]
    for one, other in zip(whole, parts, strict=True):
        assert one.tolist() == other.tolist()
