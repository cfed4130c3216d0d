"""The levels that a curve has values at, and where ratings lie among them.

Ratings of up to 101 different values have these as levels, at whatever distances: stars, half stars, 0 to 100. Any
other scale is continuous: its ratings are put into up to 50 bins of as many each, and the mean of a bin is a level.
Between two levels a curve is a straight line, so that ratings of a continuous scale keep their order within a bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, IntArray
from tastespace.data.levels import distinct

MOST_BINS = 50


@dataclass(frozen=True, eq=False)
class Between:
    """Where ratings lie that are no levels: this share of the way from one level to the next."""

    lower: IntArray  # level; never the highest
    share: DoubleArray  # from 0 to 1
    beyond: DoubleArray  # how far outside the levels, as a share of the scale: below 0 under the lowest


@dataclass(frozen=True, eq=False)
class Places:
    """Where ratings lie on a scale."""

    nearest: NDArray[np.uint8]  # level; of these there are at most 101, and there may be very many ratings
    between: Between | None  # None if all ratings are levels


@dataclass(frozen=True, eq=False)
class Scale:
    """The levels, ascending."""

    levels: DoubleArray

    @classmethod
    def of(cls, values: NDArray[Any]) -> Scale:
        """Of the ratings of a training part."""
        levels = distinct(values)
        return cls(_binned(values) if levels is None else levels)

    def __len__(self) -> int:
        return len(self.levels)

    def places(self, values: NDArray[Any]) -> Places:
        """Of these ratings."""
        levels = self.levels
        exact = values.astype(np.float64)
        nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, exact).astype(np.uint8)
        if len(levels) == 1 or np.array_equal(levels[nearest], exact):
            return Places(nearest, None)
        inside = np.clip(exact, levels[0], levels[-1])
        lower = np.clip(np.searchsorted(levels, inside, side="right") - 1, 0, len(levels) - 2).astype(np.int32)
        share = (inside - levels[lower]) / (levels[lower + 1] - levels[lower])
        return Places(nearest, Between(lower, share, (exact - inside) / (levels[-1] - levels[0])))

    def counts(self, rows: NDArray[Any], places: Places, n_rows: int) -> DoubleArray:
        """How many ratings each row has at each level."""
        return per_level(rows, places, None, n_rows, len(self))


def per_level(
    rows: NDArray[Any], places: Places, amounts: NDArray[Any] | None, n_rows: int, n_levels: int
) -> DoubleArray:
    """The sum of amounts (None: of ones) of each row at each level: rows x levels."""
    cells = rows.astype(np.int64) * n_levels + places.nearest
    return np.bincount(cells, amounts, minlength=n_rows * n_levels).reshape(n_rows, n_levels).astype(np.float64)


def _binned(values: NDArray[Any]) -> DoubleArray:
    """The means of bins of as many ratings each."""
    n_bins = int(np.clip(len(values) ** 0.5, 2, MOST_BINS))
    ordered = np.sort(values).astype(np.float64)
    # Equal ratings may fill several bins: these are one level.
    return np.unique([part.mean() for part in np.array_split(ordered, n_bins)])
