"""What the routes have in common: the context, ids in paths, and how answers are written."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from pydantic import AfterValidator

from tastespace.service.access import anybody, needs
from tastespace.service.answering import as_json
from tastespace.service.context import Context, context_of
from tastespace.service.messages import LONGEST_ID, Problem, printable
from tastespace.service.slashes import with_slashes


async def shared(request: Request) -> Context:
    """A dependency; asynchronous, as a plain function would wait for a thread."""
    return context_of(request)


Shared = Annotated[Context, Depends(shared)]
Anybody = Annotated[str, Depends(anybody)]
Reader = Annotated[str, Depends(needs("read"))]
Writer = Annotated[str, Depends(needs("write"))]
Administrator = Annotated[str, Depends(needs("admin"))]
UserId = Annotated[
    str,
    Path(min_length=1, max_length=LONGEST_ID, examples=["7"]),
    AfterValidator(with_slashes),
    AfterValidator(printable),
]
ItemId = Annotated[
    str,
    Path(min_length=1, max_length=LONGEST_ID, examples=["318"]),
    AfterValidator(with_slashes),
    AfterValidator(printable),
]
Where = Annotated[
    str | None,
    Query(max_length=1000, description="A condition on items.", examples=["genre = Comedy and year >= 1990"]),
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10**9)]

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text, "content": {"application/problem+json": {}}}
    for status, text in {
        400: "Cannot be read.",
        401: "A key is needed, or the one sent is not known or has expired.",
        403: "The key may not do this.",
        404: "Unknown.",
        409: "In conflict with what was done before.",
        413: "Too large.",
        415: "Not JSON.",
        422: "Not possible: the detail says why.",
        429: "Too many requests.",
        503: "Not now: the database or the model does not answer.",
    }.items()
}


def answer(content: dict[str, Any] | str, status: int = 200) -> Response:
    """As JSON, which it may be already."""
    text = content if isinstance(content, str) else as_json(content)
    return Response(text, status, media_type="application/json")
