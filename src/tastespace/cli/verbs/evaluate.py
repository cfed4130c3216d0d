"""`tastespace evaluate`: measure a model on test ratings, and compare it with another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, BadParameter, Option

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Bootstrap, Json, ListUsers, Model, ReadOptions, Relevance, Threads, reads
from tastespace.data.formats.files import read
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.errors import InvalidParameterError
from tastespace.evaluation import evaluate as measure
from tastespace.evaluation.relevance import Relevant
from tastespace.evaluation.report import Report
from tastespace.evaluation.side_by_side import evaluate_averages, evaluate_popular, found_table, lists_table
from tastespace.evaluation.significance import POPULAR, RESAMPLES, Verdict, compare_reports, find_best
from tastespace.evaluation.summary import summarize
from tastespace.models import Recommender
from tastespace.models.baselines.baselines import Popular
from tastespace.report.evaluation_page import write_evaluation
from tastespace.report.plotting import prepare_folder
from tastespace.version import __version__

AVERAGES = "averages of users and items"


@reads("user", "item", "rating", "separator", "header", "kind")
def evaluate(
    model: Model,
    test: Annotated[Path, Argument(help="File of test ratings.")],
    k: Annotated[
        list[int] | None, Option(help="Length of the lists; can be repeated.", show_default="5, 10, 20")
    ] = None,
    relevant: Relevance = None,
    against: Annotated[Path | None, Option(help="Another model to compare with, user by user.")] = None,
    history: Annotated[Path | None, Option(help="File of further known ratings of the test users.")] = None,
    figures: Annotated[Path | None, Option(help="Folder to write figures and evaluation.html to.")] = None,
    max_users: ListUsers = None,
    no_ranking: Annotated[bool, Option("--no-ranking", help="Measure predicted ratings only, no lists.")] = False,
    bootstrap: Bootstrap = 1000,
    seed: Annotated[int, Option(help="Same seed, same intervals and p-values.")] = 0,
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure a model on a file of test ratings, with the measures that suit their feedback type."""
    threshold = read_relevant(relevant)
    paths = [model] if against is None else [model, against]
    loaded = [artifact.load(path).set_params(threads=threads) for path in paths]
    recommenders = dict(zip(names_of(paths), loaded, strict=True))
    if figures is not None:
        prepare_folder(figures)
    tested, since = read(test, **reading), None if history is None else read(history, **reading)
    reports: dict[str, Report] = {}
    how: dict[str, Any] = {"max_users": max_users, "bootstrap": bootstrap, "seed": seed}
    with console.progress() as observer:
        for name, recommender in recommenders.items():
            reports[name] = measure.evaluate(
                *(recommender, Split(recommender.ratings_, tested, since)),
                k=k or measure.DEFAULT_K,
                relevant=threshold if threshold is not None else _agreed(reports),
                ranking=not no_ranking,
                **how,
                observer=observer,
            )
        split = Split(loaded[0].ratings_, tested, since)
        beside = reports | _popular(recommenders, reports, split, **how, observer=observer)
        baselines = dict(zip((POPULAR,), list(beside.values())[len(reports) :], strict=False))
        averages = evaluate_averages(loaded[0], split, next(iter(reports.values())), seed=seed, observer=observer)
        baselines |= {} if averages is None else {AVERAGES: averages}
    later = _later_share(loaded[0].ratings_, tested)
    first, *others = reports.values()
    summary = summarize(first, baselines, seed=seed)
    verdicts = find_best(beside, resamples=bootstrap, seed=seed)
    comparisons = compare_reports(first, others[0], seed=seed) if others else None
    page = None
    if figures is not None:
        notes = _notes(paths, {"test file": test, "history": history}, seed, bootstrap)
        page = write_evaluation(beside, figures, comparisons=comparisons, notes=notes, verdicts=verdicts)
    if json:
        content = first.to_dict() | {"summary": list(summary)}
        if comparisons is not None:
            content |= {"against": others[0].to_dict(), "comparison": comparisons.to_dict()}
        for popular in list(beside.values())[len(reports) :]:
            less = compare_reports(first, popular, seed=seed)
            content |= {"popular": popular.to_dict(), "popular_comparison": less.to_dict()}
        content |= {"verdicts": [verdict.to_dict() for verdict in verdicts], "later_share": later}
        console.print_json(content if page is None else content | {"figures": str(page)})
        return
    console.print_line(*summary, "")
    _show_first_lines(reports, recommenders)
    console.print_line(*_told_of_time(later))
    if comparisons is not None:
        console.print_table(comparisons.table(*reports))
        console.print_line("\np: how often such a difference would occur by chance")
    print_side_by_side(beside, verdicts)
    _show_details(reports)
    if page is not None:
        console.print_line(f"\nfigures written to {page}")


