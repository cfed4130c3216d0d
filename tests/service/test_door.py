"""Who gets in: pages of other sites, silent and slow connections, expensive requests, odd ids, open files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.config
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace

import httpx2 as httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from service.server import Server
from starlette.exceptions import HTTPException

from tastespace.errors import InvalidParameterError
from tastespace.service import launching
from tastespace.service.answering import Answerer
from tastespace.service.app import create_app, prepare
from tastespace.service.door.connections import Connections, connections_possible, network_of
from tastespace.service.door.limits import TOKEN_SECONDS, Queue, Rates
from tastespace.service.messages import printable
from tastespace.service.monitoring import Bounded
from tastespace.service.settings import Settings, doubts
from tastespace.service.store import Store

# pages of other sites


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 409),  # a program
        ({"Origin": "http://testserver"}, 409),  # a page of this service, in an old browser
        ({"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}, 409),
        ({"Origin": "https://shop.example"}, 409),  # allowed
        ({"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}, 409),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "http://testserver:81"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://testserver", "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_pages_of_other_sites_change_nothing(settings, headers, status):
    """Browsers send such a request without asking, and on a service without keys it counted."""
    prepare(settings)
    with TestClient(create_app(replace(settings, origins=("https://shop.example",)))) as client:
        answer = client.post("/v1/model/rollback", headers=headers)
        assert answer.status_code == status  # 409: there is nothing to go back to
        if status == 403:
            assert answer.headers["content-type"] == "application/problem+json"
            assert "--origin" in answer.json()["detail"]
        assert client.get("/v1/health", headers=headers).status_code == 200


def test_the_host_is_checked(settings):
    prepare(settings)
    with TestClient(create_app(replace(settings, hosts=("Shop.example",)))) as client:
        assert client.get("/v1/health", headers={"Host": "shop.example:80"}).status_code == 200
        assert client.get("/v1/health", headers={"Host": "elsewhere.example"}).status_code == 400
        assert client.get("/v1/health", headers={"Host": "shop.example\\@elsewhere"}).status_code == 400
        two = client.get("/v1/health", headers=[("Host", "shop.example"), ("Host", "elsewhere.example")])
        assert two.status_code == 400
        assert "repeated" in two.json()["detail"]


# connections


class Line:
    """A connection as `Connections` sees it."""

    def __init__(self, address: str = "1.2.3.4", since: float = 0.0) -> None:
        self.address, self.state, self.since, self.closing_since, self.is_closing = address, "head", since, None, False
        self.is_gone = False

    def abort(self) -> None:
        self.is_gone = True


def connections(**changed) -> tuple[Connections, list[str]]:
    closed: list[str] = []
    options = {"total": 4, "per_address": 2, "head_seconds": 10.0, "body_seconds": 30.0, "closed": closed.append}
    return Connections(**(options | changed)), closed


def test_who_waited_longest_is_closed_for_a_new_connection():
    crowd, closed = connections()
    lines = [Line("a"), Line("a"), Line("b"), Line("c")]
    assert all(crowd.admit(line) for line in lines)
    crowd.work(lines[0])
    assert crowd.admit(Line("d"))
    assert [line.is_gone for line in lines] == [False, True, False, False]  # The first one is being answered.
    assert len(crowd) == 4
    crowd.wait(lines[0])  # It has its answer, and waits only since now.
    assert crowd.admit(Line("e"))
    assert [line.is_gone for line in lines] == [False, True, True, False]
    assert closed == ["too many", "too many"]


def test_one_address_cannot_have_all_connections():
    crowd, closed = connections()
    lines = [Line("a") for _ in range(10)]
    assert all(crowd.admit(line) for line in lines)
    assert [line.is_gone for line in lines] == [True] * 8 + [False] * 2
    for line in lines[-2:]:
        crowd.work(line)
    assert not crowd.admit(Line("a"))  # All of its own are being answered.
    assert crowd.admit(Line("b"))
    assert closed[-1] == "refused: too many of one address"


def test_a_proxy_may_have_more_connections():
    crowd, _ = connections(proxies=["10.0.0.0/8"])
    lines = [Line("10.1.2.3") for _ in range(4)]
    assert all(crowd.admit(line) for line in lines)
    assert not any(line.is_gone for line in lines)


def test_if_all_are_busy_a_new_connection_is_refused():
    crowd, closed = connections()
    lines = [Line(name) for name in "abcd"]
    for line in lines:
        crowd.admit(line)
        crowd.work(line)
    assert not crowd.admit(Line("e"))
    crowd.release(lines[0])
    assert crowd.admit(Line("e"))
    assert closed == ["refused: too many"]


def test_connections_that_are_closed_leave_nothing_behind():
    crowd, _ = connections()
    for _ in range(3):
        lines = [Line(name) for name in "aab"]
        for line in lines:
            crowd.admit(line)
        crowd.work(lines[0])
        for line in lines:
            crowd.release(line)
            crowd.release(line)
    assert (len(crowd), crowd._counts, crowd._waiting, crowd._waiting_at) == (0, {}, {}, {})


def test_slow_clients_are_closed():
    crowd, closed = connections()
    silent, sends, asks, unread = (Line(name) for name in "abcd")
    sends.state, asks.state, unread.is_closing = "body", "busy", True
    for line in (silent, sends, asks, unread):
        crowd.admit(line)
    crowd.sweep(9.0)
    assert closed == []
    crowd.sweep(15.0)
    assert (silent.is_gone, sends.is_gone, asks.is_gone, unread.is_gone) == (True, False, False, True)
    crowd.sweep(31.0)
    assert (sends.is_gone, asks.is_gone) == (True, False)  # What is being answered has a limit of its own.
    assert closed[0] in ("slow head", "the end was not read")


def test_networks_of_addresses():
    assert network_of("192.0.2.7") == "192.0.2.7"
    assert network_of("2001:db8:1:2:3::4") == network_of("2001:db8:1:2::5") != network_of("2001:db8:1:3::5")
    assert network_of("::ffff:192.0.2.7") == "192.0.2.7"
    assert network_of("testclient") == "testclient"


def test_files_are_left_for_what_is_no_connection():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        possible = connections_possible()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] - possible == 128
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def server(settings):
    changed = replace(settings, connections_of_address=20, head_seconds=0.5, rate=0)
    prepare(changed)
    running = Server(changed)
    yield running
    running.end()


def test_silent_sockets_keep_nobody_out(server):
    """They used up the files of the process, which then accepted nobody."""
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(60)]
    try:
        assert httpx.get(f"{server.url}/health", timeout=20).status_code == 200
        for one in silent:  # Those that were not closed for others are closed in time.
            one.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
        text = httpx.get(f"{server.url}/metrics", timeout=20).text
        assert 'tastespace_connections_closed_total{reason="too many of one address"}' in text
        assert 'tastespace_connections_closed_total{reason="slow head"}' in text
    finally:
        for one in silent:
            one.close()


def test_a_connection_serves_one_request_after_another(server):
    """Its state follows what is sent: idle between requests, also after one that was refused before its end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        head = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        for pieces in ([head], [head[:10], head[10:]], [head]):
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.05)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        time.sleep(1.8)  # longer than a head may take; it is not sending one
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_the_address_of_a_client_is_not_what_it_says(settings, monkeypatch):
    """Only proxies that are named may say who asks."""
    found = []
    monkeypatch.setattr(launching, "_run", found.append)
    monkeypatch.setattr(logging.config, "dictConfig", lambda config: None)  # It would stay for other tests.
    for proxies in ((), ("10.0.0.0/8",)):
        launching.launch(
            replace(settings, proxies=proxies), level="ERROR", observer=lambda p: None, ready=lambda s, n: None
        )
    plain, trusting = found
    assert isinstance(plain, uvicorn.Config)
    assert not plain.proxy_headers
    assert trusting.proxy_headers
    assert trusting.forwarded_allow_ips == "10.0.0.0/8"
    with pytest.raises(InvalidParameterError, match="expected an address or a network"):
        replace(settings, proxies=("nowhere",)).check()


