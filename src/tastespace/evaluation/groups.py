"""Errors by the amount of training data: groups of users, or items, by their number of training ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray
from tastespace.evaluation.metrics.rating import Predicted
from tastespace.evaluation.resampling import EMPTY, Interval, Sums, figure, plain_measures, those_of
from tastespace.tables import TextTable, frame_of

# The smallest number of ratings of each group; 0 is the cold group.
STARTS = (0, 1, 6, 11, 21, 41, 81, 161, 321, 641)
PARTS = ("cold items", "cold users", "warm")
LABELS = (
    "0 (cold)",
    *(f"{start}-{after - 1}" for start, after in zip(STARTS[1:-1], STARTS[2:], strict=True)),
    f"> {STARTS[-1] - 1}",
)


@dataclass(frozen=True)
class Group:
    """Users, or items, with a similar number of training ratings, and the errors of their test ratings."""

    label: str  # number of training ratings per user or item
    members: int  # users or items with test ratings
    n: int  # test ratings
    measures: Mapping[str, float] = field(default_factory=dict[str, float])  # empty if n is 0
    intervals: Mapping[str, Interval] = field(default_factory=dict[str, Interval])

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON; an empty group has nulls."""
        group = {"training_ratings": self.label, "members": self.members, "n": self.n}
        return group | plain_measures(self.measures, self.intervals)


@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each test rating, by its user or by its item."""

    side: str  # "users" or "items"
    counts: NDArray[Any]  # one per test rating: the training ratings of its user or item
    members: NDArray[Any]  # one per test rating: its user or item
    starts: Sequence[int] = STARTS
    labels: Sequence[str] = LABELS

    @classmethod
    def cold_and_warm(cls, is_cold_user: BoolArray, is_cold_item: BoolArray, items: NDArray[Any]) -> Grouping:
        """Test ratings of items without training ratings, of users without any, and all others."""
        places = np.where(is_cold_item, 0, np.where(is_cold_user, 1, 2))
        return cls("parts", places, items, (0, 1, 2), PARTS)

    @cached_property
    def places(self) -> list[NDArray[np.int64]]:
        """The test ratings of each group."""
        group = np.searchsorted(self.starts, self.counts, side="right") - 1
        return [np.flatnonzero(group == place) for place in range(len(self.labels))]

    def sums(self, predicted: Predicted) -> dict[Any, Sums]:
        """The measures that are means over ratings, by group, for resampling."""
        filled = [(place, here) for place, here in enumerate(self.places) if len(here)]
        return {(self.side, at, name): sums for at, here in filled for name, sums in predicted.sums(here).items()}

    def groups(self, predicted: Predicted, intervals: Mapping[Any, Interval]) -> tuple[Group, ...]:
        """All groups, including empty ones; `intervals` has those of `sums` by the same keys."""
        return tuple(
            Group(
                label,
                members=len(np.unique(self.members[here])),
                n=len(here),
                measures=predicted.values(here) if len(here) else {},
                intervals=those_of(intervals, {name: (self.side, place, name) for name in predicted.names}),
            )
            for place, (label, here) in enumerate(zip(self.labels, self.places, strict=True))
        )


def group_of(counts: NDArray[Any]) -> NDArray[np.int64]:
    """The group of each number of training ratings."""
    return np.searchsorted(STARTS, counts, side="right") - 1


def groups_frame(
    column: str, groups: Mapping[str, Iterable[Group]], names: Iterable[str] | None = None, above: Any = ()
) -> pl.DataFrame:
    """One row per group and measure, by default those of the group; `column` names it, `above` are rows on top."""
    records = [
        {column: whose, "training_ratings": group.label, "members": group.members, "n": group.n}
        | measure_record(name, group.measures.get(name), group.intervals.get(name))
        for whose, theirs in groups.items()
        for group in theirs
        for name in (group.measures if names is None else names)
    ]
    schema = {column: pl.String, "training_ratings": pl.String, "members": pl.Int64, "n": pl.Int64}
    figures = dict.fromkeys(("value", "low", "high"), pl.Float64)
    return frame_of([*above, *records], {**schema, "measure": pl.String, **figures})


def measure_record(name: str, value: float | None, interval: Interval | None) -> dict[str, Any]:
    """A measure with the bounds of its interval, as columns of a frame."""
    low, high = (None, None) if interval is None else interval
    return {"measure": name, "value": value, "low": low, "high": high}


def groups_table(
    title: str,
    side: str,
    columns: Mapping[str, tuple[Sequence[Group], str]],  # by heading: the groups, and the measure to show
    *,
    empty: bool = True,
    intervals: bool = True,
) -> TextTable:
    """One row per group of "users" or "items"; empty groups have their own rows or are in a note."""
    groups = next((of for of, _ in columns.values()), ())
    rows = tuple(
        (
            *(group.label, f"{group.members:,}", f"{group.n:,}"),
            *(_cell(of[place], measure, intervals) for of, measure in columns.values()),
        )
        for place, group in enumerate(groups)
        if empty or group.n
    )
    left_out = [] if empty else [group.label for group in groups if not group.n]
    note = f"{EMPTY}: {', '.join(left_out)}" if left_out else ""
    title = f"{title} by the number of training ratings of the {side}"
    return TextTable(title, ("training ratings", f"test {side}", "test ratings", *columns), rows, note)


def _cell(group: Group, measure: str, intervals: bool) -> str:
    interval = group.intervals.get(measure) if intervals else None
    return figure(group.measures[measure], interval) if group.n else EMPTY
