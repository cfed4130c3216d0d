"""Which method, at what cost? Many models on one split, each in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.data.kinds import Kind, guess_kind
from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split, random_split
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.apart import attempt_apart, keep
from tastespace.evaluation.beginnings import beginnings, cannot_begin, described
from tastespace.evaluation.contest_result import Contest, Entry, Parts, compared
from tastespace.evaluation.contestant import Outcome, Task, attempt
from tastespace.evaluation.entrants import faults_of, oversized, suitable_models, unsuitable
from tastespace.evaluation.judging import Relevant
from tastespace.models import Recommender
from tastespace.models.parameters import whole_number
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import resolve

INTERRUPTED = "interrupted"
NOT_BEGUN = "not begun: interrupted before"


def contest(
    ratings: Ratings | Split,
    models: Mapping[str, Recommender] | None = None,
    *,
    share: float = 0.1,
    k: int = 10,
    relevant: Relevant = None,
    ranking: bool = True,
    bootstrap: int = 1000,
    seed: int = 0,
    starts: Mapping[str, str] | None = None,
    apart: bool = True,
    observer: Observer = silent,
) -> Contest:
    """Fit models on the same training ratings and measure them on the same test ratings, one after the other.

    `ratings` are split at random, a `share` of them being the test part; or they are a `Split` already. `models` are
    recommenders by any names, which are not changed; by default all that suit the ratings, with `seed`. `k`,
    `relevant`, `ranking` and `bootstrap` are as in `evaluate`; what is relevant is the same for all models.

    `starts` are models that begin from others (see `Recommender.fit`), by name: `{"sampled": "believed"}` fits the
    model "believed" once more, and "sampled" from its items. Time and memory of the start count.

    Each model has a process of its own, so that memory and processor time are its own, and a model that fails, even one
    whose process is killed, is an entry that says why. `apart=False` does without: nothing is said of memory, and a
    model may be of a class that another process could not import. What can be known to fail beforehand, by parameters
    out of range or by memory that this machine does not have, is not tried.

    An interrupt (Ctrl-C) ends the model that runs, and what there is is returned: see `Contest.is_interrupted`.
    """
    _check(ratings, models)
    wrong = {} if models is None else faults_of(models)  # before anything takes time
    whole_number("k", k, least=1)
    whole_number("bootstrap", bootstrap, least=0)
    split = ratings if isinstance(ratings, Split) else random_split(ratings, share, seed=resolve(seed))
    entrants = suitable_models(split.train, seed=seed) if models is None else models
    kind = _kind(split)
    agreed = _relevant(relevant, kind, split)
    begun = {} if starts is None else starts
    before = beginnings(begun, entrants)
    entries: list[Entry] = []
    is_interrupted = False
    with _attempts(split, apart) as outcome_of:
        for place, (name, model) in enumerate(entrants.items()):
            if is_interrupted:
                entries.append(_entry(name, model, Outcome(error=NOT_BEGUN), split, begun.get(name)))
                continue
            firsts = before.get(name, ())
            task = Task(
                type(model), model.get_params(), k, agreed, ranking, bootstrap, seed, described(entrants, firsts)
            )
            try:
                observer(Progress("models", place, len(entrants)))
                reason = _reason(name, entrants, wrong, split.train, firsts)
                outcome = outcome_of(task, _named(name, observer)) if reason is None else Outcome(error=reason)
            except KeyboardInterrupt:
                outcome, is_interrupted = Outcome(error=INTERRUPTED), True
            entries.append(_entry(name, model, outcome, split, begun.get(name)))
    if not is_interrupted:
        observer(Progress("models", len(entrants), len(entrants)))
    return Contest(
        entries=compared(entries, k, bootstrap, seed),
        parts=Parts.of(split, kind),
        k=k,
        is_interrupted=is_interrupted,
    )


def _check(ratings: Any, models: Any) -> None:
    if not isinstance(ratings, Ratings | Split):
        raise InvalidParameterError(f"contest got {type(ratings).__name__}; expected Ratings or a Split of them")
    if models is None:
        return
    if not isinstance(models, Mapping) or not models:
        raise InvalidParameterError(f"models is {models!r}; expected recommenders by name, {{name: recommender}}")
    for name, model in models.items():
        if not isinstance(name, str) or not isinstance(model, Recommender):
            raise InvalidParameterError(
                f"models has {type(model).__name__} for {name!r}; expected recommenders by name, {{name: recommender}}"
            )
        if not name.strip():
            raise InvalidParameterError(
                f"models has {type(model).__name__} under the name {name!r}; expected a name that a row can be known by"
            )


@contextmanager
def _attempts(split: Split, apart: bool) -> Iterator[Any]:
    """How a task is attempted: in a process of its own, or in this one."""
    if not apart:
        yield lambda task, observer: attempt(task, split, observer, is_alone=False)
        return
    with tempfile.TemporaryDirectory(prefix="tastespace-") as folder:
        kept = Path(folder) / "split.pickle"
        keep(split, kept)
        yield lambda task, observer: attempt_apart(task, kept, observer)


def _named(name: str, observer: Observer) -> Observer:
    """Phases of different models have different names."""
    return lambda event: observer(replace(event, phase=f"{name}: {event.phase}"))


def _reason(
    name: str, entrants: Mapping[str, Recommender], wrong: Mapping[str, str], train: Ratings, before: tuple[str, ...]
) -> str | None:
    """Why it is no use to try; None if it may be."""

    def of_itself(each: str) -> str | None:
        return wrong.get(each) or unsuitable(entrants[each], train) or oversized(entrants[each], train)

    reason = of_itself(name) or (cannot_begin(entrants[name]) if before else None)
    for start in before if reason is None else ():
        if (why := of_itself(start)) is not None:
            return f"it begins from {start}: {why}"
    return reason


def _entry(name: str, model: Recommender, outcome: Outcome, split: Split, start: str | None) -> Entry:
    report = None if outcome.report is None else replace(outcome.report, test=split.test)
    return Entry(
        model=name,
        parameters=model.get_params(),
        start=start,
        report=report,
        cost=outcome.cost,
        trace=outcome.trace,
        warnings=outcome.warnings,
        error=outcome.error,
    )


def _kind(split: Split) -> Kind:
    """What the ratings say, all of them together."""
    declared = split.test.declared_kind or split.train.declared_kind
    return declared or guess_kind(np.concatenate([split.train.values, split.test.values])).kind


def _relevant(asked: Relevant, kind: Kind, split: Split) -> Relevant:
    """What lists are to hold, the same for all models: each for itself might choose something else."""
    if asked is not None:
        return asked
    if kind == "stars":
        low, high = split.train.range
        return low if low == high else split.train.mean
    return 1.0 if kind == "yes-no" else "all"
