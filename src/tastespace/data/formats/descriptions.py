"""Files that describe items or users: titles, genres, years and any other columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tastespace.data.formats.content import ask_parquet, named_faults, read_plain
from tastespace.data.formats.json_lines import read_json_cells
from tastespace.data.formats.layout import FIRST_FLAG, SOUGHT_OF, Layout, sniff
from tastespace.data.formats.text import read_cells, records, with_plain_ends
from tastespace.data.ratings import Ratings
from tastespace.data.tables import Cells, warn_of_rejected
from tastespace.data.vocabulary import is_canonical_integer
from tastespace.errors import DataError, warn

SideName = Literal["item", "user"]
_HUNDRED_THOUSAND = re.compile(r"u\.data|u\d\.(base|test)|u[ab]\.(base|test)")
_SIBLINGS = {
    "item": (
        (_HUNDRED_THOUSAND, "u.item"),
        (re.compile(r"ratings\.(dat|parquet)"), "movies.dat"),
        (re.compile(r"ratings\.csv"), "movies.csv"),
    ),
    "user": ((_HUNDRED_THOUSAND, "u.user"), (re.compile(r"ratings\.(dat|parquet)"), "users.dat")),
}
# The codes of occupations in users.dat of MovieLens, as its README has them.
_OCCUPATIONS = dict(
    enumerate(
        (
            "other",
            "academic or educator",
            "artist",
            "clerical or admin",
            "college or graduate student",
            "customer service",
            "doctor or health care",
            "executive or managerial",
            "farmer",
            "homemaker",
            "K-12 student",
            "lawyer",
            "programmer",
            "retired",
            "sales or marketing",
            "scientist",
            "self-employed",
            "technician or engineer",
            "tradesman or craftsman",
            "unemployed",
            "writer",
        )
    )
)
_NO_GENRES = "(no genres listed)"
_LIST_MARK = "|"  # between the entries of a cell that holds several
# A number in a cell. With leading zeros it is a code, such as a postcode, and stays the text that it is.
_FRACTION = r"^[+-]?(0|[1-9]\d*)?(\.\d+)?([eE][+-]?\d+)?$"
_YEAR, _YEAR_IN_TITLE = r"^-?\d{1,4}(\.0*)?$", r"\((\d{4})\)\s*$"
_ROW = " row"  # no column of a file, whose names are stripped


def describe_side(
    ratings: Ratings, ratings_file: Path, given: Path | None, side: SideName, *, skip: bool = False
) -> Ratings:
    """The ratings with the descriptions in a file, or in the one that MovieLens puts beside the ratings.

    A file that the caller named must be valid; one that was only found beside the ratings is skipped with a warning.
    """
    file = given or _sibling_of(ratings_file, side)
    if file is None:
        return ratings
    try:
        return described(ratings, read_descriptions(file, side, skip=skip), side, file=file)
    except DataError as error:
        if given is not None:
            raise
        warn(f"no {'titles' if side == 'item' else 'attributes of users'}: {error}")
        return ratings


def _sibling_of(ratings_file: Path, side: SideName) -> Path | None:
    """The file of items or users that MovieLens keeps beside a file of this name, if it is there."""
    found = (ratings_file.with_name(name) for pattern, name in _SIBLINGS[side] if pattern.fullmatch(ratings_file.name))
    return next(filter(Path.exists, found), None)


def described(ratings: Ratings, table: pl.DataFrame, side: SideName = "item", *, file: Path | None = None) -> Ratings:
    """The ratings with the description of each id: the column `title`, and all others as attributes."""
    vocabulary = ratings.items if side == "item" else ratings.users
    rows = pl.Series(_ROW, vocabulary.rows_of(table["id"]))
    known = table.drop("id").with_columns(rows).filter(pl.col(_ROW) >= 0)
    known = known.unique(_ROW, keep="first", maintain_order=True)
    if file is not None and not known.height:
        problem = f"none of its {table.height} {side}s is among the {len(vocabulary)} that "
        problem += "were rated" if side == "item" else "rated"
        raise DataError(problem, file=file, expected=f"the {side}s of these ratings")
    every = pl.DataFrame({_ROW: np.arange(len(vocabulary), dtype=np.int32)})
    joined = every.join(known, on=_ROW, how="left", maintain_order="left").drop(_ROW)
    attributes = joined.drop("title", strict=False)
    if side == "user":
        return ratings.with_users(attributes if attributes.width else None)
    titles = joined["title"] if "title" in joined.columns else None
    return ratings.with_items(titles, attributes if attributes.width else None)


def read_descriptions(file: Path, side: SideName = "item", *, skip: bool = False) -> pl.DataFrame:
    """A table with the id of each item or user and all other columns; for items, title, genres and year come first.

    Missing genres and years are null. Lines that cannot be read are an error, or set aside and counted.
    """
    sought = SOUGHT_OF[side]
    with named_faults(file, sought.expected):
        layout = sniff(file, sought)
        cells = _read(file, layout, skip)
        for part in ("id", "year"):
            if part in layout.parts:
                cells = _checked(cells, layout.parts[part], part, side, skip)
        warn_of_rejected(file, len(cells.faults), len(cells.columns[0]), next(iter(cells.faults), None))
        columns = [_texts(cells.column(layout.parts["id"])).str.strip_chars().alias("id")]
        if side == "item":
            columns += _item_columns(cells, layout, file.with_name("u.genre"))
        if not layout.has_header and side == "item":
            return pl.DataFrame(columns)
        places = {cells.names.index(name) for name in layout.parts.values()}
        taken = ["id", "title", "genres", "year"] if side == "item" else ["id"]
        for place, (name, column) in enumerate(zip(cells.names, cells.columns, strict=True)):
            if place not in places:
                if name == "occupation" and not layout.has_header:
                    column = column.replace({str(code): name for code, name in _OCCUPATIONS.items()})
                # An empty or repeated name is extended by its position.
                is_new = name.strip() not in ("", *taken)
                taken.append(name.strip() if is_new else f"{name.strip()} column {place + 1}".strip())
                columns.append(_typed(column.alias(taken[-1]), layout.kind == "text"))
        return pl.DataFrame(columns)


def _checked(cells: Cells, name: str, part: str, side: SideName, skip: bool) -> Cells:
    """Remove the rows without an id or with an invalid year; an error unless they may be skipped."""
    column = _texts(cells.column(name))
    plain = column.fill_null("").str.strip_chars()
    wrong = plain == "" if part == "id" else (plain != "") & ~plain.str.contains(_YEAR)
    if not wrong.any():
        return cells
    row = int(wrong.arg_max() or 0)
    if part == "id":
        fault = cells.fault(row, name, f"the {side} id is missing", "an id")
    else:
        fault = cells.fault(row, name, f"{column[row]!r} is not a year", "a number such as 1995, or nothing")
    return cells.set_aside(wrong, fault, skip=skip)


def _read(file: Path, layout: Layout, skip: bool) -> Cells:
    if layout.kind == "parquet":
        return Cells.of(ask_parquet(file, pl.LazyFrame.collect))
    data = read_plain(file, layout.compression)
    if layout.kind == "jsonl":
        return read_json_cells(data, skip=skip)
    return read_cells(data, layout.columns, str(layout.separator), layout.has_header, skip=skip)


def _item_columns(cells: Cells, layout: Layout, genre_file: Path) -> list[pl.Series]:
    """Title (if there are titles), genres and year."""
    known = {part: _texts(cells.column(name)) for part, name in layout.parts.items()}
    nothing = pl.Series([None] * len(known["id"]), dtype=pl.String)
    titles = known.get("title", nothing).str.strip_chars().replace("", None)
    genres = known.get("genres", nothing)
    if not layout.has_header and len(layout.columns) > FIRST_FLAG:
        genres = _flagged(cells.columns[FIRST_FLAG:], genre_file)
    lists = _entries(genres).list.eval(pl.element().filter(pl.element() != _NO_GENRES)).alias("genres")
    given = known.get("year", nothing).str.strip_chars().replace("", None).cast(pl.Float64).cast(pl.Int32)
    in_title = titles.str.extract(_YEAR_IN_TITLE).cast(pl.Int32)
    years = pl.select(pl.coalesce(given, in_title).alias("year")).to_series()
    return [titles.alias("title"), lists, years] if "title" in known else [lists, years]


def _texts(cells: pl.Series) -> pl.Series:
    return cells.list.join(_LIST_MARK) if cells.dtype == pl.List(pl.String) else cells.cast(pl.String)


def _flagged(flags: Sequence[pl.Series], genre_file: Path) -> pl.Series:
    """The genres that are flagged, joined by bars; null where their names are not known."""
    rows = list(zip(*(column.to_list() for column in flags), strict=True))
    try:
        content = with_plain_ends(genre_file.read_bytes()).decode("latin-1")
    except OSError:
        return pl.Series([None] * len(rows), dtype=pl.String)
    names = [fields[0] for _, fields in records(content, _LIST_MARK, quoted=False)]
    if len(flags) != len(names):
        problem = f"{len(names)} genres for {len(flags)} flags"
        raise DataError(problem, file=genre_file, expected="a name for each flag of u.item")
    return pl.Series(
        [_LIST_MARK.join(name for name, flag in zip(names, row, strict=True) if flag == "1") for row in rows]
    )


def _typed(cells: pl.Series, is_text: bool) -> pl.Series:
    """Text cells as integers if all are, else as numbers if all are; texts become lists if one of them has bars."""
    if is_text:
        cells = cells.str.strip_chars().replace("", None)
        known = cells.drop_nulls()
        if len(known) and is_canonical_integer(known).all():
            return cells.cast(pl.Int64)
        if len(known) and known.str.contains(_FRACTION).all():
            numbers = cells.cast(pl.Float64, strict=False)
            if numbers.null_count() == cells.null_count() and numbers.is_finite().fill_null(True).all():
                return numbers
    if cells.dtype in (pl.Categorical, pl.Enum):
        cells = cells.cast(pl.String)
    has_bars = cells.dtype == pl.String and cells.str.contains(_LIST_MARK, literal=True).any()
    return _entries(cells) if has_bars else cells


def _entries(cells: pl.Series) -> pl.Series:
    """The entries of each cell, which bars separate; blank ones are left out."""
    parts = pl.element().str.strip_chars()
    return cells.str.split(_LIST_MARK).list.eval(parts.filter(parts != "")).alias(cells.name)
