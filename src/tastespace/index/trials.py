"""What was tried and what it was worth: one setting of one structure, the target it was tried for, the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from tastespace.index.index import Index
from tastespace.index.measures import N_TH


@dataclass(frozen=True)
class Target:
    """What an index must reach to be chosen; None for what does not matter."""

    accuracy: float | None = None
    acceptance: float | None = None
    latency_ms: float | None = None
    k: int = 10
    n_th: int = N_TH

    def is_reached_by(self, trial: Trial) -> bool:
        """Whether a trial's figures are all good enough."""
        return (
            (self.accuracy is None or trial.accuracy >= self.accuracy)
            and (self.acceptance is None or trial.acceptance >= self.acceptance)
            and self.is_fast_enough(trial)
        )

    def is_fast_enough(self, trial: Trial) -> bool:
        return self.latency_ms is None or trial.microseconds <= 1000 * self.latency_ms

    def __str__(self) -> str:
        parts = [] if self.accuracy is None else [f"accuracy {self.accuracy:g}"]
        parts += [] if self.acceptance is None else [f"acceptance {self.acceptance:g}"]
        parts += [] if self.latency_ms is None else [f"at most {self.latency_ms:g} ms"]
        return " and ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        return cls(**_known(cls, content))


@dataclass(frozen=True)
class Trial:
    """One setting of a structure: how much it finds, how fast. Speed-ups of one query are over scans by one thread."""

    structure: str
    description: str
    parameters: Mapping[str, Any]
    accuracy: float
    acceptance: float
    worst: int  # the largest true position of a worst suggestion
    worst_99: int  # 99 of 100 queries have none beyond
    speedup: float  # over numpy's scan
    speedup_over_exact: float  # over ours
    microseconds: float
    build_seconds: float
    n_bytes: int
    batched_speedup: float | None = None  # many queries in one call; None where that was not measured
    batched_speedup_over_exact: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `bytes` is the memory of the index without the vectors."""
        content = asdict(self)
        content["bytes"] = content.pop("n_bytes")
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        return cls(**_known(cls, {**content, "n_bytes": content["bytes"]}))


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """An index that was chosen, and why: what an artifact keeps."""

    index: Index
    chosen: Trial
    curve: tuple[Trial, ...]  # all that was tried
    target: Target

    @property
    def reached(self) -> bool:
        return self.target.is_reached_by(self.chosen)


def _known(kind: type[Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """What this version knows of; a newer one may say more."""
    return {field.name: content[field.name] for field in fields(kind) if field.name in content}
