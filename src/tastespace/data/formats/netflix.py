"""Ratings in the layout of the Netflix Prize: the number of a film and a colon, then its ratings.

    1:
    1488844,3,2005-09-06
    822109,5,2005-05-13

The prize had a file for each film (`training_set/mv_0000001.txt`), later copies have a few large ones
(`combined_data_1.txt`). Both are read in pieces of bounded size: 100 million ratings need no more memory than the
result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data.formats.descriptions import described
from tastespace.data.ratings import DAY, Duplicates, Ratings
from tastespace.data.tables import Observed, Side
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError
from tastespace.progress import Observer, Progress, silent

RATING_FILES = ("mv_*.txt", "combined_data_*.txt")
TITLE_FILES = ("movie_titles.txt", "movie_titles.csv")

_BATCH = 1 << 25  # bytes that are parsed at a time
_FEW_NUMBERS = 1 << 27  # up to this id a table of all numbers is cheaper than a hash of those that occur
_HEAD = re.compile(rb"\A\d+:[ ]*\r?\n\d+,\d,\d{4}-\d\d-\d\d")
_FILM, _RATING = re.compile(rb"\d{1,9}:"), re.compile(rb"\d{1,9},[1-5],(\d{4}-\d\d-\d\d)")
_EXPECTED = "the number of a film and a colon, or a user, a rating from 1 to 5 and a date such as 1488844,3,2005-09-06"


@dataclass(frozen=True)
class _Piece:
    """Whole lines of a file."""

    file: Path
    first_line: int
    data: bytes


def is_netflix(path: Path) -> bool:
    """Whether this is a file of that layout, or a folder of such files."""
    files = [path] if path.is_file() else _rating_files(path)
    try:
        with files[0].open("rb") as stream:
            return _HEAD.match(stream.read(64)) is not None
    except (IndexError, OSError):
        return False


def read_netflix(path: Path, *, duplicates: Duplicates | None = None, observer: Observer = silent) -> Ratings:
    """Ratings from one file of that layout, or from all of a folder, with the titles found beside them."""
    files = [path] if path.is_file() else _rating_files(path)
    if not files:
        raise DataError("there are no ratings of the Netflix Prize", file=path, expected=f"{' or '.join(RATING_FILES)}")
    total = sum(file.stat().st_size for file in files)
    tables: list[pl.DataFrame] = []
    film, done = -1, 0
    for batch in _batches(files):
        table, film = _parsed(batch, film)
        tables.append(table)
        done += sum(len(piece.data) for piece in batch)
        observer(Progress("reading", min(done, total), total))
    if not any(map(len, tables)):
        raise DataError("there are no ratings", file=path, expected=_EXPECTED)
    ratings = _ratings(tables, duplicates)
    places = (folder / name for folder in files[0].parents[:2] for name in TITLE_FILES)
    titles = next(filter(Path.is_file, places), None)
    return ratings if titles is None else _titled(ratings, titles)


def _rating_files(folder: Path) -> list[Path]:
    """The files of ratings in a folder, or in its `training_set`."""
    for place in (folder, folder / "training_set", folder / "download" / "training_set"):
        for pattern in RATING_FILES:
            if files := sorted(place.glob(pattern)):
                return files
    return []


def _batches(files: Iterable[Path]) -> Iterator[list[_Piece]]:
    """The pieces of all files, small ones combined, since each batch has a cost."""
    batch: list[_Piece] = []
    n_bytes = 0
    for file in files:
        try:
            for piece in _pieces(file):
                batch.append(piece)
                n_bytes += len(piece.data)
                if n_bytes >= _BATCH:
                    yield batch
                    batch, n_bytes = [], 0
        except OSError as error:
            raise DataError(f"the file cannot be read ({error.strerror})", file=file) from error
    if batch:
        yield batch


def _pieces(file: Path) -> Iterator[_Piece]:
    line, rest, is_last = 1, b"", False
    with file.open("rb") as stream:
        while not is_last:
            block = stream.read(_BATCH)
            is_last = len(block) < _BATCH
            data = rest + block
            end = len(data) if is_last else data.rfind(b"\n") + 1
            data, rest = data[:end], data[end:]
            if is_last:
                data = data.rstrip() + b"\n"  # some files end without one, some with several
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n")
            if data.strip():
                yield _Piece(file, line, data)
            line += data.count(b"\n")


def _parsed(batch: list[_Piece], film: int) -> tuple[pl.DataFrame, int]:
    """User, film, rating and day of each line, and the last film; the first lines may be of the film before."""
    for piece in batch:
        if piece.first_line == 1 and not _FILM.match(piece.data):
            raise _fault(piece, 0)
    data = b"".join(piece.data for piece in batch)
    schema = {"user": pl.String(), "rating": pl.Int8(), "day": pl.Date()}
    try:
        lines = pl.read_csv(b"user,rating,day\n" + data, schema=schema, quote_char=None)
        is_film = lines["rating"].is_null()
        films = lines["user"].filter(is_film).str.extract(r"^(\d{1,9}):\s*$").cast(pl.Int32)
        table = lines.filter(~is_film).cast({"user": pl.Int32})
    except pl.exceptions.PolarsError as error:
        raise _first_fault(batch) from error
    is_whole = (lines.height, 2 * table.height) == (data.count(b"\n"), data.count(b","))
    has_nulls = films.null_count() + table["day"].null_count() > 0
    if not is_whole or has_nulls or not table["rating"].is_between(1, 5).all():
        raise _first_fault(batch)
    known = np.array([film, *films], np.int32)
    return table.with_columns(film=known[is_film.cum_sum().filter(~is_film).to_numpy()]), int(known[-1])


def _first_fault(batch: list[_Piece]) -> DataError:
    """The error for the first invalid line; slow, and used only when parsing has failed."""
    for piece in batch:
        start = 0
        for line in piece.data.splitlines(keepends=True):
            if not _is_right(line.strip()):
                return _fault(piece, start)
            start += len(line)
    return DataError("the file cannot be read", file=batch[0].file, expected=_EXPECTED)


def _is_right(line: bytes) -> bool:
    if _FILM.fullmatch(line):
        return True
    found = _RATING.fullmatch(line)
    try:
        return found is not None and bool(date.fromisoformat(found[1].decode()))
    except ValueError:
        return False


def _fault(piece: _Piece, position: int) -> DataError:
    line = piece.first_line + piece.data.count(b"\n", 0, position)
    text = piece.data[position:].split(b"\n", 1)[0].decode("latin-1")
    return DataError(
        "this is not a rating of the Netflix Prize", file=piece.file, line=line, text=text, expected=_EXPECTED
    )


def _ratings(tables: list[pl.DataFrame], duplicates: Duplicates | None) -> Ratings:
    table = pl.concat(tables)
    users, items = _numbered(table["user"].to_numpy(), "user"), _numbered(table["film"].to_numpy(), "item")
    values = table["rating"].to_numpy().astype(np.float32)
    seconds = table["day"].to_physical().to_numpy().astype(np.int64)
    seconds *= DAY
    tables.clear()  # before the ratings are grouped: that takes as much again
    del table
    observed = Observed(users, items, values, seconds.view("datetime64[s]"))
    return Ratings.from_observed(observed, duplicates=duplicates)


def _numbered(numbers: NDArray[np.int32], name: str) -> Side:
    """The vocabulary of these numbers in order of appearance, and the row of each."""
    if numbers.max() >= _FEW_NUMBERS:
        return Side(*Vocabulary.of(numbers, name))
    unique = pl.Series(name, numbers).unique(maintain_order=True)
    table = np.zeros(numbers.max() + 1, np.int32)
    table[unique.to_numpy()] = np.arange(len(unique), dtype=np.int32)
    return Side(Vocabulary(unique.cast(pl.Int64)), table[numbers])


def _titled(ratings: Ratings, file: Path) -> Ratings:
    """The ratings with titles and years; a title may contain commas, and is not quoted."""
    ids, titles, years = [], [], []
    for number, line in enumerate(file.read_bytes().decode("latin-1").split("\n"), 1):
        if not line.strip():
            continue
        film, year, title = (line.rstrip("\r").split(",", 2) + ["", ""])[:3]
        if not film.strip().isdigit() or not (year == "NULL" or year.isdigit()) or not title:
            expected = "a film, a year or NULL, a title"
            raise DataError("not a title", file=file, line=number, text=line, expected=expected)
        ids.append(int(film))
        years.append(int(year) if year.isdigit() else None)
        titles.append(title.strip() + (f" ({year})" if year.isdigit() else ""))
    table = pl.DataFrame(
        {"id": ids, "title": titles, "year": years}, schema={"id": pl.Int64(), "title": pl.String(), "year": pl.Int32()}
    )
    return described(ratings, table)
