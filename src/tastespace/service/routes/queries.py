"""A request read in one go from path and query, as a message says it.

FastAPI goes through parameters and dependencies one by one: with those of a list of recommendations that took a
millisecond of a processor, more than to find the list. For the few routes that are asked all the time.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from tastespace.service.access import bearer, header
from tastespace.service.slashes import with_slashes

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
