"""What the routes have in common: the context, ids in paths, and how answers are written."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

from fastapi import Depends, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ValidationError

from tastespace.service.access import Context, anybody, bearer, context_of, header, needs
from tastespace.service.answering import as_json
from tastespace.service.messages import LONGEST_ID, Problem, printable
from tastespace.service.middleware import with_slashes


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


Asked = TypeVar("Asked", bound=BaseModel)
SECURITY: list[dict[str, list[str]]] = [{bearer.scheme_name: []}, {header.scheme_name: []}]


def read(request: Request, message: type[Asked], names: tuple[str, ...]) -> Asked:
    """The message: what the path has, and of the query these names; others are not looked at."""
    given: dict[str, Any] = {name: with_slashes(part) for name, part in request.path_params.items()}
    query = request.query_params
    for name in names:
        if name in query:
            given[name] = query.getlist(name) if _is_many(message, name) else query[name]
    try:
        return message.model_validate(given, strict=False)  # All is text here, and becomes what is wanted.
    except ValidationError as error:
        of_path = request.path_params
        raise RequestValidationError(
            [one | {"loc": ("path" if one["loc"][0] in of_path else "query", *one["loc"])} for one in error.errors()]
        ) from None


def declared(message: type[BaseModel], path: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The same for the OpenAPI document; `path` has the schema of each parameter in it."""
    properties = message.model_json_schema()["properties"]
    places = [{"name": name, "in": "path", "required": True, "schema": schema} for name, schema in path.items()]
    places += [{"name": name, "in": "query", "required": False, "schema": properties[name]} for name in names]
    return {"parameters": places, "security": SECURITY}


@cache
def _is_many(message: type[BaseModel], name: str) -> bool:
    annotation = message.model_fields[name].annotation
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))
