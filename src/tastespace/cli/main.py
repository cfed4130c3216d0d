"""The program `tastespace`: its verbs, and the one place where errors become messages and exit codes.

Only the requested verb is imported, so that `--version` and `--help` are fast.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tastespace.errors import TastespaceError
from tastespace.version import __version__

if TYPE_CHECKING:
    import typer

ABOUT = "Bayesian recommender systems: point it at a file of ratings, ask for recommendations."
# Each verb with the first sentence of its help; a test compares these with the verbs themselves.
VERBS = {
    "fit": "Fit a model to a file of ratings.",
    "update": "Update a model with new ratings.",
    "predict": "Predict the ratings of pairs of users and items.",
    "recommend": "Recommend items to users of the training ratings, or to new users with a history.",
    "similar": "Find the items most similar to an item, or the users most similar to a user.",
    "explain": "Explain a recommendation by the ratings of the user that raise or lower it.",
    "ask": "Choose the items that a user should rate next; without a user or a history, a new user.",
    "evaluate": "Measure a model on a file of test ratings, with the measures that suit their feedback type.",
    "compare": "Fit all models that suit the ratings on the same split, and show which is best for what, at what cost.",
    "tune": "Search the settings of a model on a held-out part of the ratings, by successive halving.",
    "select-rank": "Estimate the number of factors: by reversible jumps, by shrinkage priors, by a grid.",
    "diagnose": "Show whether the chains of a model have run long enough: R-hat, effective draws, Monte Carlo errors.",
    "noise": "List the users whose ratings are the most erratic, or the items that divide opinion most.",
    "curves": "Show the curves by which ratings are transformed, and the number of users of each.",
    "index": "Choose the fastest index that is accurate enough, and save it with the model.",
    "report": "Write one HTML page about one or several models: measures, calibration, chains, noise, map, some lists.",
    "card": "Write a model card: what a model is, what it learned from, how good it is, and what it may be used for.",
    "serve": "Serve recommendations, predictions and questions over HTTP, and store new ratings.",
    "mcp": "Offer a model to assistants as tools of the Model Context Protocol, over standard input and output.",
    "retrain": "Fit again on the ratings of a database, starting from MODEL; a worse model is not written.",
    "challenger": "Let a second version of a model answer some users of a service; promote it or drop it.",
    "export": "Print everything that a service stores about a user, as JSON.",
    "forget": "Erase users from the database, the model and the versions that a service keeps.",
    "demo": "Fit on the embedded movielens-demo, print measures and a user's top 10, and write a picture.",
    "doctor": "Print versions, threads, the instruction set and the installed extras; or check a model.",
}
# Modules of verbs that have none of their own.
MODULES = {"update": "fit", "select-rank": "compare"}
MODULES |= dict.fromkeys(("retrain", "challenger", "export", "forget"), "serve")
MODULES |= dict.fromkeys(("predict", "similar", "explain", "ask"), "recommend")
MODULES |= dict.fromkeys(("diagnose", "noise", "curves", "card", "demo"), "report")
FORMERLY = {"rank": "select-rank"}  # names of the first edition, which still work
GROUPS = {  # of verbs, in the modules of these names
    "data": "Data sets by name, and what is in a file of ratings.",
    "features": "What is known of users and items in a model, and how much of them it explains.",
    "content": "Features of documents and images: search by words or an image, item features for fit.",
}


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """Wrap a verb so that its errors become messages and exit codes; the only place where they do."""

    @functools.wraps(verb)
    def run_verb(*arguments: Any, **options: Any) -> None:
        import typer

        from tastespace.cli import console
        from tastespace.threads import instruction_set

        try:
            instruction_set()  # Fails now if TASTESPACE_ISA is not supported.
            verb(*arguments, **options)
        except TastespaceError as error:
            if options.get("json"):
                console.print_json({"error": {"type": type(error).__name__, "message": str(error)}})
            console.print_error(f"error: {error}")
            raise typer.Exit(console.BAD_INPUT) from error
        except MemoryError as error:
            console.print_error("error: out of memory; try fewer factors or fewer ratings")
            raise typer.Exit(console.BAD_INPUT) from error
        except KeyboardInterrupt as error:
            console.print_error(str(error) or "interrupted; nothing was written")
            raise typer.Exit(console.INTERRUPTED) from error

    return run_verb


def program(verb: str | None = None) -> typer.Typer:
    """The command line. With `verb`, only that verb is imported; the others are names with a sentence of help."""
    import typer

    from tastespace.cli.console import Command, Group

    plain: Any = {"add_completion": False, "pretty_exceptions_enable": False}
    app = typer.Typer(name="tastespace", cls=Group, help=ABOUT, no_args_is_help=True, **plain)

    @app.callback()
    def common(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
        pass

    common.__doc__ = ABOUT
    for name in (*VERBS, *FORMERLY):
        now = FORMERLY.get(name, name)
        is_wanted = verb in (None, name)
        command = app.command(name, cls=Command, help=None if is_wanted else VERBS[now], hidden=name in FORMERLY)
        command(guarded(function_of(now)) if is_wanted else _not_imported)
    for name, about in GROUPS.items():
        if verb in (None, name):
            group = typer.Typer(cls=Group, help=about, no_args_is_help=True)
            for part, function in import_module(f"tastespace.cli.verbs.{name}").VERBS.items():
                group.command(part, cls=Command)(guarded(function))
            app.add_typer(group, name=name)
        else:
            app.command(name, help=about)(_not_imported)
    return app


def function_of(verb: str) -> Callable[..., None]:
    """What a verb does."""
    module = import_module(f"tastespace.cli.verbs.{MODULES.get(verb, verb)}")
    function: Callable[..., None] = getattr(module, verb.replace("-", "_"))
    return function


def _not_imported() -> None:
    """A placeholder for verbs that are not requested."""


def run() -> None:
    """Run the program; exit with 0, 1 (bad input, one clear message, no traceback) or 2 (usage)."""
    try:
        try:
            _run(sys.argv[1:])
        finally:
            sys.stdout.flush()  # Fails here, not when the interpreter ends.
    except BrokenPipeError:
        # The reader of our output is gone (`| head`): not our error, and nothing more to print.
        _discard_output()
        sys.exit(1)
    except OSError as error:
        what = "the output" if error.filename is None else str(error.filename)
        _discard_output()
        from tastespace.cli import console

        console.print_error(f"error: {what} cannot be written or read ({error.strerror or error})")
        sys.exit(console.BAD_INPUT)


def _run(arguments: list[str]) -> None:
    if arguments[:1] == ["--version"]:
        sys.stdout.write(f"tastespace {__version__}\n")
        return
    from tastespace.cli import console

    console.install_warnings()
    console.accept_any_text()
    program(arguments[0] if arguments and arguments[0] in (*VERBS, *FORMERLY, *GROUPS) else "")()


def _discard_output() -> None:
    """Let what could not be written go, so that the end of the interpreter does not try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def __getattr__(name: str) -> Any:
    if name == "app":
        return program()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
