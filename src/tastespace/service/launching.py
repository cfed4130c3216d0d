"""Start a service: prepare everything, then start the workers."""

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
from uvicorn.supervisors import Multiprocess

from tastespace.errors import InvalidParameterError
from tastespace.progress import Observer
from tastespace.service.app import prepare
from tastespace.service.door.connections import Connection
from tastespace.service.monitoring import FOLDER_VARIABLE, log_config
from tastespace.service.settings import SETTINGS_VARIABLE, Settings
from tastespace.threads import share_one_heap

SO_ATTACH_FILTER = 26  # of Linux


def stop_accepting(listening: socket.socket) -> None:
    """Stop accepting connections, in all processes that share the socket (Linux only).

    Connections that wait in its queue can still be accepted; closing the socket would drop them. A client that got no
    answer tries again after a second, and is refused then.
    """
    if sys.platform != "linux":
        return
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # a packet filter: return, keep 0 bytes
    listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(drop)))


QUEUE = 2048  # connections that wait to be accepted
SHUTDOWN_SECONDS = 10  # for open requests
HEALTHY_SECONDS = 120  # for a worker to report that it is alive: loading a large model takes a while
# asyncio's loop accepts one connection at a time (`_run`): uvloop would accept all that wait.
PROTOCOL: dict[str, Any] = {"loop": "asyncio", "http": Connection, "ws": "none"}


def launch(settings: Settings, *, level: str, observer: Observer, ready: Callable[[Settings, int], None]) -> None:
    """Serve until stopped. `ready` gets the settings with the port in use, and the number of imported ratings."""
    share_one_heap()
    settings = replace(settings, port=_free_port(settings))
    ready(settings, prepare(settings, observer))
    folder = tempfile.mkdtemp(prefix="tastespace-metrics-")
    os.environ[SETTINGS_VARIABLE] = settings.to_json()
    if settings.workers > 1:
        os.environ[FOLDER_VARIABLE] = folder  # read by the workers before they count anything
    try:
        _run(
            uvicorn.Config(
                "tastespace.service.app:create_from_environment",
                factory=True,
                host=settings.host,
                port=settings.port,
                workers=settings.workers,
                **PROTOCOL,
                log_config=log_config(level),
                access_log=False,  # The guard logs each request with its id.
                server_header=False,
                # Otherwise everybody could give themselves another address for each request.
                proxy_headers=bool(settings.proxies),
                forwarded_allow_ips=",".join(settings.proxies),
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                timeout_worker_healthcheck=HEALTHY_SECONDS,
            )
        )
    finally:
        os.environ.pop(FOLDER_VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)


class Workers(Multiprocess):
    """Processes that serve on one socket, restarted when they die."""

    def keep_subprocess_alive(self) -> None:
        # A worker sets the length of the queue to the number of connections that it accepts at a time (`_run`).
        for shared in self.sockets:
            shared.listen(QUEUE)
        super().keep_subprocess_alive()

    def terminate_all(self) -> None:
        # It waits for them. While this process has the socket open, new clients would wait in a queue that is not
        # served any more.
        for shared in self.sockets:
            stop_accepting(shared)
            shared.close()
        super().terminate_all()


class SingleServer(uvicorn.Server):
    """A server in this process, without workers."""

    def __init__(self, config: uvicorn.Config, bound: socket.socket) -> None:
        super().__init__(config)
        self._socket = bound

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run([self._socket] if sockets is None else sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:  # It checks a tenth of a second later, and accepts waiting connections until then.
            stop_accepting(self._socket)
        super().handle_exit(sig, frame)


def bind(config: uvicorn.Config) -> socket.socket:
    """Bind the socket that workers share.

    Its connections inherit TCP_NODELAY. asyncio sets it only for sockets that are declared as TCP, which uvicorn's is
    not: the second part of every response waited 40 ms for the acknowledgement of the first.
    """
    bound = config.bind_socket()
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def _run(config: uvicorn.Config) -> None:
    """Serve until stopped; a server that could not start is an error."""
    if config.workers > 1:
        config.backlog = 1  # accepted at a time: a worker that accepted all would leave none to the others
        workers = Workers(config, [bind(config)])
        workers.run()
        started = not any(process.exitcode == STARTUP_FAILURE for process in workers.processes)
    else:
        server = SingleServer(config, bind(config))
        with contextlib.suppress(KeyboardInterrupt):
            server.run()
        started = server.started
    if not started:
        raise SystemExit(STARTUP_FAILURE)


def _free_port(settings: Settings) -> int:
    """The requested port, if it is free; any free port for 0."""
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
