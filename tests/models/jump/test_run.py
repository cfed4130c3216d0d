"""Ranks that were put into ratings are found again; runs repeat; edges make sense."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tastespace import Ratings
from tastespace.errors import DataError, InvalidParameterError
from tastespace.inference.samplers.annealing import Constant, Geometric, Logarithmic
from tastespace.models.factorization.rank.reversible_jump import ReversibleJump
from tastespace.randomness import generator
from tastespace.testing import toys

QUICK = ReversibleJump(warmup=10, tuning=40, draws=40, quench=0, sweeps=2, jumps=2)


def ratings_of_rank(rank, n_users=90, n_items=70):
    ratings, _ = toys.gaussian(
        n_users, n_items, n_factors=rank, density=0.5, biases=0.3, spread=1.0, noise=0.4, rng=generator(rank)
    )
    return ratings


@pytest.mark.statistical
@pytest.mark.parametrize("rank", [3, 5, 10])
def test_the_rank_is_found(rank):
    run = QUICK.run(ratings_of_rank(rank), 20, seed=1)
    assert abs(run.rank - rank) <= 1
    assert run.ranks.shape == (40,)
    assert sum(run.posterior.values()) == pytest.approx(1)
    assert run.max_rank == 20


@pytest.mark.statistical
def test_blind_births_hardly_ever_live():
    """Why births are informed: with as many tries nothing is accepted, and the rank stays where it began."""
    ratings = ratings_of_rank(3)
    blind = replace(QUICK, births="blind").run(ratings, 20, seed=1)
    assert blind.trace["births"][20:].max() < 1e-6
    assert blind.rank < 3


@pytest.mark.statistical
def test_cooling_on_only_optimises():
    """The loss falls below all of T = 1, and the rank rises: the best fit wants more factors than the posterior."""
    run = replace(QUICK, quench=40).run(ratings_of_rank(3, 40, 30), 8, seed=1)
    at_one = slice(run.plan.before_draws, run.plan.until_quench)
    np.testing.assert_array_equal(run.trace["temperature"][at_one], 1.0)
    assert run.trace["temperature"][-1] == pytest.approx(1e-3)
    assert run.trace["loss"][-1] < run.trace["loss"][at_one].min()
    assert run.cooled_rank >= run.rank


def test_same_seed_same_numbers():
    ratings = ratings_of_rank(2, 20, 15)
    short = replace(QUICK, warmup=4, tuning=6, draws=6, quench=3)
    asked = np.array([0, 3, -1], np.int32), np.array([1, -1, 2], np.int32)
    one, two = (short.run(ratings, 5, seed=4, asked=asked, threads=threads) for threads in (1, 2))
    for name, values in one.trace.items():
        np.testing.assert_array_equal(values, two.trace[name])
    np.testing.assert_array_equal(one.predicted, two.predicted)
    other = short.run(ratings, 5, seed=5, asked=asked)
    assert not np.array_equal(one.predicted, other.predicted)


def test_predictions_come_near_the_truth():
    ratings, truth = toys.gaussian(60, 50, n_factors=2, density=0.5, noise=0.3, rng=generator(9))
    users, items = np.indices((60, 50)).reshape(2, -1).astype(np.int32)
    run = QUICK.run(ratings, 10, seed=0, asked=(users, items))
    error = np.sqrt(np.mean((run.predicted - truth.expected(users, items)) ** 2))
    assert error < 0.25
    assert run.predicted.min() >= ratings.range[0]


@pytest.mark.parametrize("within", ["gibbs", "heavy-tailed"])
@pytest.mark.parametrize("births", ["informed", "blind", "annealed"])
def test_every_pairing_runs(births, within):
    short = replace(QUICK, births=births, within=within, warmup=3, tuning=4, draws=5, quench=2, biases=False, bridge=5)
    run = short.run(ratings_of_rank(2, 20, 15), 4, seed=0)
    assert all(np.isfinite(values).all() for values in run.trace.values())
    assert run.ranks.max() <= 4


@pytest.mark.parametrize("cooling", [Constant(), Geometric(3.0, 0.5), Logarithmic(1.5)])
def test_a_schedule_may_be_given(cooling):
    run = replace(QUICK, cooling=cooling, warmup=8, tuning=2, draws=3).run(ratings_of_rank(2, 20, 15), 4, seed=0)
    assert run.trace["temperature"][0] == pytest.approx(cooling.temperature(0))
    assert run.trace["temperature"][-1] == 1


@pytest.mark.parametrize("cooling", [Constant(2.0), Constant(0.5), Logarithmic(9.0), Geometric(2.0, 0.99)])
def test_a_schedule_that_never_comes_to_one_is_refused(cooling):
    with pytest.raises(InvalidParameterError, match="read at T = 1"):
        replace(QUICK, cooling=cooling).run(ratings_of_rank(2, 20, 15), 4, seed=0)


@pytest.mark.statistical
def test_from_above_the_same_rank_is_found():
    run = replace(QUICK, start_rank=9).run(ratings_of_rank(3), 20, seed=2)
    assert run.trace["rank"][0] > 5
    assert abs(run.rank - 3) <= 1


def test_one_rank_only():
    run = replace(QUICK, warmup=2, tuning=3, draws=4).run(ratings_of_rank(2, 20, 15), 1, seed=0)
    assert run.posterior == {1: 1.0}


@pytest.mark.parametrize(("users", "items"), [([1] * 4, [1, 2, 3, 4]), ([1, 2, 3, 4], [1] * 4)])
def test_one_user_or_one_item_has_one_factor(users, items):
    run = replace(QUICK, warmup=2, tuning=3, draws=4).run(Ratings.from_arrays(users, items, [1, 5, 2, 3]), 9, seed=0)
    assert run.max_rank == 1
    assert run.rank == 1


def test_one_level_only():
    with pytest.raises(DataError, match="all ratings are 4"):
        QUICK.run(Ratings.from_arrays([1, 2, 2], [1, 1, 2], [4, 4, 4]), 5, seed=0)


@pytest.mark.parametrize(
    "wrong",
    [{"births": "many"}, {"within": "levy"}, {"draws": 0}, {"warmup": -1}, {"jumps": 0}, {"sweeps": 1.5}],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(InvalidParameterError, match="expected"):
        replace(QUICK, **wrong).run(ratings_of_rank(2, 20, 15), 4, seed=0)


def test_no_ranks():
    with pytest.raises(InvalidParameterError, match="max_rank"):
        QUICK.run(ratings_of_rank(2, 20, 15), 0, seed=0)
