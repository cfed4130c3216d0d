"""The predictive distribution of a rating: intervals, probabilities of levels or of reaching one, scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray

SAME_LEVEL = 1e-6  # ratings are kept in single precision
SMALLEST = float(np.finfo(np.float64).tiny)  # lower bound of a probability when its logarithm is taken


@dataclass(frozen=True, eq=False)
class Scale:
    """The possible levels of ratings, such as stars, ascending. They may be uneven, such as 1, 2, 5, 10."""

    levels: DoubleArray

    @cached_property
    def slack(self) -> float:
        """The tolerance within which two numbers mean the same level: a hundredth of a step, or rounding."""
        if len(self.levels) > 1:
            return 0.01 * float(np.diff(self.levels).min())
        return SAME_LEVEL * float(np.abs(self.levels).max())

    @cached_property
    def midpoints(self) -> DoubleArray:
        return np.asarray((self.levels[1:] + self.levels[:-1]) / 2)

    def nearest(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The position of the level nearest to each value."""
        return np.searchsorted(self.midpoints, values)

    def first_reaching(self, threshold: Any) -> Any:
        """The position of the lowest level that is at least a threshold; L if there is none."""
        # Levels are single precision, thresholds are not: 0.7 must find the level 0.7.
        return np.searchsorted(self.levels, np.asarray(threshold) - self.slack)

    def first_above(self, value: Any) -> Any:
        """The position of the lowest level above a value; L if there is none."""
        return np.searchsorted(self.levels, np.asarray(value) + self.slack, side="right")

    def is_level(self, values: NDArray[Any]) -> BoolArray:
        nearest = self.levels[self.nearest(values)]
        return np.asarray(np.abs(nearest - values) <= SAME_LEVEL * np.maximum(np.abs(nearest), 1.0))


class ExpectedRating(Protocol):
    """A belief about the expected ratings of n pairs."""

    def mean(self) -> DoubleArray: ...

    def sd(self) -> DoubleArray:
        """The uncertainty of the expected rating, without the noise of single ratings."""


NO_LEVELS = "these ratings have no levels"


