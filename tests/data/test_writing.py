"""Writing: what is read back is the same, an old file is never half replaced, failures are named."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import warnings

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from tastespace.data.formats import writers
from tastespace.data.formats.files import read
from tastespace.data.ratings import Ratings
from tastespace.data.tables import EARLIEST, LATEST
from tastespace.errors import DataError, DataWarning

SUFFIXES = [".csv", ".tsv", ".csv.gz", ".csv.zst", ".tsv.gz", ".tsv.zst", ".parquet"]
NASTY = ["007", "7", "-0", "1e3", " a", "a ", 'say "hi"', '"', '""', "a,b", "a;b", "a\tb", "a|b", "a::b", "line\nbreak"]
NASTY += [
    "cr\rlf\r\n",
    "user",
    "item,rating",
    "映画",
    "e\u0301",
    "\ufeffx",
    "\x85x",
    "\u2028x",
    "\u3000",
    "'",
    "\\",
    "\\N",
    "NaN",
    "null",
]


texts = st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
texts = texts.filter(lambda text: text.strip(" \t\r\n"))  # a blank id is no id
integers = st.integers(-(2**63), 2**63 - 1)
seconds = st.none() | st.integers(EARLIEST, LATEST)
LARGEST = float(np.finfo(np.float32).max)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def ratings_of_any_kind(draw):
    users = draw(st.lists(draw(st.sampled_from([texts, integers])), min_size=1, max_size=5, unique=True))
    items = draw(st.lists(draw(st.sampled_from([texts, integers])), min_size=1, max_size=5, unique=True))
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(users), st.sampled_from(items)), min_size=1, max_size=12, unique=True)
    )
    values = [draw(numbers) for _ in pairs]
    times = draw(st.none() | st.lists(seconds, min_size=len(pairs), max_size=len(pairs)))
    return quietly(Ratings.from_arrays, *zip(*pairs, strict=True), values, times)


def quietly(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # some times are missing
        return function(*arguments)


def assert_same(back, ratings):
    for ours, theirs in ((back.users, ratings.users), (back.items, ratings.items)):
        assert ours.ids.dtype == theirs.ids.dtype
        assert ours.ids.to_list() == theirs.ids.to_list()
    np.testing.assert_array_equal(back.user_rows, ratings.user_rows)
    np.testing.assert_array_equal(back.item_rows, ratings.item_rows)
    np.testing.assert_array_equal(back.values.view(np.uint32), ratings.values.view(np.uint32))
    assert (back.times is None) == (ratings.times is None)
    if ratings.times is not None:
        np.testing.assert_array_equal(back.times, ratings.times)
    assert back.merged == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_read_back_is_the_same(suffix, tmp_path_factory):
    file = tmp_path_factory.mktemp("there-and-back") / f"ratings{suffix}"

    @given(ratings_of_any_kind())
    @example(Ratings.from_arrays(NASTY, range(len(NASTY)), np.arange(len(NASTY)) / 3))
    @example(Ratings.from_arrays(range(len(NASTY)), NASTY, np.arange(len(NASTY)) / 3))
    @example(Ratings.from_arrays([2**63 - 1, -(2**63)], ["1", "2"], [-0.0, 1e-45], [EARLIEST, LATEST]))
    @example(Ratings.from_arrays([1, 2], [1, 2], [LARGEST, -LARGEST]))
    def there_and_back(ratings):
        ratings.write(file)
        assert_same(quietly(read, file), ratings)

    there_and_back()


def some(times=None):
    return Ratings.from_arrays(["a", 'b"c', "a"], [7, 7, 8], [0.1, 3, -2.5e-7], times)


def test_the_text(tmp_path):
    assert text_of(some(), tmp_path / "x.csv") == 'user,item,rating\n"a",7,0.1\n"b""c",7,3.0\n"a",8,-2.5e-7\n'
    timed = text_of(quietly(some, [1717156800, None, -1]), tmp_path / "x.csv")
    assert [line.split(",")[-1] for line in timed.splitlines()] == [
        "time",
        "2024-05-31T12:00:00",
        "",
        "1969-12-31T23:59:59",
    ]
    assert text_of(some(), tmp_path / "x.TSV").splitlines()[:2] == ["user\titem\trating", '"a"\t7\t0.1']


def text_of(ratings, file):
    ratings.write(file)
    return file.read_bytes().decode()


@pytest.mark.parametrize("n", [1, 3, 6, 7])
def test_pieces_do_not_show(n, monkeypatch, tmp_path):
    ratings = Ratings.from_arrays(list("abcdef"), range(6), range(6), range(6))
    whole = text_of(ratings, tmp_path / "x.csv")
    monkeypatch.setattr(writers, "ROWS_AT_A_TIME", n)
    assert text_of(ratings, tmp_path / "x.csv") == whole
    assert whole.count("\n") == 7


def test_compressed_text_is_the_text(tmp_path):
    for name in ("x.csv", "x.csv.gz", "x.csv.zst"):
        some().write(tmp_path / name)
    plain = (tmp_path / "x.csv").read_bytes()
    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()) == plain
    packed = (tmp_path / "x.csv.zst").read_bytes()
    assert zstandard.ZstdDecompressor().decompressobj().decompress(packed) == plain


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_ratings_give_the_same_bytes(suffix, tmp_path, monkeypatch):
    some().write(tmp_path / f"a{suffix}")
    monkeypatch.setattr("time.time", lambda: 4e9)
    some().write(tmp_path / f"b{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_parquet_has_types(tmp_path):
    quietly(some, [1, None, 3]).write(tmp_path / "x.parquet")
    schema = pl.read_parquet(tmp_path / "x.parquet").schema
    assert dict(schema) == {
        "user": pl.String,
        "item": pl.Int64,
        "rating": pl.Float32,
        "time": pl.Datetime("ms"),
    }


def test_real_sizes_of_pieces(tmp_path):
    n = 100_003
    ratings = Ratings.from_arrays(np.arange(n) % 1000, np.arange(n), np.arange(n) / 8)
    ratings.write(tmp_path / "x.csv.zst")
    assert_same(read(tmp_path / "x.csv.zst"), ratings)


@pytest.mark.parametrize("name", ["x", "x.txt", "x.json", "x.gz", "x.parquet.gz", "csv", ".csv", "x.csv.bz2", "x."])
def test_unknown_suffixes_are_refused(name, tmp_path):
    with pytest.raises(DataError, match=r"of no known format; expected a name that ends in .csv, .tsv"):
        some().write(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst", ".parquet"])
def test_a_failure_leaves_the_old_file_and_nothing_else(suffix, tmp_path, monkeypatch):
    file = tmp_path / f"x{suffix}"
    file.write_bytes(b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writers.os, "fsync", full)
    with pytest.raises(DataError, match="x.*: the file cannot be written: the disk is full") as caught:
        some().write(file)
    assert caught.value.file == file
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst", ".parquet"])
def test_a_full_disk_is_named(suffix, tmp_path, monkeypatch):
    """The stream itself fails, in the middle of writing or in the end."""
    original = writers.Path.open

    def open_full(path, mode="r", *rest):
        return original(type(path)("/dev/full"), "wb") if mode == "xb" else original(path, mode, *rest)

    monkeypatch.setattr(writers.Path, "open", open_full)
    with pytest.raises(DataError, match="cannot be written"):
        Ratings.from_arrays(range(50_000), range(50_000), range(50_000)).write(tmp_path / f"x{suffix}")
    assert not list(tmp_path.iterdir())


def test_an_interruption_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writers, "_write_text", interrupt)
    with pytest.raises(KeyboardInterrupt):
        some().write(tmp_path / "x.csv")
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written_to(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="cannot be written: the folder does not exist"):
        some().write(tmp_path / "nowhere" / "x.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="cannot be written: there is a folder of that name"):
        some().write(tmp_path / "folder.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written: a part of the path is no folder"):
        some().write(tmp_path / "file" / "x.csv")

    def denied(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(writers.Path, "open", denied)
    with pytest.raises(DataError, match="cannot be written: permission to write is denied"):
        some().write(tmp_path / "x.csv")


def test_a_link_is_followed_and_permissions_are_usual(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    some().write(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("user,item")
    (tmp_path / "new").write_text("")
    usual = stat.S_IMODE((tmp_path / "new").stat().st_mode)
    assert stat.S_IMODE((tmp_path / "real.csv").stat().st_mode) == usual


def test_text_paths_are_fine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    some().write("x.csv")
    assert (tmp_path / "x.csv").exists()
