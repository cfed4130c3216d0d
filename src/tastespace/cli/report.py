"""`tastespace report`: what models say of themselves, side by side, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.evaluate import names_of
from tastespace.cli.options import Json, Threads
from tastespace.cli.reading import Said, reads
from tastespace.data.files import read
from tastespace.errors import UnknownIdError
from tastespace.models import Recommender
from tastespace.report.model_page import Shown, check_path, write_report


@reads("user", "item", "rating", "separator", "header", "kind")
def report(
    models: Annotated[list[Path], typer.Argument(help="Folders of fitted models.", metavar="MODEL...")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")],
    test: Annotated[Path | None, typer.Option("--test", help="File of test ratings, the same for all models.")] = None,
    users: Annotated[list[str] | None, typer.Option("--for", help="User whose list is shown; can be repeated.")] = None,
    map_by: Annotated[str, typer.Option("--map", help="How items come to a plane: pca or tsne.")] = "pca",
    *,
    said: Said,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Write one HTML page about one or several models: measures, calibration, chains, noise, map, some lists."""
    check_path(out)
    shown = [
        Shown(name, artifact.load(path).set_params(threads=threads), artifact.read_manifest(path))
        for name, path in zip(names_of(models), models, strict=True)
    ]
    for user in users or ():
        _check_user(user, [one.recommender for one in shown])
    tested = None if test is None else read(test, **said)
    with console.progress() as observer:
        path = write_report(shown, out, users=users, test=tested, method=map_by, observer=observer)
    if json:
        console.print_json({"out": str(path), "models": [one.name for one in shown], "bytes": path.stat().st_size})
        return
    console.out.print(f"written to {path} ({path.stat().st_size / 1e6:.1f} MB); open it in a browser", markup=False)


def _check_user(user: str, recommenders: list[Recommender]) -> None:
    if all(recommender.ratings_.users.rows_of([user])[0] < 0 for recommender in recommenders):
        raise UnknownIdError(f"no model knows the user {user!r}; expected one of the training ratings")
