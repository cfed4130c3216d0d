"""What a model with a posterior said of each test rating, held against what the rating was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix
from tastespace.distributions.rating_distribution import RatingDistribution
from tastespace.errors import InvalidParameterError
from tastespace.models.posterior import Prediction

COVERAGES = (0.5, 0.8, 0.9, 0.95)  # of the intervals


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Scores of distributions, one a rating, and what its intervals were like."""

    levels: DoubleArray | None  # None for a continuous scale
    crps: DoubleArray
    log_score: DoubleArray
    pit: DoubleArray  # probability integral transform: uniform from 0 to 1 if the distributions are right
    is_covered: BoolArray  # n x intervals: is the rating inside?
    expected: FloatMatrix  # n x intervals: how likely the model itself held that
    widths: FloatMatrix  # n x intervals
    belief_sd: FloatArray
    rating_sd: FloatArray
    is_level: BoolArray  # whether the rating is one of the levels

    @classmethod
    def of(cls, prediction: Prediction, true: FloatArray, noise: DoubleArray) -> Outcomes:
        """`noise` are uniform numbers. On levels, a rating has a stretch of probability; they say where in it."""
        rating, belief_sd, rating_sd = prediction.rating, prediction.belief_sd, prediction.rating_sd
        if rating is None or belief_sd is None or rating_sd is None:
            raise InvalidParameterError(
                "a prediction lacks rating, belief_sd or rating_sd; expected all or none of them"
            )
        low, high = rating.cdf_steps(true)
        lows = prediction.quantiles(*((1 - coverage) / 2 for coverage in COVERAGES))
        highs = prediction.quantiles(*((1 + coverage) / 2 for coverage in COVERAGES))
        return cls(
            levels=rating.levels,
            crps=rating.crps(true),
            log_score=rating.log_score(true),
            pit=low + noise * (high - low),
            is_covered=rating.contains(true, COVERAGES),
            expected=_expected(rating, lows, highs),
            widths=(highs - lows).astype(np.float32),
            belief_sd=belief_sd,
            rating_sd=rating_sd,
            is_level=rating.is_level(true),
        )

    @classmethod
    def joined(cls, parts: Sequence[tuple[NDArray[np.int64], Outcomes]]) -> Outcomes:
        """Of all ratings, from that of some at each of these positions."""
        places = np.concatenate([rows for rows, _ in parts])

        def whole(name: str) -> NDArray[Any]:
            found = np.concatenate([getattr(part, name) for _, part in parts])
            ordered = np.empty_like(found)
            ordered[places] = found
            return ordered

        names = [field.name for field in fields(cls) if field.name != "levels"]
        return cls(levels=parts[0][1].levels, **{name: whole(name) for name in names})


def _expected(rating: RatingDistribution, lows: DoubleArray, highs: DoubleArray) -> FloatMatrix:
    """How likely each rating is to lie between each of its pairs of ends; n x intervals.

    On levels this is not what the interval is called: it holds a level as a whole or not at all.
    """
    if rating.levels is None:
        return np.tile(np.array(COVERAGES, np.float32), (len(rating), 1))
    between = [rating.level_between(low, high) for low, high in zip(lows.T, highs.T, strict=True)]
    return np.stack(between, axis=1).astype(np.float32)
