"""The figures of a set of ratings that a person wants to see first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tastespace.data.kinds import Kind


@dataclass(frozen=True)
class Description:
    """What `Ratings.describe()` says."""

    n_ratings: int
    n_users: int
    n_items: int
    density: float
    mean: float
    standard_deviation: float
    kind: Kind
    kind_reason: str  # how it is known
    minimum: float
    maximum: float
    levels: tuple[float, ...] | None  # the distinct values, if there are few
    per_user: tuple[int, float, int]  # ratings a user: fewest, median, most
    per_item: tuple[int, float, int]
    first: str | None  # day of the first rating
    last: str | None
    has_titles: bool
    merged: int  # duplicates merged away
    rejected: int = 0  # lines that could not be read, set aside

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each line, for a table."""
        lines = [
            ("ratings", f"{self.n_ratings:,}{self._set_aside()}"),
            ("users", f"{self.n_users:,}, each with {_spread(self.per_user)} ratings"),
            ("items", f"{self.n_items:,}, each with {_spread(self.per_item)} ratings"),
            ("filled", f"{self.density:.2%} of all pairs"),
            ("values", f"{self.minimum:g} to {self.maximum:g}, mean {self.mean:.3f}, sd {self.standard_deviation:.3f}"),
        ]
        lines.append(("kind", f"{self.kind} ({self.kind_reason})"))
        if self.levels is not None:
            lines.append(("levels", ", ".join(f"{level:g}" for level in self.levels)))
        if self.first is not None:
            lines.append(("times", f"{self.first} to {self.last}"))
        lines.append(("titles", "yes" if self.has_titles else "no"))
        return lines

    def _set_aside(self) -> str:
        """What became of the others that were read, if there were others."""
        n_read = self.n_ratings + self.merged + self.rejected
        parts = [f"{self.merged:,} duplicates merged"] if self.merged else []
        parts += [f"{self.rejected:,} rejected"] if self.rejected else []
        return f" of {n_read:,} read ({', '.join(parts)})" if parts else ""

    def __str__(self) -> str:
        width = max(len(label) for label, _ in self.rows())
        return "\n".join(f"{label:<{width}}  {text}" for label, text in self.rows())


def _spread(quartiles: tuple[int, float, int]) -> str:
    fewest, median, most = quartiles
    return f"{fewest:,} to {most:,} (median {median:g})"
