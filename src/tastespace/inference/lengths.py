"""How many leaps a path has: a random number, so that no path comes back to where it began every time."""

from __future__ import annotations

import math

from numpy.random import Generator


def jittered(leaps: int, jitter: float, rng: Generator) -> int:
    """Uniform between (1 - jitter) and (1 + jitter) times this number, and at least 1."""
    # A hair's breadth, so that 0.5 x 10 is 5 whatever rounding has made of it.
    least = max(1, math.ceil((1 - jitter) * leaps - 1e-9))
    most = max(least, math.floor((1 + jitter) * leaps + 1e-9))
    return int(rng.integers(least, most + 1))
