"""The service itself: whether it runs, what answers, what was counted, and another model in its place."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from tastespace.errors import ArtifactError, InvalidParameterError
from tastespace.service.access import Context
from tastespace.service.messages import Health, ModelInfo, Ready, VersionInfo
from tastespace.service.problems import ProblemError
from tastespace.service.routes.parts import Administrator, Anybody, Reader, Shared, answer
from tastespace.service.store import Activation

router = APIRouter(prefix="/v1", tags=["running"])
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/health", response_model=Health)
async def health() -> Response:
    """Whether the process answers at all."""
    return answer({"status": "ok"})


@router.get("/ready", response_model=Ready)
def ready(context: Shared, client: Anybody) -> Response:
    """Whether questions can be answered: a model is loaded, and the database is there."""
    context.store.ping()
    return answer({"status": "ready", "model": context.live.current.version})


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(context: Shared, client: Reader) -> Response:
    """What was counted, for Prometheus."""
    return Response(context.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


@router.get("/model", response_model=ModelInfo)
def model(context: Shared, client: Reader) -> Response:
    """What answers: trained on what, how good it was, and how its index was chosen."""
    return answer(_info(context))


@router.post("/model/reload", response_model=VersionInfo)
def reload(context: Shared, client: Administrator) -> Response:
    """Let the artifact as it is on disk now answer, in every worker; one that cannot be read changes nothing."""
    try:
        return answer(_version(context.live.reload()))
    except ArtifactError as error:
        raise ProblemError(409, f"the model was not changed: {error}") from error


@router.post("/model/rollback", response_model=VersionInfo)
def roll_back(context: Shared, client: Administrator) -> Response:
    """Let the version before answer again."""
    try:
        return answer(_version(context.live.roll_back()))
    except (ArtifactError, InvalidParameterError) as error:
        raise ProblemError(409, f"the model was not changed: {error}") from error


def _info(context: Context) -> dict[str, Any]:
    loaded = context.live.current
    manifest, ratings = loaded.manifest, loaded.recommender.ratings_
    n_ratings, n_people = context.store.counts()
    index = manifest.get("index")
    about = ratings.item_attributes
    return {
        "version": loaded.version,
        "activation": loaded.activation,
        "model": manifest["model"],
        "parameters": manifest["parameters"],
        "data": manifest["data"],
        "seen": manifest.get("seen"),
        "measures": manifest.get("measures") or {},
        "index": None if index is None else {name: index[name] for name in ("chosen", "target", "curve")},
        "attributes": [] if about is None else about.columns,
        "ratings_stored": n_ratings,
        "people": n_people,
        "versions": [_version(entry) for entry in context.live.versions()],
    }


def _version(entry: Activation) -> dict[str, Any]:
    return {
        "activation": entry.id,
        "version": entry.version,
        "reason": entry.reason,
        "at": entry.activated_at.isoformat(),
    }
