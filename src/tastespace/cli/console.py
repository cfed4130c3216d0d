"""Output of the program: text, tables and JSON on standard output; progress, warnings and errors on standard error."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from rich import progress as bar
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from tastespace.errors import TastespaceWarning
from tastespace.progress import Observer, Progress, silent

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from tastespace.tables import TextTable

BAD_INPUT, INTERRUPTED = 1, 130  # exit codes
# Lines are wrapped for a terminal only; a file or another program gets them whole.
UNBROKEN = 10_000
_NUMBERS = {"", "score", "mean", "rmse", "mae", "ratings", "cold ratings", "seconds"}  # right-aligned columns
_NUMBERS |= {"similarity", "contribution", "rating", "belief sd", "reduction", "sd", "noise sd"}
_NUMBERS |= {"90 % interval", "more than average"}
out = Console(highlight=False, width=None if sys.stdout.isatty() else UNBROKEN)
err = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else UNBROKEN)


class PlainTypes:
    """Help without the type of flags (`<bool>`), and with that of one value where several are taken (`<list[str]>`)."""

    def get_params(self, context: Any) -> list[Any]:
        params: list[Any] = super().get_params(context)  # type: ignore[misc]
        for param in params:
            if show := getattr(param, "display_type", None):  # typer before 0.29 has no such types.
                param.display_type = partial(_plain_type, show, getattr(param, "is_flag", False))
        return params


def _plain_type(show: Callable[[Any], str], is_flag: bool, context: Any) -> str:
    return "" if is_flag else re.sub(r"list\[(.*)\]", lambda found: found[1].lower(), show(context))


class Command(PlainTypes, TyperCommand):
    """A verb."""


class Group(PlainTypes, TyperGroup):
    """The program, or a group of verbs."""


def accept_any_text() -> None:
    """Print a question mark, not an error, for a character that the terminal or pipe cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def can_print(text: str) -> bool:
    """Whether the encoding of the output has all these characters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# What a terminal obeys, or what changes the order of the text beside it.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_BREAKS = re.compile(r"[\t\n]")


def visible(text: str) -> str:
    """The text with escapes in place of control characters: ids, titles and file names are shown, not obeyed."""
    return _CONTROLS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def print_line(*lines: str) -> None:
    """Print lines as they are, whatever brackets they have."""
    if lines:
        out.print(visible("\n".join(lines)), markup=False)


def print_error(text: str) -> None:
    """Print a line beside the output, where warnings and errors go."""
    err.print(visible(text), markup=False, soft_wrap=True)


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object; characters are escaped where the output is not Unicode."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(content, ensure_ascii=not is_unicode, allow_nan=False)
    # The same text to a reader of JSON: terminals obey these, too.
    sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_result(as_json: bool, content: dict[str, Any], *lines: str) -> None:
    """Print the content as JSON, or else the lines."""
    if as_json:
        print_json(content)
    else:
        print_line(*lines)


def print_rows(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = _NUMBERS, in_box: bool = False
) -> None:
    """Print a table; columns of numbers, known by their names, are right-aligned."""
    shown = RichTable() if in_box else RichTable(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        shown.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(_BREAKS.sub(_escaped, visible(cell))) for cell in row))
    out.print(shown)


def print_table(table: TextTable) -> None:
    """Print a result: the title above, names to the left and figures to the right, and its note below."""
    out.print(f"\n{visible(table.title)}", markup=False, style="bold")
    print_rows(table.columns, table.rows, numbers=table.columns[1:])
    if table.note:
        print_line(table.note)


def print_entries(
    table: pl.DataFrame, columns: Mapping[str, str], *, extra: Sequence[Sequence[str]] = (), in_box: bool = False
) -> None:
    """Print the rows of a result: a heading and a format string per column, without titles where there are none.

    `extra` are cells that go below the rows.
    """
    has_titles = "title" in table.columns
    shown = {heading: text for heading, text in columns.items() if heading != "title" or has_titles}
    rows = [
        [text.format(**{**row, "title": row.get("title") or ""}) for text in shown.values()]
        for row in table.rows(named=True)
    ]
    print_rows(list(shown), [*rows, *(cells[: len(shown)] for cells in extra)], in_box=in_box)


def show_warning(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
    """Print our own warnings as one line; those of other libraries are for developers, and are dropped."""
    if issubclass(category, TastespaceWarning):
        err.print(visible(f"warning: {message}"), markup=False)


def install_warnings() -> None:
    warnings.simplefilter("always", TastespaceWarning)
    warnings.showwarning = show_warning


@contextmanager
def progress(*, in_bytes: bool = False) -> Iterator[Observer]:
    """An observer that draws a bar for each phase if standard error is a terminal; steps may be bytes."""
    if not err.is_terminal:
        yield silent
        return
    steps = (bar.MofNCompleteColumn(), bar.TimeElapsedColumn(), bar.TextColumn("left"), bar.TimeRemainingColumn())
    counts = (bar.DownloadColumn(), bar.TransferSpeedColumn()) if in_bytes else steps
    bars = bar.Progress(
        bar.TextColumn("{task.description}"),
        bar.BarColumn(),
        *counts,
        bar.TextColumn("{task.fields[figures]}"),
        console=err,
        transient=True,
    )
    tasks: dict[str, Any] = {}

    def observe(event: Progress) -> None:
        if event.phase not in tasks:
            # A resumed download must not count the part that was there already as speed.
            tasks[event.phase] = bars.add_task(event.phase, total=event.total, completed=event.step, figures="")
        figures = "  ".join(f"{name} {value:.5g}" for name, value in event.stats.items())
        bars.update(tasks[event.phase], completed=event.step, total=event.total, figures=figures)

    with bars:
        yield observe


BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.:-=+*#"  # for a terminal or pipe without block characters
MAX_WIDTH = 12  # characters: 0 to 10 fits


def draw_bars(probabilities: NDArray[Any], names: Sequence[str]) -> tuple[str, list[str]]:
    """Draw a distribution over levels: the heading of the column, and one bar per row.

    The highest character of a row is its most likely level, the others are in proportion to it. With many levels each
    character is the mean of several.
    """
    import numpy as np

    letters = BLOCKS if can_print(BLOCKS) else LETTERS
    together = -(-len(names) // MAX_WIDTH)
    groups = np.array_split(probabilities, -(-len(names) // together), axis=1)
    # The mean of each group, not the sum: the last group may be smaller.
    heights = np.stack([group.mean(1) for group in groups], axis=1)
    heights = heights / np.maximum(heights.max(1, keepdims=True), np.finfo(np.float64).tiny)
    places = np.rint(heights * (len(letters) - 1)).astype(np.int64)
    heading = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
    return heading, ["".join(letters[place] for place in row) for row in places]
