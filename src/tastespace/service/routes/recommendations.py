"""Recommendations, predictions and questions for stored and new users; items and similar items."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from fastapi import APIRouter, Query, Request, Response
from numpy.typing import NDArray
from pydantic import AfterValidator, TypeAdapter

from tastespace.data.filters import Condition
from tastespace.errors import UnknownIdError
from tastespace.models.base.similarity import SimilarKind
from tastespace.report.model_page import attributes_of
from tastespace.service import messages
from tastespace.service.answering import Answerer, as_json
from tastespace.service.door.access import Context, authenticate, context_of
from tastespace.service.live_model import Loaded
from tastespace.service.messages import (
    MAX_ID_LENGTH,
    Id,
    PredictionRequest,
    QuestionRequest,
    RecommendationRequest,
    printable,
)
from tastespace.service.routes import parts
from tastespace.service.routes.parts import ItemId, Limit, Offset, Reader, Search, ServiceContext, UserId, Where

router = APIRouter(prefix="/v1", tags=["recommendations"])
# The parameters of a query: everything but the history of a new user, and what was shown.
PARAMETERS = tuple(
    name for name in RecommendationRequest.model_fields if name not in ("user", "history", "user_features", "shown")
)
NotRatedBy = Annotated[
    str | None,
    AfterValidator(printable),
    Query(min_length=1, max_length=MAX_ID_LENGTH, description="Only items that this user has not rated."),
]
Order = Annotated[
    Literal["ratings", "recent", "new"],
    Query(description="By all ratings, or by recent ones; or those added since the fit, the latest first."),
]
USER = {**TypeAdapter(Id).json_schema(), "examples": ["7"]}


@router.get(
    "/users/{user}/recommendations",
    response_model=messages.Recommendations,
    openapi_extra=parts.declare_parameters(RecommendationRequest, {"user": USER}, PARAMETERS),
)
async def recommendations_of_user(request: Request) -> Response:
    """The best items for a user, from their ratings up to now."""
    client = await authenticate(request, "read")
    wanted = parts.read_message(request, RecommendationRequest, PARAMETERS)
    return await _recommend(context_of(request), client, wanted)


@router.post("/recommendations", response_model=messages.Recommendations)
async def recommendations(context: ServiceContext, client: Reader, wanted: RecommendationRequest) -> Response:
    """The best items for a user, or for a new user with a history, which is not stored."""
    return await _recommend(context, client, wanted)


async def _recommend(context: Context, client: str, wanted: RecommendationRequest) -> Response:
    answer = partial(_answer, context, wanted.user, lambda answerer: answerer.recommendations(wanted))
    found = await context.compute(client, answer, is_slow=wanted.is_slow)
    return parts.respond(found)


@router.post("/predictions", response_model=messages.Predictions)
async def predictions(context: ServiceContext, client: Reader, wanted: PredictionRequest) -> Response:
    """How a user would rate these items, with uncertainty."""
    answer = partial(_answer, context, wanted.user, lambda answerer: as_json(answerer.predictions(wanted)))
    found = await context.compute(client, answer, is_slow=wanted.is_slow)
    return parts.respond(found)


@router.get("/users/{user}/questions", response_model=messages.Questions)
async def questions_for_user(
    context: ServiceContext,
    client: Reader,
    user: UserId,
    n: Annotated[int, Query(ge=1)] = 5,
    where: Where = None,
    goal: Literal["ratings", "list"] = "ratings",
) -> Response:
    """The items that a user should rate next, to learn their taste soonest."""
    return await _ask(context, client, QuestionRequest(user=user, n=n, where=where, goal=goal))


@router.post("/questions", response_model=messages.Questions)
async def questions(context: ServiceContext, client: Reader, wanted: QuestionRequest) -> Response:
    """The items that a user, or a new user with a history, should rate next."""
    return await _ask(context, client, wanted)


async def _ask(context: Context, client: str, wanted: QuestionRequest) -> Response:
    answer = partial(_answer, context, wanted.user, lambda answerer: as_json(answerer.questions(wanted)))
    return parts.respond(await context.compute(client, answer, is_slow=True))


def _answer(context: Context, user: str | None, ask: Callable[[Answerer], str]) -> str:
    """Ask the version that is current for a user, with the items of the database as they are now."""
    return ask(context.answerer(user))


@router.get("/items", response_model=messages.Items, tags=["items"])
async def search_items(
    context: ServiceContext,
    client: Reader,
    search: Search = "",
    where: Where = None,
    not_rated_by: NotRatedBy = None,
    order: Order = "ratings",
    limit: Limit = 20,
    offset: Offset = 0,
) -> Response:
    """Items by title or condition, the most rated first; `total` says how many there are."""

    def found() -> str:
        loaded = context.loaded()
        rated = [] if not_rated_by is None else list(context.store.history(not_rated_by))
        rows = _matching(loaded, search, where)
        rows = np.setdiff1d(rows, loaded.recommender.ratings_.items.rows_of([*rated, *loaded.removed]))
        if order == "new":  # Those that were added since the fit are the last ones.
            rows = rows[rows >= context.live.current.recommender.ratings_.n_items][::-1]
        else:
            by = loaded.popularity if order == "ratings" else loaded.recent_popularity
            rows = rows[np.argsort(-by[rows], kind="stable")]
        return as_json({"total": len(rows), "items": describe_items(loaded, rows[offset : offset + limit])})

    return parts.respond(await context.compute(client, found))


def _matching(loaded: Loaded, search: str, where: str | None) -> NDArray[Any]:
    """The rows of the items with a text in their title, or with that id, which fulfil a condition."""
    text = search.strip().lower()
    rows = np.arange(loaded.recommender.ratings_.n_items)
    if text:
        found = loaded.recommender.ratings_.items.ids.cast(pl.String).str.to_lowercase() == text
        if loaded.titles is not None:
            found = found | loaded.titles.str.contains(text, literal=True)
        rows = np.flatnonzero(found.to_numpy())
    if where is not None:
        rows = rows[Condition(where).matches(loaded.attributes)[0][rows]]
    return rows


@router.get("/items/{item}", response_model=messages.CatalogueItem, tags=["items"])
def one_item(context: ServiceContext, client: Reader, item: ItemId) -> Response:
    """Title, attributes and number of ratings of an item."""
    loaded = context.loaded()
    rows = loaded.recommender.ratings_.items.rows_of([item])
    if rows[0] < 0 or item in loaded.removed:
        raise UnknownIdError(f"the model knows no item {item!r}")
    return parts.respond(describe_items(loaded, rows)[0])


@router.get("/items/{item}/similar", response_model=messages.SimilarItems, tags=["items"])
async def similar(
    context: ServiceContext,
    client: Reader,
    item: ItemId,
    n: Annotated[int, Query(ge=1)] = 10,
    where: Where = None,
    kind: SimilarKind | None = None,
) -> Response:
    """The items most similar to one: all, or those that are alternatives or complements."""
    answer = partial(_answer, context, None, lambda answerer: as_json(answerer.similar(item, n, where, kind)))
    return parts.respond(await context.compute(client, answer))


def describe_items(loaded: Loaded, rows: Any) -> list[dict[str, Any]]:
    ratings = loaded.recommender.ratings_
    ids, titles = ratings.items.at(rows).cast(pl.String), ratings.title_of(rows)
    columns = (ids, titles, attributes_of(ratings, rows), loaded.popularity[rows])
    return [
        {"item": item, "title": title, "attributes": attributes, "ratings": int(n_ratings)}
        for item, title, attributes, n_ratings in zip(*columns, strict=True)
    ]
