"""Progress of long computations: plain events, rendered by the observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


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
