"""Items on the unit sphere, so that near means a large inner product: what trees of distances need.

Items are divided by the largest norm R. Where norms differ one more coordinate, the root of 1 - |v|^2 / R^2, lifts
every item to the sphere. A query is scaled to length 1 and is 0 there: of all items the nearest to it has then the
largest inner product with it.
"""

from __future__ import annotations

import numpy as np

from tastespace.arrays import FloatMatrix
from tastespace.errors import NonFiniteStateError

EQUAL = 1e-5  # norms that differ by less, relatively, are one


def lifted(vectors: FloatMatrix) -> FloatMatrix:
    """Items as points of the sphere, with one coordinate more than they have where their norms differ."""
    squares = np.einsum("id,id->i", vectors, vectors, dtype=np.float64)
    if not np.isfinite(squares).all():
        raise NonFiniteStateError("an item has infinite or missing coordinates; expected finite numbers")
    largest = float(squares.max(initial=0.0))
    if largest == 0:
        return vectors  # all in the centre: none is nearer than another
    points = vectors / np.float32(np.sqrt(largest))
    # A relative difference of squares is about twice that of norms.
    if largest - float(squares.min()) <= 2 * EQUAL * largest:
        return points
    heights = np.sqrt(1 - squares / largest)
    return np.hstack([points, heights.astype(np.float32)[:, None]])
