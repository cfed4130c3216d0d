"""Files of ratings, of items and of pairs: every layout, and every way to be wrong."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference.triples import triples

from tastespace.data.formats.files import read, read_history, read_pairs, sniff
from tastespace.data.formats.layout import Layout
from tastespace.errors import DataError, DataWarning, InvalidParameterError

DATA = os.environ.get("TASTESPACE_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="TASTESPACE_DATA does not name the folder of real data")
in_tmp_path = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def seconds(ratings):
    return [None if np.isnat(time) else int(time.astype(int)) for time in ratings.times]


def refused(path, *, line=None, text=None, problem="", expected="", **options) -> DataError:
    """Reading fails with an error that names the place."""
    with pytest.raises(DataError) as caught:
        read(path, **options)
    error = caught.value
    assert str(error).startswith(str(path))
    assert error.line == line, str(error)
    assert line is None or f"line {line}: " in str(error)
    assert text is None or (error.text == text and repr(text) in str(error))
    assert problem in error.problem
    assert error.expected
    assert expected in error.expected
    return error


USUAL = ("user", "item", "rating", "time")


def plain(separator, *more):
    """The layout of text without a header."""
    return Layout("text", separator, False, (*USUAL, *more), dict(zip(USUAL, USUAL, strict=True)))


def headed(separator, columns, *parts):
    """The layout of text with a header; `parts` are the columns of user, item, rating and time."""
    return Layout("text", separator, True, columns, dict(zip(USUAL, parts, strict=True)))


@pytest.mark.parametrize(
    ("content", "layout"),
    [
        ("1\t7\t3\t100\n2\t7\t4\t200\n", plain("\t")),
        ("1::7::3::100\n2::7::4::200\n", plain("::")),
        ("1 7 3 100\n2 7 4 200", plain(" ")),
        ("1|7|3|100\n2|7|4|200", plain("|")),
        ("1;7;3;100\n2;7;4;200", plain(";")),
        ("1,7,3,100,x\n2,7,4,200,y", plain(",", "column 5")),
        (
            "userId,movieId,rating,timestamp\n1,7,3,100\n2,7,4,200\n",
            headed(",", ("userId", "movieId", "rating", "timestamp"), "userId", "movieId", "rating", "timestamp"),
        ),
        (
            "\n\n time;stars;user id;isbn\n100;3;1;7\n200;4;2;7\n",
            headed(";", ("time", "stars", "user id", "isbn"), "user id", "isbn", "stars", "time"),
        ),
    ],
)
@pytest.mark.parametrize("name", ["some.txt", "u.data", "wrong.parquet", "ratings.csv"])
def test_layouts_are_recognised_by_content(write, content, layout, name):
    path = write(content, name)
    assert sniff(path) == layout
    ratings = read(path)
    assert triples(ratings) == [(1, 7, 3), (2, 7, 4)]
    assert seconds(ratings) == [100, 200]


@pytest.mark.parametrize(
    ("content", "separator"),
    [
        ("1,2,3,2020-01-01 10:00\n", ","),
        ("1;2;3;a,b\n", ";"),
        ("1,2,3,0,a|b|c|d|e\n4,5,6,0,a|b|c|d|e\n", ","),
        ("user;item;rating;text, which, has, commas\n1;2;3;a, b, c, d\n", ";"),
        ("1,2,3\n4,5\n6,7,8\n", ","),
        ('"a b";"c d";3\n', ";"),
    ],
)
def test_separators_that_compete(write, content, separator):
    assert sniff(write(content)).separator == separator


def test_parquet_is_recognised_by_content(tmp_path):
    path = tmp_path / "extra=5" / "x[1]*.csv"
    path.parent.mkdir()
    table = pl.DataFrame({"user": ["a", "b"], "item": [2**40, 7], "rating": [1, 2], "time": [None, 5]})
    table.write_parquet(path)
    assert sniff(path) == Layout("parquet", None, True, USUAL, dict(zip(USUAL, USUAL, strict=True)))
    with pytest.warns(DataWarning, match="1 of 2 ratings have no time"):
        ratings = read(path)
    assert triples(ratings) == [("a", 2**40, 1), ("b", 7, 2)]
    assert seconds(ratings) == [None, 5]


def test_parquet_keeps_its_types(tmp_path):
    path = tmp_path / "x"
    moments = pl.Series(["2020-01-01", "2020-01-02"]).str.to_datetime()
    pl.DataFrame({"user": ["1", "2"], "item": [1, 2], "rating": [1.5, 2], "date": moments}).write_parquet(path)
    ratings = read(path)
    assert ratings.users.ids.to_list() == ["1", "2"]
    assert ratings.items.ids.to_list() == [1, 2]
    assert seconds(ratings) == [1577836800, 1577923200]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["7", "-8", "0"], [7, -8, 0]),
        (["7", "007", "8"], ["7", "007", "8"]),
        (["7", "7.0", "8"], ["7", "7.0", "8"]),
        (["7", "+8", "9"], ["7", "+8", "9"]),
        ([str(2**31), str(2**40 + 1), str(2**63 - 1)], [2**31, 2**40 + 1, 2**63 - 1]),
        (["1", str(2**63), "2"], ["1", str(2**63), "2"]),
        (["ångström", "映画", "🎬"], ["ångström", "映画", "🎬"]),
        (["john smith", "o'neill", "null"], ["john smith", "o'neill", "null"]),
        (["NaN", "inf", "None"], ["NaN", "inf", "None"]),
    ],
)
def test_ids_are_integers_only_if_all_are_written_so(write, ids, expected):
    content = "".join(f"{name},{name},3\n" for name in ids)
    ratings = read(write(content))
    assert ratings.users.ids.to_list() == expected
    assert ratings.items.ids.to_list() == expected
    assert ratings.users.ids.dtype == (pl.Int64 if isinstance(expected[0], int) else pl.String)


def test_one_side_may_be_integers_and_the_other_not(write):
    ratings = read(write("1,007,3\n2,8,4\n"))
    assert triples(ratings) == [(1, "007", 3), (2, "8", 4)]
    assert ratings.users.rows_of(["2", "002"]).tolist() == [1, -1]
    assert ratings.items.rows_of([8, 7]).tolist() == [1, -1]


def test_byte_order_mark_line_ends_blanks_and_quotes(write):
    content = 'user,item,rating\r\n\r\n"a, b","say ""hi""",4.5\r\n  \r\nc, 7 , 3 \r\n\r\n'
    ratings = read(write(b"\xef\xbb\xbf" + content.encode()))
    assert triples(ratings) == [("a, b", 'say "hi"', 4.5), ("c", "7", 3)]


