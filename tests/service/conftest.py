"""A small service: a model of a few films with titles and genres, and its own database."""

from __future__ import annotations

import uuid
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy
from fastapi.testclient import TestClient
from service.postgres import Postgres, binaries

from tastespace import BPMF, artifact
from tastespace.data.ratings import Ratings
from tastespace.randomness import generator
from tastespace.service.app import create_app, prepare
from tastespace.service.settings import Settings
from tastespace.service.store import Store
from tastespace.testing.toys import gaussian

GENRES = ("Drama", "Comedy", "Horror")


def small_ratings(n_users: int = 40, n_items: int = 30) -> Ratings:
    """Stars of some users for some films."""
    raw, _ = gaussian(n_users, n_items, density=0.5, rng=generator(1))
    frame = pl.DataFrame({"user": raw.user_ids(), "item": raw.item_ids(), "rating": raw.values.round().clip(1, 5)})
    ratings = Ratings.from_frame(frame)
    items = ratings.items.ids
    titles = pl.Series("title", [f"Film {item} ({1980 + item})" for item in items])
    return ratings.with_items(titles, pl.DataFrame({"genre": [GENRES[item % 3] for item in items]}))


@pytest.fixture(scope="session")
def small_model(tmp_path_factory) -> Path:
    """Fitted once; read only."""
    folder = tmp_path_factory.mktemp("models") / "small"
    artifact.save(BPMF(n_factors=2, chains=1, warmup=20, draws=60, seed=1, threads=1).fit(small_ratings()), folder)
    return folder


@pytest.fixture
def settings(small_model, tmp_path) -> Settings:
    return Settings(model=str(small_model), state=str(tmp_path / "state"), rate=0)


@pytest.fixture
def client(settings):
    """A client of a running service."""
    prepare(settings)
    with TestClient(create_app(settings)) as asking:
        yield asking


@pytest.fixture(scope="session")
def read_only_client(small_model, tmp_path_factory):
    """A client of one service, for tests that store nothing."""
    settings = Settings(model=str(small_model), state=str(tmp_path_factory.mktemp("read-only") / "state"), rate=0)
    prepare(settings)
    with TestClient(create_app(settings)) as asking:
        yield asking


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server, or a skip that says what to install."""
    if binaries() is None:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path) -> str:
    """The URL of an empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ratings.db'}"
    server = request.getfixturevalue("postgres")
    name = f"t{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(
        server.url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server.url.replace("/postgres", f"/{name}")


@pytest.fixture
def store(database):
    """A store with its tables."""
    opened = Store(database)
    opened.migrate()
    yield opened
    opened.close()
