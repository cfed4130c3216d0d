"""The model that answers: its description, its map, and how to replace it; health and metrics of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, HTTPException, Response

from tastespace.errors import ArtifactError, InvalidParameterError
from tastespace.service import messages
from tastespace.service.answering import as_json
from tastespace.service.door.access import Context
from tastespace.service.live_model import Loaded, Swap
from tastespace.service.messages import Method, PlaceRequest
from tastespace.service.routes.parts import Administrator, AnyClient, Reader, ServiceContext, UserId, respond
from tastespace.service.store import Activation

router = APIRouter(prefix="/v1", tags=["model"])
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PENDING: dict[int | str, Any] = {202: {"model": messages.Pending, "description": "It is being made: ask again."}}


@router.get("/health", response_model=messages.Health, tags=["service"])
async def health() -> Response:
    """Whether the process answers at all."""
    return respond({"status": "ok"})


@router.get("/ready", response_model=messages.Ready, tags=["service"])
def ready(context: ServiceContext, client: AnyClient) -> Response:
    """Whether requests can be answered: a model is loaded, and the database is reachable.

    A machine that cannot load the version that is active in the database answers with another one, and says so.
    """
    active, model = context.store.activation(), context.live.current.version
    has_diverged = active is not None and active.version != model
    return respond(
        {
            "status": "diverged" if has_diverged else "ready",
            "model": model,
            "active": None if active is None else active.version,
            "problem": context.live.problem if has_diverged else None,
        }
    )


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}, tags=["service"])
def metrics(context: ServiceContext, client: Reader) -> Response:
    """Counters and timings for Prometheus."""
    return Response(context.metrics.text(), headers={"Content-Type": METRICS_TYPE})


@router.get("/model", response_model=messages.ModelInfo)
def model(context: ServiceContext, client: Reader) -> Response:
    """The current version: its data, accuracy and index."""
    loaded = context.live.current
    manifest, attributes = loaded.manifest, loaded.recommender.ratings_.item_attributes
    n_ratings, n_users = context.store.counts()
    index = manifest.get("index")
    return respond(
        {
            "version": loaded.version,
            "activation": loaded.activation,
            "model": manifest["model"],
            "parameters": manifest["parameters"],
            "data": manifest["data"],
            "seen": manifest.get("seen"),
            "measures": manifest.get("measures") or {},
            "choice": manifest.get("choice"),
            "index": None if index is None else {name: index[name] for name in ("chosen", "target", "curve")},
            "attributes": [] if attributes is None else attributes.columns,
            "ratings_stored": n_ratings,
            "people": n_users,
            "versions": [
                _version(entry) | {"measures": context.live.versions.measures(entry.version)}
                for entry in context.store.activations(20)
            ],
        }
    )


@router.post("/model/reload", response_model=messages.Swap)
def reload(context: ServiceContext, client: Administrator) -> Response:
    """Load the artifact as it is on disk now, in every worker; a damaged one, or the same again, changes nothing."""
    return _swap(context.live.reload)


@router.post("/model/rollback", response_model=messages.Swap)
def roll_back(context: ServiceContext, client: Administrator) -> Response:
    """Return to the previous version; `before` is the one that answered until now."""
    return _swap(context.live.roll_back)


@router.post("/model/challenger", response_model=messages.TrialInfo)
def challenge(context: ServiceContext, client: Administrator, wanted: messages.Challenge) -> Response:
    """Let the artifact as it is on disk now answer a share of the users, beside the current version."""
    try:
        return respond(context.live.challenge(wanted.share).to_dict())
    except (ArtifactError, InvalidParameterError) as error:
        raise HTTPException(409, f"there is no new trial: {error}") from error


@router.post("/model/challenger/promote", response_model=messages.Swap)
def promote(context: ServiceContext, client: Administrator) -> Response:
    """End the trial: the challenger answers everyone from now on."""
    return _swap(lambda: context.live.end_trial("promoted"))


@router.delete("/model/challenger", response_model=messages.TrialEnd)
def drop(context: ServiceContext, client: Administrator) -> Response:
    """End the trial: the current version answers everyone again."""
    try:
        context.live.end_trial("dropped")
    except InvalidParameterError as error:
        raise HTTPException(409, str(error)) from error
    return respond({"status": "dropped"})


@router.get("/model/health", response_model=messages.ModelHealth)
async def model_health(context: ServiceContext, client: Reader) -> Response:
    """How well the current version and a challenger keep what they promise, and whether that has changed."""
    current, trial = context.live.current.version, context.live.trial

    def told() -> str:
        versions = list(dict.fromkeys([current, *([] if trial is None else [trial.version])]))
        health = context.monitor.health(versions) if context.monitor.is_on else []
        return as_json(
            {
                "version": current,
                "days": context.settings.watch_days,
                "challenger": None if trial is None else trial.to_dict(),
                "versions": health,
            }
        )

    return respond(await context.compute(client, told, is_slow=True))


def _swap(change: Callable[[], Swap | None]) -> Response:
    try:
        done = change()
        assert done is not None
        return respond(_version(done.activation) | {"before": done.before, "changed": done.has_changed})
    except (ArtifactError, InvalidParameterError) as error:
        raise HTTPException(409, f"the model was not changed: {error}") from error


def _version(entry: Activation) -> dict[str, Any]:
    at = entry.activated_at.isoformat()
    return {"activation": entry.id, "version": entry.version, "reason": entry.reason, "at": at}


@router.get("/model/outline", response_model=messages.ModelOutline)
async def outline(context: ServiceContext, client: Reader) -> Response:
    """What a client needs to know before it asks: the rating scale, capabilities, attributes of items."""
    loaded = context.live.current
    found = await context.compute(client, lambda: as_json(_about(context, loaded) | loaded.outline), is_slow=True)
    return respond(found)


@router.get("/model/story", response_model=messages.ModelStory)
async def story(context: ServiceContext, client: Reader) -> Response:
    """How the model was fitted: chains, accuracy, noise."""
    loaded = context.live.current
    found = await context.compute(client, lambda: as_json(_about(context, loaded) | loaded.story), is_slow=True)
    return respond(found)


def _about(context: Context, loaded: Loaded) -> dict[str, Any]:
    """The version, its data, and what the page calls and shows of items."""
    ratings, settings = loaded.recommender.ratings_, context.settings
    attributes = ratings.item_attributes
    has_images = settings.images is not None and attributes is not None and settings.images in attributes.columns
    trained_at = loaded.trained_at
    return {
        "version": loaded.version,
        "items_are": settings.items_are or loaded.item_word,
        "images": settings.images if has_images else None,
        "trained_at": None if trained_at is None else trained_at.isoformat(),
        "n_ratings": loaded.manifest["data"]["n_ratings"],
        "n_users": loaded.manifest["data"]["n_users"],
        "n_items": ratings.n_items,
        "has_ratings": len(ratings) > 0,
        "has_times": ratings.times is not None,
    }


@router.get("/map", response_model=messages.Map, responses=PENDING)
async def taste_map(context: ServiceContext, client: Reader, method: Method = "pca") -> Response:
    """The items in two dimensions. Made on first use, which by t-SNE takes a minute or more."""
    loaded = context.live.current
    content = await run_sync(context.maps.content, loaded, method, limiter=context.maps_waiting)
    return _pending() if content is None else respond(content)


@router.get("/users/{user}/place", response_model=messages.Place, responses=PENDING)
async def place_of_user(context: ServiceContext, client: Reader, user: UserId, method: Method = "pca") -> Response:
    """Where a user is on the map, from their ratings up to now."""
    return await _place(context, client, PlaceRequest(user=user, method=method))


@router.post("/place", response_model=messages.Place, responses=PENDING)
async def place(context: ServiceContext, client: Reader, wanted: PlaceRequest) -> Response:
    """Where a user, or a new user with a history, is on the map."""
    return await _place(context, client, wanted)


async def _place(context: Context, client: str, wanted: PlaceRequest) -> Response:
    answerer = context.answerer(wanted.user)
    shown = await run_sync(context.maps.get, answerer.loaded, wanted.method, limiter=context.maps_waiting)
    if shown is None:
        return _pending()
    return respond(await context.compute(client, lambda: as_json(answerer.place(wanted, shown))))


def _pending() -> Response:
    return respond({"status": "being made"}, 202, {"Retry-After": "1"})
