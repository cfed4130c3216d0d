"""The loops. Every algorithm is a transition; nothing else iterates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numpy.random import Generator

from tastespace.inference.transition import Stats, Transition
from tastespace.progress import Observer, Progress

State = TypeVar("State")
Stop = Callable[[list[Stats]], bool]


def ascend(
    transition: Transition[State],
    state: State,
    rng: Generator,
    *,
    steps: int,
    stop: Stop,
    phase: str,
    observer: Observer,
) -> tuple[State, list[Stats]]:
    """Climb until the stopping rule is content with the trace so far, or the steps are used up."""
    trace: list[Stats] = []
    for step in range(1, steps + 1):
        state, stats = transition.step(state, rng)
        trace.append(stats)
        observer(Progress(phase, step, steps, stats))
        if stop(trace):
            break
    return state, trace


def small_change(name: str, tolerance: float) -> Stop:
    """Stop when a figure changes by less than this share of itself."""

    def stop(trace: list[Stats]) -> bool:
        if len(trace) < 2:
            return False
        before, now = trace[-2][name], trace[-1][name]
        return abs(before - now) <= tolerance * abs(before)

    return stop


def no_improvement(name: str, patience: int) -> Stop:
    """Stop when a figure that should fall has not for this many steps."""

    def stop(trace: list[Stats]) -> bool:
        best = min(range(len(trace)), key=lambda step: trace[step][name])
        return len(trace) - 1 - best >= patience

    return stop
