"""Clients of the service: API keys, their scopes, and rate limits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import HTTPException, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from tastespace.service.answering import Answerer
from tastespace.service.catalogue import Catalogue
from tastespace.service.door.connections import network_of
from tastespace.service.door.limits import Queue, Rates
from tastespace.service.live_model import LiveModel, Loaded
from tastespace.service.maps import Maps
from tastespace.service.monitoring import Metrics
from tastespace.service.promises.monitor import Monitor
from tastespace.service.settings import Keys, Settings
from tastespace.service.store import Store

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Context:
    """The parts of a running service."""

    settings: Settings
    keys: Keys
    store: Store
    live: LiveModel
    metrics: Metrics
    rates: Rates
    maps: Maps
    monitor: Monitor
    # Threads for lists: one asks the model while another reads the database or writes its response. More would wait for
    # the interpreter: a tenth fewer responses, and the slowest took twice as long.
    quick: Queue = field(default_factory=lambda: Queue(2, 200))
    # What takes far longer than a plain list has a thread of its own, so that plain lists do not wait for it.
    slow: Queue = field(default_factory=lambda: Queue(1, 8))
    maps_waiting: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    _threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(3))  # of both queues together

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.store)

    def loaded(self, user: str | None = None) -> Loaded:
        """The version that is current for a user, with the items of the database; ask in a thread."""
        return self.live.of_user(user).stocked(self.catalogue)

    def answerer(self, user: str | None = None) -> Answerer:
        """Answers with the version that is current for a user, even if another one is activated meanwhile."""
        monitor = self.monitor if self.monitor.is_on else None
        return Answerer(self.loaded(user), self.store, self.metrics, self.settings.max_items, monitor)

    async def compute(self, client: str, ask: Callable[[], Result], *, is_slow: bool = False) -> Result:
        """Ask the model in a thread when it is this client's turn; the client is charged for the time it takes."""

        def timed() -> tuple[float, Result | Exception]:
            began = time.thread_time()
            try:
                found: Result | Exception = ask()
            except Exception as error:  # It took time as well.
                found = error
            return time.thread_time() - began, found

        async with (self.slow if is_slow else self.quick).turn(client):
            seconds, found = await run_sync(timed, limiter=self._threads)
        self.rates.charge(client, seconds)
        if isinstance(found, Exception):
            raise found
        return found


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


bearer = HTTPBearer(auto_error=False, description="An API key.")
header = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same in its own header.")
CHALLENGE = {"WWW-Authenticate": "Bearer"}


def require(scope: str) -> Callable[..., Awaitable[str]]:
    """A dependency: the name of the client, whose key must have this scope."""

    async def client(
        request: Request,
        token: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
        key: Annotated[str | None, Security(header)],
    ) -> str:
        return _authenticate(request, scope, token, key)

    return client


async def authenticate(request: Request, scope: str) -> str:
    """The same, for a route that reads its request itself."""
    return _authenticate(request, scope, await bearer(request), await header(request))


async def limit_address(request: Request) -> str:
    """A dependency: the address of a client that needs no key."""
    return _limit_rate(request, _address(request))


def _limit_rate(request: Request, client: str) -> str:
    """The client, who has not sent too many requests, and is named in the log from now on."""
    context: Context = context_of(request)
    request.state.client = client
    wait = context.rates.wait(client)
    if wait:
        raise HTTPException(
            429,
            f"more than {context.settings.rate:g} requests per second; wait {wait:.1f} seconds",
            {"Retry-After": str(int(wait) + 1)},
        )
    return client


def _authenticate(request: Request, scope: str, token: HTTPAuthorizationCredentials | None, key: str | None) -> str:
    context = context_of(request)
    if not context.keys:
        return _limit_rate(request, _address(request))
    secret = token.credentials if token is not None else key
    found = None if secret is None else context.keys.find(secret)
    if found is None or found.has_expired(datetime.now(UTC)):
        _limit_rate(request, _address(request))  # Guessing keys is limited like any other request.
        reason = "the API key is unknown" if found is None else "the API key has expired; ask for a new one"
        raise HTTPException(401, "send an API key: Authorization: Bearer KEY" if secret is None else reason, CHALLENGE)
    name = _limit_rate(request, f"key {found.name}")
    if not found.allows(scope):
        raise HTTPException(403, f"the scope of the API key is {found.scope}; this needs {scope}")
    return name


def _address(request: Request) -> str:
    return f"address {network_of(request.client.host) if request.client else 'unknown'}"
