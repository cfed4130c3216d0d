"""Errors as problem+json (RFC 9457): the one table of errors and statuses. Never a stack trace."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tastespace.errors import ArtifactError, MissingExtraError, TastespaceError, UnknownIdError
from tastespace.service.store import ConflictError, DatabaseError, RepeatedKeyError

log = logging.getLogger("tastespace.service")
MEDIA_TYPE = "application/problem+json"
NOTHING_HERE = "there is nothing here"

# The first that fits.
STATUSES: tuple[tuple[type[TastespaceError], int, str], ...] = (
    (ConflictError, 503, "written at the same time"),
    (DatabaseError, 503, "the ratings database does not answer"),
    (RepeatedKeyError, 409, "key used before"),
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


class ProblemError(Exception):
    """A request that is answered with a problem."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}


def problem(
    status: int,
    detail: str,
    *,
    title: str | None = None,
    headers: dict[str, str] | None = None,
    errors: list[dict[str, Any]] | None = None,
) -> JSONResponse:
    """A response with a problem."""
    content: dict[str, Any] = {"type": "about:blank", "title": title or TITLES.get(status, "problem"), "status": status}
    content["detail"] = detail
    if errors is not None:
        content["errors"] = errors
    retry = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse(content, status, {**retry, **(headers or {})}, MEDIA_TYPE)


async def _respond(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, ProblemError):
        return problem(error.status, error.detail, headers=error.headers)
    if isinstance(error, HTTPException):
        detail = NOTHING_HERE if error.status_code == 404 else str(error.detail)
        return problem(error.status_code, detail, headers=dict(error.headers or {}))
    if isinstance(error, RequestValidationError):
        return _invalid(request, error)
    assert isinstance(error, TastespaceError)
    status, title = next((status, title) for kind, status, title in STATUSES if isinstance(error, kind))
    if status >= 500:
        log.error("%s: %s", type(error).__name__, error, exc_info=error.__cause__)
    return problem(status, _clean(str(error)), title=title)


def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """What is wrong and where, without the input: it may be a secret, or 50 MB."""
    errors = [
        {"where": ".".join(_clean(str(part)) for part in one["loc"]), "what": _clean(one["msg"])}
        for one in error.errors()[:20]
    ]
    if any(one["loc"] == ("body",) for one in error.errors()) and not _is_json(request):
        return problem(415, "the body is not said to be JSON; expected a header Content-Type: application/json")
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
    for kind in (TastespaceError, ProblemError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _respond)
