"""What was shown to users, and how their ratings turned out: two tables of the database, bounded in days."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import polars as pl
import sqlalchemy as sa

from tastespace.service.store import BLOCK, Store, judged, people, shown, utc


class ShownRow(NamedTuple):
    """An item in a list that a user was shown."""

    user_id: str
    item_id: str
    position: int  # from 1
    version: str
    shown_at: datetime


@dataclass(frozen=True)
class JudgedRow:
    """A rating, and what the model believed just before; None where the model believes no such thing."""

    user_id: str
    item_id: str
    version: str
    judged_at: datetime
    value: float
    expected: float | None = None
    sd: float | None = None
    low: float | None = None  # of the interval with 90 %
    high: float | None = None
    is_covered: bool | None = None
    crps: float | None = None
    pit: float | None = None
    liked_probability: float | None = None
    is_liked: bool | None = None
    position: int | None = None  # where it had been shown to the user


@dataclass(frozen=True)
class Records:
    """The two tables."""

    store: Store

    def add_shown(self, rows: Iterable[ShownRow]) -> None:
        """Store what was shown, in place of earlier times that the same was shown to the same user.

        Rows are tuples, handed to the driver as they are: it stores thousands of them a second.
        """
        latest = {row[:2]: row for row in rows}
        ordered = [latest[pair] for pair in sorted(latest)]

        def write(connection: sa.Connection) -> None:
            gone = self._deleted(connection, {row[0]: row[4] for row in ordered})
            is_sqlite = connection.dialect.name == "sqlite"
            kept = [row for row in ordered if row[0] not in gone]
            if is_sqlite:
                texts = {row[4]: row[4].strftime("%Y-%m-%d %H:%M:%S.%f") for row in kept}
                kept = [(*row[:4], texts[row[4]]) for row in kept]  # type: ignore[misc]
            for start in range(0, len(kept), BLOCK):
                connection.exec_driver_sql(UPSERT_SHOWN[is_sqlite], kept[start : start + BLOCK])

        if ordered:
            self.store.written(write)

    def add_judged(self, rows: Collection[JudgedRow]) -> None:
        values = [asdict(row) for row in rows]

        def write(connection: sa.Connection) -> None:
            gone = self._deleted(connection, {row["user_id"]: row["judged_at"] for row in values})
            kept = [row for row in values if row["user_id"] not in gone]
            if kept:
                connection.execute(sa.insert(judged), kept)

        if values:
            self.store.written(write)

    def _deleted(self, connection: sa.Connection, users: dict[str, datetime]) -> set[str]:
        """Those who have been deleted since these times. They are locked, so that nobody is deleted meanwhile."""
        found = set()
        names = sorted(users)
        for start in range(0, len(names), 500):
            some = people.c.id.in_(names[start : start + 500])
            query = sa.select(people.c.id, people.c.deleted_at).where(some).order_by(people.c.id)
            for row in connection.execute(query.with_for_update(read=True)):
                if row.deleted_at is not None and utc(row.deleted_at) >= utc(users[row.id]):
                    found.add(row.id)
        return found

    def shown_to(self, user: str) -> list[ShownRow]:
        with self.store.read() as connection:
            rows = connection.execute(sa.select(shown).where(shown.c.user_id == user))
            return [ShownRow(row.user_id, row.item_id, row.position, row.version, utc(row.shown_at)) for row in rows]

    def judged_since(self, last: int, version: str | None = None) -> pl.DataFrame:
        """Ratings that were judged after the one with this id, in order."""
        query = sa.select(judged).where(judged.c.id > last).order_by(judged.c.id)
        if version is not None:
            query = query.where(judged.c.version == version)
        schema = {column.name: TYPES.get(column.name, pl.Float64) for column in judged.columns}
        with self.store.read() as connection:
            rows = [(*row[:4], utc(row[4]), *row[5:]) for row in connection.execute(query)]
        return pl.DataFrame(rows, schema, orient="row")

    def drop_older(self, now: datetime, days: float) -> None:
        """Delete what is older."""
        before = now - timedelta(days=days)

        def write(connection: sa.Connection) -> None:
            # In parts, each in one order: other workers may do the same.
            for table, at in ((shown, shown.c.shown_at), (judged, judged.c.judged_at)):
                keys = list(table.primary_key.columns)
                old = sa.select(*keys).where(at < before).limit(BLOCK).with_for_update(skip_locked=True)
                connection.execute(sa.delete(table).where(sa.tuple_(*keys).in_(old)))

        self.store.written(write)

    def shown_by_version(self) -> dict[str, int]:
        """How many items are on record as shown, by version."""
        query = sa.select(shown.c.version, sa.func.count()).group_by(shown.c.version)
        with self.store.read() as connection:
            return {version: n for version, n in connection.execute(query)}


UPSERT_SHOWN = tuple(
    "INSERT INTO shown (user_id, item_id, position, version, shown_at) "
    f"VALUES ({mark}, {mark}, {mark}, {mark}, {mark}) ON CONFLICT (user_id, item_id) DO UPDATE "
    "SET position = excluded.position, version = excluded.version, shown_at = excluded.shown_at"
    for mark in ("%s", "?")
)
TYPES: dict[str, Any] = {
    "id": pl.Int64,
    "user_id": pl.String,
    "item_id": pl.String,
    "version": pl.String,
    "judged_at": pl.Datetime(time_zone="UTC"),
    "is_covered": pl.Boolean,
    "is_liked": pl.Boolean,
    "position": pl.Int64,
}
