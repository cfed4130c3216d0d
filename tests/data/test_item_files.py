"""Titles, genres and years from the files that lie beside ratings, or are named."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from reference.triples import triples

from tastespace.data.formats.files import read, read_history, read_item_list, read_pairs
from tastespace.errors import DataError, DataWarning, InvalidParameterError

GENRES = "unknown|0\nAction|1\nDrama|2\n\n"
ITEMS = (
    "7|Amélie (1995)|01-Jan-1995||http://x/title-exact?Amélie|0|1|1\n8|unknown||||1|0|0\n9|Unrated (1999)||||0|0|1\n"
)


@pytest.mark.parametrize("name", ["u.data", "u1.base", "u5.test", "ua.base"])
def test_titles_of_movielens_100k(write, name):
    write(ITEMS.encode("latin-1"), "u.item")
    write(GENRES, "u.genre")
    ratings = read(write("1\t8\t3\t100\n2\t7\t4\t200\n2\t6\t1\t200\n", name))
    assert ratings.items.ids.to_list() == [8, 7, 6]
    assert ratings.item_titles.to_list() == ["unknown", "Amélie (1995)", None]
    assert ratings.item_titles.dtype == pl.String
    assert ratings.item_attributes.schema == {"genres": pl.List(pl.String), "year": pl.Int32}
    assert ratings.item_attributes.rows() == [(["unknown"], None), (["Action", "Drama"], 1995), (None, None)]
    assert ratings.describe().has_titles


def test_flags_without_names_are_unknown_genres(write):
    write(ITEMS.encode("latin-1"), "u.item")
    ratings = read(write("1\t7\t4\t200\n", "u.data"))
    assert ratings.item_attributes.rows() == [(None, 1995)]


def test_titles_of_movielens_1m_and_latest(write, tmp_path):
    write("7::Amélie: A::Action|Drama\n8::B, The (2001)::\n".encode("latin-1"), "movies.dat")
    write('movieId,title,genres\n7,"Amélie, A (1999)",Action|Drama\n8,B,(no genres listed)\n', "movies.csv")
    dat = read(write("1::7::3::100\n1::8::3::100\n", "ratings.dat"))
    assert dat.item_titles.to_list() == ["Amélie: A", "B, The (2001)"]
    assert dat.item_attributes.rows() == [(["Action", "Drama"], None), ([], 2001)]
    comma = read(write("userId,movieId,rating\n1,8,3\n1,7,3\n", "ratings.csv"))
    assert comma.item_titles.to_list() == ["B", "Amélie, A (1999)"]
    assert comma.item_attributes.rows() == [([], None), (["Action", "Drama"], 1999)]
    pl.DataFrame({"user": [1], "item": [7], "rating": [1]}).write_parquet(tmp_path / "ratings.parquet")
    assert read(tmp_path / "ratings.parquet").item_titles.to_list() == ["Amélie: A"]
    assert read(write("1,7,3\n", "other.csv")).item_titles is None


@pytest.mark.parametrize(
    "content", ["", "7\n8\n", "a,b\n1,2,3\n", "movieId,name\n99,X\n", b"\0\1\2", "movieId,title\n,X\n"]
)
def test_a_broken_sibling_is_a_warning_and_a_broken_file_of_items_an_error(write, content):
    sibling = write(content, "movies.csv")
    path = write("userId,movieId,rating\n1,7,3\n", "ratings.csv")
    with pytest.warns(DataWarning, match="no titles: .*movies.csv") as caught:
        ratings = read(path)
    assert caught[0].filename == __file__
    assert triples(ratings) == [(1, 7, 3)]
    assert ratings.item_titles is None
    with pytest.raises(DataError, match="movies.csv"):
        read(path, items=sibling)


def test_named_files_of_items(write, tmp_path):
    path = write("1,007,3\n1,8,3\n", "ratings.csv")
    write("not,an\nitem", "movies.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        items = write('year;Name;ID;genre\n;"Ein; Haus (1950)";007;\n1960;Heim (1961);8;x| y \n1;z;7;\n', "a")
        ratings = read(path, items=items)
    assert ratings.item_titles.to_list() == ["Ein; Haus (1950)", "Heim (1961)", "z"]
    assert ratings.item_attributes.rows() == [([], 1950), (["x", "y"], 1960), ([], 1)]
    assert ratings.by_item.counts.tolist() == [1, 1, 0]  # the last is described and not rated
    table = {"item_id": ["8"], "title": ["T (1900)"], "genres": [["p", "q"]]}
    pl.DataFrame(table).write_parquet(tmp_path / "b")
    ratings = read(path, items=tmp_path / "b")
    assert ratings.item_titles.to_list() == [None, "T (1900)"]
    assert ratings.item_attributes.rows() == [(None, None), (["p", "q"], 1900)]


def test_an_item_described_twice_keeps_its_first_description(write):
    ratings = read(write("1,7,3\n", "r"), items=write("id,title\n7,A\n7,B\n"))
    assert ratings.item_titles.to_list() == ["A"]


def test_titles_with_quotation_marks_of_their_own(write):
    items = write('id\tname\n7\t"Weird Al" Yankovic\n8\tB\n')
    ratings = read(write("1,7,3\n", "r"), items=items)
    assert ratings.item_titles.to_list() == ['"Weird Al" Yankovic', "B"]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("id,title\n7,A\n8\n", 3, "1 field"),
        ("id,title\n7,A\n,B\n", 3, "the item id is missing"),
        ("id,title,year\n7,A,soon\n", 2, "'soon' is not a year"),
        ("what,title\n8,A\n", None, "no column for the id among what, title, by name or by values such as 7"),
        ("1,2,3,4\n", None, "no column for the id among column 1, column 2, column 3, column 4"),
        ("id,title\n", None, "nothing below"),
        ("id,title\n99,A\n98,B\n", None, "none of its 2 items is among the 1 that were rated"),
        (b"PAR1\0\0PAR1", None, "this Parquet file is damaged"),
        (None, None, "there is no such file"),
    ],
)
def test_bad_files_of_items(write, tmp_path, content, line, problem):
    path = write("1,7,3\n")
    items = tmp_path / "items" if content is None else write(content, "items")
    with pytest.raises(DataError) as caught:
        read(path, items=items)
    assert str(caught.value).startswith(str(items))
    assert caught.value.line == line
    assert problem in caught.value.problem


def test_long_texts_in_files_of_items(write):
    items = write(f'id,title,plot\n7,A,"{"long " * 40_000}"\n')
    assert read(write("1,7,3\n", "r"), items=items).item_titles.to_list() == ["A"]


# One reader for all tables: what a file of ratings may be, files of items and users may be, too.


def test_files_of_items_may_be_json(write):
    lines = ['{"id": 7, "title": "A (1999)", "genres": ["x", "y"], "price": 2.5}', "", '{"id": "8", "price": 3}']
    ratings = read(write("1,7,3\n1,8,3\n", "r"), items=write("\n".join(lines)))
    assert ratings.item_titles.to_list() == ["A (1999)", None]
    assert ratings.item_attributes.rows() == [(["x", "y"], 1999, 2.5), (None, None, 3.0)]
    mixed = write('{"id": 7, "name": "A", "note": "x"}\n{"id": 8, "name": "B", "note": [1]}\n')
    assert read(write("1,7,3\n1,8,3\n", "r"), items=mixed).item_attributes["note"].to_list() == ["x", "[1]"]


def test_files_of_items_need_no_titles(write):
    ratings = read(write("1,7,3\n1,8,3\n", "r"), items=write("item,year,price\n8,1999,1\n7,,2\n"))
    assert ratings.item_titles is None
    assert ratings.item_attributes.rows() == [(None, None, 2), (None, 1999, 1)]


@pytest.mark.parametrize(
    ("bad", "line"),
    [("8\n", 3), (",B,1\n", 3), ("8,B,soon\n", 3), ('{"id": 8\n', 2), ('{"id": null, "title": "B"}\n', 2)],
)
def test_bad_lines_of_items_can_be_skipped(write, bad, line):
    is_json = bad.startswith("{")
    good = ['{"id": 7, "title": "A"}\n', '{"id": 9, "title": "C"}\n'] if is_json else ["7,A,1\n", "9,C,3\n"]
    items = write(("" if is_json else "id,title,year\n") + good[0] + bad + good[1], "items")
    path = write("1,7,3\n1,9,3\n", "r")
    with pytest.raises(DataError, match=f"items, line {line}: "):
        read(path, items=items)
    with pytest.warns(DataWarning, match=f"items: 1 line was set aside, of 3; the first: .*line {line}: "):
        ratings = read(path, items=items, bad_lines="skip")
    assert ratings.item_titles.to_list() == ["A", "C"]


@pytest.mark.parametrize(
    "content",
    [
        "user,age,country\nb,30,at|ch\na,20,de\n",
        "age;userId;country\n30;b;at|ch\n20;a;de\n",
        '{"user": "b", "age": 30, "country": "at|ch"}\n{"user": "a", "age": 20, "country": "de"}\n',
    ],
)
def test_files_of_users(write, content):
    path = write("a,7,3\nb,7,2\nc,8,1\n", "r")
    ratings = read(path, users=write(content))
    assert ratings.user_attributes.to_dict(as_series=False) == {
        "age": [20, 30, None],
        "country": [["de"], ["at", "ch"], None],
    }
    assert ratings.take(np.array([2, 1])).user_attributes["age"].to_list() == [None, 30]
    assert ratings.masked(np.array([True, False, True])).user_attributes.equals(ratings.user_attributes)


def test_files_of_users_without_a_header(write):
    ratings = read(write("1,7,3\n2,7,2\n", "r"), users=write("1::F::1\n2::M::56\n", "users.dat"))
    assert ratings.user_attributes.rows() == [("F", 1), ("M", 56)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"name": "a", "age": 20}', "no column for the id among name, age"),
        ("name,age\na,20\n", "no column for the id among name, age, by name or by values such as 1"),
        ("user,age\n99,20\n", "none of its 1 users is among the 1 that rated"),
        ("user,age\n,20\n", "the user id is missing"),
    ],
)
def test_bad_files_of_users(write, content, problem):
    with pytest.raises(DataError, match=problem):
        read(write("1,7,3\n"), users=write(content, "users"))


def test_bad_lines_can_be_skipped_everywhere(write):
    with pytest.warns(DataWarning, match="1 line was set aside, of 2"):
        assert read_item_list(write("item,price\ntea,3\njam\n"), bad_lines="skip")["item"].to_list() == ["tea"]
    with pytest.warns(DataWarning, match="1 line was set aside, of 2"):
        assert len(read_history(write("item,rating\ntea,3\njam,x\n"), "me", bad_lines="skip")) == 1
    with pytest.warns(DataWarning, match="1 line was set aside, of 2"):
        users, items = read_pairs(write("user,item\n1,tea\n2\n"), bad_lines="skip")
    assert (users.to_list(), items.to_list()) == ([1], ["tea"])
    with pytest.raises(InvalidParameterError, match="bad_lines is 'leave'"):
        read_pairs(write("1,2\n"), bad_lines="leave")
