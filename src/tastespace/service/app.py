"""The application: `create_app(settings)`, and how workers make theirs."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.middleware.cors import CORSMiddleware
from threadpoolctl import threadpool_limits

from tastespace import artifact
from tastespace.errors import InvalidParameterError
from tastespace.progress import Observer, silent
from tastespace.service import problems
from tastespace.service.access import Context
from tastespace.service.live_model import LiveModel, Versions
from tastespace.service.maps import Maps
from tastespace.service.middleware import Guard, Rates, Shutdown
from tastespace.service.monitoring import Metrics
from tastespace.service.routes import items, pages, people, pictures, recommending, running
from tastespace.service.routes.parts import PROBLEMS
from tastespace.service.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, Settings, read_keys
from tastespace.service.store import Store
from tastespace.version import __version__

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "testserver")


def prepare(settings: Settings, observer: Observer = silent) -> int:
    """Before anybody asks: tables up to date, and in an empty database the model's ratings. How many were taken."""
    check_access(settings)
    store = Store(settings.database_url)
    try:
        store.migrate()
        recommender = artifact.load(settings.model, with_index=False)
        return store.take_over(recommender.ratings_, recommender.ratings_.fingerprint(), observer)
    finally:
        store.close()


def check_access(settings: Settings) -> None:
    """Refuse to let the whole network in without a key."""
    settings.check()
    if not read_keys(settings.keys) and not settings.is_local:
        raise InvalidParameterError(
            f"the address {settings.host} can be reached from other machines, and there are no API keys; expected "
            f"--keys FILE or {KEYS_VARIABLE}, or --host 127.0.0.1"
        )


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application. `prepare` comes before it, once."""
    check_access(settings)
    store = Store(settings.database_url)
    metrics, shutdown = Metrics(), Shutdown()
    versions = Versions(settings.folder / "versions")
    live = LiveModel(
        Path(settings.model).resolve(),
        store,
        versions,
        settings.cached_users,
        settings.kept_versions,
        metrics.answers,
    )
    maps = Maps(settings.folder / "maps", versions)
    context = Context(settings, read_keys(settings.keys), store, live, metrics, Rates(settings.rate), maps)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        threadpool_limits(1, user_api="blas")  # Workers are as many as cores; more threads would wait for one another.
        live.start()
        shutdown.watch()
        follower = threading.Thread(target=live.follow, args=(settings.poll_seconds,), name="follower", daemon=True)
        follower.start()
        yield
        live.stop()
        follower.join(timeout=5)
        store.close()

    app = FastAPI(
        title="tastespace",
        summary="Recommendations with honest uncertainty.",
        version=__version__,
        lifespan=lifespan,
        responses=PROBLEMS,
        docs_url=None,  # They would load scripts from elsewhere.
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.context = context
    for part in (running, recommending, items, people, pictures, pages):
        app.include_router(part.router)
    problems.install(app)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "X-API-Key", "Content-Type", "Idempotency-Key"],
        )
    # A page of another site could otherwise reach a service on this machine under a name of its own.
    hosts = {*LOCAL_HOSTS, settings.shown_host} if settings.is_local and not context.keys else None
    app.add_middleware(Guard, settings=settings, metrics=metrics, shutdown=shutdown, hosts=hosts)
    return app


def of_environment() -> FastAPI:
    """The application of a worker, with the settings that its parent left."""
    # FastAPI silences it while it prepares a route; where two threads silence something at once, one may come through.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    return create_app(Settings.from_json(os.environ[SETTINGS_VARIABLE]))
