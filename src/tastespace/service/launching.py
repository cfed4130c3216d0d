"""Start a service: everything ready first, then the workers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from tastespace.errors import InvalidParameterError
from tastespace.progress import Observer, silent
from tastespace.service.app import prepare
from tastespace.service.monitoring import FOLDER_VARIABLE, log_config
from tastespace.service.settings import SETTINGS_VARIABLE, Settings
from tastespace.threads import share_one_heap

SO_ATTACH_FILTER = 26  # of Linux
MAX_HEADER_BYTES = 1 << 16
TOO_LONG = "The request line and headers are too long."


class HeaderLimit(HttpToolsProtocol):
    """httptools with a limit for request line and headers.

    It reads requests in C, half a millisecond faster than in Python, and would keep whatever comes until the headers
    are complete.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head = 0  # bytes of a head that is not complete
        self._is_in_head, self._has_ended_one = True, False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Where another request ended in the same piece, it is not known how much of it was a head.
        is_all_head = self._is_in_head and not self._has_ended_one
        self._head, self._has_ended_one = self._head + len(data) if is_all_head else 0, False
        if self._head > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(TOO_LONG)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = self._has_ended_one = True
        super().on_message_complete()


def stop_accepting(listening: socket.socket) -> None:
    """Stop accepting connections, in all processes that share the socket (Linux only).

    Those that wait in its queue can still be taken; when a socket with some in it is closed, they are lost. A client
    that was not answered tries again after a second, and is refused then.
    """
    if sys.platform != "linux":
        return
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # a packet filter: return, keep 0 bytes
    listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(drop)))


QUEUE = 2048  # connections that wait to be taken
SHUTDOWN_SECONDS = 10  # for requests that are being answered
HEALTHY_SECONDS = 120  # for a worker to say that it lives: loading a large model takes a while
# asyncio's loop takes one connection at a time (`_run`): uvloop would take all that wait.
PROTOCOL: dict[str, Any] = {"loop": "asyncio", "http": HeaderLimit}


def launch(
    settings: Settings,
    *,
    level: str = "INFO",
    observer: Observer = silent,
    ready: Callable[[Settings, int], None] = lambda settings, taken: None,
) -> None:
    """Serve until told to stop. `ready` hears the settings with the port in use, and how many ratings were taken."""
    share_one_heap()
    settings = replace(settings, port=_free_port(settings))
    taken = prepare(settings, observer)
    ready(settings, taken)
    folder = tempfile.mkdtemp(prefix="tastespace-metrics-")
    os.environ[SETTINGS_VARIABLE] = settings.to_json()
    if settings.workers > 1:
        os.environ[FOLDER_VARIABLE] = folder  # read by the workers, before they count anything
    try:
        _run(
            uvicorn.Config(
                "tastespace.service.app:of_environment",
                factory=True,
                host=settings.host,
                port=settings.port,
                workers=settings.workers,
                **PROTOCOL,
                log_config=log_config(level),
                access_log=False,  # The guard writes a line a request, with its id.
                server_header=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                timeout_worker_healthcheck=HEALTHY_SECONDS,
            )
        )
    finally:
        os.environ.pop(FOLDER_VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)


class Workers(Multiprocess):
    """Processes that answer on one socket, started again when they die."""

    def keep_subprocess_alive(self) -> None:
        # A worker sets the length of the queue to the number of connections that it takes at a time (`_run`).
        for shared in self.sockets:
            shared.listen(QUEUE)
        super().keep_subprocess_alive()

    def terminate_all(self) -> None:
        # It waits for them. With a socket of its own open, whoever comes meanwhile would wait in a queue that nobody
        # looks into any more.
        for shared in self.sockets:
            stop_accepting(shared)
            shared.close()
        super().terminate_all()


class SingleServer(uvicorn.Server):
    """A server in this process, without workers."""

    def __init__(self, config: uvicorn.Config, door: socket.socket) -> None:
        super().__init__(config)
        self._door = door

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run([self._door] if sockets is None else sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:  # Until it looks, a tenth of a second later, it takes those that wait.
            stop_accepting(self._door)
        super().handle_exit(sig, frame)


def listening(config: uvicorn.Config) -> socket.socket:
    """The socket that connections come to; workers share it.

    Connections take over from it that they send at once. asyncio asks for that only where a socket says that it is for
    TCP, which uvicorn's does not: the second part of every answer then waited 40 ms for the first to be acknowledged.
    """
    bound = config.bind_socket()
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def _run(config: uvicorn.Config) -> None:
    """Until told to stop; a server that could not start is an error."""
    if config.workers > 1:
        config.backlog = 1  # taken at a time: a worker that took all that wait would leave none to the others
        workers = Workers(config, [listening(config)])
        workers.run()
        started = not any(process.exitcode == STARTUP_FAILURE for process in workers.processes)
    else:
        server = SingleServer(config, listening(config))
        with contextlib.suppress(KeyboardInterrupt):
            server.run()
        started = server.started
    if not started:
        raise SystemExit(STARTUP_FAILURE)


def _free_port(settings: Settings) -> int:
    """The port asked for, if it is free; for 0 any that is."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise InvalidParameterError(
                f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}; expected a free port, or 0 "
                "for any"
            ) from error
        return int(probe.getsockname()[1])
