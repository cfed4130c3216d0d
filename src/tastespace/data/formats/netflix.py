"""Ratings in the layout of the Netflix Prize: the number of a film and a colon, then its ratings.

    1:
    1488844,3,2005-09-06
    822109,5,2005-05-13

The prize had a file for each film (`training_set/mv_0000001.txt`), later copies have a few large ones
(`combined_data_1.txt`). Both are read in pieces of bounded size: 100 million ratings need no more memory than what
they end up in.
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

from tastespace.arrays import IntArray
from tastespace.data.formats.descriptions import described
from tastespace.data.ratings import Duplicates, Ratings
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError
from tastespace.progress import Observer, Progress, silent

RATING_FILES = ("mv_*.txt", "combined_data_*.txt")
TITLE_FILES = ("movie_titles.txt", "movie_titles.csv")

_DAY = 24 * 60 * 60  # seconds
_BATCH = 1 << 25  # bytes that are parsed at a time
_FEW_NUMBERS = 1 << 27  # up to this id a table of all numbers is cheaper than a hash of those that occur
_HEAD = re.compile(rb"\A\d+:[ ]*\r?\n\d+,\d,\d{4}-\d\d-\d\d")
_FILM, _RATING = re.compile(rb"\d+:"), re.compile(rb"\d{1,9},[1-5],(\d{4}-\d\d-\d\d)")
_EXPECTED = "the number of a film and a colon, or a user, a rating from 1 to 5 and a date such as 1488844,3,2005-09-06"


@dataclass(frozen=True)
class _Piece:
    """Whole lines of a file."""

    file: Path
    first_line: int
    data: bytes


@dataclass(frozen=True)
class _Batch:
    """The columns of some ratings."""

    users: NDArray[np.int32]
    films: NDArray[np.int32]
    values: NDArray[np.int8]
    days: NDArray[np.int32]  # since 1970


def is_netflix(path: Path) -> bool:
    """Whether this is a file of that layout, or a folder of such files."""
    files = [path] if path.is_file() else _rating_files(path)[:1]
    for file in files:
        try:
            with file.open("rb") as stream:
                return _HEAD.match(stream.read(64)) is not None
        except OSError:
            return False
    return False


def read_netflix(path: Path, *, duplicates: Duplicates | None = None, observer: Observer = silent) -> Ratings:
    """Ratings from one file of that layout, or from all of a folder, with the titles that lie beside them."""
    files = [path] if path.is_file() else _rating_files(path)
    if not files:
        raise DataError("there are no ratings of the Netflix Prize", file=path, expected=f"{' or '.join(RATING_FILES)}")
    total = sum(file.stat().st_size for file in files)
    batches = list(_parsed(_batches(_pieces(files)), total, observer))
    if not any(len(batch.users) for batch in batches):
        raise DataError("there are no ratings", file=path, expected=_EXPECTED)
    ratings = _ratings(batches, duplicates)
    titles = next((file for folder in (files[0].parent, files[0].parents[1]) for file in _title_files(folder)), None)
    return ratings if titles is None else _titled(ratings, titles)


def _rating_files(folder: Path) -> list[Path]:
    """The files of ratings in a folder, or in its `training_set`."""
    for place in (folder, folder / "training_set", folder / "download" / "training_set"):
        for pattern in RATING_FILES:
            if files := sorted(place.glob(pattern)):
                return files
    return []


def _title_files(folder: Path) -> Iterator[Path]:
    return (folder / name for name in TITLE_FILES if (folder / name).is_file())


def _pieces(files: Iterable[Path]) -> Iterator[_Piece]:
    for file in files:
        try:
            yield from _pieces_of(file)
        except OSError as error:
            raise DataError(f"the file cannot be read ({error.strerror})", file=file) from error


def _pieces_of(file: Path) -> Iterator[_Piece]:
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
            if not is_last:
                line += data.count(b"\n")


def _batches(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    """Small files together: each batch has its price."""
    batch: list[_Piece] = []
    n_bytes = 0
    for piece in pieces:
        batch.append(piece)
        n_bytes += len(piece.data)
        if n_bytes >= _BATCH:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def _parsed(batches: Iterable[list[_Piece]], total: int, observer: Observer) -> Iterator[_Batch]:
    current, done = -1, 0
    for batch in batches:
        bodies, films, counts = [], [], []
        for piece in batch:
            for film, start, end in _segments(piece, current):
                bodies.append(piece.data[start:end])
                films.append(film)
                counts.append(piece.data.count(b"\n", start, end))
            current = films[-1]
            done += len(piece.data)
        yield _table(b"".join(bodies), np.repeat(np.array(films, np.int32), counts), batch)
        observer(Progress("reading", min(done, total), total))


def _segments(piece: _Piece, film: int) -> Iterator[tuple[int, int, int]]:
    """Each film with the range of its ratings; the first range may belong to the film of the piece before."""
    data, start = piece.data, 0
    if piece.first_line == 1:
        film = -1
    while True:
        colon = data.find(b":", start)
        header = len(data) if colon < 0 else (data.rfind(b"\n", start, colon) + 1 or start)
        if start < header:
            if film < 0:
                raise _fault(piece, 0)
            yield film, start, header
        if colon < 0:
            return
        after = data.find(b"\n", colon)
        name = data[header:colon]
        if not (name.isdigit() and len(name) <= 9 and not data[colon + 1 : after].strip()):
            raise _fault(piece, header)
        film, start = int(name), after + 1
        if start == len(data):
            yield film, start, start  # so that the next piece knows


def _table(body: bytes, films: NDArray[np.int32], batch: list[_Piece]) -> _Batch:
    schema = {"user": pl.Int32(), "rating": pl.Int8(), "day": pl.Date()}
    try:
        table = (
            pl.read_csv(body, has_header=False, schema=schema, quote_char=None) if body else pl.DataFrame(schema=schema)
        )
    except pl.exceptions.PolarsError as error:
        raise _first_fault(batch) from error
    nulls = sum(table.null_count().row(0))
    if table.height != len(films) or nulls or not table["rating"].is_between(1, 5).all():
        raise _first_fault(batch)
    days = table["day"].to_physical().to_numpy()
    return _Batch(table["user"].to_numpy(), films, table["rating"].to_numpy(), days)


def _first_fault(batch: list[_Piece]) -> DataError:
    """The complaint about the first line that is not what it should be: slow, and only on the way out."""
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


def _ratings(batches: list[_Batch], duplicates: Duplicates | None) -> Ratings:
    users, user_rows = _numbered(np.concatenate([batch.users for batch in batches]), "user")
    items, item_rows = _numbered(np.concatenate([batch.films for batch in batches]), "item")
    values = np.concatenate([batch.values for batch in batches], dtype=np.float32)
    seconds = np.concatenate([batch.days for batch in batches], dtype=np.int64)
    seconds *= _DAY
    batches.clear()  # before the ratings are grouped: that takes as much again
    times = seconds.view("datetime64[s]")
    return Ratings.from_rows(users, items, user_rows, item_rows, values, times, duplicates=duplicates)


def _numbered(numbers: NDArray[np.int32], name: str) -> tuple[Vocabulary, IntArray]:
    """The vocabulary of these numbers in order of appearance, and the row of each."""
    if numbers.max() >= _FEW_NUMBERS:
        return Vocabulary.of(numbers, name)
    unique = pl.Series(name, numbers).unique(maintain_order=True)
    table = np.zeros(numbers.max() + 1, np.int32)
    table[unique.to_numpy()] = np.arange(len(unique), dtype=np.int32)
    return Vocabulary(unique.cast(pl.Int64)), table[numbers]


def _titled(ratings: Ratings, file: Path) -> Ratings:
    """With titles and years; a title may contain commas, and is not quoted."""
    ids, titles, years = [], [], []
    for number, line in enumerate(file.read_bytes().decode("latin-1").split("\n"), 1):
        if not line.strip():
            continue
        film, year, title = (line.rstrip("\r").split(",", 2) + ["", ""])[:3]
        if not film.strip().isdigit() or not (year == "NULL" or year.isdigit()) or not title:
            raise DataError(
                "not a title", file=file, line=number, text=line, expected="a film, a year or NULL, a title"
            )
        ids.append(int(film))
        years.append(int(year) if year.isdigit() else None)
        titles.append(title.strip() + (f" ({year})" if year.isdigit() else ""))
    table = pl.DataFrame(
        {"id": ids, "title": titles, "year": years}, schema={"id": pl.Int64(), "title": pl.String(), "year": pl.Int32()}
    )
    return described(ratings, table)
