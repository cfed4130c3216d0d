"""Stochastic approximation finds where the evidence is largest, of a model whose answer is known.

y_i = x_i + noise, x_i ~ N(0, 1/lam), noise ~ N(0, 1): the evidence of y ~ N(0, 1/lam + 1) is largest at
lam = 1 / (mean y^2 - 1), whatever the size of the data. The state x is drawn from its conditional, which is normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tastespace.inference.drivers import ascend, never
from tastespace.inference.samplers.stochastic_approximation import (
    Adam,
    Memory,
    RobbinsMonro,
    StochasticApproximation,
    averaged,
    has_converged,
    monte_carlo_error,
)
from tastespace.progress import silent
from tastespace.randomness import generator

N = 400


@dataclass(frozen=True, eq=False)
class Shrinking:
    y: np.ndarray
    start: float = 1.0
    names = ("lam",)

    def begin(self, rng):
        return np.zeros(len(self.y)), np.array([log(self.start)])

    def moved(self, state, logarithms, rng):
        precision = exp(logarithms[0]) + 1
        return self.y / precision + rng.standard_normal(len(self.y)) / precision**0.5, {}

    def gradient(self, state, logarithms):
        return np.array([1 - exp(logarithms[0]) * float(state @ state) / len(state)])


class WithoutNormaliser(Shrinking):
    """As printed in Somani and Gupta (2017) and in Dey and Jhamb (2018)."""

    def gradient(self, state, logarithms):
        return super().gradient(state, logarithms) - 1


@pytest.fixture(scope="module")
def y():
    return generator(5).standard_normal(N) * (1 / 0.5 + 1) ** 0.5


def run(evidence, steps, n=300, seed=0):
    transition = StochasticApproximation(evidence, steps, log(1e-9), log(1e9))
    rng = generator(seed)
    return ascend(transition, transition.init(rng), rng, steps=n, stop=never, phase="", observer=silent)


@pytest.mark.parametrize("steps", [RobbinsMonro(), Adam()], ids=["robbins-monro", "adam"])
@pytest.mark.parametrize("start", [0.001, 1.0, 30.0])  # from 1000 the way is flat: x is held at 0 whatever y
def test_the_largest_evidence_is_found_from_anywhere(y, steps, start):
    truth = 1 / (float(y @ y) / N - 1)
    _, trace = run(Shrinking(y, start), steps)
    assert_allclose(averaged(trace, ["lam"], 100)["lam"], truth, rtol=0.05)


@pytest.mark.parametrize("steps", [RobbinsMonro(), Adam()], ids=["robbins-monro", "adam"])
def test_without_the_normaliser_a_precision_only_falls(y, steps):
    """The printed gradient: it never comes to rest, and its zero is at zero."""
    _, trace = run(WithoutNormaliser(y), steps)
    path = np.array([stats["lam"] for stats in trace])
    assert (np.diff(path) < 0).all()
    assert path[-1] < 0.1 / (float(y @ y) / N - 1)


def test_whole_steps_until_the_gradient_turns():
    """Kesten (1958): a parameter on its way is not slowed down, one around its answer is."""
    steps, memory = RobbinsMonro(rate=1.0, early=1, power=1.0, longest=0.5), Memory.none(2)
    taken = []
    for sign in (1, -1, 1, -1, 1, -1):
        change, memory = steps.step(np.array([0.1, 0.1 * sign]), memory)
        taken.append(change)
    assert_allclose(np.array(taken)[:, 0], 0.1)
    assert_allclose(np.abs(np.array(taken)[:, 1]), [0.1, 0.1, 0.1, 0.1 / 2, 0.1 / 3, 0.1 / 4])
    assert_allclose(steps.step(np.array([-100.0, 0.0]), Memory.none(2))[0], [-0.5, 0.0])


def test_adam_is_its_definition():
    steps, memory = Adam(rate=0.1, first_decay=0.9, second_decay=0.99, epsilon=1e-8), Memory.none(1)
    first, memory = steps.step(np.array([3.0]), memory)
    assert_allclose(first, 0.1)  # whatever the size of the gradient
    second, _ = steps.step(np.array([1.0]), memory)
    mean, square = (0.9 * 0.1 * 3 + 0.1) / (1 - 0.81), (0.99 * 0.01 * 9 + 0.01) / (1 - 0.99**2)
    assert_allclose(second, 0.1 * mean / square**0.5, rtol=1e-6)


def test_at_rest_is_not_on_the_way():
    rng, stop = generator(1), has_converged(["a"], 20, 0.02)
    still = [{"a": exp(0.005 * value)} for value in rng.standard_normal(20)]
    moving = [{"a": exp(0.01 * step)} for step in range(20)]
    jumping = [{"a": exp(0.5 * value)} for value in rng.standard_normal(20)]
    assert stop(still)
    assert not stop(still[:-1])  # not enough to say
    assert not stop(moving)
    assert not stop(jumping)  # the halves may agree by chance, for their means are not known


def test_the_monte_carlo_error_is_that_of_the_mean():
    """Of independent numbers, and of an autoregression with a known variance of its mean; a constant has none."""
    rng = generator(2)
    n, correlation = 200, 0.6
    white = rng.standard_normal((2000, n))
    assert_allclose(np.mean([monte_carlo_error(series) for series in white]), n**-0.5, rtol=0.1)
    red = np.empty_like(white)
    red[:, 0] = white[:, 0]
    for place in range(1, n):
        red[:, place] = correlation * red[:, place - 1] + (1 - correlation**2) ** 0.5 * white[:, place]
    found = np.mean([monte_carlo_error(series) for series in red])
    assert_allclose(found, red.mean(axis=1).std(), rtol=0.1)
    assert found > 1.5 * n**-0.5
    assert monte_carlo_error(np.ones(5)) == 0
    assert monte_carlo_error(np.ones(1)) == 0


def test_parameters_stay_within_bounds():
    evidence = Shrinking(np.zeros(50))  # no signal at all: the precision has no largest value
    transition = StochasticApproximation(evidence, RobbinsMonro(), log(1e-2), log(1e2))
    rng = generator(0)
    last, _ = ascend(transition, transition.init(rng), rng, steps=200, stop=never, phase="", observer=silent)
    assert 1e-2 <= exp(last.logarithms[0]) <= 1e2 + 1e-9
