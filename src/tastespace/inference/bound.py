"""An (init, step) pair with its arguments, as a transition: what the loops, checkpoints and traces take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from numpy.random import Generator

from tastespace.inference.transition import Stats


class Reporting(Protocol):
    """A state that knows what happened in the step that led to it."""

    def stats(self) -> Stats: ...


State = TypeVar("State", bound=Reporting)


@dataclass(frozen=True)
class Bound(Generic[State]):
    """`start` makes the first state, `move` the next one; what the state reports are the figures of the step."""

    start: Callable[[Generator], State]
    move: Callable[[State, Generator], State]

    def init(self, rng: Generator) -> State:
        return self.start(rng)

    def step(self, state: State, rng: Generator) -> tuple[State, Stats]:
        new = self.move(state, rng)
        return new, new.stats()
