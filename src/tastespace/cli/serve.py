"""`tastespace serve`: a model as an HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tastespace.cli import console
from tastespace.errors import MissingExtraError

if TYPE_CHECKING:
    from tastespace.service.settings import Settings


def serve(
    model: Annotated[Path, typer.Argument(help="Folder of a fitted model.", metavar="MODEL")],
    host: Annotated[str, typer.Option("--host", help="Address to listen on; others than loopback need keys.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 for any.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option("--workers", help="Processes that answer.", min=1)] = 1,
    database: Annotated[
        str | None,
        typer.Option(
            "--db",
            envvar="TASTESPACE_DATABASE",
            help="URL of the ratings database; SQLite in the state folder by default.",
        ),
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="Folder of versions and database; MODEL-state by default.")
    ] = None,
    keys: Annotated[Path | None, typer.Option("--keys", help="File of API keys.")] = None,
    new_items: Annotated[
        bool, typer.Option("--new-items", help="Store ratings of items that the model does not know, for a retraining.")
    ] = False,
    origin: Annotated[
        list[str] | None, typer.Option("--origin", help="Let web pages of this origin ask; can be repeated.")
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", help="Requests a second of one client, in each worker; 0 for any.", min=0)
    ] = 200.0,
    seconds: Annotated[float, typer.Option("--seconds", help="Until a request is given up.")] = 30.0,
    body_bytes: Annotated[int, typer.Option("--body-bytes", help="Largest request, in bytes.", min=1)] = 4 << 20,
    cached_users: Annotated[
        int, typer.Option("--cached-users", help="Beliefs about users kept, in each worker.", min=1)
    ] = 256,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="Least that is logged.")
    ] = "info",
) -> None:
    """Answer over HTTP: recommendations, predictions, questions; and store new ratings."""
    try:
        from tastespace.service.launching import launch
        from tastespace.service.settings import Settings
    except ImportError as error:
        raise MissingExtraError("serving", "serve") from error
    settings = Settings(
        model=str(model.resolve()),
        state=None if state is None else str(state.resolve()),
        database=database,
        keys=None if keys is None else str(keys.resolve()),
        host=host,
        port=port,
        workers=workers,
        origins=tuple(origin or ()),
        new_items=new_items,
        rate=rate,
        seconds=seconds,
        body_bytes=body_bytes,
        cached_users=cached_users,
    )
    with console.progress() as observer:
        launch(settings, level=log_level.upper(), observer=observer, ready=_tell)


def _tell(settings: Settings, taken: int) -> None:
    """Where it is."""
    if taken:
        console.err.print(f"{taken:,} ratings of the model are in the database now", markup=False)
    console.out.print(f"serving {settings.model} at http://{settings.shown_host}:{settings.port}/v1/", markup=False)
