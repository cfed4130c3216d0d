"""Delimited text as lists of strings: to guess a layout by, and for files of titles."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tastespace.errors import DataError

SEPARATORS = {"\t": "tabs", "::": "::", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BAD_QUOTE = "a quotation mark or a line end is where it should not be"
EXPECTED_QUOTE = 'fields that are quoted as a whole, "" for a quotation mark inside'
_SAMPLED_RECORDS = 50
_LONGEST_FIELD = 2**31 - 1

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
    if b"\n" not in data:
        return data.replace(b"\r", b"\n")
    # In a quoted field the ends of lines are the writer's own.
    return data if b'"' in data else data.replace(b"\r\n", b"\n")


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
        limit = csv.field_size_limit(_LONGEST_FIELD)
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                BAD_QUOTE,
                file=file,
                line=line,
                text=line_of(text, line),
                expected=EXPECTED_QUOTE,
            ) from error
        finally:
            csv.field_size_limit(limit)  # which is the whole process's
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
        score = (is_likely(rows), width >= least, sum(len(fields) == width for fields in rows) / len(rows))
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
