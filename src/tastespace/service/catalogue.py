"""Items that were added, described again or removed since the model was fitted: in the database, for all workers.

Every change gets a number, the largest of which tells a worker whether it has seen all of them. A worker that has not
makes its model know the items before it answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, DateTime, String, Table, Text

from tastespace.arrays import IntArray
from tastespace.data.feature_sources import find_column
from tastespace.data.newcomers import new_items, newcomers_of
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import is_canonical_integer
from tastespace.errors import TastespaceError, UnknownIdError
from tastespace.models import Recommender
from tastespace.models.base.update import TrainingSummary, merge
from tastespace.service.store import Store, metadata

items = Table(
    "items",
    metadata,
    Column("id", String, primary_key=True),
    Column("title", Text),
    Column("facts", Text, nullable=False),  # JSON: attributes and features by name
    Column("is_deleted", Boolean, nullable=False),
    Column("changed", BigInteger, nullable=False, index=True),  # the number of the last change
    Column("changed_at", DateTime(timezone=True), nullable=False),
)
NEWEST = sa.select(sa.func.max(items.c.changed))  # executed with every request: built once
LOCK = 7412367  # any number, always the same; those of the store are the ones before


class KnownItemError(TastespaceError):
    """An item that is to be added is there already."""


@dataclass(frozen=True)
class StoredItem:
    """What was said of an item."""

    id: str
    title: str | None
    facts: Mapping[str, Any]
    is_deleted: bool = False

    def described(self) -> dict[str, Any]:
        return {**self.facts, **({} if self.title is None else {"title": self.title})}


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The items in the database."""

    store: Store

    def revision(self) -> int:
        """The number of the last change; 0 before the first."""
        with self.store.read() as connection:
            return int(connection.execute(NEWEST).scalar() or 0)

    def all(self) -> list[StoredItem]:
        """Every item, in the order of their last changes."""
        with self.store.read() as connection:
            rows = connection.execute(sa.select(items).order_by(items.c.changed, items.c.id))
            return [_item_of(row) for row in rows]

    def find(self, item: str) -> StoredItem | None:
        with self.store.read() as connection:
            row = connection.execute(sa.select(items).where(items.c.id == item)).first()
        return None if row is None else _item_of(row)

    def add(self, new: Sequence[StoredItem]) -> None:
        """Store new items, all or none; one that is there, and was not removed, is an error."""

        def write(connection: sa.Connection) -> None:
            number = self._next(connection)
            ids = [one.id for one in new]
            there = connection.execute(
                sa.select(items.c.id).where(items.c.id.in_(ids), items.c.is_deleted.is_(False))
            ).scalars()
            if known := sorted(there):
                raise KnownItemError(
                    f"the item {known[0]!r} is there already; expected a new id, or PATCH for this one"
                )
            self._put(connection, new, number)

        self.store.written(write)

    def change(self, item: str, title: str | None, facts: Mapping[str, Any], *, is_known: bool) -> StoredItem:
        """Say more about an item: what is given replaces what was said, null removes it, all else stays.

        An item that is not in the database may still be one that the model knows.
        """

        def write(connection: sa.Connection) -> StoredItem:
            number = self._next(connection)
            row = connection.execute(sa.select(items).where(items.c.id == item)).first()
            before = StoredItem(item, None, {}) if row is None else _item_of(row)
            if before.is_deleted or (row is None and not is_known):
                raise UnknownIdError(f"there is no item {item!r}")
            merged = {**before.facts, **facts}
            kept = merged if is_known else {name: value for name, value in merged.items() if value is not None}
            after = StoredItem(item, before.title if title is None else title, kept)
            self._put(connection, [after], number)
            return after

        return self.store.written(write)

    def remove(self, item: str, *, is_known: bool) -> None:
        """Never show an item again; one that nobody knows is an error."""

        def write(connection: sa.Connection) -> None:
            number = self._next(connection)
            row = connection.execute(sa.select(items).where(items.c.id == item)).first()
            if (row is None and not is_known) or (row is not None and row.is_deleted):
                raise UnknownIdError(f"there is no item {item!r}")
            before = StoredItem(item, None, {}) if row is None else _item_of(row)
            self._put(connection, [replace(before, is_deleted=True)], number)

        self.store.written(write)

    def _next(self, connection: sa.Connection) -> int:
        """The number of the next change; others who write items wait, so that numbers appear in their order."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        return int(connection.execute(NEWEST).scalar() or 0) + 1

    def _put(self, connection: sa.Connection, new: Sequence[StoredItem], number: int) -> None:
        now = datetime.now(UTC)
        rows = [
            {
                "id": one.id,
                "title": one.title,
                "facts": json.dumps(dict(one.facts), ensure_ascii=False, allow_nan=False),
                "is_deleted": one.is_deleted,
                "changed": number,
                "changed_at": now,
            }
            for one in new
        ]
        connection.execute(sa.delete(items).where(items.c.id.in_([one.id for one in new])))
        connection.execute(sa.insert(items), rows)


def _item_of(row: Any) -> StoredItem:
    return StoredItem(row.id, row.title, json.loads(row.facts), bool(row.is_deleted))


@dataclass(frozen=True, eq=False)
class Stocked:
    """A model that knows the items of the database; `waiting` are those that it can only learn by another fit."""

    recommender: Recommender
    removed: tuple[str, ...] = ()  # never to be shown
    waiting: tuple[str, ...] = ()


def can_grow(recommender: Recommender) -> bool:
    """Whether the model can take new items without being fitted again, and has the ratings that it needs for it."""
    features = recommender.ratings_.item_features
    by_features = recommender.placed is not None and features is not None
    return (recommender.kept_up is not None or by_features) and len(recommender.ratings_) > 0


def stocked(recommender: Recommender, stored: Sequence[StoredItem]) -> Stocked:
    """The model with the items of the database: new ones added, others described anew, removed ones left out."""
    removed = tuple(one.id for one in stored if one.is_deleted)
    there = [one for one in stored if not one.is_deleted]
    ids = pl.Series("item", [one.id for one in there], dtype=pl.String)
    is_new = recommender.ratings_.items.rows_of(ids) < 0
    fresh = [one for one, new in zip(there, is_new, strict=True) if new]
    known = [one for one, new in zip(there, is_new, strict=True) if not new]
    if known:
        recommender = _with_ratings(recommender, _described(recommender.ratings_, known))
    if not fresh:
        return Stocked(recommender, removed)
    if not can_grow(recommender):
        return Stocked(recommender, removed, tuple(one.id for one in fresh))
    return Stocked(recommender.with_items(described(fresh, recommender.ratings_)), removed)


def _with_ratings(recommender: Recommender, ratings: Ratings) -> Recommender:
    """The same model with other descriptions of its items; what it learned from features stays until the next fit."""
    other = copy(recommender)
    other.restore(ratings, recommender.posterior_, recommender.seed_, recommender.rating_range_, recommender.seen_)
    other.news_, other.index_, other.choice_ = recommender.news_, recommender.index_, recommender.choice_
    return other


def described(stored: Sequence[StoredItem], like: Ratings) -> dict[Any, dict[str, Any]]:
    """What is said of items, by ids of the type that the ratings have."""
    ids = pl.Series("item", [one.id for one in stored], dtype=pl.String)
    if like.items.ids.dtype == pl.Int64 and is_canonical_integer(ids).all():
        return {int(one.id): one.described() for one in stored}
    return {one.id: one.described() for one in stored}


def check_new(new: Sequence[StoredItem], recommender: Recommender) -> tuple[str, ...]:
    """Remarks on new items in the terms of the model; an error if what is said cannot be read."""
    _, remarks = new_items(described(new, recommender.ratings_), recommender.ratings_)
    return remarks


def catalogued(ratings: Ratings, stored: Sequence[StoredItem]) -> Ratings:
    """The ratings with what is said of items in the database, and with those that nobody has rated.

    Removed items stay: their ratings still tell tastes.
    """
    there = [one for one in stored if not one.is_deleted]
    ids = pl.Series("item", [one.id for one in there], dtype=pl.String)
    is_new = ratings.items.rows_of(ids) < 0
    if known := [one for one, new in zip(there, is_new, strict=True) if not new]:
        ratings = _described(ratings, known)
    fresh = [one for one, new in zip(there, is_new, strict=True) if new]
    if not fresh:
        return ratings
    made, _ = new_items(described(fresh, ratings), ratings)
    return merge(ratings, made, TrainingSummary.of(ratings), warns=False).ratings


def _described(ratings: Ratings, known: Sequence[StoredItem]) -> Ratings:
    """Titles, attributes and features of items of the ratings as they are said to be now."""
    found = newcomers_of(described(known, ratings), "item", ratings)
    rows = ratings.items.rows_of(found.ids.ids)
    titles, attributes, features = ratings.item_titles, ratings.item_attributes, ratings.item_features
    if titles is not None and found.titles is not None:
        titles = _changed(titles, rows, found.titles, found.titles.is_not_null().to_list())
    if attributes is not None and found.attributes is not None:
        attributes = _changed_columns(attributes, rows, found.attributes, known)
    if features is not None and found.features is not None and features.cells.width:
        features = replace(features, cells=_changed_columns(features.cells, rows, found.features.cells, known))
    return replace(ratings.with_items(titles, attributes), item_features=features)


def _changed_columns(
    before: pl.DataFrame, rows: IntArray, now: pl.DataFrame, known: Sequence[StoredItem]
) -> pl.DataFrame:
    """The columns with new values where something was said of them."""
    columns = []
    for name in before.columns:
        is_said = [find_column(name, list(one.facts)) is not None for one in known]
        can_change = name in now.columns and any(is_said)
        columns.append(_changed(before[name], rows, now[name], is_said) if can_change else before[name])
    return pl.DataFrame(columns)


def _changed(before: pl.Series, rows: IntArray, now: pl.Series, is_said: list[bool]) -> pl.Series:
    """A column with other values in the rows of which something was said."""
    places = np.arange(len(before))
    said = np.flatnonzero(is_said)
    places[rows[said]] = len(before) + said
    return pl.concat([before, now.alias(before.name)]).gather(pl.Series(places))
