"""Files of users and items alone: each line is a choice, and choices of a pair are counted."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from tastespace import Ratings, read
from tastespace.data.formats.files import read_history, sniff
from tastespace.errors import DataError, DataWarning, InvalidParameterError

ONCE = {
    "a header": "user,item\nann,tea\nann,jam\nbob,tea\n",
    "usual names in any order": "product;customer_id\ntea;ann\njam;ann\ntea;bob\n",
    "spaces in ids": "user,item\nann lee,green tea\nann lee,plum jam\nbob,green tea\n",
    "numbers": "1,10\n1,11\n2,10\n",
    "tabs": "1\t10\n1\t11\n2\t10\n",
    "words that come again": "ann,tea\nann,jam\nbob,tea\n",
    "a header and seconds": "user,item,timestamp\n1,10,978300760\n1,11,978300761\n2,10,978300762\n",
    "seconds": "1,10,978300760\n1,11,978300761\n2,10,978300762\n",
    "seconds after colons": "1::10::978300760\n1::11::978300761\n2::10::978300762\n",
    "dates": "ann,tea,2024-05-31\nann,jam,2024-06-01\nbob,tea,2024-06-02\n",
    "moments": "1,10,2024-05-31 12:00:00\n1,11,2024-05-31 12:00:01\n2,10,2024-05-31 12:00:02\n",
    "JSON": '{"user": 1, "item": 10}\n{"user": 1, "item": 11}\n{"user": 2, "item": 10}\n',
}


@pytest.fixture
def write(tmp_path):
    def written(content):
        path = tmp_path / "choices.txt"
        path.write_text(content)
        return path

    return written


@pytest.mark.parametrize("form", ONCE)
def test_without_values_each_line_is_a_choice(write, form):
    path = write(ONCE[form])
    chosen = read(path)
    assert (len(chosen), chosen.n_users, chosen.n_items) == (3, 2, 2)
    assert_array_equal(chosen.values, [1, 1, 1])
    assert chosen.kind_and_reason == ("one-class", "no column of values, each line is a choice")
    assert "no column of values: each line is a choice" in str(sniff(path))
    has_times = any(word in form for word in ("seconds", "dates", "moments"))
    assert (chosen.times is not None) == has_times


def test_a_parquet_table_of_pairs(tmp_path):
    pl.DataFrame({"user": [1, 1], "item": ["a", "b"]}).write_parquet(tmp_path / "pairs")
    assert read(tmp_path / "pairs").kind == "one-class"


def test_an_events_log_is_counted(write):
    path = write("user,item,time\nann,tea,1000\nann,jam,2000\nann,tea,3000\nbob,tea,4000\nann,tea,5000\n")
    log = read(path)
    assert log.kind == "counts"
    assert "counted" in log.kind_and_reason.reason
    assert dict(zip(zip(log.user_ids(), log.item_ids(), strict=True), log.values, strict=True)) == {
        ("ann", "tea"): 3,
        ("ann", "jam"): 1,
        ("bob", "tea"): 1,
    }
    assert log.merged == 2
    assert log.times is not None
    assert log.times.astype(int).max() == 5000  # that of the last event of a pair
    assert log.take(np.array([0])).kind_and_reason == log.kind_and_reason
    assert read(path, duplicates="last").kind == "one-class"
    assert_array_equal(read(path, kind="one-class").values, [1, 1, 1])
    with pytest.raises(DataError, match="more than once"):
        read(path, duplicates="error")


def test_what_is_declared_decides_where_columns_do_not(write):
    path = write("user,item,price\nann,tea,3\nann,tea,3\nbob,jam,4\n")
    assert_array_equal(read(path, kind="counts").values, [2, 1])
    assert_array_equal(read(path, kind="one-class").values, [1, 1])
    assert_array_equal(read(path, rating="price").values, [3, 4])
    with pytest.raises(DataError, match="no column for the rating among user, item, price"):
        read(path)
    for kind in ("stars", "yes-no"):
        with pytest.raises(DataError, match=f"no column of values, and the kind is to be {kind}"):
            read(write("user,item\nann,tea\n"), kind=kind)


def test_a_heading_of_unknown_names_is_not_taken_for_a_choice(write):
    path = write("who,what\n1,2\n3,4\n")
    with pytest.raises(DataError, match="no column for the user and the item and the rating among who, what"):
        read(path)
    assert len(read(path, user="who", item="what")) == 2
    words = write("ann,tea\nbob,jam\n")
    assert len(read(words, header=False)) == 2


def test_large_counts_can_be_said_to_be_no_times(write):
    path = write("1,10,978300760\n1,11,978300761\n")
    assert read(path, rating="rating").values.min() > 1e8


def test_declared_counts_add_up_and_guessed_ones_warn(write):
    path = write("user,item,plays\n" + "1,1,1\n" * 2 + "".join(f"2,{item},1\n" for item in range(9)) + "3,3,500\n")
    assert read(path, kind="counts").values.max() == 500
    assert read(path, kind="counts").values[0] == 2
    with pytest.warns(DataWarning, match="seem to be counts .* the last was kept: 1 others were not"):
        assert read(path).values[0] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path, duplicates="last").values[0] == 1


def test_arrays_without_values():
    chosen = Ratings.from_arrays(["ann", "bob", "ann"], ["tea", "tea", "tea"])
    assert_array_equal(chosen.values, [1, 2])
    assert chosen.kind == "counts"
    assert Ratings.from_arrays(["ann", "bob"], ["tea", "tea"]).kind == "one-class"
    with pytest.raises(InvalidParameterError, match="duplicates is 'first'"):
        Ratings.from_arrays(["ann"], ["tea"], duplicates="first")


@pytest.mark.parametrize(
    ("content", "items", "values"),
    [
        ("item\ntea\njam\n", ["tea", "jam"], [1, 1]),
        ("tea\njam\ntea\n", ["jam", "tea"], [1, 2]),
        ("green tea\nplum jam\n", ["green tea", "plum jam"], [1, 1]),
        ("10\n11\n", [10, 11], [1, 1]),
        ("tea 5\njam 3\n", ["tea", "jam"], [5, 3]),
        ("item,rating\ntea,5\n", ["tea"], [5]),
        ("user item rating\n1 10 5\n", [10], [5]),
        ("user,item\nyou,tea\nyou,jam\n", ["tea", "jam"], [1, 1]),
    ],
)
def test_a_history_may_be_items_alone(write, content, items, values):
    history = read_history(write(content), "you")
    assert history.item_ids().to_list() == items
    assert_array_equal(history.values, values)
    assert (history.declared_kind is None) == (5 in values)
