"""Random number generators: a seed becomes a generator here and nowhere else.

Functions that draw take a required ``rng``; there is no global state. The same seed gives the same numbers
whatever the number of threads, because kernels receive noise and never generate it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.errors import InvalidParameterError


def resolve(seed: int | None) -> int:
    """The seed itself, or a fresh one that can be recorded and used again."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise InvalidParameterError(f"seed is {seed!r}; expected a whole number of at least 0, or None for a fresh one")
    return int(seed)


def generator(seed: int) -> Generator:
    """The generator of a seed."""
    return np.random.default_rng(resolve(seed))


def derive(seed: int, *keys: object) -> Generator:
    """A generator derived from a seed and keys, such as a request about a user: the same keys give the same numbers."""
    text = "\x1f".join(map(str, keys))
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32)
    return np.random.default_rng([resolve(seed), *(int(word) for word in words)])


def state_of(rng: Generator) -> dict[str, Any]:
    """The state of a generator as numbers and strings, for `restored`."""
    return {"bits": rng.bit_generator.state, "children": _seeds(rng).n_children_spawned}


def restored(rng: Generator, state: Mapping[str, Any]) -> Generator:
    """A generator of the same origin as this one, set to a saved state."""
    seeds = _seeds(rng)
    origin = np.random.SeedSequence(
        seeds.entropy, spawn_key=seeds.spawn_key, pool_size=seeds.pool_size, n_children_spawned=int(state["children"])
    )
    bits = type(rng.bit_generator)(origin)
    bits.state = dict(state["bits"])
    return Generator(bits)


def _seeds(rng: Generator) -> np.random.SeedSequence:
    seeds = rng.bit_generator.seed_seq
    assert isinstance(seeds, np.random.SeedSequence)  # All of ours come from `generator`, or were spawned by such.
    return seeds
