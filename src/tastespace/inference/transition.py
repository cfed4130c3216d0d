"""One move of an inference algorithm, as a pure function of its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from numpy.random import Generator

State = TypeVar("State")
Stats = Mapping[str, float]


class Transition(Protocol[State]):
    """Bound to a model and its data; `step` changes nothing but returns the next state."""

    def init(self, rng: Generator) -> State: ...

    def step(self, state: State, rng: Generator) -> tuple[State, Stats]: ...