def test_workers_end_with_their_parent(small_model, tmp_path):
    """Killed by the kernel or by hand: its workers went on, and kept the port."""
    program = [sys.executable, "-c", "from tastespace.cli.main import run; run()", "serve", str(small_model)]
    options = ["--workers", "2", "--port", "0", "--state", str(tmp_path / "state"), "--log-level", "error"]
    with subprocess.Popen([*program, *options], stdout=subprocess.PIPE, text=True) as parent:
        url = parent.stdout.readline().split()[-1]
        for _ in range(600):
            try:
                if httpx.get(f"{url}ready", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.05)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        for _ in range(600):
            try:
                httpx.get(f"{url}ready", timeout=5)
            except httpx.HTTPError:
                return
            time.sleep(0.05)
    raise AssertionError("the workers still answer")


# expensive requests


def test_a_request_that_takes_long_counts_more():
    rates = Rates(10.0)
    assert rates.wait("a", now=0.0) == 0
    rates.charge("a", TOKEN_SECONDS * 30)
    assert rates.wait("a", now=0.0) == pytest.approx(1.1)
    assert rates.wait("b", now=0.0) == 0
    rates.charge("b", TOKEN_SECONDS / 2)  # a plain one
    assert rates.wait("b", now=0.0) == 0
    rates.charge("b", 1e9)
    assert rates.wait("b", now=0.0) < 61  # nobody is kept out for long
    rates.charge("unknown", 1.0)
    Rates(0).charge("a", 1.0)


