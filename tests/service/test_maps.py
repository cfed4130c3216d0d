"""What is there to be drawn: the map is made once and kept for all, and what is told is what was declared."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel
from safetensors.numpy import load_file, save_file
from service.conftest import small_ratings

from tastespace import ALS, Popular, artifact
from tastespace.randomness import generator
from tastespace.report.model_story import model_outline, model_story
from tastespace.report.taste_map import DRAWS, map_content, place_content, taste_map, user_place
from tastespace.service import maps
from tastespace.service.app import create_app, prepare
from tastespace.service.messages import Map, ModelOutline, ModelStory, Pending, Place
from tastespace.testing.toys import gaussian

needs_tsne = pytest.mark.skipif(find_spec("sklearn") is None, reason="needs the extra plot")


def checked(answer, declared: type[BaseModel]):
    """The content, which has all that is declared, and nothing else."""
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    told = declared.model_validate(content)
    assert content.keys() == {field.alias or name for name, field in declared.model_fields.items()}
    return told


def version(asking) -> str:
    return asking.get("/v1/model").json()["version"]


def kept_map(settings, asking, method: str = "pca"):
    return settings.folder / "maps" / version(asking) / f"{method}.safetensors"


@pytest.fixture
def no_computing(monkeypatch):
    """Whoever makes a map from now on fails."""

    def fail(*arguments):
        raise AssertionError("the map was made once more")

    return lambda: monkeypatch.setattr(maps, "taste_map", fail)


def test_the_map_is_that_of_the_library(client, small_model):
    answer = client.get("/v1/map")
    assert answer.status_code == 200
    told = checked(answer, Map)
    model = artifact.load(small_model)
    shown = taste_map(model)
    assert (told.model, told.method, told.total) == (version(client), "pca", 30)
    assert told.explained == pytest.approx(shown.explained, rel=1e-5)
    np.testing.assert_allclose(np.array([told.x, told.y]).T, shown.places, atol=1e-4)
    assert told.items == [str(item) for item in model.ratings_.items.ids]
    assert told.titles == model.ratings_.item_titles.to_list()
    assert sum(told.ratings) == len(model.ratings_)
    assert sorted(told.attributes["genre"]["values"]) == ["Comedy", "Drama", "Horror"]
    for name in ("items", "titles", "x", "y", "ratings"):
        assert len(getattr(told, name)) == 30
    assert client.get("/v1/map", params={"method": "pca"}).content == answer.content


@needs_tsne
def test_both_methods_have_maps_of_their_own(client, settings):
    told = client.get("/v1/map", params={"method": "tsne"})
    while told.status_code == 202:  # The first import of a large library may take longer than a request waits.
        told = client.get("/v1/map", params={"method": "tsne"})
    told = checked(told, Map)
    assert told.method == "tsne"
    assert told.explained is None
    assert told.x != client.get("/v1/map").json()["x"]
    assert kept_map(settings, client, "tsne").is_file()
    assert kept_map(settings, client, "pca").is_file()


def test_the_place_of_a_user_is_that_of_the_library(client, small_model):
    answer = client.get("/v1/users/3/place")
    assert answer.status_code == 200
    told = checked(answer, Place)
    assert (told.user, told.model, told.method, told.remarks) == ("3", version(client), "pca", [])
    assert np.shape(told.draws) == (DRAWS, 2)
    np.testing.assert_allclose(told.middle, np.mean(told.draws, axis=0), atol=2e-4)
    assert client.get("/v1/users/3/place").json() == answer.json()
    posted = client.post("/v1/place", json={"user": "3", "method": "pca"})
    assert posted.json() == answer.json()
    model = artifact.load(small_model)
    expected = place_content(user_place(taste_map(model), model.about(["3"])))
    np.testing.assert_allclose(told.middle, expected["middle"], atol=0.05)  # folded in from stored ratings


def test_the_history_of_a_new_user_has_a_place(client, small_model):
    model = artifact.load(small_model)
    history = {str(item): 5.0 if item % 2 else 1.0 for item in range(12)}
    told = checked(client.post("/v1/place", json={"history": history}), Place)
    assert told.user is None
    expected = user_place(taste_map(model), model.about(["you"], history={int(item): r for item, r in history.items()}))
    np.testing.assert_allclose(told.middle, expected.middle, atol=1e-3)
    nobody = checked(client.post("/v1/place", json={}), Place)
    assert list(nobody.middle) != list(told.middle)
    assert client.get("/v1/users/nobody/place").json()["draws"] is not None
    assert client.get("/v1/model").json()["people"] == 40  # Nothing was stored.


def test_a_new_rating_moves_a_user(client):
    before = client.get("/v1/users/3/place").json()["middle"]
    for item in range(10):
        client.put(f"/v1/users/3/ratings/{item}", json={"rating": 1 if item % 2 else 5})
    assert client.get("/v1/users/3/place").json()["middle"] != before


def test_the_outline_and_the_story_are_those_of_the_library(client, small_model):
    model, manifest = artifact.load(small_model), artifact.read_manifest(small_model)
    outline = client.get("/v1/model/outline")
    told = checked(outline, ModelOutline)
    assert (told.kind, list(told.range), told.levels) == ("BPMF", [1, 5], [1, 2, 3, 4, 5])
    data = {"n_ratings": len(model.ratings_), "n_users": 40, "n_items": 30, "has_ratings": True, "has_times": False}
    names = {"version": version(client), "items_are": None, "images": None}
    about = {**names, **data, "trained_at": told.trained_at.isoformat()}
    assert abs(told.trained_at.timestamp() - (small_model / "manifest.json").stat().st_mtime) < 1
    assert outline.json() == {**about, **model_outline(model)}
    story = client.get("/v1/model/story")
    assert checked(story, ModelStory).chains["warmup"] == 20
    assert story.json() == {**about, **model_story(model, manifest)}


def test_what_cannot_be_drawn_is_reported(client):
    for method, path, content in (
        ("GET", "/v1/map?method=umap", None),
        ("GET", "/v1/users/3/place?method=umap", None),
        ("POST", "/v1/place", {"user": "3", "method": "umap"}),
        ("POST", "/v1/place", {"user": "3", "history": {"1": 5}}),
        ("POST", "/v1/place", {"history": {"1": 99}}),
        ("POST", "/v1/place", {"history": {"1": "good"}}),
        ("GET", "/v1/users/a%00b/place", None),
    ):
        answer = client.request(method, path, json=content)
        assert answer.status_code == 422, (path, content)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


@pytest.fixture
def tasteless(settings, tmp_path):
    """A service whose model has no tastes."""
    artifact.save(Popular().fit(small_ratings()), tmp_path / "popular")
    told = replace(settings, model=str(tmp_path / "popular"))
    prepare(told)
    with TestClient(create_app(told)) as asking:
        yield asking


def test_a_model_without_tastes_has_no_map(tasteless):
    for _ in range(2):
        for path in ("/v1/map", "/v1/users/3/place"):
            answer = tasteless.get(path)
            assert answer.status_code == 422
            assert "Popular has no taste space to draw a map of; expected a model with" in answer.json()["detail"]
    assert tasteless.get("/v1/model/outline").json()["can"] == {
        "uncertainty": False,
        "choices": False,
        "ask": False,
        "map": False,
    }
    assert checked(tasteless.get("/v1/model/story"), ModelStory).chains is None


def test_the_map_is_kept_for_the_next_service(client, settings, no_computing):
    first = client.get("/v1/map")
    path = kept_map(settings, client)
    assert load_file(path)["places"].shape == (30, 2)
    assert sorted(file.name for file in path.parent.iterdir()) == ["pca.making", "pca.safetensors"]  # no halves
    no_computing()
    with TestClient(create_app(settings)) as other:
        assert other.get("/v1/map").content == first.content
        assert other.get("/v1/users/3/place").json() == client.get("/v1/users/3/place").json()


def test_a_map_is_made_once_however_many_ask(client, monkeypatch):
    made, gate = [], threading.Event()

    def slowly(*arguments):
        made.append(arguments)
        gate.wait(10)
        return taste_map(*arguments)

    monkeypatch.setattr(maps, "taste_map", slowly)
    monkeypatch.setattr(maps.Maps.get, "__defaults__", (0.01,))
    for _ in range(3):
        answer = client.get("/v1/map")
        assert answer.status_code == 202
        assert checked(answer, Pending).status == "being made"
        assert answer.headers["Retry-After"] == "1"
    assert client.get("/v1/users/3/place").status_code == 202
    gate.set()
    monkeypatch.setattr(maps.Maps.get, "__defaults__", (10.0,))
    assert client.get("/v1/map").status_code == 200
    assert client.get("/v1/users/3/place").status_code == 200
    assert len(made) == 1


@pytest.mark.parametrize("damage", ["truncated", "empty", "nonsense", "parts missing"])
def test_a_damaged_map_is_made_again(client, settings, caplog, damage):
    first = client.get("/v1/map")
    path = kept_map(settings, client)
    whole = path.read_bytes()
    content = {"truncated": whole[: len(whole) - 100], "empty": b"", "nonsense": b"\xff" * 300}
    content["parts missing"] = whole.replace(b'"places"', b'"pieces"')
    path.write_bytes(content[damage])
    with TestClient(create_app(settings)) as other:
        assert other.get("/v1/map").content == first.content
    assert "cannot be read and is made again" in caplog.text
    assert path.read_bytes() == whole


def test_a_claim_of_a_dead_worker_blocks_no_other(client, settings):
    """A claim is a lock, which ends with its process; the file that it was on stays."""
    path = kept_map(settings, client).with_suffix(".making")
    path.parent.mkdir(parents=True)
    path.write_text("1")
    assert client.get("/v1/map").status_code == 200


def test_what_another_worker_makes_is_waited_for(client, settings, no_computing):
    made, path = client.get("/v1/map"), kept_map(settings, client)
    aside = path.with_suffix(".aside")
    path.rename(aside)
    no_computing()
    with path.with_suffix(".making").open("a") as claim, TestClient(create_app(settings)) as other:
        fcntl.flock(claim, fcntl.LOCK_EX)  # as another process would
        for _ in range(2):
            answer = other.get("/v1/map")
            assert answer.status_code == 202
            assert answer.headers["Retry-After"] == "1"
            assert other.get("/v1/users/3/place").status_code == 202
        aside.rename(path)
        assert other.get("/v1/map").content == made.content


def test_maps_of_dropped_versions_are_removed(settings, small_model, tmp_path):
    shutil.copytree(small_model, tmp_path / "model")
    told = replace(settings, model=str(tmp_path / "model"), kept_versions=1)
    prepare(told)
    folder = told.folder / "maps"
    with TestClient(create_app(told)) as asking:
        versions = [version(asking)]
        assert asking.get("/v1/map").json()["model"] == versions[0]
        for seed in (5, 6):
            artifact.save(ALS(n_factors=2, regularization=0.1, seed=seed, threads=1).fit(small_ratings()), told.model)
            versions.append(asking.post("/v1/model/reload").json()["version"])
            answer = asking.get("/v1/map").json()
            assert answer["model"] == versions[-1]
        kept = {entry.name for entry in (told.folder / "versions").iterdir()}
        assert versions[0] not in kept
        assert {entry.name for entry in folder.iterdir()} == set(versions[1:])
        # The version before is gone back to, and its map with it.
        assert asking.post("/v1/model/rollback").json()["version"] == versions[1]
        assert asking.get("/v1/map").json()["model"] == versions[1]


def test_places_of_a_model_of_points(settings, tmp_path):
    model = ALS(n_factors=2, regularization=0.1, seed=5, threads=1).fit(small_ratings())
    artifact.save(model, tmp_path / "als")
    told = replace(settings, model=str(tmp_path / "als"))
    prepare(told)
    with TestClient(create_app(told)) as asking:
        place = checked(asking.get("/v1/users/3/place"), Place)
        assert place.draws is None
        assert all(-1 <= number <= 1 for number in place.middle)
        assert checked(asking.get("/v1/model/story"), ModelStory).course["name"] == "loss"


# maps that cannot be kept, read or made


@pytest.mark.parametrize("left", ["own number", "nothing"])
def test_a_mark_of_an_earlier_run_blocks_no_other(client, settings, left):
    """In a container every start has the same process number; and a full disk leaves a mark without one."""
    mark = kept_map(settings, client).with_suffix(".making")
    mark.parent.mkdir(parents=True)
    mark.write_text(str(os.getpid()) if left == "own number" else "")
    os.utime(mark, (0, 0))  # long ago
    assert client.get("/v1/map").status_code == 200


def test_a_map_that_cannot_be_kept_is_shown_all_the_same(client, settings):
    (settings.folder / "maps").write_text("a file where a folder should be")
    assert client.get("/v1/map").status_code == 200
    assert client.get("/v1/users/3/place").status_code == 200


def test_what_goes_wrong_unexpectedly_is_a_fault_and_no_promise(client, monkeypatch):
    def fail(*arguments):
        raise ValueError("unforeseen")

    monkeypatch.setattr(maps, "taste_map", fail)
    assert client.get("/v1/map").status_code == 500


@pytest.mark.parametrize("header", [b"[]", b'{"explained": 3}', b"5"])
def test_a_map_with_a_strange_header_is_made_again(client, settings, header):
    first = client.get("/v1/map").content
    kept_map(settings, client).write_bytes(len(header).to_bytes(8, "little") + header)
    with TestClient(create_app(settings)) as other:
        assert other.get("/v1/map").content == first


@pytest.mark.parametrize("damage", ["not numbers", "rows of another model", "a place too few"])
def test_a_map_that_does_not_fit_is_made_again(client, settings, damage):
    first, path = client.get("/v1/map").content, kept_map(settings, client)
    arrays = {name: array.copy() for name, array in load_file(path).items()}
    if damage == "not numbers":
        arrays["places"][3] = np.nan
    elif damage == "rows of another model":
        arrays["item_rows"][3] = 3000
    else:
        arrays["places"] = arrays["places"][:-1].copy()
    save_file(arrays, path)
    with TestClient(create_app(settings)) as other:
        assert other.get("/v1/map").content == first


def test_items_can_be_coloured_by_what_is_true_of_them():
    ratings = gaussian(40, 30, density=0.5, rng=generator(1))[0]
    about = pl.DataFrame({"old": [item < 10 for item in range(30)]})
    model = ALS(n_factors=2, regularization=0.1, seed=1, threads=1).fit(ratings.with_items(None, about))
    assert map_content(model, taste_map(model))["attributes"]["old"] == {
        "values": ["false", "true"],
        "of": [[1]] * 10 + [[0]] * 20,
    }
