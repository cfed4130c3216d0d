"""The loops of all inference: every algorithm is a transition, and nothing else iterates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
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
_CHAIN: ContextVar[int] = ContextVar("chain", default=-1)


def current_chain() -> int:
    """The number of the chain that runs in this thread, -1 outside of chains."""
    return _CHAIN.get()


def side_by_side(
    run: Callable[[Piece], None], pieces: Sequence[Piece], workers: int, stopped: list[BaseException]
) -> None:
    """Run all pieces in threads; the first that fails, or an interrupt, stops the others.

    Running pieces check `stopped` and end with their current step: a thread must not be left inside a kernel while the
    program ends.
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
    """Do the work in this number of threads and wait for them; raises what stopped them.

    Threads signal when they end. `Thread.join` does not: interrupted, it takes a running thread for one that has
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
            except RuntimeError:  # The system has no thread left: this one ended before it started.
                end.set()
                raise
        for end in ends:
            while not end.wait(PATIENCE):
                pass  # Not one long wait: an interrupt may reach another thread without waking this one.
    except BaseException as error:
        stopped.append(error)
        while not all(end.is_set() for end in ends):  # However many interrupts arrive.
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
    """Iterate until the stopping rule is satisfied by the trace so far, or the steps are used up.

    `state` is the first state, None for that of the transition.
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
    """Stop when a figure that should fall has not fallen for this many steps."""

    def stop(trace: list[Stats]) -> bool:
        best = min(range(len(trace)), key=lambda step: trace[step][name])
        return len(trace) - 1 - best >= patience

    return stop


@dataclass(frozen=True)
class Schedule:
    """How long chains run, and which draws are kept."""

    chains: int
    warmup: int  # steps of a chain before draws are kept
    draws: int  # kept per chain; with a rule, the maximum
    thin: int = 1  # steps per kept draw
    until: Exactness | None = None  # the rule that ends chains earlier

    @property
    def steps(self) -> int:
        """The maximum number of steps of one chain."""
        return self.warmup + self.draws * self.thin

    @property
    def total(self) -> int | None:
        """The steps of all chains; None if a rule may end them earlier."""
        return self.steps * self.chains if self.until is None else None

    def keeps(self, step: int) -> bool:
        """Whether the state after this step (counted from 1) is a kept draw."""
        return step > self.warmup and (step - self.warmup) % self.thin == 0

    def looks(self) -> Iterator[int]:
        """The steps after which all chains wait for one another and the rule is evaluated; the last is the end."""
        if self.until is not None:
            block = self.until.block * self.thin
            yield from range(self.warmup + block, self.steps, block)
        yield self.steps


@dataclass
class Chain(Generic[State, Kept]):
    """The result of one chain."""

    last: State
    draws: list[Kept] = field(default_factory=list)
    trace: list[Stats] = field(default_factory=list)  # one entry per step, warm-up included


# Maps a state, and its number among the kept draws of its chain (from 0), to what is kept.
Keep = Callable[[State, int], Kept]
# Called with the state after each step and the number of the step; may add figures to those of the step.
Watch = Callable[[State, int], Stats]
# The trace of chains up to a step.
Traced = Callable[[Sequence[Chain[State, Kept]], int], Trace]


@runtime_checkable
class Saves(Protocol):
    """A `Keep` or `Watch` with its own memory, which belongs into a checkpoint, too."""

    def saved(self) -> Any:
        """Its memory, as `tastespace.inference.checkpoints` takes it."""

    def restore(self, remembered: Any) -> None:
        """Continue from this memory."""


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
    """Run chains in parallel, each with its own generator, so that the number of threads changes nothing.

    `keeps` and `watches` have one function per chain. `reported` are the figures that the observer gets, None for all.
    `traced` gives the trace for the schedule's rule, if it has one. Chains found among the `checkpoints` continue from
    there. `starts` are the first states, one per chain, in place of those of the transition.
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
    """A running chain with everything that belongs to it."""

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
        """Run until this many steps are done; a restored chain may have done them already."""
        token = _CHAIN.set(self.number)
        try:
            if self.chain is None:
                self.chain = Chain(self.transition.init(self.rng))
            for step in range(self.step + 1, end + 1):
                if stopped:
                    return
                tell(self._take(self.chain, step))
                if step == self.schedule.steps or (self.checkpoints is not None and self.checkpoints.is_due(step)):
                    self.save()
        finally:
            _CHAIN.reset(token)

    def _take(self, chain: Chain[State, Kept], step: int) -> Stats:
        chain.last, stats = self.transition.step(chain.last, self.rng)
        stats = stats if self.watch is None else {**stats, **self.watch(chain.last, step)}
        chain.trace.append(stats)
        if self.schedule.keeps(step):
            chain.draws.append(self.keep(chain.last, len(chain.draws)))
        return stats

    def save(self) -> None:
        """Write a checkpoint of the chain, unless this step has been written already."""
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
        """Continue from the checkpoint, if there is one."""
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
