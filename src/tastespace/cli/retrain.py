"""`tastespace retrain`: a new model from the ratings of a service's database."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model, Threads
from tastespace.errors import MissingExtraError

if TYPE_CHECKING:
    from tastespace.service.retraining import Retrained


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
    _tell(found, out, seconds, json)


def _tell(found: Retrained, out: Path, seconds: float, json: bool) -> None:
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
