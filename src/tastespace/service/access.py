"""Who asks: the key of a request, what it may do, and how often."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from tastespace.service.context import Context, context_of
from tastespace.service.problems import ProblemError

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
        context = context_of(request)
        name = _client(context, scope, request, token.credentials if token is not None else key)
        request.state.client = name
        wait = context.rates.wait(name)
        if wait:
            raise ProblemError(
                429,
                f"more than {context.settings.rate:g} requests a second; wait {wait:.1f} seconds",
                {"Retry-After": str(int(wait) + 1)},
            )
        return name

    return client


def _client(context: Context, scope: str, request: Request, secret: str | None) -> str:
    if not context.keys:
        return f"address {request.client.host if request.client else 'unknown'}"
    if secret is None:
        raise ProblemError(401, "send an API key: Authorization: Bearer KEY", CHALLENGE)
    key = context.keys.find(secret)
    if key is None:
        raise ProblemError(401, "the API key is not known here", CHALLENGE)
    if key.has_expired(datetime.now(UTC)):
        raise ProblemError(401, "the API key has expired; ask for a new one", CHALLENGE)
    if not key.allows(scope):
        raise ProblemError(403, f"the API key may {key.scope}; this needs one that may {scope}")
    return f"key {key.name}"
