"""Ratings, pairs, histories and lists of items from files, recognised by what is in them.

`layout.sniff` finds out how a file is laid out, `_observe` makes records of a file of that layout. A new format
is a new kind: a case in both.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from tastespace.data.formats.content import ask_parquet, named_faults, read_plain
from tastespace.data.formats.descriptions import (
    Shape,
    SideName,
    describe_frame,
    describe_side,
    described,
    read_descriptions,
)
from tastespace.data.formats.json_lines import read_json_lines
from tastespace.data.formats.layout import NETFLIX, OWN_RATING, PAIR, RATING, RATINGS, Layout, Sought, SoughtItems
from tastespace.data.formats.layout import sniff as sniff_file
from tastespace.data.formats.netflix import is_netflix, read_netflix
from tastespace.data.formats.text import read_delimited
from tastespace.data.kinds import CHOICES, Kind, check_kind
from tastespace.data.ratings import Duplicates, Ratings
from tastespace.data.tables import USUAL_NAMES, Cells, Observed, Side, usual_column, warn_of_rejected
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError, DataWarning, InvalidParameterError, warn
from tastespace.settings import suggests

AnyPath = str | os.PathLike[str]
BadLines = Literal["error", "skip"]

_A_FILE = "a file of ratings"
# What data sets call the file of ratings in their folder, the most likely first.
_IN_FOLDERS = ("u.data", "ratings.dat", "ratings.csv", "ratings.parquet")


@suggests
def read(
    path: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    time: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    items: Any = None,
    users: Any = None,
    item_id: str | None = None,
    item_separator: str | None = None,
    title: str | None = None,
    list_separator: str | None = None,
    item_features: str | Sequence[str] | None = None,
    user_features: str | Sequence[str] | None = None,
    duplicates: Duplicates | None = None,
    bad_lines: BadLines = "error",
    kind: Kind | None = None,
) -> Ratings:
    """Ratings from a file of delimited text, JSON lines or Parquet; what is not said is recognized from the content.

    A frame of polars or pandas, and the name of a data set such as "movielens-demo", are read, too.

    Text may be compressed (.gz, .zst). Without a header the columns are user, item, rating and perhaps time. Ids are
    integers where all of a column are written as integers are, without quotation marks; else strings. A folder is read
    by the file of ratings in it.

    Titles and attributes come from the files `items` and `users`, which may have any of these formats, or be frames;
    or from the files that MovieLens puts beside the ratings. The column of ids is found by its name or its values, that
    of titles by its name, and what separates the entries of a list such as "Action, Comedy" by the entries:
    `item_id`, `title`, `item_separator` and `list_separator` overrule. Items that nobody has rated are kept.
    `item_features` and `user_features` are names of attributes, "all", "bag" or files (see
    `Ratings.with_item_features`), in a list or separated by commas.

    `kind` is the feedback type ("stars", "yes-no", "counts" or "one-class"); None is to guess (see
    `Ratings.with_kind`). In a file of users and items alone, perhaps with times, each line is a choice.

    A pair that is there more than once counts once: with its last rating, or the `mean` or `sum` of them; `error`
    refuses. The default is the last rating, but the sum for choices and for declared counts.

    A line that cannot be read raises a `DataError` that names it; `bad_lines="skip"` leaves such lines out and warns
    how many.
    """
    skip = _skips(bad_lines)
    if kind is not None:
        check_kind(kind)
    wanted = {"user": user, "item": item, "rating": rating, "time": time}
    shapes = {
        "item": Shape(item_id, title, item_separator, list_separator),
        "user": Shape(),
    }
    file = Path(path) if isinstance(path, str | os.PathLike) else Path()
    if not isinstance(path, str | os.PathLike):
        ratings = _from_memory(path, wanted, duplicates, kind)
    elif (source := _data_set(path)) is not None:
        ratings = source.load()
        ratings = ratings if kind is None else ratings.with_kind(kind)
    elif is_netflix(file):
        if skip or any(option is not None for option in (*wanted.values(), separator, header)):
            raise InvalidParameterError(
                f"{path} has the layout of the Netflix Prize; expected neither columns, separator, header nor bad lines"
            )
        with named_faults(file, _A_FILE):
            ratings = read_netflix(file, duplicates=duplicates)
            ratings = ratings if kind is None else ratings.with_kind(kind)
    else:
        file = _in_folder(file)
        _, observed = _observe(file, Sought(RATING, wanted, kind in CHOICES, separator, header), skip)
        with named_faults(file, _A_FILE):
            ratings = Ratings.from_observed(observed, duplicates=duplicates, kind=kind)
        nobody_said = duplicates is None and kind is None and observed.values is not None
        if nobody_said and ratings.merged and ratings.kind == "counts":
            warn(
                f"{file}: the values seem to be counts ({ratings.kind_and_reason.reason}), and for pairs that occur "
                f"more than once the last was kept: {ratings.merged:,} others were not. Say that the kind is counts, "
                "or duplicates sum, to add them up; or duplicates last"
            )
    sides: tuple[tuple[SideName, Any], ...] = (("item", items), ("user", users))
    for side, given in sides:
        if given is not None and not isinstance(given, str | os.PathLike):
            table = describe_frame(given, side, ratings.items if side == "item" else ratings.users, shapes[side])
            ratings = described(ratings, table, side, keeps_unrated=side == "item")
        else:
            given = None if given is None else Path(given)
            ratings = describe_side(ratings, file, given, side, skip=skip, shape=shapes[side])
    return with_features(ratings, item_features, user_features)


def ratings_of(source: Any, name: str) -> Ratings:
    """Ratings as they are, or read from anything that `read` takes; `name` is the parameter, for messages."""
    if isinstance(source, Ratings):
        return source
    if isinstance(source, str | os.PathLike | pl.LazyFrame) or hasattr(source, "tocsr") or hasattr(source, "columns"):
        return read(source)
    raise InvalidParameterError(
        f"{name} got {type(source).__name__}; expected Ratings, a frame with the columns user, item and rating, a "
        "sparse matrix of users and items, a file, or the name of a data set"
    )


def _from_memory(
    source: Any, wanted: Mapping[str, str | None], duplicates: Duplicates | None, kind: Kind | None
) -> Ratings:
    """Ratings from a frame, a sparse matrix or other ratings."""
    if isinstance(source, Ratings):
        return source if kind is None else source.with_kind(kind)
    if hasattr(source, "tocsr"):
        ratings = Ratings.from_sparse(source, duplicates=duplicates)
        return ratings if kind is None else ratings.with_kind(kind)
    return Ratings.from_frame(source, **wanted, duplicates=duplicates, kind=kind)


def _data_set(path: AnyPath) -> Any:
    """The data set of this name; None for a file or folder."""
    from tastespace.data.sources import resolve  # which are built on this module

    return resolve(path)


def with_features(
    ratings: Ratings, item_features: str | Sequence[str] | None, user_features: str | Sequence[str] | None
) -> Ratings:
    """The ratings with features that are named in a list, or separated by commas."""
    if item_features is not None:
        ratings = ratings.with_item_features(*_names(item_features))
    return ratings if user_features is None else ratings.with_user_features(*_names(user_features))


def read_test(path: AnyPath, **arguments: Any) -> Ratings:
    """The same for test ratings of a model that was fitted on ratings read with these arguments.

    What is known of their items and users counts where features are asked for, also of those that are not in training;
    files that know none of them, and what was said of the training ratings already, are no reason to warn.
    """
    asked = {side: arguments.pop(f"{side}_features", None) for side in ("item", "user")}
    files = {side: arguments.pop(f"{side}s", None) for side in ("item", "user")}
    of_items = [arguments.pop(name, None) for name in ("item_id", "title", "item_separator", "list_separator")]
    tested = read(path, **arguments)
    for side in ("item", "user"):
        if asked[side] is None:
            continue
        shape = Shape(*of_items) if side == "item" else Shape()
        with warnings.catch_warnings(), suppress(DataError):
            warnings.simplefilter("ignore", DataWarning)
            if files[side] is not None:
                known = tested.items if side == "item" else tested.users
                tested = described(tested, read_descriptions(Path(files[side]), side, shape=shape, ids=known), side)
            tested = with_features(tested, *((asked[side], None) if side == "item" else (None, asked[side])))
    return tested


def _names(features: str | Sequence[str]) -> list[Any]:
    if isinstance(features, str):
        return [name.strip() for name in features.split(",") if name.strip()]
    return list(features)


def read_pairs(
    path: AnyPath,
    *,
    user: str | None = None,
    item: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    bad_lines: BadLines = "error",
) -> tuple[pl.Series, pl.Series]:
    """The user ids and item ids of a file that asks for predictions; further columns are ignored."""
    sought = Sought(PAIR, {"user": user, "item": item}, separator=separator, header=header)
    _, observed = _observe(Path(path), sought, _skips(bad_lines))
    assert observed.users is not None
    return observed.users.ids(), observed.items.ids()


def read_history(path: AnyPath, user: str, *, bad_lines: BadLines = "error") -> Ratings:
    """Ratings or choices of any users; those of a file without a user column all belong to `user`."""
    _, observed = _observe(Path(path), Sought(OWN_RATING), _skips(bad_lines))
    if observed.users is None:
        one = Side(Vocabulary(pl.Series("user", [user])), np.zeros(len(observed.items.rows), np.int32))
        observed = replace(observed, users=one)
    with named_faults(Path(path), _A_FILE):
        return Ratings.from_observed(observed)


def has_users(path: AnyPath) -> bool:
    """Whether a history names its users."""
    return usual_column(sniff(path, Sought(OWN_RATING)).columns, USUAL_NAMES["user"]) is not None


def read_item_list(path: AnyPath, *, bad_lines: BadLines = "error") -> pl.DataFrame:
    """A table with a column item, and a column user if the file has one, as `exclude` and `only` take it.

    Text with one column has one item per line, with or without a header. With more columns a header must say which is
    the item: a guess would leave things out, or let them through, without anyone noticing.
    """
    sought = SoughtItems()
    layout, observed = _observe(Path(path), sought, _skips(bad_lines), expected=sought.expected)
    items = observed.items.ids()
    if layout.kind == "text" and len(layout.columns) == 1:
        items = items.cast(pl.String)  # as typed
    return pl.DataFrame({"item": items} if observed.users is None else {"user": observed.users.ids(), "item": items})


def sniff(
    path: AnyPath, sought: Sought = RATINGS, *, separator: str | None = None, header: bool | None = None
) -> Layout:
    """The layout of a file, as far as it can be detected; what the caller passes is taken as given."""
    if is_netflix(Path(path)):
        return NETFLIX
    file = _in_folder(Path(path))
    with named_faults(file, _A_FILE):
        return sniff_file(file, replace(sought, separator=separator, header=header))


def _skips(bad_lines: str) -> bool:
    if bad_lines not in ("error", "skip"):
        raise InvalidParameterError(f"bad_lines is {bad_lines!r}; expected error or skip")
    return bad_lines == "skip"


def _observe(file: Path, sought: Sought, skip: bool, *, expected: str = _A_FILE) -> tuple[Layout, Observed]:
    """The records of a file, and how it is laid out."""
    with named_faults(file, expected):
        layout = sniff_file(file, sought)
        parts = layout.parts
        if layout.kind == "parquet":
            stored = ask_parquet(file, lambda table: table.select(parts.values()).collect())
            observed = Cells.of(stored).observed(parts, skip=skip)
        elif layout.kind == "jsonl":
            observed = read_json_lines(read_plain(file, layout.compression), parts, skip=skip)
        else:
            shape = (layout.columns, parts, str(layout.separator), layout.has_header)
            observed = read_delimited(read_plain(file, layout.compression), *shape, skip=skip)
    warn_of_rejected(file, observed.rejected, len(observed.items.rows), observed.first_fault)
    return layout, observed


def _in_folder(path: Path) -> Path:
    """The file of ratings in a folder; a file is returned unchanged."""
    if not path.is_dir():
        return path
    for name in _IN_FOLDERS:
        if (path / name).is_file():
            return path / name
    raise DataError("this is a folder", file=path, expected=f"a file of ratings, or a folder with {_IN_FOLDERS[0]} …")
