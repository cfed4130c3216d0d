"""Lists, predictions and questions, for users whose ratings are stored and for anybody with a history."""

from __future__ import annotations

from typing import Annotated, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query, Request, Response
from pydantic import TypeAdapter

from tastespace.service.access import Context, client_of, context_of
from tastespace.service.messages import (
    Curious,
    Guess,
    Id,
    Predictions,
    QuestionList,
    Recommendations,
    Wanted,
)
from tastespace.service.routes.parts import Reader, Shared, UserId, Where, answer, declared, read

router = APIRouter(prefix="/v1", tags=["recommending"])
# What of a list can be said in a query: all but the history of somebody without a name.
WISHES = tuple(name for name in Wanted.model_fields if name not in ("user", "history"))
USER = {**TypeAdapter(Id).json_schema(), "examples": ["7"]}


@router.get(
    "/users/{user}/recommendations",
    response_model=Recommendations,
    openapi_extra=declared(Wanted, {"user": USER}, WISHES),
)
async def recommendations_of_user(request: Request) -> Response:
    """The best items for a user, by what he has rated up to now."""
    await client_of(request, "read")
    return await _listed(context_of(request), read(request, Wanted, WISHES))


async def _listed(context: Context, wanted: Wanted) -> Response:
    return answer(await run_sync(context.answerer.recommendations, wanted, limiter=context.listing))


@router.post("/recommendations", response_model=Recommendations)
async def recommendations(context: Shared, client: Reader, wanted: Wanted) -> Response:
    """The best items for a user, or for anybody with a history, which is not stored."""
    return await _listed(context, wanted)


@router.post("/predictions", response_model=Predictions)
def predictions(context: Shared, client: Reader, guess: Guess) -> Response:
    """What a user would rate these items, and how sure that is."""
    return answer(context.answerer.predictions(guess))


@router.get("/users/{user}/questions", response_model=QuestionList)
def questions_for_user(
    context: Shared,
    client: Reader,
    user: UserId,
    n: Annotated[int, Query(ge=1)] = 5,
    where: Where = None,
    goal: Literal["ratings", "list"] = "ratings",
) -> Response:
    """What to ask a user next, so that what he may like is known soonest."""
    return answer(context.answerer.questions(Curious(user=user, n=n, where=where, goal=goal)))


@router.post("/questions", response_model=QuestionList)
def questions(context: Shared, client: Reader, curious: Curious) -> Response:
    """What to ask a user, or anybody with a history."""
    return answer(context.answerer.questions(curious))
