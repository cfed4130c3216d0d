"""`tastespace update`: a model and new ratings in, a model that has seen them out."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.observing import observe
from tastespace.cli.options import Json, Model, Threads
from tastespace.cli.reading import OPTIONS, Said, reads
from tastespace.errors import InvalidParameterError
from tastespace.index.trials import StoredIndex
from tastespace.models import MODELS, Recommender
from tastespace.models.updating import News

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
    _tell(updated, out, seconds, _fate(recommender.index_, updated.index_, had_one), json)


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


def _tell(updated: Recommender, out: Path, seconds: float, fate: Fate | None, json: bool) -> None:
    news, name = updated.news_, next(name for name, kind in MODELS.items() if kind is type(updated))
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


def _deed(news: News, name: str) -> str:
    """What was done, in words."""
    if news.how == "warm restart":
        return f"warm restart: {news.sweeps} sweeps of warm-up, then new draws of everything,"
    if news.how == "kept draws":
        return "draws kept: users and new items count with their new ratings, old items stay as they were;"
    if news.how == "fitted again":
        return f"{name} has no draws to keep: fitted again on all ratings"
    return "nothing new: answers stay as they were;"
