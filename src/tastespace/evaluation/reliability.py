"""Whether yes comes as often as a model says: test ratings in bins by their predicted probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.evaluation.resampling import Interval, Sums
from tastespace.evaluation.tables import EMPTY, Table, figure
from tastespace.evaluation.yes_no import BINS, bin_of, is_yes


@dataclass(frozen=True)
class Bin:
    """Test ratings of which the model said about the same."""

    low: float
    high: float
    n: int
    predicted: float | None  # mean probability of yes; None if n is 0
    yes: float | None  # the share that was yes
    interval: Interval | None = None  # of that share

    @property
    def label(self) -> str:
        return f"{self.low:.1f}–{self.high:.1f}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; an empty bin has nulls."""
        return {
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "predicted": self.predicted,
            "yes": self.yes,
            "interval": None if self.interval is None else list(self.interval),
        }


@dataclass(frozen=True)
class Reliability:
    """All bins, from the least likely yes to the most likely."""

    bins: tuple[Bin, ...]

    @classmethod
    def of(cls, predicted: NDArray[Any], true: NDArray[Any], intervals: Mapping[str, Interval]) -> Reliability:
        """`intervals` has those of `reliability_sums` by the same names."""
        bins, yes, bounds = bin_of(predicted), is_yes(true), np.linspace(0, 1, BINS + 1)
        found = []
        for place in range(BINS):
            here = bins == place
            n = int(np.count_nonzero(here))
            found.append(
                Bin(
                    low=float(bounds[place]),
                    high=float(bounds[place + 1]),
                    n=n,
                    predicted=float(np.mean(predicted[here], dtype=np.float64)) if n else None,
                    yes=float(np.mean(yes[here])) if n else None,
                    interval=intervals.get(_key(place)),
                )
            )
        return cls(tuple(found))

    def to_list(self) -> list[dict[str, Any]]:
        """As JSON has it."""
        return [entry.to_dict() for entry in self.bins]

    def table(self) -> Table:
        """One row a bin."""
        rows = tuple(
            (
                *(entry.label, f"{entry.n:,}"),
                *((EMPTY, EMPTY) if entry.predicted is None else (f"{entry.predicted:.4f}", _share(entry))),
            )
            for entry in self.bins
        )
        title = "Reliability: how often yes came, by its predicted probability"
        return Table(title, ("predicted", "test ratings", "mean prediction", "share of yes"), rows)


def reliability_sums(predicted: NDArray[Any], true: NDArray[Any], users: NDArray[Any], n_users: int) -> dict[str, Sums]:
    """The share of yes in each bin, as sums by user, for resampling."""
    bins, yes = bin_of(predicted), is_yes(true)
    return {
        _key(place): Sums(
            np.bincount(users[bins == place], yes[bins == place], n_users).astype(np.float64),
            np.bincount(users[bins == place], minlength=n_users).astype(np.float64),
        )
        for place in range(BINS)
    }


def _share(entry: Bin) -> str:
    assert entry.yes is not None
    return figure(entry.yes, entry.interval)


def _key(place: int) -> str:
    return f"reliability, bin {place}"