def test_old_line_ends(write):
    assert triples(read(write("1,2,3\r4,5,6\r"))) == [(1, 2, 3), (4, 5, 6)]


def test_blanks_around_numbers_do_not_matter(write):
    assert triples(read(write("user, item, rating\n1, 2, 3\n4, 5, 6\n"))) == [(1, 2, 3), (4, 5, 6)]


def test_columns_may_be_named(write):
    path = write("a,b,c,d,rating\n1,2,3,100,9\n")
    ratings = read(path, user="b", item="a", rating="c", time="d")
    assert triples(ratings) == [(2, 1, 3)]
    assert seconds(ratings) == [100]
    refused(path, user="x", problem="no column 'x'", expected="a, b, c, d, rating")
    refused(path, problem="no column for the user and the item among a, b, c, d, rating")


def test_separator_and_header_may_be_given(write):
    path = write("u/i/3\n1/2/4\n")
    assert triples(read(path, separator="/")) == [("u", "i", 3), ("1", "2", 4)]
    refused(path, separator="/", header=True, problem="no column for the user")
    refused(write("user,item,rating\n1,2,3\n"), header=False, line=1, text="user,item,rating")
    with pytest.raises(InvalidParameterError, match="separator is ''"):
        read(path, separator="")
    assert triples(read(write("1--2--3\n4--5--6\n"), separator="--")) == [(1, 2, 3), (4, 5, 6)]


