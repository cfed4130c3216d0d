"""Shared parts of the routes: the context, authorization, parameters, and how responses are written."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

from fastapi import Depends, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ValidationError

from tastespace.service.answering import as_json
from tastespace.service.door.access import Context, bearer, context_of, header, limit_address, require
from tastespace.service.door.middleware import MEDIA_TYPE, TITLES, restore_slashes
from tastespace.service.messages import MAX_ID_LENGTH, Problem, printable


async def _context(request: Request) -> Context:
    """A dependency; asynchronous, because a plain function would wait for a thread."""
    return context_of(request)


ServiceContext = Annotated[Context, Depends(_context)]
AnyClient = Annotated[str, Depends(limit_address)]
Reader = Annotated[str, Depends(require("read"))]
Writer = Annotated[str, Depends(require("write"))]
Administrator = Annotated[str, Depends(require("admin"))]
PathId = Annotated[str, AfterValidator(restore_slashes), AfterValidator(printable)]
UserId = Annotated[PathId, Path(min_length=1, max_length=MAX_ID_LENGTH, examples=["7"])]
ItemId = Annotated[PathId, Path(min_length=1, max_length=MAX_ID_LENGTH, examples=["318"])]
Where = Annotated[
    str | None,
    Query(max_length=1000, description="A condition on items.", examples=["genre = Comedy and year >= 1990"]),
]
Search = Annotated[str, Query(max_length=200, description="Part of a title or an item id; the beginning of a user id.")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10**9)]

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": f"{title[0].upper()}{title[1:]}.", "content": {MEDIA_TYPE: {}}}
    for status, title in TITLES.items()
}


def respond(
    content: dict[str, Any] | str | bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A response with this content as JSON; text and bytes are JSON already."""
    text = as_json(content) if isinstance(content, dict) else content
    return Response(text, status, headers, media_type="application/json")


AnyMessage = TypeVar("AnyMessage", bound=BaseModel)
SECURITY: list[dict[str, list[str]]] = [{bearer.scheme_name: []}, {header.scheme_name: []}]


def read_message(request: Request, message: type[AnyMessage], names: tuple[str, ...]) -> AnyMessage:
    """The message in the path and in these parameters of the query; others are ignored."""
    given: dict[str, Any] = {name: restore_slashes(part) for name, part in request.path_params.items()}
    query = request.query_params
    for name in names:
        if name in query:
            given[name] = query.getlist(name) if _is_list(message, name) else query[name]
    try:
        return message.model_validate(given, strict=False)  # All values are text here, and are converted.
    except ValidationError as error:
        of_path = request.path_params
        raise RequestValidationError(
            [one | {"loc": ("path" if one["loc"][0] in of_path else "query", *one["loc"])} for one in error.errors()]
        ) from None


def declare_parameters(message: type[BaseModel], path: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The same for the OpenAPI document; `path` has the schema of each parameter of the path."""
    properties = message.model_json_schema()["properties"]
    places = [{"name": name, "in": "path", "required": True, "schema": schema} for name, schema in path.items()]
    places += [{"name": name, "in": "query", "required": False, "schema": properties[name]} for name in names]
    return {"parameters": places, "security": SECURITY}


@cache
def _is_list(message: type[BaseModel], name: str) -> bool:
    annotation = message.model_fields[name].annotation
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))
