"""What is believed about the scores of tastes, and the ratings on levels that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatMatrix
from tastespace.distributions.latent_levels import expected_sd, logistic_probabilities, ordinal_probabilities
from tastespace.distributions.level_ratings import LevelRatings
from tastespace.distributions.rating_curves import RatingCurves


@dataclass(frozen=True, eq=False)
class LatentScores:
    """Of each of n pairs, a normal belief about the score in each of S draws.

    `mean` and `sd` are of the expected rating, in units of ratings, and `ratings` are the distributions of single
    ratings. Each is computed when it is first asked for: lists need no sd of items that are not on them.
    """

    means: FloatMatrix  # n x S
    sds: FloatMatrix  # n x S
    cuts: NDArray[Any] | None  # S x (L - 1), or 1 x (L - 1); None for the logistic model of two levels
    levels: DoubleArray  # L, ascending
    weights: FloatMatrix | None = None  # n x S, 1 together by row; None for equal ones

    def __len__(self) -> int:
        return len(self.means)

    def mean(self) -> DoubleArray:
        return self.ratings.mean()

    def sd(self) -> DoubleArray:
        """Of the expected rating given the taste: between the draws, and within them."""
        return expected_sd(self.means, self.sds, RatingCurves.of(self.cuts, self.levels), self.weights)

    @cached_property
    def ratings(self) -> LevelRatings:
        if self.cuts is None:
            probabilities = logistic_probabilities(self.means, self.sds, self.weights)
        else:
            probabilities = ordinal_probabilities(self.means, self.sds, self.cuts, self.weights)
        return LevelRatings(probabilities, self.levels, self._effective_draws)

    @property
    def _effective_draws(self) -> DoubleArray | None:
        if self.weights is None:
            return None
        return np.asarray(1 / np.sum(self.weights.astype(np.float64) ** 2, axis=1))
