"""One runner for all trials of models: the cost of a fit, its quality, and the handling of failures.

`run` fits a model to the training part of a split and measures it on the test part. `attempt` does the same and never
raises. `attempts` gives each trial its own process, so that its memory and its failures are isolated: a fresh
Python, not a fork, because the threads of kernels and tables do not survive one. The process gets its task by
standard input and the split from a file, and answers with progress and then with the outcome.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.errors import DataError, InvalidParameterError, TastespaceError, TastespaceWarning, shortened
from tastespace.evaluation.metrics.rating import rmse
from tastespace.evaluation.predictions import are_known, predict_all
from tastespace.evaluation.relevance import task_of
from tastespace.evaluation.report import Report
from tastespace.inference.transition import HELD_OUT, Trace
from tastespace.models import Recommender
from tastespace.progress import Observer, Progress, silent

# Phases in which a model holds out training ratings of its own: their errors are not those of the test ratings.
OWN_HELD_OUT = ("finding", "searching")
SWEEPS = ("sweep", "epoch", "pass", "sampling")  # prefixes of phases whose steps go through all ratings


@dataclass(frozen=True)
class Task:
    """A model to be created, and its measure: a function of the fitted model and the split.

    `is_watched` reports the errors on the test ratings during the fit; then the measure must return a report.
    """

    model: type[Recommender]
    parameters: Mapping[str, Any]
    measure: Callable[..., Any] | None = None
    is_watched: bool = False
    starts: tuple[tuple[type[Recommender], Mapping[str, Any]], ...] = ()  # fitted before, each from the one before


@dataclass(frozen=True)
class Cost:
    """The cost of a fit. `memory_mb` is the peak memory beyond the program and the ratings."""

    seconds: float
    processor_seconds: float  # of all threads together
    memory_mb: float | None = None  # None where the system does not report it, or the process is shared
    process_mb: float | None = None  # the peak of the whole process


@dataclass(frozen=True)
class Moment:
    """The error on held-out ratings of known users and items at some time of a fit."""

    step: int | None  # sweeps or epochs so far; None for a model without any
    seconds: float
    rmse: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a trial: a measure, or an error."""

    value: Any = None
    cost: Cost | None = None
    trace: tuple[Moment, ...] = ()  # the last one is of the fitted model
    warnings: tuple[str, ...] = ()
    error: str | None = None
    recommender: Recommender | None = None  # fitted; it stays in its process


def run(task: Task, split: Split, observer: Observer = silent, *, is_alone: bool = False) -> Outcome:
    """Fit and measure; `is_alone` says whether this process does nothing else."""
    recommender = task.model(**task.parameters)
    recommender.check()
    before = _begin_peak() if is_alone else None
    began, processor = time.perf_counter(), time.process_time()
    listener = _Listener(observer, began)
    start = _started(task, split.train, observer)
    held_out = split.test if task.is_watched else None
    recommender.fit(split.train, held_out=held_out, observer=listener, start=start)
    cost = Cost(time.perf_counter() - began, time.process_time() - processor)
    peak = _status("VmHWM") if is_alone else None
    if peak is not None and before is not None:
        cost = replace(cost, memory_mb=max(peak - before, 0) / 1e6, process_mb=peak / 1e6)
    value = None if task.measure is None else task.measure(recommender, split, observer=observer)
    trace = _trace(listener, recommender, split.test, value, cost) if task.is_watched else ()
    return Outcome(value, cost, trace, recommender=recommender)


