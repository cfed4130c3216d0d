"""`tastespace curves`: how clusters of users rate, and who rates in extremes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model
from tastespace.data.levels import level_names
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.monotone.curve_list import CurveList
from tastespace.models.factorization.monotone.estimator import MonotoneMF
from tastespace.report.curve_figures import write_curves
from tastespace.report.retrieval_figures import check_figure

MOST_COLUMNS = 11


def curves(
    model: Model,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Picture to draw the curves to: .png, .svg or .pdf.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the curves that ratings are understood by, and how many users have each."""
    recommender = artifact.load(model)
    if not isinstance(recommender, MonotoneMF):
        raise InvalidParameterError(
            f"{type(recommender).__name__} takes ratings as they are and has no curves; expected a model fitted with "
            "--model monotone"
        )
    if figure is not None:
        check_figure(figure)
    found = recommender.curves()
    if figure is not None:
        write_curves(found, figure)
    if json:
        content = {"curves": found.to_polars().to_dicts()}
        console.print_json(content if figure is None else content | {"figure": str(figure)})
        return
    console.out.print(_table(found))
    if figure is not None:
        console.out.print(f"figure: {figure}", markup=False)


def _table(found: CurveList) -> Table:
    """One row a curve; of many levels only some have a column."""
    n_levels = len(found.levels)
    step = -(-n_levels // MOST_COLUMNS)
    shown = range(0, n_levels, step)
    names = level_names(found.levels)
    table = Table()
    for name in ("cluster", "users", "extremes", *(f"{names[place]} is" for place in shown)):
        table.add_column(name, justify="right")
    for place, (name, n_users) in enumerate(zip(found.ids, found.n_users, strict=True)):
        values = (f"{found.values[place, level]:.2f}" for level in shown)
        table.add_row(str(name), f"{n_users:,}", f"{100 * found.extremes[place]:.0f} %", *values)
    return table