def test_a_column_that_is_there_twice_is_refused(write):
    refused(write("user,item,rating,rating\n1,2,3,4\n"), problem="more than one column 'rating'")


def test_duplicates_are_handed_on(write):
    path = write("1,2,3\n1,2,5\n")
    assert triples(read(path)) == [(1, 2, 5)]
    assert triples(read(path, duplicates="mean")) == [(1, 2, 4)]
    refused(path, duplicates="error", problem="user 1 rated item 2 more than once")


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("good", "'good' is not a rating"),
        ("", "the rating is missing"),
        ("  ", "the rating is missing"),
        ("nan", "'nan' is not a rating"),
        ("NaN", "'NaN' is not a rating"),
        ("inf", "'inf' is not a rating"),
        ("-Infinity", "'-Infinity' is not a rating"),
        ("1e39", "'1e39' is not a rating"),
        ("4/5", "'4/5' is not a rating"),
        ("1_0", "'1_0' is not a rating"),
    ],
)
@pytest.mark.parametrize("header", ["", "user,item,rating,time\n", "\n\nuser,item,rating,time\n\n"])
def test_what_is_no_rating(write, cell, problem, header):
    bad = f"3,4,{cell},6"
    path = write(f"{header}1,2,3,4\n\n{bad}\n5,6,also bad,7\n")
    refused(path, line=header.count("\n") + 3, text=bad, problem=problem, expected="a finite number")


@pytest.mark.parametrize(
    ("bad", "problem"),
    [("1,2,3", "3 fields"), ("1", "1 field"), ("1,2,3,4,5", "5 fields"), (",2,3,4", "the user id is missing")]
    + [("1, ,3,4", "the item id is missing"), ("1,2,3,soon", "'soon' is not a time")]
    + [
        ("1,2,3,1588687728923", "'1588687728923' is not a time"),
        ("1,2,3,2020-02-30", "'2020-02-30' is not a time"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 60])
def test_bad_lines_are_found_wherever_they_are(write, bad, problem, place):
    lines = [f"{row},{row},3,4" for row in range(1, 80)]
    lines[place] = bad
    refused(write("\n".join(lines)), line=place + 1, text=bad, problem=problem)


def test_the_first_fault_is_reported_whatever_its_kind(write):
    lines = ["1,2,3,4", "5,6,x,8", "5,6", '5,"6', "\xff"]
    path = write("\n".join(lines).encode("latin-1"))
    refused(path, line=2, text="5,6,x,8", problem="'x' is not a rating")
    lines[1] = "5,6,7,8"
    refused(write("\n".join(lines).encode("latin-1")), line=3, text="5,6", problem="2 fields")
    lines[2] = "5,6,7,9"
    refused(write("\n".join(lines[:4])), line=4, text='5,"6', problem="quotation mark")


def test_lines_inside_quotes_are_counted(write):
    path = write('user,item,rating\n"a\nb",1,3\n\n"c\n\nd",1,4\ne,1,bad\n')
    refused(path, line=8, text="e,1,bad", problem="'bad' is not a rating")
    refused(write('a,1,3\nb,1,"4"5\n'), line=2, text='b,1,"4"5', problem="quotation mark")


def test_bytes_that_are_not_unicode(write):
    content = "user,item,rating\n\na,b,3\namélie,b,4\n".encode("latin-1")
    refused(write(content), line=4, text="am\\xe9lie,b,4", problem="byte 0xe9 is not UTF-8", expected="UTF-8")
    far = b"1,2,3\n" * 20_000 + b"\xe9,2,3\n"
    refused(write(far), line=20_001, problem="byte 0xe9 is not UTF-8")
    unread = "user,item,rating,comment\n1,2,3,\xe9\n".encode("latin-1")
    assert triples(read(write(unread))) == [(1, 2, 3)], "what is not read need not be readable"


def test_a_bad_byte_inside_a_quoted_field(write):
    path = write(b'user,item,rating\n1,2,3\n"a\nb\xff",1,3\n')
    refused(path, line=3, text='"a', problem="byte 0xff is not UTF-8")


def test_short_and_long_lines_that_cancel_out(write):
    lines = ["1,2,3,4"] * 5000
    lines[3000], lines[4000] = "1,2,3", "1,2,3,4,5"
    refused(
        write("\n".join(lines)),
        line=3001,
        text="1,2,3",
        problem="3 fields",
        expected="4, separated by commas",
    )


def test_one_column_is_no_ratings(write):
    refused(write("1\n2\n"), line=1, text="1", problem="only one column", expected="tabs")


def test_times_may_be_missing_or_dates(write):
    path = write("1,2,3,\n4,5,6,2020-01-01\n7,8,9,2020-01-01T00:00:01+01:00\n7,9,9,1.5\n")
    with pytest.warns(DataWarning, match="1 of 4 ratings have no time; splits by time will refuse them") as caught:
        ratings = read(path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert seconds(ratings) == [None, 1577836800, 1577836801 - 3600, 1]
    assert read(write("1,2,3,\n4,5,6,\n")).times is None, "a column without a single time"


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"  \n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n", "\u00a0\n".encode()]
)
def test_empty_files(write, content):
    refused(write(content), problem="the file is empty")