def attempt(task: Task, split: Split, observer: Observer = silent, *, is_alone: bool = False) -> Outcome:
    """The outcome in any case; warnings are kept, not shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = run(task, split, observer, is_alone=is_alone)
        except TastespaceError as error:
            outcome = Outcome(error=str(error))
        except MemoryError:
            n_factors = task.parameters.get("n_factors")
            of_what, fewer = ("", "ratings") if n_factors is None else (f" for n_factors={n_factors}", "factors")
            outcome = Outcome(error=f"there is not enough memory{of_what}; expected fewer {fewer}")
        except BrokenPipeError:
            raise  # The parent process has gone.
        except Exception as error:
            # A model may be user-defined, and its errors must not end the other trials.
            outcome = Outcome(error=f"{type(error).__name__}: {error}")
    messages = (str(entry.message) for entry in caught if issubclass(entry.category, TastespaceWarning))
    return replace(outcome, warnings=tuple(dict.fromkeys(messages)))


def renamed(name: str, observer: Observer) -> Observer:
    """An observer for one of several trials: its phases are prefixed with its name."""
    return lambda event: observer(replace(event, phase=f"{name}: {event.phase}"))


@dataclass(eq=False)
class _Listener:
    """Forwards the progress of a fit, and records times and errors."""

    observer: Observer
    began: float
    moments: list[Moment] = field(default_factory=list)
    last_steps: dict[str, int] = field(default_factory=dict)  # by phase

    def __call__(self, event: Progress) -> None:
        if event.phase.startswith(SWEEPS):
            self.last_steps[event.phase] = event.step
        if HELD_OUT in event.stats and not event.phase.startswith(OWN_HELD_OUT):
            now = time.perf_counter() - self.began
            self.moments.append(Moment(event.step, now, float(event.stats[HELD_OUT])))
        self.observer(event)


def _started(task: Task, train: Ratings, observer: Observer) -> Recommender | None:
    """The fitted model to start from. The errors that it reports are not those of the model in question."""
    start: Recommender | None = None
    for model, parameters in task.starts:
        try:
            start = model(**parameters).fit(
                train, start=start, observer=lambda event: observer(replace(event, phase=f"start, {event.phase}"))
            )
        except TastespaceError as error:
            raise TastespaceError(f"the {model.__name__} that it starts from: {error}") from error
    return start


def _trace(listener: _Listener, recommender: Recommender, test: Ratings, report: Any, cost: Cost) -> tuple[Moment, ...]:
    """The errors during the fit and at its end; empty where only lists are measured.

    For several chains: the mean error of all after the same number of sweeps of each, at the time when as many sweeps
    were done, whichever chains they were of.
    """
    if task_of(recommender, test).is_of_lists:
        return ()
    chains, moments = getattr(recommender.posterior_, "trace", None), listener.moments
    if isinstance(chains, Trace) and HELD_OUT in chains.quantities and len(moments) == chains.chains * chains.sweeps:
        errors = np.asarray(chains.quantities[HELD_OUT]).mean(axis=0)
        ends = moments[chains.chains - 1 :: chains.chains]
        moments = [Moment(step, end.seconds, float(errors[step - 1])) for step, end in enumerate(ends, start=1)]
    end = _known_rmse(recommender, test, report)
    step = moments[-1].step if moments else sum(listener.last_steps.values()) or None
    return (*moments, *([] if end is None else [Moment(step, cost.seconds, end)]))


def _known_rmse(recommender: Recommender, test: Ratings, report: Report) -> float | None:
    """The error over test ratings of known users and items, as reported during the fit; None without any."""
    known = np.flatnonzero(are_known(recommender.ratings_, test))
    if len(known) == len(test) and "rmse" in report.rating:
        return report["rmse"]
    if not len(known):
        return None
    part = test.take(known)
    answers = predict_all(recommender, part, part.user_rows, None, seed=None, observer=silent)
    return float(rmse(answers.mean, part.values))


def _begin_peak() -> int | None:
    """Reset the peak of memory, where the system can (Linux), and return the memory in use."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int | None:
    """Bytes in use (VmRSS), or the peak (VmHWM); None where the system does not report it."""
    # Not getrusage on Linux: there a process inherits the peak of its parent.
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(sizes[0]) * 1024 if sizes else None


PAUSE = 0.05  # seconds between two forwarded events
MAX_LETTERS = 200  # of the last output of a process
# Modules that diagnostics load, which takes a second that is not part of the cost of a model.
LOADED_LATE = ("scipy.stats", "arviz_stats.base.array")


