"""Step sizes are found, masses are learned, lengths are jittered."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers import hamiltonian
from tastespace.inference.samplers.hamiltonian import jittered, mass_from, mass_of, no_moments, windows, with_draws
from tastespace.randomness import generator


@pytest.mark.parametrize("first", [1e-4, 0.2, 30.0])
def test_the_step_at_which_as_many_are_accepted_as_wanted_is_found(first):
    """Acceptance falls with the step as exp(-step), and is told with noise: 0.8 is accepted at 0.223."""
    rng, averaging = generator(1), hamiltonian.begin(first)
    for step in range(1, 1001):
        acceptance = np.clip(np.exp(-averaging.step_size) + 0.1 * rng.standard_normal(), 0, 1)
        averaging = hamiltonian.adapted(averaging, acceptance, step=step, warmup=1000, wanted=0.8)
    assert averaging.step_size == averaging.kept
    assert np.exp(-averaging.step_size) == pytest.approx(0.8, abs=0.03)
    assert hamiltonian.adapted(averaging, 0.0, step=1001, warmup=1000, wanted=0.8) is averaging


def test_all_or_nothing_accepted_does_not_overflow():
    for acceptance in (0.0, 1.0):
        averaging = hamiltonian.begin(1.0)
        for _ in range(5000):
            averaging = hamiltonian.update(averaging, acceptance, wanted=0.8)
        assert 0 < averaging.step_size < np.inf


def test_by_the_book():
    """Hoffman and Gelman (2014), equation 6, for two steps from 0.5 with 0.3 and 0.9 accepted, wanted 0.65."""
    averaging = hamiltonian.begin(0.5)
    one = hamiltonian.update(averaging, 0.3, wanted=0.65)
    error = 0.35 / 11
    assert one.step_size == pytest.approx(5 * np.exp(-error / 0.05))
    assert one.kept == pytest.approx(one.step_size)
    two = hamiltonian.update(one, 0.9, wanted=0.65)
    error = error * (1 - 1 / 12) - 0.25 / 12
    assert two.step_size == pytest.approx(5 * np.exp(-np.sqrt(2) / 0.05 * error))
    weight = 2**-0.75
    assert np.log(two.kept) == pytest.approx(weight * np.log(two.step_size) + (1 - weight) * np.log(one.kept))


@pytest.mark.parametrize("dense", [False, True])
def test_moments_of_windows_are_those_of_all_draws(dense, rng):
    mass = mass_of(np.eye(3) if dense else np.ones(3), 3)
    draws = 5 + rng.standard_normal((40, 7, 3)) * [1, 2, 3]
    moments = no_moments(mass)
    for positions in draws:
        moments = with_draws(moments, positions)
    covariance = np.cov(draws.reshape(-1, 3).T)
    covariance = covariance if dense else np.diag(covariance)
    ridge = 1e-3 * (np.eye(3) if dense else np.ones(3))
    n = 280
    assert moments.count == n
    np.testing.assert_allclose(
        mass_from(moments).covariance, n / (n + 5) * covariance + 5 / (n + 5) * ridge, rtol=1e-10
    )


@pytest.mark.statistical
def test_momenta_have_the_inverse_covariance():
    """100,000 of them; 0.03 is seven standard errors of the largest entry."""
    covariance = np.array([[2.0, 0.9], [0.9, 1.0]])
    for inverse in (covariance, np.diag(covariance)):
        mass = mass_of(inverse, 2)
        momenta = mass.momentum((100_000, 2), generator(3))
        precision = np.linalg.inv(covariance if inverse.ndim == 2 else np.diag(inverse))
        np.testing.assert_allclose(np.cov(momenta.T), precision, atol=0.03)
        np.testing.assert_allclose(mass.velocity(momenta) @ precision, momenta, rtol=1e-10, atol=1e-10)
        assert mass.kinetic(momenta).mean() == pytest.approx(1, abs=0.02)


def test_a_covariance_that_is_none_is_refused():
    for covariance, message in (
        (np.ones(2), r"the shape \(2,\); expected 3 variances, or 3 x 3"),
        ([1.0, 0.0, 1.0], "variances that are not positive"),
        (np.ones((3, 3)) - np.eye(3), "not positive definite"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            mass_of(covariance, 3)


def test_windows_grow_and_fill_the_middle():
    assert windows(10) == (1, ())
    assert windows(100) == (15, (80,))
    first, ends = windows(1000)
    assert (first, ends) == (150, (175, 225, 325, 800))
    for warmup in range(0, 3000, 7):
        first, ends = windows(warmup)
        assert not ends or ends[-1] == warmup - int(0.2 * warmup)
        assert (np.diff([first, *ends]) >= 25).all()


def test_lengths_are_all_that_they_may_be():
    rng = generator(4)
    assert {jittered(10, 0.5, rng) for _ in range(400)} == set(range(5, 16))
    assert {jittered(10, 0.0, rng) for _ in range(20)} == {10}
    assert {jittered(1, 0.9, rng) for _ in range(20)} == {1}
