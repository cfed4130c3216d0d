"""Transitions: one move of an inference algorithm, as a pure function of its state; and the models they are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from numpy.random import Generator

from tastespace.arrays import DoubleArray, IntArray
from tastespace.data.ratings import Ratings

State = TypeVar("State")
Stats = Mapping[str, float]


class Transition(Protocol[State]):
    """Bound to a model and its data; `step` changes nothing but returns the next state."""

    def init(self, rng: Generator) -> State: ...

    def step(self, state: State, rng: Generator) -> tuple[State, Stats]: ...


@dataclass(frozen=True, eq=False)
class Measured(Generic[State]):
    """A transition that adds figures of the state after each step to its own."""

    inner: Transition[State]
    measures: Mapping[str, Callable[[State], float]]

    def init(self, rng: Generator) -> State:
        return self.inner.init(rng)

    def step(self, state: State, rng: Generator) -> tuple[State, Stats]:
        state, stats = self.inner.step(state, rng)
        return state, {**stats, **{name: measure(state) for name, measure in self.measures.items()}}


Params = TypeVar("Params")


class Model(Protocol[Params]):
    """Parameters from a prior, ratings given parameters."""

    def sample_prior(self, where: Ratings, rng: Generator) -> Params:
        """Parameters for as many users and items as these ratings have."""

    def simulate(self, params: Params, where: Ratings, rng: Generator) -> Ratings:
        """Ratings of the same pairs, drawn from the model."""

    def log_joint(self, params: Params, observed: Ratings) -> float:
        """Log density of parameters and ratings together."""

    def expected_value(self, params: Params, user_rows: IntArray, item_rows: IntArray) -> DoubleArray:
        """The mean rating of each pair."""


class Reporting(Protocol):
    """A state that knows what happened in the step that led to it."""

    def stats(self) -> Stats: ...


ReportingState = TypeVar("ReportingState", bound=Reporting)


@dataclass(frozen=True)
class Bound(Generic[ReportingState]):
    """`start` makes the first state, `move` the next one; what the state reports are the figures of the step."""

    start: Callable[[Generator], ReportingState]
    move: Callable[[ReportingState, Generator], ReportingState]

    def init(self, rng: Generator) -> ReportingState:
        return self.start(rng)

    def step(self, state: ReportingState, rng: Generator) -> tuple[ReportingState, Stats]:
        new = self.move(state, rng)
        return new, new.stats()
