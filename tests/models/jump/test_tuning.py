"""Empirical Bayes on the way: the gradient, what it leads to, and what the printed one leads to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from models.jump.worlds import any_state, dense_log_density, small_ratings

from tastespace.inference.samplers.stochastic_approximation import Adam
from tastespace.models.factorization.rank.reversible_jump import (
    Tuning,
    gradient,
    logarithms,
    precisions_of,
    tuned,
    with_tuned_mean,
)
from tastespace.models.factorization.rank.target import GibbsRows, Precisions, RankTarget
from tastespace.randomness import generator
from tastespace.testing import toys


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_gradient_is_the_derivative(temperature):
    """Central differences of the log density by each logarithm, over its information."""
    ratings = small_ratings(6, 5, generator(0))
    target = RankTarget.of(ratings, 4)
    own = Precisions(1.3, 1.3, 2.1, 3.0, 5.0)
    state = any_state(target, 2, generator(1), temperature=temperature, precisions=own)
    logs = logarithms(own)
    information = np.array([(6 + 5) * 2, len(ratings), 6, 5]) / 2
    for place in range(4):
        there, here = logs.copy(), logs.copy()
        there[place] += 1e-5
        here[place] -= 1e-5
        high, low = (
            dense_log_density(ratings, 4, replace(state, precisions=precisions_of(at))) for at in (there, here)
        )
        slope = (high - low) / 2e-5 / information[place]
        assert gradient(target, state)[place] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_no_biases_no_gradient():
    target = RankTarget.of(small_ratings(6, 5, generator(0)), 4)
    state = any_state(target, 2, generator(1), biases=False)
    np.testing.assert_array_equal(gradient(target, state)[2:], 0)


def tuned_precisions(start, temperature, steps=120):
    """Of ratings with two factors, noise of 0.4 and a spread of 1."""
    ratings, _ = toys.gaussian(60, 50, n_factors=2, density=0.6, biases=0.4, spread=1.0, noise=0.4, rng=generator(2))
    target, rng = RankTarget.of(ratings, 2), generator(3)
    state = any_state(target, 2, rng, temperature=temperature, precisions=start)
    tuning, adam = Tuning(), Adam()
    for step in range(steps):
        state = GibbsRows().moved(target, state, rng)
        state, tuning = tuned(target, state, tuning, adam, counts=step >= steps // 2)
    return with_tuned_mean(state, tuning).precisions, ratings.standard_deviation


def test_precisions_are_found_from_any_start():
    found = [tuned_precisions(Precisions(lam, lam, 2.0), 1.0)[0] for lam in (0.1, 1.0, 10.0)]
    middle, scale = found[1], tuned_precisions(Precisions(), 1.0, steps=1)[1]
    for one in found:
        assert one.users == one.items
        assert one.users == pytest.approx(middle.users, rel=0.1)
    assert scale / middle.noise**0.5 == pytest.approx(0.4, rel=0.05)


def test_tuning_undoes_a_temperature():
    """p_T with precisions lam is p_1 with lam / T: so hot tuning finds T times as much, and heats nothing."""
    cold, hot = (tuned_precisions(Precisions(1.0, 1.0, 2.0), t, steps=200)[0] for t in (1.0, 3.0))
    assert hot.users / 3 == pytest.approx(cold.users, rel=0.1)
    assert hot.noise / 3 == pytest.approx(cold.noise, rel=0.1)


def test_the_printed_gradient_drifts_to_nothing():
    """-|U|^2 without N D / (2 lam), Dey and Jhamb (2018) eq. 10: no value of lam is at rest."""
    ratings, _ = toys.gaussian(30, 25, n_factors=2, density=0.6, rng=generator(2))
    target, rng = RankTarget.of(ratings, 2), generator(3)
    state = any_state(target, 2, rng, precisions=Precisions(1.0, 1.0, 2.0))
    seen = [1.0]
    for _ in range(200):
        state = GibbsRows().moved(target, state, rng)
        printed = gradient(target, state)[0] - 1
        lam = seen[-1] * np.exp(0.1 * printed)
        state = replace(state, precisions=replace(state.precisions, users=lam, items=lam))
        seen.append(lam)
    assert np.all(np.diff(seen) < 0)
    assert seen[-1] < 0.1


def test_precisions_stay_within_reach():
    assert precisions_of(np.full(4, 1e9)).noise <= 1.1e8
    assert precisions_of(np.full(4, -1e9)).noise >= 0.9e-4


def test_nothing_tuned_nothing_settled():
    target = RankTarget.of(small_ratings(6, 5, generator(0)), 4)
    state = any_state(target, 2, generator(1))
    assert with_tuned_mean(state, Tuning()) is state
