"""The distribution of a rating that is one of a few levels, whatever model it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.distributions.normal_mixture import SMALLEST

SAME_LEVEL = 1e-6  # ratings are kept in single precision


@dataclass(frozen=True, eq=False)
class Scale:
    """Levels, ascending."""

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


ROUNDING = 1e-9  # what a sum of probabilities may miss another by: 7 times 0.1 reaches 0.7


@dataclass(frozen=True, eq=False)
class LevelRatings:
    """A probability of each level, of n ratings. Quantiles, and so the ends of intervals, are levels."""

    probabilities: DoubleArray  # n x L, 1 together by row
    levels: DoubleArray  # L, ascending
    effective_draws: DoubleArray | None = None  # where draws are weighed: how many equal ones each rating rests on

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def low(self) -> float:
        return float(self.levels[0])

    @property
    def high(self) -> float:
        return float(self.levels[-1])

    def take(self, rows: Any) -> LevelRatings:
        """Some of the ratings."""
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
        """P(rating <= value), one value a rating."""
        return np.asarray(self._edges[np.arange(len(self)), self._scale.first_above(values)])

    def at_least(self, threshold: float) -> DoubleArray:
        """P(rating >= threshold); between two levels it is the higher one that has to be reached."""
        first = int(self._scale.first_reaching(threshold))
        if first == 0:
            return np.ones(len(self))
        return np.asarray(np.minimum(self.probabilities[:, first:].sum(1), 1.0))

    def level_probabilities(self) -> DoubleArray:
        """One column a level; n x L."""
        return self.probabilities

    def is_level(self, values: NDArray[Any]) -> BoolArray:
        """Which values are levels."""
        return self._scale.is_level(values)

    def log_score(self, values: NDArray[Any]) -> DoubleArray:
        """The log probability of the level that each rating turned out to be, or of the nearest one to it.

        Larger is better. No probability counts as less than 2e-308, so that all scores are finite.
        """
        of_nearest = self.probabilities[np.arange(len(self)), self._scale.nearest(values)]
        return np.log(np.maximum(of_nearest, SMALLEST))

    def crps(self, values: NDArray[Any]) -> DoubleArray:
        """The ranked probability score, each gap between levels weighted with its width; smaller is better.

        That is the continuous ranked probability score, int (P(rating <= x) - 1{value <= x})^2 dx, for between two
        levels nothing depends on x.
        """
        return self._scale.crps(self._edges, values)

    def cdf_steps(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        """P(rating < value) and P(rating <= value) of the nearest level.

        What lies between the two is what a randomised probability integral transform draws from.
        """
        return self._scale.cdf_steps(self._edges, values)

    def contains(self, values: NDArray[Any], coverages: Sequence[float]) -> BoolArray:
        """Whether each value lies in the central interval of each coverage, ends included; n x coverages."""
        values, slack = np.asarray(values, np.float64), self._scale.slack
        inside = [
            (values >= self.quantile((1 - coverage) / 2) - slack)
            & (values <= self.quantile((1 + coverage) / 2) + slack)
            for coverage in coverages
        ]
        return np.stack(inside, axis=1)

    def level_between(self, low: NDArray[Any], high: NDArray[Any]) -> DoubleArray:
        """P(low <= rating <= high), one pair of ends a rating."""
        return self._scale.between(self._edges, low, high)

    @cached_property
    def _scale(self) -> Scale:
        return Scale(self.levels)

    @cached_property
    def _edges(self) -> DoubleArray:
        """P(rating <= level), from 0 below the lowest to 1 at the highest; n x (L + 1)."""
        edges = np.zeros((len(self), len(self.levels) + 1))
        np.cumsum(self.probabilities, axis=1, out=edges[:, 1:])
        np.minimum(edges, 1.0, out=edges)
        edges[:, -1] = 1.0
        return edges
