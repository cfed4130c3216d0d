"""How a file is laid out: guessed from its content, overruled by what the caller says."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from tastespace.data.formats.compression import WHOLE, Compression, compression_of, named_damage, read_start
from tastespace.data.formats.json_lines import keys_of
from tastespace.data.tables import USUAL_NAMES, find_parts, find_rating_parts, usual_column
from tastespace.errors import DataError, InvalidParameterError

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
            kind += f" separated by {SEPARATORS.get(str(self.separator), repr(self.separator))}"
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
    start = with_plain_ends(head).lstrip()
    if start.startswith(b"{"):
        names = keys_of(with_plain_ends(head), file)
        return Layout("jsonl", None, True, names, sought.parts(names, file), compression)
    if start.startswith(b"[{") or start.startswith(b"[\n"):
        raise DataError(
            "this is one JSON array", file=file, expected="one object a line; `jq -c '.[]' FILE` makes that of it"
        )
    separator, has_header, names = _sniff_text(with_plain_ends(head), file, sought, separator, header)
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
    _, broken = decoded(head, file)
    content = head.decode(errors="replace")
    line, first = first_line(content)
    if broken is not None and broken.line == line:
        raise broken
    if not first:
        raise DataError("the file is empty", file=file, expected=EXPECTED_RATINGS)
    if separator is None and sought.needed == OWN_RATING and _is_one_column(content, file):
        separator = ","  # of which there are none
    elif separator is None:
        separator = guess_separator(content, file, len(sought.needed), lambda rows: _is_likely(rows, sought))
    elif not separator or any(mark in separator for mark in '"\r\n'):
        raise InvalidParameterError(f"separator is {separator!r}; expected a character such as ',' or a tab")
    rows = sample(content, separator, file)
    if not rows:
        raise unreadable(content, separator, file)
    has_header = _has_header(rows, sought, file) if header is None else header
    if has_header:
        return separator, True, tuple(name.strip() for name in rows[0])
    names = _names_by_place(rows, sought)
    if len(names) < len(sought.of_choices if sought.may_be_choices else sought.needed):
        count = "1 column" if len(names) == 1 else f"{len(names)} columns"
        expected = f"columns for {', '.join(sought.needed)}"
        raise DataError(f"only {count}", file=file, line=line, text=first, expected=expected)
    return separator, False, names


def _names_by_place(rows: Rows, sought: Sought) -> tuple[str, ...]:
    """The columns of a text without a header, as many as there are."""
    width, needed = usual_width(rows), sought.needed
    if sought.may_be_choices and width == len(needed) - 1:
        return tuple(sought.of_choices)
    if sought.may_be_choices and needed == RATING and width == len(needed) and _are_times(rows):
        return (*sought.of_choices, "time")
    names = ["user", "item", "rating", "time"] + [f"column {number}" for number in range(5, width + 1)]
    return tuple(needed if width == len(needed) else names[:width])


def _has_header(rows: Rows, sought: Sought, file: Path) -> bool:
    first = rows[0]
    if any(name in first for name in sought.wanted.values()) or _has_usual_names(first, sought.needed):
        return True
    if "rating" not in sought.needed or any(not cell.strip() or _is_number(cell) for cell in first):
        return False  # Pairs may be words throughout; only a rating must be a number.
    if not sought.may_be_choices or _has_usual_names(first, sought.of_choices):
        return True
    if usual_width(rows) == len(sought.needed) - 1:
        return _is_heading(rows, file)
    return not (sought.needed == RATING and usual_width(rows) == len(sought.needed) and _are_times(rows))


def _is_heading(rows: Rows, file: Path) -> bool:
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


def _are_times(rows: Rows) -> bool:
    """Whether what stands where ratings would are times: dates, or seconds since 1970."""
    cells = [fields[2] for fields in rows if len(fields) == 3]
    return all(_DATE.fullmatch(cell) for cell in cells) or all(
        _is_number(cell) and _SECONDS[0] <= float(cell) <= _SECONDS[1] for cell in cells
    )


def _has_usual_names(first: list[str], needed: Sequence[str]) -> bool:
    return all(usual_column(first, USUAL_NAMES[part]) is not None for part in needed)


def _is_likely(rows: Rows, sought: Sought) -> bool:
    """Whether a way of splitting yields ratings: by the header, or by numbers where the ratings should be."""
    if _has_usual_names(rows[0], sought.of_choices if sought.may_be_choices else sought.needed):
        return True
    place = 1 if sought.needed == OWN_RATING and usual_width(rows) == 2 else 2
    return sum(len(fields) > place and _is_number(fields[place]) for fields in rows) > len(rows) / 2


def _is_one_column(content: str, file: Path) -> bool:
    """Whether a history is one item a line, which may have spaces in it."""
    first = first_line(content)[1]
    if any(mark in first for mark in SEPARATORS if mark != " "):
        return False
    rows = sample(content, " ", file)
    if usual_width(rows) == 1:
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