def test_header_alone(write):
    refused(write("user,item,rating\n\n"), problem="a header but nothing below")


def test_missing_files_folders_and_locked_files(tmp_path, write, monkeypatch):
    refused(tmp_path / "nowhere.csv", problem="there is no such file")
    refused(tmp_path / "some.txt" / "x", problem="there is no such file")
    refused(tmp_path, problem="this is a folder")
    path = write("1,2,3\n")
    refused(path / "x", problem="cannot be read")
    refused(tmp_path / "a\0b", problem="cannot be read")

    def locked(self, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", locked)
    refused(path, problem="permission to read the file is denied")


@pytest.mark.parametrize("name", ["x.bin", "x.parquet", "x.csv"])
def test_random_bytes(write, name):
    noise = np.random.default_rng(0).bytes(5000)
    refused(write(noise, name), problem="neither text nor Parquet")
    refused(write(noise.replace(b"\0", b"\1"), name), line=1, problem="is not UTF-8")


@in_tmp_path
@given(st.binary(min_size=1, max_size=200))
def test_no_bytes_raise_anything_else(tmp_path, content):
    path = tmp_path / "bytes"
    path.write_bytes(content)
    fault = None
    try:
        assert len(read(path)) > 0
    except DataError as error:
        fault = str(error)
    assert fault is None or fault.startswith(str(path))


def test_damaged_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"user": range(1000), "item": range(1000), "rating": [1.0] * 1000}).write_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(path, problem="cut off or damaged")
    path.write_bytes(whole[:200] + whole[400:])
    refused(path, problem="this Parquet file is damaged")
    path.write_bytes(b"PAR1PAR1")
    refused(path, problem="this Parquet file is damaged")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"rating": [1.0, None]}, "row 2, column 'rating': the rating is missing"),
        ({"rating": [1.0, float("nan")]}, "row 2, column 'rating': nan is not a rating"),
        ({"rating": [1.0, float("inf")]}, "row 2, column 'rating': inf is not a rating"),
        ({"rating": ["1", "two"]}, "row 2, column 'rating': 'two' is not a rating"),
        ({"rating": [[1], [2]]}, "ratings of type List"),
        ({"user": ["a", None]}, "row 2, column 'user': the user id is missing"),
        ({"user": [1, None]}, "row 2, column 'user': the user id is missing"),
        ({"item": ["", "b"]}, "row 1, column 'item': the item id is missing"),
        ({"item": [1.5, 2]}, "fractional"),
        ({"item": [True, False]}, "Boolean"),
        ({"time": ["2020-01-01", "soon"]}, "row 2, column 'time': 'soon' is not a time"),
        ({"time": [1, 10**15]}, "row 2, column 'time': 1000000000000000 is not a time"),
        ({"time": [True, False]}, "times of type Boolean"),
    ],
)
def test_parquet_with_wrong_columns(tmp_path, changed, problem):
    path = tmp_path / "x.parquet"
    columns = {"user": [1, 2], "item": [1, 2], "rating": [1.0, 2.0], **changed}
    pl.DataFrame(columns, strict=False).write_parquet(path)
    refused(path, problem=problem)


