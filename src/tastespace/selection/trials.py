"""A model of a contest in a process of its own: its memory is its own, and so is its end.

A fresh Python, not a fork: threads of kernels and of tables do not survive one. It gets its task by its standard input
and the ratings from a file, and answers with what it has to say on the way and then with the outcome.
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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.errors import DataError, InvalidParameterError, TastespaceError, TastespaceWarning, shortened
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.metrics.rating import rmse
from tastespace.evaluation.predictions import predict_all
from tastespace.evaluation.relevance import Relevant, sense_of
from tastespace.evaluation.report import Report
from tastespace.inference.trace import HELD_OUT, Trace
from tastespace.models import Recommender
from tastespace.models.base.resuming import startable
from tastespace.progress import Observer, Progress, silent

MEGABYTE = 1e6
_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def begin_peak() -> None:
    """Forget the peak so far, where the system can (Linux): the next one is of what comes."""
    try:
        _FORGET.write_text("5")
    except OSError:
        return


def peak_bytes() -> int | None:
    """The most that was resident at any time; None where the system does not say."""
    # Not getrusage on Linux: there a process begins with the peak of the one that started it.
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmHWM")


def resident_bytes() -> int | None:
    """What is resident now; None where the system does not say, and on macOS the peak so far."""
    return peak_bytes() if sys.platform == "darwin" else _status("VmRSS")


def machine_bytes() -> int | None:
    """What the machine has in all; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _status(name: str) -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(sizes[0]) * 1024 if sizes else None


# Phases in which a model holds out training ratings of its own: their errors are not those of the test ratings.
OF_ITS_OWN = ("finding", "searching")
SWEEPS = ("sweep", "epoch", "pass", "sampling")  # how phases begin whose steps go through all ratings


@dataclass(frozen=True)
class Task:
    """A model that is yet to be made, and what is asked of it."""

    model: type[Recommender]
    parameters: Mapping[str, Any]
    k: int
    relevant: Relevant
    ranking: bool
    bootstrap: int
    seed: int
    starts: tuple[tuple[type[Recommender], Mapping[str, Any]], ...] = ()  # fitted before, each from the one before


@dataclass(frozen=True)
class Cost:
    """What a fit took. `memory_mb` is what it needed beyond the program and the ratings, at its peak."""

    seconds: float
    processor_seconds: float  # of all threads together
    memory_mb: float | None = None  # None where the system does not say, or the process is not its own
    process_mb: float | None = None  # the peak of the whole process


@dataclass(frozen=True)
class Moment:
    """How well held-out ratings of known users and items were predicted at some time of a fit."""

    step: int | None  # sweeps or epochs until then; None for a model that has none
    seconds: float
    rmse: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a model: a report, or an error."""

    report: Report | None = None
    cost: Cost | None = None
    trace: tuple[Moment, ...] = ()  # the last one is of the fitted model
    warnings: tuple[str, ...] = ()
    error: str | None = None


@dataclass(eq=False)
class Listener:
    """Hears what a fit says, and keeps when it said how far it was."""

    observer: Observer
    began: float
    moments: list[Moment] = field(default_factory=list)
    last_steps: dict[str, int] = field(default_factory=dict)  # by phase

    def __call__(self, event: Progress) -> None:
        if event.phase.startswith(SWEEPS):
            self.last_steps[event.phase] = event.step
        if HELD_OUT in event.stats and not event.phase.startswith(OF_ITS_OWN):
            now = time.perf_counter() - self.began
            self.moments.append(Moment(event.step, now, float(event.stats[HELD_OUT])))
        self.observer(event)

    @property
    def n_steps(self) -> int | None:
        """How often the model went through all ratings."""
        return sum(self.last_steps.values()) or None


def attempt(task: Task, split: Split, observer: Observer, *, is_alone: bool) -> Outcome:
    """The outcome, whatever happens; `is_alone` says whether this process has nothing else to do."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TastespaceWarning)
        try:
            outcome = _measured(task, split, observer, is_alone)
        except TastespaceError as error:
            outcome = Outcome(error=str(error))
        except MemoryError:
            outcome = Outcome(error=_out_of_memory(task))
        except BrokenPipeError:
            raise  # Whoever wanted to know has gone.
        except Exception as error:
            # A model may be anybody's, and what goes wrong in it must not end the others.
            outcome = Outcome(error=f"{type(error).__name__}: {error}")
    said = dict.fromkeys(str(entry.message) for entry in caught if issubclass(entry.category, TastespaceWarning))
    return replace(outcome, warnings=tuple(said))


