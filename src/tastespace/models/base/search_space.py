"""What `tune` may search: the settings that a model does not learn by itself, declared in its own class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError

Unit = Callable[[Ratings], float]


def no_unit(ratings: Ratings) -> float:
    """The unit of a setting that means the same whatever the ratings are."""
    return 1.0


def spread(ratings: Ratings) -> float:
    """The unit of what is measured in ratings: their standard deviation."""
    return float(np.std(ratings.values, dtype=np.float64)) or 1.0


def thousand_users(ratings: Ratings) -> float:
    """The unit of what is held against the number of users who have rated an item."""
    return ratings.n_users / 1000


def cells(ratings: Ratings) -> float:
    """The unit of what is held against a whole row of users or of items."""
    return float(np.sqrt(ratings.n_users * ratings.n_items))


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, in multiples of the unit; tried evenly on a logarithmic scale."""

    low: float
    high: float
    whole: bool = False
    unit: Unit = no_unit

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < np.inf:
            raise InvalidParameterError(
                f"a range goes from {self.low:g} to {self.high:g}; expected numbers above 0, the lower one first"
            )
        if self.whole and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise InvalidParameterError(
                f"a range goes from {self.low:g} to {self.high:g}; expected whole numbers for this setting"
            )

    def value(self, searched: Any, ratings: Ratings) -> Any:
        """What a model is given for these ratings: to three digits, so that it can be written down as it was tried."""
        return int(searched) if self.whole else float(f"{searched * self.unit(ratings):.3g}")

    def between(self, low: float, high: float, ratings: Ratings) -> Range:
        """The same setting with other ends: what a model would be given for these ratings."""
        unit = self.unit(ratings)
        return Range(low / unit, high / unit, self.whole, self.unit)

    def describe(self, ratings: Ratings) -> str:
        """Both ends, for these ratings."""
        return f"{self.value(self.low, ratings):g}..{self.value(self.high, ratings):g}"


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def value(self, searched: Any, ratings: Ratings) -> Any:
        """What a model is given: the same for all ratings."""
        return searched

    def describe(self, ratings: Ratings) -> str:
        """All values."""
        return ", ".join(map(str, self.values))


SearchSpace = Mapping[str, Range | Choice]  # by the name of the parameter

FACTORS = Range(4, 128, whole=True)
MANY_FACTORS = Range(8, 256, whole=True)
