"""How much work one client may ask for: a rate limit that counts work, and queues in which clients take turns."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException

TOKEN_SECONDS = 0.005  # processor time that one request may take; a plain list takes half of it
MAX_DEBT_SECONDS = 60.0  # until a client may ask again, whatever its requests cost


class Rates:
    """Rate limits per client: a token bucket that holds the tokens of two seconds.

    A request takes one token; one that turns out to be more work takes more of them afterwards.
    """

    def __init__(self, rate: float, max_clients: int = 10_000) -> None:
        self._rate, self._max_clients = rate, max_clients
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, now: float | None = None) -> float:
        """Seconds until this client may send a request; 0 if it may now, which counts as a request."""
        if not self._rate:
            return 0.0
        now = time.monotonic() if now is None else now
        size = max(2 * self._rate, 1.0)
        tokens, then = self._buckets.pop(client, (size, now))
        tokens = min(size, tokens + (now - then) * self._rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._buckets[client] = (tokens - 1 if not wait else tokens, now)
        while len(self._buckets) > self._max_clients:
            self._buckets.popitem(last=False)
        return wait

    def charge(self, client: str, seconds: float) -> None:
        """Take the tokens of a request that took this much processor time, less the one that it had."""
        extra = seconds / TOKEN_SECONDS - 1
        if extra > 0 and (bucket := self._buckets.get(client)) is not None:
            tokens, then = bucket
            self._buckets[client] = (max(tokens - extra, -MAX_DEBT_SECONDS * self._rate), then)


class Queue:
    """A number of threads for which clients take turns: one that asks for a lot waits for itself, not others for it."""

    def __init__(self, threads: int, max_waiting: int) -> None:
        self._free, self._max_waiting = threads, max_waiting  # waiting requests of one client
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a thread, which is given back at the end."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, client: str) -> None:
        mine = self._waiting.setdefault(client, deque())
        if len(mine) >= self._max_waiting:
            raise HTTPException(
                429,
                f"{len(mine)} requests like this one are waiting already; send fewer at a time",
                {"Retry-After": "1"},
            )
        called = asyncio.get_running_loop().create_future()
        mine.append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self._pass_on()  # It was its turn just now.
            elif called in mine:
                mine.remove(called)
                if not mine and self._waiting.get(client) is mine:
                    del self._waiting[client]
            raise

    def _pass_on(self) -> None:
        """Let the next client have its turn."""
        while self._waiting:
            client, theirs = next(iter(self._waiting.items()))
            called = theirs.popleft()
            if theirs:
                self._waiting.move_to_end(client)
            else:
                del self._waiting[client]
            if not called.done():
                called.set_result(None)
                return
        self._free += 1
