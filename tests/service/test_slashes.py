"""Ids with slashes, as DOIs have them, in every path."""

from __future__ import annotations

from urllib.parse import quote

import httpx2 as httpx
import polars as pl
import pytest
from fastapi.testclient import TestClient
from service.conftest import small_ratings
from service.server import Server

from tastespace import ALS, artifact
from tastespace.data.ratings import Ratings
from tastespace.service.app import create_app, prepare
from tastespace.service.middleware import STAND_IN
from tastespace.service.settings import Settings


@pytest.fixture(scope="module")
def slashed(tmp_path_factory):
    raw = small_ratings()
    items = raw.item_ids().cast(pl.String)
    frame = pl.DataFrame({"user": "u/" + raw.user_ids().cast(pl.String), "item": "10.1/" + items, "rating": raw.values})
    folder = tmp_path_factory.mktemp("models") / "slashed"
    artifact.save(ALS(n_factors=2, regularisation=0.1, seed=1, threads=1).fit(Ratings.from_frame(frame)), folder)
    return folder


def ask_everything(client):
    user, item = quote("u/3", safe=""), quote("10.1/7", safe="")
    assert client.get(f"/v1/items/{item}").json()["item"] == "10.1/7"
    assert client.get(f"/v1/items/{item.lower()}/similar").json()["item"] == "10.1/7"
    assert client.get(f"/v1/users/{user}").json()["in_training"]
    told = client.get(f"/v1/users/{user}/recommendations").json()
    assert told["user"] == "u/3"
    assert not told["cold"]
    assert client.put(f"/v1/users/{user}/ratings/{item}", json={"rating": 5}).status_code == 200
    rated = {row["item"]: row["rating"] for row in client.get(f"/v1/users/{user}/ratings?limit=1000").json()["ratings"]}
    assert rated["10.1/7"] == 5
    assert client.delete(f"/v1/users/{user}/ratings/{item}").status_code == 200
    # Slashes that divide the path still do, and nobody gets out of it.
    assert client.get("/v1/users/u/3").status_code == 404
    assert client.get("/page/..%2Fstyle.css").status_code == 404
    assert client.get("/v1/users/%2F%2F/recommendations").json()["cold"]
    # What stands for a slash meanwhile is no letter of an id.
    rating = {"user": "a" + STAND_IN, "item": "10.1/7", "rating": 3}
    assert client.post("/v1/ratings", json={"ratings": [rating]}).status_code == 422


def test_within_the_application(slashed, tmp_path):
    settings = Settings(model=str(slashed), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    with TestClient(create_app(settings)) as client:
        ask_everything(client)


def test_through_a_socket(slashed, tmp_path):
    """How a path arrives is up to the server."""
    settings = Settings(model=str(slashed), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    server = Server(settings)
    try:
        with httpx.Client(base_url=server.url.removesuffix("/v1"), timeout=30) as client:
            ask_everything(client)
    finally:
        server.end()
