"""Records of delimited text, read by one native pass over the bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tastespace import _native, threads
from tastespace.data.formats import layout
from tastespace.data.tables import EXPECTED_CELL, Observed, Side
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError


def read_delimited(
    data: bytes,
    columns: Sequence[str],
    parts: Mapping[str, str],
    *,
    separator: str,
    has_header: bool,
    skip: bool,
    file: Path,
) -> Observed:
    """The records of a text; what cannot be read is an error that names the line, or is set aside and counted."""
    data = layout.with_plain_ends(data)
    places = {part: columns.index(name) for part, name in parts.items()}
    records = _native.read_records(
        np.frombuffer(data, np.uint8),
        separator,
        has_header=has_header,
        n_columns=len(columns),
        skips_faults=skip,
        threads=threads.resolve(None),
        **places,
    )
    fault = _fault(records, data, separator, len(columns), file) if records.fault_kind else None
    if fault is not None and not skip:
        raise fault
    if not records.n:
        raise fault or DataError("there is a header but nothing below it", file=file, expected="lines of ratings")
    return Observed(
        users=_side(records, 0, "user") if "user" in parts else None,
        items=_side(records, 1, "item"),
        values=records.values() if "rating" in parts else None,
        times=records.times().view("datetime64[s]") if "time" in parts else None,
        rejected=records.n_rejected,
        first_fault=fault,
    )


def _side(records: _native.Records, side: int, name: str) -> Side:
    integers = records.integers(side)
    ids = pl.Series(name, records.texts(side) if integers is None else integers)
    return Side(Vocabulary(ids), records.rows(side))


def _fault(records: _native.Records, data: bytes, separator: str, n_columns: int, file: Path) -> DataError:
    start = records.fault_offset
    end = data.find(b"\n", start)
    content = data[start : end if end >= 0 else None].removesuffix(b"\r").decode(errors="backslashreplace")
    problem, expected = _complaint(records, separator, n_columns)
    line = data.count(b"\n", 0, start) + 1
    return DataError(problem, file=file, line=line, text=content, expected=expected)


def _bad_byte(cell: bytes) -> int:
    try:
        cell.decode()
    except UnicodeDecodeError as error:
        return cell[error.start]
    raise AssertionError("the cell is UTF-8")


def _complaint(records: _native.Records, separator: str, n_columns: int) -> tuple[str, str]:
    kind, part, cell = records.fault_kind, records.fault_part, records.fault_cell
    if kind == "ragged":
        n = records.fault_n_fields
        by = layout.SEPARATORS.get(separator, repr(separator))
        return "1 field" if n == 1 else f"{n} fields", f"{n_columns}, separated by {by}"
    if kind == "quote":
        return layout.BAD_QUOTE, layout.EXPECTED_QUOTE
    name = part if part in ("rating", "time") else f"{part} id"
    if kind == "missing":
        return f"the {name} is missing", EXPECTED_CELL[part]
    if kind == "too long":
        return f"the {name} is longer than 65,535 bytes", "a shorter one; is a quotation mark missing?"
    if kind == "not unicode":
        return f"byte 0x{_bad_byte(cell):02x} is not UTF-8", "text encoded as UTF-8"
    shown = cell.decode(errors="backslashreplace")
    expected = EXPECTED_CELL[part]
    if part == "rating" and re.fullmatch(r"[-+]?\d+,\d+", shown):
        expected += " with a decimal point instead of the comma"
    return f"{shown!r} is not a {name}", expected
