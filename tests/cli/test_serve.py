"""`tastespace serve` and `tastespace retrain`, as programs: workers, a new model, and an end that cuts nobody short."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import time
from contextlib import closing

import httpx2 as httpx
import pytest
from cli.program import COMMAND, tastespace

from tastespace import ALS, Popular, artifact
from tastespace.randomness import generator
from tastespace.service.store import Store
from tastespace.testing.toys import counts, gaussian


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Fitted once; in a folder of its own."""
    folder = tmp_path_factory.mktemp("served") / "model"
    ratings, _ = gaussian(60, 30, density=0.5, rng=generator(1))
    artifact.save(ALS(n_factors=2, regularization=0.1, seed=1, threads=1).fit(ratings), folder)
    return folder


class Service:
    """The program with two workers, on any free port."""

    def __init__(self, model, state) -> None:
        options = ["--workers", "2", "--port", "0", "--rate", "0", "--state", str(state), "--log-level", "warning"]
        self.process = subprocess.Popen([*COMMAND, "serve", str(model), *options], stdout=subprocess.PIPE, text=True)
        self.url = re.findall(r"http://\S+/v1", self.process.stdout.readline())[0]
        for _ in range(1200):
            try:
                if httpx.get(f"{self.url}/ready", timeout=10).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.05)
        raise AssertionError("it did not start")

    def list_of(self, user: str) -> list[str]:
        """On a connection of its own, so that any worker may answer."""
        told = httpx.get(f"{self.url}/users/{user}/recommendations", params={"n": 30}, timeout=30)
        assert told.status_code == 200
        return [entry["item"] for entry in told.json()["items"]]


@pytest.fixture
def service(model, tmp_path):
    running = Service(model, tmp_path / "state")
    yield running
    if running.process.poll() is None:
        running.process.terminate()
    running.process.wait(timeout=60)
    running.process.stdout.close()


def test_a_life_of_a_service(service, model, tmp_path):
    """A rating reaches every worker, a new model is made of it and answers, and the end loses no request."""
    best = service.list_of("3")[0]
    assert httpx.put(f"{service.url}/users/3/ratings/{best}", json={"rating": 1}, timeout=30).status_code == 200
    assert all(best not in service.list_of("3") for _ in range(8))

    url = f"sqlite:///{tmp_path / 'state' / 'ratings.db'}"
    ended = tastespace("retrain", model, "--out", model, "--force", "--json", TASTESPACE_DATABASE=url)
    assert ended.returncode == 0
    told = json.loads(ended.stdout)
    assert (told["new"], told["gone"]) == (1, 0)
    version = httpx.post(f"{service.url}/model/reload", timeout=30).json()["version"]
    until = time.monotonic() + 20
    while time.monotonic() < until:
        seen = {httpx.get(f"{service.url}/model", timeout=30).json()["version"] for _ in range(6)}
        if seen == {version}:
            break
    assert seen == {version}

    lost, answered, stop = [], [], threading.Event()
    askers = [threading.Thread(target=ask, args=(service.url, lost, answered, stop)) for _ in range(4)]
    for asker in askers:
        asker.start()
    while len(answered) < 20:
        time.sleep(0.01)
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(timeout=60) == 0
    stop.set()
    for asker in askers:
        asker.join()
    assert lost == []


def ask(url: str, lost: list[str], answered: list[int], stop: threading.Event) -> None:
    """Kept connections, one question after another; only where nobody lets one in any more is none lost."""
    with httpx.Client(timeout=30) as client:
        while not stop.is_set():
            try:
                answer = client.get(f"{url}/users/5/recommendations")
            except httpx.ConnectError:
                time.sleep(0.02)
            except httpx.HTTPError as error:
                lost.append(repr(error))
            else:
                (answered if answer.status_code == 200 else lost).append(answer.status_code)


def test_what_cannot_be_served(model, tmp_path):
    missing = tastespace("serve", tmp_path / "nothing")
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: ")
    open_to_all = tastespace("serve", model, "--host", "0.0.0.0", "--state", tmp_path / "state", TASTESPACE_API_KEYS="")
    assert open_to_all.returncode == 1
    assert "there are no API keys" in open_to_all.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = tastespace("serve", model, "--port", taken.getsockname()[1], "--state", tmp_path / "state")
    assert busy.returncode == 1
    assert "expected a free port" in busy.stderr


@pytest.mark.parametrize("verb", [["serve"], ["retrain", "--out", "new"]])
def test_the_password_of_a_database_is_not_shown(model, tmp_path, verb):
    url = "postgresql://someone:very-secret@127.0.0.1:1/ratings"
    for given, environment in ((["--db", url], {}), ([], {"TASTESPACE_DATABASE": url})):
        ended = tastespace(verb[0], model, *verb[1:], *given, cwd=tmp_path, **environment)
        assert ended.returncode == 1
        assert "the ratings database cannot be reached" in ended.stderr
        assert "very-secret" not in ended.stdout + ended.stderr


def test_a_model_is_chosen_again_if_it_is_asked_for(tmp_path):
    ratings, _ = counts(80, 40, rng=generator(2))
    artifact.save(Popular(seed=1).fit(ratings.with_kind("counts")), tmp_path / "old")
    url = f"sqlite:///{tmp_path / 'ratings.db'}"
    with closing(Store(url)) as store:
        store.migrate()
        store.import_ratings(ratings, "any")
    again = ("retrain", tmp_path / "old", "--db", url, "--threads", 1)
    kept = tastespace(*again, "--out", tmp_path / "kept", "--json")
    assert kept.returncode == 0, kept.stderr
    assert (json.loads(kept.stdout)["model"], json.loads(kept.stdout)["choice"]) == ("popular", None)
    chosen = tastespace(*again, "--out", tmp_path / "new", "--choose")
    assert chosen.returncode == 0, chosen.stderr
    found = artifact.load(tmp_path / "new")
    assert (
        f"model: {found.choice_['model']}, because the values are counts: as declared; its NDCG@100 on" in chosen.stdout
    )
    assert len(found.choice_["tried"]) > 1
    refused = tastespace(*again, "--out", tmp_path / "no", "--choose", "--budget", -1)
    assert refused.returncode == 1
    assert "budget is -1" in refused.stderr
    assert not (tmp_path / "no").exists()


def test_nothing_to_retrain_on(model, tmp_path):
    ended = tastespace("retrain", model, "--db", f"sqlite:///{tmp_path / 'no.db'}", "--out", tmp_path / "new")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: there is no database {tmp_path / 'no.db'}; expected")
    assert not (tmp_path / "no.db").exists()  # A typo makes no database.
    assert not (tmp_path / "new").exists()
