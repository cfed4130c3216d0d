"""Records of a table whose columns have types: Parquet, JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import FIRST_INFINITE, DoubleArray, FloatArray, IntArray, TimeArray, contiguous
from tastespace.data.formats.compression import named_damage
from tastespace.data.times import EXPECTED_TIME, as_times, seconds_of
from tastespace.data.vocabulary import Ids, Vocabulary, id_series, is_blank, is_missing
from tastespace.errors import DataError


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two sides of ratings: the ids, and which of them each record names."""

    vocabulary: Vocabulary
    rows: IntArray

    def ids(self) -> pl.Series:
        """The id of each record."""
        return self.vocabulary.at(self.rows)

    @classmethod
    def of(cls, ids: pl.Series, name: str) -> Side:
        return cls(*Vocabulary.of(ids, name))


@dataclass(frozen=True, eq=False)
class Observed:
    """The records of a file; a part is None where the file has no column for it."""

    users: Side | None
    items: Side
    values: FloatArray | None
    times: TimeArray | None
    rejected: int = 0
    first_fault: DataError | None = None  # why the first of the rejected was


EXPECTED_CELL = {
    "user": "an id",
    "item": "an id",
    "rating": "a finite number",
    "time": f"{EXPECTED_TIME}, or nothing",
}


@dataclass(frozen=True)
class Fault:
    """The first cell of a table that cannot be what it should be."""

    row: int
    part: str
    problem: str

    @property
    def expected(self) -> str:
        return EXPECTED_CELL[self.part]


@dataclass(frozen=True, eq=False)
class Typed:
    """Numbers, seconds and ids; which rows are wrong, and the first thing that is."""

    table: pl.DataFrame
    is_wrong: pl.Series
    fault: Fault | None

    def observed(self, first: DataError | None = None, rejected: int = 0) -> Observed:
        """The good rows as records; `first` says why a row is not among them."""
        table, n_wrong = self.table, int(self.is_wrong.sum())
        if n_wrong:
            table = table.filter(~self.is_wrong)
        if not table.height:
            raise first or DataError("the table has no rows", expected="ratings")
        columns = {name: table[name] for name in table.columns}
        return Observed(
            users=Side.of(columns["user"], "user") if "user" in columns else None,
            items=Side.of(columns["item"], "item"),
            values=contiguous(columns["rating"].to_numpy(), np.float32) if "rating" in columns else None,
            times=as_times(columns["time"]) if "time" in columns else None,
            rejected=n_wrong + rejected,
            first_fault=first,
        )


def typed(cells: Mapping[str, pl.Series]) -> Typed:
    """The cells of each part as what they should be."""
    columns, wrong, faults = [], [], []
    for part, series in cells.items():
        if part == "rating":
            values, bad = _numbers(series)
        elif part == "time":
            values, bad = seconds_of(series)
        else:
            values, bad = _ids(series, part)
        columns.append(values.alias(part))
        wrong.append(bad)
        if bad.any():
            faults.append(_fault(part, series, int(bad.arg_max() or 0)))
    is_wrong = pl.DataFrame([bad.alias(str(k)) for k, bad in enumerate(wrong)]).max_horizontal()
    return Typed(pl.DataFrame(columns), is_wrong, min(faults, key=lambda fault: fault.row, default=None))


def read_parquet(file: Path, parts: Mapping[str, str], *, skip: bool) -> Observed:
    """The records of a Parquet file."""
    # Neither wildcards nor key=value folders in the path have a meaning here.
    with named_damage(file):
        stored = pl.read_parquet(file, columns=list(parts.values()), glob=False, hive_partitioning=False)
    if not stored.height:
        raise DataError("the table has no rows", file=file, expected="ratings")
    found = typed({part: stored[name] for part, name in parts.items()})
    error = None
    if found.fault is not None:
        place = f"row {found.fault.row + 1}, column {parts[found.fault.part]!r}"
        error = DataError(f"{place}: {found.fault.problem}", file=file, expected=found.fault.expected)
        if not skip:
            raise error
    return found.observed(error)


