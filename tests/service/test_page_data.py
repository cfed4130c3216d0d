"""What the page asks the service for beside lists: how many items fit, what is popular now, words, images, versions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient
from service.conftest import small_ratings

from tastespace import BPMF, Popular, artifact
from tastespace.data.kinds import liked_from
from tastespace.data.ratings import Ratings
from tastespace.errors import DataWarning, InvalidParameterError
from tastespace.service.app import create_app, prepare
from tastespace.service.settings import Settings


def asking_of(model, tmp_path, **settings) -> TestClient:
    chosen = Settings(model=str(model), state=str(tmp_path / "state"), rate=0, **settings)
    prepare(chosen)
    return TestClient(create_app(chosen))


def ids(answer) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["item"] for one in answer.json()["items"]]


def test_items_that_fit_a_condition_are_counted_and_listed(read_only_client):
    dramas = read_only_client.get("/v1/items", params={"where": "genre = Drama", "limit": 3}).json()
    assert dramas["total"] == 10
    assert len(dramas["items"]) == 3
    assert all(one["attributes"]["genre"] == "Drama" for one in dramas["items"])
    counts = [one["ratings"] for one in dramas["items"]]
    assert counts == sorted(counts, reverse=True)
    least = counts[0]
    often = read_only_client.get("/v1/items", params={"where": f"ratings >= {least} and genre = Drama"})
    assert often.json()["total"] >= 1
    assert all(one["ratings"] >= least for one in often.json()["items"])
    assert read_only_client.get("/v1/items", params={"where": "genre >"}).status_code == 422


def test_what_a_user_has_rated_can_be_left_out(read_only_client):
    rated = read_only_client.get("/v1/users/3/ratings", params={"limit": 1000}).json()
    left = read_only_client.get("/v1/items", params={"not_rated_by": "3", "limit": 1000}).json()
    assert left["total"] == 30 - rated["total"]
    assert not {one["item"] for one in left["items"]} & {one["item"] for one in rated["ratings"]}
    assert read_only_client.get("/v1/items", params={"not_rated_by": "nobody"}).json()["total"] == 30


@pytest.fixture(scope="module")
def timed_model(tmp_path_factory):
    """Item 0 was rated by twenty users long ago, item 1 by five users of late, item 2 by one without a time."""
    rows = [(user, 0, "2001-05-01") for user in range(20)] + [(user, 1, "2020-05-01") for user in range(5)]
    rows += [(7, 2, None)]
    users, items, days = zip(*rows, strict=True)
    frame = pl.DataFrame({"user": users, "item": items, "rating": [1.0 + user % 5 for user in users], "time": days})
    with pytest.warns(DataWarning, match="have no time"):
        ratings = Ratings.from_frame(frame.with_columns(pl.col("time").str.to_datetime("%Y-%m-%d")))
    folder = tmp_path_factory.mktemp("timed") / "model"
    images = [f"https://images.example/{item}.jpg" for item in ratings.items.ids]
    ratings = ratings.with_items(None, pl.DataFrame({"poster": images}))
    artifact.save(Popular().fit(ratings), folder, source="movielens-demo")
    return folder


def test_recent_ratings_count_more(timed_model, tmp_path):
    with asking_of(timed_model, tmp_path) as asking:
        assert ids(asking.get("/v1/items")) == ["0", "1", "2"]
        assert ids(asking.get("/v1/items", params={"order": "recent"})) == ["1", "0", "2"]
        assert asking.get("/v1/model/outline").json()["has_times"]


def test_without_times_recent_is_popular(read_only_client):
    by_all, recent = (
        ids(read_only_client.get("/v1/items", params={"order": order})) for order in ("ratings", "recent")
    )
    assert by_all == recent


def test_new_arrivals_are_listed_the_latest_first(client):
    assert ids(client.get("/v1/items", params={"order": "new"})) == []
    for name in ("first", "second"):
        added = {"items": [{"item": name, "title": name, "attributes": {"genre": "Drama"}}]}
        assert client.post("/v1/items", json=added).json()["recommendable"]
    assert ids(client.get("/v1/items", params={"order": "new"})) == ["second", "first"]
    client.delete("/v1/items/second")
    assert ids(client.get("/v1/items", params={"order": "new"})) == ["first"]


def test_entries_have_counts_and_the_threshold_of_a_liked_rating(read_only_client, small_model):
    found = read_only_client.get("/v1/users/3/recommendations").json()
    ratings = small_ratings()
    counts = dict(zip(ratings.items.ids.cast(pl.String), np.bincount(ratings.item_rows), strict=True))
    assert {one["item"]: one["ratings"] for one in found["items"]} == {
        one["item"]: counts[one["item"]] for one in found["items"]
    }
    own = ratings.by_user.take(ratings.users.rows_of(["3"]))
    assert found["liked_from"] == pytest.approx(liked_from(own, ratings.mean)[0], abs=1e-3)


def test_a_point_model_has_no_threshold(timed_model, tmp_path):
    with asking_of(timed_model, tmp_path) as asking:
        found = asking.post("/v1/recommendations", json={}).json()
    assert "liked_from" not in found
    assert [one["ratings"] for one in found["items"]] == [20, 5, 1]


def test_the_word_for_items(timed_model, small_model, tmp_path):
    with asking_of(timed_model, tmp_path / "1") as asking:
        assert asking.get("/v1/model/outline").json()["items_are"] == "films"  # of the data set
    with asking_of(timed_model, tmp_path / "2", items_are="movies") as asking:
        assert asking.get("/v1/model/outline").json()["items_are"] == "movies"
    with asking_of(small_model, tmp_path / "3") as asking:
        assert asking.get("/v1/model/outline").json()["items_are"] is None  # Nothing is guessed.
    with pytest.raises(InvalidParameterError, match="expected a word in the plural"):
        Settings(model="m", items_are=" ").check()


def test_images_are_loaded_only_if_told(timed_model, tmp_path):
    with asking_of(timed_model, tmp_path / "1") as asking:
        assert asking.get("/v1/model/outline").json()["images"] is None
        assert "https:" not in asking.get("/").headers["Content-Security-Policy"]
    with asking_of(timed_model, tmp_path / "2", images="poster") as asking:
        assert asking.get("/v1/model/outline").json()["images"] == "poster"
        assert "img-src 'self' http: https: data:" in asking.get("/").headers["Content-Security-Policy"]
    with asking_of(timed_model, tmp_path / "3", images="cover") as asking:
        assert asking.get("/v1/model/outline").json()["images"] is None  # No such attribute.


def test_versions_have_the_measures_they_were_saved_with(settings, tmp_path):
    model = BPMF(n_factors=2, chains=1, warmup=20, draws=60, seed=1, threads=1).fit(small_ratings())
    folder = tmp_path / "model"
    calibration = {"measures": {"coverage_90": 0.91, "expected_90": 0.9, "crps": 0.5}}
    artifact.save(model, folder, measures={"holdout": {"rmse": 0.8, "calibration": calibration}})
    told = replace(settings, model=str(folder))
    prepare(told)
    with TestClient(create_app(told)) as asking:
        artifact.save(model, folder, measures={})
        assert asking.post("/v1/model/reload").json()["changed"]
        now, before = asking.get("/v1/model").json()["versions"]
        assert now["measures"] == {}
        assert before["measures"] == {"rmse": 0.8, "coverage_90": 0.91, "expected_90": 0.9}
        at = datetime.fromisoformat(asking.get("/v1/model/outline").json()["trained_at"])
    assert abs((datetime.now(UTC) - at).total_seconds()) < 600
