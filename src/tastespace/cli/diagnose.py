"""`tastespace diagnose`: whether the chains behind a model have run long enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model
from tastespace.errors import InvalidParameterError
from tastespace.inference import diagnostics
from tastespace.inference.trace import Trace
from tastespace.models import MODELS, Recommender
from tastespace.models.factorization.empirical_bayes.posterior import Learning
from tastespace.models.factorization.empirical_bayes.settings import NAME
from tastespace.report.diagnostics_figures import write_diagnostics
from tastespace.report.evaluation_page import prepare_folder
from tastespace.report.learning_figures import write_learning


def diagnose(
    model: Model,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Folder to write trace.svg and other figures to.")
    ] = None,
    json: Json = False,
) -> None:
    """Say whether the chains of a model have run long enough: R-hat, effective draws, Monte Carlo errors."""
    recommender = artifact.load(model)
    trace = _trace(recommender)
    if figures is not None:
        prepare_folder(figures)
    diagnosis = diagnostics.diagnose(trace)
    paths = [] if figures is None else write_diagnostics(trace, figures, diagnosis=diagnosis)
    learning = _learning(recommender)
    if learning is not None and figures is not None:
        paths += write_learning(learning, figures)
    if json:
        content = diagnosis.to_dict() | {"seen": recommender.seen_.to_dict()}
        if learning is not None:
            content |= {"learning": learning.to_dict()}
        console.print_json(content if figures is None else content | {"figures": [str(path) for path in paths]})
        return
    console.out.print(str(diagnosis), markup=False)
    if learning is not None:
        console.out.print(f"\n{learning}", markup=False)
        if diagnosis.trouble is not None:
            console.out.print(f"draws are set by --regularisation {NAME}:draws=N", markup=False)
    if recommender.seen_.updates:
        console.out.print(f"\nseen: {recommender.seen_}", markup=False)
    if figures is not None:
        console.out.print(f"\nfigures written to {figures}: {', '.join(path.name for path in paths)}", markup=False)


def _learning(recommender: Recommender) -> Learning | None:
    """How the regularisation was learned, if it was."""
    learning = getattr(recommender.posterior_, "learning", None)
    return learning if isinstance(learning, Learning) else None


def _trace(recommender: Recommender) -> Trace:
    trace = getattr(recommender.posterior_, "trace", None)
    if isinstance(trace, Trace):
        return trace
    name = next(name for name, kind in MODELS.items() if kind is type(recommender))
    raise InvalidParameterError(
        f"the model {name} has no chains: it computes one answer and draws no samples, so that there is nothing to "
        "diagnose; expected a model that samples, such as bpmf"
    )
