"""The expected rating given the score of a taste, one curve a draw: from tables, for speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from tastespace.arrays import DoubleArray, FloatMatrix

CELLS = 64  # of a table, a unit of the score: right to 1e-5 of a step between levels
MOST_CELLS = 1 << 14  # of a table: where cut-points lie far apart, its cells are wider
PROBIT_REACH = 6.0  # beyond the outermost cut-points, where the table ends: 1e-9 are left
LOGISTIC_REACH = 20.0


@dataclass(frozen=True, eq=False)
class RatingCurves:
    """With levels l_0 < l_1 < ... and the draw's cut-points k_1 < k_2 < ..., of a score z

    ordinal:  l_0 + sum_j (l_j - l_(j - 1)) Phi(z - k_j)
    logistic:  l_0 + (l_1 - l_0) / (1 + exp(-z))
    """

    heights: FloatMatrix  # S x (cells + 1); one row if all draws have the same curve
    low: float  # the score where the tables begin
    cells: float  # a unit of the score

    @classmethod
    def of(cls, cuts: NDArray[Any] | None, levels: NDArray[Any]) -> RatingCurves:
        """Cut-points as S x (L - 1), ascending by row, or 1 x (L - 1); None for the logistic curve of two levels."""
        if cuts is None:
            scores = _grid(-LOGISTIC_REACH, LOGISTIC_REACH)
            return cls._at(scores, levels[0] + (levels[1] - levels[0]) * expit(scores)[None])
        scores = _grid(float(cuts.min()) - PROBIT_REACH, float(cuts.max()) + PROBIT_REACH)
        heights = np.full((len(cuts), len(scores)), float(levels[0]))
        for place, step in enumerate(np.diff(levels)):
            heights += step * ndtr(scores - cuts[:, place, None])
        return cls._at(scores, heights)

    def take(self, draws: Any) -> RatingCurves:
        """The curves of some of the draws."""
        return self if len(self.heights) == 1 else RatingCurves(self.heights[draws], self.low, self.cells)

    def at(self, scores: NDArray[Any]) -> FloatMatrix:
        """The expected ratings of scores, one column a draw; n x S."""
        n_draws, width = self.heights.shape
        place = (np.asarray(scores, np.float32) - np.float32(self.low)) * np.float32(self.cells)
        np.clip(place, 0, width - 2, out=place)
        cell = place.astype(np.int32)
        place -= cell
        if n_draws > 1:
            cell += np.arange(n_draws, dtype=np.int32) * np.int32(width)
        flat = self.heights.reshape(-1)
        left = flat.take(cell)
        cell += 1
        return np.asarray(left + place * (flat.take(cell) - left))

    @classmethod
    def _at(cls, scores: DoubleArray, heights: DoubleArray) -> RatingCurves:
        cells = (len(scores) - 1) / float(scores[-1] - scores[0])
        # One place more, so that there is a next one at the end of the table, too.
        return cls(np.pad(heights, ((0, 0), (0, 1)), mode="edge").astype(np.float32), float(scores[0]), cells)


def _grid(low: float, high: float) -> DoubleArray:
    return np.linspace(low, high, min(int(np.ceil((high - low) * CELLS)), MOST_CELLS) + 1)
