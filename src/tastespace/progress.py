"""Progress of long computations: plain events, rendered by the observer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Step `step` of `total` of a phase is done; `stats` are the current figures."""

    phase: str
    step: int
    total: int | None = None
    stats: Mapping[str, float] = field(default_factory=dict[str, float])


Observer = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """The default observer, which does nothing."""


def in_notebook() -> bool:
    """Whether this code runs in a cell of a notebook."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and "IPKernelApp" in running.config


def shown(observer: Observer) -> Observer:
    """The observer; in place of the default one, in a notebook, one that shows a line below the cell."""
    return _Line() if observer is silent and in_notebook() else observer


class _Line:
    """One line of a notebook that is written again and again, at most a few times per second."""

    EVERY = 0.2  # seconds

    def __init__(self) -> None:
        self._handle: Any = None
        self._written = 0.0

    def __call__(self, progress: Progress) -> None:
        is_last = progress.total is not None and progress.step >= progress.total
        now = time.monotonic()
        if now - self._written < self.EVERY and not is_last:
            return
        self._written = now
        of = "" if progress.total is None else f" of {progress.total:,}"
        figures = "".join(f", {name} {value:.4g}" for name, value in progress.stats.items())
        text = f"{progress.phase}: {progress.step:,}{of}{figures}"
        display: Any = import_module("IPython.display")
        if self._handle is None:
            self._handle = display.display(display.Pretty(text), display_id=True)
        else:
            self._handle.update(display.Pretty(text))
