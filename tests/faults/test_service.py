"""The service under attack and under load: kills, swaps, silent sockets, expensive and mutated requests.

Run by `make faults`, since it takes minutes and measures times.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
from service.conftest import small_ratings
from service.postgres import Postgres, binaries
from service.server import Server
from service.test_faults import write

from tastespace import BPMF, artifact
from tastespace.randomness import generator
from tastespace.service.app import prepare
from tastespace.service.live_model import Versions
from tastespace.service.settings import Settings
from tastespace.service.store import Store
from tastespace.testing.toys import gaussian

KILLS, WRITERS, BETWEEN = 60, 4, 5
MINUTES = float(os.environ.get("TASTESPACE_MINUTES", "1"))  # of mixed load, on each database
MUTANTS = int(os.environ.get("TASTESPACE_MUTANTS", "500"))  # of requests; `make faults` makes 10 000
pytestmark = pytest.mark.skipif("TASTESPACE_KILLS" not in os.environ, reason="takes minutes: run by make faults")


@pytest.fixture
def durable_postgres():
    """One that waits for the disk, as users have it."""
    if binaries() is None:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    server = Postgres(is_durable=True)
    yield server
    server.remove()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nothing_acknowledged_is_lost_in_60_kills(kind, request, tmp_path):
    """Writers send ratings all the while, each with a key; PostgreSQL itself is killed every tenth time."""
    folder = tmp_path / "model"
    artifact.save(BPMF(n_factors=2, chains=1, warmup=20, draws=60, seed=1, threads=1).fit(small_ratings()), folder)
    settings = Settings(model=str(folder), state=str(tmp_path / "state"), rate=0)
    postgres = None
    if kind == "postgresql":
        postgres = request.getfixturevalue("durable_postgres")
        settings = replace(settings, database=postgres.url)
    prepare(settings)
    server = Server(settings)
    acknowledged: dict[str, float] = {}
    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(server.url, n, acknowledged, stop)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    rng = generator(0)
    try:
        for kill in range(KILLS):
            enough, until = len(acknowledged) + BETWEEN, time.monotonic() + 30
            while len(acknowledged) < enough and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.02))  # anywhere in a write
            if postgres is not None and kill % 10 == 9:
                postgres.stop()
                postgres.start()
            server.kill()
            server.start()
    finally:
        stop.set()
        for writer in writers:
            writer.join()
        server.end()
    store = Store(settings.database_url)
    stored = {row["user"]: row["rating"] for row in store.all_ratings().rows(named=True) if row["user"][0] == "w"}
    store.close()
    tell(f"{kind}: {len(acknowledged)} acknowledged ratings, {KILLS} kills")
    assert len(acknowledged) >= BETWEEN * KILLS
    assert {user: stored.get(user) for user in acknowledged} == acknowledged


def read(url: str, n: int, versions: Counter[str], wrong: list[object], stop: threading.Event) -> None:
    """Ask for lists of all kinds, and note by which version they are, and what is wrong."""
    options = ("", "?policy=curious", "?explain=true", "?diversity=0.5", "?rules=not-shown:days=1", "?n=3&top_n=true")
    with httpx.Client(timeout=60) as client:
        for turn in itertools.count():
            if stop.is_set():
                return
            path = f"{url}/users/{(7 * turn + n) % 80}/recommendations{options[turn % len(options)]}"
            try:
                answer = client.get(path)
            except httpx.HTTPError:  # It was killed.
                time.sleep(0.01)
                continue
            if answer.status_code != 200:
                if answer.status_code not in (429, 503):
                    wrong.append((path, answer.status_code, answer.text))
                continue
            told = answer.json()
            versions[told["model"]] += 1
            items = [entry["item"] for entry in told["items"]]
            is_full = bool(items) or "not-shown" in path  # By then all items may have been shown.
            are_numbers = all(np.isfinite(entry["score"]) for entry in told["items"])
            if not is_full or not are_numbers or len(set(items)) < len(items):
                wrong.append((path, told))


def swap(url: str, models: list[BPMF], folder: Path, wrong: list[object], stop: threading.Event) -> None:
    """Replace the artifact again and again, and reload it, go back, or try it on some users first."""
    ways = [
        [("POST", "reload", None)],
        [("POST", "reload", None), ("POST", "rollback", None)],
        [("POST", "challenger", {"share": 0.5}), ("POST", "challenger/promote", None)],
        [("POST", "challenger", {"share": 0.5}), ("DELETE", "challenger", None)],
    ]
    with httpx.Client(timeout=60) as client:
        for turn in itertools.count():
            artifact.save(models[turn % len(models)], folder)
            for method, path, body in ways[turn // 2 % len(ways)]:
                if stop.wait(0.1):
                    return
                with contextlib.suppress(httpx.HTTPError):
                    answer = client.request(method, f"{url}/model/{path}", json=body)
                    if answer.status_code not in (200, 409, 503):  # 409: the same version, or a kill came in between.
                        wrong.append((path, answer.status_code, answer.text))


def delete(url: str, deleted: list[str], stop: threading.Event) -> None:
    """Let users come, rate and go; those whose deletion was acknowledged are noted."""
    with httpx.Client(timeout=60) as client:
        for turn in itertools.count():
            if stop.is_set():
                return
            with contextlib.suppress(httpx.HTTPError):
                user = f"{url}/users/gone-{turn}"
                client.put(f"{user}/ratings/1", json={"rating": 4})
                client.get(f"{user}/recommendations")
                if client.delete(user).status_code == 200:
                    deleted.append(f"gone-{turn}")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_mixed_load_with_swaps_and_kills(kind, request, tmp_path):
    """Lists of all kinds, ratings and deletions, while versions are swapped and the service is killed."""
    folder = tmp_path / "model"
    options = {"n_factors": 2, "chains": 1, "warmup": 20, "draws": 60, "threads": 1}
    models = [BPMF(seed=seed, **options).fit(small_ratings()) for seed in (1, 2)]
    artifact.save(models[0], folder)
    settings = Settings(model=str(folder), state=str(tmp_path / "state"), rate=0)
    if kind == "postgresql":
        settings = replace(settings, database=request.getfixturevalue("durable_postgres").url)
    prepare(settings)
    server = Server(settings)
    acknowledged, deleted, versions, wrong = {}, [], Counter(), []
    stop, rng, kills = threading.Event(), generator(0), 0
    threads = [threading.Thread(target=write, args=(server.url, n, acknowledged, stop)) for n in range(2)]
    threads += [threading.Thread(target=read, args=(server.url, n, versions, wrong, stop)) for n in range(3)]
    threads += [threading.Thread(target=swap, args=(server.url, models, folder, wrong, stop))]
    threads += [threading.Thread(target=delete, args=(server.url, deleted, stop))]
    until = time.monotonic() + 60 * MINUTES
    try:
        for thread in threads:
            thread.start()
        while time.monotonic() < until:
            time.sleep(rng.uniform(1, 5))
            server.kill()
            server.start()
            kills += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        server.end()
    with contextlib.closing(Store(settings.database_url)) as store:
        stored = {row["user"]: row["rating"] for row in store.all_ratings().rows(named=True)}
        swaps = store.activation().id
    tell(
        f"{kind}: {MINUTES:g} minutes, {kills} kills, {swaps} activations, {sum(versions.values())} lists, "
        f"{len(acknowledged)} ratings and {len(deleted)} deletions acknowledged"
    )
    assert not wrong, wrong[:3]
    assert len(versions) == 2
    assert acknowledged
    assert {user: stored.get(user) for user in acknowledged} == acknowledged
    assert deleted
    assert not set(deleted) & set(stored)
    kept = Versions(Path(settings.state) / "versions")
    for version in kept.kept():
        assert artifact.verified(kept.path(version))["model"] == "bpmf"


REQUESTS = [
    ("GET", "/v1/users/3/recommendations?n=5&where=genre=Comedy&policy=cautious:c=2", None),
    ("GET", "/v1/items?search=1&limit=5", None),
    ("GET", "/v1/users/3/questions?n=2", None),
    ("PUT", "/v1/users/3/ratings/1", '{"rating": 4}'),
    ("POST", "/v1/ratings", '{"ratings": [{"user": "4", "item": "2", "rating": 3, "at": "2020-01-01T00:00:00Z"}]}'),
    (
        "POST",
        "/v1/recommendations",
        '{"history": {"1": 5, "2": 1.5}, "n": 3, "explain": true, "rules": ["pin:item=3"]}',
    ),
    ("POST", "/v1/predictions", '{"user": "3", "items": ["1", "2"], "coverage": 0.8}'),
    ("DELETE", "/v1/users/5/ratings/1", None),
]
PIECES = [
    b"null",
    b"-1",
    b"1e999",
    b"NaN",
    b"99999999999999999999",
    b"\x00",
    b"\xff",
    b"{",
    b'"',
    b"%00",
    b"../",
    b"\r\n",
]


def mutated(rng: np.random.Generator) -> bytes:
    """One of the requests, with one to three changes anywhere in it."""
    method, path, body = REQUESTS[rng.integers(len(REQUESTS))]
    body = (body or "").encode()
    for _ in range(rng.integers(1, 4) if body and rng.random() < 0.5 else 0):
        body = changed(body, rng)
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    text = f"{head}Content-Length: {len(body)}\r\n\r\n".encode()
    if not body or rng.random() < 0.5:
        text = changed(text, rng)
    return text + body


def changed(text: bytes, rng: np.random.Generator) -> bytes:
    place, other = int(rng.integers(len(text))), PIECES[rng.integers(len(PIECES))]
    way = rng.integers(4)
    if way == 0:
        return text[:place] + bytes([text[place] ^ 1 << int(rng.integers(8))]) + text[place + 1 :]
    if way == 1:
        return text[:place] + other + text[place:]
    if way == 2:
        return text[:place] + other + text[place + len(other) :]
    return text[:place] + text[place + int(rng.integers(1, 10)) :]


def test_mutated_requests_are_answered_in_words(tmp_path):
    """Whatever is sent, the service says what is wrong, or waits for the rest, and none of it is an internal error."""
    folder = tmp_path / "model"
    artifact.save(BPMF(n_factors=2, chains=1, warmup=20, draws=60, seed=1, threads=1).fit(small_ratings()), folder)
    settings = Settings(model=str(folder), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    server, statuses, rng = Server(settings), Counter(), generator(0)
    internal = []
    try:
        for _ in range(MUTANTS):
            sent = mutated(rng)
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
                connection.settimeout(0.2)
                connection.sendall(sent)
                try:
                    answer = connection.recv(65536)
                except TimeoutError:
                    answer = b""  # It waits for the rest.
            status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
            statuses[status] += 1
            if status >= 500:
                internal.append((sent, answer))
        assert httpx.get(f"{server.url}/users/3/recommendations", timeout=30).status_code == 200
    finally:
        server.end()
    tell(f"{MUTANTS} mutated requests by status (0: it waits for the rest): {dict(sorted(statuses.items()))}")
    assert not internal, internal[:3]
    assert statuses[0] < MUTANTS / 4
    assert statuses[422] > MUTANTS / 20


@pytest.fixture(scope="module")
def large_service(tmp_path_factory):
    """`tastespace serve` with two workers, a model of 4000 items, and as many files as a shell usually allows."""
    folder = tmp_path_factory.mktemp("large")
    raw, _ = gaussian(1500, 4000, density=0.02, rng=generator(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Its answers are not looked at.
        artifact.save(BPMF(n_factors=24, chains=1, warmup=3, draws=40, seed=1).fit(raw), folder / "model")
    program = [sys.executable, "-c", "from tastespace.cli.main import run; run()", "serve", str(folder / "model")]
    options = ["--workers", "2", "--port", "0", "--rate", "0", "--log-level", "info"]
    with (folder / "log").open("wb") as log:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, min(hard, 1024)))  # noqa: E731
        process = subprocess.Popen(
            [*program, *options], stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=limit
        )
        url = re.findall(r"http://\S+?/v1", process.stdout.readline())[0]
        for _ in range(600):
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/ready", timeout=5).status_code == 200:
                    break
            time.sleep(0.05)
        yield url, folder / "log"
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()


def tell(text: str) -> None:
    """What was measured, for whoever runs this."""
    sys.stdout.write(f"\n{text}\n")


def times_of_plain_lists(url: str, n: int) -> np.ndarray:
    """Milliseconds of lists of known users, one after another, over new connections now and then."""
    found = []
    for part in range(n // 20):
        with httpx.Client(timeout=60) as client:
            for k in range(20):
                began = time.perf_counter()
                path = f"{url}/users/{(20 * part + k) % 200}/recommendations?exclude=none-{part}"
                assert client.get(path).status_code == 200
                found.append(1e3 * (time.perf_counter() - began))
    return np.array(found)


def test_plain_lists_are_answered_beside_silent_sockets_and_expensive_requests(large_service):
    """1100 sockets that say nothing, and 40 requests of the most expensive kinds at a time: p99 below 500 ms."""
    url, log = large_service
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    host, port = re.findall(r"//([\d.]+):(\d+)", url)[0]
    stop, statuses = threading.Event(), []

    def ask_for_much(n: int) -> None:
        kinds = [
            ("GET", f"{url}/users/{n}/recommendations?n=100&diversity=1", None),
            ("GET", f"{url}/users/{n}/questions?n=100&goal=list", None),
            ("GET", f"{url}/users/{n}/recommendations?n=1000&explain=true&top_n=true", None),
            ("POST", f"{url}/recommendations", {"history": {str(i): 3.0 for i in range(2000)}, "n": 1000}),
        ]
        with httpx.Client(timeout=60) as client:
            while not stop.is_set():
                method, path, body = kinds[n % len(kinds)]
                with contextlib.suppress(httpx.HTTPError):
                    answer = client.request(method, path, json=body)
                    statuses.append(answer.status_code)
                    if answer.status_code == 429:
                        time.sleep(float(answer.headers["Retry-After"]))

    quiet = times_of_plain_lists(url, 200)
    silent = []
    threads = [threading.Thread(target=ask_for_much, args=(n,)) for n in range(40)]
    try:
        for _ in range(1100):
            silent.append(socket.create_connection((host, int(port)), timeout=30))
        for thread in threads:
            thread.start()
        time.sleep(2)
        busy = times_of_plain_lists(url, 600)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for one in silent:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    shares = (50, 99)
    tell(f"p50, p99 ms: quiet {np.percentile(quiet, shares).round(1)}, busy {np.percentile(busy, shares).round(1)}")
    counts = {status: statuses.count(status) for status in set(statuses)}
    tell(f"expensive requests by status: {counts}; log: {Path(log).stat().st_size} bytes")
    assert set(statuses) <= {200, 429, 503}  # 503: it waited for longer than a request may take.
    assert statuses.count(200)
    assert np.percentile(busy, 99) < 500
    assert Path(log).stat().st_size < 5 << 20
