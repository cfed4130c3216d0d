"""Ratings read piece by piece: they are what is in the file, and a fault is named by its place in it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace.data.formats.streaming import RatingStream
from tastespace.data.formats.writers import write
from tastespace.errors import DataError, InvalidParameterError
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


@pytest.fixture
def ratings():
    return tastes(20, 15, rng=generator(1))[0]


@pytest.fixture
def file(ratings, tmp_path):
    write(ratings, tmp_path / "ratings.parquet")
    return tmp_path / "ratings.parquet"


def test_a_stream_is_what_is_in_the_file(ratings, file):
    stream = RatingStream.scan(file, rows_at_once=7)
    assert stream.users.ids.to_list() == ratings.users.ids.to_list()
    assert stream.items.ids.to_list() == ratings.items.ids.to_list()
    assert_array_equal(stream.user_counts, ratings.by_user.counts)
    assert_array_equal(stream.item_counts, ratings.by_item.counts)
    assert_allclose([stream.mean, stream.standard_deviation], [ratings.mean, ratings.standard_deviation], rtol=1e-6)
    assert stream.range == ratings.range
    pieces = [stream.read(piece) for piece in range(stream.n_pieces)]
    assert max(len(piece.values) for piece in pieces) == 7
    for column, whole in zip(
        zip(*pieces, strict=True), (ratings.user_rows, ratings.item_rows, ratings.values), strict=True
    ):
        assert_array_equal(np.concatenate(column), whole)


def test_texts_and_row_groups(tmp_path):
    table = pl.DataFrame({"userId": ["b", "a", "b", "c"], "movieId": [7, 7, 3, 9], "rating": [1, 2, 3, 4]})
    table.write_parquet(tmp_path / "r.parquet", row_group_size=2)
    stream = RatingStream.scan(tmp_path / "r.parquet", rows_at_once=3)
    assert stream.users.ids.to_list() == ["b", "a", "c"]
    assert stream.items.ids.to_list() == [7, 3, 9]
    assert stream.n_pieces == 2
    assert stream.read(1).user_rows.tolist() == [2]
    assert stream.read(0).values.tolist() == [1, 2, 3]


def test_integers_that_are_texts_in_one_piece_are_texts_in_all(tmp_path):
    ids = pl.Series([1, 2, 2**63 + 5, 1], dtype=pl.UInt64)
    pl.DataFrame({"user": ids, "item": [1, 2, 3, 4], "rating": [1.0] * 4}).write_parquet(tmp_path / "r.parquet")
    stream = RatingStream.scan(tmp_path / "r.parquet", rows_at_once=2)
    assert stream.users.ids.to_list() == ["1", "2", str(2**63 + 5)]
    assert stream.user_counts.tolist() == [2, 1, 1]


def test_a_fault_is_named_by_its_row(tmp_path):
    pl.DataFrame({"user": [1, 2, 3], "item": [1, 2, 3], "rating": [1.0, 2.0, None]}).write_parquet(
        tmp_path / "r.parquet"
    )
    with pytest.raises(DataError, match="row 3, column rating"):
        RatingStream.scan(tmp_path / "r.parquet", rows_at_once=2)


def test_what_is_no_table_of_ratings_is_refused(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\n1,2,3\n2,3,4\n")
    with pytest.raises(DataError, match="Parquet"):
        RatingStream.scan(tmp_path / "ratings.csv")
    pl.DataFrame({"user": [1], "item": [2]}).write_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(DataError, match="rating"):
        RatingStream.scan(tmp_path / "pairs.parquet")
    empty = pl.DataFrame(
        {"user": [], "item": [], "rating": []}, schema={"user": pl.Int64, "item": pl.Int64, "rating": pl.Float32}
    )
    empty.write_parquet(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="no rows"):
        RatingStream.scan(tmp_path / "empty.parquet")


@pytest.mark.parametrize("rows", [0, 1.5, True])
def test_how_many_rows_at_once_makes_sense(file, rows):
    with pytest.raises(InvalidParameterError, match="rows_at_once"):
        RatingStream.scan(file, rows_at_once=rows)