def _out_of_memory(task: Task) -> str:
    n_factors = task.parameters.get("n_factors")
    told = "" if n_factors is None else f" for n_factors={n_factors}"
    return f"there is not enough memory{told}; expected {'fewer ratings' if n_factors is None else 'fewer factors'}"


def _measured(task: Task, split: Split, observer: Observer, is_alone: bool) -> Outcome:
    recommender = task.model(**task.parameters)
    recommender.check()
    cost, listener = _fit(recommender, task, split, observer, is_alone)
    report = evaluate(
        recommender,
        split,
        k=task.k,
        relevant=task.relevant,
        ranking=task.ranking,
        bootstrap=task.bootstrap,
        seed=task.seed,
        observer=observer,
    )
    moments = _moments(listener, recommender)
    if not sense_of(recommender, split.test).is_of_lists:
        end = _known_rmse(recommender, split.test, report)
        step = moments[-1].step if moments else listener.n_steps
        moments += [] if end is None else [Moment(step, cost.seconds, end)]
    else:
        moments = []
    return Outcome(replace(report, test=None), cost, tuple(moments))


def _fit(
    recommender: Recommender, task: Task, split: Split, observer: Observer, is_alone: bool
) -> tuple[Cost, Listener]:
    """What it cost, that of its start included."""
    if is_alone:
        begin_peak()
    before = resident_bytes() if is_alone else None
    began, processor = time.perf_counter(), time.process_time()
    listener = Listener(observer, began)
    start = _started(task, split.train, observer)
    recommender.fit(split.train, held_out=split.test, observer=listener, start=start)
    seconds, processor_seconds = time.perf_counter() - began, time.process_time() - processor
    peak = peak_bytes() if is_alone else None
    if peak is None or before is None:
        return Cost(seconds, processor_seconds), listener
    added = max(peak - before, 0) / MEGABYTE
    return Cost(seconds, processor_seconds, added, peak / MEGABYTE), listener


def _started(task: Task, train: Ratings, observer: Observer) -> Recommender | None:
    """The fitted model to begin from. Nothing that is told of its errors is of the model in question."""
    start: Recommender | None = None
    for model, parameters in task.starts:
        try:
            start = model(**parameters).fit(
                train, start=start, observer=lambda event: observer(replace(event, phase=f"start, {event.phase}"))
            )
        except TastespaceError as error:
            raise TastespaceError(f"the {model.__name__} that it begins from: {error}") from error
    return start


def _moments(listener: Listener, recommender: Recommender) -> list[Moment]:
    """What was said on the way. Of several chains: the mean error of all after so many sweeps of each.

    Its time is that at which as many sweeps were done, whichever chains they were of.
    """
    trace, told = getattr(recommender.posterior_, "trace", None), listener.moments
    if not isinstance(trace, Trace) or HELD_OUT not in trace.quantities:
        return list(told)
    if len(told) != trace.chains * trace.sweeps:
        return list(told)
    errors = np.asarray(trace.quantities[HELD_OUT]).mean(axis=0)
    ends: Sequence[Moment] = told[trace.chains - 1 :: trace.chains]
    return [Moment(step, end.seconds, float(errors[step - 1])) for step, end in enumerate(ends, start=1)]


def _known_rmse(recommender: Recommender, test: Ratings, report: Report) -> float | None:
    """The error over test ratings whose user and item are known, as what is told on the way; None without any."""
    trained = recommender.ratings_
    users = trained.users.rows_of(test.users.ids)[test.user_rows]
    items = trained.items.rows_of(test.items.ids)[test.item_rows]
    known = np.flatnonzero((users >= 0) & (items >= 0))
    if len(known) == len(test) and "rmse" in report.rating:
        return report["rmse"]
    if not len(known):
        return None
    part = test.take(known)
    answers = predict_all(recommender, part, part.user_rows, None, seed=None, observer=silent)
    return float(rmse(answers.mean, part.values))


PAUSE = 0.05  # seconds between two events that are passed on
LONGEST = 200  # letters of what a process said last
# What chains load when they are judged. To load it takes a second, and says nothing about a model.
LOADED_LATE = ("scipy.stats", "arviz_stats.base.array")


