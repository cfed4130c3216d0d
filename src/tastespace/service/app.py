"""The application: `create_app(settings)`, and how workers create theirs."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from fastapi import FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.middleware.cors import CORSMiddleware
from threadpoolctl import threadpool_limits

from tastespace import artifact
from tastespace.errors import InvalidParameterError
from tastespace.progress import Observer, silent
from tastespace.service import middleware
from tastespace.service.access import Context
from tastespace.service.live_model import LiveModel, Versions
from tastespace.service.maps import Maps
from tastespace.service.middleware import Guard, Rates, Shutdown
from tastespace.service.monitoring import Metrics
from tastespace.service.routes import model, pages, recommendations, users
from tastespace.service.routes.parts import PROBLEMS
from tastespace.service.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, Settings, read_keys
from tastespace.service.store import Store
from tastespace.version import __version__

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "testserver")


def prepare(settings: Settings, observer: Observer = silent) -> int:
    """Migrate the database, and import the model's ratings into an empty one; the number of imported ratings."""
    check_access(settings)
    with closing(Store(settings.database_url)) as store:
        store.migrate()
        recommender = artifact.load(settings.model, with_index=False)
        return store.import_ratings(recommender.ratings_, recommender.ratings_.fingerprint(), observer)


def check_access(settings: Settings) -> None:
    """Refuse to serve a network without API keys."""
    settings.check()
    if not read_keys(settings.keys) and not settings.is_local:
        raise InvalidParameterError(
            f"the address {settings.host} can be reached from other machines, and there are no API keys; expected "
            f"--keys FILE or {KEYS_VARIABLE}, or --host 127.0.0.1"
        )


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application; call `prepare` once before."""
    check_access(settings)
    store = Store(settings.database_url)
    metrics, shutdown = Metrics(), Shutdown()
    versions = Versions(settings.folder / "versions")
    live = LiveModel(settings, store, versions, metrics.answers)
    maps = Maps(settings.folder / "maps", versions)
    context = Context(settings, read_keys(settings.keys), store, live, metrics, Rates(settings.rate), maps)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # There are as many workers as cores: more threads would wait for one another.
        threadpool_limits(1, user_api="blas")
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
        docs_url=None,  # They would load scripts from other sites.
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.context = context
    for part in (model, recommendations, users, pages):
        app.include_router(part.router)
    middleware.install(app)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "X-API-Key", "Content-Type", "Idempotency-Key"],
        )
    # Otherwise a page of another site could reach a local service under its own host name (DNS rebinding).
    hosts = {*LOCAL_HOSTS, settings.shown_host} if settings.is_local and not context.keys else None
    app.add_middleware(Guard, settings=settings, metrics=metrics, shutdown=shutdown, hosts=hosts)
    return app


def create_from_environment() -> FastAPI:
    """The application of a worker, with the settings of its parent process."""
    # FastAPI silences this warning while it prepares a route, which is not safe with several threads.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    return create_app(Settings.from_json(os.environ[SETTINGS_VARIABLE]))
