"""How long items are: as long as half of those that are free to choose."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, never
from tastespace.models.factorization.als import AlternatingLeastSquares
from tastespace.models.factorization.penalty import Penalty
from tastespace.models.factorization.rows import Points
from tastespace.progress import silent

SWEEPS = 15
EXTREME_RADIUS = 1e3  # beyond that, or below its inverse, single precision has too few digits for users and items


def median_length(items: Points) -> float:
    """Of items that are free; 1 where these are hardly more than nothing, as few ratings leave them."""
    median = float(np.median(np.linalg.norm(items.factors.astype(np.float64), axis=1)))
    return median if median > 1 / EXTREME_RADIUS else 1.0


def free_length(
    observed: Ratings, n_factors: int, penalty: Penalty, *, biases: bool, dtype: Any, rng: Generator, threads: int
) -> float:
    """The median length of the items of a few sweeps of alternating least squares."""
    ascent = AlternatingLeastSquares.bind(observed, n_factors, penalty, biases=biases, dtype=dtype, threads=threads)
    free, _ = ascend(ascent, ascent.init(rng), rng, steps=SWEEPS, stop=never, phase="starting", observer=silent)
    return median_length(free.items)
