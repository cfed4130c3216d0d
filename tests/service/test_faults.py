"""Real processes: killed, stopped, with a full disk, without a database, and with endless headers."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx2 as httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from service.server import Server

from tastespace import threads as heap_file
from tastespace.service.app import create_app, prepare
from tastespace.service.door.connections import MAX_HEADER_BYTES
from tastespace.service.launching import Workers, bind, stop_accepting
from tastespace.service.store import DatabaseError, RatingRow, Store

KILLS, WRITERS, BETWEEN = 10, 4, 5  # at least so many ratings from one kill to the next


@pytest.fixture
def server(settings):
    prepare(settings)
    running = Server(settings)
    yield running
    running.end()


def write(url: str, writer: int, acknowledged: dict[str, float], stop: threading.Event) -> None:
    """One rating after another, each by a new user; sent again, with the same key, if there is no answer."""
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
    """Writers send ratings all the while, each with a key, and repeat requests without an answer."""
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
    """SIGTERM waits for a request that is half sent."""
    body = b'{"history": {"1": 5}, "n": 3}'
    head = (
        "POST /v1/recommendations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.encode() + body[:10])
        time.sleep(0.1)
        os.kill(server.process, signal.SIGTERM)
        wait_until_refused(server)  # New connections are refused.
        connection.sendall(body[10:])
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    server.start()


def test_clients_are_asked_to_close_connections_before_the_server_stops(server):
    """A connection that the server just closed would lose the next request."""
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
    raise AssertionError("the server still accepts connections")


def test_workers_send_responses_at_once():
    """Responses have two parts: the second must not wait until the first is acknowledged."""
    with bind(uvicorn.Config("none", host="127.0.0.1", port=0)) as bound:
        bound.listen()
        with socket.create_connection(bound.getsockname()[:2]), bound.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a packet filter of Linux")
def test_waiting_connections_are_accepted_after_new_ones_are_refused():
    with socket.create_server(("127.0.0.1", 0)) as bound, socket.create_connection(bound.getsockname()) as early:
        stop_accepting(bound)
        with pytest.raises(TimeoutError):
            socket.create_connection(bound.getsockname(), timeout=0.2)
        early.sendall(b"hello")
        with bound.accept()[0] as taken:
            assert taken.recv(5) == b"hello"


def test_many_connections_may_wait_though_workers_accept_one_at_a_time():
    with bind(uvicorn.Config("none", host="127.0.0.1", port=0)) as bound, contextlib.ExitStack() as waiting:
        bound.listen(1)  # as a worker does
        parent = object.__new__(Workers)  # A whole one would take over the signals of this process.
        parent.sockets, parent.processes, parent.should_exit = [bound], [], threading.Event()
        parent.keep_subprocess_alive()
        for _ in range(100):
            waiting.enter_context(socket.create_connection(bound.getsockname()[:2], timeout=0.5))


def test_the_database_goes_away_and_comes_back(settings, postgres):
    changed = replace(settings, database=postgres.url)
    prepare(changed)
    with TestClient(create_app(changed)) as asking:
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


def test_a_database_that_accepts_but_does_not_answer(settings, postgres):
    """Lists that need nothing of it are answered all the while, and those that do are refused, not kept waiting."""
    changed = replace(settings, database=postgres.url)
    prepare(changed)
    with TestClient(create_app(changed)) as asking:
        history = {"history": {"1": 5}, "n": 3}
        assert asking.get("/v1/users/x/recommendations").status_code == 200
        postgres.freeze()
        try:
            with ThreadPoolExecutor(30) as pool:
                known = [pool.submit(asking.get, f"/v1/users/{n}/recommendations") for n in range(20)]
                sent = [pool.submit(asking.post, "/v1/recommendations", json=history) for _ in range(10)]
                assert {answer.result().status_code for answer in sent} == {200}
                assert {answer.result().status_code for answer in known} == {503}
            assert asking.put("/v1/users/x/ratings/2", json={"rating": 5}).status_code == 503
            assert asking.get("/v1/health").status_code == 200
        finally:
            postgres.thaw()
        for _ in range(600):
            if asking.get("/v1/ready").status_code == 200:
                break
            time.sleep(0.05)
        assert asking.put("/v1/users/x/ratings/2", json={"rating": 5}).status_code == 200


def test_a_full_disk_refuses_and_keeps_what_there_is(tmp_path):
    """A limit on the size of files stands for a full disk; in a process of its own, because it cannot be undone."""
    store = Store(f"sqlite:///{tmp_path / 'ratings.db'}")
    store.migrate()
    store.rate([RatingRow("ann", "1", 4.0)])
    size = (tmp_path / "ratings.db-wal").stat().st_size
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, size + 8192))
            full = Store(f"sqlite:///{tmp_path / 'ratings.db'}")
            try:
                full.rate([RatingRow("bob", str(item), 3.0) for item in range(5000)])
            except DatabaseError:
                code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert store.history("ann") == {"1": 4.0}
    assert store.history("bob") == {}  # all or none
    store.rate([RatingRow("bob", "1", 3.0)])
    assert store.history("bob") == {"1": 3.0}
    store.close()


PIECE = b"x" * 4096


def response_to(port, pieces):
    """The response to these pieces until the server ends the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It was closed while we were sending.
        connection.settimeout(60)  # a busy machine; a server that never ends the connection is a failure
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def test_headers_must_end(server):
    many = 4 * MAX_HEADER_BYTES // len(PIECE)
    for beginning in (b"GET /v1/health?", b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "):
        answer = response_to(server.port, [beginning, *[PIECE] * many])
        assert not answer or (answer.startswith(b"HTTP/1.1 400") and b"too long" in answer)
    # A long body in one piece with its headers is accepted, and requests one after another.
    history = {str(item): 3.0 for item in range(20_000)}
    body = json.dumps({"history": history}).encode()
    head = b"POST /v1/recommendations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    assert len(whole) > 3 * MAX_HEADER_BYTES
    short = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    last = short.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert response_to(server.port, [whole + short + last]).count(b"HTTP/1.1 ") == 3


PROGRAM = """
import ctypes, runpy, sys, threading
if sys.argv[2:]:
    runpy.run_path(sys.argv[1])["share_one_heap"]()
libc, together = ctypes.CDLL(None), threading.Barrier(8)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def take():
    together.wait()
    libc.free(libc.malloc(50_000))
threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps of threads are a thing of glibc")
def test_threads_share_one_heap(monkeypatch):
    monkeypatch.delenv(heap_file.ARENA_VARIABLE, raising=False)

    def heaps(*arguments: str) -> int:
        command = [sys.executable, "-c", PROGRAM, heap_file.__file__, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.count("<heap nr=")

    assert heaps("shared") == 1
    monkeypatch.setenv(heap_file.ARENA_VARIABLE, "1")
    assert heaps() == 1
    monkeypatch.delenv(heap_file.ARENA_VARIABLE)
    assert heaps() > 1  # This is what it is for.
