"""Lists, predictions and questions, for users whose ratings are stored and for anybody with a history."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from tastespace.service.messages import (
    Curious,
    Guess,
    Id,
    Predictions,
    QuestionList,
    Recommendations,
    Wanted,
)
from tastespace.service.routes.parts import Reader, Shared, UserId, Where, answer

router = APIRouter(prefix="/v1", tags=["recommending"])
Items = Annotated[list[Id] | None, Query(max_length=1000)]


@router.get("/users/{user}/recommendations", response_model=Recommendations)
def recommendations_of_user(
    context: Shared,
    client: Reader,
    user: UserId,
    n: Annotated[int, Query(ge=1)] = 10,
    policy: Annotated[str, Query(max_length=100, examples=["cautious:c=2"])] = "mean",
    exclude: Items = None,
    only: Items = None,
    where: Where = None,
    include_seen: bool = False,
    diversity: Annotated[float, Query(ge=0, le=1)] = 0.0,
    popularity_damping: Annotated[float, Query(ge=0, le=1000)] = 0.0,
    explain: bool = False,
    uncertainty: bool = True,
) -> Response:
    """The best items for a user, by what he has rated up to now."""
    wanted = Wanted(
        user=user,
        n=n,
        policy=policy,
        exclude=exclude,
        only=only,
        where=where,
        include_seen=include_seen,
        diversity=diversity,
        popularity_damping=popularity_damping,
        explain=explain,
        uncertainty=uncertainty,
    )
    return answer(context.answerer.recommendations(wanted))


@router.post("/recommendations", response_model=Recommendations)
def recommendations(context: Shared, client: Reader, wanted: Wanted) -> Response:
    """The best items for a user, or for anybody with a history, which is not stored."""
    return answer(context.answerer.recommendations(wanted))


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
