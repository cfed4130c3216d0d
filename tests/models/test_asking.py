"""Histories: what counts, what wins, what is refused."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from tastespace import ALS, Ratings, load, save
from tastespace.data.vocabulary import id_series
from tastespace.errors import DataError, DataWarning, InvalidParameterError
from tastespace.models.base.query import Expected, each_once, find_people
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

RATINGS = Ratings.from_arrays([1, 1, 2], ["x", "y", "x"], [5.0, 3.0, 4.0])


def people_of(users, history):
    """Users with a history, and what is to be said of it."""
    each, _ = each_once(id_series(users, "user"))
    return find_people(RATINGS, each, history, Expected(1.0, 5.0))


def test_history_joins_the_training_ratings_and_the_newer_rating_wins():
    history = Ratings.from_arrays([1, 1, 7], ["y", "z", "y"], [1.0, 2.0, 5.0])
    people, (remark,) = people_of([1, 7, 8], history)
    assert "'z'" in remark
    assert people.history.offsets.tolist() == [0, 2, 3, 3]
    assert people.history.columns.tolist() == [0, 1, 1]
    assert people.history.values.tolist() == [5.0, 1.0, 5.0]
    assert people.cold.tolist() == [False, False, True]


def test_ids_typed_as_text_find_integers_in_both_places():
    people, _ = people_of(["1", "7"], Ratings.from_arrays([7], ["x"], [1.0]))
    assert people.rows.tolist() == [0, -1]
    assert people.history.counts.tolist() == [2, 1]


def test_ratings_of_others_in_the_history_do_not_matter():
    people, remarks = people_of([2], Ratings.from_arrays([9, 9, 2], ["x", "y", "x"], [1.0, 1.0, 3.0]))
    assert remarks == ()
    assert people.history.columns.tolist() == [0]
    assert people.history.values.tolist() == [3.0]


def test_a_history_of_others_alone_warns():
    _, (remark,) = people_of([2], Ratings.from_arrays([9, 9], ["x", "y"], [1.0, 1.0]))
    assert "only of 9" in remark


def test_an_empty_mapping_is_no_history():
    assert not people_of([1], {})[0].is_new


@pytest.mark.parametrize(
    ("users", "history", "error", "message"),
    [
        ([1, 2], {"x": 5.0}, InvalidParameterError, "one user"),
        ([1], [("x", 5.0)], DataError, "not items that were chosen"),
        ([1], {"x": "good"}, DataError, "history"),
        ([1], {"x": float("nan")}, DataError, "finite"),
    ],
)
def test_histories_that_make_no_sense(users, history, error, message):
    with pytest.raises(error, match=message):
        people_of(users, history)


def test_folding_in_moves_the_answer_in_the_right_direction():
    ratings, truth = tastes(200, 60, n_factors=2, density=0.5, noise=0.2, rng=generator(5))
    model = ALS(n_factors=2, seed=0).fit(ratings)
    items = np.arange(60)
    errors = []
    rng = generator(6)
    for user in range(20):
        # A stranger with the tastes of a known user, whose true ratings are known.
        shown = rng.permutation(60)[:20]
        history = dict(zip(shown.tolist(), truth[user, shown].tolist(), strict=True))
        rest = np.setdiff1d(items, shown)
        folded = model.predict(["stranger"] * len(rest), rest, history=history).mean
        nobody = model.predict(["stranger"] * len(rest), rest).mean
        errors.append([np.sqrt(np.mean((guess - truth[user, rest]) ** 2)) for guess in (folded, nobody)])
    folded, nobody = np.mean(errors, axis=0)
    assert folded < 0.5 * nobody


def test_without_saved_ratings_a_history_stands_alone(tmp_path):
    ratings = tastes(30, 20, rng=generator(2))[0]
    save(ALS(n_factors=2, seed=0).fit(ratings), tmp_path / "m", with_ratings=False)
    model = load(tmp_path / "m")
    with pytest.warns(DataWarning, match="without its ratings"):
        known = model.recommend([0], history={1: 5.0})
    stranger = model.recommend(["nobody"], history={1: 5.0})
    assert_array_equal(known.item_rows, stranger.item_rows)


def test_exclude_wants_seen_none_or_a_list():
    with pytest.raises(InvalidParameterError, match="exclude is 'none'"):
        ALS(n_factors=1, regularization=0.1).fit(RATINGS).recommend([1], exclude="none")


def test_a_rating_outside_the_scale_warns():
    _, (remark,) = people_of([1], {"x": 500.0, "y": 1.0})
    assert re.search("1 to 500.*fitted on 1 to 5", remark)


def test_one_id_is_a_list_of_one():
    model = ALS(n_factors=1, regularization=0.1, seed=0).fit(RATINGS)
    assert len(model.predict(1, "x")) == 1
    assert model.recommend(np.int64(2), np.int64(1)).item_ids.to_list() == ["y"]
    assert model.recommend(2, exclude="seen", only="y").item_ids.to_list()[0] == "y"


def test_a_warning_points_at_the_caller():
    model = ALS(n_factors=1, regularization=0.1, seed=0).fit(RATINGS)
    for ask in (
        lambda: model.recommend(history={"wibble": 5.0}),
        lambda: model.predict([1], ["x"], history=Ratings.from_arrays([9], ["x"], [5.0])),
        lambda: model.predict([1], ["x"], history={"x": 99.0}),
    ):
        with pytest.warns(DataWarning) as caught:
            ask()
        assert caught[0].filename == __file__


def test_only_ratings_that_count_are_held_against_the_scale():
    history = Ratings.from_arrays([9, 1], ["x", "y"], [500.0, 3.0])
    people, remarks = people_of([1], history)
    assert people.is_new
    assert remarks == ()


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.LazyFrame, pd.DataFrame])
def test_a_history_may_be_a_table(kind):
    model = ALS(n_factors=2, seed=0).fit(tastes(20, 15, rng=generator(0))[0])
    own = kind({"item": [1, 2], "rating": [5.0, 1.0]})
    expected = model.recommend(history={1: 5.0, 2: 1.0})
    assert_array_equal(model.recommend(history=own).scores, expected.scores)
    assert_array_equal(
        model.predict(["me"], [3], history=own).mean, model.predict(["me"], [3], history={1: 5, 2: 1}).mean
    )
    assert model.explain(None, [3], history=own).ratings.tolist() == [5.0, 1.0]
    several = kind({"user": ["a", "a", "b"], "item": [1, 2, 3], "rating": [5.0, 1.0, 4.0]})
    assert model.recommend(history=several).user_ids.to_list() == ["a", "b"]
    assert_array_equal(model.recommend(["a"], history=several).scores[0], expected.scores[0])
    with pytest.raises(InvalidParameterError, match=r"says what was chosen .*fitted on stars; expected items with rat"):
        model.recommend(history=kind({"item": [1]}))
    with pytest.raises(DataError, match="no column for the rating"):
        model.recommend(history=kind({"item": [1], "mark": [5]}))