def test_parquet_that_lacks_columns_or_rows(tmp_path):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"user": [1], "stuff": [2]}).write_parquet(path)
    refused(path, problem="no column for the item and the rating among user, stuff")
    pl.DataFrame({"user": [], "item": [], "rating": []}).write_parquet(path)
    refused(path, problem="no rows")


CSV = "user,item,rating,time\na,007,4.5,100\nb,8,3,2024-05-31\n"
LINES = [
    {"user": "a", "item": "007", "rating": 4.5, "time": 100},
    {"user": "b", "item": "8", "rating": 3, "time": "2024-05-31", "more": [1, {"x": 2}]},
]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, bytes])
@pytest.mark.parametrize(
    ("kind", "content"), [("text", CSV), ("jsonl", "\n".join(json.dumps(line) for line in LINES) + "\n\n")]
)
def test_compressed_text_is_recognised_by_content(write, pack, kind, content):
    path = write(pack(content.encode()), "x.dat")
    layout = sniff(path)
    assert layout.kind == kind
    assert layout.compression == {gzip.compress: "gzip", zstandard.compress: "zstd", bytes: None}[pack]
    ratings = read(path)
    assert triples(ratings) == [("a", "007", 4.5), ("b", "8", 3)]
    assert seconds(ratings) == [100, 1717113600]


def test_several_compressed_pieces_are_one_file(write):
    for pack in (gzip.compress, zstandard.compress):
        assert triples(read(write(pack(b"1,2,3\n") + pack(b"4,5,6\n")))) == [(1, 2, 3), (4, 5, 6)]


def test_json_keeps_its_types(write):
    lines = [{"uid": 1, "iid": "7", "score": 3}, {"uid": 2**40, "iid": "007", "score": 4.5}]
    path = write("\n".join(json.dumps(line) for line in lines))
    assert triples(read(path)) == [(1, "7", 3), (2**40, "007", 4.5)]
    mixed = write('{"user": 1, "item": 1, "rating": "4.5"}\n{"user": "b", "item": 2, "rating": 3}\n')
    assert triples(read(mixed)) == [("1", 1, 4.5), ("b", 2, 3)]


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_bad_lines_may_be_set_aside(write, pack, tmp_path):
    content = b'user,item,rating\n1,2,3\n4,5\n6,7,good\n,8,1\n9,"1\n"a"b,1,2\n1,9,4\n'
    with pytest.warns(DataWarning, match="5 lines were set aside, of 7; the first: .*line 3: 2 fields") as caught:
        ratings = read(write(pack(content)), bad_lines="skip")
    assert len(caught) == 1
    assert triples(ratings) == [(1, 2, 3), (1, 9, 4)]
    assert (len(ratings), ratings.merged, ratings.rejected) == (2, 0, 5)
    assert "2 of 7 read (5 rejected)" in str(ratings.describe())
    lines = b'{"user": 1, "item": 2, "rating": 3}\n{"user": 1\n{"user": [], "item": 2, "rating": 3}\n[]\n'
    with pytest.warns(DataWarning, match="3 lines were set aside, of 4; the first: .*line 2: this is not JSON"):
        assert read(write(pack(lines)), bad_lines="skip").rejected == 3
    path = tmp_path / "x.parquet"
    pl.DataFrame({"user": [1, 2, None], "item": [1, 2, 3], "rating": [1.0, None, 3.0]}).write_parquet(path)
    with pytest.warns(DataWarning, match="2 lines were set aside, of 3; the first: .*row 2, column 'rating'"):
        assert triples(read(path, bad_lines="skip")) == [(1, 1, 1)]
    with pytest.raises(InvalidParameterError, match="bad_lines is 'drop'; expected error or skip"):
        read(path, bad_lines="drop")


