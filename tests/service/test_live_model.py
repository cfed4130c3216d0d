"""One model in place of another: in every worker, never a bad one, and back again."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from artifacts.editing import write_manifest
from fastapi.testclient import TestClient
from service.conftest import small_ratings

from tastespace import ALS, artifact
from tastespace.models import Recommender
from tastespace.service import live_model
from tastespace.service.app import create_app, prepare
from tastespace.service.live_model import MAX_ANSWERS, Known, LiveModel


@pytest.fixture
def own_settings(settings, small_model, tmp_path):
    """With a model that may be changed."""
    shutil.copytree(small_model, tmp_path / "model")
    return replace(settings, model=str(tmp_path / "model"), poll_seconds=0.05)


@pytest.fixture
def two_workers(own_settings):
    """Two applications on one database, as two processes would be."""
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as one, TestClient(create_app(own_settings)) as other:
        yield one, other


def publish(settings, seed: int = 5) -> None:
    artifact.save(ALS(n_factors=2, regularization=0.1, seed=seed, threads=1).fit(small_ratings()), settings.model)


def wait_for(condition) -> None:
    for _ in range(100):
        if condition():
            return
        threading.Event().wait(0.05)
    raise AssertionError("did not happen within 5 seconds")


def version(asking) -> str:
    return asking.get("/v1/model").json()["version"]


def test_a_rating_reaches_the_other_worker_at_once(two_workers):
    one, other = two_workers
    before = other.get("/v1/users/3/recommendations", params={"n": 30}).json()["items"]
    item = before[0]["item"]
    one.put(f"/v1/users/3/ratings/{item}", json={"rating": 1})
    after = other.get("/v1/users/3/recommendations", params={"n": 30}).json()["items"]
    assert item not in [entry["item"] for entry in after]


def test_another_model_reaches_all_and_can_be_taken_back(two_workers, own_settings):
    one, other = two_workers
    first = version(one)
    publish(own_settings)
    assert version(one) == first  # Nobody has asked for it.
    told = one.post("/v1/model/reload").json()
    assert told["version"].startswith("als-")
    assert version(one) == told["version"]
    wait_for(lambda: version(other) == told["version"])
    # The folder of the first model is gone; its version is not.
    assert other.post("/v1/model/rollback").json()["version"] == first
    wait_for(lambda: version(one) == first)
    assert one.get("/v1/users/3/recommendations").json()["items"][0]["belief_sd"] is not None
    assert one.post("/v1/model/rollback").status_code == 409
    assert [entry["reason"] for entry in one.get("/v1/model").json()["versions"]] == ["rollback", "reload", "start"]


def test_what_answered_last_answers_after_a_restart(own_settings):
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        publish(own_settings)
        served = asking.post("/v1/model/reload").json()["version"]
        publish(own_settings, seed=6)
    with TestClient(create_app(own_settings)) as again:
        assert version(again) == served


@pytest.mark.parametrize("damage", ["truncated", "no manifest", "nothing there", "not numbers"])
def test_a_damaged_model_changes_nothing(two_workers, own_settings, tmp_path, damage):
    one, other = two_workers
    first = version(one)
    folder = tmp_path / "model"
    if damage == "truncated":
        content = (folder / "posterior.safetensors").read_bytes()
        (folder / "posterior.safetensors").unlink()  # A version may link to it.
        (folder / "posterior.safetensors").write_bytes(content[: len(content) // 2])
    elif damage == "no manifest":
        (folder / "manifest.json").unlink()
    elif damage == "nothing there":
        shutil.rmtree(folder)
    else:
        content = bytearray((folder / "posterior.safetensors").read_bytes())
        content[-4096:] = b"\xff" * 4096  # not-a-number, as floats
        (folder / "posterior.safetensors").unlink()
        (folder / "posterior.safetensors").write_bytes(content)
    answer = one.post("/v1/model/reload")
    assert answer.status_code == 409
    assert "the model was not changed" in answer.json()["detail"]
    assert version(one) == version(other) == first
    assert one.get("/v1/users/3/recommendations").status_code == 200


def test_an_answer_does_not_wait_for_another(two_workers, monkeypatch):
    """While one is being made, others are: nothing is locked for as long as that takes."""
    one, _ = two_workers
    begun, let_go, recommend = threading.Event(), threading.Event(), Recommender.recommend

    def slowly(model, query, *given, **options):
        if query.users[0] == "3":
            begun.set()
            assert let_go.wait(10)
        return recommend(model, query, *given, **options)

    monkeypatch.setattr(Recommender, "recommend", slowly)
    answers = []
    asker = threading.Thread(target=lambda: answers.append(one.get("/v1/users/3/recommendations").status_code))
    asker.start()
    assert begun.wait(10)
    assert one.get("/v1/users/4/recommendations").status_code == 200
    assert not answers
    let_go.set()
    asker.join()
    assert answers == [200]


def test_a_swap_goes_unnoticed(two_workers, own_settings):
    """Requests all the while: none fails, and both models have answered."""
    one, _ = two_workers
    failed, seen, stop = [], set(), threading.Event()

    def ask() -> None:
        user = 0
        while not stop.is_set():
            user = (user + 1) % 40
            answer = one.get(f"/v1/users/{user}/recommendations")
            seen.add(answer.json().get("model"))
            if answer.status_code != 200:
                failed.append(answer.text)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    publish(own_settings)
    assert one.post("/v1/model/reload").status_code == 200
    threading.Event().wait(0.3)
    assert one.post("/v1/model/rollback").status_code == 200
    threading.Event().wait(0.3)
    stop.set()
    for asker in askers:
        asker.join()
    assert not failed
    assert len(seen) == 2


def test_old_versions_are_dropped(own_settings, tmp_path):
    few = replace(own_settings, kept_versions=1)
    prepare(few)
    with TestClient(create_app(few)) as asking:
        for seed in range(4):
            publish(few, seed)
            assert asking.post("/v1/model/reload").status_code == 200
        assert len(list((tmp_path / "state" / "versions").iterdir())) == 2
        assert asking.post("/v1/model/rollback").status_code == 200


def test_beliefs_kept_are_bounded(own_settings):
    few = replace(own_settings, cached_users=3)
    prepare(few)
    app = create_app(few)
    with TestClient(app) as asking:
        for user in range(10):
            asking.get(f"/v1/users/{user}/recommendations")
        assert len(app.state.context.live.current._users) == 3


def test_answers_are_kept_until_a_rating_comes(own_settings, monkeypatch):
    prepare(own_settings)
    app = create_app(own_settings)
    with TestClient(app) as asking:
        computed = []
        recommend = Recommender.recommend
        monkeypatch.setattr(
            Recommender,
            "recommend",
            lambda self, *given, **named: computed.append(1) or recommend(self, *given, **named),
        )
        first = asking.get("/v1/users/3/recommendations")
        assert asking.get("/v1/users/3/recommendations").content == first.content
        assert len(computed) == 1
        other = asking.get("/v1/users/3/recommendations", params={"policy": "cautious"})
        assert other.json()["policy"] == "cautious"
        assert len(computed) == 2
        best = first.json()["items"][0]["item"]
        asking.put(f"/v1/users/3/ratings/{best}", json={"rating": 1})
        assert best not in [entry["item"] for entry in asking.get("/v1/users/3/recommendations").json()["items"]]
        asking.delete(f"/v1/users/3/ratings/{best}")
        assert asking.get("/v1/users/3/recommendations").content == first.content
        assert len(computed) == 4
        for n in range(1, 30):
            asking.get("/v1/users/3/recommendations", params={"n": n})
        (known,) = app.state.context.live.current._users.values()
        assert len(known.answers) == MAX_ANSWERS


def test_what_is_long_is_not_kept(own_settings, monkeypatch):
    """Neither answers nor questions: anybody may ask."""
    prepare(own_settings)
    app = create_app(own_settings)
    with TestClient(app) as asking:
        path = "/v1/recommendations"
        answer = asking.post(path, json={"user": "3", "n": 3})
        (known,) = app.state.context.live.current._users.values()
        (kept,) = known.answers.items()
        assert kept[1][0] == answer.text
        assert asking.post(path, json={"user": "3", "n": 3, "exclude": ["none"] * 10_000}).status_code == 200
        assert len(known.answers) == 1
        assert asking.post(path, json={"user": "3", "n": 3, "exclude": ["none"] * 10_001}).status_code == 422
        monkeypatch.setattr(live_model, "MAX_ANSWER_LENGTH", 100)
        asking.post(path, json={"user": "3", "n": 4})
        assert len(known.answers) == 1


def test_recent_users_are_kept(own_settings):
    """Also if their answer was cached: other users do not push them out."""
    few = replace(own_settings, cached_users=3)
    prepare(few)
    app = create_app(few)
    with TestClient(app) as asking:
        for user in (1, 2, 3, 1, 4, 1, 5):
            asking.get(f"/v1/users/{user}/recommendations")
        assert list(app.state.context.live.current._users) == ["4", "1", "5"]


def test_something_newer_is_not_replaced(own_settings):
    prepare(own_settings)
    app = create_app(own_settings)
    with TestClient(app) as asking:
        asking.get("/v1/users/3/recommendations")
        loaded = app.state.context.live.current
        (newer,) = loaded._users.values()
        loaded.keep("3", Known(newer.version - 1, newer.query))
        assert loaded.known("3", newer.version) is newer


def test_answers_of_another_model_and_of_the_deleted_are_not_kept(own_settings):
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        first = asking.get("/v1/users/3/recommendations").json()
        publish(own_settings)
        asking.post("/v1/model/reload")
        second = asking.get("/v1/users/3/recommendations").json()
        assert second["model"] != first["model"]
        asking.post("/v1/model/rollback")
        assert asking.get("/v1/users/3/recommendations").json() == first
        asking.delete("/v1/users/3")
        assert asking.get("/v1/users/3/recommendations").json()["cold"]


def test_answers_are_never_older_than_an_acknowledged_rating(own_settings):
    """One rates while others ask the same: what was acknowledged before a question is in its answer."""
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        items = [entry["item"] for entry in asking.get("/v1/users/3/recommendations?n=8").json()["items"]]
        rated, wrong, is_over = [], [], threading.Event()

        def look():
            while not is_over.is_set():
                before = set(rated)
                told = asking.get("/v1/users/3/recommendations?n=8").json()["items"]
                wrong.extend(entry["item"] for entry in told if entry["item"] in before)

        lookers = [threading.Thread(target=look) for _ in range(3)]
        for looker in lookers:
            looker.start()
        for item in items:
            assert asking.put(f"/v1/users/3/ratings/{item}", json={"rating": 4}).status_code == 200
            rated.append(item)
        is_over.set()
        for looker in lookers:
            looker.join()
        assert not wrong


def test_the_check_for_another_model_continues(two_workers, own_settings, monkeypatch, caplog):
    """Whatever happens once must not keep a worker from following for ever."""
    one, other = two_workers
    with monkeypatch.context() as patch:
        patch.setattr(LiveModel, "refresh", lambda self: 1 / 0)
        wait_for(lambda: "ZeroDivisionError" in caplog.text)
    publish(own_settings)
    told = one.post("/v1/model/reload").json()["version"]
    wait_for(lambda: version(other) == told)


def test_a_new_artifact_that_waits_is_reported_at_a_start(own_settings, caplog):
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        served = version(asking)
    assert "answered last" not in caplog.text
    publish(own_settings)
    with TestClient(create_app(own_settings)) as again:
        assert version(again) == served
    assert "POST /v1/model/reload activates it" in caplog.text


# versions are copies


def kept(settings) -> list[str]:
    return sorted(entry.name for entry in (settings.folder / "versions").iterdir())


def test_versions_share_nothing_with_the_artifact(own_settings):
    """Writing over the files of the artifact used to change the version, and kill workers that had it mapped."""
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        first, before = version(asking), asking.get("/v1/users/3/recommendations").json()
        folder = own_settings.folder / "versions" / first
        for file in Path(own_settings.model).iterdir():
            assert not file.samefile(folder / file.name)
            file.write_bytes(b"")  # as a copy over it begins
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o444}
        assert folder.stat().st_mode & 0o777 == 0o555
        assert asking.get("/v1/users/3/recommendations?n=9").json()["items"][0] == before["items"][0]
        shutil.rmtree(own_settings.model)
        publish(own_settings)
        asking.post("/v1/model/reload")
        asking.post("/v1/model/rollback")
        assert asking.get("/v1/users/3/recommendations").json() == before


def test_reloading_the_same_does_nothing(own_settings):
    """Ten of them used to delete the way back."""
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        first = version(asking)
        publish(own_settings)
        second = asking.post("/v1/model/reload").json()
        assert (second["before"], second["changed"]) == (first, True)
        for _ in range(12):
            again = asking.post("/v1/model/reload").json()
            assert again == second | {"before": second["version"], "changed": False}
        publish(own_settings)  # The same seed makes the same bytes: a copy of them is no other version either.
        assert not asking.post("/v1/model/reload").json()["changed"]
        back = asking.post("/v1/model/rollback").json()
        assert (back["version"], back["before"], back["reason"]) == (first, second["version"], "rollback")


def test_what_is_refused_leaves_nothing_behind(own_settings, monkeypatch):
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        there = kept(own_settings)
        publish(own_settings)
        with monkeypatch.context() as patch:
            patch.setattr(LiveModel, "_load", lambda self, *given, **named: artifact.load("/nowhere"))
            assert asking.post("/v1/model/reload").status_code == 409
        assert kept(own_settings) == there
        posterior = Path(own_settings.model) / "posterior.safetensors"
        posterior.write_bytes(posterior.read_bytes()[:-1] + b"?")
        assert "another checksum" in asking.post("/v1/model/reload").json()["detail"]
        assert kept(own_settings) == there


def test_a_manifest_that_names_places_elsewhere_writes_nothing_there(own_settings, tmp_path):
    """A model named ../../x was a folder outside of the state folder."""
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        manifest = json.loads((Path(own_settings.model) / "manifest.json").read_text())
        write_manifest(Path(own_settings.model), manifest | {"model": "../../x"})
        there = sorted(tmp_path.rglob("*"))
        answer = asking.post("/v1/model/reload")
        assert answer.status_code == 409
        assert "../../x" in answer.json()["detail"]
        assert sorted(tmp_path.rglob("*")) == there


def test_a_damaged_copy_is_taken_again(own_settings):
    prepare(own_settings)
    with TestClient(create_app(own_settings)) as asking:
        first = version(asking)
    file = own_settings.folder / "versions" / first / "posterior.safetensors"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with TestClient(create_app(own_settings)) as again:
        assert version(again) == first
        assert again.get("/v1/ready").json()["status"] == "ready"
    assert artifact.verified(file.parent)["model"] == "bpmf"


@pytest.fixture
def two_machines(own_settings, small_model, tmp_path, database):
    """Two services on one database, each with a state folder and a copy of the artifact of its own."""
    shutil.copytree(small_model, tmp_path / "model-2")
    here = replace(own_settings, database=database, state=str(tmp_path / "state-1"))
    there = replace(here, model=str(tmp_path / "model-2"), state=str(tmp_path / "state-2"))
    prepare(here)
    with TestClient(create_app(here)) as one, TestClient(create_app(there)) as other:
        yield (one, here), (other, there)


def copy_model(source, target) -> None:
    shutil.rmtree(target.model)
    shutil.copytree(source.model, target.model)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_two_machines_swap_and_roll_back_together(two_machines):
    (one, here), (other, there) = two_machines
    first = version(one)
    assert version(other) == first
    publish(here)
    copy_model(here, there)
    second = one.post("/v1/model/reload").json()["version"]
    wait_for(lambda: version(other) == second)
    assert not other.post("/v1/model/reload").json()["changed"]
    assert other.post("/v1/model/rollback").json()["version"] == first
    wait_for(lambda: version(one) == first)
    assert [asking.get("/v1/ready").json()["status"] for asking in (one, other)] == ["ready", "ready"]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_machine_without_the_active_version_says_so_until_it_has_it(two_machines):
    (one, here), (other, there) = two_machines
    first = version(one)
    publish(here)
    second = one.post("/v1/model/reload").json()["version"]
    wait_for(lambda: other.get("/v1/ready").json()["problem"])
    told = other.get("/v1/ready").json()
    assert (told["status"], told["model"], told["active"]) == ("diverged", first, second)
    assert f"the version {second} is not kept in" in told["problem"]
    assert other.get("/v1/users/3/recommendations").status_code == 200
    copy_model(here, there)
    wait_for(lambda: version(other) == second)
    assert other.get("/v1/ready").json() == one.get("/v1/ready").json()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_machine_that_starts_with_another_artifact_overturns_nothing(two_machines, small_model):
    (one, here), (_, there) = two_machines
    first = version(one)
    publish(there)
    shutil.rmtree(there.folder)
    with TestClient(create_app(there)) as started:
        told = started.get("/v1/ready").json()
        assert (told["status"], told["active"]) == ("diverged", first)
        assert started.get("/v1/users/3/recommendations").status_code == 200
        assert version(one) == first