def _numbers(series: pl.Series) -> tuple[pl.Series, pl.Series]:
    if series.dtype == pl.String:
        values = series.str.strip_chars().cast(pl.Float64, strict=False)
    elif series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null):
        values = series.cast(pl.Float64)
    else:
        raise DataError(f"ratings of type {series.dtype}", expected="numbers")
    good = (values.abs() < FIRST_INFINITE).fill_null(False) & ~values.is_nan().fill_null(False)
    return values, ~good


def _ids(series: pl.Series, part: str) -> tuple[pl.Series, pl.Series]:
    if series.dtype == pl.String:
        return series, series.is_null() | is_blank(series).fill_null(False)
    if series.null_count() < len(series):
        id_series(series.drop_nulls(), part)  # says what is wrong with the type
    return series, series.is_null()


def _fault(part: str, cells: pl.Series, row: int) -> Fault:
    cell = cells[row]
    name = part if part in ("rating", "time") else f"{part} id"
    is_missing = cell is None or not str(cell).strip()
    return Fault(row, part, f"the {name} is missing" if is_missing else f"{cell!r} is not a {name}")


USUAL_NAMES = {
    "user": (
        "user",
        "userid",
        "uid",
        "users",
        "customer",
        "customerid",
        "reviewer",
        "reviewerid",
        "member",
        "person",
    ),
    "item": (
        "item",
        "itemid",
        "iid",
        "items",
        "movie",
        "movieid",
        "film",
        "filmid",
        "book",
        "bookid",
        "isbn",
        "product",
    )
    + (
        "productid",
        "asin",
        "artist",
        "artistid",
        "song",
        "songid",
        "track",
        "trackid",
        "joke",
        "jokeid",
        "article",
    )
    + ("articleid", "business", "businessid", "anime", "animeid"),
    "rating": ("rating", "ratings", "score", "stars", "star", "value", "overall", "bookrating")
    + ("plays", "playcount", "listens", "clicks", "views", "purchases", "quantity", "count", "counts", "weight"),
    "time": ("time", "timestamp", "ts", "date", "datetime", "unixreviewtime", "ratedat", "createdat"),
}


@dataclass(frozen=True)
class Columns:
    """The name of the column that holds each part of a rating."""

    user: str
    item: str
    rating: str | None  # None where each line only says that something was chosen
    time: str | None = None


def find_columns(names: Sequence[str], wanted: Mapping[str, str | None], *, are_choices: bool = False) -> Columns:
    """The columns named in `wanted`, the others by their usual names."""
    found = find_rating_parts(names, wanted, ("user", "item", "rating"), are_choices=are_choices)
    return Columns(found["user"], found["item"], found.get("rating"), found.get("time"))


def find_rating_parts(
    names: Sequence[str],
    wanted: Mapping[str, str | None],
    needed: Sequence[str],
    file: Path | str | None = None,
    *,
    are_choices: bool = False,
) -> dict[str, str]:
    """The column of each part; there may be none of ratings, where nothing but what was chosen is told.

    A column that is none of the parts might be the ratings under another name: it is an error unless the caller knows
    that lines are choices.
    """
    found = find_parts(names, wanted, (), file)
    spare = [name for name in names if name not in found.values()]
    is_complete = all(part in found for part in needed if part != "rating")
    if "rating" in found or not is_complete or (spare and not are_choices):
        _require(found, names, needed, file)
    return found


def find_parts(
    names: Sequence[str],
    wanted: Mapping[str, str | None],
    needed: Sequence[str],
    file: Path | str | None = None,
) -> dict[str, str]:
    """The column of each part that was found; those `needed` must be."""
    found: dict[str, str] = {}
    for part, usual in USUAL_NAMES.items():
        name = wanted.get(part)
        if name is None:
            name = usual_column(names, usual)
        elif name not in names:
            raise DataError(f"there is no column {name!r}", file=file, expected=f"one of {', '.join(names)}")
        if name is not None:
            if list(names).count(name) > 1:
                raise DataError(f"there is more than one column {name!r}", file=file, expected="different names")
            found[part] = name
    for part, name in found.items():
        twin = next((other for other in found if other != part and found[other] == name), None)
        if twin is not None:
            raise DataError(f"column {name!r} is to be both {part} and {twin}", file=file, expected="one for each")
    _require(found, names, needed, file)
    return found


