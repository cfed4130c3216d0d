"""Compare many models on one split, quality and cost, each in its own process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split, random_split
from tastespace.errors import InvalidParameterError, TastespaceError
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.relevance import Relevant, kind_of
from tastespace.evaluation.report import Report
from tastespace.evaluation.side_by_side import LIST_USERS
from tastespace.models import MODELS, Recommender
from tastespace.models.base.resuming import check_startable
from tastespace.models.registry import misfit, suited
from tastespace.parameters import check_int
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import resolve
from tastespace.selection.comparison import Entry, ModelComparison, Parts, with_differences
from tastespace.selection.trials import Outcome, Task, attempts, order_of_starts, renamed
from tastespace.settings import suggests

INTERRUPTED = "interrupted"
NOT_BEGUN = "not started: interrupted before"
FACTOR_BYTES = 4  # in single precision: rows of both sides, and one matrix of factors by factors


def suitable_models(ratings: Ratings, *, seed: int | None = None, threads: int | None = None) -> dict[str, Recommender]:
    """All models that suit these ratings, by name, with suitable parameters.

    Those that need an extra take long, and are compared when they are named: `AutoRec` and `SparseFC`.
    """
    models = {name: suited(model, ratings) for name, model in MODELS.items() if model.extra is None}
    return {
        name: model.set_params(seed=seed, threads=threads)
        for name, model in models.items()
        if unsuitable(model, ratings) is None
    }


def unsuitable(recommender: Recommender, ratings: Ratings) -> str | None:
    """Why a model does not suit these ratings; None if it does."""
    kind, known_by = ratings.kind_and_reason
    if kind not in CHOICES and not recommender.suits(kind):
        name = type(recommender).__name__
        return f"the values are {kind} ({known_by}), but {name} takes all of them for choices; bpmf would suit"
    return misfit(recommender, ratings)


@suggests
def compare_models(
    ratings: Ratings | Split,
    models: Mapping[str, Recommender] | None = None,
    *,
    share: float = 0.1,
    k: int = 10,
    relevant: Relevant = None,
    ranking: bool = True,
    max_users: int | None = LIST_USERS,
    bootstrap: int = 1000,
    seed: int = 0,
    starts: Mapping[str, str] | None = None,
    apart: bool = True,
    observer: Observer = silent,
) -> ModelComparison:
    """Fit models on the same training ratings and measure them on the same test ratings, one after the other.

    `ratings` are split at random, with a `share` of them as the test part; or they are a `Split` already. `models` are
    recommenders by any names, which are not changed; by default all that suit the ratings, with `seed`. `k`,
    `relevant`, `ranking`, `max_users` and `bootstrap` are as in `evaluate`; relevant items and the users whose lists
    are measured are the same for all models. `verdicts` of the result say which model is best for what.

    `starts` are models that start from others (see `Recommender.fit`), by name: `{"sampled": "believed"}` fits the
    model "believed" once more, and "sampled" from its items. Time and memory of the start count.

    Each model has its own process, so that memory and CPU time are measured separately, and a model that fails, even
    one whose process is killed, is an entry with the reason. `apart=False` uses this process: memory is not measured,
    and a model may be of a class that another process could not import. A model that is known to fail, by parameters
    out of range or by memory that this machine does not have, is not tried.

    An interrupt (Ctrl-C) ends the running model, and the results so far are returned: see
    `ModelComparison.is_interrupted`.
    """
    _check(ratings, models)
    # First the models check their own parameters, before anything takes time.
    wrong = {name: _complaint(model.check) for name, model in (models or {}).items()}
    check_int("k", k, least=1)
    check_int("bootstrap", bootstrap, least=0)
    split = ratings if isinstance(ratings, Split) else random_split(ratings, share, seed=resolve(seed))
    models = suitable_models(split.train, seed=seed) if models is None else models
    kind = kind_of(split.train, split.test)
    starts = {} if starts is None else starts
    before = order_of_starts(starts, models)
    relevant = _relevant(relevant, kind, split)
    how: dict[str, Any] = {
        "k": k,
        "relevant": relevant,
        "ranking": ranking,
        "max_users": max_users,
        "bootstrap": bootstrap,
    }
    measure = partial(_measured, **how, seed=seed)
    entries: list[Entry] = []
    is_interrupted = False
    with attempts(split, in_processes=apart) as outcome_of:
        for place, (name, model) in enumerate(models.items()):
            outcome = Outcome(error=NOT_BEGUN)
            if not is_interrupted:
                firsts = before.get(name, ())
                begun = tuple((type(models[first]), models[first].get_params()) for first in firsts)
                task = Task(type(model), model.get_params(), measure, is_watched=True, starts=begun)
                try:
                    observer(Progress("models", place, len(models)))
                    reason = _reason(name, models, wrong, split.train, firsts)
                    outcome = Outcome(error=reason) if reason else outcome_of(task, renamed(name, observer))
                except KeyboardInterrupt:
                    outcome, is_interrupted = Outcome(error=INTERRUPTED), True
            report = None if outcome.value is None else replace(outcome.value, test=split.test)
            rest = (outcome.cost, outcome.trace, outcome.warnings, outcome.error)
            entries.append(Entry(name, model.get_params(), report, *rest, start=starts.get(name)))
    if not is_interrupted:
        observer(Progress("models", len(models), len(models)))
    return ModelComparison(with_differences(entries, k, bootstrap, seed), Parts.of(split, kind), k, is_interrupted)


def _measured(recommender: Recommender, split: Split, **options: Any) -> Report:
    """A report without the test ratings, which the parent process has already."""
    return replace(evaluate(recommender, split, **options), test=None)


def _check(ratings: Any, models: Any) -> None:
    if not isinstance(ratings, Ratings | Split):
        raise InvalidParameterError(f"compare_models got {type(ratings).__name__}; expected Ratings or a Split of them")
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
                f"models has {type(model).__name__} under the name {name!r}; expected a text that is not empty"
            )


def _complaint(check: Callable[[], None]) -> str | None:
    """The error of a check; None if there is none."""
    try:
        check()
    except TastespaceError as error:
        return str(error)
    except Exception:
        pass  # A model may be user-defined: other errors are reported where it is fitted.
    return None


def _reason(
    name: str, models: Mapping[str, Recommender], wrong: Mapping[str, Any], train: Ratings, before: tuple[str, ...]
) -> str | None:
    """Why a model need not be tried; None if it may work."""

    def own(each: str) -> str | None:
        return wrong.get(each) or unsuitable(models[each], train) or _too_large(models[each], train)

    reason = own(name) or (_complaint(partial(check_startable, models[name])) if before else None)
    for start in before if reason is None else ():
        if (why := own(start)) is not None:
            return f"it starts from {start}: {why}"
    return reason


def _too_large(recommender: Recommender, ratings: Ratings) -> str | None:
    """Why the factors of a model do not fit into the memory of this machine; None if they do."""
    n_factors, here = getattr(recommender, "n_factors", None), _machine_bytes()
    if not isinstance(n_factors, Integral) or here is None:
        return None
    needed = FACTOR_BYTES * int(n_factors) * (int(n_factors) + ratings.n_users + ratings.n_items)
    if needed <= here:
        return None
    return (
        f"n_factors is {n_factors}, for which {ratings.n_users:,} users and {ratings.n_items:,} items would take "
        f"{_gigabytes(needed)} at least, but this machine has {_gigabytes(here)}; expected fewer factors, such as 32"
    )


def _machine_bytes() -> int | None:
    """The memory of the machine; None where the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _gigabytes(n: int) -> str:
    return f"{n / 1e9:,.0f} GB" if n < 1e15 else f"{n / 1e9:.0e} GB"


def _relevant(given: Relevant, kind: Kind, split: Split) -> Relevant:
    """The relevance, the same for all models: each by itself might choose another."""
    if given is not None:
        return given
    if kind == "stars":
        low, high = split.train.range
        return low if low == high else "liked"
    return 1.0 if kind == "yes-no" else "all"
