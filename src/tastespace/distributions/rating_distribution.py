"""What can be asked of a rating still to be given, and of what is believed about its expectation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.distributions.level_ratings import SAME_LEVEL, Scale
from tastespace.distributions.normal_mixture import NormalMixture


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


NO_LEVELS = "these ratings have no levels"


@dataclass(frozen=True, eq=False)
class NormalRatings:
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
        """Some of the ratings."""
        return NormalRatings(self.mixture.take(rows), self.low, self.high, self.levels)

    @property
    def effective_draws(self) -> DoubleArray | None:
        """Where draws are weighed: how many equal ones each rating rests on."""
        return None if self.mixture.weights is None else self.mixture.effective_components

    def mean(self) -> DoubleArray:
        """Of the normal before it is cut to range and levels."""
        return self.mixture.mean()

    def sd(self) -> DoubleArray:
        """Of the normal before it is cut to range and levels."""
        return self.mixture.sd()

    def quantile(self, probability: float) -> DoubleArray:
        """What a rating falls below with this probability, within the range."""
        return np.clip(self.mixture.quantile(probability), self.low, self.high)

    def cdf(self, values: NDArray[Any]) -> DoubleArray:
        """P(rating <= value), one value a rating, of the normal before it is cut to range and levels."""
        return self.mixture.cdf(values)

    def at_least(self, threshold: float) -> DoubleArray:
        """P(rating >= threshold); between two levels it is the higher one that has to be reached."""
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
        """One column a level; n x L."""
        # Each is right to 1e-6, so that of two that hardly differ the second may come out as the smaller one.
        return np.maximum(np.diff(self._edges, axis=1), 0.0)

    def is_level(self, values: NDArray[Any]) -> BoolArray:
        """Which values are levels; all of them on a continuous scale."""
        if self.levels is None:
            return np.ones(len(values), np.bool_)
        return self._scale.is_level(values)

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
        """The continuous ranked probability score of what each rating turned out to be; smaller is better.

        That is int (P(rating <= x) - 1{value <= x})^2 dx, in units of the ratings. Between two levels nothing depends
        on x, and the integral is a sum over the gaps: the ranked probability score, each gap weighted with its width.
        On a continuous scale it is that of the normal before it is cut to the range.
        """
        if self.levels is None:
            return self.mixture.crps(values)
        return self._scale.crps(self._edges, values)

    def cdf_steps(self, values: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
        """P(rating < value) and P(rating <= value), of the nearest level where there are levels.

        What lies between the two is what a randomised probability integral transform draws from.
        """
        if self.levels is None:
            return self._both_sides(values)
        return self._scale.cdf_steps(self._edges, values)

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

    def level_between(self, low: NDArray[Any], high: NDArray[Any]) -> DoubleArray:
        """P(low <= level of the rating <= high), one pair of ends a rating."""
        return self._scale.between(self._edges, low, high)

    @cached_property
    def _scale(self) -> Scale:
        if self.levels is None:
            raise ValueError(NO_LEVELS)
        return Scale(self.levels)

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
