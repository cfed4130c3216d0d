"""Middleware around every request: its id, its log line, limits of size, time and rate, errors and security headers."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import threading
import time
import uuid
from collections.abc import Collection
from types import FrameType
from typing import Any
from urllib.parse import quote, unquote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tastespace.errors import ArtifactError, MissingExtraError, TastespaceError, UnknownIdError
from tastespace.service.catalogue import KnownItemError
from tastespace.service.monitoring import REQUEST, Metrics
from tastespace.service.settings import Settings
from tastespace.service.store import ConflictError, DatabaseError, RepeatedKeyError

faults = logging.getLogger("tastespace.service")
MEDIA_TYPE = "application/problem+json"
NOTHING_HERE = "there is nothing here"

# The first match counts.
STATUSES: tuple[tuple[type[TastespaceError], int, str], ...] = (
    (ConflictError, 503, "written at the same time"),
    (DatabaseError, 503, "the ratings database does not answer"),
    (RepeatedKeyError, 409, "key used before"),
    (KnownItemError, 409, "item known already"),
    (UnknownIdError, 404, "unknown"),
    (ArtifactError, 503, "no such model"),
    (MissingExtraError, 501, "not installed"),
    (TastespaceError, 422, "not possible"),
)
TITLES = {
    400: "cannot be read",
    401: "an API key is needed",
    403: "not allowed by the API key",
    404: "not found",
    405: "no such method",
    408: "too slow",
    409: "conflict",
    413: "too large",
    415: "not JSON",
    422: "not possible",
    429: "too many requests",
    500: "internal error",
    503: "temporarily unavailable",
}


def problem(
    status: int, detail: str, title: str | None = None, headers: dict[str, str] | None = None, **extensions: Any
) -> JSONResponse:
    """A response with a problem; `extensions` are other members of it (RFC 9457)."""
    about = {"type": "about:blank", "title": title or TITLES.get(status, "problem"), "status": status}
    content = {**about, "detail": detail, **extensions}
    retry = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse(content, status, {**retry, **(headers or {})}, MEDIA_TYPE)


async def _respond(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        detail = NOTHING_HERE if error.status_code == 404 else str(error.detail)
        return problem(error.status_code, detail, headers=dict(error.headers or {}))
    if isinstance(error, RequestValidationError):
        return _invalid(request, error)
    assert isinstance(error, TastespaceError)
    status, title = next((status, title) for kind, status, title in STATUSES if isinstance(error, kind))
    if status >= 500:
        faults.error("%s: %s", type(error).__name__, error, exc_info=error.__cause__)
    return problem(status, _clean(str(error)), title=title)


def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """The response to an invalid request: what is wrong and where, without the input, which may be secret or large."""
    errors = [
        {"where": ".".join(_clean(str(part)) for part in one["loc"]), "what": _clean(one["msg"])}
        for one in error.errors()[:20]
    ]
    if any(one["loc"] == ("body",) for one in error.errors()) and not _is_json(request):
        return problem(415, "the body is not declared as JSON; expected a header Content-Type: application/json")
    unreadable = any(one["type"] == "json_invalid" for one in error.errors())
    detail = "; ".join(f"{one['where']}: {one['what']}" for one in errors[:3])
    return problem(400 if unreadable else 422, detail, errors=errors)


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _clean(text: str) -> str:
    """Printable text of limited length. Line breaks stay: an error in a condition is marked below it."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text[:1000]
    )


def install(app: FastAPI) -> None:
    """Let the application answer errors with problems."""
    for kind in (TastespaceError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _respond)


GRACE_SECONDS = 1.0  # between the signal and the end of the server


class Shutdown:
    """Whether the service is about to stop; responses then tell clients to close their connections.

    A server that closes connections at once may do so while a client sends the next request, which is then lost.
    """

    def __init__(self) -> None:
        self.is_coming = False

    def watch(self) -> None:
        """Handle SIGTERM before the server does; only possible in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        server_handler, loop = signal.getsignal(signal.SIGTERM), asyncio.get_running_loop()
        if not callable(server_handler):
            return

        def leave(number: int, frame: FrameType | None) -> None:
            self.is_coming = True
            loop.call_soon_threadsafe(loop.call_later, GRACE_SECONDS, server_handler, number, None)

        signal.signal(signal.SIGTERM, leave)


ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE)
SLASH = "\uf02f"  # replaces a slash inside an id; from the private use area, and refused in ids


def keep_slashes(scope: Scope) -> None:
    """Replace encoded slashes, which are part of an id, so that they do not divide the path."""
    raw: bytes = scope.get("raw_path") or b""
    if ENCODED_SLASH.search(raw):
        path = ENCODED_SLASH.sub(quote(SLASH).encode(), raw.partition(b"?")[0])
        scope["path"] = unquote(path.decode("latin-1"))


def restore_slashes(text: str) -> str:
    """An id with its slashes again."""
    return text.replace(SLASH, "/")


log = logging.getLogger("tastespace.service.access")
GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
PORT = re.compile(r":\d*$")
GOOD_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d*)?")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
FOREIGN = (
    "the request comes from a web page of another site; expected one of this service, a program, or a page whose "
    "origin is allowed (--origin)"
)
SECURE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


FAULT = "an internal error; the log has it under the X-Request-ID of this response"


class TooLargeError(HTTPException):
    """The request body is larger than the service accepts."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the request is larger than {limit:,} bytes; send it in parts", {"Connection": "close"})


