"""Where random numbers come from: a seed becomes a generator here and nowhere else.

Functions that draw take a required ``rng``; there is no global state. The same seed gives the same numbers
whatever the number of threads, because kernels receive noise and never make it.
"""

from __future__ import annotations

import hashlib
import secrets
from numbers import Integral

import numpy as np
from numpy.random import Generator

from tastespace.errors import InvalidParameterError


def resolve(seed: int | None) -> int:
    """The seed itself, or a fresh one that can be written down and used again."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise InvalidParameterError(f"seed is {seed!r}; expected a whole number of at least 0, or None for a fresh one")
    return int(seed)


def generator(seed: int) -> Generator:
    """The generator of a seed."""
    return np.random.default_rng(resolve(seed))


def derive(seed: int, *keys: object) -> Generator:
    """A generator for one purpose of a seed, such as a request about a user: the same keys, the same numbers."""
    text = "\x1f".join(map(str, keys))
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32)
    return np.random.default_rng([resolve(seed), *(int(word) for word in words)])