def test_nothing_is_left_if_every_line_is_bad(write):
    refused(write("user,item,rating\n1,2,x\n"), bad_lines="skip", line=2, problem="'x' is not a rating")


def test_ids_in_quotation_marks_are_text(write):
    assert triples(read(write('"1",1,3\n2,2,4\n'))) == [("1", 1, 3), ("2", 2, 4)]


@pytest.mark.parametrize("name", ["u.data", "ratings.dat", "ratings.csv"])
def test_a_folder_is_read_by_the_ratings_in_it(write, tmp_path, name):
    write("1,2,3\n", name)
    assert triples(read(tmp_path)) == [(1, 2, 3)]
    assert sniff(tmp_path).separator == ","


def test_files_of_the_netflix_prize_are_recognised(write, tmp_path):
    path = write("1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n", "mv_0000001.txt")
    for place in (path, tmp_path):
        assert triples(read(place)) == [(1488844, 1, 3), (822109, 1, 5)]
        assert "Netflix" in str(sniff(place))
    with pytest.raises(InvalidParameterError, match="layout of the Netflix Prize"):
        read(path, user="user")


def test_layouts_say_what_was_guessed(write, tmp_path):
    layout = sniff(write(gzip.compress(b"userId,movieId,rating,why\n1,2,3,x\n")))
    assert str(layout) == (
        "text separated by commas, with a header, compressed with gzip; user = userId, item = movieId, "
        "rating = rating; not used: why"
    )
    assert str(sniff(write("1\t2\t3\t4\n"))) == (
        "text separated by tabs, without a header; user = column 1, item = column 2, rating = column 3, time = column 4"
    )
    assert layout.to_dict()["parts"] == {"user": "userId", "item": "movieId", "rating": "rating"}


def test_pairs(write, tmp_path):
    expected = ([1, 1, 2], ["a", "b", "a"])
    for content in ("1,a\n1,b\n2,a\n", "item;user;x\na;1;\nb;1;\na;2;\n", "1\ta\tfive\n1\tb\t\n2\ta\t3\n"):
        users, items = read_pairs(write(content))
        assert (users.to_list(), items.to_list()) == expected
        assert (users.name, items.name) == ("user", "item")
    path = tmp_path / "pairs.parquet"
    pl.DataFrame({"item": expected[1], "user": expected[0]}).write_parquet(path)
    assert tuple(series.to_list() for series in read_pairs(path)) == expected
    users, items = read_pairs(write("alice matrix\nbob heat\n"))
    assert (users.to_list(), items.to_list()) == (["alice", "bob"], ["matrix", "heat"])


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("user,item\n1,2\n3,\n", 3, "the item id is missing"),
        ("1,2\n3\n4,5\n", 2, "1 field"),
        ("1,2\n3,4,5\n4,5\n", 2, "3 fields"),
        ("1\n2\n", 1, "only one column"),
        ("user,item\n", None, "nothing below"),
        ("", None, "empty"),
    ],
)
def test_bad_pairs(write, content, line, problem):
    path = write(content)
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.line == line
    assert problem in caught.value.problem


@needs_data
def test_movielens_100k():
    ratings = read(Path(DATA, "ml-100k", "u.data"))
    assert (len(ratings), ratings.n_users, ratings.n_items) == (100_000, 943, 1682)
    assert triples(ratings)[0] == (196, 242, 3)
    assert ratings.mean == pytest.approx(3.52986)
    assert str(ratings.times[0]) == "1997-12-04T15:55:49"
    assert ratings.title_of(ratings.items.rows_of([1, 242])).to_list() == ["Toy Story (1995)", "Kolya (1996)"]
    toy_story = ratings.item_attributes.row(int(ratings.items.rows_of([1])[0]))
    assert toy_story == (["Animation", "Children's", "Comedy"], 1995)
    base, test = (read(Path(DATA, "ml-100k", f"u1.{part}")) for part in ("base", "test"))
    assert (len(base), len(test)) == (80_000, 20_000)
    assert set(triples(base)) | set(triples(test)) == set(triples(ratings))


