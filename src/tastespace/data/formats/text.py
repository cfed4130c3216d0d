"""Delimited text: lines, fields and separators, and one native pass over the bytes of ratings."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import numpy as np
import polars as pl

from tastespace import _native, threads
from tastespace.data.tables import EXPECTED_CELL, Cells, Observed, Side
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError

SEPARATORS = {"\t": "tabs", "::": "::", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SAMPLED_RECORDS = 50
_LONGEST_FIELD = 2**31 - 1

Rows = list[list[str]]


def with_plain_ends(data: bytes) -> bytes:
    """The same text without byte order mark, its lines ended by line feeds; line numbers stay."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    if b"\r" not in data:
        return data
    if b"\n" not in data:
        return data.replace(b"\r", b"\n")
    # Line ends inside a quoted field are part of the text.
    return data if b'"' in data else data.replace(b"\r\n", b"\n")


def records(text: str, separator: str, *, quoted: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The fields of each record that is not blank, with the line where it starts."""
    if len(separator) > 1 or not quoted or '"' not in text:
        for line, content in enumerate(io.StringIO(text, newline="\n"), start=1):
            fields = content.removesuffix("\n").split(separator)
            if not _is_blank(fields, separator):
                yield line, fields
        return
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        limit = csv.field_size_limit(_LONGEST_FIELD)
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _fault(*_BAD_QUOTE, text, line) from error
        finally:
            csv.field_size_limit(limit)  # which is the whole process's
        if not _is_blank(fields, separator):
            yield line, fields


def _is_blank(fields: list[str], separator: str) -> bool:
    return (len(fields) <= 1 or separator == " ") and not any(field.strip() for field in fields)


def sample(text: str, separator: str) -> Rows:
    """The first records, as far as this separator can make records of the text."""
    rows: Rows = []
    with suppress(DataError):  # The full read will report that line; a wrong separator must not raise here.
        for _, fields in islice(records(text, separator), _SAMPLED_RECORDS):
            rows.append(fields)
    return rows


def usual_width(rows: Rows) -> int:
    """The number of fields that most records have."""
    return Counter(len(fields) for fields in rows).most_common(1)[0][0] if rows else 0


def guess_separator(text: str, min_columns: int, is_likely: Callable[[Rows], bool]) -> str:
    """The separator with which the first lines look most like a table of at least `min_columns` columns."""
    scores: dict[str, tuple[bool, bool, bool, float]] = {}
    for separator in SEPARATORS:
        rows = sample(text, separator)
        width = usual_width(rows)
        if width >= 2:
            share = sum(len(fields) == width for fields in rows) / len(rows)
            fits = len(_without_blanks(rows[0])) <= width and len(rows[0]) > 1
            scores[separator] = fits, is_likely(rows), width >= min_columns, share
    if not scores:
        expected = f"columns separated by {', '.join(list(SEPARATORS.values())[:-1])} or spaces"
        raise _fault("there is only one column", expected, text, first_line(text)[0])
    return max(scores, key=scores.__getitem__)  # the first of the best


def _without_blanks(fields: list[str]) -> list[str]:
    """The fields up to the last that is not blank."""
    return fields[: max((place for place, field in enumerate(fields, start=1) if field.strip()), default=0)]


def first_line(text: str) -> tuple[int, str]:
    """The first line that is not blank, and its number."""
    for line, content in enumerate(io.StringIO(text, newline="\n"), start=1):
        if content.strip():
            return line, content.rstrip("\r\n")
    return 1, ""


def has_separators(line: str) -> bool:
    """Whether a line contains column separators; blanks and quoted marks do not count."""
    return any(mark in _QUOTED.sub("", line) for mark in SEPARATORS if mark != " ")


def utf8_fault(data: bytes) -> DataError | None:
    """The error for the first line that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        content = data[data.rfind(b"\n", 0, error.start) + 1 :].partition(b"\n")[0]
        text = content[:200].decode(errors="backslashreplace")
        problem = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return DataError(problem, line=line, text=text, expected="text encoded as UTF-8")
    return None


def read_cells(data: bytes, columns: Sequence[str], separator: str, has_header: bool, *, skip: bool) -> Cells:
    """All cells of a text as they are written; Latin-1 where it is not UTF-8, as MovieLens was until 2008."""
    data = with_plain_ends(data)
    content = data.decode("latin-1" if utf8_fault(data) else "utf-8")
    try:
        found = list(records(content, separator))
    except DataError:
        if separator in (",", ";"):
            raise
        # Titles with quotation marks of their own are common where the separator needs no quoting.
        found = list(records(content, separator, quoted=False))
    found = [(line, _fitted(fields, columns)) for line, fields in (found[1:] if has_header else found)]
    whole = [(line, fields) for line, fields in found if len(fields) == len(columns)]
    ragged = [(line, len(fields)) for line, fields in found if len(fields) != len(columns)][: None if skip else 1]
    faults = [_fault(*_ragged(n, len(columns), separator), content, line) for line, n in ragged]
    if faults and not (skip and whole):
        raise faults[0]
    if not whole:
        raise _nothing_below()
    cells = [pl.Series(name, [row[place] for _, row in whole], pl.String) for place, name in enumerate(columns)]
    return Cells(tuple(columns), cells, [line for line, _ in whole], content, faults)


def _fitted(fields: list[str], columns: Sequence[str]) -> list[str]:
    """The fields without blank ones beyond the columns, and with blank ones for columns that have no name."""
    n = len(columns)
    if len(fields) > n and not any(field.strip() for field in fields[n:]):
        return fields[:n]
    return fields if any(columns[len(fields) :]) else fields + [""] * (n - len(fields))


def read_delimited(
    data: bytes, columns: Sequence[str], parts: Mapping[str, str], separator: str, has_header: bool, *, skip: bool
) -> Observed:
    """The records of a text; what cannot be read is an error that names the line, or is set aside and counted."""
    data = with_plain_ends(data)
    places = {part: columns.index(name) for part, name in parts.items()}

    def parsed(data: bytes, n_columns: int, *, skip: bool) -> _native.Records:
        return _native.read_records(
            np.frombuffer(data, np.uint8),
            separator,
            has_header=has_header,
            n_columns=n_columns,
            skips_faults=skip,
            threads=threads.resolve(None),
            **places,
        )

    found = parsed(data, len(columns), skip=skip)
    if found.fault_kind == "ragged" and separator.strip(" ") == separator:
        # Some lines may end with separators that others do not have.
        ends, n_named = rb"(?:%b[ \t]*)+(?=\r?\n|\Z)" % re.escape(separator.encode()), len(_without_blanks([*columns]))
        plain = re.sub(ends, b"", data)
        again = parsed(plain, n_named, skip=False)
        if not again.fault_kind or (not skip and again.fault_n_fields > n_named):
            found, data = again, plain
    fault = _record_fault(found, data, separator, len(columns)) if found.fault_kind else None
    if fault is not None and not skip:
        raise fault
    if not found.n:
        raise fault or _nothing_below()
    return Observed(
        users=_side(found, 0, "user") if "user" in parts else None,
        items=_side(found, 1, "item"),
        values=found.values() if "rating" in parts else None,
        times=found.times().view("datetime64[s]") if "time" in parts else None,
        rejected=found.n_rejected,
        first_fault=fault,
    )


def _side(found: _native.Records, side: int, name: str) -> Side:
    integers = found.integers(side)
    ids = pl.Series(name, found.texts(side) if integers is None else integers)
    return Side(Vocabulary(ids), found.rows(side))


_BAD_QUOTE = (
    "a quotation mark or a line end is where it should not be",
    'fields that are quoted as a whole, "" for a quotation mark inside',
)


def _ragged(n: int, n_columns: int, separator: str) -> tuple[str, str]:
    by = SEPARATORS.get(separator, repr(separator))
    return "1 field" if n == 1 else f"{n} fields", f"{n_columns}, separated by {by}"


def _nothing_below() -> DataError:
    return DataError("there is a header but nothing below it", expected="lines of ratings")


def _fault(problem: str, expected: str, text: str, line: int) -> DataError:
    content = next(islice(io.StringIO(text, newline="\n"), line - 1, None), "").rstrip("\r\n")
    return DataError(problem, line=line, text=content, expected=expected)


def _record_fault(found: _native.Records, data: bytes, separator: str, n_columns: int) -> DataError:
    start = found.fault_offset
    end = data.find(b"\n", start)
    content = data[start : end if end >= 0 else None].removesuffix(b"\r").decode(errors="backslashreplace")
    problem, expected = _complaint(found, separator, n_columns)
    return DataError(problem, line=data.count(b"\n", 0, start) + 1, text=content, expected=expected)


def _complaint(found: _native.Records, separator: str, n_columns: int) -> tuple[str, str]:
    kind, part, cell = found.fault_kind, found.fault_part, found.fault_cell
    if kind == "ragged":
        return _ragged(found.fault_n_fields, n_columns, separator)
    if kind == "quote":
        return _BAD_QUOTE
    name = part if part in ("rating", "time") else f"{part} id"
    if kind == "missing":
        return f"the {name} is missing", EXPECTED_CELL[part]
    if kind == "too long":
        return f"the {name} is longer than 65,535 bytes", "a shorter one; is a quotation mark missing?"
    if kind == "not unicode":
        fault = utf8_fault(cell)
        assert fault is not None
        return fault.problem, str(fault.expected)
    shown = cell.decode(errors="backslashreplace")
    expected = EXPECTED_CELL[part]
    if part == "rating" and re.fullmatch(r"[-+]?\d+,\d+", shown):
        expected += " with a decimal point instead of the comma"
    return f"{shown!r} is not a {name}", expected
