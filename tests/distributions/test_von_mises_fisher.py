"""The von Mises-Fisher density integrates to 1, its draws have its moments, and its estimates find its parameters.

Every z below has a limit that a right program passes once in a million fresh seeds, after Bonferroni.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from tastespace.distributions import von_mises_fisher as vmf
from tastespace.distributions.von_mises_fisher import (
    VonMisesFisher,
    concentration_of,
    draw_around,
    log_normaliser,
    mean_resultant_length,
)
from tastespace.errors import DataError, InvalidParameterError
from tastespace.randomness import generator

FALSE_ALARM = 1e-6
LIMIT = 6.0  # of a z: 2e-9 for each, below 1e-6 for all of a test

DIMENSIONS = [2, 3, 4, 7, 20, 100]
CONCENTRATIONS = [0.0, 1e-3, 1.0, 30.0, 1e4]


def unit(n_dimensions, rng):
    vector = rng.standard_normal(n_dimensions)
    return vector / np.linalg.norm(vector)


# The density


def log_integral(n_dimensions, kappa):
    """log of the integral of exp(k m.x) over the sphere, by quadrature of the angle to the mean."""
    m = n_dimensions - 2  # the power of the sine
    grid = np.linspace(1e-9, np.pi - 1e-9, 20_001)
    log_peak = np.max(kappa * np.cos(grid) + m * np.log(np.sin(grid)))

    def integrand(angle):
        return np.exp(kappa * np.cos(angle) + m * np.log(np.sin(angle)) - log_peak)

    at = grid[np.argmax(integrand(grid))]
    width = min(np.pi, 40 / np.sqrt(1 + kappa + m))
    low, high = max(at - width, 0), min(at + width, np.pi)
    total, _ = integrate.quad(integrand, low, high, points=[at], epsabs=0, epsrel=1e-11, limit=300)
    # times the area of the sphere with one dimension less
    return np.log(total) + log_peak + np.log(2) + (m + 1) / 2 * np.log(np.pi) - special.gammaln((m + 1) / 2)


@pytest.mark.parametrize("n_dimensions", [2, 3, 5, 20, 100, 999, 5000])
@pytest.mark.parametrize("kappa", [0.0, 1e-8, 0.3, 12.0, 290.0, 310.0, 1e4, 1e6])
def test_it_integrates_to_one(n_dimensions, kappa):
    expected = -log_integral(n_dimensions, kappa)
    assert float(log_normaliser(n_dimensions, kappa)) == pytest.approx(expected, rel=1e-10, abs=1e-9)


def test_the_density_is_that_of_scipy_where_scipy_has_one(rng):
    for n_dimensions in DIMENSIONS:
        mean = unit(n_dimensions, rng)
        for kappa in (0.5, 30.0, 1e4):
            ours = VonMisesFisher(mean, kappa)
            points = ours.draw(5, rng)
            np.testing.assert_allclose(
                ours.log_density(points), stats.vonmises_fisher(mean, kappa).logpdf(points), rtol=1e-10, atol=1e-10
            )


def test_all_ways_agree_where_they_meet():
    """Power series and scipy's function, scipy's function and the uniform expansion, on both sides of the limits."""
    for order in (0.0, 0.5, 3.0, 49.0, 260.0):
        kappa = np.array([2 * np.sqrt(order + 1) * 0.999])
        by_scipy = np.log(special.ive(order, kappa)) + kappa - order * np.log(kappa / 2) + special.gammaln(order + 1)
        np.testing.assert_allclose(vmf._by_series(order, kappa), by_scipy, rtol=1e-11, atol=1e-12)
        kappa = np.array([320.0, 700.0])
        by_scipy = np.log(special.ive(order, kappa))
        np.testing.assert_allclose(vmf._log_bessel_by_expansion(order, kappa), by_scipy, rtol=1e-12)
        ratio = special.ive(order + 1, kappa) / special.ive(order, kappa)
        np.testing.assert_allclose(vmf._ratio_by_expansion(order, kappa), ratio, rtol=1e-12)


def test_extreme_numbers_stay_finite():
    for n_dimensions in (1, 2, 3, 50, 10_000, 10**6):
        kappa = np.array([0.0, 1e-300, 1e-12, 1.0, 1e3, 1e8, 1e15])
        assert np.isfinite(log_normaliser(n_dimensions, kappa)).all()
        lengths = mean_resultant_length(n_dimensions, kappa)
        assert ((lengths >= 0) & (lengths <= 1)).all()
        assert (np.diff(lengths) >= 0).all()
    # At the mean of a very concentrated one the density is that of a Gaussian with variance 1/k.
    peak = VonMisesFisher(np.array([1.0, 0.0, 0.0]), 1e15).log_density([1.0, 0.0, 0.0])
    assert float(peak) == pytest.approx(np.log(1e15 / (2 * np.pi)), rel=1e-12)


def test_the_length_of_the_mean_is_the_slope_of_the_normaliser():
    """A = -d log C / dk, by central differences."""
    for n_dimensions in (1, 2, 3, 20, 100, 2000):
        for kappa in (0.5, 20.0, 290.0, 400.0, 3000.0):
            h = 1e-4 * kappa
            slope = (log_normaliser(n_dimensions, kappa + h) - log_normaliser(n_dimensions, kappa - h)) / (2 * h)
            assert float(mean_resultant_length(n_dimensions, kappa)) == pytest.approx(-float(slope), rel=1e-6, abs=2e-8)


def test_in_one_dimension_there_are_two_directions():
    plus, minus = np.exp(VonMisesFisher(np.array([1.0]), 0.7).log_density([[1.0], [-1.0]]))
    assert plus + minus == pytest.approx(1)
    assert plus / minus == pytest.approx(np.exp(1.4))
    assert float(mean_resultant_length(1, 0.7)) == pytest.approx(np.tanh(0.7))
    assert concentration_of(1, np.tanh(0.7)) == pytest.approx(0.7)


# Draws


def z_scores(points, mean, kappa):
    """Of the mean and the square of the cosine to the mean, and of the mean and the squares of what is across."""
    n, n_dimensions = points.shape
    length = float(mean_resultant_length(n_dimensions, kappa))
    # E w^2 = 1 - (D-1) A/k; across, the rest is the same in all directions.
    square = 1 / n_dimensions if kappa < 1e-6 else 1 - (n_dimensions - 1) * length / kappa
    cosine = points @ mean
    basis = np.linalg.qr(np.column_stack([mean, np.eye(n_dimensions)[:, : n_dimensions - 1] + 1e-3]))[0][:, 1:]
    across = points @ basis
    found = np.column_stack([1 - cosine, (1 - cosine) ** 2, across[:, :3], across[:, :3] ** 2])
    lack = 1 - length
    expected = [lack, 1 - 2 * length + square, *[0.0] * across[:, :3].shape[1]]
    expected += [(1 - square) / (n_dimensions - 1)] * across[:, :3].shape[1]
    return (found.mean(axis=0) - expected) / (found.std(axis=0) / np.sqrt(n))


@pytest.mark.statistical
@pytest.mark.parametrize("kappa", CONCENTRATIONS)
@pytest.mark.parametrize("n_dimensions", DIMENSIONS)
def test_draws_have_the_moments(n_dimensions, kappa):
    rng = generator(n_dimensions)
    mean = unit(n_dimensions, rng)
    points = VonMisesFisher(mean, kappa).draw(6000, rng)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, rtol=1e-12)
    assert np.abs(z_scores(points, mean, kappa)).max() < LIMIT


@pytest.mark.statistical
def test_draws_with_another_concentration_are_noticed():
    """kappa dropped from the draws, or 10 % too large."""
    rng = generator(1)
    mean = unit(20, rng)
    for wrong in (0.0, 33.0):
        assert np.abs(z_scores(VonMisesFisher(mean, wrong).draw(6000, rng), mean, 30.0)).max() > LIMIT


@pytest.mark.statistical
@pytest.mark.parametrize("kappa", [0.0, 0.5, 8.0, 1e4])
def test_angles_have_their_distribution(kappa):
    """On the circle von Mises, on the sphere with a density exp(k w) of the cosine: Kolmogorov and Smirnov."""
    rng = generator(2)
    points = VonMisesFisher(np.array([0.0, 1.0]), kappa).draw(4000, rng)
    angles = np.arctan2(points[:, 0], points[:, 1])
    known = stats.vonmises(kappa).cdf if kappa else stats.uniform(-np.pi, 2 * np.pi).cdf
    assert stats.kstest(angles, known).pvalue > FALSE_ALARM
    lack = 1 - VonMisesFisher(np.array([0.0, 0.0, 1.0]), kappa).draw(4000, rng)[:, 2]
    known = stats.truncexpon(2 * kappa, scale=1 / kappa).cdf if kappa else stats.uniform(0, 2).cdf
    assert stats.kstest(lack, known).pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_every_mean_has_its_own_concentration():
    rng = generator(3)
    means = rng.standard_normal((2, 3000, 8))
    means /= np.linalg.norm(means, axis=-1, keepdims=True)
    kappa = np.array([[2.0], [50.0]])
    points = draw_around(means, np.broadcast_to(kappa, (2, 3000)), rng)
    assert points.shape == means.shape
    for k in range(2):
        cosine = np.sum(points[k] * means[k], axis=1)
        z = (cosine.mean() - mean_resultant_length(8, kappa[k, 0])) / (cosine.std() / np.sqrt(3000))
        assert abs(z) < LIMIT


# Estimates


@pytest.mark.parametrize("n_dimensions", [2, 3, 20, 100, 5000])
@pytest.mark.parametrize("kappa", [0.01, 1.0, 25.0, 299.0, 1e4])
def test_the_concentration_of_a_length_is_found(n_dimensions, kappa):
    length = float(mean_resultant_length(n_dimensions, kappa))
    # A grows so slowly for large k that the last digits of the length are all that is known of k.
    slope = 1 - length**2 - (n_dimensions - 1) * length / kappa
    exact = max(1e-11, 4 * np.finfo(float).eps / (slope * kappa))
    assert concentration_of(n_dimensions, length) == pytest.approx(kappa, rel=exact)


@pytest.mark.statistical
@pytest.mark.parametrize("n_dimensions", DIMENSIONS)
@pytest.mark.parametrize("kappa", [3.0, 100.0, 1e4])
def test_maximum_likelihood_recovers_the_parameters(n_dimensions, kappa):
    """The estimate of k has the variance 1/(n A'(k)); the mean direction that of (D-1) Gaussians, 1/(n k A) each.

    Both are of many draws, and small k in many dimensions is overestimated by about (D-1) / (2 n A' k), added here.
    """
    rng, n = generator(4), 5000
    mean = unit(n_dimensions, rng)
    found = VonMisesFisher.most_likely(VonMisesFisher(mean, kappa).draw(n, rng))
    length = float(mean_resultant_length(n_dimensions, kappa))
    slope = 1 - length**2 - (n_dimensions - 1) * length / kappa
    bias = (n_dimensions - 1) / (2 * n * length * kappa) * length / slope
    assert abs(found.concentration - kappa - bias) < LIMIT / np.sqrt(n * slope) + bias
    squares = n * kappa * length * np.sum((found.mean - mean) ** 2)
    assert squares < 1.1 * stats.chi2(n_dimensions - 1).isf(FALSE_ALARM)


def test_the_estimate_is_a_maximum(rng):
    points = VonMisesFisher(unit(4, rng), 6.0).draw(50, rng)
    best = VonMisesFisher.most_likely(points)
    top = best.log_density(points).sum()
    for other in (
        VonMisesFisher(best.mean, best.concentration * 1.01),
        VonMisesFisher(best.mean, best.concentration * 0.99),
        VonMisesFisher(unit(4, rng), best.concentration),
    ):
        assert other.log_density(points).sum() < top


def test_directions_that_cancel_are_uniform_and_equal_ones_an_error():
    assert VonMisesFisher.most_likely([[1.0, 0.0], [-1.0, 0.0]]).concentration == 0
    with pytest.raises(DataError, match="all the same.*expected at least two different"):
        VonMisesFisher.most_likely([[1.0, 0.0], [1.0, 0.0]])


def test_bad_input_says_what_is_wrong(rng):
    with pytest.raises(InvalidParameterError, match="concentration is -1; expected finite numbers of at least 0"):
        VonMisesFisher(np.array([1.0, 0.0]), -1)
    with pytest.raises(InvalidParameterError, match="mean: a vector has the length 2; expected 1"):
        VonMisesFisher(np.array([2.0, 0.0]), 1.0)
    with pytest.raises(InvalidParameterError, match="one unit vector"):
        VonMisesFisher(np.eye(2), 1.0)
    with pytest.raises(InvalidParameterError, match="directions have the shape"):
        VonMisesFisher(np.array([1.0, 0.0]), 1.0).log_density([1.0, 0.0, 0.0])
    with pytest.raises(InvalidParameterError, match="expected n x D"):
        VonMisesFisher.most_likely([1.0, 0.0])
    with pytest.raises(InvalidParameterError, match="number of dimensions is 0"):
        log_normaliser(0, 1.0)
    with pytest.raises(InvalidParameterError, match="expected a number from 0 to 1"):
        concentration_of(3, 1.5)
    with pytest.raises(InvalidParameterError, match="expected unit vectors"):
        draw_around(1.0, 1.0, rng)
