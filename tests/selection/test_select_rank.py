"""Choosing a number of factors: every method on the same split, and what is made of bad questions."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tastespace import (
    BPMF,
    RankChoice,
    RankChoices,
    Ratings,
    ReversibleJump,
    choose_rank,
    compare_ranks,
    random_split,
    read,
)
from tastespace.errors import ConvergenceWarning, DataError, InvalidParameterError
from tastespace.inference.samplers.annealing import Constant
from tastespace.randomness import generator
from tastespace.selection.select_rank import _grid
from tastespace.testing import toys

SHORT = ReversibleJump(warmup=5, tuning=20, draws=20, quench=5)


@pytest.fixture(scope="module")
def ratings():
    return toys.gaussian(50, 40, n_factors=2, density=0.5, noise=0.4, rng=generator(1))[0]


@pytest.fixture(scope="module")
def found(ratings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return compare_ranks(
            ratings, ["reversible-jump", "grid"], max_rank=8, ranks=[1, 2], jumps=SHORT, seed=3, threads=1
        )


def test_both_find_the_rank(found):
    assert abs(found["reversible-jump"].rank - 2) <= 1
    assert found["grid"].rank == 2
    for choice in found:
        assert 0.35 < choice.rmse < 0.6
        assert choice.seconds > 0


def test_what_each_says_besides(found):
    jumping, grid = found
    assert sum(jumping.posterior.values()) == pytest.approx(1)
    assert jumping.probability == jumping.posterior[jumping.rank]
    assert jumping.tried is None
    assert len(jumping.trace.loss) == len(jumping.trace.rank) == len(jumping.trace.temperature) == 50
    assert (jumping.trace.first, jumping.trace.last) == (25, 45)
    assert set(grid.tried) == {1, 2}
    assert grid.rank == min(grid.tried, key=grid.tried.get)
    assert grid.posterior is None
    assert grid.probability is None
    assert grid.trace.first == 50


def test_table_and_json(found):
    text = str(found)
    assert text.splitlines()[1].split() == ["method", "rank", "probability", "RMSE", "seconds"]
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["reversible-jump", "grid"]
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [row["method"] for row in content["rows"]] == ["reversible-jump", "grid"]
    assert content["rows"][0]["posterior"]
    assert content["rows"][1]["tried"].keys() == {"1", "2"}
    assert content["train"] + content["test"] == 1000
    assert "RMSE" in str(found[0])
    assert found.best in list(found)
    assert len(found) == 2
    with pytest.raises(InvalidParameterError, match="reversible-jump, grid"):
        found["ard"]


def test_the_error_is_of_what_is_held_out_and_nothing_is_chosen_by_it(ratings):
    """Other values of the held-out ratings change the error, and not the rank."""
    split = random_split(ratings, 0.1, seed=0)
    other = replace(split, test=replace(split.test, values=np.flip(split.test.values).copy()))
    one, two = (choose_rank(parts, max_rank=6, jumps=SHORT, seed=0) for parts in (split, other))
    assert one.posterior == two.posterior
    np.testing.assert_array_equal(one.trace.loss, two.trace.loss)
    assert two.rmse > one.rmse


def test_same_seed_same_choice(ratings):
    one, two = (choose_rank(ratings, max_rank=6, jumps=SHORT, seed=5, threads=threads) for threads in (1, 2))
    assert (one.rank, one.rmse, one.posterior) == (two.rank, two.rmse, two.posterior)
    np.testing.assert_array_equal(one.trace.loss, two.trace.loss)


def test_progress_is_reported(ratings):
    events = []
    choose_rank(ratings, max_rank=4, jumps=SHORT, observer=events.append)
    assert {event.phase for event in events} == {"reversible-jump: jumping", "reversible-jump: cooling"}
    assert events[-1].step == 5


@pytest.mark.parametrize("method", ["shrinkage", "ard"])
def test_shrinking_priors(ratings, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = choose_rank(ratings, method, max_rank=8, seed=0)
    assert 1 <= found.rank <= 8
    assert sum(found.posterior.values()) == pytest.approx(1)
    assert found.rmse < 0.6


def test_a_grid_goes_as_far_as_the_ratings(ratings):
    small = toys.gaussian(12, 5, n_factors=1, density=0.9, rng=generator(1))[0]
    assert _grid(None, 50, small) == [1, 2, 4]
    assert _grid(None, 20, ratings) == [1, 2, 4, 8, 16]
    assert _grid([4, 2, 2], 20, ratings) == [2, 4]


def test_one_rank_only(ratings):
    assert choose_rank(ratings, max_rank=1, jumps=SHORT).posterior == {1: 1.0}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"methods": ["lucky"]}, "method is 'lucky'"),
        ({"methods": []}, "each once"),
        ({"methods": ["grid", "grid"]}, "each once"),
        ({"max_rank": 0}, "max_rank"),
        ({"ranks": [0, 2]}, "ranks"),
        ({"ranks": [60]}, "from 1 to 40"),
        ({"ranks": []}, "from 1 to 40"),
        ({"share": 2.0}, "share"),
        ({"jumps": replace(SHORT, cooling=Constant(2.0))}, "read at T = 1"),
    ],
)
def test_nonsense_is_refused(ratings, wrong, message):
    with pytest.raises(InvalidParameterError, match=message):
        compare_ranks(ratings, **wrong)


def test_no_ratings_at_all():
    with pytest.raises(InvalidParameterError, match="expected Ratings"):
        choose_rank([1, 2, 3])
    with pytest.raises(InvalidParameterError, match="expected a larger share"):
        choose_rank(Ratings.from_arrays([1], [1], [3.0]))


def test_one_level_only():
    users, items = np.indices((6, 5)).reshape(2, -1)
    with pytest.raises(DataError, match="all ratings are 4"):
        choose_rank(Ratings.from_arrays(users, items, np.full(30, 4.0)).with_kind("stars"))


def test_choices_are_no_ratings():
    with pytest.raises(DataError, match="one-class"):
        choose_rank(Ratings.from_arrays(np.repeat(np.arange(5), 4), np.arange(20) % 7))


def test_one_user():
    ratings = Ratings.from_arrays([1] * 20, np.arange(20), np.tile([1.0, 2, 3, 4, 5], 4))
    assert choose_rank(ratings, jumps=SHORT).rank == 1


def test_a_choice_is_used_as_a_parameter():
    choice = RankChoice("grid", 3, 0.9, 1.0)
    assert RankChoices((choice,), 9, 1).best is choice
    assert BPMF(n_factors=choice.rank).n_factors == 3


@pytest.mark.slow
def test_movielens_100k(datasets):
    """90:10, seed 0: within 0.01 of the best of a grid, 0.8784 (16 factors); printed is 1.0209."""
    ratings = read(datasets / "ml-100k" / "u.data")
    found = choose_rank(ratings, seed=0, threads=1)
    assert found.rmse < 0.8784 + 0.01
    assert 3 <= found.rank <= 16
