"""Empirical Bayes: each move leaves the right distribution alone, and known precisions are found again.

Moves are tried at fixed precisions, on a case in closed form: many rows with the same ratings, given the other side,
are independent draws of one normal. Broken twins must fail. Seeds are fixed; over fresh ones a test of a right move
would fail once in a million times after Bonferroni.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import pytest
from scipy import stats

from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, never
from tastespace.inference.samplers.stochastic_approximation import RobbinsMonro, StochasticApproximation, averaged
from tastespace.models.factorization.als.sweep import WEIGHTINGS, Weighting
from tastespace.models.factorization.empirical_bayes.inference import FactorEvidence
from tastespace.models.factorization.empirical_bayes.settings import (
    AutoregressiveMove,
    Conditional,
    CrankNicolsonMove,
    GibbsMove,
)
from tastespace.models.factorization.empirical_bayes.sweep import Coordinates, FactorSweep, Precisions
from tastespace.models.factorization.likelihoods.base import Observations
from tastespace.models.factorization.rows import Factors, RatingBlock, RowPrior
from tastespace.progress import silent
from tastespace.randomness import generator

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
ALPHA, PRECISION, BIAS_PRECISION, WEIGHT = 1.7, 0.8, 2.5, 1.3
DESIGN = np.array([[1.0, -0.5], [0.3, 1.2], [-0.8, 0.4]])  # items that everybody has rated
ITEM_BIAS, TARGETS = np.array([0.2, -0.1, 0.4]), np.array([1.5, -0.7, 0.6])
ROWS, MOVES = 1000, 60


# Broken twins


class AcceptsAll(CrankNicolsonMove):
    """Proposals of Crank and Nicolson leave the prior alone, and nothing else."""

    def takes(self, log_ratio, rng):
        return np.ones(len(log_ratio), np.bool_)


class TakenForSymmetric(AutoregressiveMove):
    """The ratio of the densities alone, as Somani and Gupta (2017, equation 3.15) have it."""

    def log_ratio(self, before, after, widths, spread):
        return -0.5 * np.sum(widths**-2 * (after**2 - before**2), axis=1)


class WithoutPrior(AutoregressiveMove):
    def log_ratio(self, before, after, widths, spread):
        return np.zeros(len(before))


MOVES_BY_NAME = {
    "gibbs": GibbsMove(),
    "crank-nicolson": CrankNicolsonMove(),
    "autoregressive": AutoregressiveMove(),
    "autoregressive, wide": AutoregressiveMove(share=1.4),
}
BROKEN = {
    "accepts all": AcceptsAll(),
    "taken for symmetric": TakenForSymmetric(),
    "without prior": WithoutPrior(),
}


def closed_form(has_bias):
    """Mean and covariance of a row (factors, bias) given its ratings."""
    design = np.column_stack([DESIGN, np.ones(3)]) if has_bias else DESIGN
    prior = WEIGHT * np.diag([PRECISION, PRECISION, BIAS_PRECISION][: design.shape[1]])
    precision = prior + ALPHA * design.T @ design
    left = TARGETS - ITEM_BIAS if has_bias else TARGETS
    return np.linalg.solve(precision, ALPHA * design.T @ left), np.linalg.inv(precision)


def drawn(move, has_bias):
    """Rows after many moves from a start that is none of theirs."""
    side = RatingBlock(
        np.arange(0, 3 * ROWS + 1, 3, dtype=np.int64),
        np.tile(np.arange(3, dtype=np.int32), ROWS),
        np.tile(TARGETS, ROWS),
    )
    prior = RowPrior(
        PRECISION * np.eye(2), np.zeros((1, 2)), BIAS_PRECISION if has_bias else 0.0, scale=np.full(ROWS, WEIGHT)
    )
    rng, other = generator(8), Factors(DESIGN, ITEM_BIAS if has_bias else None)
    rows, angles = Factors(np.zeros((ROWS, 2)), np.zeros(ROWS) if has_bias else None), np.full(ROWS, 0.7)
    for _ in range(2 if isinstance(move, GibbsMove) else MOVES):
        moved = move.moved(Conditional(side, other, prior, ALPHA, "user", 1), rows, angles, 0.0, rng)
        rows = moved.points
    return rows.factors if rows.bias is None else np.column_stack([rows.factors, rows.bias])


def is_right(rows, mean, covariance):
    """Whitened rows are standard normal: coordinate by coordinate, and in their lengths and products."""
    white = (rows - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    p_values = [stats.kstest(column, "norm").pvalue for column in white.T]
    p_values += [stats.kstest(np.sum(white**2, axis=1), "chi2", args=(white.shape[1],)).pvalue]
    for one in range(white.shape[1]):
        for other in range(one):
            products = white[:, one] * white[:, other]  # variance 1
            p_values.append(2 * stats.norm.sf(abs(products.sum()) / len(products) ** 0.5))
    return min(p_values) * len(p_values) > FALSE_ALARM


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("name", MOVES_BY_NAME)
def test_each_move_leaves_the_conditional_alone(name, has_bias):
    assert is_right(drawn(MOVES_BY_NAME[name], has_bias), *closed_form(has_bias))


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_ratio_would_be_noticed(name):
    assert not is_right(drawn(BROKEN[name], True), *closed_form(True))


# The whole sweep


def small_sweep(move, weighting=WEIGHTINGS["plain"], kind=FactorSweep):
    """4 users, 3 items, one factor, 7 ratings in units of their own."""
    users, items = np.array([0, 0, 1, 1, 2, 3, 3]), np.array([0, 1, 1, 2, 0, 2, 0])
    values = np.array([1.2, -0.4, 0.3, -1.1, 0.8, 0.1, -0.6])
    ratings = Ratings.from_arrays(users, items, values)
    sides = (RatingBlock.of(side, np.float64, 0.0) for side in (ratings.by_user, ratings.by_item))
    return kind(Observations(*sides), weighting, 1, has_biases=True, move=move, threads=1)


PRECISIONS = Precisions(1.1, 0.7, 2.0, 1.5, 1.4)


class MirrorsWrongly(FactorSweep):
    """About the mean of one side only: the other is turned about 0, which is not where it is symmetric."""

    def _mirror(self, given, rows):
        if given.name == "item":
            return Factors(-rows.factors, -rows.bias)
        return super()._mirror(given, rows)


def means_of(sweep, n=3000, seed=3):
    """Posterior means of what turning factors leaves alone: scores of pairs, squares, biases; and their errors."""
    rng = generator(seed)
    blank = Factors(np.zeros((4, 1)), np.zeros(4)), Factors(np.zeros((3, 1)), np.zeros(3))
    state, found = sweep.state(*blank, PRECISIONS), []
    for step in range(n + 100):
        state, _ = sweep.moved(state, PRECISIONS, 0.0, rng)
        if step >= 100:
            scores = state.users.factors @ state.items.factors.T + state.users.bias[:, None] + state.items.bias
            squares = [float(np.sum(state.users.factors**2)), float(np.sum(state.items.factors**2)), state.squares]
            found.append([*scores.reshape(-1), *state.users.bias, *state.items.bias, *squares])
    series = np.array(found)
    blocks = series.reshape(30, -1, series.shape[1]).mean(axis=1)
    return blocks.mean(axis=0), blocks.std(axis=0, ddof=1) / 30**0.5


@pytest.fixture(scope="module")
def truth():
    """By importance sampling from the prior: no chain, no conditional, no kernel."""
    rng, n = generator(4), 400_000
    users, items = rng.standard_normal((n, 4)) / 1.1**0.5, rng.standard_normal((n, 3)) / 0.7**0.5
    user_bias, item_bias = rng.standard_normal((n, 4)) / 2.0**0.5, rng.standard_normal((n, 3)) / 1.5**0.5
    scores = users[:, :, None] * items[:, None] + user_bias[:, :, None] + item_bias[:, None]
    rated = [0, 0, 1, 1, 2, 3, 3], [0, 1, 1, 2, 0, 2, 0]
    errors = np.array([1.2, -0.4, 0.3, -1.1, 0.8, 0.1, -0.6]) - scores[:, *rated]
    squares = np.sum(errors**2, axis=1)
    weights = np.exp(-PRECISIONS.noise / 2 * (squares - squares.min()))
    weights /= weights.sum()
    columns = [scores.reshape(n, -1), user_bias, item_bias]
    columns += [np.sum(users**2, axis=1)[:, None], np.sum(items**2, axis=1)[:, None], squares[:, None]]
    values = np.concatenate(columns, axis=1)
    mean = weights @ values
    return mean, np.sqrt(weights**2 @ (values - mean) ** 2)


def agrees(found, truth):
    """Both have Monte Carlo errors; those of 30 blocks have a t distribution."""
    (mean, error), (expected, its_error) = found, truth
    score = np.abs(mean - expected) / np.hypot(error, its_error)
    return float(2 * stats.t.sf(score, 29).min()) * len(mean) > FALSE_ALARM


@pytest.mark.parametrize("name", ["gibbs", "crank-nicolson", "autoregressive"])
def test_whole_sweeps_have_the_posterior_means(name, truth):
    n = 3000 if name == "gibbs" else 450
    assert agrees(means_of(small_sweep(MOVES_BY_NAME[name]), n), truth)


def test_mirrors_in_the_wrong_place_would_be_noticed(truth):
    assert not agrees(means_of(small_sweep(GibbsMove(), kind=MirrorsWrongly)), truth)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_mirrored_sweep_leaves_the_density_as_it_is(weighting):
    """To rounding: that is why it needs no ratio. The squares that it says are those there are."""
    sweep, rng = small_sweep(GibbsMove(), WEIGHTINGS[weighting]), generator(0)
    state = sweep.state(Factors(np.ones((4, 1)), np.ones(4)), Factors(np.ones((3, 1)), np.ones(3)), PRECISIONS)
    before, _ = sweep.moved(state, PRECISIONS, 0.0, rng)
    after = sweep.mirrored(before, PRECISIONS)
    assert abs(sweep.log_joint(after, PRECISIONS) - sweep.log_joint(before, PRECISIONS)) < 1e-9
    told, there = after.squares, sweep.state(after.users, after.items, PRECISIONS).squares
    assert abs(told - there) < 1e-9
    assert not np.allclose(after.items.factors, before.items.factors)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_gradient_is_that_of_the_log_joint(weighting):
    """By finite differences of the density, weights and normalisers included; times the information n / 2."""
    sweep = small_sweep(GibbsMove(), WEIGHTINGS[weighting])
    state, _ = sweep.moved(
        sweep.state(Factors(np.ones((4, 1)), np.ones(4)), Factors(np.ones((3, 1)), np.ones(3)), PRECISIONS),
        PRECISIONS,
        0.0,
        generator(1),
    )
    for is_tied, sizes in ((False, [4, 3, 4, 3, 7]), (True, [7, 4, 3, 7])):
        coordinates = Coordinates(is_tied, has_biases=True)
        evidence, place = FactorEvidence(sweep, coordinates), coordinates.logarithms(PRECISIONS)
        slopes = []
        for change in 1e-5 * np.eye(len(place)):
            up, down = (sweep.log_joint(state, coordinates.precisions(place + sign * change)) for sign in (1, -1))
            slopes.append((up - down) / 2e-5)
        np.testing.assert_allclose(evidence.gradient(state, place) * np.array(sizes) / 2, slopes, rtol=1e-6, atol=1e-8)


# Recovery


class AsPrinted(FactorEvidence):
    """Somani and Gupta (2017, equation 3.20), Dey and Jhamb (2018, equation 10): without the normaliser."""

    def slope(self, size, squares, precision):
        return -precision * squares / size


@dataclass(frozen=True)
class World:
    """Ratings drawn from the model itself, weights and all."""

    ratings: Ratings
    precisions: Precisions

    @classmethod
    def of(cls, weighting: Weighting, precisions: Precisions, *, n_factors=2) -> World:
        rng, n_users, n_items = generator(12), 300, 200
        is_rated = rng.random((n_users, n_items)) < 0.2
        users, items = np.nonzero(is_rated)
        spread = [1 / weighting.of(counts) ** 0.5 for counts in (is_rated.sum(axis=1), is_rated.sum(axis=0))]
        u, v = (rng.standard_normal((len(own), n_factors)) * own[:, None] for own in spread)
        c, d = (rng.standard_normal(len(own)) * own for own in spread)
        scores = np.sum(u[users] * v[items], axis=1) / (precisions.users * precisions.items) ** 0.5
        scores += c[users] / precisions.user_bias**0.5 + d[items] / precisions.item_bias**0.5
        values = scores + rng.standard_normal(len(users)) / precisions.noise**0.5
        return cls(Ratings.from_arrays(users, items, values), precisions)


def learned(world, weighting, kind=FactorEvidence, *, steps=80, move=None, is_tied=True):
    sides = (RatingBlock.of(side, np.float64, 0.0) for side in (world.ratings.by_user, world.ratings.by_item))
    sweep = FactorSweep(
        Observations(*sides),
        weighting,
        2,
        has_biases=True,
        move=GibbsMove() if move is None else move,
        threads=1,
    )
    evidence = kind(sweep, Coordinates(is_tied, has_biases=True))
    transition = StochasticApproximation(evidence, RobbinsMonro(), log(1e-6), log(1e6))
    rng = generator(6)
    _, trace = ascend(transition, transition.init(rng), rng, steps=steps, stop=never, phase="", observer=silent)
    return averaged(trace, evidence.names, steps // 2), trace


SCALES = {"plain": 1.0, "weighted": 0.02, "blended": 0.005}  # so that ratings vary about as much


@pytest.mark.parametrize("weighting", SCALES)
def test_known_precisions_are_found_again(weighting):
    """Each to five of its standard errors: log of a precision of n numbers is known to sqrt(2 / n), if those are.

    They are not known exactly, which is allowed for with twice that.
    """
    unit = SCALES[weighting]
    true = Precisions(1.5 * unit, 1.5 * unit, 4.0 * unit, 2.5 * unit, 3.0)
    found, _ = learned(World.of(WEIGHTINGS[weighting], true), WEIGHTINGS[weighting])
    expected = {
        "factors": (true.factors, 2 * (300 + 200)),
        "user bias": (true.user_bias, 300),
        "item bias": (true.item_bias, 200),
        "noise": (true.noise, 12_000),
    }
    for name, (value, n) in expected.items():
        assert abs(log(found[name] / value)) < 5 * 2 * (2 / n) ** 0.5, (name, found[name], value)


@pytest.mark.parametrize("move", [CrankNicolsonMove(), AutoregressiveMove()], ids=["crank-nicolson", "autoregressive"])
def test_other_moves_find_the_same(move):
    true = Precisions(1.5, 1.5, 4.0, 2.5, 3.0)
    world = World.of(WEIGHTINGS["plain"], true)
    by_gibbs, by_proposals = learned(world, WEIGHTINGS["plain"])[0], learned(world, WEIGHTINGS["plain"], move=move)[0]
    for name, value in by_gibbs.items():
        assert abs(log(by_proposals[name] / value)) < 0.1, name


def test_tied_or_not_the_product_is_the_same():
    true = Precisions(1.5, 1.5, 4.0, 2.5, 3.0)
    world = World.of(WEIGHTINGS["plain"], true)
    tied, free = (learned(world, WEIGHTINGS["plain"], is_tied=is_tied)[0] for is_tied in (True, False))
    assert abs(log(tied["factors"] / (free["users"] * free["items"]) ** 0.5)) < 0.05


def test_with_the_printed_gradient_precisions_fall_to_nothing():
    """The drift to zero: every step of every precision is downward, and there is no rest."""
    true = Precisions(1.5, 1.5, 4.0, 2.5, 3.0)
    world = World.of(WEIGHTINGS["plain"], true)
    found, trace = learned(world, WEIGHTINGS["plain"], AsPrinted, steps=60)
    for name in found:
        path = np.array([stats[name] for stats in trace])
        assert (np.diff(path) < 0).all()
    assert trace[-1]["factors"] < 0.2 * true.factors
    assert trace[-1]["noise"] < 0.2 * true.noise
