"""`tastespace noise`: who rates erratically, and what divides opinion."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.bpmf import BPMF
from tastespace.models.noisiness import Noisiness


def noise(
    model: Model,
    items: Annotated[bool, typer.Option("--items", help="Items that divide opinion, instead of users.")] = False,
    n: Annotated[int, typer.Option("-n", help="How many of each.")] = 10,
    json: Json = False,
) -> None:
    """List the users whose ratings are the most erratic, or the items that divide opinion most."""
    recommender = artifact.load(model)
    if not isinstance(recommender, BPMF):
        raise InvalidParameterError(
            f"{type(recommender).__name__} does not learn who rates how erratically; expected bpmf, fitted with "
            "--set noise=per-user-and-item"
        )
    found = recommender.divisive_items(n) if items else recommender.erratic_users(n)
    if json:
        console.print_json({found.side + "s": found.to_polars().to_dicts()})
        return
    console.out.print(_table(found))


def _table(found: Noisiness) -> Table:
    table = Table()
    for name in (found.side, *(["title"] if found.titles is not None else [])):
        table.add_column(name)
    for name in ("ratings", "noise sd", "90 % interval", "more than average"):
        table.add_column(name, justify="right")
    for row in found.to_polars().iter_rows(named=True):
        texts = [str(row[found.side]), *([str(row["title"] or "")] if found.titles is not None else [])]
        interval = f"{row['low']:.2f} to {row['high']:.2f}"
        table.add_row(
            *texts, str(row["ratings"]), f"{row['noise_sd']:.2f}", interval, f"{100 * row['probability']:.0f} %"
        )
    return table
