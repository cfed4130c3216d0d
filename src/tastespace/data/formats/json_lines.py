"""Records of JSON, one object a line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tastespace.data.tables import EXPECTED_CELL, Observed, typed
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
        found = typed({name: quick[name] for name in quick.columns})
        if found.fault is None:
            return found.observed()
    return _read_line_by_line(data, parts, skip, file)


def _read_line_by_line(data: bytes, parts: Mapping[str, str], skip: bool, file: Path) -> Observed:
    columns: dict[str, list[Any]] = {part: [] for part in parts}
    lines: list[int] = []
    faults: list[DataError] = []
    for line, entry in _entries(data, file):
        fault = entry if isinstance(entry, DataError) else _id_fault(entry, parts, line, file)
        if fault is not None:
            faults.append(fault)
            if skip:
                continue
            break
        lines.append(line)
        for part, name in parts.items():
            columns[part].append(entry.get(name))  # type: ignore[union-attr]
    if lines:
        found = typed({part: _series(part, cells) for part, cells in columns.items()})
        if found.fault is not None:
            line = lines[found.fault.row]
            content = data.split(b"\n")[line - 1].decode(errors="backslashreplace")
            fault = DataError(found.fault.problem, file=file, line=line, text=content, expected=found.fault.expected)
            faults = sorted([fault, *faults], key=lambda fault: fault.line or 0)
    if faults and not skip:
        raise faults[0]
    if not lines:
        raise faults[0] if faults else DataError("there are no objects", file=file, expected=_EXPECTED_LINE)
    n_rejected = len(faults) - (found.fault is not None)
    return found.observed(faults[0] if faults else None, n_rejected)


def _series(part: str, cells: list[Any]) -> pl.Series:
    if part in ("user", "item"):
        return id_series(cells, part)
    return pl.Series(part, [None if cell is None else str(cell) for cell in cells], dtype=pl.String)


def _read_quickly(data: bytes, parts: Mapping[str, str]) -> pl.DataFrame | None:
    try:
        table = pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    if not set(parts.values()) <= set(table.columns) or not table.height:
        return None
    table = table.select(pl.col(name).alias(part) for part, name in parts.items())
    return table if all(table.schema[part] in _QUICK[part] for part in table.columns) else None


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
