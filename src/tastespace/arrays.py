"""Names for the kinds of array that travel through the library, and checks at its boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]  # rows
OffsetArray = NDArray[np.int64]  # starts of groups
FloatArray = NDArray[np.float32]  # values, scores
FloatMatrix = NDArray[np.float32]  # factors: one row a user or item
DoubleArray = NDArray[np.float64]  # sums over all ratings, traces
BoolArray = NDArray[np.bool_]
TimeArray = NDArray[np.datetime64]  # seconds, NaT where unknown
AnyFloats = NDArray[np.floating[Any]]  # float32 or float64: what the row kernel works in


if TYPE_CHECKING:

    def contiguous(array: Any, dtype: Any) -> NDArray[Any]:
        """The same numbers as a C-ordered array of this type, copied only if they are not."""

else:
    contiguous = np.ascontiguousarray  # itself: a request calls it dozens of times


# The smallest number that single precision, in which ratings are kept, rounds to infinity.
FIRST_INFINITE = float.fromhex("0x1.ffffffp127")
