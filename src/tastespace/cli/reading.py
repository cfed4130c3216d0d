"""How a file of ratings is to be read, where the guess is wrong: one table for the options and the configuration."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tastespace.data.kinds import KINDS
from tastespace.errors import InvalidParameterError

Said = dict[str, Any]  # what was said about reading, as arguments of `read`; what was not said is left out
Verb = Callable[..., None]

# Arguments of `read`, and the options that say them.
OPTIONS: dict[str, Any] = {
    "items": Annotated[Path | None, typer.Option("--items", help="File of item titles, genres, years.")],
    "user": Annotated[str | None, typer.Option("--user-column", help="Name of the user column.")],
    "item": Annotated[str | None, typer.Option("--item-column", help="Name of the item column.")],
    "rating": Annotated[str | None, typer.Option("--rating-column", help="Name of the rating column.")],
    "time": Annotated[str | None, typer.Option("--time-column", help="Name of the time column.")],
    "separator": Annotated[
        str | None,
        typer.Option("--separator", help="What stands between the columns; \\t for a tab.", show_default=False),
    ],
    "header": Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns.")
    ],
    "duplicates": Annotated[
        str | None,
        typer.Option(
            "--duplicates",
            help="Of a pair rated twice: last, mean, sum or error.",
            show_default="last; sum of choices",
        ),
    ],
    "bad_lines": Annotated[
        str | None,
        typer.Option("--bad-lines", help="What cannot be read: error, or skip and count.", show_default="error"),
    ],
    "kind": Annotated[
        str | None,
        typer.Option("--kind", help=f"What the values say: {', '.join(KINDS)}.", show_default="guessed"),
    ],
}


def reads(*arguments: str) -> Callable[[Verb], Verb]:
    """Give a verb the options of these arguments of `read`, in the place of its parameter `said`, which gets them."""

    def with_options(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def run_verb(**typed: Any) -> None:
            said = {argument: typed.pop(argument) for argument in arguments}
            if said.get("separator") is not None:
                said["separator"] = said["separator"].replace("\\t", "\t")
            verb(**typed, said={argument: value for argument, value in said.items() if value is not None})

        signature = inspect.signature(verb, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.name == "said":
                options = ((argument, OPTIONS[argument]) for argument in arguments)
                parameters += [parameter.replace(name=name, annotation=kind, default=None) for name, kind in options]
            else:
                parameters.append(parameter)
        # What typer makes the options of.
        run_verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run_verb

    return with_options


def check_table(table: Mapping[str, Any]) -> Said:
    """The [data] table of a configuration, checked: the same arguments."""
    for key, value in table.items():
        if key not in OPTIONS:
            raise InvalidParameterError(f"[data] has no entry {key!r}; expected one of {', '.join(OPTIONS)}")
        kind, expected = (bool, "true or false") if key == "header" else (str, "a text")
        if not isinstance(value, kind):
            raise InvalidParameterError(f"[data] has {key} = {value!r}; expected {expected}")
    return dict(table)
