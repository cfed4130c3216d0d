"""The ratings database, on SQLite and on PostgreSQL: what is stored, once, and by many at the same time."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from service.conftest import small_ratings

from tastespace.errors import InvalidParameterError
from tastespace.service.store import DatabaseError, Person, RatingRow, RepeatedKeyError, RequestKey, Store, metadata
from tastespace.service.store import ratings as ratings_table


def differences(store) -> list:
    """What a migration would have to change for the tables to be those that the code knows."""
    with store._write_engine.connect() as connection:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)


def test_the_tables_are_those_that_the_code_knows(store):
    store.migrate()  # again: nothing to do
    assert differences(store) == []
    with store._write_engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE people DROP COLUMN deleted_at"))
    assert differences(store) != []  # This would have been noticed.


def test_a_database_of_before_is_brought_up_to_date(database):
    """Every migration runs on what the one before left, and loses nothing."""
    old = Store(database)
    old.migrate("0001")
    assert differences(old) != []
    old.rate([RatingRow("ann", "1", 4.0)], RequestKey("shop", "k", "of this"), "answer")
    old.migrate()
    assert differences(old) == []
    assert old.history("ann") == {"1": 4.0}
    assert old.rate([RatingRow("ann", "1", 4.0)], RequestKey("shop", "k", "of this"), "answer") == "answer"
    old.close()


def test_sqlite_waits_for_the_disk(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'ratings.db'}")
    with store._write_engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2  # FULL
    store.close()


def test_errors_are_reported_without_ratings(store):
    with store._write_engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE ratings"))
    with pytest.raises(DatabaseError) as told:
        store.history("somebody-secret")
    trace = "".join(traceback.format_exception(told.value))
    assert "OperationalError" in trace or "ProgrammingError" in trace
    assert "secret" not in trace.replace('store.history("somebody-secret")', "")  # the line of this file


def test_a_rating_replaces_the_one_before_and_tells_that_the_user_changed(store):
    assert store.person("ann") == Person(0, False)
    store.rate([RatingRow("ann", "1", 4.0), RatingRow("ann", "2", 3.0)])
    assert store.person("ann").version == 1
    store.rate([RatingRow("ann", "1", 2.5)])
    assert store.person("ann").version == 2
    assert store.history("ann") == {"1": 2.5, "2": 3.0}
    total, rows = store.ratings_of("ann", 1, 0)
    assert (total, rows[0].item_id) == (2, "1")  # the newest first
    assert store.history("bob") == {}


def test_what_was_said_of_time_is_kept(store):
    moment = datetime(2024, 5, 31, 12, tzinfo=UTC)
    store.rate([RatingRow("ann", "1", 4.0, moment)])
    assert store.all_ratings()["time"].to_list() == [int(moment.timestamp())]


def test_forgetting(store):
    store.rate([RatingRow("ann", "1", 4.0), RatingRow("ann", "2", 4.0), RatingRow("bob", "1", 4.0)])
    assert store.delete_rating("ann", "1")
    assert not store.delete_rating("ann", "1")
    assert store.forget("ann") == 1
    assert store.person("ann") == Person(3, True)
    assert store.history("ann") == {}
    assert store.history("bob") == {"1": 4.0}
    store.rate([RatingRow("ann", "3", 1.0)])  # The user may come back.
    assert store.history("ann") == {"3": 1.0}
    assert store.person("ann").is_deleted


def test_a_key_is_good_for_one_request(store):
    once = RequestKey("shop", "k", "of this")
    assert store.rate([RatingRow("ann", "1", 4.0)], once, "answer") is None
    store.rate([RatingRow("ann", "1", 1.0)])
    assert store.rate([RatingRow("ann", "1", 4.0)], once, "answer") == "answer"
    assert store.history("ann") == {"1": 1.0}
    assert store.rate([RatingRow("ann", "1", 4.0)], RequestKey("another shop", "k", "of this"), "other") is None
    with pytest.raises(RepeatedKeyError):
        store.rate([RatingRow("ann", "1", 4.0)], RequestKey("shop", "k", "of that"), "answer")


def test_many_write_at_the_same_time(store):
    """Every version is counted, and one request that comes eight times at once is carried out once."""
    answers: list[str | None] = []

    def write(n: int) -> None:
        for item in range(10):
            store.rate([RatingRow("ann", str(item), float(n))])
        answers.append(
            store.rate([RatingRow("bob", "1", float(n))], RequestKey("shop", "same", "same"), f"answer of {n}")
        )

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.person("ann").version == 80
    assert len(store.history("ann")) == 10
    assert answers.count(None) == 1
    assert store.person("bob").version == 1
    assert {answer for answer in answers if answer} == {f"answer of {store.history('bob')['1']:.0f}"}


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.rate([RatingRow("ann", "1", 3.0)]),
        lambda store: store.forget("ann"),
        lambda store: store.delete_rating("ann", "1"),
    ],
    ids=["rate", "forget", "delete_rating"],
)
def test_writers_lock_people_before_ratings(store, write):
    """All in the same order; deletions and bulk writes once locked ratings first, each in an order of its own."""
    store.rate([RatingRow("ann", "1", 4.0)])
    with ThreadPoolExecutor(1) as pool:
        with store._write_engine.begin() as connection:
            connection.execute(sa.text("SELECT 1 FROM people WHERE id = 'ann' FOR UPDATE"))
            writing = pool.submit(write, store)
            time.sleep(0.2)
            connection.execute(sa.text("SELECT 1 FROM ratings WHERE user_id = 'ann' FOR UPDATE NOWAIT"))
            assert not writing.done()
        writing.result()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_deadlock_is_tried_again(store):
    """Another program may lock in another order."""
    store.rate([RatingRow("ann", "1", 4.0), RatingRow("bob", "1", 4.0)])
    holds_bob, other = threading.Event(), store._write_engine
    done: list[str | None] = []

    def both() -> None:
        holds_bob.wait(10)
        done.append(store.rate([RatingRow("ann", "2", 4.0), RatingRow("bob", "2", 4.0)]))

    writer = threading.Thread(target=both)
    writer.start()
    with contextlib.suppress(sa.exc.OperationalError), other.begin() as connection:
        connection.execute(sa.text("UPDATE people SET version = version WHERE id = 'bob'"))
        holds_bob.set()
        time.sleep(0.3)  # It has ann by now, and waits for bob.
        connection.execute(sa.text("UPDATE people SET version = version WHERE id = 'ann'"))
    writer.join()
    assert done == [None]
    assert store.history("ann") == store.history("bob") == {"1": 4.0, "2": 4.0}


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_keys_are_judged_by_the_clock_of_the_database(store, monkeypatch):
    """A machine whose clock is two days ahead does not make others forget theirs."""
    once = RequestKey("shop", "k", "of this")
    assert store.rate([RatingRow("ann", "1", 4.0)], once, "answer") is None

    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=2)

    monkeypatch.setattr("tastespace.service.store.datetime", Ahead)
    store.rate([RatingRow("bob", "1", 4.0)], RequestKey("shop", "another", "of that"), "answer")
    assert store.rate([RatingRow("ann", "1", 4.0)], once, "answer") == "answer"


def test_who_reads_does_not_wait_for_who_writes(store):
    store.rate([RatingRow("ann", "1", 4.0)])
    with store._write() as connection:
        connection.execute(sa.update(ratings_table).values(value=1.0))
        assert store.history("ann") == {"1": 4.0}  # what was there before
        assert store.all_ratings()["rating"].to_list() == [4.0]
    assert store.history("ann") == {"1": 1.0}


def test_a_model_s_ratings_are_taken_over_once(store):
    ratings = small_ratings()
    assert store.import_ratings(ratings, "f") == len(ratings)
    assert store.import_ratings(ratings, "f") == 0
    stored = store.all_ratings()
    assert stored.height == len(ratings)
    assert stored["time"].null_count() == stored.height
    assert store.counts() == (len(ratings), 40)
    row = ratings.by_user.take(np.array([3]))
    expected = dict(zip(ratings.items.at(row.columns).cast(pl.String), row.values.tolist(), strict=True))
    assert store.history("3") == expected
    store.forget("3")
    assert store.import_ratings(ratings, "f") == 0  # Nobody comes back by that.


def test_users_by_the_beginning_of_their_ids(store):
    store.rate([RatingRow(user, "1", 4.0) for user in ("10%", "100", "1_0", "2")])
    assert store.users("10", 10) == ["10%", "100"]
    assert store.users("10%", 10) == ["10%"]
    assert store.users("1_", 10) == ["1_0"]
    assert store.users("", 2) == ["10%", "100"]


def test_activations(store):
    assert store.activation() is None
    first, second = store.activate("a", "start"), store.activate("b", "reload")
    assert store.activation() == second
    assert [entry.version for entry in store.activations(5)] == ["b", "a"]
    assert first.id < second.id


def test_texts_that_try_to_be_more(store):
    hostile = "x'); DROP TABLE ratings; --"
    store.rate([RatingRow(hostile, hostile, 4.0)])
    assert store.history(hostile) == {hostile: 4.0}
    assert store.counts() == (1, 1)


def test_what_is_no_database(tmp_path):
    with pytest.raises(InvalidParameterError, match="expected sqlite or postgresql"):
        Store("mysql://somewhere/x")
    with pytest.raises(InvalidParameterError, match="cannot be read"):
        Store("nothing")
    (tmp_path / "no.db").write_text("this is no database, and never was one" * 100)
    with pytest.raises(DatabaseError, match="cannot be reached, or refuses"):
        Store(f"sqlite:///{tmp_path / 'no.db'}").migrate()
    gone = Store("postgresql://tastespace:secret@127.0.0.1:1/x")
    with pytest.raises(DatabaseError) as told:
        gone.ping()
    assert "secret" not in str(told.value) + gone.url
