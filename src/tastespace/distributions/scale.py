"""The levels that ratings can be, such as stars, and the scores of distributions over them.

A distribution is given by its edges: P(rating <= level) from 0 below the lowest level to 1 at the highest, n x (L + 1).
Levels may be uneven, such as 1, 2, 5, 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray

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
