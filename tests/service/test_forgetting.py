"""Forgetting reaches everything: the database, caches, kept versions, the artifact, and the next model."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from cli.program import tastespace
from fastapi.testclient import TestClient
from service.conftest import small_ratings
from service.test_live_model import publish, version, wait_for

from tastespace import artifact
from tastespace.artifact.erasure import count_ratings
from tastespace.service import live_model
from tastespace.service.app import create_app, prepare


@pytest.fixture
def own_settings(settings, small_model, tmp_path):
    shutil.copytree(small_model, tmp_path / "model")
    return replace(settings, model=str(tmp_path / "model"), poll_seconds=0.05)


def run(verb, settings, *arguments):
    given = (verb, settings.model, *arguments, "--state", settings.state, "--json")
    told = tastespace(*given)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_a_deleted_user_is_erased_everywhere(own_settings, monkeypatch):
    monkeypatch.setattr(live_model, "LOOK_SECONDS", 0.0)
    prepare(own_settings)
    one_app, other_app = create_app(own_settings), create_app(own_settings)
    with TestClient(one_app) as one, TestClient(other_app) as other:
        first = version(one)
        publish(own_settings)
        second = one.post("/v1/model/reload").json()["version"]
        wait_for(lambda: version(other) == second)
        for asking in (one, other):
            asking.get("/v1/users/3/recommendations")
            assert "3" in asking.app.state.context.live.current.users()
        told = run("doctor", own_settings, "--about", "3")
        assert told["database"]["ratings"] == told["model"] > 0
        assert set(told["versions"]) == {first, second}
        assert all(told["versions"].values())

        one.delete("/v1/users/3")
        wait_for(lambda: "3" not in other.app.state.context.live.current.users())
        assert "3" not in one.app.state.context.live.current.users()
        done = run("forget", own_settings, "--deleted")
        assert done["users"] == ["3"]
        assert set(done["places"].values()) == {1}

        left = run("doctor", own_settings, "--about", "3")
        assert left["database"] == {"people": 1, "ratings": 0, "shown": 0, "judged": 0}
        assert (left["was_deleted"], left["model"], left["versions"]) == (True, None, {first: None, second: None})
        for asking in (one, other):  # They have loaded the version again.
            live = asking.app.state.context.live
            wait_for(lambda live=live: live.current.recommender.ratings_.users.rows_of([3])[0] < 0)
            assert asking.get("/v1/users/3/recommendations").json()["cold"]
            assert asking.get("/v1/ready").json()["status"] == "ready"
        assert one.post("/v1/model/rollback").json()["version"] == first  # A version is still one without them.
        assert one.get("/v1/users/4/recommendations").status_code == 200


def test_the_next_model_does_not_know_them(own_settings, tmp_path):
    prepare(own_settings)
    run("forget", own_settings, "3", "5")
    given = (own_settings.model, "--db", own_settings.database_url, "--out", tmp_path / "next")
    again = tastespace("retrain", *given, "--force")
    assert again.returncode == 0, again.stderr
    assert [count_ratings(tmp_path / "next", user) for user in ("3", "5")] == [None, None]
    assert count_ratings(tmp_path / "next", "4") > 0


def test_without_erasing_it_is_found(own_settings):
    """The broken twin: deletion in the database alone leaves them in the artifact and the versions."""
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        asking.delete("/v1/users/3")
    told = run("doctor", own_settings, "--about", "3")
    assert told["database"]["ratings"] == 0
    assert told["model"] > 0
    assert all(told["versions"].values())


def test_a_user_who_came_back_is_kept(own_settings):
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        asking.delete("/v1/users/3")
        asking.put("/v1/users/3/ratings/1", json={"rating": 4})
    assert run("forget", own_settings, "--deleted")["users"] == []


def test_everything_about_a_user_is_exported(client):
    ratings = small_ratings()
    n = int((ratings.user_ids() == 3).sum())
    told = client.get("/v1/users/3/export").json()
    assert len(told["database"]["ratings"]) == n
    assert {entry["item_id"] for entry in told["database"]["ratings"]} == {
        str(item) for item, user in zip(ratings.item_ids(), ratings.user_ids(), strict=True) if user == 3
    }
    assert list(told["versions"].values()) == [n]
    assert "user_id" not in told["database"]["ratings"][0]
    client.delete("/v1/users/3")
    assert client.get("/v1/users/3/export").json()["database"]["ratings"] == []
    assert client.get("/v1/users/never/export").status_code == 404


def test_the_export_of_the_program_is_that_of_the_service(own_settings):
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        asking.get("/v1/users/3/recommendations")
        asking.app.state.context.monitor.work()
        told = asking.get("/v1/users/3/export").json()
    assert told["database"]["shown"]
    assert run("export", own_settings, "3") == told
    plain = tastespace("export", own_settings.model, "3", "--state", own_settings.state)
    assert json.loads(plain.stdout) == told
    assert len(plain.stdout.splitlines()) > 10
    unknown = tastespace("export", own_settings.model, "never", "--state", own_settings.state)
    assert (unknown.returncode, "is unknown" in unknown.stderr) == (1, True)


def test_options_that_say_nothing_are_refused(own_settings):
    assert tastespace("forget", own_settings.model).returncode == 2
    assert tastespace("doctor", "--about", "3").returncode == 2
    assert artifact.verified(own_settings.model)["model"] == "bpmf"
