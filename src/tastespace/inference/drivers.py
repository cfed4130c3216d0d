"""The loops. Every algorithm is a transition; nothing else iterates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from time import sleep
from typing import Generic, TypeVar

from numpy.random import Generator

from tastespace.inference.transition import Stats, Transition
from tastespace.progress import Observer, Progress

State = TypeVar("State")
Kept = TypeVar("Kept")
Result = TypeVar("Result")
Stop = Callable[[list[Stats]], bool]

PATIENCE = 0.1  # seconds until somebody who interrupts is heard


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


def never(trace: list[Stats]) -> bool:
    """Do all steps."""
    return False


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


@dataclass(frozen=True)
class Schedule:
    """How long chains run, and what of them is kept."""

    chains: int
    warmup: int  # steps of a chain before the first that counts
    draws: int  # kept a chain
    thin: int = 1  # steps a kept draw

    @property
    def steps(self) -> int:
        """Of one chain."""
        return self.warmup + self.draws * self.thin

    def keeps(self, step: int) -> bool:
        """Whether the state after this step (from 1 on) is a kept draw."""
        return step > self.warmup and (step - self.warmup) % self.thin == 0


@dataclass
class Chain(Generic[State, Kept]):
    """What one chain left behind."""

    last: State
    draws: list[Kept] = field(default_factory=list)
    trace: list[Stats] = field(default_factory=list)  # one entry a step, warm-up included


# Looks at the state after each step (whose number it gets), and may add figures to its own.
Watch = Callable[[State, int], Stats]


def sample(
    transition: Transition[State],
    rng: Generator,
    schedule: Schedule,
    *,
    keep: Callable[[State, int], Kept],
    watches: Sequence[Watch[State]] = (),
    phase: str,
    told: Sequence[str] | None = None,
    threads: int,
    observer: Observer,
) -> list[Chain[State, Kept]]:
    """Run chains side by side, each with a generator of its own, so that their number of threads changes nothing.

    `keep` says what is kept of a state, and gets its place among all kept draws, chain after chain; `watches` has one
    function a chain. `told` are the figures that the observer gets, None for all.
    """
    lock, done = Lock(), 0
    stopped: list[BaseException] = []

    def run(number: int, own: Generator) -> Chain[State, Kept]:
        chain: Chain[State, Kept] = Chain(transition.init(own))
        for step in range(1, schedule.steps + 1):
            if stopped:
                break
            chain.last, stats = transition.step(chain.last, own)
            stats = {**stats, **watches[number](chain.last, step)} if watches else stats
            chain.trace.append(stats)
            if schedule.keeps(step):
                chain.draws.append(keep(chain.last, number * schedule.draws + len(chain.draws)))
            tell(stats)
        return chain

    def tell(stats: Stats) -> None:
        nonlocal done
        with lock:
            done += 1
            figures = stats if told is None else {name: stats[name] for name in told if name in stats}
            observer(Progress(phase, done, schedule.steps * schedule.chains, figures))

    generators = rng.spawn(schedule.chains)
    if threads == 1 or schedule.chains == 1:
        return [run(number, own) for number, own in enumerate(generators)]
    return _side_by_side(run, generators, min(threads, schedule.chains), stopped)


def _side_by_side(
    run: Callable[[int, Generator], Result], generators: Sequence[Generator], workers: int, stopped: list[BaseException]
) -> list[Result]:
    """Run all in threads of their own; the first that fails, or somebody tired of waiting, stops the others.

    Those end with the step that they are in: a thread cannot be left alone inside a kernel while the program ends.
    """
    found: dict[int, Result] = {}
    waiting, lock = deque(enumerate(generators)), Lock()

    def work() -> None:
        while not stopped:
            with lock:
                if not waiting:
                    return
                number, own = waiting.popleft()
            try:
                found[number] = run(number, own)
            except BaseException as error:
                stopped.append(error)

    _run_to_the_end(work, workers, stopped)
    return [found[number] for number in range(len(generators))]


def _run_to_the_end(work: Callable[[], None], workers: int, stopped: list[BaseException]) -> None:
    """Do the work in so many threads and wait for them; what stopped them is raised.

    They say themselves when they end. `Thread.join` does not: interrupted, it takes a running thread for one that has
    ended (Python 3.11), and a program must not end while kernels run.
    """
    ends: list[Event] = []

    def until_the_end(end: Event) -> None:
        try:
            work()
        finally:
            end.set()

    try:
        for _ in range(workers):
            end = Event()
            ends.append(end)
            try:
                Thread(target=until_the_end, args=(end,)).start()
            except RuntimeError:  # The system has no thread left: this one has ended before it began.
                end.set()
                raise
        for end in ends:
            while not end.wait(PATIENCE):  # Not one long wait: an interrupt may reach another thread, and wake nobody.
                pass
    except BaseException as error:
        stopped.append(error)
        while not all(end.is_set() for end in ends):  # However often somebody interrupts.
            with suppress(KeyboardInterrupt):
                sleep(PATIENCE)
        raise
    if stopped:
        raise stopped[0]
