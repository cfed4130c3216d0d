"""What a file says about the items that were rated: titles, genres, years, and whatever else it has."""

from __future__ import annotations

import io
import re
from pathlib import Path

import polars as pl

from tastespace.data.formats import layout
from tastespace.data.formats.compression import compression_of, read_plain
from tastespace.data.ratings import Ratings
from tastespace.data.tables import USUAL_NAMES, usual_column
from tastespace.data.vocabulary import is_canonical_integer
from tastespace.errors import DataError, warn

_SIBLINGS = (
    (re.compile(r"u\.data|u\d\.(base|test)|u[ab]\.(base|test)"), "u.item"),
    (re.compile(r"ratings\.(dat|parquet)"), "movies.dat"),
    (re.compile(r"ratings\.csv"), "movies.csv"),
)
_USUAL = {
    "id": (*USUAL_NAMES["item"], "id"),
    "title": ("title", "name", "movietitle", "itemtitle", "itemname", "booktitle"),
    "genres": ("genres", "genre"),
    "year": ("year", "releaseyear"),
}
_SCHEMA = {"id": pl.String(), "title": pl.String(), "genres": pl.List(pl.String), "year": pl.Int32()}
_NO_GENRES = "(no genres listed)"
_LIST_MARK = "|"  # between the entries of a cell that holds several
# A number in a cell. With leading zeros it is a code, such as a postcode, and stays the text that it is.
_FRACTION = r"^[+-]?(0|[1-9]\d*)?(\.\d+)?([eE][+-]?\d+)?$"
_ROW = " row"  # no column of a file, whose names are stripped
_FIRST_FLAG = 5  # u.item: id, title, two dates and an address come before the genres
_EXPECTED_ITEMS = "a table with an id and a title for each item, or the item file of MovieLens"

Cells = list[str | None]


def with_titles(ratings: Ratings, ratings_file: Path, items_file: Path | None) -> Ratings:
    """The ratings with what `items_file` says about the items, or else what MovieLens put beside the ratings.

    A file that the caller named must be right; one that merely lies there is passed over with a warning.
    """
    if items_file is not None:
        return _joined(ratings, read_items(items_file), items_file)
    sibling = sibling_of(ratings_file)
    if sibling is None:
        return ratings
    try:
        return _joined(ratings, read_items(sibling), sibling)
    except DataError as error:
        warn(f"no titles: {error}")
        return ratings


def sibling_of(ratings_file: Path) -> Path | None:
    """The item file that MovieLens keeps beside a file of this name, if it is there."""
    for pattern, name in _SIBLINGS:
        if pattern.fullmatch(ratings_file.name):
            sibling = ratings_file.with_name(name)
            return sibling if sibling.exists() else None
    return None


def read_items(file: Path) -> pl.DataFrame:
    """A table of id, title, genres, year and all further columns of the file, one row an item."""
    try:
        data = read_plain(file, compression_of(file))
        if data.startswith(b"PAR1") and data.endswith(b"PAR1"):
            return _from_parquet(data, file)
    except FileNotFoundError as error:
        raise DataError("there is no such file", file=file, expected=_EXPECTED_ITEMS) from error
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"the file cannot be read ({error})", file=file, expected=_EXPECTED_ITEMS) from error
    data = layout.with_plain_ends(data)
    if b"\0" in data or not data.strip():
        problem = "the file is not text" if data.strip() else "the file is empty"
        raise DataError(problem, file=file, expected=_EXPECTED_ITEMS)
    try:
        content = data.decode()
    except UnicodeDecodeError:
        content = data.decode("latin-1")  # what MovieLens used until 2008
    separator = layout.guess_separator(content, file, 2, lambda rows: _find(rows[0], "title") is not None)
    return _from_text(content, separator, file)


