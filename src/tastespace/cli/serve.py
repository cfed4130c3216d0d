"""`tastespace serve`: a model as an HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model, Threads
from tastespace.errors import MissingExtraError
from tastespace.evaluation.retrieval import tune_index
from tastespace.index.trials import BASELINE, N_TH, Trial
from tastespace.index.tuner import EXACT, NOT_WORTH_IT, Tuned
from tastespace.report.plotting import check_figure
from tastespace.report.retrieval_figures import write_retrieval

if TYPE_CHECKING:
    from tastespace.service.settings import Settings


def serve(
    model: Annotated[Path, typer.Argument(help="Folder of a fitted model.", metavar="MODEL")],
    host: Annotated[str, typer.Option("--host", help="Address to listen on; others than loopback need keys.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 for any.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option("--workers", help="Processes that answer.", min=1)] = 1,
    database: Annotated[
        str | None,
        typer.Option(
            "--db",
            envvar="TASTESPACE_DATABASE",
            help="URL of the ratings database; SQLite in the state folder by default.",
        ),
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="Folder of versions and database; MODEL-state by default.")
    ] = None,
    keys: Annotated[Path | None, typer.Option("--keys", help="File of API keys.")] = None,
    new_items: Annotated[
        bool, typer.Option("--new-items", help="Store ratings of items that the model does not know, for a retraining.")
    ] = False,
    origin: Annotated[
        list[str] | None, typer.Option("--origin", help="Let web pages of this origin ask; can be repeated.")
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", help="Requests a second of one client, in each worker; 0 for any.", min=0)
    ] = 200.0,
    seconds: Annotated[float, typer.Option("--seconds", help="Until a request is given up.")] = 30.0,
    body_bytes: Annotated[int, typer.Option("--body-bytes", help="Largest request, in bytes.", min=1)] = 4 << 20,
    cached_users: Annotated[
        int, typer.Option("--cached-users", help="Beliefs about users kept, in each worker.", min=1)
    ] = 256,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="Least that is logged.")
    ] = "info",
) -> None:
    """Answer over HTTP: recommendations, predictions, questions; and store new ratings."""
    try:
        from tastespace.service.launching import launch
        from tastespace.service.settings import Settings
    except ImportError as error:
        raise MissingExtraError("serving", "serve") from error
    settings = Settings(
        model=str(model.resolve()),
        state=None if state is None else str(state.resolve()),
        database=database,
        keys=None if keys is None else str(keys.resolve()),
        host=host,
        port=port,
        workers=workers,
        origins=tuple(origin or ()),
        new_items=new_items,
        rate=rate,
        seconds=seconds,
        body_bytes=body_bytes,
        cached_users=cached_users,
    )
    with console.progress() as observer:
        launch(settings, level=log_level.upper(), observer=observer, ready=_tell)


def _tell(settings: Settings, taken: int) -> None:
    """Where it is."""
    if taken:
        console.err.print(f"{taken:,} ratings of the model are in the database now", markup=False)
    console.out.print(f"serving {settings.model} at http://{settings.shown_host}:{settings.port}/v1/", markup=False)


FIGURES = ("accuracy", "acceptance", "worst", "µs", "x numpy", "x exact", "MB", "build s")


def index(
    model: Model,
    accuracy: Annotated[
        float | None,
        typer.Option(
            "--accuracy",
            help="Share of the true best items that must be found, on average.",
            show_default="0.95, if there is no --acceptance",
        ),
    ] = None,
    acceptance: Annotated[
        float | None,
        typer.Option(
            "--acceptance",
            help=f"Share of the lists whose worst item must be one of the true best {N_TH}.",
            show_default=False,
        ),
    ] = None,
    latency_ms: Annotated[
        float | None,
        typer.Option("--latency-ms", help="Milliseconds that one list may take.", show_default=False),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Length of the lists.")] = 10,
    seconds: Annotated[float, typer.Option("--seconds", help="Time to spend on trials.")] = 60.0,
    structures: Annotated[
        str | None,
        typer.Option("--structures", help="Those to try, separated by commas.", show_default="all"),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Picture to draw what was tried: .png, .svg or .pdf.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same queries and the same index if chosen.")] = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Choose the fastest index that finds enough, measured on users and strangers, and keep it with the model."""
    if figure is not None:
        check_figure(figure)
    # The index that is there is replaced, whatever has become of it.
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
        content = _content(tuned)
        console.print_json(content if figure is None else content | {"figure": str(figure)})
        return
    console.out.print(_table(tuned))
    for line in _sentences(tuned):
        console.out.print(line, markup=False)
    console.out.print(f"kept with {model}" + ("" if figure is None else f"; figure: {figure}"), markup=False)


