"""Around every request: ids, headers, limits of size, time and rate, and a log that knows nobody."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from urllib.parse import quote

import httpx2 as httpx
import polars as pl
import pytest
from fastapi.testclient import TestClient
from service.conftest import small_ratings
from service.server import Server

import tastespace.service.monitoring as metrics_file
from tastespace import ALS, artifact
from tastespace.data.ratings import Ratings
from tastespace.service.answering import Answerer
from tastespace.service.app import create_app, prepare
from tastespace.service.door.limits import Rates
from tastespace.service.door.middleware import SLASH, Guard, Shutdown
from tastespace.service.monitoring import JsonLines, Metrics
from tastespace.service.settings import Settings


def test_every_answer_has_an_id_and_safe_headers(client):
    for path in ("/v1/health", "/v1/nothing"):
        answer = client.get(path)
        assert len(answer.headers["X-Request-ID"]) == 32
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"
        assert "server" not in answer.headers
    assert client.get("/v1/health", headers={"X-Request-ID": "mine-7"}).headers["X-Request-ID"] == "mine-7"
    hostile = client.get("/v1/health", headers={"X-Request-ID": "a b\t{}"}).headers["X-Request-ID"]
    assert hostile != "a b\t{}"


def test_a_body_that_grows_too_large_is_refused_on_the_way(client):
    """Also where nobody said how large it would be."""
    parts = (b" " * 65536 for _ in range(200))
    answer = client.post("/v1/recommendations", content=parts, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert "4,194,304 bytes" in answer.json()["detail"]


def test_too_many_requests_have_to_wait(settings):
    prepare(settings)
    with TestClient(create_app(replace(settings, rate=2))) as asking:
        answers = [asking.get("/v1/items/1") for _ in range(8)]
    assert [answer.status_code for answer in answers].count(200) >= 4
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert int(refused[0].headers["Retry-After"]) >= 1


def test_a_bucket_fills_steadily():
    rates = Rates(10.0)
    assert sum(rates.wait("a", now=0.0) == 0 for _ in range(30)) == 20
    assert rates.wait("a", now=0.0) == pytest.approx(0.1)
    assert rates.wait("b", now=0.0) == 0  # every client has its own bucket
    assert rates.wait("a", now=0.11) == 0
    assert rates.wait("a", now=0.11) > 0
    assert Rates(0).wait("a") == 0


def test_clients_of_long_ago_are_forgotten():
    rates = Rates(10.0, max_clients=3)
    for name in "abcd":
        rates.wait(name, now=0.0)
    assert len(rates._buckets) == 3


def test_what_takes_too_long_is_given_up(settings, monkeypatch):
    prepare(settings)
    monkeypatch.setattr(Answerer, "recommendations", lambda *given: time.sleep(0.5))
    with TestClient(create_app(replace(settings, seconds=0.05))) as asking:
        answer = asking.get("/v1/users/1/recommendations")
    assert answer.status_code == 503
    assert "longer than 0.05 seconds" in answer.json()["detail"]


def test_an_internal_error_is_reported_without_a_trace(settings, monkeypatch, caplog):
    prepare(settings)

    def fault(*given):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(Answerer, "recommendations", fault)
    with TestClient(create_app(settings), raise_server_exceptions=False) as asking:
        answer = asking.get("/v1/users/1/recommendations", headers={"X-Request-ID": "find-me"})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["X-Request-ID"] == "find-me"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "a secret of the inside" in caplog.text  # where it belongs


def test_whatever_is_logged_for_a_request_has_its_id(settings, monkeypatch, capsys):
    """Also by parts that know of no request, in other threads."""
    prepare(settings)
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines())
    logger = logging.getLogger("tastespace.service")

    def fault(*given):
        logger.warning("on the way")
        raise RuntimeError("wrong")

    monkeypatch.setattr(Answerer, "recommendations", fault)
    monkeypatch.setattr(logger, "handlers", [lines])
    with TestClient(create_app(settings), raise_server_exceptions=False) as asking:
        asking.get("/v1/users/1/recommendations", headers={"X-Request-ID": "find-me"})
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert [line["message"] for line in told] == ["on the way", "unexpected RuntimeError"]
    assert {line["request_id"] for line in told} == {"find-me"}
    assert "RuntimeError: wrong" in told[1]["trace"]


def test_a_slow_sender_is_refused(settings):
    async def never() -> dict:
        await asyncio.sleep(10)
        return {}

    async def reads(scope, receive, send) -> None:
        await receive()

    async def ask() -> list[dict]:
        sent: list[dict] = []

        async def send(message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-length", b"10")]}
        await Guard(reads, replace(settings, seconds=0.05), Metrics(), Shutdown(), None)(scope, never, send)
        return sent

    start, body = asyncio.run(ask())
    assert start["status"] == 408
    assert "did not arrive within 0.05 seconds" in json.loads(body["body"])["detail"]


def test_log_lines_are_json_and_know_no_user(client, caplog):
    with caplog.at_level("INFO", logger="tastespace.service.access"):
        client.get("/v1/users/somebody/recommendations?n=2&where=genre%20%3D%20Comedy", headers={"X-Request-ID": "r1"})
    (record,) = (record for record in caplog.records if record.name == "tastespace.service.access")
    line = json.loads(JsonLines().format(record))
    assert line["request_id"] == "r1"
    assert line["client"].startswith("address")
    assert line["milliseconds"] > 0
    assert "somebody" not in json.dumps(line)
    assert "Comedy" not in json.dumps(line)


def test_a_trace_goes_into_one_line():
    try:
        raise ValueError("wrong")
    except ValueError:
        record = logging.getLogger("x").makeRecord("x", logging.ERROR, "f", 1, "it %s", ("failed",), sys.exc_info())
    line = JsonLines().format(record)
    assert "\n" not in line
    assert "ValueError: wrong" in json.loads(line)["trace"]


def test_pages_of_other_sites_may_not_ask(client):
    answer = client.get("/v1/health", headers={"Origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in answer.headers
    rebound = client.get("/v1/health", headers={"Host": "elsewhere.example"})
    assert rebound.status_code == 400
    assert rebound.headers["content-type"] == "application/problem+json"
    assert "names another machine" in rebound.json()["detail"]
    assert client.get("/v1/health", headers={"Host": "127.0.0.1:8000"}).status_code == 200
    assert client.get("/v1/health", headers={"Host": "[::1]:8000"}).status_code == 200


def test_pages_that_were_named_may(settings):
    prepare(settings)
    with TestClient(create_app(replace(settings, origins=("https://shop.example",)))) as asking:
        allowed = asking.get("/v1/health", headers={"Origin": "https://shop.example"})
        other = asking.get("/v1/health", headers={"Origin": "https://elsewhere.example"})
    assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
    assert "access-control-allow-origin" not in other.headers


def test_metrics_are_counted(client):
    client.get("/v1/users/3/recommendations")
    client.get("/v1/users/3/recommendations")
    client.put("/v1/users/3/ratings/1", json={"rating": 3})
    text = client.get("/v1/metrics").text
    assert 'tastespace_beliefs_total{found="kept"} 1.0' in text
    assert 'tastespace_beliefs_total{found="concluded"} 1.0' in text
    assert "tastespace_ratings_stored_total 1.0" in text
    assert 'route="/v1/users/{user}/recommendations",status="200"' in text
    assert "tastespace_model_activation 1.0" in text


def test_metrics_of_several_workers(tmp_path):
    """Counts of all are added, also of those that died; what answers is that of the living, also before a scrape."""
    program = (
        "import runpy, sys; m = runpy.run_path(sys.argv.pop(1))['Metrics'](); m.stored(2);"  # the file alone, for speed
        "m.answers(int(sys.argv[1])); print(m.text().decode() if sys.argv[2:] else 'x'); sys.stdout.flush();"
        "sys.stdin.read()"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}

    def worker(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, metrics_file.__file__, *arguments]
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    dead = worker("1")
    dead.communicate("")
    with worker("5") as living:
        assert living.stdout.readline()
        told, _ = worker("6", "tell").communicate("")
        living.communicate("")
    assert "tastespace_ratings_stored_total 6.0" in told
    assert "tastespace_model_activation 5.0" in told


# ids with slashes, as DOIs have them


@pytest.fixture(scope="module")
def slashed(tmp_path_factory):
    raw = small_ratings()
    items = raw.item_ids().cast(pl.String)
    frame = pl.DataFrame({"user": "u/" + raw.user_ids().cast(pl.String), "item": "10.1/" + items, "rating": raw.values})
    folder = tmp_path_factory.mktemp("models") / "slashed"
    artifact.save(ALS(n_factors=2, regularization=0.1, seed=1, threads=1).fit(Ratings.from_frame(frame)), folder)
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
    rating = {"user": "a" + SLASH, "item": "10.1/7", "rating": 3}
    assert client.post("/v1/ratings", json={"ratings": [rating]}).status_code == 422


def test_ids_with_slashes_within_the_application(slashed, tmp_path):
    settings = Settings(model=str(slashed), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    with TestClient(create_app(settings)) as client:
        ask_everything(client)


def test_ids_with_slashes_through_a_socket(slashed, tmp_path):
    """How a path arrives is up to the server."""
    settings = Settings(model=str(slashed), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    server = Server(settings)
    try:
        with httpx.Client(base_url=server.url.removesuffix("/v1"), timeout=30) as client:
            ask_everything(client)
    finally:
        server.end()