def _from_text(content: str, separator: str, file: Path) -> pl.DataFrame:
    sampled = layout.sample(content, separator, file)
    if not sampled:
        raise layout.unreadable(content, separator, file)
    first = sampled[0]
    has_header = _find(first, "title") is not None
    width = len(first) if has_header else layout.usual_width(sampled)
    lines, rows = [], []
    for line, fields in _records(content, separator, file):
        if len(fields) != width:
            raise layout.ragged(content, line, fields, layout.Shape(separator, has_header, width), file)
        lines.append(line)
        rows.append(fields)
    if has_header:
        lines, rows = lines[1:], rows[1:]
    if not rows:
        raise DataError("there is a header but nothing below it", file=file, expected=_EXPECTED_ITEMS)
    places = _places(first, width, has_header, sampled, file)
    columns: dict[str, Cells] = {part: [row[place] for row in rows] for part, place in places.items()}
    for line, item in zip(lines, columns["id"], strict=True):
        if not (item or "").strip():
            here = layout.line_of(content, line)
            raise DataError("the item id is missing", file=file, line=line, text=here, expected="an id")
    if not has_header:
        if width > _FIRST_FLAG:
            columns["genres"] = _flagged([row[_FIRST_FLAG:] for row in rows], file.with_name("u.genre"))
        return _table(columns, file)
    further = {place: name for place, name in enumerate(first) if place not in places.values()}
    names = _different(further, taken=list(_SCHEMA))
    return _table(columns, file).with_columns(
        _typed(pl.Series(name, [row[place] for row in rows], dtype=pl.String)) for place, name in names.items()
    )


def _records(content: str, separator: str, file: Path) -> list[tuple[int, list[str]]]:
    try:
        return list(layout.records(content, separator, file))
    except DataError:
        if separator in (",", ";"):
            raise
        # Titles with quotation marks of their own are common where the separator needs no quoting.
        return list(layout.records(content, separator, file, quoted=False))


def _places(first: list[str], width: int, has_header: bool, sampled: layout.Rows, file: Path) -> dict[str, int]:
    """In which column each part is."""
    if has_header:
        found = {part: _find(first, part) for part in _USUAL}
        if found["id"] is None:
            raise DataError(f"no column for the id among {', '.join(first)}", file=file, expected=_EXPECTED_ITEMS)
        return {part: first.index(name) for part, name in found.items() if name is not None}
    if width <= 3:
        return dict(zip(("id", "title", "genres"), range(width), strict=False))
    if width > _FIRST_FLAG and all(set(row[_FIRST_FLAG:]) <= {"0", "1"} for row in sampled):
        return {"id": 0, "title": 1}
    raise DataError("no column is called title", file=file, line=1, text=" ".join(first), expected=_EXPECTED_ITEMS)


def _flagged(flags: layout.Rows, genre_file: Path) -> Cells:
    """The genres that are flagged, joined by bars; null where their names are not known."""
    try:
        content = layout.with_plain_ends(genre_file.read_bytes()).decode("latin-1")
    except OSError:
        return [None] * len(flags)
    names = [fields[0] for _, fields in layout.records(content, "|", genre_file, quoted=False)]
    if any(len(row) != len(names) for row in flags):
        problem = f"{len(names)} genres for {len(flags[0])} flags"
        raise DataError(problem, file=genre_file, expected="a name for each flag of u.item")
    return ["|".join(name for name, flag in zip(names, row, strict=True) if flag == "1") for row in flags]


def _from_parquet(data: bytes, file: Path) -> pl.DataFrame:
    stored = pl.read_parquet(io.BytesIO(data))
    found = {part: _find(stored.columns, part) for part in _USUAL}
    if found["id"] is None or found["title"] is None:
        names = ", ".join(stored.columns)
        raise DataError(f"no columns for id and title among {names}", file=file, expected=_EXPECTED_ITEMS)
    columns: dict[str, Cells] = {}
    for part, name in found.items():
        if name is not None:
            cells = stored[name]
            cells = cells.list.join("|") if cells.dtype == pl.List(pl.String) else cells.cast(pl.String)
            columns[part] = cells.to_list()
    further = {place: name for place, name in enumerate(stored.columns) if name not in found.values()}
    different = _different(further, taken=list(_SCHEMA))
    return _table(columns, file).with_columns(
        _split(stored.to_series(place).alias(name)) for place, name in different.items()
    )


