"""Records of a table whose columns have types: Parquet, JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tastespace.arrays import FIRST_INFINITE, contiguous
from tastespace.data.damage import named_damage
from tastespace.data.observed import Observed, Side
from tastespace.data.times import EXPECTED_TIME, as_times, seconds_of
from tastespace.data.vocabulary import id_series, is_blank
from tastespace.errors import DataError

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
