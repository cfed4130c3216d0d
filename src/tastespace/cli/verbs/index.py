"""`tastespace index`: find the fastest index that is accurate enough, and keep it with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model, Threads
from tastespace.evaluation.retrieval import tune_index
from tastespace.index.trials import BASELINE, N_TH, Trial
from tastespace.index.tuner import EXACT, NOT_WORTH_IT, Tuned, strategy
from tastespace.report.plotting import check_figure
from tastespace.report.retrieval_figures import write_retrieval

FIGURES = {
    "accuracy": "{accuracy:.3f}",
    "acceptance": "{acceptance:.3f}",
    "worst": "{worst_99:,}",
    "µs": "{microseconds:,.0f}",
    "x numpy": "{speedup:.1f}",
    "x exact": "{speedup_over_exact:.1f}",
    "MB": "{megabytes:,.1f}",
    "build s": "{build_seconds:.1f}",
}


def index(
    model: Model,
    accuracy: Annotated[
        float | None,
        Option(
            help="Minimum share of the true best items that lists find, on average.",
            show_default="0.95, if there is no --acceptance",
        ),
    ] = None,
    acceptance: Annotated[
        float | None,
        Option(help=f"Minimum share of lists whose worst item is one of the true best {N_TH}.", show_default=False),
    ] = None,
    latency_ms: Annotated[float | None, Option(help="Maximum time per list (ms).", show_default=False)] = None,
    k: Annotated[int, Option("-k", help="Length of the lists.")] = 10,
    seconds: Annotated[float, Option(help="Time budget for trials (s).")] = 60.0,
    structures: Annotated[
        str | None, Option(help="Index structures to try, separated by commas.", show_default="all")
    ] = None,
    figure: Annotated[Path | None, Option(help="File for a plot of all trials: .png, .svg or .pdf.")] = None,
    seed: Annotated[int, Option(help="Random seed of the queries and the index.")] = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Choose the fastest index that is accurate enough, and save it with the model.

    It is measured on known and on new users.
    """
    if figure is not None:
        check_figure(figure)
    # An existing index is replaced, even one that cannot be read.
    recommender = artifact.load(model, with_index=False).set_params(threads=threads)
    artifact.check_writable(model)
    with console.progress() as observer:
        tuned = tune_index(
            recommender,
            accuracy=accuracy,
            acceptance=acceptance,
            k=k,
            latency_ms=latency_ms,
            seconds=seconds,
            structures=None if structures is None else [name.strip() for name in structures.split(",")],
            seed=seed,
            threads=threads,
            observer=observer,
        )
    artifact.save_index(model, tuned)
    if figure is not None:
        write_retrieval(tuned, figure)
    if json:
        console.print_json(
            tuned.chosen.to_dict()
            | {
                "baseline": BASELINE,
                "target": tuned.target.to_dict(),
                "target_reached": tuned.reached,
                "nearest": None if tuned.nearest is None else tuned.nearest.to_dict(),
                "complete": tuned.is_complete,
                "queries": {"choosing": tuned.n_choosing, "held_out": tuned.n_held_out},
                "notes": list(tuned.notes),
                "trials": [trial.to_dict() for trial in tuned.trials],
            }
            | ({} if figure is None else {"figure": str(figure)})
        )
        return
    _print_trials(tuned)
    console.print_line(*_sentences(tuned), f"saved with {model}" + ("" if figure is None else f"; figure: {figure}"))


def _print_trials(tuned: Tuned) -> None:
    """The best trial of each structure, and the chosen one as measured on the held-out queries."""
    trials = [("", trial) for trial in _best_of_each(tuned)]
    rows = [
        [mark, strategy(trial.structure), trial.description]
        + [text.format(**vars(trial), megabytes=trial.n_bytes / 1e6) for text in FIGURES.values()]
        for mark, trial in [*trials, ("*", tuned.chosen)]
    ]
    console.print_rows(["", "strategy", "details", *FIGURES], rows, numbers=FIGURES)


def _best_of_each(tuned: Tuned) -> list[Trial]:
    """The fastest trial of each structure that reaches the target; if none does, the most accurate one."""

    def merit(trial: Trial) -> tuple[float, ...]:
        return (1, trial.speedup) if tuned.target.is_reached_by(trial) else (0, trial.accuracy, trial.acceptance)

    structures = dict.fromkeys(trial.structure for trial in tuned.trials)
    return [max((trial for trial in tuned.trials if trial.structure == each), key=merit) for each in structures]


def _sentences(tuned: Tuned) -> list[str]:
    """What was chosen, why, and how it was measured."""
    chosen, target = tuned.chosen, tuned.target
    exact = next(trial for trial in tuned.trials if trial.structure == EXACT)
    scan = f"the exact scan takes {exact.microseconds:,.0f} µs, {exact.speedup:.1f} times as fast as numpy's"
    found = f"finds {100 * chosen.accuracy:.1f} % of the true best {target.k} in {chosen.microseconds:,.0f} µs"
    if tuned.nearest is not None:
        outcome = (
            f"not reached: {target}. The fastest that is accurate enough, {tuned.nearest.description}, takes "
            f"{tuned.nearest.microseconds / 1000:.3g} ms; the exact scan is used."
        )
    elif not tuned.reached:
        outcome = f"not reached: {target}, not even by the exact scan, which is used; it {found}."
    elif chosen.structure == EXACT:
        outcome = (
            f"chosen: the exact scan, because nothing that reached {target} was at least {NOT_WORTH_IT:g} times as "
            f"fast; it {found}."
        )
    else:
        outcome = (
            f"chosen: the {strategy(chosen.structure)} ({chosen.description}), the fastest that reached {target}. It "
            f"{found}, {chosen.speedup:.1f} times as fast as numpy's scan; {scan}."
        )
    measured = (
        f"* on {tuned.n_held_out:,} held-out queries; the others on {tuned.n_choosing:,} used for choosing. worst: "
        "true position of the worst item, 99th percentile; single queries on one thread."
    )
    ended = "the time budget ended before everything was tried; increase --seconds"
    return [outcome, measured, *tuned.notes, *([] if tuned.is_complete else [ended])]
