"""Which method, at what cost? Many models on one split, each in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.data.kinds import CHOICES, Kind, guess_kind
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split, random_split
from tastespace.errors import InvalidParameterError, TastespaceError
from tastespace.evaluation.relevance import Relevant
from tastespace.models import MODELS, Recommender
from tastespace.models.base.parameters import check_int
from tastespace.models.implicit_feedback import OneClass
from tastespace.models.registry import misfit, suitable_model
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import resolve
from tastespace.selection import trials
from tastespace.selection.comparison import Entry, ModelComparison, Parts, compared
from tastespace.selection.trials import Outcome, Task, attempt, attempt_apart, beginnings, cannot_begin, described, keep

NUMBER_BYTES = 4  # of a factor, in single precision: rows of both sides, and one matrix of factors by factors


def suitable_models(ratings: Ratings, *, seed: int | None = None, threads: int | None = None) -> dict[str, Recommender]:
    """Every model that makes something of what these ratings say, by its name, with parameters that suit them."""
    entrants = {name: suited(model, ratings) for name, model in MODELS.items()}
    return {
        name: model.set_params(seed=seed, threads=threads)
        for name, model in entrants.items()
        if unsuitable(model, ratings) is None
    }


def suited(model: type[Recommender], ratings: Ratings) -> Recommender:
    """A model of this class with the parameters that the kind of the ratings asks for, all others as usual.

    A family has the same parameters: what `suitable_model` chooses for `BPMF` goes for those made from it, too.
    """
    chosen = suitable_model(ratings).recommender
    return model(**chosen.get_params()) if model is type(chosen) else model(**_likelihood(model, chosen))


def unsuitable(recommender: Recommender, ratings: Ratings) -> str | None:
    """Why a model cannot be expected to make anything of these ratings; None if it can."""
    kind, known_by = ratings.kind_and_reason
    if isinstance(recommender, OneClass) and kind not in CHOICES:
        name = type(recommender).__name__
        return f"the values are {kind} ({known_by}), and {name} takes all of them for things chosen; bpmf would suit"
    return misfit(recommender, ratings)


def faults_of(models: Mapping[str, Recommender]) -> dict[str, str]:
    """What models find wrong with their own parameters, by name; those that are fine are not there."""
    faults = {}
    for name, model in models.items():
        try:
            model.check()
        except TastespaceError as error:
            faults[name] = str(error)
        except Exception:
            continue  # A model may be anybody's: what goes wrong in it is told where it is fitted.
    return faults


def oversized(recommender: Recommender, ratings: Ratings) -> str | None:
    """Why the factors of a model cannot be held by this machine, whatever else it needs; None if they can."""
    n_factors, here = getattr(recommender, "n_factors", None), trials.machine_bytes()
    if not isinstance(n_factors, Integral) or here is None:
        return None
    needed = NUMBER_BYTES * int(n_factors) * (int(n_factors) + ratings.n_users + ratings.n_items)
    if needed <= here:
        return None
    return (
        f"n_factors is {n_factors}, with which {ratings.n_users:,} users and {ratings.n_items:,} items would take "
        f"{_gigabytes(needed)} at least, and this machine has {_gigabytes(here)}; expected fewer factors, such as 32"
    )


def _gigabytes(n: int) -> str:
    return f"{n / 1e9:,.0f} GB" if n < 1e15 else f"{n / 1e9:.0e} GB"


def _likelihood(model: type[Recommender], chosen: Recommender) -> dict[str, Any]:
    """The likelihood that suits, for another class that has likelihoods as the chosen one."""
    parameters = chosen.get_params()
    return (
        {"likelihood": parameters["likelihood"]}
        if issubclass(model, type(chosen)) and "likelihood" in parameters
        else {}
    )


INTERRUPTED = "interrupted"
NOT_BEGUN = "not begun: interrupted before"


def compare_models(
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
) -> ModelComparison:
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
    check_int("k", k, least=1)
    check_int("bootstrap", bootstrap, least=0)
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
    return ModelComparison(
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
