"""Tables: named columns whose cells become ids, numbers and times, with faults reported by line.

Files of ratings, items, users, histories and lists of items, and frames of polars and pandas, all pass through here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import FIRST_INFINITE, FloatArray, IntArray, TimeArray, contiguous
from tastespace.data.vocabulary import Vocabulary, id_series, is_blank, is_missing
from tastespace.errors import DataError, InvalidParameterError, warn

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999; milliseconds of our day lie beyond
EXPECTED_TIME = "seconds (not milliseconds) since 1970, or a date such as 2024-05-31 or 2024-05-31T12:00:00"
_ZONED, _LOCAL = "%Y-%m-%d %H:%M:%S%.f%#z", ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")


def seconds_of(series: pl.Series) -> tuple[pl.Series, pl.Series]:
    """A column of any type as seconds (null where missing), and which entries are not times.

    A text is a number of seconds or an ISO date; without a zone it is taken as UTC.
    """
    known = series.is_not_null()
    if series.dtype in (pl.Date, pl.Datetime):
        seconds = series.cast(pl.Datetime("ms")).dt.epoch("s")
    elif series.dtype.is_numeric():
        numbers = series.cast(pl.Float64).fill_nan(None)
        known = numbers.is_not_null()
        seconds = numbers.set(~numbers.is_between(EARLIEST, LATEST), None).cast(pl.Int64)
    elif series.dtype in (pl.String, pl.Null):
        plain = series.cast(pl.String).str.strip_chars().fill_null("")
        known = plain != ""
        seconds = plain.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
        if (known & seconds.is_null()).any():
            seconds = pl.select(pl.coalesce(seconds, _seconds_of_dates(plain))).to_series()
    else:
        raise DataError(f"times of type {series.dtype}", expected=EXPECTED_TIME)
    good = seconds.is_between(EARLIEST, LATEST).fill_null(False)
    return seconds.set(~good, None), known & ~good


def moment_of(name: str, given: Any) -> np.datetime64:
    """The moment given by a parameter: a date, a text such as 2024-05-31, or seconds since 1970."""
    if isinstance(given, datetime) and given.tzinfo is not None:
        given = given.astimezone(UTC).replace(tzinfo=None)  # numpy knows no zones
    try:
        moment = np.datetime64(given, "s")
    except (TypeError, ValueError):
        moment = np.datetime64("NaT")
    if np.isnat(moment):
        raise InvalidParameterError(f"{name} is {given!r}; expected a date such as 2024-05-31")
    return moment


def as_times(seconds: pl.Series) -> TimeArray:
    """Seconds as times; null becomes NaT."""
    stamps: TimeArray = seconds.fill_null(0).to_numpy().astype("datetime64[s]")
    stamps[seconds.is_null().to_numpy()] = np.datetime64("NaT")
    return stamps


def _seconds_of_dates(plain: pl.Series) -> pl.Series:
    spaced = plain.str.replace("[Tt]", " ").str.replace("[Zz]$", "+00:00")
    zoned = spaced.str.to_datetime(_ZONED, strict=False, time_unit="ms").dt.convert_time_zone("UTC")
    local = [spaced.str.to_datetime(form, strict=False, time_unit="ms") for form in _LOCAL[:2]]
    days = spaced.str.to_date(_LOCAL[2], strict=False).cast(pl.Datetime("ms"))
    moments = pl.select(pl.coalesce(zoned.dt.replace_time_zone(None), *local, days)).to_series()
    return moments.dt.epoch("s")


# Usual names of columns, ignoring case and punctuation; the first one present is used.
_NAMES = {
    "user": "user userid uid users customer customerid reviewer reviewerid member memberid person personid player "
    "playerid reader readerid listener listenerid visitor visitorid username",
    "item": "item itemid iid items movie movieid film filmid book bookid isbn product productid asin artist artistid "
    "song songid track trackid joke jokeid article articleid business businessid anime animeid "
    "game gameid app appid recipe recipeid course courseid post postid video videoid show showid",
    "rating": "rating ratings score stars star value overall bookrating plays playcount listens clicks views purchases "
    "quantity count counts weight hours hoursplayed playtime minutes seconds duration watchtime feedback interactions "
    "interaction",
    "time": "time timestamp ts date datetime unixreviewtime ratedat createdat accessed accessedat lastaccessed "
    "viewedat playedat boughtat purchasedat reviewtime",
}
USUAL_NAMES = {part: tuple(names.split()) for part, names in _NAMES.items()}
EXPECTED_CELL = {"user": "an id", "item": "an id", "rating": "a finite number", "time": f"{EXPECTED_TIME}, or nothing"}


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two sides of ratings: the ids, and the id of each record."""

    vocabulary: Vocabulary
    rows: IntArray

    def ids(self) -> pl.Series:
        """The id of each record."""
        return self.vocabulary.at(self.rows)


