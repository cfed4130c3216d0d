"""The service under attack and under load: kills, silent sockets, expensive requests.

Run by `make faults`, since it takes minutes and measures times.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time
import warnings
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
from tastespace.service.settings import Settings
from tastespace.service.store import Store
from tastespace.testing.toys import gaussian

KILLS, WRITERS, BETWEEN = 60, 4, 5
pytestmark = pytest.mark.skipif("TASTESPACE_KILLS" not in os.environ, reason="takes minutes: run by make faults")


@pytest.fixture(scope="module")
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
