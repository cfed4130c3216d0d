"""Runs that keep their best epoch, and notice when they diverge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite

from numpy.random import Generator

from tastespace.inference.drivers import Stop, ascend
from tastespace.inference.transition import Measured, Stats, Transition
from tastespace.models.factorization.sgd.descent import TAKEN_BACK, DescentState
from tastespace.progress import Observer

TOO_FAR = 3.0  # a loss this many times the smallest one so far, and above that of the start, counts as diverged


@dataclass(frozen=True, eq=False)
class Kept:
    """The current state of a run and its best one; epoch 0 is the start."""

    now: DescentState
    best: DescentState
    first_loss: float  # of the start
    epoch: int = 0
    best_epoch: int = 0
    best_figure: float = inf


@dataclass(frozen=True, eq=False)
class KeepingBest:
    """A transition that remembers the state with the smallest figure, the start included.

    `measures` are figures of a state, which are added to those of the step that led there; `figure` is the name of one
    of them: figures of the step itself are collected on the way, and belong to no state. None keeps the last state. A
    state that is not sound is never the best, even if it happens to predict well.
    """

    inner: Transition[DescentState]
    figure: str | None
    measures: Mapping[str, Callable[[DescentState], float]]
    is_sound: Callable[[DescentState, float], bool]  # given the loss of the start

    def init(self, rng: Generator) -> Kept:
        start = self.inner.init(rng)
        figure = inf if self.figure is None else self.measures[self.figure](start)
        return Kept(start, start, start.loss, best_figure=figure if isfinite(figure) else inf)

    def step(self, state: Kept, rng: Generator) -> tuple[Kept, Stats]:
        now, stats = Measured(self.inner, self.measures).step(state.now, rng)
        epoch, first = state.epoch + 1, state.first_loss
        if self.figure is None:
            return Kept(now, now, first, epoch, epoch), stats
        figure, is_near = stats[self.figure], stats["loss"] <= TOO_FAR * first  # never if it is NaN
        if is_near and figure < state.best_figure and self.is_sound(now, first):
            return Kept(now, now, first, epoch, epoch, figure), stats
        return Kept(now, state.best, first, epoch, state.best_epoch, state.best_figure), stats


@dataclass(frozen=True, eq=False)
class Run:
    """The result of a run."""

    last: Kept
    trace: list[Stats]
    end_loss: float  # of the final state, which the last step may not have measured

    @property
    def losses(self) -> list[float]:
        """The losses of the start, on the way, and of the end, without those of epochs that were undone."""
        return [self.last.first_loss, *_kept_losses(self.trace), self.end_loss]

    @property
    def has_diverged(self) -> bool:
        return any(_is_lost(self.losses[:end]) for end in (-1, None)) or self.never_left

    @property
    def never_left(self) -> bool:
        """Whether every epoch was undone."""
        return bool(self.trace) and all(stats.get(TAKEN_BACK) for stats in self.trace)


def run(
    transition: KeepingBest,
    rng: Generator,
    *,
    loss: Callable[[DescentState], float],
    epochs: int,
    stop: Stop,
    phase: str,
    observer: Observer,
) -> Run:
    """Run until the rule is satisfied, the epochs are used up, or it diverges; `loss` is that of a state."""
    start = transition.init(rng)

    def is_over(trace: list[Stats]) -> bool:
        return diverged(start.first_loss, trace) or stop(trace)

    last, trace = ascend(transition, start, rng, steps=epochs, stop=is_over, phase=phase, observer=observer)
    return Run(last, trace, loss(last.now) if trace else start.first_loss)


def diverged(first_loss: float, trace: list[Stats]) -> bool:
    """Whether the loss is NaN, or far above its minimum; an epoch that was undone does not count."""
    if not trace or trace[-1].get(TAKEN_BACK):
        return False
    return _is_lost([first_loss, *_kept_losses(trace)])


def _kept_losses(trace: list[Stats]) -> list[float]:
    return [stats["loss"] for stats in trace if not stats.get(TAKEN_BACK)]


def _is_lost(losses: list[float]) -> bool:
    return not isfinite(losses[-1]) or losses[-1] > max(losses[0], TOO_FAR * min(losses))
