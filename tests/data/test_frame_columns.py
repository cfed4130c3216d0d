"""Frames of every kind become the same ratings, or say what is wrong with them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from reference.triples import triples

from tastespace.data.ratings import Ratings
from tastespace.errors import DataError

BASE = {"user": [1, 2, 3], "item": ["a", "b", "c"], "rating": [1.0, 2.0, 3.0]}


def with_pandas(**changes):
    return pd.DataFrame({**BASE, **changes})


def with_polars(**changes):
    return pl.DataFrame({**BASE, **changes})


PLAIN = [(1, "a", 1), (2, "b", 2), (3, "c", 3)]


@pytest.mark.parametrize(
    "frame",
    [
        with_polars(),
        with_polars().lazy(),
        with_polars(title=["A", "B", "C"], genre=["x", "y", "z"]).lazy(),
        with_pandas(),
        with_pandas(title=["A", "B", "C"]),
        with_pandas().set_index("user"),
        with_pandas().set_index(["user", "item"]),
        with_pandas().set_index("rating"),
        with_polars().to_arrow(),
    ],
    ids=["polars", "lazy", "lazy wide", "pandas", "pandas wide", "index", "two indexes", "rating index", "arrow"],
)
def test_frames_of_every_kind(frame):
    assert triples(Ratings.from_frame(frame)) == PLAIN


def test_a_lazy_frame_is_collected_once():
    calls = []

    def seen(frame):
        calls.append(frame.columns)
        return frame

    frame = with_polars(other=[7, 8, 9]).lazy().map_batches(seen)
    assert triples(Ratings.from_frame(frame, rating="other")) == [(1, "a", 7), (2, "b", 8), (3, "c", 9)]
    assert len(calls) == 1


def test_a_column_wins_over_an_index_of_the_same_name():
    frame = with_pandas()
    frame.index = pd.Index([7, 8, 9], name="user")
    assert triples(Ratings.from_frame(frame)) == PLAIN


def test_labels_need_not_be_texts():
    frame = pd.DataFrame([[1, "a", 1.0], [2, "b", 2.0]])
    assert triples(Ratings.from_frame(frame, user="0", item="1", rating="2")) == PLAIN[:2]
    assert triples(Ratings.from_frame(frame, user=0, item=1, rating=2)) == PLAIN[:2]


@pytest.mark.parametrize(
    "dtype", ["Int64", "int64[pyarrow]", "uint64[pyarrow]", "category", "object", "Float64", "int8"]
)
def test_integer_ids_of_pandas(dtype):
    ratings = Ratings.from_frame(with_pandas(user=pd.Series([1, 2, 3]).astype(dtype)))
    assert triples(ratings) == PLAIN
    assert ratings.users.ids.dtype == pl.Int64


@pytest.mark.parametrize("dtype", ["str", "string", "string[pyarrow]", "category", "object"])
def test_text_ids_of_pandas(dtype):
    ratings = Ratings.from_frame(with_pandas(user=pd.Series(["007", "7", "ü"]).astype(dtype)))
    assert ratings.users.ids.to_list() == ["007", "7", "ü"]


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["007", "7", "ü"])])
def test_categories_of_polars_as_ids(dtype):
    ratings = Ratings.from_frame(with_polars(user=pl.Series(["007", "7", "ü"], dtype=dtype)))
    assert ratings.users.ids.to_list() == ["007", "7", "ü"]


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]", "string[pyarrow]", "category", "object"])
def test_missing_ids_of_pandas_are_refused(dtype):
    with pytest.raises(DataError, match="user: .*missing"):
        Ratings.from_frame(with_pandas(user=pd.Series([1, None, 3], dtype="Int64").astype(dtype)))


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, 2, 3], dtype="Int64"),
        pd.Series([1, 2, 3], dtype="double[pyarrow]"),
        pd.Series([1, 2, 3]).astype("category"),
        pd.Series(["1", " 2 ", "3.0"]),
        pd.Series(["1", "2", "3"], dtype="category"),
        pd.Series([1, "2", 3.0], dtype=object),
        pd.Series([Decimal("1"), Decimal("2.0"), 3], dtype=object),
        pl.Series(["1", " 2 ", "3.0"]),
        pl.Series(["1", "2", "3"], dtype=pl.Categorical),
        pl.Series(["1", "2", "3"], dtype=pl.Enum(["3", "2", "1"])),
        pl.Series(["1", "2", "3"]).cast(pl.Decimal(10, 2)),
        pl.Series([1, 2, 3], dtype=pl.UInt8),
    ],
)
def test_ratings_of_every_type(values):
    frame = with_polars(rating=values) if isinstance(values, pl.Series) else with_pandas(rating=values)
    assert triples(Ratings.from_frame(frame)) == PLAIN


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([True, False, True]),
        *(pd.Series([True, False, True]).astype(kind) for kind in ("bool", "boolean", "bool[pyarrow]", "object")),
    ],
)
def test_yes_and_no_are_one_and_zero(values):
    frame = with_polars(rating=values) if isinstance(values, pl.Series) else with_pandas(rating=values)
    assert Ratings.from_frame(frame).values.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([True, None, True]),
        pl.Series([1, None, 3]),
        pd.Series([True, None, True], dtype="boolean"),
        pd.Series([True, None, True], dtype="object"),
        pd.Series([1, None, 3], dtype="int64[pyarrow]"),
        pd.Series(["1", None, "3"]),
        pd.Series([1, None, 3]).astype("category"),
    ],
)
def test_missing_ratings_are_refused_with_their_row(values):
    frame = with_polars(rating=values) if isinstance(values, pl.Series) else with_pandas(rating=values)
    with pytest.raises(DataError, match="column 'rating', row 1: not a rating.*expected a finite number"):
        Ratings.from_frame(frame)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pl.Series([[1], [2], [3]]), "List"),
        (pl.Series([b"1", b"2", b"3"]), "Binary"),
        (pl.Series([datetime.date(2024, 1, 1)] * 3), "Date"),
        (pl.Series([object()] * 3, dtype=pl.Object), "Object"),
    ],
)
def test_what_can_be_no_rating_is_refused(values, kind):
    with pytest.raises(DataError, match=f"column 'rating': ratings of type {kind}.*expected numbers"):
        Ratings.from_frame(with_polars(rating=values))


@pytest.mark.parametrize(
    "times",
    [
        pd.Series(pd.to_datetime(["1970-01-01", "1970-01-02", "1970-01-03"])).astype("timestamp[us][pyarrow]"),
        pd.Series(pd.to_datetime(["1970-01-01", "1970-01-02", "1970-01-03"])).astype("date32[pyarrow]"),
        pd.Series([datetime.datetime(1970, 1, day) for day in (1, 2, 3)], dtype=object),
        pd.Series([0, 86400, 172800], dtype="Int64"),
    ],
)
def test_times_of_pandas(times):
    ratings = Ratings.from_frame(with_pandas(time=times))
    assert ratings.times.astype(int).tolist() == [0, 86400, 172800]


@pytest.mark.parametrize(
    "thing", [BASE, None, "ratings.csv", np.zeros((3, 3)), with_pandas()["rating"], pl.Series([1])]
)
def test_what_is_no_frame_is_refused(thing):
    with pytest.raises(DataError, match=r"ratings from a .* expected a polars or pandas frame, or an Arrow table"):
        Ratings.from_frame(thing)


@pytest.mark.parametrize(
    "frame", [with_polars().rename({"rating": "mark"}), with_pandas().rename(columns={"rating": "mark"})]
)
def test_a_frame_whose_ratings_are_not_found_says_so(frame):
    with pytest.raises(DataError, match=r"no column for the rating among .*mark.*if each line is a choice"):
        Ratings.from_frame(frame)
    assert Ratings.from_frame(frame, kind="one-class").kind == "one-class"
    with pytest.raises(DataError, match="no column of values, and the kind is to be stars"):
        Ratings.from_frame(frame[["user", "item"]], kind="stars")


@pytest.mark.parametrize(
    "frame", [with_polars().drop("rating"), with_pandas().drop(columns="rating"), with_polars().drop("rating").lazy()]
)
def test_a_frame_without_ratings_has_choices(frame):
    chosen = Ratings.from_frame(frame)
    assert (chosen.values == 1).all()
    assert chosen.kind_and_reason == ("one-class", "no column of values, each line is a choice")


def test_two_columns_of_the_same_name_are_refused():
    with pytest.raises(DataError, match="more than one column 'user'"):
        Ratings.from_frame(pd.concat([with_pandas(), with_pandas()], axis=1))


def test_a_frame_without_rows_is_refused():
    for frame in (with_polars().head(0), with_pandas().head(0), with_polars().lazy().head(0)):
        with pytest.raises(DataError, match="there are no ratings"):
            Ratings.from_frame(frame)