@needs_data
def test_movielens_1m(tmp_path):
    source = Path(DATA, "ml-1m", "ratings.parquet")
    with pytest.warns(DataWarning, match="have no time"):
        ratings = read(source)
    stored = pl.read_parquet(source)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (1_000_209, 6040, 3706)
    unknown = np.isnat(ratings.times)
    np.testing.assert_array_equal(unknown, stored["timestamp"].is_null().to_numpy())
    assert 0.79 < unknown.mean() < 0.81
    assert ratings.item_titles.null_count() == 0
    assert ratings.title_of(ratings.items.rows_of([1193])).to_list() == ["One Flew Over the Cuckoo's Nest (1975)"]
    stored.select("user", "item", "rating", "timestamp").write_csv(tmp_path / "x.csv")
    with pytest.warns(DataWarning, match="have no time"):
        assert read(tmp_path / "x.csv").fingerprint() == ratings.fingerprint()


@needs_data
def test_movielens_latest_small():
    ratings = read(Path(DATA, "ml-latest-small", "ratings.csv"))
    assert (len(ratings), ratings.n_users, ratings.n_items) == (100_836, 610, 9724)
    assert ratings.range == (0.5, 5)
    assert ratings.item_titles.null_count() == 0
    assert ratings.title_of(ratings.items.rows_of([1])).to_list() == ["Toy Story (1995)"]


@pytest.mark.parametrize(
    "content",
    [
        "item,rating\n7,5\nx,2\n",
        "7,5\nx,2\n",
        "rating\titem\n5\t7\n2\tx\n",
        "user,item,rating\nme,7,5\nme,x,2\n",
        "me;7;5\nme;x;2\n",
    ],
)
def test_a_history_may_go_without_users(content, tmp_path):
    file = tmp_path / "history.csv"
    file.write_text(content)
    history = read_history(file, "me")
    assert history.user_ids().to_list() == ["me", "me"]
    assert history.item_ids().to_list() == ["7", "x"]
    assert history.values.tolist() == [5, 2]


def test_a_bad_history_names_its_line(tmp_path):
    file = tmp_path / "history.csv"
    file.write_text("item,rating\n7,5\n8,good\n")
    with pytest.raises(DataError, match=r"line 3.*8,good"):
        read_history(file, "me")


def test_what_cannot_be_a_file_of_ratings(write, tmp_path):
    with pytest.raises(DataError, match="no column for the item and the rating among user"):
        read(pl.DataFrame({"user": [1]}))
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", problem="this is a pipe or a device")
    netflix = write("1:\n1488844,3,2005-09-06\n", "mv_0000001.txt")
    for bad_lines, message in (("skip", "layout of the Netflix Prize"), ("drop", "bad_lines is 'drop'")):
        with pytest.raises(InvalidParameterError, match=message):
            read(netflix, bad_lines=bad_lines)


def test_one_column_cannot_be_two_things(write):
    path = write("user,item,rating\n1,2,3\n")
    refused(path, user="user", item="user", problem="column 'user' is to be both user and item")


def test_dates_without_marks_are_not_taken_for_seconds(write):
    refused(write("1,2,3,20240531\n4,5,6,19991231\n"), problem="such as 20240531", expected="2024-05-31")
    assert seconds(read(write("1,2,3,20240531\n4,5,6,20241331\n"))) == [20240531, 20241331]


def test_blank_lines_of_a_file_separated_by_spaces(write):
    assert triples(read(write("1 2 3\n4 5 6\n     \n7 8 9\n"))) == [(1, 2, 3), (4, 5, 6), (7, 8, 9)]


def test_an_id_that_is_a_whole_text(write):
    path = write(f"1,2,3\n{'x' * 65536},5,6\n")
    refused(path, line=2, problem="the user id is longer than 65,535 bytes")
    assert len(read(write(f"1,2,3\n{'x' * 65535},5,6\n"))) == 2
