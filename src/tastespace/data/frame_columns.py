"""The columns of a frame of any kind: polars, also lazy, pandas with its index, Arrow tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import DoubleArray
from tastespace.data.columns import Columns, find_columns
from tastespace.data.vocabulary import Ids, is_missing
from tastespace.errors import DataError


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
        None if found.rating is None else _numbers(cells[found.rating], found.rating),
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


def _numbers(cells: Any, name: str) -> DoubleArray:
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
