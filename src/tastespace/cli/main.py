"""The program `tastespace`: its verbs, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tastespace.cli import console
from tastespace.cli.demo import demo
from tastespace.cli.doctor import doctor
from tastespace.cli.evaluate import evaluate
from tastespace.cli.fit import fit
from tastespace.cli.predict import predict
from tastespace.cli.recommend import recommend
from tastespace.errors import TastespaceError
from tastespace.version import __version__

BAD_INPUT, INTERRUPTED = 1, 130

app = typer.Typer(
    name="tastespace",
    help="Bayesian recommender systems: point it at a file of ratings, ask for recommendations.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for verb in (fit, predict, recommend, evaluate, demo, doctor):
    app.command()(verb)


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
    try:
        app()
    except TastespaceError as error:
        if "--json" in sys.argv:
            console.print_json({"error": {"type": type(error).__name__, "message": str(error)}})
        console.err.print(f"error: {error}", markup=False, soft_wrap=True)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        console.err.print("interrupted; nothing was written", markup=False)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): not our error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BAD_INPUT)