@dataclass(frozen=True, eq=False)
class Observed:
    """The records of a table of ratings; a part is None where there is no column for it."""

    users: Side | None
    items: Side
    values: FloatArray | None
    times: TimeArray | None
    rejected: int = 0
    first_fault: DataError | None = None  # why the first rejected record was rejected


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a table by column, as written, and the lines that could not be read.

    Faults do not name the file: the reader adds it.
    """

    names: tuple[str, ...]  # may repeat, and be empty
    columns: list[pl.Series]
    lines: Sequence[int] | None = None  # of a text: where each row is
    content: str = ""  # the text
    faults: list[DataError] = field(default_factory=list)  # of lines that were left out

    @classmethod
    def of(cls, table: pl.DataFrame) -> Cells:
        """The cells of a frame."""
        return cls(tuple(table.columns), table.get_columns())

    def column(self, name: str) -> pl.Series:
        """The first column of this name."""
        return self.columns[self.names.index(name)]

    def fault(self, row: int, column: str, problem: str, expected: str) -> DataError:
        """The error for a cell."""
        if self.lines is None:
            return DataError(f"row {row + 1}, column {column!r}: {problem}", expected=expected)
        line = self.lines[row]
        text = self.content.split("\n")[line - 1].rstrip("\r")
        return DataError(problem, line=line, text=text, expected=expected)

    def set_aside(self, wrong: pl.Series, fault: DataError, *, skip: bool) -> Cells:
        """Remove invalid rows, the first of which has this fault; an error unless they may be skipped."""
        if not skip:
            raise fault
        lines = None if self.lines is None else np.asarray(self.lines)[~wrong.to_numpy()].tolist()
        faults = sorted(self.faults + [fault] * int(wrong.sum()), key=lambda fault: fault.line or 0)
        if wrong.all():
            raise faults[0]
        return replace(self, columns=[column.filter(~wrong) for column in self.columns], lines=lines, faults=faults)

    def observed(self, parts: Mapping[str, str], *, skip: bool) -> Observed:
        """The rows as records of ratings; `parts` says which column is what."""
        if not self.columns or not len(self.columns[0]):
            raise DataError("the table has no rows", expected="ratings")
        read = {part: typed(part, self.column(name)) for part, name in parts.items()}
        found = {part: cells for part, (cells, _) in read.items()}
        first_wrong = {part: int(bad.arg_max() or 0) for part, (_, bad) in read.items() if bad.any()}
        if first_wrong:
            part = min(first_wrong, key=first_wrong.__getitem__)
            row, name = first_wrong[part], parts[part]
            fault = self.fault(row, name, problem_of(part, self.column(name)[row]), EXPECTED_CELL[part])
            wrong = pl.select(pl.any_horizontal([bad for _, bad in read.values()])).to_series()
            return self.set_aside(wrong, fault, skip=skip).observed(parts, skip=skip)
        return Observed(
            users=Side(*Vocabulary.of(found["user"], "user")) if "user" in found else None,
            items=Side(*Vocabulary.of(found["item"], "item")),
            values=contiguous(found["rating"].to_numpy(), np.float32) if "rating" in found else None,
            times=as_times(found["time"]) if "time" in found else None,
            rejected=len(self.faults),
            first_fault=self.faults[0] if self.faults else None,
        )


def warn_of_rejected(file: Path, n: int, n_read: int, first: DataError | None) -> None:
    """Warn how many lines were left out, if any."""
    if first is not None:
        what = "1 line was" if n == 1 else f"{n:,} lines were"
        warn(f"{file}: {what} set aside, of {n + n_read:,}; the first: {first.in_file(file)}")


def typed(part: str, cells: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Cells as ids, numbers or seconds, and which of them are invalid."""
    if part == "time":
        return seconds_of(cells)
    if part == "rating":
        return _numbers(cells)
    if cells.dtype == pl.String:
        return cells, cells.is_null() | is_blank(cells).fill_null(False)
    if cells.null_count() < len(cells):
        id_series(cells.drop_nulls(), part)  # says what is wrong with the type
    return cells, cells.is_null()


