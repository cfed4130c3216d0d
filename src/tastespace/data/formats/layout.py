"""How a file is laid out: guessed from its content, overridden by what the caller passes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tastespace.data.formats import text as plain_text
from tastespace.data.formats.content import WHOLE, Compression, ask_parquet, compression_of, read_plain
from tastespace.data.formats.json_lines import keys_of
from tastespace.data.tables import USUAL_NAMES, find_parts, find_rating_parts, named_column, usual_column
from tastespace.errors import DataError, InvalidParameterError

RATING = ("user", "item", "rating")
PAIR = ("user", "item")
OWN_RATING = ("item", "rating")
EXPECTED_RATINGS = "lines of user, item, rating and perhaps time; a Parquet table or JSON objects of them"

_PARQUET_MAGIC = b"PAR1"
_HEAD = 1 << 16
_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d\b.*")
_SECONDS = (5e8, 4.2e9)  # of 1985 to 2103: no ratings are all so large
FIRST_FLAG = 5  # u.item of MovieLens: id, title, two dates and an address come before flags for the genres


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
            kind += f" separated by {plain_text.SEPARATORS.get(str(self.separator), repr(self.separator))}"
            kind += ", with a header" if self.has_header else ", without a header"
        if self.compression is not None:
            kind += f", compressed with {self.compression}"
        has_names = self.kind != "text" or self.has_header
        shown = {name: name if has_names else f"column {place}" for place, name in enumerate(self.columns, start=1)}
        used = ", ".join(f"{part} = {shown[name]}" for part, name in self.parts.items())
        spare = [name for name in self.columns if name and name not in self.parts.values()]
        if "id" in self.parts:  # of items or users, of which everything is used
            return f"{kind}; {used}" + (f"; attributes: {', '.join(spare)}" if spare else "")
        choices = "" if "rating" in self.parts else "; no column of values: each line is a choice"
        return f"{kind}; {used}{choices}" + (f"; not used: {', '.join(spare)}" if spare else "")


NETFLIX = Layout(
    "netflix",
    ",",
    False,
    ("user", "rating", "date"),
    {"user": "user", "item": "the film above", "rating": "rating", "time": "date"},
)


@dataclass(frozen=True)
class Sought:
    """What to look for in a file (ratings, pairs, histories or items), and what the caller knows about it."""

    needed: tuple[str, ...] = RATING  # the parts; that of the ratings may be missing where lines are choices
    wanted: Mapping[str, str | None] = field(default_factory=dict)  # names of their columns, where they are known
    are_choices: bool = False  # whether the caller knows that lines are choices
    separator: str | None = None  # of a text, where it is known
    header: bool | None = None  # whether there is one, where it is known
    expected: str = EXPECTED_RATINGS

    @property
    def may_be_choices(self) -> bool:
        """Whether the ratings may be missing."""
        return "rating" in self.needed and self.wanted.get("rating") is None

    @property
    def at_least(self) -> tuple[str, ...]:
        """The parts that must be present."""
        return tuple(part for part in self.needed if not (part == "rating" and self.may_be_choices))

    def parts(self, names: Sequence[str]) -> Mapping[str, str]:
        """The column of each part."""
        found = find_rating_parts(names, self.wanted, self.needed, are_choices=self.are_choices)
        return found if "rating" in self.needed else {part: found[part] for part in self.needed}

    def is_likely(self, rows: plain_text.Rows) -> bool:
        """Whether a way of splitting yields ratings: by the header, or by numbers where the ratings should be."""
        if _has_usual_names(rows[0], self.at_least):
            return True
        place = 1 if self.needed == OWN_RATING and plain_text.usual_width(rows) == 2 else 2
        return sum(len(fields) > place and _is_number(fields[place]) for fields in rows) > len(rows) / 2

    def names_by_place(self, rows: plain_text.Rows) -> tuple[str, ...]:
        """Column names for a text without a header, as many as there are columns."""
        width, needed = plain_text.usual_width(rows), self.needed
        if self.may_be_choices and width == len(needed) - 1:
            return self.at_least
        if self.may_be_choices and needed == RATING and width == len(needed) and _are_times(rows):
            return (*self.at_least, "time")
        names = ["user", "item", "rating", "time"] + [f"column {number}" for number in range(5, width + 1)]
        return needed if width == len(needed) else tuple(names[:width])

    def has_header(self, rows: plain_text.Rows) -> bool:
        """Whether the first line names the columns."""
        first, width = rows[0], plain_text.usual_width(rows)
        if any(name in first for name in self.wanted.values()) or _has_usual_names(first, self.needed):
            return True
        if "rating" not in self.needed or any(not cell.strip() or _is_number(cell) for cell in first):
            return False  # Pairs may be words throughout; only a rating must be a number.
        if not self.may_be_choices or _has_usual_names(first, self.at_least):
            return True
        if width == len(self.needed) - 1:
            return _is_heading(rows)
        return not (self.needed == RATING and width == len(self.needed) and _are_times(rows))


RATINGS = Sought()


@dataclass(frozen=True)
class SoughtItems(Sought):
    """A list of items: one per line, or a table whose header names the column of items."""

    needed: tuple[str, ...] = ("item",)
    expected: str = "one item per line; or a table whose header has a column item, and perhaps one called user"

    def parts(self, names: Sequence[str]) -> Mapping[str, str]:
        if len(names) > 1 and usual_column(names, USUAL_NAMES["item"]) is None:
            raise DataError("no column is called item", expected=self.expected)
        found = find_parts(names if len(names) > 1 else ["item"], {})
        return {part: names[0] if len(names) == 1 else found[part] for part in PAIR if part in found}

    def has_header(self, rows: plain_text.Rows) -> bool:
        if plain_text.usual_width(rows) == 1:
            return usual_column(rows[0], (*USUAL_NAMES["item"], "id")) is not None
        return True  # A guess would leave things out, or let them through, without anyone noticing.


DESCRIBED = {  # what files of items and users usually contain, and the usual names of the columns
    "item": {
        "id": (*USUAL_NAMES["item"], "id"),
        "title": ("title", "name", "movietitle", "itemtitle", "itemname", "booktitle"),
        "genres": ("genres", "genre"),
        "year": ("year", "releaseyear"),
    },
    "user": {"id": (*USUAL_NAMES["user"], "id")},
}


@dataclass(frozen=True)
class SoughtDescriptions(Sought):
    """A description of items or users: an id, and any other columns.

    The id may be missing: its column is then found by its values.
    """

    needed: tuple[str, ...] = ("id", "title")
    side: Literal["item", "user"] = "item"
    expected: str = "a table with an id and a title for each item, or the item file of MovieLens"

    def _find(self, names: Sequence[str], part: str) -> str | None:
        if (wanted := self.wanted.get(part)) is not None:
            return next((name for name in names if name.strip().casefold() == wanted.strip().casefold()), None)
        usual = DESCRIBED[self.side].get(part, ())
        return usual_column(names, usual) or (title_like(names) if part == "title" and usual else None)

    def parts(self, names: Sequence[str]) -> Mapping[str, str]:
        found = {part: self._find(names, part) for part in DESCRIBED[self.side]}
        found |= {part: named_column(names, name) for part, name in self.wanted.items() if name is not None}
        return {part: name for part, name in found.items() if name is not None}

    def is_likely(self, rows: plain_text.Rows) -> bool:
        return self._find(rows[0], self.needed[-1]) is not None

    def names_by_place(self, rows: plain_text.Rows) -> tuple[str, ...]:
        width = plain_text.usual_width(rows)
        if self.side == "user" and (names := _movielens_users(rows)):
            return names
        if self.side == "user" or width <= 3:
            known = ("id",) if self.side == "user" else ("id", "title", "genres")
            return (*known, *(f"column {number}" for number in range(len(known) + 1, width + 1)))[:width]
        if width > FIRST_FLAG and all(set(row[FIRST_FLAG:]) <= {"0", "1"} for row in rows):
            return ("id", "title", "date", "video", "address", *(f"flag {place}" for place in range(FIRST_FLAG, width)))
        return tuple(f"column {place}" for place in range(1, width + 1))

    def has_header(self, rows: plain_text.Rows) -> bool:
        title = self._find(rows[0], "title") if self.side == "item" else None
        if title is not None and title in (self.wanted.get("title"), usual_column(rows[0], DESCRIBED["item"]["title"])):
            return True
        if any(_is_number(cell) for cell in rows[0]):
            return False  # An address of a film of MovieLens has the word "title", too.
        if title is not None:
            return True
        # Words above a column of numbers name it.
        columns = zip(*(fields for fields in rows[1:] if len(fields) == len(rows[0])), strict=True)
        has_numbers = any(all(map(_is_number, column)) for column in columns)
        return self._find(rows[0], "id") is not None or (len(rows[0]) > 1 and has_numbers)


def title_like(names: Sequence[str]) -> str | None:
    """The first column with the word title in its name, else name: `title of game`, `product_name`."""
    words = {name: set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())) for name in names}
    return next((name for word in ("title", "name") for name in names if word in words[name]), None)


SOUGHT_OF = {
    "item": SoughtDescriptions(),
    "user": SoughtDescriptions(needed=("id",), side="user", expected="a table with an id for each user"),
}


def sniff(file: Path, sought: Sought = RATINGS) -> Layout:
    """The layout of a file, from its content alone; what the caller knows is taken as given."""
    compression = compression_of(file)
    head = _head(file, compression)
    if head.startswith(_PARQUET_MAGIC) and compression is None and _tail(file) == _PARQUET_MAGIC:
        names = tuple(ask_parquet(file, lambda table: table.collect_schema().names()))
        return Layout("parquet", None, True, names, sought.parts(names))
    _refuse_binary(head, sought)
    head = plain_text.with_plain_ends(head)
    start = head.lstrip()
    if start.startswith(b"{"):
        names = keys_of(head)
        return Layout("jsonl", None, True, names, sought.parts(names), compression)
    if start.startswith((b"[{", b"[\n")):
        raise DataError("this is one JSON array", expected="one object per line; `jq -c '.[]' FILE` makes that of it")
    separator, has_header, names = _sniff_text(head, sought)
    return Layout("text", separator, has_header, names, sought.parts(names), compression)


def _refuse_binary(head: bytes, sought: Sought) -> None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError("this is UTF-16 text", expected="text saved as UTF-8")
    if b"\0" not in head:
        return
    if head.startswith(_PARQUET_MAGIC):
        raise DataError("this Parquet file is cut off or damaged", expected=WHOLE)
    raise DataError("this is neither text nor Parquet", expected=sought.expected)


def _sniff_text(head: bytes, sought: Sought) -> tuple[str, bool, tuple[str, ...]]:
    separator, header = sought.separator, sought.header
    broken, may_be_latin = plain_text.utf8_fault(head), isinstance(sought, SoughtDescriptions)
    content = head.decode("latin-1" if may_be_latin and broken is not None else "utf-8", errors="replace")
    line, first = plain_text.first_line(content)
    if broken is not None and broken.line == line and not may_be_latin:
        raise broken
    if not first:
        raise DataError("the file is empty", expected=sought.expected)
    if separator is None and sought.needed[0] == "item" and _is_one_column(content, sought):
        separator = ","  # of which there are none but quoted ones
    elif separator is None:
        separator = plain_text.guess_separator(content, len(sought.needed), sought.is_likely)
    elif not separator or any(mark in separator for mark in '"\r\n'):
        raise InvalidParameterError(f"separator is {separator!r}; expected a character such as ',' or a tab")
    rows = plain_text.sample(content, separator)
    if not rows:
        next(plain_text.records(content, separator))  # says what is wrong with the first record
    has_header = sought.has_header(rows) if header is None else header
    if has_header:
        names = tuple(name.strip() for name in rows[0])
        # Separators at the end of lines make columns without a name, which the first line may lack, or have alone.
        width = plain_text.usual_width(rows)
        if len(names) < width and not any("".join(fields[len(names) :]).strip() for fields in rows):
            names += ("",) * (width - len(names))
        return separator, True, names[:width] if not any(names[width:]) else names
    names = sought.names_by_place(rows)
    if len(names) < len(sought.at_least):
        count = "1 column" if len(names) == 1 else f"{len(names)} columns"
        raise DataError(f"only {count}", line=line, text=first, expected=f"columns for {', '.join(sought.needed)}")
    return separator, False, names


def _movielens_users(rows: plain_text.Rows) -> tuple[str, ...] | None:
    """The columns of `users.dat` or `u.user` of MovieLens, if these are lines of it."""
    if any(len(row) != 5 for row in rows):
        return None
    for names in (("id", "gender", "age", "occupation", "zip"), ("id", "age", "gender", "occupation", "zip")):
        at = names.index("gender")
        ages = [row[names.index("age")] for row in rows]
        if {row[at] for row in rows} <= {"F", "M"} and all(age.isdigit() for age in ages):
            return names
    return None


def _is_heading(rows: plain_text.Rows) -> bool:
    """Whether the first line of words names the columns of pairs that may be words throughout."""
    first, *others = rows
    if len(first) == 1:
        return False  # One item per line: if it is a header after all, the model reports an unknown item.
    columns = list(zip(*[fields for fields in others if len(fields) == len(first)], strict=True))
    if any(name in column for name, column in zip(first, columns, strict=False)):
        return False  # The same value occurs below as an id, so it is one here.
    if any(_is_number(cell) for column in columns for cell in column):
        return True
    raise DataError(
        "the first line may be a header or a choice, and there is no column of values",
        line=1,
        text=", ".join(first),
        expected="a header such as user,item; or an explicit choice (--header or --no-header, in Python header=)",
    )


def _are_times(rows: plain_text.Rows) -> bool:
    """Whether the column in the place of ratings holds times: dates, or seconds since 1970."""
    cells = [fields[2] for fields in rows if len(fields) == 3]
    return all(_DATE.fullmatch(cell) for cell in cells) or all(
        _is_number(cell) and _SECONDS[0] <= float(cell) <= _SECONDS[1] for cell in cells
    )


def _has_usual_names(first: list[str], needed: Sequence[str]) -> bool:
    return all(usual_column(first, USUAL_NAMES[part]) is not None for part in needed)


def _is_one_column(content: str, sought: Sought) -> bool:
    """Whether there is one item per line, which may contain spaces."""
    if plain_text.has_separators(plain_text.first_line(content)[1]):
        return False
    rows = plain_text.sample(content, " ")
    if isinstance(sought, SoughtItems) or plain_text.usual_width(rows) == 1:
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
    head = read_plain(file, compression, _HEAD + 1)
    if len(head) > _HEAD and b"\n" in head:
        return head[: head.rindex(b"\n") + 1]
    return head


def _tail(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(-len(_PARQUET_MAGIC), 2)
        return stream.read()