def _require(found: Mapping[str, str], names: Sequence[str], needed: Sequence[str], file: Path | str | None) -> None:
    missing = [part for part in needed if part not in found]
    if not missing:
        return
    expected = "a header such as user,item,rating; or say which column it is"
    if missing == ["rating"]:
        expected += (
            " (--rating-column, in Python rating=), or that the kind is counts or one-class if each line is a choice "
            "(--kind, in Python kind=)"
        )
    raise DataError(
        f"no column for the {' and the '.join(missing)} among {', '.join(names)}", file=file, expected=expected
    )


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that is there, whatever its case and punctuation."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
    return next((plain[name] for name in usual if name in plain), None)


@dataclass(frozen=True, eq=False)
class Parts:
    """What ratings are made of, one entry a row of the frame."""

    user_ids: Ids
    item_ids: Ids
    values: DoubleArray | None  # None where there are no values, only choices
    times: Any | None


def parts_of(frame: Any, wanted: Mapping[str, str | None], *, are_choices: bool = False) -> Parts:
    """The columns named in `wanted`, the others by their usual names; choices need no values."""
    wanted = {part: None if name is None else str(name) for part, name in wanted.items()}
    if is_pandas(frame):
        columns = _columns_of_pandas(frame)
        found = find_columns([name for name, _ in columns], wanted, are_choices=are_choices)
        cells: Any = dict(columns)
    else:
        found, cells = _columns_of_polars(frame, wanted, are_choices)
    return Parts(
        cells[found.user],
        cells[found.item],
        None if found.rating is None else _frame_numbers(cells[found.rating], found.rating),
        None if found.time is None else cells[found.time],
    )


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


def _columns_of_pandas(frame: Any) -> list[tuple[str, Any]]:
    """Columns by the text of their labels; an index with a name counts as one, unless a column is called so."""
    columns = [(str(label), frame.iloc[:, place]) for place, label in enumerate(frame.columns)]
    names = {name for name, _ in columns}
    levels = [(str(name), place) for place, name in enumerate(frame.index.names) if name is not None]
    return columns + [(name, frame.index.get_level_values(place)) for name, place in levels if name not in names]


def _columns_of_polars(frame: Any, wanted: Mapping[str, str | None], are_choices: bool) -> tuple[Columns, pl.DataFrame]:
    if isinstance(frame, pl.LazyFrame):
        found = find_columns(frame.collect_schema().names(), wanted, are_choices=are_choices)
        needed = dict.fromkeys(name for name in (found.user, found.item, found.rating, found.time) if name is not None)
        return found, frame.select(list(needed)).collect()
    if not isinstance(frame, pl.DataFrame):
        if not hasattr(frame, "__arrow_c_stream__") or isinstance(frame, pl.Series) or hasattr(frame, "index"):
            raise DataError(
                f"ratings from a {type(frame).__name__}",
                expected="a polars or pandas frame, or an Arrow table; Ratings.from_arrays takes single columns",
            )
        frame = pl.DataFrame(frame)
    return find_columns(frame.columns, wanted, are_choices=are_choices), frame


def _frame_numbers(cells: Any, name: str) -> DoubleArray:
    """Ratings as numbers, yes and no being 1 and 0."""
    if not isinstance(cells, pl.Series) and np.asarray(cells).dtype == object:
        cells = [int(entry) if isinstance(entry, bool | np.bool_) else entry for entry in np.asarray(cells).tolist()]
        cells = np.array(cells, dtype=object)
    series = series_of(cells)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object) or series.dtype.is_temporal():
        raise DataError(f"column {name!r}: ratings of type {series.dtype}", expected="numbers")
    plain = series.str.strip_chars() if series.dtype == pl.String else series
    numbers = plain.cast(pl.Float64, strict=False)
    wrong = (numbers.is_null() | numbers.is_nan()).to_numpy()
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"column {name!r}, row {where}: not a rating", text=str(series[where]), expected="a finite number"
        )
    return numbers.to_numpy()
