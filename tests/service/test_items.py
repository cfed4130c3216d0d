"""Items of the service: added, described again, removed; on every worker, through reloads and retraining."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient
from service.conftest import small_ratings

from tastespace import ALS, BPMF, Blend, ImplicitALS, Joint, LogisticMF, artifact
from tastespace.service.app import create_app, prepare
from tastespace.service.catalogue import Catalogue, StoredItem, stocked
from tastespace.service.retraining import convert
from tastespace.service.settings import Settings
from tastespace.service.store import Store

NEW = {"items": [{"item": "900", "title": "A New Film (2024)", "attributes": {"genre": "Comedy"}}]}


def listed(client, **options):
    answer = client.post("/v1/recommendations", json={"user": "3", "n": 100, "uncertainty": False, **options})
    assert answer.status_code == 200, answer.text
    return [entry["item"] for entry in answer.json()["items"]]


def test_a_new_item_is_in_the_next_list(client):
    assert "900" not in listed(client)
    answer = client.post("/v1/items", json=NEW)
    assert (answer.status_code, answer.json()) == (201, {"stored": 1, "recommendable": True, "remarks": []})
    assert "900" in listed(client)
    assert "900" in listed(client, where="genre = Comedy")
    assert "900" not in listed(client, where="genre = Drama")
    found = client.get("/v1/items", params={"search": "a new film"}).json()
    assert found["items"] == [
        {"item": "900", "title": "A New Film (2024)", "attributes": {"genre": "Comedy"}, "ratings": 0}
    ]
    predicted = client.post("/v1/predictions", json={"user": "3", "items": ["900", "1"]}).json()["items"]
    assert predicted[0]["belief_sd"] > predicted[1]["belief_sd"]  # nobody has rated it


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        Joint(n_factors=2, chains=1, warmup=5, draws=10, seed=1, threads=1, weight=0.5),
        ImplicitALS(n_factors=4, strength=4.0, regularization=1.0, feature_regularization=1.0, seed=1, threads=1),
        Blend(n_factors=4, strength=4.0, regularization=1.0, feature_regularization=1.0, weight=0.5, seed=1, threads=1),
        LogisticMF(n_factors=4, seed=1, threads=1, feature_regularization=1.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_of_choices_place_new_items_by_their_features(model, tmp_path):
    """At once, and among the first of the default list for those whom they suit: comedies, for a user who has those."""
    whole = small_ratings()
    is_comedy = whole.item_ids().to_numpy() % 3 == 1
    users = whole.user_ids().to_numpy()
    ratings = whole.take(np.flatnonzero(is_comedy == (users % 2 == 1))).with_item_features("genre")
    artifact.save(model.fit(ratings), tmp_path / "model")
    settings = Settings(model=str(tmp_path / "model"), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    with TestClient(create_app(settings)) as client:
        answer = client.post("/v1/items", json=NEW)
        assert (answer.status_code, answer.json()["recommendable"]) == (201, True)
        first, last = (listed(client, user=str(user)) for user in (3, 4))
        assert first.index("900") < min(len(first) / 3, last.index("900"))


def test_every_worker_knows_it_at_once(settings):
    prepare(settings)
    with TestClient(create_app(settings)) as one, TestClient(create_app(settings)) as other:
        assert "900" not in listed(other)
        assert one.post("/v1/items", json=NEW).status_code == 201
        assert "900" in listed(other)
        assert other.delete("/v1/items/900").status_code == 200
        assert "900" not in listed(one)
        assert one.get("/v1/items/900").status_code == 404
        assert other.post("/v1/items", json=NEW).status_code == 201  # It comes back.
        assert "900" in listed(one)


def test_it_stays_through_a_restart_and_can_be_rated(settings):
    prepare(settings)
    with TestClient(create_app(settings)) as client:
        client.post("/v1/items", json=NEW)
        assert client.put("/v1/users/3/ratings/900", json={"rating": 5}).status_code == 200
        assert "900" not in listed(client)  # seen
        assert "900" in listed(client, user="4")
    with TestClient(create_app(settings)) as again:
        assert "900" in listed(again, user="4")
        assert again.get("/v1/users/3/ratings").json()["ratings"][0]["title"] == "A New Film (2024)"


def test_descriptions_change(client):
    client.post("/v1/items", json=NEW)
    changed = client.patch("/v1/items/900", json={"attributes": {"genre": "Horror"}})
    assert changed.json()["attributes"] == {"genre": "Horror"}
    assert changed.json()["title"] == "A New Film (2024)"
    assert "900" in listed(client, where="genre = Horror")
    # Also of an item of the training ratings, whose other facts stay.
    before = client.get("/v1/items/5").json()
    renamed = client.patch("/v1/items/5", json={"title": "Renamed"}).json()
    assert renamed == before | {"title": "Renamed"}
    assert client.get("/v1/items/6").json()["title"] != "Renamed"
    gone = client.patch("/v1/items/5", json={"attributes": {"genre": None}}).json()
    assert gone["attributes"].get("genre") is None
    assert "5" not in listed(client, user="someone", where=f"genre = {before['attributes']['genre']}")


def test_removed_items_are_never_shown(client):
    everything = listed(client, user="someone")
    removed = everything[0]
    assert client.delete(f"/v1/items/{removed}").json() == {"item": removed, "removed": True}
    assert listed(client, user="someone") == everything[1:]
    assert removed not in listed(client, user="someone", exclude=[everything[1]])
    similar = client.get(f"/v1/items/{everything[1]}/similar", params={"n": 100}).json()["items"]
    assert removed not in [entry["item"] for entry in similar]
    assert removed not in [one["item"] for one in client.get("/v1/items", params={"limit": 1000}).json()["items"]]
    asked = client.post("/v1/questions", json={"user": "someone", "n": 29}).json()["items"]
    assert removed not in [entry["item"] for entry in asked]


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "said"),
    [
        ("POST", "/v1/items", {"items": [{"item": "1"}]}, 409, "'1' is there already"),
        ("POST", "/v1/items", {"items": [{"item": "x1"}, {"item": "x1"}]}, 422, "is there twice"),
        ("POST", "/v1/items", {"items": [{"item": "x1", "attributes": {"genre": {"a": 1}}}]}, 422, "attributes"),
        ("POST", "/v1/items", {"items": []}, 422, "items"),
        ("POST", "/v1/items", {"items": [{"item": "x1", "attributes": {"name": ["a", "b"]}}]}, 422, "several values"),
        ("PATCH", "/v1/items/1", {"attributes": {"genre": ["a", "b"]}}, 422, "genre has several values"),
        ("PATCH", "/v1/items/nothing", {"title": "x"}, 404, "no item 'nothing'"),
        ("DELETE", "/v1/items/nothing", None, 404, "no item 'nothing'"),
    ],
)
def test_bad_requests_store_nothing(client, method, path, content, status, said):
    answer = client.request(method, path, json=content)
    assert answer.status_code == status, answer.text
    assert said in answer.text
    assert client.get("/v1/items", params={"limit": 1000}).json()["total"] == 30


def test_ids_may_be_texts(client):
    """The model has integers; with a text among them all are texts, which changes no answer."""
    before = client.post("/v1/predictions", json={"user": "3", "items": ["1", "2"]}).json()["items"]
    assert client.post("/v1/items", json={"items": [{"item": "ünïcode/ä"}]}).status_code == 201
    assert "ünïcode/ä" in listed(client)
    after = client.post("/v1/predictions", json={"user": "3", "items": ["1", "2"]}).json()["items"]
    assert [one["mean"] for one in after] == pytest.approx([one["mean"] for one in before], abs=1e-5)


def test_all_or_none(client):
    several = {"items": [{"item": "901"}, {"item": "1"}]}
    assert client.post("/v1/items", json=several).status_code == 409
    assert client.get("/v1/items/901").status_code == 404


def test_what_the_model_was_not_fitted_with_is_named(client):
    answer = client.post("/v1/items", json={"items": [{"item": "902", "attributes": {"price": 3}}]})
    assert answer.status_code == 201
    assert answer.json()["remarks"] == ["the model was not fitted with price, which cannot count for new items"]


def test_a_model_that_must_be_fitted_again_says_so(tmp_path):
    artifact.save(ALS(n_factors=2, regularisation=0.1, seed=0).fit(small_ratings()), tmp_path / "als")
    settings = Settings(model=str(tmp_path / "als"), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    with TestClient(create_app(settings)) as client:
        answer = client.post("/v1/items", json=NEW).json()
        assert answer["recommendable"] is False
        assert answer["remarks"] == ["ALS takes new items in its next fit only: tastespace retrain"]
        assert "900" not in listed(client)
        assert client.put("/v1/users/3/ratings/900", json={"rating": 5}).status_code == 200  # for that fit


def test_the_database_keeps_items(database):
    store = Store(database)
    store.migrate()
    catalogue = Catalogue(store)
    assert (catalogue.revision(), catalogue.all()) == (0, [])
    catalogue.add([StoredItem("a", "A", {"year": 1990}), StoredItem("b", None, {"genres": ["x"]})])
    assert catalogue.revision() == 1
    catalogue.change("b", "B", {"year": 2}, is_known=False)
    catalogue.remove("a", is_known=False)
    assert catalogue.revision() == 3
    assert catalogue.all() == [
        StoredItem("b", "B", {"genres": ["x"], "year": 2}),
        StoredItem("a", "A", {"year": 1990}, is_deleted=True),
    ]
    store.close()


def test_retraining_keeps_what_is_said_of_items(small_model):
    """Of rated new items their descriptions, of old ones the changed ones, and features of all."""
    old = artifact.load(small_model)
    features = {item: {"genre": "abc"[item % 3]} for item in old.ratings_.items.ids}
    model = ALS(n_factors=2, regularisation=0.1, seed=0).fit(old.ratings_.with_item_features(features))
    frame = old.ratings_.to_polars().select(pl.col("user", "item").cast(pl.String), pl.col("rating").cast(pl.Float64))
    new = pl.DataFrame({"user": ["3", "4"], "item": ["900", "900"], "rating": [5.0, 4.0]})
    stored = pl.concat([frame, new]).with_columns(time=pl.lit(None, pl.Int64))
    items = [StoredItem("900", "New", {"genre": "b"}), StoredItem("5", "Five", {}), StoredItem("7", None, {}, True)]
    ratings = convert(stored, model, items)
    row = int(ratings.items.rows_of([900])[0])
    assert ratings.item_titles is not None
    assert ratings.item_titles[row] == "New"
    assert ratings.item_titles[int(ratings.items.rows_of([5])[0])] == "Five"
    assert ratings.item_features is not None
    assert ratings.item_features.ids.ids.equals(ratings.items.ids)
    assert ratings.item_features.cells["genre"][row].to_list() == ["b"]
    assert ratings.item_features.cells["genre"].null_count() == 0


def test_a_model_is_stocked_without_being_changed(small_model):
    model = artifact.load(small_model)
    grown = stocked(model, [StoredItem("900", "New", {"genre": "Drama"}), StoredItem("1", "One", {})])
    assert model.ratings_.n_items == 30
    assert grown.recommender.ratings_.n_items == 31
    assert model.ratings_.item_titles is not None
    assert "One" not in model.ratings_.item_titles.to_list()


def test_features_of_a_new_user_are_read_in_the_terms_of_the_model(small_model, tmp_path):
    ratings = artifact.load(small_model).ratings_
    known = {user: {"age": 20.0 + user, "job": "xy"[user % 2]} for user in ratings.users.ids}
    model = BPMF(n_factors=2, chains=1, warmup=20, draws=60, seed=1, threads=1).fit(ratings.with_user_features(known))
    artifact.save(model, tmp_path / "described")
    settings = Settings(model=str(tmp_path / "described"), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    with TestClient(create_app(settings)) as client:
        plain = client.post("/v1/recommendations", json={"history": {"1": 5}}).json()
        told = client.post("/v1/recommendations", json={"history": {"1": 5}, "user_features": {"age": 60, "job": "y"}})
        assert told.status_code == 200
        scores = [[entry["score"] for entry in answer["items"]] for answer in (plain, told.json())]
        assert scores[0] != scores[1]
        wrong = client.post("/v1/recommendations", json={"history": {"1": 5}, "user_features": {"age": "old"}})
        assert wrong.status_code == 422


def test_features_of_users_are_refused_by_a_model_without(client):
    answer = client.post("/v1/recommendations", json={"history": {"1": 5}, "user_features": {"age": 3}})
    assert answer.status_code == 422
    assert "fitted without features of users" in answer.json()["detail"]
