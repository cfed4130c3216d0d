"""The ratings database: ratings, and what else must survive a crash. SQLite embedded, or PostgreSQL."""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy import BigInteger, Boolean, Column, DateTime, Double, Integer, MetaData, String, Table, Text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from tastespace.data.ratings import Ratings
from tastespace.errors import DataError, InvalidParameterError, TastespaceError
from tastespace.progress import Observer, Progress, silent

metadata = MetaData()

people = Table(
    "people",
    metadata,
    Column("id", String, primary_key=True),
    Column("version", BigInteger, nullable=False),  # goes up with every change
    Column("deleted_at", DateTime(timezone=True)),  # what a model learned from earlier ratings must not be used
)

ratings = Table(
    "ratings",
    metadata,
    Column("user_id", String, primary_key=True),
    Column("item_id", String, primary_key=True),
    Column("value", Double, nullable=False),
    Column("rated_at", DateTime(timezone=True)),  # unknown for ratings imported with a model
)

answered = Table(  # requests with an idempotency key, which must not be carried out twice
    "answered",
    metadata,
    Column("client", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("fingerprint", String, nullable=False),  # of the request
    Column("body", Text, nullable=False),  # of the response
    Column("answered_at", DateTime(timezone=True), nullable=False, index=True),  # older ones than a day are dropped
)

imports = Table(
    "imports",
    metadata,
    Column("id", Integer, primary_key=True),  # 1: the ratings of a model are imported once
    Column("fingerprint", String, nullable=False),
    Column("n_ratings", BigInteger, nullable=False),
    Column("imported_at", DateTime(timezone=True), nullable=False),
)

activations = Table(  # the last row has the version of the model that answers
    "activations",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("version", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("activated_at", DateTime(timezone=True), nullable=False),
)

shown = Table(  # the last time that an item was in a list of a user
    "shown",
    metadata,
    Column("user_id", String, primary_key=True),
    Column("item_id", String, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("version", String, nullable=False),
    Column("shown_at", DateTime(timezone=True), nullable=False, index=True),  # older ones are dropped
)

judged = Table(  # ratings, and what the model believed just before
    "judged",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("user_id", String, nullable=False, index=True),
    Column("item_id", String, nullable=False),
    Column("version", String, nullable=False),
    Column("judged_at", DateTime(timezone=True), nullable=False, index=True),  # older ones are dropped
    Column("value", Double, nullable=False),
    Column("expected", Double),
    Column("sd", Double),
    Column("low", Double),
    Column("high", Double),
    Column("is_covered", Boolean),
    Column("crps", Double),
    Column("pit", Double),
    Column("liked_probability", Double),
    Column("is_liked", Boolean),
    Column("position", Integer),
)

trials = Table(  # versions that answer some of the users, beside the one that answers the others
    "trials",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("version", String, nullable=False),
    Column("share", Double, nullable=False),
    Column("started_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True)),
    Column("outcome", String),  # promoted or dropped
)


BLOCK = 10_000  # rows sent to the database at once
BUSY_SECONDS = 10  # to wait for another writer
READ_SECONDS, WRITE_SECONDS = 2.0, 20.0  # for an answer of PostgreSQL
SILENT_SECONDS = 1.0  # how long a database that did not answer is not asked again
ATTEMPTS = 6  # to write what others write at the same time
CONFLICTS = ("40P01", "40001", "55P03")  # PostgreSQL: a deadlock, no serial order, a lock that took too long
Result = TypeVar("Result")
REMEMBERED = timedelta(days=1)  # how long an idempotency key is known
# Executed with every request: built once.
ONE_PERSON = sa.select(people.c.version, people.c.deleted_at).where(people.c.id == sa.bindparam("user"))
ONE_HISTORY = sa.select(ratings.c.item_id, ratings.c.value).where(ratings.c.user_id == sa.bindparam("user"))


class DatabaseError(TastespaceError):
    """The ratings database cannot be reached or refuses; nothing was stored."""


class ConflictError(DatabaseError):
    """Another request wrote the same row at the same time."""


class RepeatedKeyError(TastespaceError):
    """An idempotency key was used before, for another request."""


@dataclass(frozen=True)
class Person:
    """The record of a user."""

    version: int = 0
    is_deleted: bool = False  # at some time; later ratings count


@dataclass(frozen=True)
class RatingRow:
    """One rating to store."""

    user: str
    item: str
    value: float
    at: datetime | None = None


@dataclass(frozen=True)
class RequestKey:
    """A request to carry out once: the client, its idempotency key, and a fingerprint of the request."""

    client: str
    key: str
    fingerprint: str


@dataclass(frozen=True)
class Activation:
    """A version of the model that was activated."""

    id: int
    version: str
    reason: str
    activated_at: datetime


@dataclass(frozen=True)
class Trial:
    """A challenger: a version that answers a share of the users."""

    id: int
    version: str
    share: float
    started_at: datetime

    def has(self, user: str) -> bool:
        """Whether the challenger answers this user: always the same for one user and trial."""
        digest = hashlib.sha256(f"{self.id} {user}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8]) < self.share * 2**64

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return {"version": self.version, "share": self.share, "started": self.started_at.isoformat()}


class Store:
    """The ratings database; a file that is not there is made, unless `create` is False."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        try:
            parsed = sa.make_url(url)
            name = parsed.get_backend_name()
        except (SQLAlchemyError, ValueError):
            raise InvalidParameterError(
                "the database URL cannot be read; expected sqlite:///FILE or postgresql://…"
            ) from None
        if name not in ("sqlite", "postgresql"):
            raise InvalidParameterError(f"the database is {name}; expected sqlite or postgresql")
        self._is_sqlite = name == "sqlite"
        options: dict[str, Any] = {"pool_size": 5, "hide_parameters": True}  # Errors are logged, ratings are not.
        if self._is_sqlite:
            options["connect_args"] = {"timeout": BUSY_SECONDS, "check_same_thread": False}
            if parsed.database and not create and not Path(parsed.database).is_file():
                raise DataError(
                    f"there is no database {parsed.database}", expected="the URL of a database that a service has made"
                )
            if parsed.database:
                _make_private(Path(parsed.database))
        else:
            parsed = parsed.set(drivername="postgresql+psycopg")
            # Both pools together stay below twenty, so that several workers fit PostgreSQL's usual hundred connections.
            options |= {"max_overflow": 4, "pool_pre_ping": True, "connect_args": {"connect_timeout": 2}}
        self.url = parsed.render_as_string(hide_password=True)
        self._write_engine = sa.create_engine(parsed, **options)
        # Readers have their own connections: switching the isolation level takes longer than the most common query.
        self._read_engine = sa.create_engine(parsed, **options, isolation_level="AUTOCOMMIT")
        if self._is_sqlite:
            for engine in (self._write_engine, self._read_engine):
                sa.event.listen(engine, "connect", _prepare_sqlite)
            sa.event.listen(self._write_engine, "begin", _begin_immediate)
        else:
            for engine, seconds in ((self._read_engine, READ_SECONDS), (self._write_engine, WRITE_SECONDS)):
                sa.event.listen(engine, "do_connect", _answering_within(seconds))
            sa.event.listen(self._write_engine, "connect", _limit_locks)
        self._silent_until = 0.0
        self._insert = sqlite.insert if self._is_sqlite else postgresql.insert

    def close(self) -> None:
        self._write_engine.dispose()
        self._read_engine.dispose()

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables up to date; several processes may try at the same time."""
        config = Config()
        config.set_main_option("script_location", "tastespace.service:migrations")
        with self._write(is_long=True) as connection:
            if not self._is_sqlite:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7412365)"))  # any number, always the same
            config.attributes["connection"] = connection
            command.upgrade(config, revision)

    def ping(self) -> None:
        """Check that the database answers."""
        with self.read() as connection:
            connection.execute(sa.select(1))

    # ratings

    def person(self, user: str) -> Person:
        with self.read() as connection:
            row = connection.execute(ONE_PERSON, {"user": user}).first()
        return Person() if row is None else Person(row.version, row.deleted_at is not None)

    def history(self, user: str) -> dict[str, float]:
        """The rating of each item."""
        with self.read() as connection:
            return {item: value for item, value in connection.execute(ONE_HISTORY, {"user": user})}

    def ratings_of(self, user: str, limit: int, offset: int) -> tuple[int, list[Any]]:
        """The number of ratings, and some of them, newest first."""
        own = ratings.c.user_id == user
        newest = (ratings.c.rated_at.is_(None), ratings.c.rated_at.desc(), ratings.c.item_id)
        with self.read() as connection:
            total = connection.execute(sa.select(sa.func.count()).select_from(ratings).where(own)).scalar_one()
            rows = connection.execute(sa.select(ratings).where(own).order_by(*newest).limit(limit).offset(offset))
            return total, list(rows)

    def users(self, beginning: str, limit: int) -> list[str]:
        """Ids that begin so, in order, of users who have or had ratings."""
        query = sa.select(people.c.id).where(people.c.id.startswith(beginning, autoescape=True))
        with self.read() as connection:
            return list(connection.execute(query.order_by(people.c.id).limit(limit)).scalars())

    # Writers lock in the same order: an idempotency key, people by their ids, then ratings by user and item. Whoever
    # writes ratings of a user has locked the user, so that no two wait for each other.

    def rate(
        self,
        new: Sequence[RatingRow],
        once: RequestKey | None = None,
        body: str = "",
        before: dict[str, dict[str, float]] | None = None,
    ) -> str | None:
        """Store ratings, all or none; the first response, if this request was carried out before, else None.

        `before` gets the ratings that its users had just before.
        """
        latest = {(one.user, one.item): one for one in new}  # The last rating of a pair counts.
        ordered = [latest[pair] for pair in sorted(latest)]

        def write(connection: sa.Connection) -> str | None:
            now = self._now(connection)
            first = None if once is None else self._replay(connection, once, body, now)
            if first is not None:
                return first
            self._touch(connection, {one.user for one in ordered})
            for user in before or ():
                rows = connection.execute(ONE_HISTORY, {"user": user})
                before[user] = {item: value for item, value in rows}  # type: ignore[index]
            stored = [
                {"user_id": one.user, "item_id": one.item, "value": one.value, "rated_at": one.at or now}
                for one in ordered
            ]
            for block in _blocks(stored):
                self.upsert(connection, ratings, ["user_id", "item_id"], block)
            return None

        # If the same request came twice at once, the other one has been carried out when this is tried again.
        return self.written(write)

    def delete_rating(self, user: str, item: str) -> bool:
        """Delete one rating; False if there was none."""
        own = (ratings.c.user_id == user, ratings.c.item_id == item)

        def write(connection: sa.Connection) -> bool:
            connection.execute(ONE_PERSON.with_for_update(), {"user": user})
            gone = connection.execute(sa.delete(ratings).where(*own)).rowcount
            if gone:
                self._touch(connection, {user})
            return bool(gone)

        return self.written(write)

    def forget(self, user: str) -> int:
        """Delete all ratings of a user, and mark what a model learned from them as not to be used; how many."""

        def write(connection: sa.Connection) -> int:
            now = self._now(connection)
            self._touch(connection, {user})
            connection.execute(sa.update(people).where(people.c.id == user).values(deleted_at=now))
            for table in (shown, judged):
                connection.execute(sa.delete(table).where(table.c.user_id == user))
            return int(connection.execute(sa.delete(ratings).where(ratings.c.user_id == user)).rowcount)

        return self.written(write)

    def deleted(self) -> list[str]:
        """Users who were deleted, and have no ratings now."""
        has_none = ~sa.exists().where(ratings.c.user_id == people.c.id)
        query = sa.select(people.c.id).where(people.c.deleted_at.is_not(None), has_none).order_by(people.c.id)
        with self.read() as connection:
            return list(connection.execute(query).scalars())

    def deleted_among(self, users: Mapping[str, int]) -> list[str]:
        """Those of some users who were deleted after these versions of their ratings."""
        if not users:
            return []
        query = sa.select(people.c.id, people.c.version).where(people.c.deleted_at.is_not(None), people.c.id.in_(users))
        with self.read() as connection:
            return [row.id for row in connection.execute(query) if row.version > users[row.id]]

    def about(self, user: str) -> dict[str, list[dict[str, Any]]]:
        """Everything that the database has about a user: the rows of each table, without the id."""
        tables = {"people": people.c.id, **{each.name: each.c.user_id for each in (ratings, shown, judged)}}
        found = {}
        with self.read() as connection:
            for name, column in tables.items():
                rows = connection.execute(sa.select(column.table).where(column == user)).mappings()
                found[name] = [{key: _plain(value) for key, value in row.items() if key != column.name} for row in rows]
        return found

    def counts(self) -> tuple[int, int]:
        """Number of ratings, and of users who have or had some."""
        count = sa.select(sa.func.count())
        with self.read() as connection:
            n_ratings, n_users = (
                connection.execute(count.select_from(each)).scalar_one() for each in (ratings, people)
            )
        return n_ratings, n_users

    def all_ratings(self) -> pl.DataFrame:
        """Every rating: user, item, rating, and time in seconds (null if unknown)."""
        query = sa.select(ratings.c.user_id, ratings.c.item_id, ratings.c.value, ratings.c.rated_at)
        schema = {"user": pl.String, "item": pl.String, "rating": pl.Float64, "time": pl.Int64}
        frames = [pl.DataFrame(schema=schema)]
        with self._snapshot() as connection:
            rows = connection.execution_options(stream_results=True, yield_per=BLOCK).execute(
                query.order_by(ratings.c.user_id, ratings.c.item_id)
            )
            for part in rows.partitions():
                lines = [(*row[:3], None if row[3] is None else int(utc(row[3]).timestamp())) for row in part]
                frames.append(pl.DataFrame(lines, schema, orient="row"))
        return pl.concat(frames)

    # ratings of a model

    def import_ratings(self, trained: Ratings, fingerprint: str, observer: Observer = silent) -> int:
        """Import the ratings of a model if the database has never had any; how many were imported."""
        total = len(trained)
        users, items = trained.user_ids().cast(pl.String), trained.item_ids().cast(pl.String)
        rows = pl.DataFrame({"user_id": users, "item_id": items, "value": trained.values.astype(float)})
        with self._write(is_long=True) as connection:
            if not self._is_sqlite:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7412366)"))
            there = (
                connection.execute(sa.select(imports.c.id)).first()
                or connection.execute(sa.select(ratings.c.user_id).limit(1)).first()
            )
            if there is not None:
                return 0
            user_ids = sorted(trained.users.ids.cast(pl.String).to_list())
            for names in _blocks([{"id": name, "version": 1} for name in user_ids]):
                connection.execute(self._insert(people).on_conflict_do_nothing(), names)
            for start in range(0, total, BLOCK):
                # The last rating of a pair counts, as in the model.
                block = rows[start : start + BLOCK].unique(["user_id", "item_id"], keep="last", maintain_order=True)
                self.upsert(connection, ratings, ["user_id", "item_id"], block.to_dicts())
                observer(Progress("ratings into the database", min(start + BLOCK, total), total, {}))
            connection.execute(
                sa.insert(imports).values(id=1, fingerprint=fingerprint, n_ratings=total, imported_at=datetime.now(UTC))
            )
        return total

    # activations

    def activate(self, version: str, reason: str) -> Activation:
        with self._write() as connection:
            now = self._now(connection)
            done = connection.execute(
                sa.insert(activations).values(version=version, reason=reason, activated_at=now)
            ).inserted_primary_key
            assert done is not None
        return Activation(int(done[0]), version, reason, now)

    def activation(self) -> Activation | None:
        """The last activation; None before the first."""
        found = self.activations(1)
        return found[0] if found else None

    def activations(self, limit: int) -> list[Activation]:
        """The last activations, newest first."""
        with self.read() as connection:
            rows = connection.execute(sa.select(activations).order_by(activations.c.id.desc()).limit(limit))
            return [Activation(row.id, row.version, row.reason, utc(row.activated_at)) for row in rows]

    # trials

    def start_trial(self, version: str, share: float) -> Trial:
        def write(connection: sa.Connection) -> Trial:
            now = self._now(connection)
            connection.execute(sa.update(trials).where(trials.c.ended_at.is_(None)).values(ended_at=now))
            done = connection.execute(
                sa.insert(trials).values(version=version, share=share, started_at=now)
            ).inserted_primary_key
            assert done is not None
            return Trial(int(done[0]), version, share, now)

        return self.written(write)

    def end_trial(self, trial: int, outcome: str) -> None:
        def write(connection: sa.Connection) -> None:
            values = {"ended_at": self._now(connection), "outcome": outcome}
            connection.execute(
                sa.update(trials).where(trials.c.id == trial, trials.c.ended_at.is_(None)).values(**values)
            )

        self.written(write)

    def trial(self) -> Trial | None:
        """The trial that is going on."""
        query = sa.select(trials.c.id, trials.c.version, trials.c.share, trials.c.started_at)
        with self.read() as connection:
            row = connection.execute(query.where(trials.c.ended_at.is_(None)).order_by(trials.c.id.desc())).first()
        return None if row is None else Trial(*row[:3], utc(row[3]))

    def _now(self, connection: sa.Connection) -> datetime:
        """The time of the database: several machines may use one, and their clocks differ."""
        if self._is_sqlite:
            return datetime.now(UTC)
        now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return utc(now)

    def _replay(self, connection: sa.Connection, once: RequestKey, body: str, now: datetime) -> str | None:
        """The earlier response; if there is none, the request is recorded with the response that it will get."""
        own = sa.and_(answered.c.client == once.client, answered.c.key == once.key)
        # Those that another request drops at the same time are left to it.
        old = sa.select(answered.c.client, answered.c.key).where(answered.c.answered_at < now - REMEMBERED)
        old = old.limit(BLOCK).with_for_update(skip_locked=True)
        connection.execute(sa.delete(answered).where(sa.tuple_(answered.c.client, answered.c.key).in_(old)))
        row = connection.execute(sa.select(answered.c.fingerprint, answered.c.body).where(own)).first()
        if row is None:
            values = {"client": once.client, "key": once.key, "fingerprint": once.fingerprint, "body": body}
            # If the same request got here first, this waits for it and is a conflict.
            connection.execute(sa.insert(answered).values(**values, answered_at=now))
            return None
        if row.fingerprint != once.fingerprint:
            raise RepeatedKeyError(
                "the Idempotency-Key was used before for another request; expected a new one for each request"
            )
        return str(row.body)

    def _touch(self, connection: sa.Connection, users: Iterable[str]) -> None:
        """Raise the versions of users, so that caches of their beliefs become invalid."""
        statement = self._insert(people)
        statement = statement.on_conflict_do_update(index_elements=["id"], set_={"version": people.c.version + 1})
        for block in _blocks([{"id": user, "version": 1} for user in sorted(users)]):
            connection.execute(statement, block)

    def upsert(self, connection: sa.Connection, table: Table, key: list[str], rows: list[Any]) -> None:
        """Store rows, in place of older ones with the same key."""
        statement = self._insert(table)
        changed = {name: statement.excluded[name] for name in rows[0] if name not in key}
        connection.execute(statement.on_conflict_do_update(index_elements=key, set_=changed), rows)

    def written(self, write: Callable[[sa.Connection], Result]) -> Result:
        """Carry out a transaction, again if others wrote the same rows at the same time."""
        for attempt in range(ATTEMPTS):
            try:
                with self._write() as connection:
                    return write(connection)
            except ConflictError:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(random.uniform(0, 0.01 * 2**attempt))
        raise AssertionError

    def read(self) -> AbstractContextManager[sa.Connection]:
        return self._connected(self._read_engine.connect)

    def _write(self, *, is_long: bool = False) -> AbstractContextManager[sa.Connection]:
        """A transaction; a long one may wait for as long as it takes."""
        return self._connected(self._write_engine.begin, is_long=is_long)

    @contextmanager
    def _connected(
        self, connect: Callable[[], AbstractContextManager[sa.Connection]], *, is_long: bool = False
    ) -> Iterator[sa.Connection]:
        """Raise database errors as our own, without their messages: these may contain values or a password.

        A database that does not answer is asked by one request at a time: the others are refused at once, so that they
        do not all wait in threads that other requests need.
        """
        began = time.monotonic()
        if self._silent_until > began:
            raise DatabaseError("the ratings database does not answer; nothing was stored, try again")
        if self._silent_until:
            self._silent_until = began + WRITE_SECONDS  # This one asks.
        try:
            with connect() as connection:
                if is_long and not self._is_sqlite:
                    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
                    with _without_limit(connection.connection.dbapi_connection):
                        yield connection
                else:
                    yield connection
        except IntegrityError as error:
            self._silent_until = 0.0
            raise ConflictError("another request wrote the same row at the same time; try again") from error
        except SQLAlchemyError as error:
            if getattr(getattr(error, "orig", None), "sqlstate", None) in CONFLICTS:
                self._silent_until = 0.0
                raise ConflictError("other requests write the same rows at the same time; try again") from error
            now = time.monotonic()
            is_silent = not self._is_sqlite and now - began > 1
            self._silent_until = now + SILENT_SECONDS if is_silent else 0.0
            raise DatabaseError(
                "the ratings database cannot be reached, or refuses; nothing was stored, try again"
            ) from error
        except BaseException:
            self._silent_until = 0.0
            raise
        self._silent_until = 0.0

    @contextmanager
    def _snapshot(self) -> Iterator[sa.Connection]:
        """A connection that reads one state of the database, without blocking writers."""
        if not self._is_sqlite:
            with self._write() as connection:
                yield connection
            return
        with self.read() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")


def _limit_locks(connection: Any, _: Any) -> None:
    """Wait for the locks of others for less than for an answer: what others do at the same time is no fault."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '5s'")
    connection.commit()


@contextmanager
def _without_limit(connection: Any) -> Iterator[None]:
    seconds, connection.seconds = connection.seconds, None
    try:
        yield
    finally:
        connection.seconds = seconds


def _answering_within(seconds: float) -> Callable[..., Any]:
    """How to connect to PostgreSQL so that each answer comes in time, or the connection is given up.

    A server that accepts but does not answer (stopped, or behind a network that swallows packets) would otherwise keep
    the threads that wait for it.
    """
    import psycopg

    class Connection(psycopg.Connection[Any]):
        seconds: float | None = None

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            until = gen if self.seconds is None else _until(gen, time.monotonic() + self.seconds, self)
            return super().wait(until, *arguments, **options)

    def _until(gen: Any, deadline: float, connection: Connection) -> Any:
        """The same exchange with the server; it gets control about ten times a second while it waits."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    connection.close()
                    raise psycopg.OperationalError("the server did not answer in time")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value

    def connect(dialect: Any, record: Any, arguments: Any, options: Any) -> Any:
        made = Connection.connect(*arguments, **options)
        made.seconds = seconds
        return made

    return connect


def _make_private(file: Path) -> None:
    """Create the database, if it is not there yet, for this user alone; SQLite's other files are made like it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):  # Opening it will say what is wrong.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        mode = file.stat().st_mode & 0o777
        if mode & 0o007:  # as older versions made it
            file.chmod(mode & ~0o007)


def _prepare_sqlite(connection: Any, _: Any) -> None:
    """Let readers and a writer work side by side, and acknowledge nothing that a power failure could undo."""
    cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_immediate(connection: sa.Connection) -> None:
    """Lock for writing at the beginning: two transactions that read first and then write would refuse each other."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _blocks(rows: list[Any]) -> Iterator[list[Any]]:
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def _plain(value: Any) -> Any:
    """A value for JSON."""
    return utc(value).isoformat() if isinstance(value, datetime) else value


def utc(at: datetime) -> datetime:
    """SQLite drops the time zone; a time without one is UTC."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
