"""Delimited text as a table of strings: quickly where that is surely the same, carefully elsewhere.

The careful way knows the line of every record, so it is also the one that finds what is wrong with a file.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl

from tastespace.errors import DataError

SEPARATORS = {"\t": "tabs", "::": "::", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE = "line"
_SAMPLED_RECORDS = 50
_BATCH = 100_000
_STAND_IN = b"\x1f"  # for separators of more than one byte, which polars does not know

Rows = list[list[str]]


@dataclass(frozen=True)
class Shape:
    """How the text of a table is laid out."""

    separator: str
    has_header: bool
    n_columns: int

    @property
    def names(self) -> list[str]:
        """Of the columns as read: positions, because those of a header may repeat."""
        return [str(position) for position in range(self.n_columns)]


def with_plain_ends(data: bytes) -> bytes:
    """The same text without byte order mark, its lines ended by line feeds; line numbers stay."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    if b"\r" not in data:
        return data
    return data.replace(b"\r\n", b"\n") if b"\n" in data else data.replace(b"\r", b"\n")


def records(text: str, separator: str, file: Path, *, quoted: bool = True) -> Iterator[tuple[int, list[str]]]:
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
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                "a quotation mark or a line end is where it should not be",
                file=file,
                line=line,
                text=line_of(text, line),
                expected='fields that are quoted as a whole, "" for a quotation mark inside',
            ) from error
        if not _is_blank(fields, separator):
            yield line, fields


def _is_blank(fields: list[str], separator: str) -> bool:
    return (len(fields) <= 1 or separator == " ") and not any(field.strip() for field in fields)


def line_of(text: str, line: int) -> str:
    """One line of a text, counted from 1."""
    return next(islice(io.StringIO(text, newline="\n"), line - 1, None), "").rstrip("\r\n")


def sample(text: str, separator: str, file: Path) -> Rows:
    """The first records, as far as this separator can make records of the text."""
    rows: Rows = []
    try:
        for _, fields in islice(records(text, separator, file), _SAMPLED_RECORDS):
            rows.append(fields)
    except DataError:
        # The careful reading will come to that line and complain; a wrong separator must not.
        pass
    return rows


def unreadable(text: str, separator: str, file: Path) -> DataError:
    """What to say about a text of which no sample could be taken."""
    try:
        next(records(text, separator, file), None)
    except DataError as error:
        return error
    return DataError("the file is empty", file=file, expected="at least one line")


def usual_width(rows: Rows) -> int:
    """The number of fields that most records have."""
    return Counter(len(fields) for fields in rows).most_common(1)[0][0] if rows else 0


def guess_separator(text: str, file: Path, least: int, is_likely: Callable[[Rows], bool]) -> str:
    """The separator under which the first lines look most like a table of at least so many columns."""
    best: tuple[tuple[bool, bool, float], str] | None = None
    for separator in SEPARATORS:
        rows = sample(text, separator, file)
        width = usual_width(rows)
        if width < 2:
            continue
        score = (width >= least, is_likely(rows), sum(len(fields) == width for fields in rows) / len(rows))
        if best is None or score > best[0]:
            best = score, separator
    if best is None:
        line, content = first_line(text)
        raise DataError(
            "there is only one column",
            file=file,
            line=line,
            text=content,
            expected=f"columns separated by {', '.join(list(SEPARATORS.values())[:-1])} or spaces",
        )
    return best[1]


def first_line(text: str) -> tuple[int, str]:
    """The first line that is not blank, and its number."""
    for line, content in enumerate(io.StringIO(text, newline="\n"), start=1):
        if content.strip():
            return line, content.rstrip("\r\n")
    return 1, ""