def _numbers(cells: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Ratings as numbers, yes and no being 1 and 0."""
    if cells.dtype in (pl.Categorical, pl.Enum):
        cells = cells.cast(pl.String)
    if cells.dtype == pl.String:
        values = cells.str.strip_chars().cast(pl.Float64, strict=False)
    elif cells.dtype.is_numeric() or cells.dtype in (pl.Boolean, pl.Null):
        values = cells.cast(pl.Float64)
    else:
        raise DataError(f"ratings of type {cells.dtype}", expected="numbers")
    good = (values.abs() < FIRST_INFINITE).fill_null(False) & ~values.is_nan().fill_null(False)
    return values, ~good


def problem_of(part: str, cell: Any) -> str:
    """The description of a fault in a cell."""
    name = part if part in ("rating", "time") else f"{part} id"
    is_missing = cell is None or not str(cell).strip()
    return f"the {name} is missing" if is_missing else f"{cell!r} is not a {name}"


def find_rating_parts(
    names: Sequence[str], wanted: Mapping[str, str | None], needed: Sequence[str], *, are_choices: bool = False
) -> dict[str, str]:
    """The column of each part; for implicit feedback there may be no column of ratings.

    Another column might be the ratings under an unusual name: it is an error unless the caller says that lines are
    choices.
    """
    found = find_parts(names, wanted)
    spare = [name for name in names if name not in found.values()]
    missing = [part for part in needed if part not in found and not (are_choices and part == "rating")]
    if not missing or (missing == ["rating"] and not spare):
        return found
    expected = f"a header such as user,item{'' if are_choices else ',rating'}; or say which column it is"
    if missing == ["rating"]:
        expected += (
            " (--rating-column, in Python rating=), or that the kind is counts or one-class if each line is a choice "
            "(--kind, in Python kind=)"
        )
    raise DataError(f"no column for the {' and the '.join(missing)} among {', '.join(names)}", expected=expected)


def find_parts(names: Sequence[str], wanted: Mapping[str, str | None]) -> dict[str, str]:
    """The column of each part that was found."""
    found: dict[str, str] = {}
    for part, usual in USUAL_NAMES.items():
        name = wanted.get(part)
        name = usual_column(names, usual) if name is None else named_column(names, name)
        if name is not None:
            if list(names).count(name) > 1:
                raise DataError(f"there is more than one column {name!r}", expected="different names")
            found[part] = name
    for part, twin in combinations(found, 2):
        if found[part] == found[twin]:
            raise DataError(f"column {found[part]!r} is to be both {part} and {twin}", expected="one for each")
    return found


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that is present, ignoring case and punctuation; ids are an id."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
    plain |= {name.removesuffix("s"): plain[name] for name in plain if name.endswith("ids")}
    return next((plain[name] for name in usual if name in plain), None)


def named_column(names: Sequence[str], asked: str) -> str:
    """The column that the caller has named, in any case if there is only one such."""
    alike = [name for name in dict.fromkeys(names) if name.strip().casefold() == asked.strip().casefold()]
    if asked in names or len(alike) != 1:
        alike = [name for name in names if name == asked]
    if not alike:
        raise DataError(f"there is no column {asked!r}", expected=f"one of {', '.join(filter(None, names))}")
    return alike[0]


def frame_parts(frame: Any, wanted: Mapping[str, str | None], *, are_choices: bool = False) -> dict[str, Any]:
    """The columns of a frame that are parts of ratings, by part: those named in `wanted`, the others by usual names."""
    wanted = {part: None if name is None else str(name) for part, name in wanted.items()}
    columns = frame_columns(frame)
    names = [name for name, _ in columns]
    found = find_rating_parts(names, wanted, ("user", "item", "rating"), are_choices=are_choices)
    if isinstance(frame, pl.LazyFrame):
        columns = frame_columns(frame.select(found.values()).collect())
    parts = {part: dict(columns)[name] for part, name in found.items()}
    if "rating" in parts:
        parts["rating"] = _frame_ratings(parts["rating"], found["rating"])
    return parts


def _frame_ratings(column: Any, name: str) -> pl.Series:
    if not isinstance(column, pl.Series) and np.asarray(column).dtype == object:
        column = [int(entry) if isinstance(entry, bool | np.bool_) else entry for entry in np.asarray(column).tolist()]
        column = np.array(column, dtype=object)
    cells = series_of(column)
    try:
        numbers, _ = _numbers(cells)
    except DataError as error:
        raise DataError(f"column {name!r}: {error.problem}", expected=error.expected) from error
    wrong = numbers.is_null() | numbers.is_nan()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise DataError(f"column {name!r}, row {row}: not a rating", text=str(cells[row]), expected="a finite number")
    return numbers


def is_pandas(frame: Any) -> bool:
    """Whether this is a pandas frame, found out without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def series_of(values: Any) -> pl.Series:
    """A column of any origin as a polars series; mixed Python objects become texts, missing ones null."""
    if isinstance(values, pl.Series):
        return values
    if getattr(getattr(values, "dtype", None), "kind", None) == "M":
        return pl.Series(np.asarray(values, dtype="datetime64[ms]"))  # pandas turns zones into UTC here
    array = np.asarray(values)
    if array.dtype.kind in "OUST":
        return pl.Series([None if is_missing(entry) else str(entry) for entry in array.tolist()], dtype=pl.String)
    return pl.Series(array)


def frame_columns(frame: Any) -> list[tuple[str, Any]]:
    """Columns of a frame by name; of pandas by the text of their labels, and an index with a name counts as one."""
    if is_pandas(frame):
        columns = [(str(label), frame.iloc[:, place]) for place, label in enumerate(frame.columns)]
        levels = [(str(name), place) for place, name in enumerate(frame.index.names) if name is not None]
        others = [(name, frame.index.get_level_values(place)) for name, place in levels if name not in dict(columns)]
        return columns + others
    if isinstance(frame, pl.LazyFrame):
        return [(name, None) for name in frame.collect_schema().names()]
    if not isinstance(frame, pl.DataFrame):
        if not hasattr(frame, "__arrow_c_stream__") or isinstance(frame, pl.Series) or hasattr(frame, "index"):
            expected = "a polars or pandas frame, or an Arrow table; Ratings.from_arrays takes single columns"
            raise DataError(f"ratings from a {type(frame).__name__}", expected=expected)
        frame = pl.DataFrame(frame)
    return [(column.name, column) for column in frame]