def _different(names: dict[int, str], taken: list[str]) -> dict[int, str]:
    """Names by position, stripped; one that is empty or not the first of its kind says where it stands."""
    different: dict[int, str] = {}
    for place, name in names.items():
        plain = name.strip()
        if not plain or plain in taken or plain in different.values():
            plain = f"{plain} column {place + 1}".strip()
        different[place] = plain
    return different


def _typed(cells: pl.Series) -> pl.Series:
    """Texts as integers if all are, else as numbers if all are, else as lists if one has bars, else as texts."""
    texts = cells.str.strip_chars().replace("", None)
    known = texts.drop_nulls()
    if len(known) and is_canonical_integer(known).all():
        return texts.cast(pl.Int64)
    if len(known) and known.str.contains(_FRACTION).all():
        numbers = texts.cast(pl.Float64, strict=False)
        if numbers.null_count() == texts.null_count() and numbers.is_finite().fill_null(True).all():
            return numbers
    return _split(texts)


def _split(cells: pl.Series) -> pl.Series:
    """Texts as lists if one of them has bars; anything else as it is."""
    if cells.dtype in (pl.Categorical, pl.Enum):
        cells = cells.cast(pl.String)
    if cells.dtype != pl.String or not cells.str.contains(_LIST_MARK, literal=True).any():
        return cells
    lists = [None if cell is None else _entries(cell) for cell in cells]
    return pl.Series(cells.name, lists, dtype=pl.List(pl.String))


def _table(columns: dict[str, Cells], file: Path) -> pl.DataFrame:
    n = len(columns["id"])
    years = columns.get("year", [None] * n)
    return pl.DataFrame(
        {
            "id": [(item or "").strip() for item in columns["id"]],
            "title": [(title or "").strip() or None for title in columns["title"]],
            "genres": [_genres(cell) for cell in columns.get("genres", [None] * n)],
            "year": [_year(cell, title, file) for cell, title in zip(years, columns["title"], strict=True)],
        },
        schema=_SCHEMA,
    )


def _genres(cell: str | None) -> list[str] | None:
    if cell is None:
        return None
    return [genre for genre in _entries(cell) if genre != _NO_GENRES]


def _entries(cell: str) -> list[str]:
    return [entry.strip() for entry in cell.split(_LIST_MARK) if entry.strip()]


def _year(cell: str | None, title: str | None, file: Path) -> int | None:
    """The year that is given, or the one in brackets at the end of the title."""
    if cell is not None and cell.strip():
        if not re.fullmatch(r"-?\d{1,4}(\.0*)?", cell.strip()):
            raise DataError(f"{cell!r} is not a year", file=file, expected="a number such as 1995, or nothing")
        return int(float(cell))
    ending = re.search(r"\((\d{4})\)\s*$", title or "")
    return int(ending[1]) if ending else None


def _find(names: list[str], part: str) -> str | None:
    return usual_column(names, _USUAL[part])


def _joined(ratings: Ratings, table: pl.DataFrame, file: Path) -> Ratings:
    """Titles and attributes in the order of the item rows; null for the items that the table lacks."""
    rows = pl.Series(_ROW, ratings.items.rows_of(table["id"]))
    known = table.with_columns(rows).filter(pl.col(_ROW) >= 0).unique(_ROW, keep="first", maintain_order=True)
    if not known.height:
        problem = f"none of its {table.height} items is among the {ratings.n_items} that were rated"
        raise DataError(problem, file=file, expected="the items of these ratings")
    every = pl.DataFrame({_ROW: pl.Series(range(ratings.n_items), dtype=pl.Int32)})
    joined = every.join(known, on=_ROW, how="left", maintain_order="left")
    return ratings.with_items(joined["title"], joined.drop(_ROW, "id", "title"))
