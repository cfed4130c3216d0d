"""A model as an HTTP service, a new model from the ratings that it stored, and what else is done to a service."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from tastespace import artifact
from tastespace.cli import console, options
from tastespace.cli.options import Json, Model, Threads
from tastespace.cli.saving import save_model
from tastespace.errors import MissingExtraError
from tastespace.models import MODELS

if TYPE_CHECKING:
    from tastespace.service.holdings import Holdings
    from tastespace.service.settings import Settings


def serve(
    model: Model,
    host: Annotated[str, Option(help="Address to listen on; needs keys unless it is loopback.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on; 0 for any.", min=0, max=65535)] = 8000,
    workers: Annotated[int, Option(help="Number of worker processes.", min=1)] = 1,
    database: options.Database = None,
    state: options.State = None,
    keys: Annotated[Path | None, Option(help="File of API keys.")] = None,
    new_items: Annotated[
        bool, Option("--new-items", help="Store ratings of items unknown to the model, for the next retraining.")
    ] = False,
    origin: Annotated[list[str] | None, Option(help="Allow web pages of this origin (CORS); can be repeated.")] = None,
    allowed_host: Annotated[
        list[str] | None, Option(help="Accept this name in the header Host; any by default. Can be repeated.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None, Option(help="Believe X-Forwarded-For of this address or network; can be repeated.")
    ] = None,
    rate: Annotated[
        float,
        Option(help="Requests per second of one client, per worker; expensive ones count more. 0 for no limit.", min=0),
    ] = 200.0,
    connections: Annotated[int, Option(help="Maximum number of open connections, per worker.", min=1)] = 1000,
    connections_of_address: Annotated[int, Option(help="How many of them one address may have.", min=1)] = 200,
    seconds: Annotated[float, Option(help="Request timeout (s).")] = 30.0,
    body_bytes: Annotated[int, Option(help="Maximum request size (bytes).", min=1)] = 4 << 20,
    cached_users: Annotated[int, Option(help="Users whose beliefs are cached, per worker.", min=1)] = 256,
    items_are: Annotated[
        str | None, Option(help="What the page calls items, such as films; guessed from the data set by default.")
    ] = None,
    images: Annotated[
        str | None, Option(help="Attribute with addresses of images, which the page then loads from other sites.")
    ] = None,
    watch_days: Annotated[
        float, Option(help="Days to keep what was shown, and how ratings turned out; 0 to watch nothing.", min=0)
    ] = 30.0,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Option("--log-level", help="Minimum log level.")
    ] = "info",
) -> None:
    """Serve recommendations, predictions and questions over HTTP, and store new ratings."""
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
        hosts=tuple(allowed_host or ()),
        proxies=tuple(trusted_proxy or ()),
        connections=connections,
        connections_of_address=connections_of_address,
        new_items=new_items,
        rate=rate,
        seconds=seconds,
        body_bytes=body_bytes,
        cached_users=cached_users,
        watch_days=watch_days,
        items_are=items_are,
        images=images,
    )
    with console.progress() as observer:
        launch(settings, level=log_level.upper(), observer=observer, ready=_announce)


def _announce(settings: Settings, n_imported: int) -> None:
    """Print the address, how many ratings were imported, and doubts about the settings."""
    from tastespace.service.settings import doubts

    for doubt in doubts(settings):
        console.err.print(doubt, markup=False)
    if n_imported:
        console.err.print(f"{n_imported:,} ratings of the model are in the database now", markup=False)
    console.print_line(f"serving {settings.model} at http://{settings.shown_host}:{settings.port}/v1/")


def retrain(
    model: Model,
    database: Annotated[str, Option("--db", envvar="TASTESPACE_DATABASE", help="URL of the ratings database.")],
    out: Annotated[Path, Option("--out", "-o", help="Folder to write the new model to; may be MODEL itself.")],
    share: Annotated[float, Option(help="Share of the ratings new to MODEL to hold out, the latest ones.")] = 0.2,
    tolerance: Annotated[float, Option(help="How much worse the new model may be, as a share of the metric.")] = 0.005,
    force: Annotated[bool, Option("--force", help="Write the new model even if it is worse.")] = False,
    choose: Annotated[bool, Option("--choose", help="Choose the model and its settings again.")] = False,
    budget: options.Budget = None,
    when_needed: Annotated[
        bool, Option("--when-needed", help="Only if ratings are no longer what the version that answers expects.")
    ] = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fit again on the ratings of a database, starting from MODEL; a worse model is not written."""
    try:
        from tastespace.service import retraining
        from tastespace.service.catalogue import Catalogue
        from tastespace.service.promises.monitor import health_of
        from tastespace.service.promises.records import Records
        from tastespace.service.store import Store
    except ImportError as error:
        raise MissingExtraError("retraining from a database", "serve") from error
    artifact.check_writable(out)
    old = artifact.load(model).set_params(threads=threads)
    with closing(Store(database, create=False)) as store:
        if when_needed:
            activation = store.activation()
            health = None if activation is None else health_of(Records(store), activation.version)
            if health is None or not health["drift"]["flagged"]:
                n = 0 if health is None else health["drift"]["tested"]
                told: dict[str, Any] = {"needed": False, "out": None, "health": health}
                console.print_result(json, told, f"not needed: the latest {n:,} ratings are what the model expects")
                return
            console.err.print(f"needed: {health['drift']['because']}, since {health['drift']['since']}", markup=False)
        stored, items = store.all_ratings(), Catalogue(store).all()
    began = time.perf_counter()
    with console.progress() as observer:
        found = retraining.retrain(
            old,
            stored,
            share=share,
            tolerance=tolerance,
            force=force,
            choose_again=choose,
            items=items,
            budget=budget,
            observer=observer,
        )
    seconds = time.perf_counter() - began
    comparison, n = found.comparison, len(found.recommender.ratings_)
    measures = {} if comparison is None else {"retrained": {comparison.measure: comparison.new}}
    out = save_model(found.recommender, out, measures=measures)
    content = {
        "out": str(out),
        "ratings": n,
        "new": found.n_new,
        "held_out": found.n_test,
        "gone": found.n_gone,
        "comparison": None if comparison is None else asdict(comparison),
        "model": MODELS.name_of(type(found.recommender)),
        "choice": found.recommender.choice_,
        "seconds": round(seconds, 3),
    }
    compared = (
        f"of {found.n_new:,} new ratings, {found.n_test:,} with a time could be held out: too few to compare the two "
        f"models on (at least {retraining.MIN_TEST} expected)"
    )
    if comparison is not None:
        compared = (
            f"{comparison.measure} on the latest {comparison.n_test:,} ratings: {comparison.new:.4f}, the old model "
            f"{comparison.old:.4f}"
        )
    console.print_result(
        json,
        content,
        f"fitted on {n:,} ratings in {seconds:.1f} s: {found.n_new:,} new, {found.n_gone:,} removed",
        compared,
        *([f"model: {content['model']}, because {(found.recommender.choice_ or {})['because']}"] if choose else []),
        f"saved to {out}; a service of this folder loads it after POST /v1/model/reload",
    )


