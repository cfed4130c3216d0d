"""Files of items to show or not to show."""

from __future__ import annotations

import gzip

import polars as pl
import pytest

from tastespace.data.formats.files import read_item_list
from tastespace.errors import DataError


@pytest.mark.parametrize(
    ("content", "users", "items"),
    [
        ("318\n858\n\n", None, ["318", "858"]),
        ("movieId\n318\n858", None, ["318", "858"]),
        ("ID\r\n318\r\n", None, ["318"]),
        ('\ufeffitem\n"tea, green"\n', None, ["tea, green"]),
        ('"tea, green"\njam\n', None, ["tea, green", "jam"]),
        ("plum jam\ntea\n", None, ["plum jam", "tea"]),
        ('"plum ""x"" jam"\ntea\n', None, ['plum "x" jam', "tea"]),
        ("item,price\ntea,3\njam,2\n", None, ["tea", "jam"]),
        ("price;Item\n3;tea\n2;jam\n", None, ["tea", "jam"]),
        ("user,item\nann,tea\nbob,jam\n", ["ann", "bob"], ["tea", "jam"]),
        ("item\tuser\ntea\tann\n", ["ann"], ["tea"]),
        ('{"user": 1, "item": "x"}\n', [1], ["x"]),
        ('{"item": "x", "price": 2}\n{"item": "y"}\n', None, ["x", "y"]),
        (gzip.compress(b"tea\njam\n"), None, ["tea", "jam"]),
    ],
)
def test_lists_of_any_form(write, content, users, items):
    table = read_item_list(write(content))
    assert table["item"].to_list() == items
    assert ("user" in table.columns) == (users is not None)
    if users is not None:
        assert table["user"].to_list() == users


def test_parquet(tmp_path):
    frame = pl.DataFrame({"movieId": [1, 2], "price": [3, 4]})
    frame.write_parquet(tmp_path / "a")
    assert read_item_list(tmp_path / "a")["item"].to_list() == [1, 2]
    frame.with_columns(userId=pl.Series(["x", "y"])).write_parquet(tmp_path / "b")
    assert read_item_list(tmp_path / "b").rows() == [("x", 1), ("y", 2)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        (b"\xff\xfea\x00", "some.txt"),
        (b"tea\n\xe9\n", "line 2: byte 0xe9 is not UTF-8"),
        ("item,price\ntea,3\njam\n", "line 3: 1 field"),
        ("foo,bar\n4789,x\n", "no column is called item; expected one item per line; or a table whose header"),
        ("1,318\n2,858\n", "no column is called item"),
        ("1::318::5\n2::858::4\n", "no column is called item"),
        ('{"item":3}\n{"item":\n', "line 2: this is not JSON"),
        ('{"item":3}\n{"item":null}\n', "line 2: the item id is missing"),
        (b"PAR1\0\0PAR1", "some.txt"),
        (None, "there is no such file"),
    ],
)
def test_files_that_are_no_lists(write, tmp_path, content, message):
    path = tmp_path / "nowhere" if content is None else write(content)
    with pytest.raises(DataError, match=message):
        read_item_list(path)
