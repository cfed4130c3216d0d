"""Births and deaths: exact inverses of one another, in balance at every temperature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from models.jump.worlds import any_state, dense_log_density, small_ratings
from scipy.integrate import quad
from scipy.stats import norm

from tastespace.inference.samplers.reversible_jump import proposal_down, proposal_up
from tastespace.models.factorization.rank.births import (
    BlindBirth,
    Guide,
    InformedBirth,
    Leftover,
    draw_direction,
    helmert,
    log_direction,
    reflection,
    spare_directions,
)
from tastespace.models.factorization.rank.target import Precisions, RankTarget
from tastespace.randomness import generator

MOST = 6
PAIRS = {
    "blind": BlindBirth,
    "blind, two": lambda target: BlindBirth(target, 2),
    "informed": InformedBirth,
    "informed, any direction": lambda target: InformedBirth(target, power=0.0),
}
SHAPES = [(7, 5), (4, 8)]  # either side the shorter one


def world(shape, seed=0):
    ratings = small_ratings(*shape, generator(seed))
    return ratings, RankTarget.of(ratings, MOST)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_helmert_is_orthogonal_and_as_printed(n):
    found = helmert(n)
    np.testing.assert_allclose(found @ found.T, np.eye(n), atol=1e-14)
    x = generator(n).standard_normal(n)
    y = found @ x
    assert y[0] == pytest.approx(x.sum() / np.sqrt(n))
    for i in range(2, n + 1):  # as Dey and Jhamb (2018) number them
        assert y[i - 1] == pytest.approx((x[: i - 1].sum() - (i - 1) * x[i - 1]) / np.sqrt(i * (i - 1)))


def test_reflection_takes_a_direction_to_the_last_axis():
    for n in (2, 3, 6):
        direction = draw_direction(np.eye(n), generator(n))
        turn = reflection(direction)
        np.testing.assert_allclose(turn @ turn, np.eye(n), atol=1e-14)
        np.testing.assert_allclose(direction @ turn, np.eye(n)[-1], atol=1e-14)
    np.testing.assert_array_equal(reflection(np.eye(4)[-1]), np.eye(4))


def test_density_of_directions_integrates_to_one():
    """Around the circle, relative to a uniform direction."""
    matrix = np.array([[3.0, 0.8], [0.8, 0.5]])

    def density(angle):
        return np.exp(log_direction(matrix, np.array([np.cos(angle), np.sin(angle)]))) / (2 * np.pi)

    assert quad(density, 0, 2 * np.pi)[0] == pytest.approx(1, rel=1e-8)


@pytest.mark.statistical
def test_directions_are_drawn_by_their_density():
    """The share within half a right angle of the axis, against the integral."""
    matrix, rng, n = np.array([[3.0, 0.8], [0.8, 0.5]]), generator(5), 20_000
    inside = sum(abs(draw_direction(matrix, rng)[0]) > np.cos(np.pi / 4) for _ in range(n))

    def density(angle):
        return np.exp(log_direction(matrix, np.array([np.cos(angle), np.sin(angle)]))) / (2 * np.pi)

    truth = 2 * quad(density, -np.pi / 4, np.pi / 4)[0]
    z = (inside - n * truth) / np.sqrt(n * truth * (1 - truth))
    assert abs(z) < norm.isf(5e-7)


def test_spare_directions_turn_with_the_factors():
    rng = generator(6)
    users, items, turn = rng.standard_normal((9, 3)), rng.standard_normal((6, 3)), helmert(3)
    there = spare_directions(users @ turn, items @ turn, 2.0)
    np.testing.assert_allclose(turn.T @ spare_directions(users, items, 2.0) @ turn, there, rtol=1e-10)
    weak = users * [1, 1, 0.01], items * [1, 1, 0.01]
    assert abs(draw_direction(spare_directions(*weak, 4.0), rng)[2]) > 0.99


def test_guide_is_a_density():
    """Of one entry, integrated; both signs the same."""
    guide = Guide(np.array([1.5]), np.array([4.0]))
    assert quad(lambda x: np.exp(guide.log_density(np.array([x]))), -8, 8)[0] == pytest.approx(1)
    assert guide.log_density(np.array([1.2])) == pytest.approx(guide.log_density(np.array([-1.2])))


def test_guide_finds_the_factor_that_is_missing():
    rng = generator(8)
    a, b = rng.standard_normal(60), rng.standard_normal(40)
    errors = np.outer(a, b) + 0.1 * rng.standard_normal((60, 40))
    columns, offsets = np.tile(np.arange(40), 60), np.arange(0, 2401, 40)
    leftover = Leftover.of(errors.ravel(), columns, offsets, 40)
    guide = leftover.guide(1.0, 1.0, 100.0)
    assert abs(np.corrcoef(guide.mean, b)[0, 1]) > 0.99
    mean, precision = leftover.given(guide.mean, 1.0, 100.0)
    np.testing.assert_allclose(np.outer(mean, guide.mean), np.outer(a, b), atol=0.3)
    np.testing.assert_allclose(precision, 1 + 100 * np.sum(guide.mean**2))


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("biases", [True, False])
def test_log_density_is_the_formula(temperature, biases):
    ratings, target = world((7, 5))
    state = any_state(target, 3, generator(1), biases=biases, temperature=temperature)
    assert target.log_density(state) == pytest.approx(dense_log_density(ratings, MOST, state), rel=1e-12)


def test_turning_changes_nothing():
    """(U Q, V Q) is as likely as (U, V): the map of a birth decides only what a death takes."""
    _, target = world((7, 5))
    state, turn = any_state(target, 4, generator(2)), helmert(4)
    turned = state.with_factors(state.users.factors @ turn, state.items.factors @ turn)
    assert target.log_density(turned) == pytest.approx(target.log_density(state), rel=1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
def test_detailed_balance(name, shape, temperature):
    """p(x) g_up(u) a(x -> x') = p(x') g_down(w) a(x' -> x) |J|^-1, the way back found from x' alone."""
    ratings, target = world(shape)
    pair, rng = PAIRS[name](target), generator(11)
    for rank in (1, 2, 4):
        state = any_state(target, rank, rng, temperature=temperature)
        up = pair.draw_up(state, rng)
        larger, down, log_jacobian = pair.up(state, up)
        back, again, log_inverse = pair.down(larger, down)
        assert larger.rank == rank + getattr(pair, "columns", 1)
        np.testing.assert_allclose(back.users.factors, state.users.factors, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(back.items.factors, state.items.factors, rtol=1e-10, atol=1e-11)
        assert log_inverse == -log_jacobian

        there = proposal_up(pair, target.log_density, state, up)
        home = proposal_down(pair, target.log_density, larger, down)
        forward = dense_log_density(ratings, MOST, state) + pair.log_up(state, up) + np.log(there.acceptance)
        reverse = dense_log_density(ratings, MOST, larger) + pair.log_down(larger, down) + np.log(home.acceptance)
        # The logarithms are equal to 1e-9, and so are the products, relatively.
        assert forward == pytest.approx(reverse + log_jacobian, abs=1e-9)
        assert pair.log_up(back, again) == pytest.approx(pair.log_up(state, up), abs=1e-9)


@pytest.mark.parametrize("name", PAIRS)
def test_the_jacobian_is_one(name):
    """For given directions the map is linear: its matrix, column by column, and the determinant of that."""
    _, target = world((4, 3))
    pair, rng = PAIRS[name](target), generator(12)
    state = any_state(target, 2, rng, biases=False)
    up = pair.draw_up(state, rng)
    n = 2 + up.users.shape[1]

    def image(vector):
        users, items = vector[: 4 * n].reshape(4, n), vector[4 * n :].reshape(3, n)
        moved = replace(up, users=users[:, 2:], items=items[:, 2:])
        larger, _, _ = pair.up(state.with_factors(users[:, :2], items[:, :2]), moved)
        return np.concatenate([larger.users.factors.ravel(), larger.items.factors.ravel()])

    matrix = np.array([image(axis) for axis in np.eye(7 * n)])
    assert abs(np.linalg.det(matrix)) == pytest.approx(1, rel=1e-9)


@pytest.mark.statistical
def test_the_informed_law_is_a_density():
    """The mean of its density over that of the prior, of columns drawn from the prior, is 1."""
    _, target = world((4, 3))
    pair, blind, rng = InformedBirth(target), BlindBirth(target), generator(13)
    weak = Precisions(1.3, 0.8, 0.1, 3.0, 5.0)  # with little to go by the two laws are near
    state = any_state(target, 2, rng, precisions=weak)
    drawn = [blind.draw_up(state, rng) for _ in range(4000)]
    ratios = np.exp([pair.log_up(state, new) - blind.log_up(state, new) for new in drawn])
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert error < 0.1
    assert abs(ratios.mean() - 1) < norm.isf(5e-7) * error
