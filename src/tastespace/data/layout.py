"""How a file is laid out: guessed from its content, overruled by what the caller says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from tastespace.data import text
from tastespace.data.columns import USUAL_NAMES, find_parts, usual_column
from tastespace.data.compression import Compression, compression_of, read_start
from tastespace.data.json_lines import keys_of
from tastespace.errors import DataError, InvalidParameterError

RATING = ("user", "item", "rating")
PAIR = ("user", "item")
OWN_RATING = ("item", "rating")
EXPECTED_RATINGS = "lines of user, item, rating and perhaps time; a Parquet table or JSON objects of them"

_PARQUET_MAGIC = b"PAR1"
_HEAD = 1 << 16


@dataclass(frozen=True)
class Layout:
    """How a file is to be read."""

    kind: Literal["text", "parquet", "jsonl", "netflix"]
    separator: str | None
    has_header: bool
    columns: tuple[str, ...]
    parts: Mapping[str, str]  # which column is the user, the item, the rating, the time
    compression: Compression | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if self.kind == "netflix":
            return "text of the Netflix Prize: a film and a colon, then user, rating, date"
        kind = {"text": "text", "parquet": "Parquet", "jsonl": "JSON lines"}[self.kind]
        if self.kind == "text":
            kind += f" separated by {text.SEPARATORS.get(str(self.separator), repr(self.separator))}"
            kind += ", with a header" if self.has_header else ", without a header"
        if self.compression is not None:
            kind += f", compressed with {self.compression}"
        used = ", ".join(self._told(part) for part in self.parts)
        spare = [name for name in self.columns if name not in self.parts.values()]
        return f"{kind}; {used}" + (f"; not used: {', '.join(spare)}" if spare else "")

    def _told(self, part: str) -> str:
        name = self.parts[part]
        if self.kind == "text" and not self.has_header:
            return f"{part} = column {self.columns.index(name) + 1}"
        return f"{part} = {name}"


NETFLIX = Layout(
    "netflix",
    ",",
    False,
    ("user", "rating", "date"),
    {"user": "user", "item": "the film above", "rating": "rating", "time": "date"},
)


def sniff(
    file: Path,
    *,
    separator: str | None = None,
    header: bool | None = None,
    wanted: Mapping[str, str | None] | None = None,
    needed: Sequence[str] = RATING,
) -> Layout:
    """The layout of a file, from its content alone; what the caller knows is taken from him."""
    wanted = wanted or {}
    compression = compression_of(file)
    head = _head(file, compression)
    if head.startswith(_PARQUET_MAGIC) and compression is None and _tail(file) == _PARQUET_MAGIC:
        schema = pl.scan_parquet(file, glob=False, hive_partitioning=False).collect_schema()
        names = tuple(schema.names())
        return Layout("parquet", None, True, names, _parts(names, wanted, needed, file))
    _refuse_binary(head, file)
    start = text.with_plain_ends(head).lstrip()
    if start.startswith(b"{"):
        names = keys_of(text.with_plain_ends(head), file)
        return Layout("jsonl", None, True, names, _parts(names, wanted, needed, file), compression)
    if start.startswith(b"[{") or start.startswith(b"[\n"):
        raise DataError(
            "this is one JSON array", file=file, expected="one object a line; `jq -c '.[]' FILE` makes that of it"
        )
    separator, has_header, names = _sniff_text(text.with_plain_ends(head), file, separator, header, wanted, needed)
    return Layout("text", separator, has_header, names, _parts(names, wanted, needed, file), compression)


def _parts(
    names: Sequence[str], wanted: Mapping[str, str | None], needed: Sequence[str], file: Path
) -> Mapping[str, str]:
    found = find_parts(names, wanted, needed, file)
    return found if "rating" in needed else {part: found[part] for part in needed}


def _refuse_binary(head: bytes, file: Path) -> None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError("this is UTF-16 text", file=file, expected="text saved as UTF-8")
    if b"\0" not in head:
        return
    if head.startswith(_PARQUET_MAGIC):
        raise DataError("this Parquet file is cut off or damaged", file=file, expected="a whole one")
    raise DataError("this is neither text nor Parquet", file=file, expected=EXPECTED_RATINGS)


def _sniff_text(
    head: bytes,
    file: Path,
    separator: str | None,
    header: bool | None,
    wanted: Mapping[str, str | None],
    needed: Sequence[str],
) -> tuple[str, bool, tuple[str, ...]]:
    _, broken = text.decoded(head, file)
    content = head.decode(errors="replace")
    line, first = text.first_line(content)
    if broken is not None and broken.line == line:
        raise broken
    if not first:
        raise DataError("the file is empty", file=file, expected=EXPECTED_RATINGS)
    if separator is None:
        separator = text.guess_separator(content, file, len(needed), lambda rows: _is_likely(rows, needed))
    elif not separator or any(mark in separator for mark in '"\r\n'):
        raise InvalidParameterError(f"separator is {separator!r}; expected a character such as ',' or a tab")
    rows = text.sample(content, separator, file)
    if not rows:
        raise text.unreadable(content, separator, file)
    has_header = _has_header(rows[0], wanted, needed) if header is None else header
    if has_header:
        return separator, True, tuple(name.strip() for name in rows[0])
    width = text.usual_width(rows)
    if width < len(needed):
        count = "1 column" if width == 1 else f"{width} columns"
        raise DataError(f"only {count}", file=file, line=line, text=first, expected=f"columns for {', '.join(needed)}")
    names = ["user", "item", "rating", "time"] + [f"column {number}" for number in range(5, width + 1)]
    names = list(needed) if width == len(needed) else names
    return separator, False, tuple(names[:width])


def _has_header(first: list[str], wanted: Mapping[str, str | None], needed: Sequence[str]) -> bool:
    if any(name in first for name in wanted.values()) or _has_usual_names(first, needed):
        return True
    # Pairs may be words throughout; only a rating must be a number.
    return "rating" in needed and all(cell.strip() and not _is_number(cell) for cell in first)


def _has_usual_names(first: list[str], needed: Sequence[str]) -> bool:
    return all(usual_column(first, USUAL_NAMES[part]) is not None for part in needed)


def _is_likely(rows: text.Rows, needed: Sequence[str]) -> bool:
    """Whether a way of splitting yields ratings: by the header, or by numbers where the ratings should be."""
    if _has_usual_names(rows[0], needed):
        return True
    place = 1 if needed == OWN_RATING and text.usual_width(rows) == 2 else 2
    return sum(len(fields) > place and _is_number(fields[place]) for fields in rows) > len(rows) / 2


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _head(file: Path, compression: Compression | None) -> bytes:
    """The first bytes of the content, up to the end of a line."""
    head = read_start(file, compression, _HEAD + 1)
    if len(head) > _HEAD and b"\n" in head:
        return head[: head.rindex(b"\n") + 1]
    return head


def _tail(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(-len(_PARQUET_MAGIC), 2)
        return stream.read()
