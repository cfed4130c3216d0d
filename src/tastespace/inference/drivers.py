"""The loops that all inference runs in: every algorithm is a transition, and nothing else iterates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from time import sleep
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from numpy.random import Generator

from tastespace import randomness
from tastespace.inference.checkpoints import RunCheckpoints
from tastespace.inference.diagnostics import Exactness
from tastespace.inference.transition import Stats, Trace, Transition
from tastespace.progress import Observer, Progress, silent

Piece = TypeVar("Piece")

PATIENCE = 0.1  # seconds until an interrupt is noticed


def side_by_side(
    run: Callable[[Piece], None], pieces: Sequence[Piece], workers: int, stopped: list[BaseException]
) -> None:
    """Run all in threads of their own; the first that fails, or an interrupt, stops the others.

    What runs looks into `stopped` and ends with the step that it is in: a thread cannot be left alone inside a kernel
    while the program ends.
    """
    waiting, lock = deque(pieces), Lock()

    def work() -> None:
        while not stopped:
            with lock:
                if not waiting:
                    return
                piece = waiting.popleft()
            try:
                run(piece)
            except BaseException as error:
                stopped.append(error)

    _run_to_the_end(work, workers, stopped)


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
            while not end.wait(PATIENCE):
                pass  # Not one long wait: an interrupt may reach another thread, and not wake this one.
    except BaseException as error:
        stopped.append(error)
        while not all(end.is_set() for end in ends):  # However many interrupts there are.
            with suppress(KeyboardInterrupt):
                sleep(PATIENCE)
        raise
    if stopped:
        raise stopped[0]


State = TypeVar("State")
Kept = TypeVar("Kept")
Stop = Callable[[list[Stats]], bool]


def never(trace: list[Stats]) -> bool:
    """Do all steps."""
    return False


def ascend(
    transition: Transition[State],
    state: State | None,
    rng: Generator,
    *,
    steps: int,
    stop: Stop = never,
    phase: str = "sweep",
    observer: Observer = silent,
) -> tuple[State, list[Stats]]:
    """Climb until the stopping rule is content with the trace so far, or the steps are used up.

    `state` is where it begins, None for where the transition would.
    """
    state, trace = transition.init(rng) if state is None else state, list[Stats]()
    for step in range(1, steps + 1):
        state, stats = transition.step(state, rng)
        trace.append(stats)
        if observer is not silent:
            observer(Progress(phase, step, steps, stats))
        if stop is not never and stop(trace):
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


@dataclass(frozen=True)
class Schedule:
    """How long chains run, and what of them is kept."""

    chains: int
    warmup: int  # steps of a chain before the first that counts
    draws: int  # kept a chain; with a rule, the most of them
    thin: int = 1  # steps a kept draw
    until: Exactness | None = None  # the rule that ends chains earlier

    @property
    def steps(self) -> int:
        """Steps of one chain, at most."""
        return self.warmup + self.draws * self.thin

    @property
    def total(self) -> int | None:
        """Steps of all chains; None where a rule may end them earlier."""
        return self.steps * self.chains if self.until is None else None

    def keeps(self, step: int) -> bool:
        """Whether the state after this step (from 1 on) is a kept draw."""
        return step > self.warmup and (step - self.warmup) % self.thin == 0

    def looks(self) -> Iterator[int]:
        """The steps after which all chains wait for one another, and the rule is asked; the last is the end."""
        if self.until is not None:
            block = self.until.block * self.thin
            yield from range(self.warmup + block, self.steps, block)
        yield self.steps


@dataclass
class Chain(Generic[State, Kept]):
    """What one chain left behind."""

    last: State
    draws: list[Kept] = field(default_factory=list)
    trace: list[Stats] = field(default_factory=list)  # one entry a step, warm-up included


# What is kept of a state, which is the so-manieth kept draw of its chain (from 0 on).
Keep = Callable[[State, int], Kept]
# Looks at the state after each step (whose number it gets), and may add figures to its own.
Watch = Callable[[State, int], Stats]
# What was watched of chains until a step.
Traced = Callable[[Sequence[Chain[State, Kept]], int], Trace]


@runtime_checkable
class Saves(Protocol):
    """A `Keep` or `Watch` with a memory of its own: that, too, belongs into a checkpoint."""

    def saved(self) -> Any:
        """What it remembers, as `tastespace.inference.checkpoints` takes it."""

    def restore(self, remembered: Any) -> None:
        """Go on from there."""


def sample(
    transition: Transition[State],
    rng: Generator,
    schedule: Schedule,
    *,
    keeps: Sequence[Keep[State, Kept]],
    watches: Sequence[Watch[State]] = (),
    phase: str,
    reported: Sequence[str] | None = None,
    traced: Traced[State, Kept] | None = None,
    checkpoints: RunCheckpoints | None = None,
    starts: Sequence[State] | None = None,
    threads: int,
    observer: Observer,
) -> list[Chain[State, Kept]]:
    """Run chains side by side, each with a generator of its own, so that their number of threads changes nothing.

    `keeps` and `watches` have one function a chain. `reported` are the figures that the observer gets, None for all.
    `traced` is what the schedule's rule looks at, if it has one. Chains found among the `checkpoints` go on from there.
    `starts` are states to begin with, one a chain, in place of those that the transition would.
    """
    lock, done = Lock(), 0
    stopped: list[BaseException] = []
    watching: Sequence[Watch[State] | None] = watches or [None] * schedule.chains
    walkers = [
        _Walker(number, own, transition, schedule, keeps[number], watching[number], checkpoints)
        for number, own in enumerate(rng.spawn(schedule.chains))
    ]

    def tell(stats: Stats, steps: int = 1) -> None:
        nonlocal done
        if observer is silent or not steps:
            return
        with lock:
            done += steps
            figures = {name: stats[name] for name in reported or stats if name in stats}
            observer(Progress(phase, done, schedule.total, figures))

    for walker in walkers:
        walker.chain = None if starts is None else Chain(starts[walker.number])
        walker.restore()
    tell({}, sum(walker.step for walker in walkers))
    for end in schedule.looks():

        def go_on(walker: _Walker[State, Kept], end: int = end) -> None:
            walker.walk(end, tell, stopped)

        if threads == 1 or schedule.chains == 1:
            for walker in walkers:
                go_on(walker)
        else:
            side_by_side(go_on, walkers, min(threads, schedule.chains), stopped)
        chains = [walker.chain for walker in walkers if walker.chain is not None]
        if schedule.until is not None and traced is not None and schedule.until.is_met(traced(chains, end)):
            break
    for walker in walkers:
        walker.save()
    return chains


@dataclass(eq=False)
class _Walker(Generic[State, Kept]):
    """A chain on its way, with all that belongs to it."""

    number: int
    rng: Generator
    transition: Transition[State]
    schedule: Schedule
    keep: Keep[State, Kept]
    watch: Watch[State] | None
    checkpoints: RunCheckpoints | None
    chain: Chain[State, Kept] | None = None
    on_disk: int = 0  # the step of the last checkpoint

    @property
    def step(self) -> int:
        return 0 if self.chain is None else len(self.chain.trace)

    def walk(self, end: int, tell: Callable[[Stats], None], stopped: Sequence[BaseException]) -> None:
        """Until so many steps are done; a chain that was restored may be there already."""
        if self.chain is None:
            self.chain = Chain(self.transition.init(self.rng))
        for step in range(self.step + 1, end + 1):
            if stopped:
                return
            tell(self._take(self.chain, step))
            if step == self.schedule.steps or (self.checkpoints is not None and self.checkpoints.is_due(step)):
                self.save()

    def _take(self, chain: Chain[State, Kept], step: int) -> Stats:
        chain.last, stats = self.transition.step(chain.last, self.rng)
        stats = stats if self.watch is None else {**stats, **self.watch(chain.last, step)}
        chain.trace.append(stats)
        if self.schedule.keeps(step):
            chain.draws.append(self.keep(chain.last, len(chain.draws)))
        return stats

    def save(self) -> None:
        """Write all that the chain needs to go on, unless it is there already."""
        if self.checkpoints is None or self.chain is None or self.on_disk == self.step:
            return
        content: Mapping[str, Any] = {
            "state": self.chain.last,
            "draws": self.chain.draws,
            "trace": [{name: float(value) for name, value in stats.items()} for stats in self.chain.trace],
            "generator": randomness.state_of(self.rng),
            "kept": _memory(self.keep),
            "watched": _memory(self.watch),
        }
        self.checkpoints.save(self.number, self.step, content)
        self.on_disk = self.step

    def restore(self) -> None:
        """Go on from the checkpoint, if there is one."""
        content = None if self.checkpoints is None else self.checkpoints.take(self.number)
        if content is None:
            return
        self.chain = Chain(content["state"], content["draws"], content["trace"])
        self.rng = randomness.restored(self.rng, content["generator"])
        for piece, remembered in ((self.keep, content["kept"]), (self.watch, content["watched"])):
            if isinstance(piece, Saves):
                piece.restore(remembered)
        self.on_disk = self.step


def _memory(piece: object) -> Any:
    return piece.saved() if isinstance(piece, Saves) else None
