"""Whether ratings are levels, such as stars, or any number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray

MOST_LEVELS = 101  # 0 to 100
BLOCK = 1 << 16
SAME_LEVEL = 1e-4  # of the smallest step
TOLERANCE = 1e-3  # of a step: ratings are kept in single precision


def levels_of(values: NDArray[Any]) -> DoubleArray | None:
    """The levels in use, ascending, if there are two to 101 and they lie on an evenly spaced scale; else None."""
    levels = distinct(values)
    if levels is None or len(levels) < 2:
        return None
    steps = (levels - levels[0]) / np.diff(levels).min()
    is_even = np.abs(steps - steps.round()).max() < TOLERANCE and steps[-1] < MOST_LEVELS
    return levels if is_even else None


def level_names(levels: DoubleArray | None) -> list[str]:
    """The levels as text, "1" and "1.5"; empty where there are none."""
    if levels is None:
        return []
    # Levels come from single precision: its shortest text is what was in the file.
    return [np.format_float_positional(level, trim="-") for level in levels.astype(np.float32)]


def strange(values: NDArray[Any], levels: DoubleArray) -> NDArray[np.bool_]:
    """Which values are none of these levels, but for rounding: they are kept in single precision."""
    nearest = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, values)]
    rounding = np.maximum(SAME_LEVEL * np.diff(levels).min(), np.spacing(np.abs(nearest).astype(np.float32)))
    return np.asarray(np.abs(nearest - values) > rounding)


def distinct(values: NDArray[Any]) -> DoubleArray | None:
    """The values in use, ascending, at any distances; None if there are more than 101."""
    levels = np.zeros(0, values.dtype)
    for start in range(0, len(values), BLOCK):  # A part at a time: no copy of all, and soon done if there are too many.
        levels = np.union1d(levels, values[start : start + BLOCK])
        if len(levels) > MOST_LEVELS:
            return None
    return levels.astype(np.float64)
