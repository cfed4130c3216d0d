"""What is there to be drawn: items on a map, a user among them, and all that a model says of itself."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from tastespace.report.taste_map import TasteMap
from tastespace.service.access import Context
from tastespace.service.messages import Coming, Map, Method, Outline, Place, Sought, Story
from tastespace.service.routes.parts import Reader, Shared, UserId, answer

router = APIRouter(prefix="/v1", tags=["pictures"])
LATER: dict[int | str, dict[str, Any]] = {202: {"model": Coming, "description": "It is being made: ask again."}}


@router.get("/map", response_model=Map, responses=LATER)
def taste_map(context: Shared, client: Reader, method: Method = "pca") -> Response:
    """The items in two dimensions. It is made when it is first asked for, which by t-SNE takes a minute or more."""
    loaded = context.live.current
    content = context.maps.content(loaded, method)
    return _later() if content is None else Response(content, media_type="application/json")


@router.get("/users/{user}/place", response_model=Place, responses=LATER)
def place_of_user(context: Shared, client: Reader, user: UserId, method: Method = "pca") -> Response:
    """Where a user is on the map, by what he has rated up to now."""
    return _place(context, Sought(user=user, method=method))


@router.post("/place", response_model=Place, responses=LATER)
def place(context: Shared, client: Reader, sought: Sought) -> Response:
    """Where a user is on the map, or anybody with a history."""
    return _place(context, sought)


@router.get("/model/outline", response_model=Outline)
def outline(context: Shared, client: Reader) -> Response:
    """What has to be known of the model before it is asked: the scale of ratings, what it can, what items have."""
    loaded = context.live.current
    return answer({"version": loaded.version, **loaded.outline})


@router.get("/model/story", response_model=Story)
def story(context: Shared, client: Reader) -> Response:
    """What the model says of itself: how its chains went, how good it was, how noisy ratings are."""
    loaded = context.live.current
    return answer({"version": loaded.version, **loaded.story})


def _place(context: Context, sought: Sought) -> Response:
    answerer = context.answerer
    shown: TasteMap | None = context.maps.get(answerer.loaded, sought.method)
    return _later() if shown is None else answer(answerer.place(sought, shown))


def _later() -> Response:
    response = answer({"status": "being made"}, 202)
    response.headers["Retry-After"] = "1"
    return response
