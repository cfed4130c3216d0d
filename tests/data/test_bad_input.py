"""What people send by mistake: each with the message that helps, in Python and on the command line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zipfile

import numpy as np
import polars as pl
import pytest
import zstandard
from typer.testing import CliRunner

from tastespace.cli.main import app
from tastespace.data.formats.files import read
from tastespace.errors import DataError

GOOD = b"user,item,rating,time\n1,2,3,100\n"


def parquet(**changed) -> bytes:
    columns = {"user": [1, 2], "item": [3, 4], "rating": [1.0, 2.0], **changed}
    stream = io.BytesIO()
    pl.DataFrame(columns, strict=False).write_parquet(stream)
    return stream.getvalue()


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("ratings.csv", GOOD)
    return stream.getvalue()


NOISE = np.random.default_rng(0).bytes(4000)
LONG = b"".join(b"%d,%d,3\n" % (row, row * 7) for row in range(20_000))

# what it is: content, line, problem, expectation
BAD = {
    "empty": (b"", None, "the file is empty", "lines of user, item, rating"),
    "blank lines": (b"\n \n\t\n", None, "the file is empty", "lines of user"),
    "byte order mark alone": (b"\xef\xbb\xbf\n", None, "the file is empty", "lines of user"),
    "header alone": (b"user,item,rating\n", None, "a header but nothing below it", "lines of ratings"),
    "one column": (b"1\n2\n", 1, "there is only one column", "tabs"),
    "no rating column": (
        b"user,item,price\n1,2,3\n",
        None,
        "no column for the rating among user, item, price",
        "that the kind is counts or one-class if each line is a choice",
    ),
    "a header or a choice": (
        b"ann,tea\nbob,jam\n",
        1,
        "the first line may be a header or a choice",
        "an explicit choice (--header or --no-header",
    ),
    "no known column": (b"a,b,c\n1,2,3\n", None, "no column for the user and the item and the rating", "say which"),
    "column twice": (b"user,item,rating,rating\n1,2,3,4\n", None, "more than one column 'rating'", "different names"),
    "short line": (GOOD + b"1,2,3\n", 3, "3 fields", "4, separated by commas"),
    "long line": (GOOD + b"1,2,3,4,5\n", 3, "5 fields", "4, separated by commas"),
    "line of another separator": (GOOD + b"1;2;3;4\n", 3, "1 field", "4, separated by commas"),
    "no user": (GOOD + b",2,3,4\n", 3, "the user id is missing", "an id"),
    "blank item": (GOOD + b"1,  ,3,4\n", 3, "the item id is missing", "an id"),
    "empty text as item": (GOOD + b'1,"",3,4\n', 3, "the item id is missing", "an id"),
    "no rating": (GOOD + b"1,2,,4\n", 3, "the rating is missing", "a finite number"),
    "word as rating": (GOOD + b"1,2,good,4\n", 3, "'good' is not a rating", "a finite number"),
    "stars of stars": (GOOD + b"1,2,4/5,4\n", 3, "'4/5' is not a rating", "a finite number"),
    "nan": (GOOD + b"1,2,nan,4\n", 3, "'nan' is not a rating", "a finite number"),
    "infinity": (GOOD + b"1,2,-inf,4\n", 3, "'-inf' is not a rating", "a finite number"),
    "too large": (GOOD + b"1,2,1e39,4\n", 3, "'1e39' is not a rating", "a finite number"),
    "decimal comma": (b"1;2;3\n4;5;3,5\n", 2, "'3,5' is not a rating", "a decimal point instead of the comma"),
    "word as time": (GOOD + b"1,2,3,soon\n", 3, "'soon' is not a time", "seconds (not milliseconds) since 1970"),
    "milliseconds": (GOOD + b"1,2,3,1588687728923\n", 3, "'1588687728923' is not a time", "not milliseconds"),
    "impossible date": (GOOD + b"1,2,3,2023-02-29\n", 3, "'2023-02-29' is not a time", "2024-05-31"),
    "American date": (GOOD + b"1,2,3,05/31/2024\n", 3, "'05/31/2024' is not a time", "2024-05-31"),
    "quote left open": (GOOD + b'"1,2,3,4\n', 3, "a quotation mark or a line end", "quoted as a whole"),
    "quote in the middle": (GOOD + b'"1"x,2,3,4\n', 3, "a quotation mark or a line end", "quoted as a whole"),
    "Latin-1": (GOOD + "amélie,2,3,4\n".encode("latin-1"), 3, "byte 0xe9 is not UTF-8", "UTF-8"),
    "Latin-1 header": ("usér,item,rating\n1,2,3\n".encode("latin-1"), 1, "byte 0xe9 is not UTF-8", "UTF-8"),
    "UTF-16": ("1,2,3\n".encode("utf-16"), None, "this is UTF-16 text", "text saved as UTF-8"),
    "binary": (b"\x00\x01\x02" * 50, None, "neither text nor Parquet", "lines of user"),
    "noise": (NOISE, None, "neither text nor Parquet", "lines of user"),
    "zip archive": (zipped(), None, "a zip archive", "a file from inside it"),
    "bzip2": (bz2.compress(GOOD), None, "compressed with bzip2", "bunzip2"),
    "xz": (lzma.compress(GOOD), None, "compressed with xz", "unxz"),
    "gzip cut off": (gzip.compress(LONG)[:-9], None, "the gzip file is cut off or damaged", "a whole one"),
    "gzip damaged": (
        gzip.compress(GOOD)[:-8] + b"\1" * 8,
        None,
        "the gzip file is cut off or damaged",
        "a whole one",
    ),
    "zstd damaged": (
        zstandard.compress(LONG)[:40] + b"\xff" * 400,
        None,
        "the zstd file is cut off or damaged",
        "a whole one",
    ),
    "zstd cut off": (zstandard.compress(LONG)[:-9], None, "the zstd file is cut off or damaged", "a whole one"),
    "bad line inside gzip": (gzip.compress(GOOD + b"1,2,x,4\n"), 3, "'x' is not a rating", "a finite number"),
    "JSON array": (b'[{"user": 1, "item": 2, "rating": 3}]', None, "this is one JSON array", "one object per line"),
    "broken JSON": (b'{"user": 1, "item": 2, "rating": 3}\n{"user": 1\n', 2, "this is not JSON", "one JSON object"),
    "JSON list": (b'{"user": 1, "item": 2, "rating": 3}\n[1, 2]\n', 2, "this is a JSON list", "one JSON object"),
    "JSON without ratings": (
        b'{"user": 1, "item": 2, "price": 3}\n',
        None,
        "no column for the rating",
        "a header such as",
    ),
    "JSON null rating": (
        b'{"user": 1, "item": 2, "rating": 3}\n{"user": 1, "item": 3, "rating": null}\n',
        2,
        "the rating is missing",
        "a finite number",
    ),
    "JSON list as id": (b'{"user": [1], "item": 2, "rating": 3}\n', 1, "[1] is not a user id", "an id"),
    "JSON word as rating": (b'{"user": 1, "item": 2, "rating": "x"}\n', 1, "'x' is not a rating", "a finite number"),
    "Parquet cut off": (parquet()[:200], None, "cut off or damaged", "a whole Parquet file"),
    "Parquet without rows": (parquet(user=[], item=[], rating=[]), None, "the table has no rows", "ratings"),
    "Parquet null": (
        parquet(rating=[1.0, None]),
        None,
        "row 2, column 'rating': the rating is missing",
        "a finite number",
    ),
    "Parquet lists": (parquet(rating=[[1], [2]]), None, "ratings of type List", "numbers"),
    "Parquet fractional ids": (parquet(user=[1.5, 2.0]), None, "fractional", "integers or strings"),
    "Parquet boolean ids": (parquet(item=[True, False]), None, "ids of type Boolean", "integers or strings"),
    "Parquet moments far away": (parquet(time=[1, 10**15]), None, "row 2, column 'time'", "not milliseconds"),
}


def test_there_are_forty_kinds():
    assert len(BAD) >= 40


@pytest.mark.parametrize("kind", BAD)
def test_bad_input(tmp_path, kind):
    content, line, problem, expected = BAD[kind]
    path = tmp_path / "ratings.txt"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(path)
    error = caught.value
    assert str(error).startswith(str(path))
    assert problem in error.problem
    assert error.line == line
    assert expected in (error.expected or "")
    if line is not None:
        assert f"line {line}: " in str(error)
        assert error.text, "a person wants to see the line"
    ran = CliRunner().invoke(app, ["fit", str(path), "--dry-run"])
    assert ran.exit_code == 1
    assert re.sub(r"\s+", "", f"error: {error}") in re.sub(r"\s+", "", ran.stderr)
    assert "Traceback" not in ran.stderr + ran.stdout