@contextlib.contextmanager
def attempts(split: Split, *, in_processes: bool) -> Iterator[Callable[[Task, Observer], Outcome]]:
    """How tasks on a split are attempted: each in its own process, or in this one."""
    if not in_processes:
        yield lambda task, observer: attempt(task, split, observer)
        return
    with tempfile.TemporaryDirectory(prefix="tastespace-") as folder:
        file = Path(folder) / "split.pickle"
        try:
            with file.open("wb") as stream:
                pickle.dump(split, stream, protocol=5)
        except OSError as error:
            raise DataError(
                f"cannot write the ratings for other processes ({error.strerror or error})",
                file=file,
                expected="room in the folder for temporary files: TMPDIR names another one",
            ) from error
        yield lambda task, observer: _attempt_in_process(task, file, observer)


def _attempt_in_process(task: Task, file: Path, observer: Observer) -> Outcome:
    """The outcome of a task in its own process, which ends with this call in any case."""
    try:
        packed = pickle.dumps(task, protocol=5)
    except Exception as error:  # Any parameter may fail in its own way.
        return Outcome(error=f"its parameters cannot be sent to another process ({error})")
    start = f"import sys; sys.path[:] = {sys.path!r}; from tastespace.selection.trials import serve; serve()"
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                pickle.dump((str(file), packed), process.stdin)
            outcome = _received(process.stdout, observer)
            if outcome is None:
                process.wait()
        finally:
            process.kill()  # It has given its outcome, or the outcome is no longer needed.
            code = process.wait()
            process.stdout.close()
        return Outcome(error=_reason_of_end(code, complaints)) if outcome is None else outcome


def serve() -> None:
    """The main function of the other process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent process gets an interrupt, too, and ends this one.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Other output must not come between the answers.
    last = 0.0

    def send(content: Any) -> None:
        pickle.dump(content, answers, protocol=5)
        answers.flush()

    def send_some(event: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if event.step == event.total or now - last >= PAUSE:
            last = now
            send(event)

    file, packed = pickle.load(sys.stdin.buffer)
    try:
        task = pickle.loads(packed)
    except (AttributeError, ImportError) as error:
        message = f"its class cannot be imported by another process ({error}); expected one in a module, or "
        send(Outcome(error=f"{message}apart=False"))
        return
    with Path(file).open("rb") as stream:
        split = pickle.load(stream)
    for module in LOADED_LATE if "chains" in task.parameters else ():
        importlib.import_module(module)
    with contextlib.suppress(BrokenPipeError):
        send(replace(attempt(task, split, send_some, is_alone=True), recommender=None))


def _received(answers: IO[bytes], observer: Observer) -> Outcome | None:
    """Forward progress until there is an outcome; None if the process ends without one."""
    while True:
        try:
            content = pickle.load(answers)
        except (EOFError, pickle.UnpicklingError):
            return None
        if isinstance(content, Outcome):
            return content
        observer(content)


def _reason_of_end(code: int, complaints: IO[bytes]) -> str:
    """Why a process ended without an outcome, as far as it is known."""
    if code == -getattr(signal, "SIGKILL", 9):
        return "its process was killed (SIGKILL): most often because there was not enough memory"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    last = f": {shortened(lines[-1], MAX_LETTERS)}" if lines else ""
    return f"its process ended with the code {code}{last}"


def order_of_starts(starts: Mapping[str, str], names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The models to fit before each model that starts from another, by name, in this order."""
    if not isinstance(starts, Mapping):
        raise InvalidParameterError(f"starts is {starts!r}; expected names of models by names, {{name: start}}")
    for name, start in starts.items():
        for each in (name, start):
            if each not in names:
                raise InvalidParameterError(
                    f"{name!r} is to start from {start!r}, but no model {each!r} takes part; expected some of "
                    f"{', '.join(names)}"
                )
    return {name: _before(name, starts) for name in starts}


def _before(name: str, starts: Mapping[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    while starts.get(name) is not None:
        name = starts[name]
        if name in found:
            circle = " starts from ".join([*found[found.index(name) :], name])
            raise InvalidParameterError(f"{circle}: that is a circle; expected one without a start")
        found.append(name)
    return tuple(reversed(found))
