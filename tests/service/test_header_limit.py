"""Request lines and headers without an end, before anything of ours has seen the request."""

from __future__ import annotations

import json
import socket

import pytest
from service.server import Server

from tastespace.service.app import prepare
from tastespace.service.launching import MAX_HEADER_BYTES

PIECE = b"x" * 4096


@pytest.fixture
def port(settings):
    prepare(settings)
    running = Server(settings)
    yield running.port
    running.end()


def told(port, pieces):
    """What is answered to these pieces until the connection ends, or a second has passed."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It was closed while we were still talking.
        connection.settimeout(1)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def test_a_head_must_end(port):
    many = 4 * MAX_HEADER_BYTES // len(PIECE)
    for beginning in (b"GET /v1/health?", b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "):
        answer = told(port, [beginning, *[PIECE] * many])
        assert not answer or (answer.startswith(b"HTTP/1.1 400") and b"too long" in answer)
    # What has a length is taken: a long body in one piece with its head, and requests one after another.
    history = {str(item): 3.0 for item in range(20_000)}
    body = json.dumps({"history": history}).encode()
    head = b"POST /v1/recommendations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    assert len(whole) > 3 * MAX_HEADER_BYTES
    short = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert told(port, [whole + short + short]).count(b"HTTP/1.1 ") == 3