def read_quickly(data: bytes, shape: Shape) -> pl.DataFrame | None:
    """The table, or None where only the careful way can tell (blank lines, ragged lines, bad quotes ...)."""
    data = data.strip(b"\n")
    separator = shape.separator.encode()
    if any(oddity in data for oddity in (b"\r", b"\0")) or not _is_unicode(data):
        return None
    if b'"' in data:
        return _read_quoted(data, shape)
    if len(separator) > 1:
        if _STAND_IN in data:
            return None
        data, separator = data.replace(separator, _STAND_IN), _STAND_IN
    n_lines = data.count(b"\n") + 1
    if data.count(separator) != n_lines * (shape.n_columns - 1) or n_lines <= shape.has_header:
        return None
    if shape.has_header:
        data = data[data.index(b"\n") + 1 :]
    try:
        table = pl.read_csv(
            data,
            has_header=False,
            separator=separator.decode(),
            quote_char=None,
            schema=dict.fromkeys(shape.names, pl.String()),
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    # Lines too long were refused by polars; the count of separators then leaves no room for lines too short.
    return table if table.height == n_lines - shape.has_header else None


def _read_quoted(data: bytes, shape: Shape) -> pl.DataFrame | None:
    if len(shape.separator) > 1:
        return None
    # Not by polars, which takes a stray quotation mark for anything but an error.
    reader = csv.reader(io.StringIO(data.decode(), newline="\n"), delimiter=shape.separator, strict=True)
    pieces = []
    try:
        if shape.has_header:
            next(reader)
        while rows := list(islice(reader, _BATCH)):
            if any(len(fields) != shape.n_columns for fields in rows):
                return None
            pieces.append(_frame(rows, shape))
    except csv.Error:
        return None
    return pl.concat(pieces) if pieces else None


def _is_unicode(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_carefully(data: bytes, shape: Shape, file: Path) -> Iterator[pl.DataFrame]:
    """The table piece by piece, with a column of line numbers; stops at the first line that is ill-formed.

    What comes before that line is handed out first, so that the caller may find a fault in an earlier one.
    """
    text, broken = decoded(data, file)
    lines: list[int] = []
    rows: Rows = []
    fault: DataError | None = None
    try:
        for number, (line, fields) in enumerate(records(text, shape.separator, file)):
            if number == 0 and shape.has_header:
                continue
            if len(fields) != shape.n_columns:
                fault = ragged(text, line, fields, shape, file)
                break
            lines.append(line)
            rows.append(fields)
            if len(rows) == _BATCH:
                yield _numbered(lines, rows, shape)
                lines, rows = [], []
    except DataError as error:
        # A quoted field that the undecodable line would have closed is not at fault itself.
        fault = broken or error
    if rows:
        yield _numbered(lines, rows, shape)
    if fault or broken:
        raise fault or broken  # type: ignore[misc]


def decoded(data: bytes, file: Path) -> tuple[str, DataError | None]:
    """The text before the first line that is not UTF-8, and what to say about that line."""
    try:
        return data.decode(), None
    except UnicodeDecodeError as error:
        start = data.rfind(b"\n", 0, error.start) + 1
        end = data.find(b"\n", error.start)
        content = data[start : end if end >= 0 else None]
        fault = DataError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            file=file,
            line=data.count(b"\n", 0, error.start) + 1,
            text=content[:200].decode(errors="backslashreplace"),
            expected="text encoded as UTF-8",
        )
        return data[:start].decode(), fault


def ragged(text: str, line: int, fields: list[str], shape: Shape, file: Path) -> DataError:
    """What to say about a line with too few or too many fields."""
    count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
    kind = SEPARATORS.get(shape.separator, repr(shape.separator))
    return DataError(
        count,
        file=file,
        line=line,
        text=line_of(text, line),
        expected=f"{shape.n_columns}, separated by {kind}",
    )


def _frame(rows: Rows, shape: Shape) -> pl.DataFrame:
    columns = dict(zip(shape.names, zip(*rows, strict=True), strict=True))
    return pl.DataFrame(columns, schema=dict.fromkeys(shape.names, pl.String()))


def _numbered(lines: list[int], rows: Rows, shape: Shape) -> pl.DataFrame:
    return _frame(rows, shape).with_columns(pl.Series(LINE, lines, dtype=pl.Int64))
