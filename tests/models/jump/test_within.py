"""Moves that keep the rank leave its density alone, at every temperature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from models.jump.worlds import FALSE_ALARM, any_state, dense_log_density, small_ratings
from scipy.stats import kstest, norm

from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.rank.target import GibbsRows, HeavyTailedWalk, RankTarget, within_move
from tastespace.models.factorization.rows import Factors
from tastespace.randomness import generator


def world():
    ratings = small_ratings(5, 4, generator(0))
    return ratings, RankTarget.of(ratings, 3)


def conditional(ratings, state):
    """Mean and covariance of the first user's factor and bias given the items, from the formula; rank 1."""
    t, own, scale = state.temperature, state.precisions, ratings.standard_deviation
    rated = ratings.user_rows == 0
    items = ratings.item_rows[rated]
    y = (ratings.values[rated].astype(float) - ratings.mean) / scale - state.items.bias[items]
    design = np.column_stack([state.items.factors[items, 0], np.ones(len(items))])
    precision = (np.diag([own.users, own.user_biases]) + own.noise * design.T @ design) / t
    return np.linalg.solve(precision, own.noise / t * design.T @ y), np.linalg.inv(precision)


@pytest.mark.statistical
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_gibbs_draws_from_the_conditional(temperature):
    """Users given the items of the same draw, standardised."""
    ratings, target = world()
    rng, drawn = generator(3), []
    state = any_state(target, 1, rng, temperature=temperature)
    for _ in range(600):
        state = GibbsRows().moved(target, state, rng)
        mean, covariance = conditional(ratings, state)
        own = np.array([state.users.factors[0, 0], state.users.bias[0]])
        drawn.append(np.linalg.solve(np.linalg.cholesky(covariance), own - mean))
    assert kstest(np.ravel(drawn), norm.cdf).pvalue > FALSE_ALARM
    # A twin that forgets the temperature would not pass.
    assert (kstest(np.ravel(drawn) * temperature**0.5, norm.cdf).pvalue < FALSE_ALARM) == (temperature != 1)


def test_walk_decides_by_the_ratio_of_the_densities():
    """One row at a time: what it compares is the difference of the whole log density."""
    from tastespace.models.factorization.rank.target import Side

    ratings, target = world()
    rng = generator(4)
    for temperature in (0.5, 1.0, 3.0):
        state = any_state(target, 2, rng, temperature=temperature)
        for which in ("users", "items"):
            rows = Side.of(target, state, which)
            other = rows.stepped(rng.standard_normal((len(rows.rows.factors), 3)))
            differences = rows.log_density(other) - rows.log_density(rows.rows)
            for row in range(len(differences)):
                factors, bias = rows.rows.factors.copy(), rows.rows.bias.copy()
                factors[row], bias[row] = other.factors[row], other.bias[row]
                moved = replace(state, **{which: Factors(factors, bias)})
                whole = dense_log_density(ratings, 3, moved) - dense_log_density(ratings, 3, state)
                assert differences[row] == pytest.approx(whole, rel=1e-9, abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("degrees", [1.0, 4.0])
def test_steps_have_the_tails_of_students_t(degrees):
    steps = HeavyTailedWalk(degrees, 0.5).steps(np.full(4000, 2.0), 1, generator(5))[:, 0]
    from scipy.stats import t

    assert kstest(steps, t(degrees).cdf).pvalue > FALSE_ALARM
    assert kstest(steps, norm.cdf).pvalue < FALSE_ALARM or degrees > 2


def test_walk_moves_and_stays():
    _, target = world()
    rng = generator(6)
    state = any_state(target, 2, rng)
    moved = HeavyTailedWalk(scale=1.0).moved(target, state, rng)
    went = np.any(moved.users.factors != state.users.factors, axis=1)
    biases = moved.users.bias != state.users.bias
    np.testing.assert_array_equal(went, biases)
    walked = [HeavyTailedWalk(scale=1.0).moved(target, state, rng) for _ in range(40)]
    share = np.mean([np.any(one.items.factors != state.items.factors, axis=1) for one in walked])
    assert 0.05 < share < 0.95


def test_a_walk_without_biases():
    _, target = world()
    state = any_state(target, 2, generator(7), biases=False)
    moved = HeavyTailedWalk().moved(target, state, generator(8))
    assert moved.users.bias is None
    assert moved.rank == 2


@pytest.mark.parametrize(("degrees", "scale"), [(0.0, 1.0), (1.0, -1.0)])
def test_nonsense_is_refused(degrees, scale):
    with pytest.raises(InvalidParameterError, match="expected"):
        HeavyTailedWalk(degrees, scale)


def test_unknown_moves():
    with pytest.raises(InvalidParameterError, match="'gibbs', 'heavy-tailed'"):
        within_move("levy", 1)
