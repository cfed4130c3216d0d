"""What was found about the number of factors: by one way, or by several on the same split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.tables import UNDEFINED, Table, figure


@dataclass(frozen=True, eq=False)
class RankTrace:
    """The way there, one entry a step."""

    loss: DoubleArray  # a rating: squared error, with the penalty of the factors where the method has one
    rank: DoubleArray
    temperature: DoubleArray | None = None
    first: int = 0  # the first step that counts
    last: int | None = None  # the first that counts no longer

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = {"loss": self.loss.tolist(), "rank": self.rank.tolist(), "first": self.first}
        found |= {} if self.last is None else {"last": self.last}
        return found | ({} if self.temperature is None else {"temperature": self.temperature.tolist()})


@dataclass(frozen=True, eq=False)
class RankChoice:
    """The number of factors that a method takes, and what that is worth."""

    method: str
    rank: int
    rmse: float  # on the held-out ratings
    seconds: float
    posterior: Mapping[int, float] | None = None  # over the rank, where the method has one
    tried: Mapping[int, float] | None = None  # RMSE of each rank on a part of the training ratings, of a grid
    cooled_rank: int | None = None  # where cooling on towards 0 led, which only optimises
    trace: RankTrace | None = None

    @property
    def probability(self) -> float | None:
        """Of the rank, where the method has a posterior."""
        return None if self.posterior is None else self.posterior.get(self.rank, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = {
            "method": self.method,
            "rank": self.rank,
            "rmse": self.rmse,
            "seconds": self.seconds,
        }
        for name in ("posterior", "tried"):
            shares: Mapping[int, float] | None = getattr(self, name)
            if shares is not None:
                found[name] = {str(rank): value for rank, value in sorted(shares.items())}
        if self.cooled_rank is not None:
            found["cooled_rank"] = self.cooled_rank
        return found if self.trace is None else found | {"trace": self.trace.to_dict()}

    def __str__(self) -> str:
        sure = "" if self.probability is None else f" (probability {self.probability:.2f})"
        return f"{self.method}: rank {self.rank}{sure}, RMSE {self.rmse:.4f}, {self.seconds:.1f} s"


@dataclass(frozen=True, eq=False)
class RankChoices(Sequence[RankChoice]):
    """Several methods on the same split."""

    entries: tuple[RankChoice, ...]
    n_train: int
    n_test: int

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[RankChoice]:
        return iter(self.entries)

    def __getitem__(self, which: Any) -> Any:
        """By its place, or by the name of the method."""
        if not isinstance(which, str):
            return self.entries[which]
        for entry in self.entries:
            if entry.method == which:
                return entry
        raise InvalidParameterError(
            f"there is no method {which!r} among these; expected one of "
            f"{', '.join(entry.method for entry in self.entries)}"
        )

    @property
    def best(self) -> RankChoice:
        """The one with the least error on held-out ratings."""
        return min(self.entries, key=lambda entry: entry.rmse)

    def table(self) -> Table:
        """Chosen rank, how sure that is, error, seconds."""
        rows = tuple(
            (
                entry.method,
                str(entry.rank),
                UNDEFINED if entry.probability is None else f"{entry.probability:.2f}",
                figure(entry.rmse),
                f"{entry.seconds:.1f}",
            )
            for entry in self.entries
        )
        title = f"the number of factors, chosen on {self.n_train:,} ratings; errors on {self.n_test:,} others"
        return Table(title, ("method", "rank", "probability", "RMSE", "seconds"), rows)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"rows": [entry.to_dict() for entry in self], "train": self.n_train, "test": self.n_test}

    def __str__(self) -> str:
        return str(self.table())


def mean_over_chains(values: DoubleArray) -> DoubleArray:
    """One number a sweep."""
    return np.asarray(np.mean(values, axis=0), np.float64)
