"""How a file is laid out: guessed from its content, overruled by what the caller says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from tastespace.data import text
from tastespace.data.columns import USUAL_NAMES, find_parts, find_rating_parts, usual_column
from tastespace.data.compression import Compression, compression_of, read_start
from tastespace.data.damage import WHOLE, named_damage
from tastespace.data.json_lines import keys_of
from tastespace.errors import DataError, InvalidParameterError

RATING = ("user", "item", "rating")
PAIR = ("user", "item")
OWN_RATING = ("item", "rating")
EXPECTED_RATINGS = "lines of user, item, rating and perhaps time; a Parquet table or JSON objects of them"

_PARQUET_MAGIC = b"PAR1"
_HEAD = 1 << 16
_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d\b.*")
_SECONDS = (5e8, 4.2e9)  # of 1985 to 2103: no ratings are all so large


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
        told = "" if "rating" in self.parts else "; no column of values: each line is a choice"
        return f"{kind}; {used}{told}" + (f"; not used: {', '.join(spare)}" if spare else "")

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


class Sought(NamedTuple):
    """What a file is looked through for."""

    needed: Sequence[str] = RATING  # the parts; that of the ratings may be missing where lines are choices
    wanted: Mapping[str, str | None] = {}  # the names of their columns, where the caller knows them
    are_choices: bool = False  # whether the caller knows that lines are choices

    @property
    def may_be_choices(self) -> bool:
        """Whether the ratings may be missing."""
        return "rating" in self.needed and self.wanted.get("rating") is None

    @property
    def of_choices(self) -> Sequence[str]:
        """What is needed all the same."""
        return [part for part in self.needed if part != "rating"]

    def parts(self, names: Sequence[str], file: Path) -> Mapping[str, str]:
        """The column of each part."""
        if "rating" in self.needed:
            return find_rating_parts(names, self.wanted, self.needed, file, are_choices=self.are_choices)
        found = find_parts(names, self.wanted, self.needed, file)
        return {part: found[part] for part in self.needed}


RATINGS = Sought()


def sniff(file: Path, sought: Sought = RATINGS, *, separator: str | None = None, header: bool | None = None) -> Layout:
    """The layout of a file, from its content alone; what the caller knows is taken from him."""
    compression = compression_of(file)
    head = _head(file, compression)
    if head.startswith(_PARQUET_MAGIC) and compression is None and _tail(file) == _PARQUET_MAGIC:
        with named_damage(file):
            schema = pl.scan_parquet(file, glob=False, hive_partitioning=False).collect_schema()
        names = tuple(schema.names())
        return Layout("parquet", None, True, names, sought.parts(names, file))
    _refuse_binary(head, file)
    start = text.with_plain_ends(head).lstrip()
    if start.startswith(b"{"):
        names = keys_of(text.with_plain_ends(head), file)
        return Layout("jsonl", None, True, names, sought.parts(names, file), compression)
    if start.startswith(b"[{") or start.startswith(b"[\n"):
        raise DataError(
            "this is one JSON array", file=file, expected="one object a line; `jq -c '.[]' FILE` makes that of it"
        )
    separator, has_header, names = _sniff_text(text.with_plain_ends(head), file, sought, separator, header)
    return Layout("text", separator, has_header, names, sought.parts(names, file), compression)


def _refuse_binary(head: bytes, file: Path) -> None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError("this is UTF-16 text", file=file, expected="text saved as UTF-8")
    if b"\0" not in head:
        return
    if head.startswith(_PARQUET_MAGIC):
        raise DataError("this Parquet file is cut off or damaged", file=file, expected=WHOLE)
    raise DataError("this is neither text nor Parquet", file=file, expected=EXPECTED_RATINGS)


def _sniff_text(
    head: bytes, file: Path, sought: Sought, separator: str | None, header: bool | None
) -> tuple[str, bool, tuple[str, ...]]:
    _, broken = text.decoded(head, file)
    content = head.decode(errors="replace")
    line, first = text.first_line(content)
    if broken is not None and broken.line == line:
        raise broken
    if not first:
        raise DataError("the file is empty", file=file, expected=EXPECTED_RATINGS)
    if separator is None and sought.needed == OWN_RATING and _is_one_column(content, file):
        separator = ","  # of which there are none
    elif separator is None:
        separator = text.guess_separator(content, file, len(sought.needed), lambda rows: _is_likely(rows, sought))
    elif not separator or any(mark in separator for mark in '"\r\n'):
        raise InvalidParameterError(f"separator is {separator!r}; expected a character such as ',' or a tab")
    rows = text.sample(content, separator, file)
    if not rows:
        raise text.unreadable(content, separator, file)
    has_header = _has_header(rows, sought, file) if header is None else header
    if has_header:
        return separator, True, tuple(name.strip() for name in rows[0])
    names = _names_by_place(rows, sought)
    if len(names) < len(sought.of_choices if sought.may_be_choices else sought.needed):
        count = "1 column" if len(names) == 1 else f"{len(names)} columns"
        expected = f"columns for {', '.join(sought.needed)}"
        raise DataError(f"only {count}", file=file, line=line, text=first, expected=expected)
    return separator, False, names


def _names_by_place(rows: text.Rows, sought: Sought) -> tuple[str, ...]:
    """The columns of a text without a header, as many as there are."""
    width, needed = text.usual_width(rows), sought.needed
    if sought.may_be_choices and width == len(needed) - 1:
        return tuple(sought.of_choices)
    if sought.may_be_choices and needed == RATING and width == len(needed) and _are_times(rows):
        return (*sought.of_choices, "time")
    names = ["user", "item", "rating", "time"] + [f"column {number}" for number in range(5, width + 1)]
    return tuple(needed if width == len(needed) else names[:width])


def _has_header(rows: text.Rows, sought: Sought, file: Path) -> bool:
    first = rows[0]
    if any(name in first for name in sought.wanted.values()) or _has_usual_names(first, sought.needed):
        return True
    if "rating" not in sought.needed or any(not cell.strip() or _is_number(cell) for cell in first):
        return False  # Pairs may be words throughout; only a rating must be a number.
    if not sought.may_be_choices or _has_usual_names(first, sought.of_choices):
        return True
    if text.usual_width(rows) == len(sought.needed) - 1:
        return _is_heading(rows, file)
    return not (sought.needed == RATING and text.usual_width(rows) == len(sought.needed) and _are_times(rows))


def _is_heading(rows: text.Rows, file: Path) -> bool:
    """Whether the first line of words names the columns of pairs that may be words throughout."""
    first, *others = rows
    if len(first) == 1:
        return False  # One item a line: that this one is unknown to a model will be said.
    columns = list(zip(*[fields for fields in others if len(fields) == len(first)], strict=True))
    if any(name in column for name, column in zip(first, columns, strict=False)):
        return False  # What is an id below is one here.
    if any(_is_number(cell) for column in columns for cell in column):
        return True
    raise DataError(
        "the first line may be a header or a choice, and there is no column of values",
        file=file,
        line=1,
        text=", ".join(first),
        expected="a header such as user,item; or to be told whether there is a header (--header or --no-header, in "
        "Python header=)",
    )


def _are_times(rows: text.Rows) -> bool:
    """Whether what stands where ratings would are times: dates, or seconds since 1970."""
    cells = [fields[2] for fields in rows if len(fields) == 3]
    return all(_DATE.fullmatch(cell) for cell in cells) or all(
        _is_number(cell) and _SECONDS[0] <= float(cell) <= _SECONDS[1] for cell in cells
    )


def _has_usual_names(first: list[str], needed: Sequence[str]) -> bool:
    return all(usual_column(first, USUAL_NAMES[part]) is not None for part in needed)


def _is_likely(rows: text.Rows, sought: Sought) -> bool:
    """Whether a way of splitting yields ratings: by the header, or by numbers where the ratings should be."""
    if _has_usual_names(rows[0], sought.of_choices if sought.may_be_choices else sought.needed):
        return True
    place = 1 if sought.needed == OWN_RATING and text.usual_width(rows) == 2 else 2
    return sum(len(fields) > place and _is_number(fields[place]) for fields in rows) > len(rows) / 2


def _is_one_column(content: str, file: Path) -> bool:
    """Whether a history is one item a line, which may have spaces in it."""
    first = text.first_line(content)[1]
    if any(mark in first for mark in text.SEPARATORS if mark != " "):
        return False
    rows = text.sample(content, " ", file)
    if text.usual_width(rows) == 1:
        return True
    return sum(_is_number(fields[-1]) for fields in rows) < len(rows) / 2


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
