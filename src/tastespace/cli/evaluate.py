"""`tastespace evaluate`: how good a model is on ratings it has not seen, and whether it is better than another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Bootstrap, Json, Model, ReadOptions, Relevance, Threads, reads
from tastespace.data.formats.files import read
from tastespace.data.splits import Split
from tastespace.errors import InvalidParameterError
from tastespace.evaluation import evaluate as measure
from tastespace.evaluation.relevance import Relevant
from tastespace.evaluation.report import Report
from tastespace.evaluation.significance import RESAMPLES, compare_reports
from tastespace.models import Recommender
from tastespace.report.evaluation_page import write_evaluation
from tastespace.report.plotting import prepare_folder
from tastespace.version import __version__


@reads("user", "item", "rating", "separator", "header", "kind")
def evaluate(
    model: Model,
    test: Annotated[Path, Argument(help="File of test ratings.")],
    k: Annotated[
        list[int] | None, Option(help="Length of the lists; can be repeated.", show_default="5, 10, 20")
    ] = None,
    relevant: Relevance = None,
    against: Annotated[Path | None, Option(help="Another model to compare with, user by user.")] = None,
    history: Annotated[Path | None, Option(help="File of ratings that the test users are known by, besides.")] = None,
    figures: Annotated[Path | None, Option(help="Folder to write figures and evaluation.html to.")] = None,
    no_ranking: Annotated[bool, Option("--no-ranking", help="Measure predicted ratings only, no lists.")] = False,
    bootstrap: Bootstrap = 1000,
    seed: Annotated[int, Option(help="Same seed, same intervals and p-values.")] = 0,
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure a model on a file of test ratings, as far as it makes sense for what they say."""
    threshold = read_relevant(relevant)
    paths = [model] if against is None else [model, against]
    loaded = [artifact.load(path).set_params(threads=threads) for path in paths]
    recommenders = dict(zip(names_of(paths), loaded, strict=True))
    if figures is not None:
        prepare_folder(figures)
    tested, since = read(test, **reading), None if history is None else read(history, **reading)
    reports: dict[str, Report] = {}
    with console.progress() as observer:
        for name, recommender in recommenders.items():
            reports[name] = measure.evaluate(
                *(recommender, Split(recommender.ratings_, tested, since)),
                k=k or measure.DEFAULT_K,
                relevant=threshold if threshold is not None else _agreed(reports),
                ranking=not no_ranking,
                bootstrap=bootstrap,
                seed=seed,
                observer=observer,
            )
    first, *others = reports.values()
    comparisons = compare_reports(first, others[0], seed=seed) if others else None
    page = None
    if figures is not None:
        notes = _notes(paths, {"test file": test, "history": history}, seed, bootstrap)
        page = write_evaluation(reports, figures, comparisons=comparisons, notes=notes)
    if json:
        content = first.to_dict()
        if comparisons is not None:
            content |= {"against": others[0].to_dict(), "comparison": comparisons.to_dict()}
        console.print_json(content if page is None else content | {"figures": str(page)})
        return
    _show_first_lines(reports, recommenders)
    if comparisons is not None:
        console.print_table(comparisons.table(*reports))
        console.print_line("\np: how often such a difference would come about by luck alone")
    for name, report in reports.items():
        for table in report.tables(empty=False):
            console.print_table(replace(table, title=f"{name}: {table.title}" if others else table.title))
        console.print_line("")
    if page is not None:
        console.print_line(f"\nfigures written to {page}")


def names_of(paths: list[Path]) -> list[str]:
    """What models are called: the names of their folders if these differ, the whole paths if not."""
    names = [path.resolve().name for path in paths]
    names = names if len(set(names)) == len(names) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise BadParameter(f"the same model is there twice, {names[0]}; expected another one")
    return names


def read_relevant(typed: str | None) -> Relevant:
    """A number, liked, or all."""
    if typed in (None, "all", "liked"):
        return typed  # type: ignore[return-value]
    try:
        return float(typed)
    except ValueError:
        raise InvalidParameterError(f"--relevant is {typed!r}; expected a rating, such as 4, liked, or all") from None


def _agreed(reports: dict[str, Report]) -> Relevant:
    """What counts as relevant for one model does so for the other, whatever each was fitted on."""
    return next((report.relevance for report in reports.values()), None)


def _notes(paths: list[Path], files: dict[str, Path | None], seed: int, bootstrap: int) -> dict[str, str]:
    """What the page says of how it came about."""
    which, resamples = "model", f"{bootstrap:,} for intervals"
    if len(paths) > 1:
        which, resamples = "models", f"{resamples}, {RESAMPLES:,} for differences"
    notes = {which: ", ".join(map(str, paths))} | {name: str(file) for name, file in files.items() if file is not None}
    return notes | {"seed": str(seed), "resamples": resamples, "tastespace": __version__}


def _show_first_lines(reports: dict[str, Report], recommenders: dict[str, Recommender]) -> None:
    """A line a model, with its name if there are several."""
    for name, report in reports.items():
        low, high = recommenders[name].rating_range_
        whose = f"{name}: " if len(reports) > 1 else ""
        clipped = f"; predictions clipped to {low:g}…{high:g}" if report.rating else ""
        console.print_line(f"{whose}{report}{clipped}")


def with_figures(content: dict[str, Any], folder: Path | None, paths: list[Path]) -> dict[str, Any]:
    """The content for JSON, with the files that were written, if a folder for them was named."""
    return content if folder is None else content | {"figures": [str(path) for path in paths]}
