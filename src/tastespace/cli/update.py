"""`tastespace update`: a model and new ratings in, a model that has seen them out."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import OPTIONS, Json, Model, Said, Threads, observe, reads
from tastespace.errors import InvalidParameterError, MissingExtraError
from tastespace.index.trials import StoredIndex
from tastespace.models import MODELS, Recommender
from tastespace.models.base.update import UpdateSummary

if TYPE_CHECKING:
    from tastespace.service.retraining import Retrained


Fate = Literal["kept", "grown", "dropped"]  # of an index


@reads(*OPTIONS)
def update(
    model: Model,
    new_ratings: Annotated[Path, typer.Argument(help="File of ratings that have come since.", metavar="NEW_RATINGS")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the new model to; may be MODEL itself.")],
    sweeps: Annotated[
        str, typer.Option("--sweeps", help="Warm-up of a restart; 0 for none, auto to restart when it pays.")
    ] = "auto",
    threads: Threads = None,
    *,
    said: Said,
    json: Json = False,
) -> None:
    """Let a model keep up with new ratings."""
    warmup = _sweeps(sweeps)
    artifact.check_writable(out)
    recommender = artifact.load(model).set_params(threads=threads)
    new, _ = observe(new_ratings, said)
    began = time.perf_counter()
    with console.progress() as observer:
        updated = recommender.update(new, sweeps=warmup, observer=observer)
    seconds = time.perf_counter() - began
    had_one = "index" in artifact.read_manifest(model)  # before it is replaced; perhaps one that could not be read
    artifact.save(updated, out)
    _report_update(updated, out, seconds, _fate(recommender.index_, updated.index_, had_one), json)


def _sweeps(typed: str) -> Any:
    """A number, or auto."""
    if typed == "auto":
        return typed
    if not typed.isascii() or not typed.isdigit():
        raise InvalidParameterError(f"--sweeps is {typed!r}; expected a whole number of at least 0, or auto")
    return int(typed)


def _fate(before: StoredIndex | None, after: StoredIndex | None, had_one: bool) -> Fate | None:
    """What has become of the index; None where there was none."""
    if before is None or after is None:
        return "dropped" if had_one else None
    return "kept" if after.index.n_items_ == before.index.n_items_ else "grown"


def _report_update(updated: Recommender, out: Path, seconds: float, fate: Fate | None, json: bool) -> None:
    news, name = updated.news_, MODELS.name_of(type(updated)) or type(updated).__name__
    assert news is not None
    if json:
        console.print_json(
            {
                "model": name,
                "out": str(out),
                "news": asdict(news),
                "seen": updated.seen_.to_dict(),
                "index": fate,
                "update_seconds": round(seconds, 3),
            }
        )
        return
    deed = "were added to" if updated.ratings_.kind == "counts" else "replaced"
    lines = [
        f"{news.ratings:,} new ratings: {news.replaced:,} {deed} older ones, {news.unchanged:,} more were known "
        f"already; {news.new_users:,} new users, {news.new_items:,} new items",
        f"{_deed(news, name)} in {seconds:.1f} s",
        f"seen: {updated.seen_}",
        f"saved to {out}",
    ]
    if fate == "dropped":
        lines.append(f"the index was of the old items: run tastespace index {out} again")
    console.out.print("\n".join(lines), markup=False)


def _deed(news: UpdateSummary, name: str) -> str:
    """What was done, in words."""
    if news.how == "warm restart":
        return f"warm restart: {news.sweeps} sweeps of warm-up, then new draws of everything,"
    if news.how == "kept draws":
        return "draws kept: users and new items count with their new ratings, old items stay as they were;"
    if news.how == "fitted again":
        return f"{name} has no draws to keep: fitted again on all ratings"
    return "nothing new: answers stay as they were;"


def retrain(
    model: Model,
    database: Annotated[str, typer.Option("--db", envvar="TASTESPACE_DATABASE", help="URL of the ratings database.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the new model to; may be MODEL itself.")],
    share: Annotated[
        float, typer.Option("--share", help="Of the ratings that MODEL has not seen, the latest are held out.")
    ] = 0.2,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="By which the new model may be worse, as a share of the measure.")
    ] = 0.005,
    force: Annotated[bool, typer.Option("--force", help="Write the new model also if it is worse.")] = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fit again on the ratings of a database, beginning where MODEL ended; a worse model is not written."""
    try:
        from tastespace.service.retraining import retrain as retrained
        from tastespace.service.store import Store
    except ImportError as error:
        raise MissingExtraError("retraining from a database", "serve") from error
    artifact.check_writable(out)
    old = artifact.load(model).set_params(threads=threads)
    store = Store(database)
    try:
        stored = store.all_ratings()
    finally:
        store.close()
    began = time.perf_counter()
    with console.progress() as observer:
        found = retrained(old, stored, share=share, tolerance=tolerance, force=force, observer=observer)
    seconds = time.perf_counter() - began
    comparison = found.comparison
    measures = {} if comparison is None else {"retrained": {comparison.measure: comparison.new}}
    artifact.save(found.recommender, out, measures=measures)
    _report_retraining(found, out, seconds, json)


def _report_retraining(found: Retrained, out: Path, seconds: float, json: bool) -> None:
    comparison, n = found.comparison, len(found.recommender.ratings_)
    if json:
        console.print_json(
            {
                "out": str(out),
                "ratings": n,
                "new": found.n_new,
                "gone": found.n_gone,
                "comparison": None if comparison is None else comparison.to_dict(),
                "seconds": round(seconds, 3),
            }
        )
        return
    lines = [f"learned from {n:,} ratings in {seconds:.1f} s: {found.n_new:,} new, {found.n_gone:,} gone"]
    if comparison is None:
        lines.append("there was nothing new to compare the two models on")
    else:
        lines.append(
            f"{comparison.measure} on the latest {comparison.n_test:,} ratings: {comparison.new:.4f}, the old model "
            f"{comparison.old:.4f}"
        )
    lines.append(f"saved to {out}; a service that serves this folder takes it over with POST /v1/model/reload")
    console.out.print("\n".join(lines), markup=False)