def test_clients_take_turns():
    """One that sends many requests at once waits for itself."""

    async def ask() -> list[str]:
        queue, order = Queue(1, 10), []

        async def one(client: str) -> None:
            async with queue.turn(client):
                order.append(client)
                await asyncio.sleep(0)

        await asyncio.gather(*[one(client) for client in "aaaaabc"])
        return order

    assert "".join(asyncio.run(ask())) == "aabcaaa"


def test_a_queue_has_an_end_and_loses_no_turn():
    async def ask() -> None:
        queue, inside = Queue(1, 2), asyncio.Event()

        async def one() -> None:
            async with queue.turn("a"):
                inside.set()
                await asyncio.sleep(10)

        tasks = [asyncio.create_task(one()) for _ in range(3)]
        await inside.wait()
        with pytest.raises(HTTPException) as refused:
            await one()
        assert refused.value.status_code == 429
        async with asyncio.timeout(5):
            waits_elsewhere = asyncio.create_task(queue.turn("b").__aenter__())
            await asyncio.sleep(0)
            tasks[1].cancel()  # while it waits
            tasks[0].cancel()
            await asyncio.sleep(0)
            tasks[2].cancel()  # when it was just called
            await waits_elsewhere
        assert not queue._waiting

    asyncio.run(ask())


def test_a_plain_list_does_not_wait_for_expensive_ones(settings, monkeypatch):
    """They have a thread of their own: here they end only after the plain one was answered."""
    prepare(settings)
    plain, may_end = Answerer.recommendations, threading.Event()

    def slow(self, wanted):
        if wanted.diversity:
            assert may_end.wait(60)
        return plain(self, wanted)

    monkeypatch.setattr(Answerer, "recommendations", slow)
    with TestClient(create_app(settings)) as client:
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(client.get("/v1/users/3/recommendations?diversity=1&n=20").status_code)

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        assert client.get("/v1/users/3/recommendations").status_code == 200
        assert client.get("/v1/items?search=film").status_code == 200
        may_end.set()
        for thread in threads:
            thread.join()
    assert set(statuses) == {200, 429}
    assert statuses.count(200) == 9  # one that is answered, and eight that wait


def test_diverse_lists_are_short(client):
    refused = client.get("/v1/users/3/recommendations?diversity=0.5&n=101")
    assert refused.status_code == 422
    assert "expected at most 100" in refused.json()["detail"]
    assert client.get("/v1/users/3/recommendations?n=101").status_code == 200


# ids


@pytest.mark.parametrize(
    "text", ["a\u200bb", "\u202ea", "a\u2028", "a\ufe0f", "\u3164", "a\u034fb", " a", "a\u00a0", "\ufeffa"]
)
def test_ids_that_look_like_others_are_refused(client, text):
    rating = {"user": text, "item": "1", "rating": 3}
    assert client.post("/v1/ratings", json={"ratings": [rating]}).status_code == 422
    assert client.get(f"/v1/users/{text}/recommendations").status_code in (404, 422)
    assert client.get("/v1/model").json()["people"] == 40


def test_an_id_is_one_however_it_is_composed(client):
    assert printable("Zoe\u0308") == "Zo\u00eb"
    client.put("/v1/users/Zoe\u0308/ratings/1", json={"rating": 3})
    assert client.get("/v1/users/Zo\u00eb/ratings").json()["total"] == 1


# files and logs


def test_the_database_is_private(tmp_path):
    path = tmp_path / "state" / "ratings.db"
    before = os.umask(0o022)
    try:
        store = Store(f"sqlite:///{path}")
        store.migrate()
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()
    path.chmod(0o664)  # as older versions left it
    Store(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_an_open_file_of_keys_is_mentioned(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text("")
    path.chmod(0o640)
    (doubt,) = doubts(Settings(model="m", keys=str(path)))
    assert "chmod 600" in doubt
    path.chmod(0o600)
    assert doubts(Settings(model="m", keys=str(path))) == []
    assert doubts(Settings(model="m")) == []


def _record(name: str, text: str, created: float, *values) -> logging.LogRecord:
    record = logging.LogRecord(name, logging.INFO, "f", 1, text, values, None)
    record.created = created
    return record


def test_the_log_cannot_be_flooded():
    bounded = Bounded(n=5, seconds=10.0)
    let = [bounded.filter(_record("asyncio", "socket.accept() out of system resource", 0.1 * n)) for n in range(90)]
    assert sum(let) == 5
    after = _record("asyncio", "socket.accept() out of system resource", 20.0)
    assert bounded.filter(after)
    assert after.left_out == 85
    assert bounded.filter(_record("asyncio", "something else", 0.0))
    access = "tastespace.service.access"
    good = [bounded.filter(_record(access, "%s %s %d", 0.0, "GET", "/", 200)) for _ in range(90)]
    refused = [bounded.filter(_record(access, "%s %s %d", 0.0, "GET", "/", 429)) for _ in range(90)]
    assert (sum(good), sum(refused)) == (90, 5)
