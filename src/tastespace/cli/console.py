"""What a person sees: text and tables on the way out, progress and complaints beside it."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table

from tastespace.errors import TastespaceWarning
from tastespace.progress import Observer, Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Lines are broken for a person's terminal only; a file or another program gets them whole.
UNBROKEN = 10_000
_NUMBERS = {"", "score", "mean", "rmse", "mae", "ratings", "cold ratings", "seconds"}  # columns, by name
_NUMBERS |= {"similarity", "contribution", "rating", "belief sd", "reduction", "sd"}
out = Console(highlight=False, width=None if sys.stdout.isatty() else UNBROKEN)
err = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else UNBROKEN)


def accept_any_text() -> None:
    """A terminal or pipe that cannot show a letter of a title gets a question mark, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def can_print(text: str) -> bool:
    """Whether the output has all these letters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def print_line(text: str = "") -> None:
    """A line of text as it is, whatever brackets it has."""
    out.print(text, markup=False)


def print_error(text: str) -> None:
    """The same beside the output, where warnings and errors go."""
    err.print(text, markup=False, soft_wrap=True)


def print_json(content: dict[str, Any]) -> None:
    """One object, for machines: in letters where the output has them all, escaped where not."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(json.dumps(content, ensure_ascii=not is_unicode, allow_nan=False) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """A table; columns of numbers (by their name) are aligned to the right."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        is_number = column in _NUMBERS
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Ours as one line; those of other libraries are for developers, not for a person at a terminal."""
    if issubclass(category, TastespaceWarning):
        err.print(f"warning: {message}", markup=False)


def install_warnings() -> None:
    warnings.simplefilter("always", TastespaceWarning)
    warnings.showwarning = show_warning


@contextmanager
def progress(*, in_bytes: bool = False) -> Iterator[Observer]:
    """An observer that draws a bar for each phase, if a person is watching; steps may be bytes."""
    if not err.is_terminal:
        yield silent
        return
    steps = (MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    counts = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else steps
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        *counts,
        TextColumn("{task.fields[figures]}"),
        console=err,
        transient=True,
    )
    tasks: dict[str, Any] = {}

    def observe(event: Progress) -> None:
        if event.phase not in tasks:
            # A download that goes on where it stopped must not count what was there as fast.
            tasks[event.phase] = bars.add_task(event.phase, total=event.total, completed=event.step, figures="")
        figures = "  ".join(f"{name} {value:.5g}" for name, value in event.stats.items())
        bars.update(tasks[event.phase], completed=event.step, total=event.total, figures=figures)

    with bars:
        yield observe


BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.:-=+*#"  # for a terminal or pipe without blocks
WIDEST = 12  # letters: 0 to 10 fits


def bars(probabilities: NDArray[Any], names: Sequence[str]) -> tuple[str, list[str]]:
    """A heading, from which level to which, and one bar a row; of many levels a letter stands for several.

    The highest letter of a row is its most likely level, the others are in proportion to it.
    """
    letters = BLOCKS if can_print(BLOCKS) else LETTERS
    together = -(-len(names) // WIDEST)
    import numpy as np

    groups = np.array_split(probabilities, -(-len(names) // together), axis=1)
    # The mean of each, not the sum: the last group may be smaller.
    heights = np.stack([group.mean(1) for group in groups], axis=1)
    heights = heights / np.maximum(heights.max(1, keepdims=True), np.finfo(np.float64).tiny)
    places = np.rint(heights * (len(letters) - 1)).astype(np.int64)
    heading = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
    return heading, ["".join(letters[place] for place in row) for row in places]


INTERVAL_OF_CHOICES = "scores are no ratings: an interval is where a score may still move to as more is chosen"
CHANCES_OF_CHOICES = "scores are probabilities of a choice; belief sd is how far one may still move as more is chosen"


def interval_heading(coverage: float, of_choices: bool) -> str:
    """The heading of a column."""
    return f"{100 * coverage:g}% {'interval' if of_choices else 'of ratings'}"


def meaning_of_choices(are_chances: bool) -> str:
    """What the columns mean where a model is one of choices. Of a probability nothing but 0 or 1 comes out."""
    return CHANCES_OF_CHOICES if are_chances else INTERVAL_OF_CHOICES
