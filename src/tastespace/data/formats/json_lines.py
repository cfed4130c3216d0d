"""Tables of JSON, one object per line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import polars as pl

from tastespace.data.tables import EXPECTED_CELL, Cells, Observed
from tastespace.data.vocabulary import id_series
from tastespace.errors import DataError

_EXPECTED_LINE = 'one JSON object per line, such as {"user": 1, "item": "a", "rating": 4}'
_IDS, _NUMBERS = (pl.Int64, pl.String), (pl.Int64, pl.Float64)
_QUICK = {"user": _IDS, "item": _IDS, "rating": _NUMBERS, "time": (*_NUMBERS, pl.String)}


def keys_of(head: bytes) -> tuple[str, ...]:
    """The keys of the first objects, in order of appearance."""
    keys: dict[str, None] = {}
    for _, entry in _entries(head, {}):
        if isinstance(entry, DataError):
            # Reading the whole file will report that line, unless no line could be read.
            if keys:
                break
            raise entry
        keys |= dict.fromkeys(entry)
    return tuple(keys)


def read_json_lines(data: bytes, parts: Mapping[str, str], *, skip: bool) -> Observed:
    """The records of a text of objects: read by polars, or line by line where polars fails."""
    quick = _read_quickly(data, parts)
    if quick is not None:
        with suppress(DataError):  # Reading line by line finds the place.
            return quick.observed(parts, skip=False)
    cells = _read_by_line(data, parts, skip=skip)
    found = cells.observed(parts, skip=skip)  # Lines before one that is no object may have a fault of their own.
    if cells.faults and not skip:
        raise cells.faults[0]
    return found


def read_json_cells(data: bytes, *, skip: bool) -> Cells:
    """All cells of a text of objects, with their JSON types."""
    cells = _read_by_line(data, {}, skip=skip)
    if cells.faults and not skip:
        raise cells.faults[0]
    return cells


def _read_quickly(data: bytes, parts: Mapping[str, str]) -> Cells | None:
    try:
        table = pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    if not set(parts.values()) <= set(table.columns) or not table.height:
        return None
    is_plain = all(table.schema[name] in _QUICK[part] for part, name in parts.items())
    return Cells.of(table) if is_plain else None


def _read_by_line(data: bytes, parts: Mapping[str, str], *, skip: bool) -> Cells:
    """The cells of the parts, or of all keys if none are named; up to the first fault unless these may be skipped."""
    lines: list[int] = []
    rows: list[dict[str, Any]] = []
    faults: list[DataError] = []
    for line, entry in _entries(data, parts):
        if isinstance(entry, dict):
            lines.append(line)
            rows.append(entry)
            continue
        faults.append(entry)
        if not skip:
            break
    if not rows:
        raise faults[0] if faults else DataError("there are no objects", expected=_EXPECTED_LINE)
    part_of = {name: part for part, name in parts.items()}
    names = tuple(part_of or dict.fromkeys(name for row in rows for name in row))
    columns = [_column(part_of.get(name), name, [row.get(name) for row in rows]) for name in names]
    return Cells(names, columns, lines, data.decode(errors="backslashreplace"), faults)


def _column(part: str | None, name: str, cells: list[Any]) -> pl.Series:
    """Ids, or texts of ratings and times; other columns as polars can hold them, as text where types are mixed."""
    if part in ("user", "item"):
        return id_series(cells, part)
    if part is not None:
        return pl.Series(part, [None if cell is None else str(cell) for cell in cells], dtype=pl.String)
    try:
        return pl.Series(name, cells)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        texts = [cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in cells]
        return pl.Series(name, texts, dtype=pl.String)


def _entries(data: bytes, parts: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """The object of each line that is not blank, or what is wrong with the line or with an id in it."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            problem = "" if isinstance(entry, dict) else f"this is a JSON {type(entry).__name__}"
        except ValueError as error:  # also where the text is not UTF-8
            problem = f"this is not JSON ({error})"
        if problem:
            text = line.decode(errors="backslashreplace")
            yield number, DataError(problem, line=number, text=text, expected=_EXPECTED_LINE)
        else:
            yield number, _id_fault(entry, parts, number) or entry


def _id_fault(entry: dict[str, Any], parts: Mapping[str, str], line: int) -> DataError | None:
    for part in parts.keys() & {"user", "item"}:
        cell = entry.get(parts[part])
        is_integer = isinstance(cell, int) and not isinstance(cell, bool)
        if not is_integer and not (isinstance(cell, str) and cell.strip()):
            problem = f"the {part} id is missing" if cell in (None, "") else f"{cell!r} is not a {part} id"
            return DataError(problem, line=line, text=json.dumps(entry), expected=EXPECTED_CELL[part])
    return None