def challenger(
    model: Model,
    share: Annotated[
        float | None, Option(metavar="SHARE", help="Start: let MODEL as it is now answer this share of the users.")
    ] = None,
    promote: Annotated[bool, Option("--promote", help="End: the challenger answers everyone from now on.")] = False,
    drop: Annotated[bool, Option("--drop", help="End: the current version answers everyone again.")] = False,
    database: options.Database = None,
    state: options.State = None,
    json: Json = False,
) -> None:
    """Let a second version of a model answer some users of a service; promote it or drop it."""
    options.require((share is not None) + promote + drop <= 1, "expected one of --share, --promote and --drop")
    options.require(share is None or 0 < share < 1, f"--share is {share}; expected a number between 0 and 1")
    with closing(holdings_of(model, database, state)) as holdings:
        live = holdings.live()
        if share is not None:
            live.challenge(share)
        elif promote or drop:
            live.end_trial("promoted" if promote else "dropped")
        content = holdings.answering()
    trial = content["challenger"]
    line = f"{content['version']} answers everyone"
    if trial is not None:
        line = f"{trial['version']} answers {trial['share']:.0%} of the users, {content['version']} the others"
    console.print_result(json, content, line)


def export(
    model: Model,
    user: Annotated[str, Argument(help="Id of a user.", metavar="USER", show_default=False)],
    database: options.Database = None,
    state: options.State = None,
    json: Json = False,
) -> None:
    """Print everything that a service stores about a user, as JSON."""
    with closing(holdings_of(model, database, state)) as holdings:
        content = holdings.export(user)
    console.print_result(json, content, dumps(content, indent=2, ensure_ascii=False))


def forget(
    model: Model,
    users: Annotated[list[str] | None, Argument(help="Ids of users.", metavar="[USER]...", show_default=False)] = None,
    deleted: Annotated[bool, Option("--deleted", help="All users who were deleted in the database.")] = False,
    database: options.Database = None,
    state: options.State = None,
    json: Json = False,
) -> None:
    """Erase users from the database, the model and the versions that a service keeps."""
    options.require(bool(users) != deleted, "expected either users or --deleted")
    holdings = holdings_of(model, database, state)
    with closing(holdings):
        content = holdings.erase(users or holdings.deleted())
    n = len(content["users"])
    lines = [f"{n:,} user{'' if n == 1 else 's'}: {content['ratings']:,} ratings were deleted from the database"]
    lines += [f"{place}: {found:,} erased" for place, found in content["places"].items()]
    console.print_result(json, content, *lines)


def holdings_of(model: Path, database: str | None, state: Path | None) -> Holdings:
    """All places where a service of this model keeps users."""
    try:
        from tastespace.service.holdings import Holdings
        from tastespace.service.settings import Settings
    except ImportError as error:
        raise MissingExtraError("finding what a service stores of users", "serve") from error
    resolved = None if state is None else str(state.resolve())
    return Holdings(Settings(model=str(model.resolve()), state=resolved, database=database))
