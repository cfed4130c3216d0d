"""Ratings from files, recognised by what is in them.

`sniff` finds the layout, a reader of `_READERS` turns a file of that layout into a table with the columns
user, item, rating and time. A new format is a new kind: a case in `sniff` and a reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tastespace.data import text
from tastespace.data.columns import USUAL_NAMES, find_parts, usual_column
from tastespace.data.ratings import Duplicates, Ratings
from tastespace.data.times import EXPECTED_TIME, seconds_of_texts
from tastespace.data.titles import with_titles
from tastespace.data.vocabulary import id_series, is_canonical_integer
from tastespace.errors import DataError, InvalidParameterError

AnyPath = str | os.PathLike[str]
RATING = ("user", "item", "rating")
PAIR = ("user", "item")
OWN_RATING = ("item", "rating")

_PARQUET_MAGIC = b"PAR1"
_HEAD = 1 << 16
_EXPECTED_RATINGS = "lines of user, item, rating and perhaps time, or a Parquet table of them"
_EXPECTED_CELL = {
    "user": "an id",
    "item": "an id",
    "rating": "a finite number",
    "time": f"{EXPECTED_TIME}, or nothing",
}


@dataclass(frozen=True)
class Layout:
    """How a file is to be read."""

    kind: Literal["text", "parquet"]
    separator: str | None
    has_header: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    """The first cell of a table that cannot be what it should be."""

    row: int
    problem: str
    expected: str


def read(
    path: AnyPath,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    time: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    items: AnyPath | None = None,
    duplicates: Duplicates = "last",
) -> Ratings:
    """Ratings from a file of delimited text or Parquet; what is not said is recognised from the content.

    Without a header the columns are user, item, rating and perhaps time. Ids are integers where all of a
    column are written as integers are, else strings. Titles come from the file `items`, or from the file that
    MovieLens puts beside the ratings. Whatever cannot be read is a `DataError` that names the line.
    """
    file = Path(path)
    wanted = {"user": user, "item": item, "rating": rating, "time": time}
    with _faults_named(file):
        table = _read_table(file, wanted, RATING, separator, header)
        ratings = Ratings.from_arrays(
            table["user"],
            table["item"],
            table["rating"].to_numpy(),
            table["time"] if "time" in table.columns else None,
            duplicates=duplicates,
        )
    return with_titles(ratings, file, None if items is None else Path(items))


def read_pairs(
    path: AnyPath,
    *,
    user: str | None = None,
    item: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> tuple[pl.Series, pl.Series]:
    """The user ids and item ids of a file that asks for predictions; further columns are ignored."""
    file = Path(path)
    with _faults_named(file):
        table = _read_table(file, {"user": user, "item": item}, PAIR, separator, header)
        return id_series(table["user"], "user"), id_series(table["item"], "item")


def read_history(path: AnyPath, user: str) -> Ratings:
    """Ratings of any users; in a file without a column of users they are all of this one."""
    file = Path(path)
    with _faults_named(file):
        table = _read_table(file, {}, OWN_RATING, None, None)
        users = table["user"] if "user" in table.columns else pl.repeat(user, table.height, eager=True)
        return Ratings.from_arrays(users, table["item"], table["rating"].to_numpy())


def has_users(path: AnyPath) -> bool:
    """Whether a history names its users."""
    layout = sniff(path, needed=OWN_RATING)
    return usual_column(layout.columns, USUAL_NAMES["user"]) is not None


def sniff(
    path: AnyPath,
    *,
    separator: str | None = None,
    header: bool | None = None,
    wanted: Mapping[str, str | None] | None = None,
    needed: Sequence[str] = RATING,
) -> Layout:
    """The layout of a file, from its content alone; what the caller knows is taken from him."""
    file = Path(path)
    with _faults_named(file):
        head, tail = _ends(file)
        if head.startswith(_PARQUET_MAGIC) and tail == _PARQUET_MAGIC:
            schema = pl.scan_parquet(file, glob=False, hive_partitioning=False).collect_schema()
            return Layout("parquet", None, True, tuple(schema.names()))
        if b"\0" in head:
            if head.startswith(_PARQUET_MAGIC):
                raise DataError("this Parquet file is cut off or damaged", expected="a whole one")
            raise DataError("this is neither text nor Parquet", expected=_EXPECTED_RATINGS)
        return _sniff_text(text.with_plain_ends(head), file, separator, header, wanted or {}, needed)


def _sniff_text(
    head: bytes,
    file: Path,
    separator: str | None,
    header: bool | None,
    wanted: Mapping[str, str | None],
    needed: Sequence[str],
) -> Layout:
    _, broken = text.decoded(head, file)
    content = head.decode(errors="replace")
    line, first = text.first_line(content)
    if broken is not None and broken.line == line:
        raise broken
    if not first:
        raise DataError("the file is empty", file=file, expected=_EXPECTED_RATINGS)
    if separator is None:
        separator = text.guess_separator(content, file, len(needed), lambda rows: _is_likely(rows, needed))
    elif not separator or any(mark in separator for mark in '"\r\n'):
        raise InvalidParameterError(f"separator is {separator!r}; expected a character such as ',' or a tab")
    rows = text.sample(content, separator, file)
    if not rows:
        raise text.unreadable(content, separator, file)
    has_header = _has_header(rows[0], wanted, needed) if header is None else header
    if has_header:
        return Layout("text", separator, True, tuple(name.strip() for name in rows[0]))
    width = text.usual_width(rows)
    if width < len(needed):
        count = "1 column" if width == 1 else f"{width} columns"
        raise DataError(f"only {count}", file=file, line=line, text=first, expected=f"columns for {', '.join(needed)}")
    names = ["user", "item", "rating", "time"] + [f"column {number}" for number in range(5, width + 1)]
    names = list(needed) if width == len(needed) else names
    return Layout("text", separator, False, tuple(names[:width]))


def _has_header(first: list[str], wanted: Mapping[str, str | None], needed: Sequence[str]) -> bool:
    if any(name in first for name in wanted.values()) or _has_usual_names(first, needed):
        return True
    # Pairs may be words throughout; only a rating must be a number.
    return "rating" in needed and all(cell.strip() and not _is_number(cell) for cell in first)


def _has_usual_names(first: list[str], needed: Sequence[str]) -> bool:
    return all(usual_column(first, USUAL_NAMES[part]) is not None for part in needed)


def _is_likely(rows: text.Rows, needed: Sequence[str]) -> bool:
    """Whether a way of splitting yields ratings: by the header, or by numbers where the ratings should be."""
    if _has_usual_names(rows[0], needed):
        return True
    place = 1 if needed == OWN_RATING and text.usual_width(rows) == 2 else 2
    return sum(len(fields) > place and _is_number(fields[place]) for fields in rows) > len(rows) / 2


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_table(
    file: Path,
    wanted: Mapping[str, str | None],
    needed: Sequence[str],
    separator: str | None,
    header: bool | None,
) -> pl.DataFrame:
    layout = sniff(file, separator=separator, header=header, wanted=wanted, needed=needed)
    found = find_parts(layout.columns, wanted, needed, file)
    if "rating" not in needed:
        found = {part: found[part] for part in needed}
    return _READERS[layout.kind](file, layout, found)


def _read_text(file: Path, layout: Layout, parts: Mapping[str, str]) -> pl.DataFrame:
    data = text.with_plain_ends(file.read_bytes())
    shape = text.Shape(str(layout.separator), layout.has_header, len(layout.columns))
    chosen = [pl.col(str(layout.columns.index(name))).alias(part) for part, name in parts.items()]
    quick = text.read_quickly(data, shape)
    if quick is not None:
        table, fault = _from_texts(quick.select(chosen))
        if fault is None:
            return _with_integer_ids(table)
    pieces = []
    for piece in text.read_carefully(data, shape, file):
        table, fault = _from_texts(piece.select(chosen))
        if fault is not None:
            line = int(piece[text.LINE][fault.row])
            content = text.line_of(text.decoded(data, file)[0], line)
            raise DataError(fault.problem, file=file, line=line, text=content, expected=fault.expected)
        pieces.append(table)
    if not pieces:
        raise DataError("there is a header but nothing below it", file=file, expected=_EXPECTED_RATINGS)
    return _with_integer_ids(pl.concat(pieces))


def _from_texts(cells: pl.DataFrame) -> tuple[pl.DataFrame, Fault | None]:
    """Numbers and seconds from their texts, ids as they are; and the first cell that is none."""
    columns, faults = [], []
    for texts in cells.iter_columns():
        part = texts.name
        if part == "rating":
            values = texts.str.strip_chars().cast(pl.Float64, strict=False)
            wrong = _not_finite(values)
        elif part == "time":
            values, wrong = seconds_of_texts(texts)
        else:
            values, wrong = texts, _empty(texts)
        columns.append(values.alias(part))
        faults.append(_first_fault(part, texts, wrong))
    found = [fault for fault in faults if fault is not None]
    return pl.DataFrame(columns), min(found, key=lambda fault: fault.row, default=None)


def _first_fault(part: str, cells: pl.Series, wrong: pl.Series) -> Fault | None:
    if not wrong.any():
        return None
    row = int(wrong.arg_max() or 0)
    cell = cells[row]
    name = part if part in ("rating", "time") else f"{part} id"
    is_missing = cell is None or not str(cell).strip()
    return Fault(row, f"the {name} is missing" if is_missing else f"{cell!r} is not a {name}", _EXPECTED_CELL[part])


def _not_finite(values: pl.Series) -> pl.Series:
    # Ratings are kept in single precision, where a larger number would become infinite.
    return ~(values.abs() <= float(np.finfo(np.float32).max)).fill_null(False) | values.is_nan().fill_null(False)


def _empty(texts: pl.Series) -> pl.Series:
    return texts.is_null() | (texts.str.strip_chars() == "").fill_null(False)


def _with_integer_ids(table: pl.DataFrame) -> pl.DataFrame:
    columns = []
    for part in set(PAIR) & set(table.columns):
        ids = table[part].str.strip_chars()
        are_integers = is_canonical_integer(ids.unique()).all()
        columns.append(ids.cast(pl.Int64) if are_integers else table[part])
    return table.with_columns(columns)


def _read_parquet(file: Path, layout: Layout, parts: Mapping[str, str]) -> pl.DataFrame:
    # Neither wildcards nor key=value folders in the path have a meaning here.
    stored = pl.read_parquet(file, columns=list(parts.values()), glob=False, hive_partitioning=False)
    columns = {part: stored[name] for part, name in parts.items()}
    if not stored.height:
        raise DataError("the table has no rows", file=file, expected=_EXPECTED_RATINGS)
    if "rating" in columns:
        if not columns["rating"].dtype.is_numeric():
            name, kind = parts["rating"], columns["rating"].dtype
            raise DataError(f"column {name!r} is of type {kind}", file=file, expected="numbers")
        columns["rating"] = columns["rating"].cast(pl.Float64)
    for part, cells in columns.items():
        if part == "rating":
            wrong = _not_finite(cells)
        elif part == "time":
            wrong = seconds_of_texts(cells)[1] if cells.dtype == pl.String else pl.Series([False])
        else:
            wrong = _empty(cells) if cells.dtype == pl.String else cells.is_null()
        fault = _first_fault(part, cells, wrong)
        if fault is not None:
            problem = f"row {fault.row + 1}, column {parts[part]!r}: {fault.problem}"
            raise DataError(problem, file=file, expected=fault.expected)
    return pl.DataFrame(columns)


_READERS = {"text": _read_text, "parquet": _read_parquet}


def _ends(file: Path) -> tuple[bytes, bytes]:
    """The first bytes of a file, up to the end of a line, and the last four."""
    with file.open("rb") as stream:
        head = stream.read(_HEAD)
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - len(_PARQUET_MAGIC), 0))
        tail = stream.read()
    if size > len(head) and b"\n" in head:
        head = head[: head.rindex(b"\n") + 1]
    return head, tail


@contextmanager
def _faults_named(file: Path) -> Iterator[None]:
    """Whatever goes wrong with a file becomes a `DataError` that names it."""
    try:
        yield
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(error.problem, file=file, line=error.line, text=error.text, expected=error.expected) from error
    except InvalidParameterError:
        raise
    except FileNotFoundError as error:
        raise DataError("there is no such file", file=file, expected="a file of ratings") from error
    except IsADirectoryError as error:
        raise DataError("this is a folder", file=file, expected="a file of ratings") from error
    except PermissionError as error:
        raise DataError("permission to read the file is denied", file=file, expected="a readable file") from error
    except (
        OSError,
        ValueError,
        ArithmeticError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"the file cannot be read ({reason[0]})", file=file, expected=_EXPECTED_RATINGS) from error
