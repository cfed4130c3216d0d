"""New items and users, described in the same terms as those of the training ratings.

What a model knows of its items are titles, attributes (for filters) and features; a description of new ones, in any
form, is read in these terms. What the model was not fitted with cannot count, and is named in a remark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tastespace.data.feature_sources import SideName, as_vectors, find_column, table_and_ids
from tastespace.data.features import Features, normalised
from tastespace.data.formats.layout import DESCRIBED
from tastespace.data.ratings import Ratings
from tastespace.data.tables import usual_column
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError, InvalidParameterError


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Items or users with what is said of them, a row each."""

    ids: Vocabulary
    titles: pl.Series | None
    attributes: pl.DataFrame | None
    features: Features | None
    remarks: tuple[str, ...] = ()


def newcomers_of(source: Any, side: SideName, like: Ratings) -> Newcomers:
    """A frame, a file, `{id: {"genre": ..., "year": ...}}` or `Features`, in the terms of these ratings."""
    known = like.item_features if side == "item" else like.user_features
    like_attributes = like.item_attributes if side == "item" else like.user_attributes
    if isinstance(source, Features):
        return Newcomers(source.ids, None, _attributes_of(source, like_attributes), source)
    if isinstance(source, np.ndarray):
        raise InvalidParameterError(f"new {side}s are an array; expected a frame or a mapping, which name what is said")
    table, ids, remarks = table_and_ids(source, side)
    title = usual_column(table.columns, DESCRIBED["item"]["title"]) if side == "item" else None
    titles = None if title is None else _typed(table, title, pl.Series("title", [], dtype=pl.String), len(ids))
    used = {title}
    cells: list[pl.Series] = []
    vectors = {}
    for name in () if known is None else known.sources:
        column = find_column(name, table.columns)
        if column is None:
            continue
        used.add(column)
        assert known is not None
        if name in known.vectors:
            vectors[name] = as_vectors(table[column], ids, name)
        else:
            cells.append(normalised(table[column].alias(name), known.kind_of(name), ids))
    features = None if known is None else Features(ids, pl.DataFrame(cells), vectors)
    attributes = None
    if like_attributes is not None:
        found = {name: find_column(name, table.columns) for name in like_attributes.columns}
        used |= set(found.values())
        attributes = pl.DataFrame(
            [_typed(table, column, like_attributes[name], len(ids)) for name, column in found.items()]
        )
    if unknown := [name for name in table.columns if name not in used]:
        remarks = (
            *remarks,
            f"the model was not fitted with {', '.join(unknown)}, which cannot count for new {side}s",
        )
    if features is not None and len(features) and not features.known().any():
        remarks = (*remarks, f"nothing of what the model knows of {side}s is said: {', '.join(features_of(known))}")
    return Newcomers(ids, titles, attributes, features, tuple(remarks))


def features_of(known: Features | None) -> tuple[str, ...]:
    """The names under which features may be given."""
    return () if known is None else known.sources


def new_items(source: Any, like: Ratings) -> tuple[Ratings, tuple[str, ...]]:
    """Items without ratings that these ratings do not have yet; and remarks."""
    if isinstance(source, Ratings):
        found = Newcomers(source.items, source.item_titles, source.item_attributes, source.item_features)
    else:
        found = newcomers_of(source, "item", like)
    new = np.flatnonzero(like.items.rows_of(found.ids.ids) < 0)
    if not len(new):
        raise DataError(f"all {len(found.ids):,} items are known already", expected="items that the model lacks")
    remarks = list(found.remarks)
    if len(new) < len(found.ids):
        remarks.append(
            f"{len(found.ids) - len(new):,} of {len(found.ids):,} items are known already, and stay as they are"
        )
    ids = found.ids.at(new)
    made = Ratings.of_items(
        ids,
        titles=None if found.titles is None else found.titles.gather(pl.Series(new)),
        attributes=None if found.attributes is None else found.attributes[new],
        features=found.features,
    )
    return made, tuple(remarks)


def _attributes_of(features: Features, like: pl.DataFrame | None) -> pl.DataFrame | None:
    """The attributes among features, for filters."""
    names = [] if like is None else [name for name in like.columns if name in features.cells.columns]
    if like is None or not names:
        return None
    return pl.DataFrame([_typed(features.cells, name, like[name], len(features)) for name in names])


def _typed(table: pl.DataFrame, column: str | None, like: pl.Series, n: int) -> pl.Series:
    """A column of the type that the attribute has; nulls if there is none."""
    if column is None:
        return pl.Series(like.name, [None] * n, dtype=like.dtype)
    cells = table[column].alias(like.name)
    if cells.dtype == like.dtype:
        return cells
    if isinstance(like.dtype, pl.List) and not isinstance(cells.dtype, pl.List):
        cells = (
            cells.to_frame()
            .select(pl.when(pl.col(like.name).is_not_null()).then(pl.concat_list(like.name)))
            .to_series()
            .alias(like.name)
        )
    elif isinstance(cells.dtype, pl.List) and not isinstance(like.dtype, pl.List):
        if (cells.list.len() > 1).any():
            raise DataError(f"{like.name} has several values", expected="one for each, as in training")
        cells = cells.list.first()
    try:
        return cells.cast(like.dtype)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{like.name} is of type {cells.dtype}", expected=f"{like.dtype}, as in training") from error
