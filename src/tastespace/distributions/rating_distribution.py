"""The distribution of a rating still to be given: intervals, probabilities of levels, chances to reach one, scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.distributions.normal_mixture import SMALLEST, NormalMixture

SAME_LEVEL = 1e-6  # ratings are kept in single precision


@dataclass(frozen=True, eq=False)
class Scale:
    """The levels that ratings can be, such as stars, ascending, and the scores of distributions over them.

    A distribution is given by its edges: P(rating <= level) from 0 below the lowest level to 1 at the highest,
    n x (L + 1). Levels may be uneven, such as 1, 2, 5, 10.
    """

    levels: DoubleArray

    @cached_property
    def slack(self) -> float:
        """How far apart two numbers may be that mean the same level: a hundredth of a step, or rounding."""
        if len(self.levels) > 1:
            return 0.01 * float(np.diff(self.levels).min())
        return SAME_LEVEL * float(np.abs(self.levels).max())

    @cached_property
    def midpoints(self) -> DoubleArray:
        return np.asarray((self.levels[1:] + self.levels[:-1]) / 2)

    def nearest(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Which level each value belongs to."""
        return np.searchsorted(self.midpoints, values)

    def first_reaching(self, threshold: Any) -> Any:
        """The place of the lowest level that is at least a threshold; L where there is none."""
        # Levels are single precision, what is asked for is not: 0.7 must find the level 0.7.
        return np.searchsorted(self.levels, np.asarray(threshold) - self.slack)

    def first_above(self, value: Any) -> Any:
        """The place of the lowest level that is more than a value; L where there is none."""
        return np.searchsorted(self.levels, np.asarray(value) + self.slack, side="right")

    def is_level(self, values: NDArray[Any]) -> BoolArray:
        nearest = self.levels[self.nearest(values)]
        return np.asarray(np.abs(nearest - values) <= SAME_LEVEL * np.maximum(np.abs(nearest), 1.0))

    def crps(self, edges: DoubleArray, values: NDArray[Any]) -> DoubleArray:
        """The ranked probability score, each gap between levels weighted with its width; values may lie between."""
        values = np.asarray(values, np.float64)
        beyond = np.maximum(self.levels[0] - values, 0) + np.maximum(values - self.levels[-1], 0)
        total = np.asarray(beyond)
        for place, (level, following) in enumerate(zip(self.levels[:-1], self.levels[1:], strict=True)):
            below, passed = edges[:, place + 1], np.clip(values, level, following) - level
            total += passed * below**2 + (following - level - passed) * (1 - below) ** 2
        return total

    def cdf_steps(self, edges: DoubleArray, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        """P(rating < level) and P(rating <= level) of the level nearest to each value."""
        rows, nearest = np.arange(len(edges)), self.nearest(values)
        low = edges[rows, nearest]
        return low, np.maximum(edges[rows, nearest + 1], low)

    def between(self, edges: DoubleArray, low: NDArray[Any], high: NDArray[Any]) -> DoubleArray:
        """P(low <= rating <= high), one pair of ends a rating."""
        rows = np.arange(len(edges))
        within = edges[rows, self.first_above(high)] - edges[rows, self.first_reaching(low)]
        return np.asarray(np.maximum(within, 0.0))


class ExpectedRating(Protocol):
    """A belief about the expected ratings of n pairs."""

    def mean(self) -> DoubleArray: ...

    def sd(self) -> DoubleArray:
        """How uncertain the expected rating is; that single ratings differ from it is not counted."""


NO_LEVELS = "these ratings have no levels"


class RatingDistribution(ABC):
    """The distributions of n ratings, on levels or on a continuous scale."""

    low: float  # the lowest possible rating
    high: float  # the highest possible rating
    levels: DoubleArray | None  # what ratings can be, ascending; None for a continuous scale
    # Where draws are weighed: how many equal ones each distribution rests on; None where all count the same.
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
        """What a rating falls below with this probability, within the range."""

    @abstractmethod
    def cdf(self, values: NDArray[Any]) -> DoubleArray:
        """P(rating <= value), one value a rating."""

    @abstractmethod
    def at_least(self, threshold: float) -> DoubleArray:
        """P(rating >= threshold); between two levels it is the higher one that has to be reached."""

    @abstractmethod
    def level_probabilities(self) -> DoubleArray:
        """One column a level; n x L. A ValueError on a continuous scale."""

    @abstractmethod
    def log_score(self, values: NDArray[Any]) -> DoubleArray:
        """The log probability of the level that each rating turned out to be, or else its log density; finite."""

    @abstractmethod
    def contains(self, values: NDArray[Any], coverages: Sequence[float]) -> BoolArray:
        """Whether each value lies in the central interval of each coverage, ends included; n x coverages."""

    def is_level(self, values: NDArray[Any]) -> BoolArray:
        """Which values are levels; all of them on a continuous scale."""
        return np.ones(len(values), np.bool_) if self.levels is None else self._scale.is_level(values)

    def crps(self, values: NDArray[Any]) -> DoubleArray:
        """The continuous ranked probability score of what each rating turned out to be; smaller is better.

        That is int (P(rating <= x) - 1{value <= x})^2 dx, in units of the ratings. Between two levels nothing depends
        on x, and the integral is a sum over the gaps: the ranked probability score, each gap weighted with its width.
        """
        return self._scale.crps(self._edges, values)

    def cdf_steps(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        """P(rating < value) and P(rating <= value), of the nearest level where there are levels.

        What lies between the two is what a randomised probability integral transform draws from.
        """
        return self._scale.cdf_steps(self._edges, values)

    def level_between(self, low: NDArray[Any], high: NDArray[Any]) -> DoubleArray:
        """P(low <= level of the rating <= high), one pair of ends a rating. A ValueError on a continuous scale."""
        return self._scale.between(self._edges, low, high)

    @cached_property
    def _scale(self) -> Scale:
        if self.levels is None:
            raise ValueError(NO_LEVELS)
        return Scale(self.levels)

    @property
    @abstractmethod
    def _edges(self) -> DoubleArray:
        """The distribution over the levels, from 0 below the lowest to 1 at the highest; n x (L + 1)."""


ROUNDING = 1e-9  # what a sum of probabilities may miss another by: 7 times 0.1 reaches 0.7


@dataclass(frozen=True, eq=False)
class LevelRatings(RatingDistribution):
    """A probability of each level, of n ratings. Quantiles, and so the ends of intervals, are levels."""

    probabilities: DoubleArray  # n x L, 1 together by row
    levels: DoubleArray  # L, ascending
    effective_draws: DoubleArray | None = None  # where draws are weighed: how many equal ones each rating rests on

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

    def at_least(self, threshold: float) -> DoubleArray:
        first = int(self._scale.first_reaching(threshold))
        if first == 0:
            return np.ones(len(self))
        return np.asarray(np.minimum(self.probabilities[:, first:].sum(1), 1.0))

    def level_probabilities(self) -> DoubleArray:
        return self.probabilities

    def log_score(self, values: NDArray[Any]) -> DoubleArray:
        """The log probability of the level that each rating turned out to be, or of the nearest one to it.

        Larger is better. No probability counts as less than 2e-308, so that all scores are finite.
        """
        of_nearest = self.probabilities[np.arange(len(self)), self._scale.nearest(values)]
        return np.log(np.maximum(of_nearest, SMALLEST))

    def contains(self, values: NDArray[Any], coverages: Sequence[float]) -> BoolArray:
        values, slack = np.asarray(values, np.float64), self._scale.slack
        inside = [
            (values >= self.quantile((1 - coverage) / 2) - slack)
            & (values <= self.quantile((1 + coverage) / 2) + slack)
            for coverage in coverages
        ]
        return np.stack(inside, axis=1)

    @cached_property
    def _edges(self) -> DoubleArray:
        """P(rating <= level), from 0 below the lowest to 1 at the highest; n x (L + 1)."""
        edges = np.zeros((len(self), len(self.levels) + 1))
        np.cumsum(self.probabilities, axis=1, out=edges[:, 1:])
        np.minimum(edges, 1.0, out=edges)
        edges[:, -1] = 1.0
        return edges


@dataclass(frozen=True, eq=False)
class NormalRatings(RatingDistribution):
    """Normal ratings around uncertain tastes, known to lie within a range.

    Where ratings are `levels` (stars), the density between the midpoints to the levels beside it belongs to a level;
    the lowest and the highest have all that lies beyond.
    """

    mixture: NormalMixture  # of the rating: belief and noise
    low: float
    high: float
    levels: DoubleArray | None = None  # ascending; None for a continuous scale

    def __len__(self) -> int:
        return len(self.mixture)

    def take(self, rows: Any) -> NormalRatings:
        return NormalRatings(self.mixture.take(rows), self.low, self.high, self.levels)

    @property
    def effective_draws(self) -> DoubleArray | None:  # type: ignore[override]
        return None if self.mixture.weights is None else self.mixture.effective_components

    def mean(self) -> DoubleArray:
        """Of the normal before it is cut to range and levels."""
        return self.mixture.mean()

    def sd(self) -> DoubleArray:
        """Of the normal before it is cut to range and levels."""
        return self.mixture.sd()

    def quantile(self, probability: float) -> DoubleArray:
        return np.clip(self.mixture.quantile(probability), self.low, self.high)

    def cdf(self, values: NDArray[Any]) -> DoubleArray:
        """P(rating <= value), one value a rating, of the normal before it is cut to range and levels."""
        return self.mixture.cdf(values)

    def at_least(self, threshold: float) -> DoubleArray:
        slack = SAME_LEVEL * max(abs(self.low), abs(self.high)) if self.levels is None else self._scale.slack
        if threshold <= self.low + slack:
            return np.ones(len(self))
        if threshold > self.high + slack:
            return np.zeros(len(self))
        if self.levels is not None:
            above = min(max(int(self._scale.first_reaching(threshold)), 1), len(self.levels) - 1)
            threshold = float(self._scale.midpoints[above - 1])
        return 1 - self.mixture.cdf(np.full(len(self), threshold))

    def level_probabilities(self) -> DoubleArray:
        # Each is right to 1e-6, so that of two that hardly differ the second may come out as the smaller one.
        return np.maximum(np.diff(self._edges, axis=1), 0.0)

    def log_score(self, values: NDArray[Any]) -> DoubleArray:
        """The log probability of the level that each rating turned out to be, or else its log density.

        Larger is better. A value that is no level counts as the nearest one. No probability counts as less than 2e-308,
        and on a continuous scale no component as narrower than single precision, so that all scores are finite.
        """
        if self.levels is None:
            width = float(np.finfo(np.float32).eps) * max(abs(self.low), abs(self.high), self.high - self.low, 1e-30)
            return self.mixture.log_density(values, least_sd=width)
        edges = np.concatenate([[-np.inf], self._scale.midpoints, [np.inf]])
        nearest = self._scale.nearest(values)
        return self.mixture.log_between(edges[nearest], edges[nearest + 1])

    def crps(self, values: NDArray[Any]) -> DoubleArray:
        """On a continuous scale it is that of the normal before it is cut to the range."""
        return self.mixture.crps(values) if self.levels is None else super().crps(values)

    def cdf_steps(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        return self._both_sides(values) if self.levels is None else super().cdf_steps(values)

    def contains(self, values: NDArray[Any], coverages: Sequence[float]) -> BoolArray:
        """Whether each value lies in the central interval of each coverage, ends included; n x coverages.

        The same as comparing with the quantiles, which lie within the range, but without looking for them.
        """
        # A quantile beyond the range is moved to its end, and so meets a value there.
        below, up_to = self._both_sides(values)
        passed, reached = np.where(values <= self.low, -np.inf, below), np.where(values >= self.high, np.inf, up_to)
        tails = (1 - np.asarray(coverages, np.float64)) / 2
        is_possible = (values >= self.low) & (values <= self.high)
        return is_possible[:, None] & (reached[:, None] >= tails) & (passed[:, None] <= 1 - tails)

    @cached_property
    def _edges(self) -> DoubleArray:
        """P(rating <= midpoint) between levels, from 0 below the lowest to 1 above the highest; n x (L + 1)."""
        midpoints = self._scale.midpoints
        edges = np.zeros((len(self), len(midpoints) + 2))
        edges[:, 1:-1] = self.mixture.cdf(np.broadcast_to(midpoints, (len(self), len(midpoints))))
        edges[:, -1] = 1.0
        return edges

    def _both_sides(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        """P(rating < value) and P(rating <= value) before it is cut, which are the same where everything has spread."""
        up_to = self.mixture.cdf(values)
        return up_to if self.mixture.sds.all() else self.mixture.cdf(values, inclusive=False), up_to
