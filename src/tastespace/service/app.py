"""The application: `create_app(settings)`, and how workers create theirs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

from fastapi import FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.middleware.cors import CORSMiddleware
from threadpoolctl import threadpool_limits

from tastespace import artifact
from tastespace.errors import InvalidParameterError, TastespaceError
from tastespace.progress import Observer, silent
from tastespace.service.door import middleware
from tastespace.service.door.access import Context
from tastespace.service.door.connections import Connections, connections_possible
from tastespace.service.door.limits import Rates
from tastespace.service.door.middleware import Guard, Shutdown
from tastespace.service.live_model import LiveModel, Versions
from tastespace.service.maps import Maps
from tastespace.service.monitoring import Metrics
from tastespace.service.promises.monitor import Monitor
from tastespace.service.promises.records import Records
from tastespace.service.routes import items, model, pages, recommendations, users
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
    monitor = Monitor(Records(store), metrics, settings.watch_days, lambda: live.current.version)
    context = Context(settings, read_keys(settings.keys), store, live, metrics, Rates(settings.rate), maps, monitor)

    connections = Connections(
        min(settings.connections, connections_possible()),
        settings.connections_of_address,
        settings.head_seconds,
        settings.seconds + 1,  # The guard gives up before.
        settings.proxies,
        metrics.closed,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        # There are as many workers as cores: more threads would wait for one another.
        threadpool_limits(1, user_api="blas")
        live.start()
        shutdown.watch()
        follower = threading.Thread(target=live.follow, args=(settings.poll_seconds,), name="follower", daemon=True)
        follower.start()
        watcher = threading.Thread(target=monitor.run, name="monitor", daemon=True)
        if monitor.is_on:
            watcher.start()
        watch = asyncio.create_task(connections.watch())
        yield {"connections": connections}
        watch.cancel()
        live.stop()
        monitor.stop()
        follower.join(timeout=5)
        if monitor.is_on:
            watcher.join(timeout=5)
            with suppress(TastespaceError):
                monitor.work()
        store.close()

    app = FastAPI(
        title="tastespace",
        summary="Recommendations with honest uncertainty.",
        version=__version__,
        lifespan=lifespan,
        responses=PROBLEMS,
        docs_url=None,  # It would load scripts from other sites; ours is in routes/pages.py.
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.context = context
    for part in (recommendations, users, items, model, pages):  # in the order in which they are looked through
        app.include_router(part.router)
    middleware.install(app)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "X-API-Key", "Content-Type", "Idempotency-Key"],
        )
    # Otherwise a page of another site could reach a local service under its own host name (DNS rebinding).
    is_own = settings.is_local and not context.keys
    hosts = {*LOCAL_HOSTS, settings.shown_host} if is_own else None
    if settings.hosts:
        hosts = {*(name.lower() for name in settings.hosts), *(LOCAL_HOSTS if is_own else ())}
    app.add_middleware(Guard, settings=settings, metrics=metrics, shutdown=shutdown, hosts=hosts)
    return app


def create_from_environment() -> FastAPI:
    """The application of a worker, with the settings of its parent process."""
    # FastAPI silences this warning while it prepares a route, which is not safe with several threads.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    _end_with_parent()
    return create_app(Settings.from_json(os.environ[SETTINGS_VARIABLE]))


def _end_with_parent() -> None:
    """Stop this worker when the process that started it has died: nobody could stop or replace it any more."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
