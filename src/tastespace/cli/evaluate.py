"""`tastespace evaluate`: how good a model is on ratings it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model, Threads
from tastespace.data.files import read
from tastespace.evaluation import evaluate as measure


def evaluate(
    model: Model,
    test: Annotated[Path, typer.Argument(help="File of test ratings.")],
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure a model on a file of test ratings; predictions are clipped to the training range."""
    recommender = artifact.load(model).set_params(threads=threads)
    report = measure.evaluate(recommender, read(test))
    if json:
        console.print_json(report.to_dict())
        return
    console.out.print(
        f"{report}; predictions clipped to {recommender.rating_range_[0]:g}…{recommender.rating_range_[1]:g}",
        markup=False,
    )
