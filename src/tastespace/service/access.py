"""Who asks: the key of a request, what it may do, and how often."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

from anyio import CapacityLimiter
from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from tastespace.service.answering import Answerer
from tastespace.service.live_model import LiveModel
from tastespace.service.maps import Maps
from tastespace.service.middleware import Rates
from tastespace.service.monitoring import Metrics
from tastespace.service.problems import ProblemError
from tastespace.service.settings import Key, Keys, Settings
from tastespace.service.store import Store


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
    # Threads for lists: one asks the model, and another reads the database or writes its answer meanwhile. More would
    # wait for the interpreter: a tenth fewer answers, and the slowest took twice as long.
    listing: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(2))

    @property
    def answerer(self) -> Answerer:
        """Answers with the version of now, whatever is activated meanwhile."""
        return Answerer(self.live.current, self.store, self.metrics, self.settings.most_items)


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


bearer = HTTPBearer(auto_error=False, description="An API key.")
header = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same, in a header of its own.")
CHALLENGE = {"WWW-Authenticate": "Bearer"}


def needs(scope: str) -> Callable[..., Awaitable[str]]:
    """A dependency: the name of the client, who must have this scope."""

    async def client(
        request: Request,
        token: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
        key: Annotated[str | None, Security(header)],
    ) -> str:
        return _client(request, scope, token, key)

    return client


async def client_of(request: Request, scope: str) -> str:
    """The same, for a route that reads its request itself."""
    return _client(request, scope, await bearer(request), await header(request))


async def anybody(request: Request) -> str:
    """A dependency: the address of whoever asks what needs no key."""
    return _counted(request, _address(request))


def _counted(request: Request, name: str) -> str:
    """The client, who has not asked too often; from now on the log knows him."""
    context: Context = context_of(request)
    request.state.client = name
    wait = context.rates.wait(name)
    if wait:
        raise ProblemError(
            429,
            f"more than {context.settings.rate:g} requests a second; wait {wait:.1f} seconds",
            {"Retry-After": str(int(wait) + 1)},
        )
    return name


def _client(request: Request, scope: str, token: HTTPAuthorizationCredentials | None, key: str | None) -> str:
    context = context_of(request)
    if not context.keys:
        return _counted(request, _address(request))
    secret = token.credentials if token is not None else key
    found = None if secret is None else context.keys.find(secret)
    if found is None or found.has_expired(datetime.now(UTC)):
        _counted(request, _address(request))  # Whoever guesses may not do so faster than others may ask.
        raise ProblemError(401, _complaint(secret, found), CHALLENGE)
    name = _counted(request, f"key {found.name}")
    if not found.allows(scope):
        raise ProblemError(403, f"the API key may {found.scope}; this needs one that may {scope}")
    return name


def _address(request: Request) -> str:
    return f"address {request.client.host if request.client else 'unknown'}"


def _complaint(secret: str | None, key: Key | None) -> str:
    if secret is None:
        return "send an API key: Authorization: Bearer KEY"
    return "the API key is not known here" if key is None else "the API key has expired; ask for a new one"