def keep(split: Split, file: Path) -> None:
    """Write the ratings where all processes find them."""
    try:
        with file.open("wb") as stream:
            pickle.dump(split, stream, protocol=5)
    except OSError as error:
        raise DataError(
            f"cannot write the ratings for other processes ({error.strerror or error})",
            file=file,
            expected="room in the folder for temporary files: TMPDIR names another one",
        ) from error


def attempt_apart(task: Task, kept: Path, observer: Observer) -> Outcome:
    """The outcome of a task in a process of its own, which ends with this call, whatever happens."""
    try:
        packed = pickle.dumps(task, protocol=5)
    except Exception as error:  # What can be wrong with a parameter is up to the parameter.
        return Outcome(error=f"its parameters cannot be sent to a process of its own ({error})")
    start = f"import sys; sys.path[:] = {sys.path!r}; from tastespace.selection.trials import serve; serve()"
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                pickle.dump((str(kept), packed), process.stdin)
            outcome = _heard(process.stdout, observer)
            if outcome is None:
                process.wait()
        finally:
            process.kill()  # It has said all it has to say, or nobody listens any more.
            code = process.wait()
            process.stdout.close()
        return _ended(code, complaints) if outcome is None else outcome


def serve() -> None:
    """What the other process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Whoever started it hears of an interrupt, too, and ends it.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What anybody prints must not come between the answers.
    kept, packed = pickle.load(sys.stdin.buffer)
    try:
        task = pickle.loads(packed)
    except (AttributeError, ImportError) as error:
        _say(
            answers,
            Outcome(
                error=f"its class cannot be imported by a process of its own ({error}); expected one in a module, or "
                "apart=False"
            ),
        )
        return
    with Path(kept).open("rb") as stream:
        split = pickle.load(stream)
    for module in LOADED_LATE if "chains" in task.parameters else ():
        importlib.import_module(module)
    with contextlib.suppress(BrokenPipeError):
        _say(answers, attempt(task, split, _Pausing(answers), is_alone=True))


class _Pausing:
    """An observer that passes events on, but not all of many."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers, self._last = answers, 0.0

    def __call__(self, event: Progress) -> None:
        now = time.monotonic()
        if event.step == event.total or now - self._last >= PAUSE:
            self._last = now
            _say(self._answers, event)


def _say(answers: IO[bytes], what: Any) -> None:
    pickle.dump(what, answers, protocol=5)
    answers.flush()


def _heard(answers: IO[bytes], observer: Observer) -> Outcome | None:
    """Pass on what is said until there is an outcome; None if the process ends without one."""
    while True:
        try:
            said = pickle.load(answers)
        except (EOFError, pickle.UnpicklingError):
            return None
        if isinstance(said, Outcome):
            return said
        observer(said)


def _ended(code: int, complaints: IO[bytes]) -> Outcome:
    """Why there is no outcome, as far as it is known."""
    if code == -getattr(signal, "SIGKILL", 9):
        return Outcome(error="its process was killed (SIGKILL): most often because there was not enough memory")
    if code < 0:
        return Outcome(error=f"its process was ended by {signal.Signals(-code).name}")
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    last = f": {shortened(lines[-1], LONGEST)}" if lines else ""
    return Outcome(error=f"its process ended with the code {code}{last}")


def beginnings(starts: Mapping[str, str], names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Of each model that begins from another: the names of those to fit before it, in this order."""
    if not isinstance(starts, Mapping):
        raise InvalidParameterError(f"starts is {starts!r}; expected names of models by names, {{name: start}}")
    for name, start in starts.items():
        for said in (name, start):
            if said not in names:
                raise InvalidParameterError(
                    f"{name!r} is to begin from {start!r}, and no model {said!r} takes part; expected some of "
                    f"{', '.join(names)}"
                )
    return {name: _before(name, starts) for name in starts}


def _before(name: str, starts: Mapping[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    while starts.get(name) is not None:
        name = starts[name]
        if name in found:
            circle = " begins from ".join([*found[found.index(name) :], name])
            raise InvalidParameterError(f"{circle}: that is a circle; expected one that begins by itself")
        found.append(name)
    return tuple(reversed(found))


def cannot_begin(recommender: Any) -> str | None:
    """Why a model cannot begin from another; None if it can."""
    try:
        startable(recommender)
    except TastespaceError as error:
        return str(error)
    return None


def described(models: Mapping[str, Recommender], before: Collection[str]) -> tuple[tuple[type[Recommender], Any], ...]:
    """Classes and parameters of these models, for another process to make them."""
    return tuple((type(models[name]), models[name].get_params()) for name in before)