class Guard:
    """The outermost layer of the application: every response has an id and security headers."""

    def __init__(
        self, app: ASGIApp, settings: Settings, metrics: Metrics, shutdown: Shutdown, hosts: Collection[str] | None
    ) -> None:
        self._app, self._settings, self._metrics, self._shutdown = app, settings, metrics, shutdown
        self._hosts = hosts  # accepted values of the Host header; None for any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._settings, self._shutdown)
        REQUEST.set(exchange.id)
        began = time.perf_counter()
        try:
            await self._answer(exchange)
        finally:
            seconds = time.perf_counter() - began
            # The declared route: a path has ids, which are too many to count by.
            route = getattr(scope.get("route"), "path", "(none)")
            self._metrics.answered(scope["method"], route, exchange.status, seconds)
            about = {"client": scope.get("state", {}).get("client"), "milliseconds": round(seconds * 1e3, 2)}
            log.info("%s %s %d", scope["method"], route, exchange.status, extra={"request_id": exchange.id, **about})

    async def _answer(self, exchange: _Exchange) -> None:
        if exchange.is_announced_too_large:
            await exchange.refuse(413, TooLargeError(self._settings.body_bytes).detail)
            return
        if not exchange.has_good_host:
            await exchange.refuse(400, "the header Host is missing, repeated or malformed; expected one NAME:PORT")
            return
        if self._hosts is not None and exchange.host not in self._hosts:
            known = ", ".join(sorted(self._hosts))
            await exchange.refuse(400, f"the header Host names another machine; expected one of {known}")
            return
        if exchange.scope["method"] not in SAFE_METHODS and exchange.is_foreign:
            await exchange.refuse(403, FOREIGN, "refused for web pages of other sites")
            return
        seconds = self._settings.seconds
        try:
            async with asyncio.timeout(seconds):
                await self._app(exchange.scope, exchange.receive, exchange.send)
        except TimeoutError:
            if exchange.has_arrived:
                text = f"the request took longer than {seconds:g} seconds; what it was to store may be stored"
                await exchange.refuse(503, text)
            else:
                await exchange.refuse(408, f"the request did not arrive within {seconds:g} seconds; send it again")
        except Exception as error:
            # Here and not by the framework, whose response would be outside of this layer.
            faults.error("unexpected %s", type(error).__name__, exc_info=error)
            await exchange.refuse(500, FAULT)


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: Settings, shutdown: Shutdown) -> None:
        keep_slashes(scope)
        self.scope, self._receive, self._send, self._settings = scope, receive, send, settings
        self._shutdown = shutdown
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        self.id = given if GOOD_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = self.id
        hosts = headers.getlist("host")
        self._full_host = hosts[0].lower() if hosts else ""
        self.host = PORT.sub("", self._full_host)
        is_missing_rightly = not hosts and scope.get("http_version") != "1.1"
        self.has_good_host = is_missing_rightly or len(hosts) == 1 and bool(GOOD_HOST.fullmatch(hosts[0]))
        self._headers = headers
        length = headers.get("content-length", "")
        self.is_announced_too_large = length.isdigit() and (len(length) > 18 or int(length) > settings.body_bytes)
        self._received = 0
        self.has_arrived = length in ("", "0") and "transfer-encoding" not in headers
        self._has_begun = False
        self.status = 500

    @property
    def is_foreign(self) -> bool:
        """Whether a browser says that the request comes from a page of another site, whose origin is not allowed.

        Such a page may send some requests without asking (CORS), and on a service without keys they would count.
        """
        origin, site = self._headers.get("origin"), self._headers.get("sec-fetch-site")
        if origin is not None and origin in self._settings.origins:
            return False
        if site is not None:  # Pages cannot set this header.
            return site not in ("same-origin", "none")
        return origin is not None and origin.partition("://")[2].lower() != self._full_host

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._settings.body_bytes:
                raise TooLargeError(self._settings.body_bytes)
            self.has_arrived = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_begun, self.status = True, message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.id
            if self._shutdown.is_coming:
                headers["Connection"] = "close"
            for name, value in SECURE.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self, status: int, detail: str, title: str | None = None) -> None:
        if self._has_begun:
            raise ConnectionAbortedError(detail)
        answer = problem(status, detail, headers={"Connection": "close"}, title=title)
        await answer(self.scope, self._receive, self.send)
