"""Runs that keep their best epoch, and notice when they diverge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Generic, TypeVar

from numpy.random import Generator

from tastespace.inference.drivers import Stop, ascend
from tastespace.inference.transition import Stats, Transition
from tastespace.progress import Observer

State = TypeVar("State")
TOO_FAR = 3.0  # a loss so many times the least one so far, and above the first one, does not come back
TAKEN_BACK = "taken back"  # the figure of an epoch that is 1 where it has been undone


@dataclass(frozen=True, eq=False)
class Kept(Generic[State]):
    """Where a run is, and where it was best; epoch 0 is the start."""

    now: State
    best: State
    epoch: int = 0
    best_epoch: int = 0
    best_figure: float = inf


@dataclass(frozen=True, eq=False)
class KeepingBest(Generic[State]):
    """A transition that remembers the state where a figure was least; `measures` add figures after each step."""

    inner: Transition[State]
    figure: str
    measures: Mapping[str, Callable[[State], float]]

    def init(self, rng: Generator) -> Kept[State]:
        start = self.inner.init(rng)
        return Kept(start, start)

    def step(self, state: Kept[State], rng: Generator) -> tuple[Kept[State], Stats]:
        now, stats = self.inner.step(state.now, rng)
        stats = {**stats, **{name: measure(now) for name, measure in self.measures.items()}}
        epoch, figure = state.epoch + 1, stats[self.figure]
        if isfinite(stats["loss"]) and figure < state.best_figure:  # never where it is no number
            return Kept(now, now, epoch, epoch, figure), stats
        return Kept(now, state.best, epoch, state.best_epoch, state.best_figure), stats


@dataclass(frozen=True, eq=False)
class Run(Generic[State]):
    """What came of it."""

    last: Kept[State]
    trace: list[Stats]

    @property
    def has_diverged(self) -> bool:
        return diverged(self.trace)

    @property
    def best_epoch(self) -> int:
        return self.last.best_epoch

    @property
    def best_figure(self) -> float:
        return self.last.best_figure


def run(
    transition: KeepingBest[State],
    start: Kept[State],
    rng: Generator,
    *,
    epochs: int,
    stop: Stop,
    phase: str,
    observer: Observer,
) -> Run[State]:
    """Until the rule is content, the epochs are used up, or all is lost."""
    last, trace = ascend(
        transition,
        start,
        rng,
        steps=epochs,
        stop=lambda trace: diverged(trace) or stop(trace),
        phase=phase,
        observer=observer,
    )
    return Run(last, trace)


def diverged(trace: list[Stats]) -> bool:
    """The loss is no number, or far above what it was; an epoch that was taken back does not count."""
    if not trace or trace[-1].get(TAKEN_BACK):
        return False
    losses = [stats["loss"] for stats in trace if not stats.get(TAKEN_BACK)]
    return not isfinite(losses[-1]) or losses[-1] > max(losses[0], TOO_FAR * min(losses))
