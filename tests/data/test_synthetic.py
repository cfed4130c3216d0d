"""Synthetic ratings: exactly as many as wanted, no pair twice, as uneven as real ones, the same for any threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tastespace.data import synthetic as module
from tastespace.data.formats.files import read
from tastespace.data.shapes import SHAPES, Shape, gini
from tastespace.data.splits import time_split
from tastespace.data.synthetic import BlockPool, Race, draw_pairs, synthetic
from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator


@st.composite
def shapes(draw):
    """Any shape there can be, full and almost empty ones among them."""
    n_users, n_items = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    n_ratings = draw(st.integers(1, n_users * n_items))
    return Shape(n_users, n_items, n_ratings, draw(st.floats(0, 0.98)), draw(st.floats(0, 0.98)))


def counts(ratings):
    return np.bincount(ratings.user_rows, minlength=ratings.n_users), np.bincount(
        ratings.item_rows, minlength=ratings.n_items
    )


def top_share(counts, share):
    """What the most active (or popular) share has of everything."""
    return np.sort(counts)[::-1][: int(share * len(counts))].sum() / counts.sum()


@given(shapes(), st.integers(0, 99))
@example(Shape(7, 5, 35, 0.98, 0.98), 0)
@example(Shape(30, 30, 30, 0.0, 0.98), 0)
@example(Shape(1, 1, 1), 0)
@example(Shape(1, 2, 1, 0.0, 0.9375), 0)
@settings(max_examples=100)
def test_any_shape_is_met_exactly(shape, seed):
    ratings = synthetic(shape, seed=seed)
    by_user, by_item = counts(ratings)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (shape.n_ratings, shape.n_users, shape.n_items)
    assert len(set(zip(ratings.user_rows.tolist(), ratings.item_rows.tolist(), strict=True))) == shape.n_ratings
    assert by_user.min() >= (shape.n_ratings >= shape.n_users)
    assert by_item.min() >= (shape.n_ratings >= shape.n_items)
    assert set(ratings.values.tolist()) <= set(shape.levels)


def test_ratings_are_as_others_are():
    ratings = synthetic("ml-100k", scale=0.5)
    assert ratings.user_rows.dtype == ratings.item_rows.dtype == np.int32
    assert ratings.values.dtype == np.float32
    assert ratings.users.ids.to_list() == list(range(ratings.n_users))
    assert ratings.items.rows_of([5, "7", 10**6]).tolist() == [5, 7, -1]
    assert ratings.times is None
    assert ratings.merged == 0
    assert not ratings.values.flags.writeable
    assert (np.diff(ratings.user_rows) >= 0).all()


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m"])
def test_unevenness_is_that_of_the_shape(name):
    by_user, by_item = counts(synthetic(name, seed=2))
    assert gini(by_user) == pytest.approx(SHAPES[name].activity, abs=0.015)
    assert gini(by_item) == pytest.approx(SHAPES[name].popularity, abs=0.015)
    assert by_user.min() >= 20


@pytest.mark.parametrize(("name", "file"), [("ml-100k", "ml-100k/u.data"), ("ml-1m", "ml-1m/ratings.parquet")])
@pytest.mark.filterwarnings("ignore::tastespace.errors.DataWarning")
def test_unevenness_is_that_of_real_ratings(name, file, datasets):
    real, drawn = read(datasets / file), synthetic(name, seed=1)
    for theirs, ours in zip(counts(real), counts(drawn), strict=True):
        assert gini(ours) == pytest.approx(gini(theirs), abs=0.02)
        assert top_share(ours, 0.1) == pytest.approx(top_share(theirs, 0.1), abs=0.06)
        assert np.median(ours) == pytest.approx(np.median(theirs), rel=0.1)
    popular, real_popular = counts(drawn)[1], counts(real)[1]
    assert top_share(popular, 0.01) == pytest.approx(top_share(real_popular, 0.01), abs=0.01)
    assert np.quantile(popular, 0.9) == pytest.approx(np.quantile(real_popular, 0.9), rel=0.1)
    assert drawn.mean == pytest.approx(real.mean, abs=0.1)
    assert drawn.standard_deviation == pytest.approx(real.standard_deviation, abs=0.1)


def test_a_shape_taken_from_ratings_gives_ratings_of_that_shape():
    first = synthetic(Shape(500, 300, 20_000, 0.5, 0.6, least=4), seed=3)
    again = Shape.of(synthetic(Shape.of(first), seed=4))
    assert again.activity == pytest.approx(Shape.of(first).activity, abs=0.02)
    assert again.popularity == pytest.approx(Shape.of(first).popularity, abs=0.02)


def arrays(ratings):
    times = () if ratings.times is None else (ratings.times,)
    return [array.tobytes() for array in (ratings.user_rows, ratings.item_rows, ratings.values, *times)]


def test_the_same_bytes_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10_000)  # many blocks, as at a hundred million
    ratings = [synthetic("ml-100k", times=True, seed=5, threads=threads) for threads in (1, 2, 5)]
    assert arrays(ratings[0]) == arrays(ratings[1]) == arrays(ratings[2])


def test_another_seed_gives_other_ratings():
    first, same, other = (arrays(synthetic("ml-100k", scale=0.5, seed=seed)) for seed in (0, 0, 1))
    assert first == same
    assert all(a != b for a, b in zip(first[1:], other[1:], strict=True))


@given(st.integers(1, 12), st.integers(1, 12), st.data())
@settings(max_examples=50)
def test_blocks_change_nothing_that_matters(n_users, n_items, data):
    n_ratings = data.draw(st.integers(1, n_users * n_items))
    before = module.BLOCK
    try:
        module.BLOCK = data.draw(st.integers(1, 5))
        users, items = draw_pairs(Shape(n_users, n_items, n_ratings), BlockPool(generator(0)))
    finally:
        module.BLOCK = before
    assert len(set(zip(users.tolist(), items.tolist(), strict=True))) == n_ratings
    assert n_ratings < n_items or len(set(items.tolist())) == n_items


WEIGHTS = np.array([0.4, 0.3, 0.15, 0.1, 0.04, 0.01])


def without_replacement(n):
    """How likely each item is among the first n of successive draws: summed over all orders of drawing."""
    chances = np.zeros(len(WEIGHTS))

    def draw(taken, chance):
        if len(taken) == n:
            chances[list(taken)] += chance
            return
        for item in set(range(len(WEIGHTS))) - set(taken):
            draw((*taken, item), chance * WEIGHTS[item] / (1 - WEIGHTS[list(taken)].sum()))

    draw((), 1.0)
    return chances


@pytest.mark.statistical
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("dear", [0.01, 1e9], ids=["draws", "race"])
def test_both_ways_draw_without_replacement(n, dear, monkeypatch):
    monkeypatch.setattr(module, "DEAR", dear)
    n_users = 100_000
    sizes, draws = module._progress(WEIGHTS, np.ones(len(WEIGHTS)))
    items = Race(WEIGHTS, sizes, draws).run(np.full(n_users, n), generator(n))
    found = np.bincount(items, minlength=len(WEIGHTS))
    expected = without_replacement(n)
    deviations = (found / n_users - expected) / np.sqrt(expected * (1 - expected) / n_users)
    assert np.abs(deviations).max() < 5.6  # once in ten million for one of the six
    if n == 2:  # a broken twin: n times the weight, as if popular items did not run out
        assert np.abs((found / n_users - n * WEIGHTS) / np.sqrt(expected * (1 - expected) / n_users)).max() > 20


@pytest.mark.statistical
def test_weights_are_fitted_to_the_counts_that_are_wanted():
    shape = Shape(3_000, 500, 150_000, activity=0.5, popularity=0.6)
    wanted, users = shape.item_counts(generator(1)), shape.user_counts(generator(2))
    race = Race.fitted(wanted, users)
    found = np.mean([np.bincount(race.run(users, generator(seed)), minlength=500) for seed in range(30)], axis=0)
    assert np.abs(found / wanted - 1)[wanted > 200].max() < 0.06
    plain = Race(wanted / wanted.sum(), race.sizes, race.draws)  # a broken twin: weights that are the counts
    found = np.bincount(plain.run(users, generator(0)), minlength=500)
    assert np.abs(found / wanted - 1)[wanted > 200].max() > 0.3


def test_draws_that_a_number_of_items_takes():
    race = Race.fitted(np.full(100, 50.0), np.full(100, 50))
    # n distinct of m equal ones take m (1/m + 1/(m-1) + ...) draws, up to half a draw or so.
    assert np.interp(50, race.sizes, race.draws) == pytest.approx(sum(100 / k for k in range(51, 101)), rel=0.02)


def test_levels():
    halves = synthetic(Shape(300, 200, 9_000, levels=(0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5)))
    assert np.unique(halves.values).tolist() == [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
    odd = synthetic(Shape(300, 200, 9_000, levels=(-10, 0, 7)))
    assert np.unique(odd.values).tolist() == [-10, 0, 7]
    free = synthetic(Shape(300, 200, 9_000, levels=None))
    assert len(np.unique(free.values)) > 8_000
    assert free.values.max() > 5.5  # neither rounded nor cut


def test_a_rating_is_moved_to_the_nearest_level():
    free = synthetic(Shape(300, 200, 9_000, levels=None), seed=6)
    stars = synthetic(Shape(300, 200, 9_000), seed=6)
    np.testing.assert_array_equal(stars.values, np.clip(np.floor(free.values + 0.5), 1, 5))


@pytest.mark.statistical
def test_noise_is_in_stars():
    quiet, loud = (synthetic(Shape(900, 600, 60_000, levels=None), noise=noise, seed=7) for noise in (0, 1.5))
    assert np.std(loud.values - quiet.values) == pytest.approx(1.5, rel=0.02)
    assert np.std(quiet.values) == pytest.approx((0.42**2 + 0.5**2 + 0.45**2) ** 0.5, rel=0.15)


def test_times_let_users_come_and_go():
    ratings = synthetic("ml-100k", times=True, seed=8)
    assert ratings.times.dtype == np.dtype("datetime64[s]")
    assert ratings.times.min() >= np.datetime64("2000-01-01")
    assert ratings.times.max() < np.datetime64("2007-01-01")
    split = time_split(ratings, 0.1)
    assert (split.train.users.rows_of(split.test.users.ids) < 0).any()  # some come after the split


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": "film"}, "shape is 'film'"),
        ({"scale": 0}, "scale is 0"),
        ({"n_factors": 0}, "n_factors is 0; expected a whole number of at least 1"),
        ({"n_factors": 2.0}, "n_factors is 2.0"),
        ({"noise": -1}, "noise is -1; expected a number of at least 0"),
        ({"noise": float("nan")}, "noise is nan"),
        ({"noise": "much"}, "noise is 'much'"),
        ({"seed": -1}, "seed is -1"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        synthetic(**options)
