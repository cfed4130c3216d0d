"""Transitions, single moves of an inference algorithm as pure functions of its state, and the models behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, IntArray
from tastespace.data.ratings import Ratings

State = TypeVar("State")
Stats = Mapping[str, float]


class Transition(Protocol[State]):
    """A transition bound to a model and its data; `step` changes nothing but returns the next state."""

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
    """A generative model: parameters from a prior, ratings given parameters."""

    def sample_prior(self, where: Ratings, rng: Generator) -> Params:
        """Parameters for as many users and items as these ratings have."""

    def simulate(self, params: Params, where: Ratings, rng: Generator) -> Ratings:
        """Ratings of the same pairs, drawn from the model."""

    def log_joint(self, params: Params, observed: Ratings) -> float:
        """Log density of parameters and ratings together."""

    def expected_value(self, params: Params, user_rows: IntArray, item_rows: IntArray) -> DoubleArray:
        """The mean rating of each pair."""


class Reporting(Protocol):
    """A state that reports statistics of the step that led to it."""

    def stats(self) -> Stats: ...


ReportingState = TypeVar("ReportingState", bound=Reporting)


@dataclass(frozen=True)
class Bound(Generic[ReportingState]):
    """A transition from two functions: `start` makes the first state, `move` the next, which reports the figures."""

    start: Callable[[Generator], ReportingState]
    move: Callable[[ReportingState, Generator], ReportingState]

    def init(self, rng: Generator) -> ReportingState:
        return self.start(rng)

    def step(self, state: ReportingState, rng: Generator) -> tuple[ReportingState, Stats]:
        new = self.move(state, rng)
        return new, new.stats()


PREFIX = "trace:"
# Names that mean something to readers of a trace; any other is just a quantity.
NOISE, LOG_JOINT, HELD_OUT = "noise sd", "log joint", "held-out rmse"
ACTIVE = "active factors"  # columns in use, if a prior shrinks the others
ACCEPTANCE, ENERGY_ERROR = "acceptance", "energy error"  # statistics of moves, not of the posterior


@dataclass(frozen=True, eq=False)
class Trace:
    """Figures by name, and the predictions of some watched pairs: identified quantities only, never raw factors."""

    warmup: int  # sweeps before draws are kept
    thin: int  # sweeps per kept draw after warm-up
    quantities: Mapping[str, DoubleArray]  # chains x sweeps each
    predictions: FloatArray  # chains x sweeps x pairs, in rating units
    wanted_error: float | None = None  # the target of the stopping rule (see `Exactness`); None if the length was given
    rank_search: DoubleArray | None = None  # 2 x sweeps: columns, and those in use, while their number was sought

    @property
    def chains(self) -> int:
        return int(self.predictions.shape[0])

    @property
    def sweeps(self) -> int:
        return int(self.predictions.shape[1])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that must be saved."""
        arrays: dict[str, NDArray[Any]] = {f"{PREFIX}quantity:{name}": value for name, value in self.quantities.items()}
        arrays[f"{PREFIX}predictions"] = self.predictions
        arrays[f"{PREFIX}schedule"] = np.array([self.warmup, self.thin])
        if self.wanted_error is not None:
            arrays[f"{PREFIX}wanted error"] = np.array([self.wanted_error])
        if self.rank_search is not None:
            arrays[f"{PREFIX}rank search"] = self.rank_search
        return arrays

    @classmethod
    def found_in(cls, arrays: Mapping[str, NDArray[Any]]) -> Trace | None:
        """The trace from its `arrays`, or None if there is none among these."""
        if f"{PREFIX}schedule" not in arrays:
            return None
        warmup, thin = (int(value) for value in arrays[f"{PREFIX}schedule"])
        start = f"{PREFIX}quantity:"
        quantities = {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
        wanted, searched = (arrays.get(PREFIX + name) for name in ("wanted error", "rank search"))
        error = None if wanted is None else float(wanted[0])
        return cls(warmup, thin, quantities, arrays[f"{PREFIX}predictions"], error, searched)
