"""Types of the arrays used in the library, and helpers for blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]  # rows
OffsetArray = NDArray[np.int64]  # starts of groups
FloatArray = NDArray[np.float32]  # values, scores
FloatMatrix = NDArray[np.float32]  # factors: one row per user or item
DoubleArray = NDArray[np.float64]  # sums over all ratings, traces
BoolArray = NDArray[np.bool_]
TimeArray = NDArray[np.datetime64]  # seconds, NaT where unknown
AnyFloats = NDArray[np.floating[Any]]  # float32 or float64: the precision of the row kernel


if TYPE_CHECKING:

    def contiguous(array: Any, dtype: Any) -> NDArray[Any]:
        """The same numbers as a C-ordered array of this type, copied only if they are not."""

else:
    contiguous = np.ascontiguousarray  # no wrapper: a request calls it dozens of times


def blocks(n: int, width: int, most: int) -> Iterator[slice]:
    """Slices of n rows of this width with at most `most` numbers each, to bound memory."""
    step = max(1, most // max(width, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def row_blocks(n: int, width: int, most: int) -> Iterator[IntArray]:
    """The same blocks as arrays of rows."""
    return (np.arange(part.start, part.stop, dtype=np.int32) for part in blocks(n, width, most))


# The smallest number that rounds to infinity in single precision, in which ratings are kept.
FIRST_INFINITE = float.fromhex("0x1.ffffffp127")
