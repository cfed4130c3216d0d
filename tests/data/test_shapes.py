"""Shapes: how many ratings everybody has, exactly as many as wanted and as unequal as said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tastespace.data.formats.files import read
from tastespace.data.ratings import Ratings
from tastespace.data.shapes import HALF_STARS, SHAPES, STARS, Shape, gini, shape_named
from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator


@st.composite
def shapes(draw):
    """Any shape there can be, full and almost empty ones among them."""
    n_users, n_items = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    return Shape(
        n_users,
        n_items,
        draw(st.integers(1, n_users * n_items)),
        activity=draw(st.floats(0, 0.98)),
        popularity=draw(st.floats(0, 0.98)),
    )


def test_gini_of_known_counts():
    assert gini(np.array([3, 3, 3])) == 0
    assert gini(np.array([0, 0, 0, 12])) == pytest.approx(3 / 4)  # 1 - 1/n
    # Mean absolute difference of 1, 2, 3, over all ordered pairs: 8/9; half of it over the mean of 2.
    assert gini(np.array([2, 3, 1])) == pytest.approx(8 / 9 / 2 / 2)


@given(shapes(), st.integers(0, 99))
def test_counts_are_exact_and_possible(shape, seed):
    users = shape.user_counts(generator(seed))
    items = shape.item_counts(generator(seed))
    assert users.sum() == shape.n_ratings
    assert items.sum() == pytest.approx(shape.n_ratings)
    assert users.max() <= shape.n_items
    assert items.max() <= shape.n_users
    assert users.min() >= (shape.n_ratings >= shape.n_users)
    assert items.min() > 0


@given(st.floats(0.05, 0.85), st.floats(0.05, 0.9), st.integers(0, 3))
@settings(max_examples=30)
def test_counts_are_as_unequal_as_said(activity, popularity, seed):
    shape = Shape(20_000, 10_000, 2_000_000, activity, popularity)
    assert gini(shape.user_counts(generator(seed))) == pytest.approx(activity, abs=0.02)
    assert gini(shape.item_counts(generator(seed))) == pytest.approx(popularity, abs=0.02)


@pytest.mark.parametrize("least", [1, 20, 60])
def test_every_user_has_the_minimum(least):
    shape = Shape(2_000, 1_000, 200_000, activity=0.35, least=least)
    counts = shape.user_counts(generator(0))
    assert counts.min() >= least
    assert gini(counts) == pytest.approx(0.35, abs=0.01)


def test_as_many_as_the_least_leaves_no_choice():
    assert (Shape(50, 30, 500, least=10).user_counts(generator(0)) == 10).all()


def test_named_shapes_have_the_published_sizes_and_medians():
    netflix = SHAPES["netflix"]
    assert (netflix.n_users, netflix.n_items, netflix.n_ratings) == (480_189, 17_770, 100_480_507)
    assert np.median(netflix.user_counts(generator(0))) == pytest.approx(96, rel=0.05)
    assert np.median(netflix.item_counts(generator(0))) == pytest.approx(561, rel=0.05)
    assert netflix.item_counts(generator(0)).max() == pytest.approx(232_944, rel=0.3)
    large = SHAPES["ml-20m"]
    assert np.median(large.user_counts(generator(0))) == pytest.approx(68, rel=0.05)
    assert np.median(large.item_counts(generator(0))) == pytest.approx(18, rel=0.1)
    assert large.levels == HALF_STARS


@pytest.mark.parametrize(("name", "file"), [("ml-100k", "ml-100k/u.data"), ("ml-1m", "ml-1m/ratings.parquet")])
@pytest.mark.filterwarnings("ignore::tastespace.errors.DataWarning")
def test_named_shapes_are_those_of_the_real_ratings(name, file, datasets):
    real, named = Shape.of(read(datasets / file)), SHAPES[name]
    assert (real.n_users, real.n_items, real.n_ratings) == (named.n_users, named.n_items, named.n_ratings)
    assert (real.least, real.levels) == (named.least, named.levels)
    assert real.activity == pytest.approx(named.activity, abs=0.001)
    assert real.popularity == pytest.approx(named.popularity, abs=0.001)


def test_shape_of_ratings():
    shape = Shape.of(Ratings.from_arrays([1, 1, 1, 2], list("abca"), [1, 5, 2, 2]))
    assert (shape.n_users, shape.n_items, shape.n_ratings, shape.least) == (2, 3, 4, 1)
    assert (shape.activity, shape.popularity) == (pytest.approx(1 / 4), pytest.approx(1 / 6))
    assert shape.levels == (1, 2, 5)
    many = Ratings.from_arrays(range(30), range(30), np.arange(30) / 7)
    assert Shape.of(many).levels is None


def test_shape_of_some_ratings_counts_only_who_is_left():
    ratings = Ratings.from_arrays([1, 1, 1, 2], list("abca"), [1, 5, 2, 2])
    kept = Shape.of(ratings.masked(np.array([True, False, True, False])))
    assert (kept.n_users, kept.n_items, kept.n_ratings) == (1, 2, 2)


def test_scaling_keeps_the_ratings_a_user():
    small = SHAPES["netflix"].scaled(0.01)
    assert (small.n_users, small.n_items, small.n_ratings) == (4_802, 1_777, 1_004_805)
    assert SHAPES["ml-1m"].scaled(1) == SHAPES["ml-1m"]
    assert SHAPES["ml-1m"].scaled(4).n_items == 2 * 3_706


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), "2", True, None])
def test_what_is_no_scale_is_refused(scale):
    with pytest.raises(InvalidParameterError, match="scale is .* expected a number above 0"):
        SHAPES["ml-1m"].scaled(scale)


def test_too_small_a_scale_says_what_would_do():
    with pytest.raises(InvalidParameterError, match=r"48 users and 178 items for 10048 ratings; .* about 0.0001"):
        SHAPES["netflix"].scaled(1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_users": 0}, "n_users is 0; expected a whole number of at least 1"),
        ({"n_items": 2.0}, "n_items is 2.0; expected a whole number"),
        ({"n_users": True}, "n_users is True"),
        ({"n_users": 2**31}, "expected at most 2147483647"),
        ({"n_ratings": 101}, "n_ratings is 101; expected at most one per pair, 10 x 10"),
        ({"least": 6}, "least is 6, too many for 50 ratings by 10 users"),
        ({"activity": 1.0}, "activity is 1.0; expected a Gini coefficient from 0 to 0.98"),
        ({"popularity": -0.1}, "popularity is -0.1"),
        ({"popularity": float("nan")}, "popularity is nan"),
        ({"levels": (5, 1)}, r"levels is \(5, 1\); expected ascending numbers"),
        ({"levels": (1, 1)}, "levels is"),
        ({"levels": ()}, "levels is"),
        ({"levels": (1, float("inf"))}, "levels is"),
        ({"levels": "stars"}, "levels is 'stars'"),
        ({"levels": 5}, "levels is 5"),
    ],
)
def test_impossible_shapes_are_refused(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        Shape(**{"n_users": 10, "n_items": 10, "n_ratings": 50, **changes})


def test_shapes_by_name():
    assert shape_named("ml-1m") is SHAPES["ml-1m"]
    mine = Shape(3, 3, 5, levels=[1, 2])
    assert shape_named(mine) is mine
    assert mine.levels == (1.0, 2.0)
    assert Shape(3, 3, 5).levels == STARS
    with pytest.raises(InvalidParameterError, match="'ml-1g'; expected a Shape, or one of netflix, ml-100k, ml-1m"):
        shape_named("ml-1g")
