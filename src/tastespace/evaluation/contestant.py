"""One model of a contest: fit it, see what that costs, and measure it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split
from tastespace.errors import TastespaceError, TastespaceWarning
from tastespace.evaluation import memory
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.judging import Relevant
from tastespace.evaluation.predicting import predict_all
from tastespace.evaluation.rating import rmse
from tastespace.evaluation.report import Report
from tastespace.evaluation.sense import sense_of
from tastespace.inference.trace import HELD_OUT, Trace
from tastespace.models import Recommender
from tastespace.progress import Observer, Progress, silent

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
        memory.begin_peak()
    before = memory.resident_bytes() if is_alone else None
    began, processor = time.perf_counter(), time.process_time()
    listener = Listener(observer, began)
    start = _started(task, split.train, observer)
    recommender.fit(split.train, held_out=split.test, observer=listener, start=start)
    seconds, processor_seconds = time.perf_counter() - began, time.process_time() - processor
    peak = memory.peak_bytes() if is_alone else None
    if peak is None or before is None:
        return Cost(seconds, processor_seconds), listener
    added = max(peak - before, 0) / memory.MEGABYTE
    return Cost(seconds, processor_seconds, added, peak / memory.MEGABYTE), listener


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