class RatingDistribution(ABC):
    """The distributions of n ratings, on levels or on a continuous scale."""

    low: float  # the lowest possible rating
    high: float  # the highest possible rating
    levels: DoubleArray | None  # the possible ratings, ascending; None for a continuous scale
    # Effective number of draws per distribution if draws are weighted; None if all count the same.
    effective_draws: DoubleArray | None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Any) -> Self:
        """Some of the ratings."""

    @abstractmethod
    def mean(self) -> DoubleArray: ...

    @abstractmethod
    def sd(self) -> DoubleArray: ...

    @abstractmethod
    def quantile(self, probability: float) -> DoubleArray:
        """The value that a rating falls below with this probability, within the range."""

    @abstractmethod
    def cdf(self, values: NDArray[Any]) -> DoubleArray:
        """P(rating <= value), one value per rating."""

    @abstractmethod
    def at_least(self, threshold: float | NDArray[Any]) -> DoubleArray:
        """P(rating >= threshold), for one threshold or one per rating; between two levels the higher one counts."""

    @abstractmethod
    def level_probabilities(self) -> DoubleArray:
        """One column per level; n x L. A ValueError on a continuous scale."""

    @abstractmethod
    def log_score(self, values: NDArray[Any]) -> DoubleArray:
        """The log probability of the level of each observed rating, or its log density if continuous; finite."""

    @abstractmethod
    def contains(self, values: NDArray[Any], coverages: Sequence[float]) -> BoolArray:
        """Whether each value lies in the central interval of each coverage, ends included; n x coverages."""

    def is_level(self, values: NDArray[Any]) -> BoolArray:
        """Which values are levels; all of them on a continuous scale."""
        return np.ones(len(values), np.bool_) if self.levels is None else self._scale.is_level(values)

    def crps(self, values: NDArray[Any]) -> DoubleArray:
        """The continuous ranked probability score of each observed rating; smaller is better.

        That is int (P(rating <= x) - 1{value <= x})^2 dx, in units of the ratings. Between two levels nothing depends
        on x, and the integral is a sum over the gaps: the ranked probability score, each gap weighted with its width.
        """
        levels, values = self._scale.levels, np.asarray(values, np.float64)
        total = np.asarray(np.maximum(levels[0] - values, 0) + np.maximum(values - levels[-1], 0))  # beyond the range
        for place, (level, following) in enumerate(zip(levels[:-1], levels[1:], strict=True)):
            below, passed = self._edges[:, place + 1], np.clip(values, level, following) - level
            total += passed * below**2 + (following - level - passed) * (1 - below) ** 2
        return total

    def cdf_steps(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        """P(rating < value) and P(rating <= value), at the nearest level if there are levels.

        A randomised probability integral transform draws from the interval between the two.
        """
        rows, nearest = np.arange(len(self)), self._scale.nearest(values)
        low = self._edges[rows, nearest]
        return low, np.maximum(self._edges[rows, nearest + 1], low)

    def level_between(self, low: NDArray[Any], high: NDArray[Any]) -> DoubleArray:
        """P(low <= level of the rating <= high), one pair of ends per rating. A ValueError on a continuous scale."""
        rows, scale = np.arange(len(self)), self._scale
        within = self._edges[rows, scale.first_above(high)] - self._edges[rows, scale.first_reaching(low)]
        return np.asarray(np.maximum(within, 0.0))

    @cached_property
    def _scale(self) -> Scale:
        if self.levels is None:
            raise ValueError(NO_LEVELS)
        return Scale(self.levels)

    @property
    @abstractmethod
    def _edges(self) -> DoubleArray:
        """The distribution over the levels, from 0 below the lowest to 1 at the highest; n x (L + 1)."""


ROUNDING = 1e-9  # rounding of sums of probabilities: 7 times 0.1 reaches 0.7


@dataclass(frozen=True, eq=False)
class LevelRatings(RatingDistribution):
    """The probability of each level for n ratings. Quantiles, and so the ends of intervals, are levels."""

    probabilities: DoubleArray  # n x L, rows sum to 1
    levels: DoubleArray  # L, ascending
    effective_draws: DoubleArray | None = None  # effective number of draws per rating, if draws are weighted

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def low(self) -> float:  # type: ignore[override]
        return float(self.levels[0])

    @property
    def high(self) -> float:  # type: ignore[override]
        return float(self.levels[-1])

    def take(self, rows: Any) -> LevelRatings:
        draws = None if self.effective_draws is None else self.effective_draws[rows]
        return LevelRatings(self.probabilities[rows], self.levels, draws)

    def mean(self) -> DoubleArray:
        return np.asarray(self.probabilities @ self.levels)

    def sd(self) -> DoubleArray:
        apart = self.levels - self.mean()[:, None]
        return np.asarray(np.sqrt(np.einsum("nl,nl->n", self.probabilities, apart**2)))

    def quantile(self, probability: float) -> DoubleArray:
        """The lowest level that a rating is at most with this probability."""
        is_reached = self._edges[:, 1:] >= probability - ROUNDING
        return np.asarray(self.levels[is_reached.argmax(1)])

    def cdf(self, values: NDArray[Any]) -> DoubleArray:
        return np.asarray(self._edges[np.arange(len(self)), self._scale.first_above(values)])

    def at_least(self, threshold: float | NDArray[Any]) -> DoubleArray:
        first = np.broadcast_to(self._scale.first_reaching(threshold), len(self))
        return np.asarray(1 - self._edges[np.arange(len(self)), first])

    def level_probabilities(self) -> DoubleArray:
        return self.probabilities

    def log_score(self, values: NDArray[Any]) -> DoubleArray:
        """The log probability of the level of each observed rating, or of the level nearest to it.

        Larger is better. No probability counts as less than 2e-308, so that all scores are finite.
        """
        of_nearest = self.probabilities[np.arange(len(self)), self._scale.nearest(values)]
        return np.log(np.maximum(of_nearest, SMALLEST))

    def contains(self, values: NDArray[Any], coverages: Sequence[float]) -> BoolArray:
        values, slack = np.asarray(values, np.float64), self._scale.slack

        def inside(coverage: float) -> BoolArray:
            low, high = self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)
            return np.asarray((values >= low - slack) & (values <= high + slack))

        return np.stack([inside(coverage) for coverage in coverages], axis=1)

    @cached_property
    def _edges(self) -> DoubleArray:
        """P(rating <= level), from 0 below the lowest to 1 at the highest; n x (L + 1)."""
        edges = np.zeros((len(self), len(self.levels) + 1))
        np.cumsum(self.probabilities, axis=1, out=edges[:, 1:])
        np.minimum(edges, 1.0, out=edges)
        edges[:, -1] = 1.0
        return edges
