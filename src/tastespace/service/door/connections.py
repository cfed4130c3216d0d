"""Connections: how many may be open, in all and from one address, and how long each may wait for its client.

A connection is `busy` while the service works on its request; otherwise the service waits for the client, who is to
send the head of a request, its body, or the next request. Where too many are open, the one that has waited longest is
closed for a new one; only if all are busy the new one is refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import sys
import time
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = logging.getLogger("tastespace.service")
MAX_HEADER_BYTES = 1 << 16
TOO_LONG = "The request line and headers are too long."
CROWDED = "there are too many connections; close some, or try again later"
SWEEP_SECONDS = 1.0
UNREAD_SECONDS = 5.0  # for a client to read what is left when a connection is closed
BUSY = "busy"
MAX_FILES, OTHER_FILES = 1 << 16, 128  # to ask for; and those that are not connections: the model, the database


@lru_cache(maxsize=4096)
def network_of(host: str) -> str:
    """What limits count by: the address, or the /64 network of an IPv6 address, which one client has to itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


class Connections:
    """The open connections of one worker."""

    def __init__(
        self,
        total: int,
        per_address: int,
        head_seconds: float,
        body_seconds: float,
        proxies: Collection[str] = (),
        closed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._total, self._per_address = total, per_address
        self._seconds = {"head": head_seconds, "body": body_seconds}
        self._proxies = [ipaddress.ip_network(proxy, strict=False) for proxy in proxies]
        self._closed = closed  # called with the reason whenever a connection is closed or refused here
        self._open: set[Connection] = set()
        self._counts: dict[str, int] = {}
        # In the order in which they began to wait for their clients.
        self._waiting: dict[Connection, None] = {}
        self._waiting_at: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, new: Connection) -> bool:
        """Whether there is room for a new connection; one that waits may be closed to make some."""
        address = new.address
        if self._counts.get(address, 0) >= self._per_address and not self._is_proxy(address):
            if not self._close_oldest(self._waiting_at.get(address, {}), "too many of one address"):
                self._closed("refused: too many of one address")
                return False
        elif len(self._open) >= self._total and not self._close_oldest(self._waiting, "too many"):
            self._closed("refused: too many")
            return False
        self._open.add(new)
        self._counts[address] = self._counts.get(address, 0) + 1
        self.wait(new)
        return True

    def wait(self, one: Connection) -> None:
        """Note that the service waits for this client from now on."""
        if one in self._open:
            self._waiting[one] = None
            self._waiting_at.setdefault(one.address, {})[one] = None

    def work(self, one: Connection) -> None:
        """Note that the service works on a request of this client."""
        self._waiting.pop(one, None)
        at = self._waiting_at.get(one.address)
        if at is not None:
            at.pop(one, None)
            if not at:
                del self._waiting_at[one.address]

    def release(self, one: Connection) -> None:
        """Forget a connection, which is closed."""
        self.work(one)
        if one in self._open:
            self._open.remove(one)
            left = self._counts[one.address] - 1
            if left:
                self._counts[one.address] = left
            else:
                del self._counts[one.address]

    async def watch(self) -> None:
        """Close connections whose clients take too long, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(time.monotonic())

    def sweep(self, now: float) -> None:
        """Close connections whose clients take too long to send a request, or to read the end of a response."""
        for one in list(self._open):
            if one.is_closing:
                if one.closing_since is None:
                    one.closing_since = now
                elif now - one.closing_since > UNREAD_SECONDS:
                    self._closed("the end was not read")
                    one.abort()
                continue
            limit = self._seconds.get(one.state)
            if limit is not None and now - one.since > limit:
                self._close(one, f"slow {one.state}")

    def _close_oldest(self, waiting: dict[Connection, None], reason: str) -> bool:
        oldest = next(iter(waiting), None)
        if oldest is None:
            return False
        self._close(oldest, reason)
        self.release(oldest)
        return True

    def _close(self, one: Connection, reason: str) -> None:
        self._closed(reason)
        one.abort()

    def _is_proxy(self, address: str) -> bool:
        if not self._proxies:
            return False
        try:
            found = ipaddress.ip_address(address.partition("/")[0])
        except ValueError:
            return False
        return any(found in network for network in self._proxies)


class Connection(HttpToolsProtocol):
    """One connection, read by httptools, with a limit for request line and headers.

    httptools reads requests in C, half a millisecond faster than in Python, but buffers any amount of data until the
    headers are complete.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head = 0  # bytes of incomplete headers
        self._is_in_head, self._has_ended_one = True, False
        self._all: Connections | None = self.app_state.get("connections")
        self.address = ""
        self.state, self.since = "head", 0.0
        self.closing_since: float | None = None

    @property
    def is_closing(self) -> bool:
        return bool(self.transport.is_closing())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client else "")
        self.since = time.monotonic()
        if self._all is not None and not self._all.admit(self):
            transport.write(_refusal())
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._all is not None:
            self._all.release(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # It was refused.
        if self.state == "idle":
            self._wait_for("head")
        super().data_received(data)
        # If another request ended in the same data, it is unknown how much of it belongs to headers.
        is_all_head = self._is_in_head and not self._has_ended_one
        self._head, self._has_ended_one = self._head + len(data) if is_all_head else 0, False
        if self._head > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(TOO_LONG)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self.state != BUSY:
            self._wait_for("body")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = self._has_ended_one = True
        if self.cycle is not None and self.cycle.response_complete and not self.pipeline:
            self._wait_for("idle")  # It was answered before all of it was there.
        else:
            self.state = BUSY
            if self._all is not None:
                self._all.work(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline and self.state == BUSY:
            self._wait_for("idle")
        super().on_response_complete()

    def _wait_for(self, what: str) -> None:
        self.state, self.since = what, time.monotonic()
        if self._all is not None:
            self._all.work(self)
            self._all.wait(self)


def connections_possible() -> int:
    """How many connections this process can hold, which may open more files from now on, as far as it is allowed to.

    Where no more files can be opened, no connection can be accepted, and asyncio writes a trace for each attempt.
    """
    try:
        import resource
    except ImportError:  # pragma: no cover
        return sys.maxsize
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or hard > soft):
        wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
        if wanted > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - OTHER_FILES, 1)


def _refusal() -> bytes:
    content = {"type": "about:blank", "title": "temporarily unavailable", "status": 503, "detail": CROWDED}
    body = json.dumps(content).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