def _later_share(trained: Ratings, tested: Ratings) -> float | None:
    """The share of test ratings later than all training ratings; None where times are not known."""
    known, asked = trained.times, tested.times
    if known is None or asked is None or not len(known) or np.isnat(known).any() or np.isnat(asked).any():
        return None
    return float(np.mean(asked > known.max()))


def _told_of_time(later: float | None) -> list[str]:
    """A sentence on whether the test ratings are from the future of the training ratings."""
    if later is None:
        return []
    if later == 1:
        return ["all test ratings are later than the training ratings: a test of the future"]
    return [
        f"{later:.0%} of the test ratings are later than all training ratings; for the others, the model knows later "
        "ratings: tastespace data split --by time makes a test of the future"
    ]


def print_side_by_side(reports: Mapping[str, Report], verdicts: Sequence[Verdict]) -> None:
    """Print the lists of several models side by side, and which is best for what; nothing for a single model."""
    if len(reports) < 2:
        return
    for table in (lists_table(reports), found_table(reports)):
        if table is not None:
            console.print_table(table)
    if verdicts:
        console.print_line("", *map(str, verdicts))


def _popular(
    models: Mapping[str, Recommender], reports: Mapping[str, Report], split: Split, **options: Any
) -> dict[str, Report]:
    """The report on the popularity baseline of the first model's ratings, by name; none if a model is that."""
    if any(isinstance(model, Popular) for model in models.values()):
        return {}
    report = evaluate_popular(*(next(iter(models.values())), split, next(iter(reports.values()))), **options)
    name = f"{POPULAR} items" if POPULAR in models else POPULAR  # A folder may have this name.
    return {} if report is None else {name: report}


def names_of(paths: list[Path]) -> list[str]:
    """Display names of models: the names of their folders if these differ, else the whole paths."""
    names = [path.resolve().name for path in paths]
    names = names if len(set(names)) == len(names) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise BadParameter(f"the same model is given twice, {names[0]}; expected another one")
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
    """Share the relevance of one model with the other, whatever each was fitted on."""
    return next((report.relevance for report in reports.values()), None)


def _notes(paths: list[Path], files: dict[str, Path | None], seed: int, bootstrap: int) -> dict[str, str]:
    """The protocol of the evaluation, for the page."""
    which, resamples = "model", f"{bootstrap:,} for intervals"
    if len(paths) > 1:
        which, resamples = "models", f"{resamples}, {RESAMPLES:,} for differences"
    notes = {which: ", ".join(map(str, paths))} | {name: str(file) for name, file in files.items() if file is not None}
    return notes | {"seed": str(seed), "resamples": resamples, "tastespace": __version__}


def _show_first_lines(reports: dict[str, Report], recommenders: dict[str, Recommender]) -> None:
    """One line per model, with its name if there are several."""
    for name, report in reports.items():
        low, high = recommenders[name].rating_range_
        whose = f"{name}: " if len(reports) > 1 else ""
        clipped = f"; predictions clipped to {low:g}…{high:g}" if report.rating else ""
        console.print_line(f"{whose}{report}{clipped}")


def _show_details(reports: Mapping[str, Report]) -> None:
    """All tables of each model, with its name if there are several."""
    for name, report in reports.items():
        for table in report.tables(empty=False):
            console.print_table(replace(table, title=f"{name}: {table.title}" if len(reports) > 1 else table.title))
        console.print_line("")


def with_figures(content: dict[str, Any], folder: Path | None, paths: list[Path]) -> dict[str, Any]:
    """The content for JSON, with the files that were written, if a folder for them was given."""
    return content if folder is None else content | {"figures": [str(path) for path in paths]}