def _content(tuned: Tuned) -> dict[str, Any]:
    chosen = tuned.chosen.to_dict()
    return chosen | {
        "baseline": BASELINE,
        "target": tuned.target.to_dict(),
        "target_reached": tuned.reached,
        "nearest": None if tuned.nearest is None else tuned.nearest.to_dict(),
        "complete": tuned.is_complete,
        "queries": {"choosing": tuned.n_choosing, "held_out": tuned.n_held_out},
        "notes": list(tuned.notes),
        "trials": [trial.to_dict() for trial in tuned.trials],
    }


def _table(tuned: Tuned) -> Table:
    """The best of each structure, and the choice, whose figures are those of the held-out queries."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("", "structure"):
        table.add_column(name, overflow="fold")
    for name in FIGURES:
        table.add_column(name, justify="right")
    for trial in _best_of_each(tuned):
        table.add_row("", trial.description, *_figures(trial))
    table.add_row("*", f"chosen: {tuned.chosen.description}", *_figures(tuned.chosen))
    return table


def _best_of_each(tuned: Tuned) -> list[Trial]:
    """The fastest of each structure that reaches the target; where none does, the one that finds most."""
    best = []
    for structure in dict.fromkeys(trial.structure for trial in tuned.trials):
        trials = [trial for trial in tuned.trials if trial.structure == structure]
        reaching = [trial for trial in trials if tuned.target.is_reached_by(trial)]
        best.append(
            max(reaching, key=lambda trial: trial.speedup)
            if reaching
            else max(trials, key=lambda trial: (trial.accuracy, trial.acceptance))
        )
    return best


def _figures(trial: Trial) -> list[str]:
    return [
        f"{trial.accuracy:.3f}",
        f"{trial.acceptance:.3f}",
        f"{trial.worst_99:,}",
        f"{trial.microseconds:,.0f}",
        f"{trial.speedup:.1f}",
        f"{trial.speedup_over_exact:.1f}",
        f"{trial.n_bytes / 1e6:,.1f}",
        f"{trial.build_seconds:.1f}",
    ]


def _sentences(tuned: Tuned) -> list[str]:
    """What was chosen, why, and what is to be known about it."""
    chosen, target = tuned.chosen, tuned.target
    exact = next(trial for trial in tuned.trials if trial.structure == EXACT)
    scan = f"the exact scan takes {exact.microseconds:,.0f} µs, {exact.speedup:.1f} times as fast as numpy's"
    found = f"finds {100 * chosen.accuracy:.1f} % of the true best {target.k} in {chosen.microseconds:,.0f} µs"
    if tuned.nearest is not None:
        nearest = tuned.nearest
        lines = [
            f"not reached: {target}. The fastest that finds enough, {nearest.description}, takes "
            f"{nearest.microseconds / 1000:.3g} ms; the exact scan is kept."
        ]
    elif not tuned.reached:
        lines = [f"not reached: {target}, not even by the exact scan, which is kept; it {found}."]
    elif chosen.structure == EXACT:
        lines = [
            f"chosen: the exact scan, because nothing that reached {target} was at least {NOT_WORTH_IT:g} times as "
            f"fast; it {found}."
        ]
    else:
        lines = [
            f"chosen: {chosen.description}, the fastest that reached {target}. It {found}, {chosen.speedup:.1f} times "
            f"as fast as numpy's scan; {scan}."
        ]
    lines.append(
        f"* on {tuned.n_held_out:,} held-out queries; the others on {tuned.n_choosing:,} that chose. worst: true "
        "position of the worst suggestion, 99 % of lists; single queries on one thread."
    )
    lines += tuned.notes
    if not tuned.is_complete:
        lines.append("the time was up before all was tried: --seconds gives more")
    return lines
