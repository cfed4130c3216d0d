"""What happens when things break: the process is killed, the database goes away, the disk is full."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import socket
import sys
import threading
import time
from dataclasses import replace

import httpx2 as httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from service.server import Server

from tastespace.service.app import create_app, prepare
from tastespace.service.launching import Workers, listening, stop_accepting
from tastespace.service.store import DatabaseError, Rated, Store

KILLS, WRITERS, BETWEEN = 20, 4, 5  # at least so many ratings from one kill to the next


@pytest.fixture
def server(settings):
    prepare(settings)
    running = Server(settings)
    yield running
    running.end()


def write(url: str, writer: int, acknowledged: dict[str, float], stop: threading.Event) -> None:
    """One rating after another, each by somebody new; asked again, under the same key, when nobody answers."""
    with httpx.Client(timeout=5) as client:
        for n in itertools.count():
            user, value = f"w{writer}-{n}", float(n % 5 + 1)
            answer = None
            while answer is None:
                if stop.is_set():
                    return
                try:
                    answer = client.put(
                        f"{url}/users/{user}/ratings/1", json={"rating": value}, headers={"Idempotency-Key": user}
                    )
                except httpx.HTTPError:
                    time.sleep(0.005)
            if answer.status_code == 200:
                acknowledged[user] = value


def test_what_was_acknowledged_survives_being_killed(server, settings):
    """Writers write all the while, each rating under a key, and ask again when nobody answers."""
    acknowledged: dict[str, float] = {}
    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(server.url, n, acknowledged, stop)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for _ in range(KILLS):
        enough, until = len(acknowledged) + BETWEEN, time.monotonic() + 20
        while len(acknowledged) < enough and time.monotonic() < until:
            time.sleep(0.005)
        server.kill()
        server.start()
    stop.set()
    for writer in writers:
        writer.join()
    store = Store(settings.database_url)
    stored = {row["user"]: row["rating"] for row in store.all_ratings().rows(named=True) if row["user"][0] == "w"}
    assert len(acknowledged) >= BETWEEN * KILLS
    assert {user: stored.get(user) for user in acknowledged} == acknowledged
    assert all(store.person(user).version == 1 for user in list(acknowledged)[:: len(acknowledged) // 100 + 1])  # once
    store.close()


def test_requests_that_are_being_answered_finish(server):
    """SIGTERM is polite: somebody is in the middle of a sentence."""
    body = b'{"history": {"1": 5}, "n": 3}'
    head = (
        "POST /v1/recommendations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.encode() + body[:10])
        time.sleep(0.3)
        os.kill(server.process, signal.SIGTERM)
        wait_until_refused(server)  # Nobody new is let in.
        connection.sendall(body[10:])
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    server.start()


def test_who_is_connected_is_told_to_go_before_the_door_closes(server):
    """A connection that was just closed under a question would have lost it."""
    with httpx.Client(timeout=20) as client:
        assert "connection" not in client.get(f"{server.url}/health").headers
        os.kill(server.process, signal.SIGTERM)
        answer = client.get(f"{server.url}/health")  # on the same connection, or a new one: both are still answered
        while "connection" not in answer.headers:  # The signal may take a moment.
            answer = client.get(f"{server.url}/health")
        assert answer.status_code == 200
        assert answer.headers["Connection"] == "close"
    wait_until_refused(server)
    server.start()


def wait_until_refused(server) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    raise AssertionError("the server still lets everybody in")


def test_workers_send_their_answers_at_once():
    """Answers have two parts: the second must not wait until the first is acknowledged."""
    with listening(uvicorn.Config("none", host="127.0.0.1", port=0)) as bound:
        bound.listen()
        with socket.create_connection(bound.getsockname()[:2]), bound.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a packet filter of Linux")
def test_who_waits_can_still_be_taken_when_nobody_is_let_in():
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as early:
        stop_accepting(door)
        with pytest.raises(TimeoutError):
            socket.create_connection(door.getsockname(), timeout=0.2)
        early.sendall(b"hello")
        with door.accept()[0] as taken:
            assert taken.recv(5) == b"hello"


def test_many_may_wait_to_be_let_in_though_workers_take_one_at_a_time():
    with listening(uvicorn.Config("none", host="127.0.0.1", port=0)) as bound, contextlib.ExitStack() as waiting:
        bound.listen(1)  # as a worker does
        parent = object.__new__(Workers)  # A whole one would take over the signals of this process.
        parent.sockets, parent.processes, parent.should_exit = [bound], [], threading.Event()
        parent.keep_subprocess_alive()
        for _ in range(100):
            waiting.enter_context(socket.create_connection(bound.getsockname()[:2], timeout=0.5))


def test_the_database_goes_away_and_comes_back(settings, postgres):
    told = replace(settings, database=postgres.url)
    prepare(told)
    with TestClient(create_app(told)) as asking:
        assert asking.put("/v1/users/x/ratings/1", json={"rating": 5}).status_code == 200
        postgres.stop()
        try:
            for answer in (
                asking.get("/v1/users/x/recommendations"),
                asking.put("/v1/users/x/ratings/2", json={"rating": 5}),
                asking.get("/v1/ready"),
            ):
                assert answer.status_code == 503
                assert answer.headers["Retry-After"]
                assert "database" in answer.json()["detail"]
            assert asking.get("/v1/health").status_code == 200
        finally:
            postgres.start()
        assert asking.get("/v1/ready").status_code == 200
        assert asking.get("/v1/users/x/ratings").json()["total"] == 1
        assert asking.put("/v1/users/x/ratings/2", json={"rating": 5}).status_code == 200


def test_a_full_disk_refuses_and_keeps_what_there_is(tmp_path):
    """A limit on the size of files stands for a full disk; in a process of its own, for it cannot be taken back."""
    store = Store(f"sqlite:///{tmp_path / 'ratings.db'}")
    store.migrate()
    store.rate([Rated("ann", "1", 4.0)])
    size = (tmp_path / "ratings.db-wal").stat().st_size
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, size + 8192))
            full = Store(f"sqlite:///{tmp_path / 'ratings.db'}")
            try:
                full.rate([Rated("bob", str(item), 3.0) for item in range(5000)])
            except DatabaseError:
                code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert store.history("ann") == {"1": 4.0}
    assert store.history("bob") == {}  # all or none
    store.rate([Rated("bob", "1", 3.0)])
    assert store.history("bob") == {"1": 3.0}
    store.close()
