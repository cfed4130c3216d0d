"""Old ratings and new ones are merged by id, and what was new is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tastespace import Ratings
from tastespace.errors import DataError, DataWarning
from tastespace.models.base.update import TrainingSummary, merge


def merged(old, new):
    return merge(old, new, TrainingSummary.of(old))


def test_rows_keep_their_places_and_the_later_rating_wins():
    old = Ratings.from_arrays(["a", "b", "a"], [10, 20, 30], [1.0, 2.0, 3.0])
    new = Ratings.from_arrays(["c", "a", "b", "b"], [10, 30, 20, 40], [5.0, 4.0, 2.0, 1.0])
    found = merged(old, new)
    assert found.ratings.users.ids.to_list() == ["a", "b", "c"]
    assert found.ratings.items.ids.to_list() == [10, 20, 30, 40]
    table = found.ratings.to_polars().rows()
    assert table == [("a", 10, 1.0), ("a", 30, 4.0), ("b", 20, 2.0), ("b", 40, 1.0), ("c", 10, 5.0)]
    news = found.news
    assert (news.ratings, news.replaced, news.unchanged) == (3, 1, 1)
    assert (news.new_users, news.new_items, news.by_new_users, news.of_new_items) == (1, 1, 1, 1)
    assert found.is_touched.tolist() == [True, True, True]
    assert merged(old, new.take(np.array([2]))).is_touched.tolist() == [False, False]


def test_titles_and_attributes_are_kept_and_completed():
    old = Ratings.from_arrays([0, 0], [1, 2], [1.0, 2.0])
    old = old.with_items(pl.Series(["One", None]), pl.DataFrame({"genres": [["x"], ["y"]], "year": [1999, None]}))
    new = Ratings.from_arrays([0, 0, 0], [3, 2, 1], [3.0, 2.0, 1.0])
    named = new.with_items(pl.Series(["Three", "Two", "Uno"]), pl.DataFrame({"year": [2003, 2002, 2001]}))
    found = merged(old, named).ratings
    assert found.item_titles.to_list() == ["One", "Two", "Three"]
    assert found.item_attributes.to_dict(as_series=False) == {
        "genres": [["x"], ["y"], None],
        "year": [1999, None, 2003],
    }
    assert merged(old, new).ratings.item_titles.to_list() == ["One", None, None]
    assert merged(old, new).ratings.item_attributes["year"].to_list() == [1999, None, None]
    assert merged(new, old).ratings.item_titles.to_list() == [None, None, "One"]
    assert merged(new, old).ratings.item_attributes["genres"].to_list() == [None, ["y"], ["x"]]
    with pytest.raises(DataError, match="attributes"):
        merged(old, new.with_items(None, pl.DataFrame({"genres": [1, 2, 3]})))


def test_ids_of_another_kind_find_their_twins():
    old = Ratings.from_arrays([1, 2], [1, 2], [1.0, 2.0])
    new = Ratings.from_arrays(["1", "2"], ["2", "1"], [3.0, 4.0])
    assert merged(old, new).ratings.users.ids.to_list() == [1, 2]
    with pytest.warns(DataWarning, match="user ids were integers.*'ann'"):
        found = merged(old, Ratings.from_arrays(["2", "ann"], [1, 1], [3.0, 4.0])).ratings
    assert found.users.ids.to_list() == ["1", "2", "ann"]
    assert found.users.rows_of([2, "ann"]).tolist() == [1, 2]


def test_times_are_kept_where_they_are_known():
    old = Ratings.from_arrays([0, 0], [1, 2], [1.0, 2.0], [2_000_000_000, 2_000_000_001])
    new = Ratings.from_arrays([0], [1], [3.0], [2_000_000_009])
    assert merged(old, new).ratings.times.astype(int).tolist() == [2_000_000_009, 2_000_000_001]
    untimed = merged(old, replace(new, times=None)).ratings.times
    assert np.isnat(untimed).tolist() == [True, False]
    assert merged(replace(old, times=None), replace(new, times=None)).ratings.times is None
