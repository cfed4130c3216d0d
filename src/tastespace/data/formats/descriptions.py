"""Files that describe items or users: titles, genres, years and any other columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from tastespace.data.formats.content import ask_parquet, named_faults, read_plain
from tastespace.data.formats.json_lines import read_json_cells
from tastespace.data.formats.layout import FIRST_FLAG, SOUGHT_OF, Layout, Sought, sniff
from tastespace.data.formats.text import read_cells, records, with_plain_ends
from tastespace.data.ratings import Ratings
from tastespace.data.tables import Cells, frame_columns, series_of, warn_of_rejected
from tastespace.data.vocabulary import Vocabulary, is_canonical_integer
from tastespace.errors import DataError, named, warn

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
_OFTEN_AGAIN = 0.5  # share of the parts of texts that occur more than once from which the texts are lists
_FEW_LISTS = 0.02  # share of texts with a mark between entries from which they may be lists
_MOSTLY = 0.9  # share of different values from which a column may hold ids
_ENTITY = r"&(#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+);"  # of HTML
# A number in a cell. With leading zeros it is a code, such as a postcode, and stays the text that it is.
_FRACTION = r"^[+-]?(0|[1-9]\d*)?(\.\d+)?([eE][+-]?\d+)?$"
_YEAR, _YEAR_IN_TITLE = r"^-?\d{1,4}(\.0*)?$", r"\((\d{4})\)\s*$"
_ROW = " row"  # no column of a file, whose names are stripped


@dataclass(frozen=True)
class Shape:
    """What the caller knows of a file of items or users; all else is found out."""

    id: str | None = None  # names of columns
    title: str | None = None
    separator: str | None = None
    list_separator: str | None = None  # between the entries of a cell, such as genres


AS_FOUND = Shape()


def describe_side(
    ratings: Ratings,
    ratings_file: Path,
    given: Path | None,
    side: SideName,
    *,
    skip: bool = False,
    shape: Shape = AS_FOUND,
) -> Ratings:
    """The ratings with the descriptions in a file, or in the one that MovieLens puts beside the ratings.

    A file that the caller named must be valid, and its items that nobody has rated are kept; one that was only found
    beside the ratings is skipped with a warning.
    """
    file = given or _sibling_of(ratings_file, side)
    if file is None:
        return ratings
    try:
        known = ratings.items if side == "item" else ratings.users
        table = read_descriptions(file, side, skip=skip, shape=shape, ids=known)
        return described(ratings, table, side, file=file, keeps_unrated=given is not None and side == "item")
    except DataError as error:
        if given is not None:
            raise
        warn(f"no {'titles' if side == 'item' else 'attributes of users'}: {error}")
        return ratings


def _sibling_of(ratings_file: Path, side: SideName) -> Path | None:
    """The file of items or users that MovieLens keeps beside a file of this name, if it is there."""
    found = (ratings_file.with_name(name) for pattern, name in _SIBLINGS[side] if pattern.fullmatch(ratings_file.name))
    return next(filter(Path.exists, found), None)


def described(
    ratings: Ratings,
    table: pl.DataFrame,
    side: SideName = "item",
    *,
    file: Path | None = None,
    keeps_unrated: bool = False,
) -> Ratings:
    """The ratings with the description of each id: the column `title`, and all others as attributes."""
    vocabulary = ratings.items if side == "item" else ratings.users
    if not (vocabulary.rows_of(table["id"]) >= 0).any() and (file is not None or keeps_unrated):
        problem = f"none of its {table.height} {side}s is among the {len(vocabulary)} that "
        problem += f"{'were rated' if side == 'item' else 'rated'}, such as {named(vocabulary.ids)}"
        raise DataError(problem, file=file, expected=f"the {side}s of these ratings")
    if keeps_unrated:
        ratings = _with_unrated(ratings, table["id"])
        vocabulary = ratings.items
    rows = pl.Series(_ROW, vocabulary.rows_of(table["id"]))
    told = table.drop("id").with_columns(rows).filter(pl.col(_ROW) >= 0)
    told = told.unique(_ROW, keep="first", maintain_order=True)
    every = pl.DataFrame({_ROW: np.arange(len(vocabulary), dtype=np.int32)})
    joined = every.join(told, on=_ROW, how="left", maintain_order="left").drop(_ROW)
    attributes = joined.drop("title", strict=False)
    known = attributes if attributes.width else None
    if side == "user":
        return replace(ratings, user_attributes=known)
    return replace(ratings, item_titles=joined.get_column("title", default=None), item_attributes=known)


def _with_unrated(ratings: Ratings, ids: pl.Series) -> Ratings:
    """The ratings with further items that nobody has rated: cold ones."""
    known = ratings.items
    new = ids.filter(known.rows_of(ids) < 0).unique(maintain_order=True)
    if known.ids.dtype != pl.String:
        new = new.filter(is_canonical_integer(new.cast(pl.String)))
    if len(new) > len(known):
        warn(
            f"{len(new):,} of the described items have no ratings, more than the {len(known):,} that have, and are "
            "left out; to recommend them: MODEL.with_items(...) after the fit"
        )
        return ratings
    if not len(new):
        return ratings
    items = Vocabulary(pl.concat([known.ids, new.cast(known.ids.dtype).alias(known.ids.name)]))
    places = np.concatenate([np.arange(len(known)), np.full(len(new), -1)]).astype(np.int32)
    features = None if ratings.item_features is None else ratings.item_features.take(places, items)
    return replace(ratings, items=items, item_titles=None, item_attributes=None, item_features=features)


def describe_frame(frame: Any, side: SideName, ids: Vocabulary, shape: Shape = AS_FOUND) -> pl.DataFrame:
    """A frame of items or users as `read_descriptions` would give it; `{id: {"title": ...}}` is one, too."""
    if isinstance(frame, Mapping):
        rows = [entry if isinstance(entry, Mapping) else {"title": entry} for entry in frame.values()]
        frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.Series("id", [*map(str, frame)]))
    elif isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    columns = [_series(column).alias(name) for name, column in frame_columns(frame)]
    cells = Cells(tuple(column.name for column in columns), columns)
    sought = _sought(side, shape)
    layout = Layout("parquet", None, True, cells.names, sought.parts(cells.names))
    return _table_of(cells, _with_id(layout, cells, sought, ids), side, shape)


def _series(values: Any) -> pl.Series:
    if isinstance(values, pl.Series):
        return values
    entries = values.tolist() if getattr(getattr(values, "dtype", None), "kind", None) == "O" else None
    if entries is not None and any(isinstance(entry, list | tuple | np.ndarray) for entry in entries):
        return pl.Series([list(entry) if isinstance(entry, list | tuple | np.ndarray) else None for entry in entries])
    return series_of(values)


def read_descriptions(
    file: Path,
    side: SideName = "item",
    *,
    skip: bool = False,
    shape: Shape = AS_FOUND,
    ids: Vocabulary | None = None,
) -> pl.DataFrame:
    """A table with the id of each item or user and all other columns; for items, title, genres and year come first.

    Missing genres and years are null. Lines that cannot be read are an error, or set aside and counted. `ids` are those
    of the ratings: a column is recognized by them if its name does not tell.
    """
    with named_faults(file, SOUGHT_OF[side].expected):
        layout, cells = _observe(file, side, skip, shape, ids)
        for part in ("id", "year"):
            if part in layout.parts:
                cells = _checked(cells, layout.parts[part], part, side, skip)
        warn_of_rejected(file, len(cells.faults), len(cells.columns[0]), next(iter(cells.faults), None))
        return _table_of(cells, layout, side, shape, file.with_name("u.genre"))


def layout_of_descriptions(file: Path, side: SideName, ids: Vocabulary, shape: Shape = AS_FOUND) -> Layout:
    """How a file of items or users of some ratings would be read."""
    with named_faults(file, SOUGHT_OF[side].expected):
        return _observe(file, side, True, shape, ids)[0]


def _observe(file: Path, side: SideName, skip: bool, shape: Shape, ids: Vocabulary | None) -> tuple[Layout, Cells]:
    sought = _sought(side, shape)
    layout = sniff(file, sought)
    cells = _read(file, layout, skip)
    return _with_id(layout, cells, sought, ids), cells


def _sought(side: SideName, shape: Shape) -> Sought:
    wanted = {"id": shape.id, "title": shape.title}
    return replace(SOUGHT_OF[side], wanted=wanted, separator=shape.separator)


def _with_id(layout: Layout, cells: Cells, sought: Sought, ids: Vocabulary | None) -> Layout:
    """The layout with the column of ids: the one that is called so, or whose values are ids of the ratings."""
    name = layout.parts.get("id")
    if ids is not None and sought.wanted.get("id") is None and (name is None or not _share(cells.column(name), ids)):
        others = [one for one in cells.names if one and one != layout.parts.get("title")]
        shares = {one: _share(cells.column(one), ids) for one in others}
        best = max(others, key=shares.__getitem__, default=None)
        name = best if best is not None and shares[best] > 0 else name
    if name is None:
        named_columns = ", ".join(filter(None, cells.names))
        such = "" if ids is None else f", by name or by values such as {named(ids.ids)}"
        how = "; or say which it is (--item-id, in Python item_id=)" if sought is not SOUGHT_OF["user"] else ""
        raise DataError(f"no column for the id among {named_columns}{such}", expected=sought.expected + how)
    return replace(layout, parts={"id": name} | {part: one for part, one in layout.parts.items() if part != "id"})


def _share(column: pl.Series, ids: Vocabulary) -> float:
    """The share of the values that are ids of the ratings; 0 where values are repeated, as ids are not."""
    known = column.drop_nulls()
    try:
        each = (known.str.strip_chars() if known.dtype == pl.String else known).unique()
        rows = ids.rows_of(each.filter(each != "") if each.dtype == pl.String else each)
    except DataError:  # values that cannot be ids
        return 0.0
    return float((rows >= 0).mean()) if len(rows) and len(each) >= _MOSTLY * len(known) else 0.0


def _table_of(
    cells: Cells, layout: Layout, side: SideName, shape: Shape, genre_file: Path | None = None
) -> pl.DataFrame:
    """The cells as a table with the column `id`; title, genres and year of items come next."""
    ids = cells.column(layout.parts["id"])
    columns = [_texts(ids.cast(pl.Int64) if ids.dtype.is_float() else ids).str.strip_chars().alias("id")]
    if side == "item":
        columns += _item_columns(cells, layout, genre_file, shape.list_separator)
    if not layout.has_header and side == "item" and len(layout.columns) == len(layout.parts):
        return pl.DataFrame(columns)
    if not layout.has_header and side == "item" and "flag 5" in layout.columns:
        return pl.DataFrame(columns)
    places = {cells.names.index(name) for name in layout.parts.values()}
    taken = ["id", "title", "genres", "year"] if side == "item" else ["id"]
    for place, (name, column) in enumerate(zip(cells.names, cells.columns, strict=True)):
        if place in places or (not name and (_texts(column).fill_null("").str.strip_chars() == "").all()):
            continue
        if name == "occupation" and not layout.has_header:
            column = column.replace({str(code): name for code, name in _OCCUPATIONS.items()})
        # An empty or repeated name is extended by its position.
        is_new = name.strip() not in ("", *taken)
        taken.append(name.strip() if is_new else f"{name.strip()} column {place + 1}".strip())
        columns.append(_typed(column.alias(taken[-1]), layout.kind == "text", shape.list_separator))
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


def _item_columns(cells: Cells, layout: Layout, genre_file: Path | None, mark: str | None) -> list[pl.Series]:
    """Title (if there are titles), genres and year."""
    known = {part: cells.column(name) for part, name in layout.parts.items()}
    nothing = pl.Series([None] * len(known["id"]), dtype=pl.String)
    titles = _texts(known.get("title", nothing)).str.strip_chars().replace("", None)
    if titles.str.contains(_ENTITY).any():
        titles = titles.map_elements(unescape, pl.String)
    genres = known.get("genres", nothing)
    if not layout.has_header and "flag 5" in layout.columns and genre_file is not None:
        genres = _flagged(cells.columns[FIRST_FLAG:], genre_file)
    is_list = genres.dtype == pl.List(pl.String)
    lists = genres if is_list else entries_of(genres.cast(pl.String), mark or list_mark(genres, _LIST_MARK))
    lists = lists.list.eval(pl.element().filter(pl.element() != _NO_GENRES)).alias("genres")
    given = _texts(known.get("year", nothing)).str.strip_chars().replace("", None).cast(pl.Float64).cast(pl.Int32)
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


def _typed(cells: pl.Series, is_text: bool, mark: str | None) -> pl.Series:
    """Text cells as integers if all are, else as numbers if all are; texts that are lists become lists."""
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
    if cells.dtype != pl.String:
        return cells
    found = mark if mark is not None and cells.str.contains(mark, literal=True).any() else list_mark(cells)
    return cells if found is None else entries_of(cells, found)


def list_mark(cells: pl.Series, otherwise: str | None = None) -> str | None:
    """What separates the entries of cells that are lists, such as "Drama, Romance"; bars always do.

    What tells a list from a sentence or a title is that its parts occur again and again.
    """
    known = cells.cast(pl.String).drop_nulls()
    if known.str.contains(_LIST_MARK, literal=True).any():
        return _LIST_MARK
    mark = ";" if known.str.contains(";", literal=True).any() else ","
    if not len(known) or known.str.contains(rf"{mark}\s*\S").sum() < _FEW_LISTS * len(known):
        return otherwise
    return mark if reuse(known.str.split(mark)) >= _OFTEN_AGAIN else otherwise


def reuse(cells: pl.Series) -> float:
    """The share of the entries whose text occurs more than once."""
    entries = cells.drop_nulls()
    entries = entries.explode() if isinstance(entries.dtype, pl.List) else entries
    counts = entries.str.strip_chars().value_counts()["count"].to_numpy()
    return float(counts[counts > 1].sum() / max(counts.sum(), 1))


def entries_of(cells: pl.Series, mark: str | None) -> pl.Series:
    """The entries of each cell, without blank ones."""
    parts = pl.element().str.strip_chars()
    return cells.str.split(mark or _LIST_MARK).list.eval(parts.filter(parts != "")).alias(cells.name)
