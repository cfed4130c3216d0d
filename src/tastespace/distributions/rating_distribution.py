"""What can be asked of a rating still to be given, and of what is believed about its expectation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray


class ExpectedRating(Protocol):
    """A belief about the expected ratings of n pairs."""

    def mean(self) -> DoubleArray: ...

    def sd(self) -> DoubleArray:
        """How uncertain the expected rating is; that single ratings differ from it is not counted."""
        ...


class RatingDistribution(Protocol):
    """The distributions of n ratings, on levels or on a continuous scale."""

    def __len__(self) -> int: ...

    @property
    def low(self) -> float:
        """The lowest possible rating."""
        ...

    @property
    def high(self) -> float:
        """The highest possible rating."""
        ...

    @property
    def levels(self) -> DoubleArray | None:
        """What ratings can be, ascending; None for a continuous scale."""
        ...

    @property
    def effective_draws(self) -> DoubleArray | None:
        """Where draws are weighed: how many equal ones each distribution rests on; None where all count the same."""
        ...

    def take(self, rows: Any) -> Self:
        """Some of the ratings."""
        ...

    def mean(self) -> DoubleArray: ...

    def sd(self) -> DoubleArray: ...

    def quantile(self, probability: float) -> DoubleArray:
        """What a rating falls below with this probability, within the range."""
        ...

    def cdf(self, values: NDArray[Any]) -> DoubleArray:
        """P(rating <= value), one value a rating."""
        ...

    def at_least(self, threshold: float) -> DoubleArray:
        """P(rating >= threshold); between two levels it is the higher one that has to be reached."""
        ...

    def level_probabilities(self) -> DoubleArray:
        """One column a level; n x L. A ValueError on a continuous scale."""
        ...

    def is_level(self, values: NDArray[Any]) -> BoolArray:
        """Which values are levels; all of them on a continuous scale."""
        ...

    def log_score(self, values: NDArray[Any]) -> DoubleArray:
        """The log probability of the level that each rating turned out to be, or else its log density; finite."""
        ...

    def crps(self, values: NDArray[Any]) -> DoubleArray:
        """The continuous ranked probability score of what each rating turned out to be; smaller is better."""
        ...

    def cdf_steps(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        """P(rating < value) and P(rating <= value), of the nearest level where there are levels."""
        ...

    def contains(self, values: NDArray[Any], coverages: Sequence[float]) -> BoolArray:
        """Whether each value lies in the central interval of each coverage, ends included; n x coverages."""
        ...

    def level_between(self, low: NDArray[Any], high: NDArray[Any]) -> DoubleArray:
        """P(low <= level of the rating <= high), one pair of ends a rating. A ValueError on a continuous scale."""
        ...
