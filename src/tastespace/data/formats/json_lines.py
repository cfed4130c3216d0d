"""Tables of JSON, one object a line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from tastespace.data.tables import EXPECTED_CELL, Cells, Observed
from tastespace.data.vocabulary import id_series
from tastespace.errors import DataError

_EXPECTED_LINE = 'one JSON object a line, such as {"user": 1, "item": "a", "rating": 4}'
_QUICK = {
    "user": (pl.Int64, pl.String),
    "item": (pl.Int64, pl.String),
    "rating": (pl.Int64, pl.Float64),
    "time": (pl.Int64, pl.Float64, pl.String),
}


def keys_of(head: bytes, file: Path) -> tuple[str, ...]:
    """The keys of the first objects, in order of appearance."""
    keys: dict[str, None] = {}
    for _, entry in _entries(head, file):
        if isinstance(entry, DataError):
            # Reading the whole will come to that line and complain, unless not even one could be read.
            if keys:
                break
            raise entry
        keys |= dict.fromkeys(entry)
    return tuple(keys)


def read_json_lines(data: bytes, parts: Mapping[str, str], *, skip: bool, file: Path) -> Observed:
    """The records of a text of objects: as polars reads it, or line by line where only that can tell."""
    quick = _read_quickly(data, parts)
    if quick is not None:
        with suppress(DataError):  # Line by line it is found out where.
            return quick.observed(parts, skip=False)
    lines, rows, faults = _read_entries(data, parts, skip=skip, file=file)
    columns = [_ratings_column(part, [row.get(name) for row in rows]) for part, name in parts.items()]
    cells = Cells(tuple(parts.values()), columns, file, lines, data.decode(errors="backslashreplace"), faults)
    found = cells.observed(parts, skip=skip)  # What is before a line that is no object may have a fault of its own.
    if faults and not skip:
        raise faults[0]
    return found


def read_json_cells(data: bytes, *, skip: bool, file: Path) -> Cells:
    """All cells of a text of objects, with the types that they have there."""
    lines, rows, faults = _read_entries(data, {}, skip=skip, file=file)
    if faults and not skip:
        raise faults[0]
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    columns = [_column(name, [row.get(name) for row in rows]) for name in names]
    return Cells(names, columns, file, lines, data.decode(errors="backslashreplace"), faults)


def _read_quickly(data: bytes, parts: Mapping[str, str]) -> Cells | None:
    try:
        table = pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    if not set(parts.values()) <= set(table.columns) or not table.height:
        return None
    is_plain = all(table.schema[name] in _QUICK[part] for part, name in parts.items())
    return Cells(tuple(table.columns), table.get_columns()) if is_plain else None


def _read_entries(
    data: bytes, parts: Mapping[str, str], *, skip: bool, file: Path
) -> tuple[list[int], list[dict[str, Any]], list[DataError]]:
    """The objects, the line of each, and what is wrong with other lines, if these may be skipped."""
    lines: list[int] = []
    rows: list[dict[str, Any]] = []
    faults: list[DataError] = []
    for line, entry in _entries(data, file):
        fault = entry if isinstance(entry, DataError) else _id_fault(entry, parts, line, file)
        if isinstance(entry, dict) and fault is None:
            lines.append(line)
            rows.append(entry)
        elif fault is not None:
            faults.append(fault)
            if not skip:
                break
    if not rows:
        raise faults[0] if faults else DataError("there are no objects", file=file, expected=_EXPECTED_LINE)
    return lines, rows, faults


def _ratings_column(part: str, cells: list[Any]) -> pl.Series:
    if part in ("user", "item"):
        return id_series(cells, part)
    return pl.Series(part, [None if cell is None else str(cell) for cell in cells], dtype=pl.String)


def _column(name: str, cells: list[Any]) -> pl.Series:
    """A column of what polars can hold; texts where a column has values of several types."""
    try:
        return pl.Series(name, cells)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        texts = [cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in cells]
        return pl.Series(name, texts, dtype=pl.String)


def _entries(data: bytes, file: Path) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """The object of each line that is not blank, or what is wrong with the line."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:  # also where the text is not UTF-8
            yield number, _fault(f"this is not JSON ({error})", line, number, file)
            continue
        if isinstance(entry, dict):
            yield number, entry
        else:
            yield number, _fault(f"this is a JSON {type(entry).__name__}", line, number, file)


def _fault(problem: str, line: bytes, number: int, file: Path) -> DataError:
    content = line.decode(errors="backslashreplace")
    return DataError(problem, file=file, line=number, text=content, expected=_EXPECTED_LINE)


def _id_fault(entry: dict[str, Any], parts: Mapping[str, str], line: int, file: Path) -> DataError | None:
    for part in parts.keys() & {"user", "item"}:
        cell = entry.get(parts[part])
        is_integer = isinstance(cell, int) and not isinstance(cell, bool)
        if not is_integer and not (isinstance(cell, str) and cell.strip()):
            problem = f"the {part} id is missing" if cell in (None, "") else f"{cell!r} is not a {part} id"
            return DataError(problem, file=file, line=line, text=json.dumps(entry), expected=EXPECTED_CELL[part])
    return None
