"""Search the settings of a model that it does not learn by itself."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tastespace.data.ratings import Ratings
from tastespace.data.splits import random_split
from tastespace.errors import InvalidParameterError, TastespaceWarning
from tastespace.models import MODELS, Recommender
from tastespace.models.base.parameters import Choice, Range, SearchSpace, check_int, check_number
from tastespace.models.registry import suited
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import resolve
from tastespace.selection.search import Journal, Rung, Search, check_folder, require_optuna, rungs_of
from tastespace.selection.trials import Task, attempt, run
from tastespace.selection.tune_result import Ending, Goal, TuneResult, TuneTrial, goal_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


TRIALS, RUNGS = 30, 3


def tunable_models() -> list[str]:
    """The names of the models that have something to search."""
    return [name for name, model in MODELS.items() if model.search_space]


def tune(
    ratings: Ratings,
    model: str,
    *,
    trials: int = TRIALS,
    seconds: float | None = None,
    measure: str | None = None,
    share: float = 0.1,
    rungs: int = RUNGS,
    fixed: Mapping[str, Any] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    seed: int = 0,
    threads: int | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    observer: Observer = silent,
) -> TuneResult:
    """Search the settings of a model (a key of `MODELS`) that predict held-out ratings best.

    A `share` of the ratings is held out at random, and settings are compared by what a model fitted to the others
    says of it: nothing else is looked at, so ratings that are to test the result must not be among those given here. By
    successive halving most settings are tried on a part of the users only (`tastespace.selection.search`); `rungs` is
    how many parts there are, 1 for all users at once. What is searched is the `search_space` of the model: `fixed` are
    parameters that are not searched, `ranges` other ends of what is, as (low, high).

    `measure` is that of a report; by default RMSE of stars, log loss of yes and no, NDCG@10 of choices. The search ends
    after `trials` settings in all, or begins no other fit after so many `seconds`. The model as it is, is measured
    first, and what does not beat it is not recommended.

    The same seed gives the same trials, whatever the number of threads. With a `folder` each trial is kept when it
    ends; a run that was interrupted goes on with `resume`, and ends as it would have without the interruption. More
    `trials` than there were continue a search that had ended. Needs the extra `tune`.
    """
    _check(ratings, model, trials, seconds, share, rungs)
    require_optuna()
    where = None if folder is None else Path(folder)
    if where is not None:
        check_folder(where, resume=resume)
    elif resume:
        raise InvalidParameterError("resume is True without a folder; expected the folder of the search to resume")
    fixed = dict(fixed or {})
    base = suited(MODELS[model], ratings).set_params(**{"seed": resolve(seed), **fixed, "threads": threads})
    base.check()
    space, goal = space_of(model, ratings, fixed, ranges), goal_of(measure, base, ratings)
    split = random_split(ratings, share, seed=resolve(seed))
    search = _Run(
        base=base,
        space=space,
        goal=goal,
        ratings=ratings,
        rungs=rungs_of(split, rungs, resolve(seed)),
        until=math.inf if seconds is None else time.monotonic() + seconds,
        observer=observer,
    )
    same = {
        "ratings": ratings.fingerprint()[:16],
        "model": model,
        "parameters": {key: value for key, value in base.get_params().items() if key not in ("seed", "threads")},
        "space": {name: part.describe(ratings) for name, part in space.items()},
        "measure": goal.measure,
        "share": share,
        "rungs": len(search.rungs),
        "seed": seed,
    }
    journal = Journal.begin(where, resume=resume, is_smaller_better=goal.is_smaller_better, run=same)
    began = time.monotonic()
    try:
        defaults, found, ended_by = search.all_trials(journal, trials, resolve(seed))
    finally:
        journal.close()
    return TuneResult(
        entries=tuple(search.trial_of(trial) for trial in found),
        model=model,
        goal=goal,
        defaults=defaults,
        parameters=base.get_params(),
        shares=tuple(rung.share for rung in search.rungs),
        held_out=len(split.test),
        ratings=len(ratings),
        seconds=time.monotonic() - began,
        ended_by=ended_by,
    )


def _check(ratings: Any, model: Any, trials: Any, seconds: Any, share: Any, rungs: Any) -> None:
    if not isinstance(ratings, Ratings):
        raise InvalidParameterError(
            f"tune got {type(ratings).__name__}; expected Ratings: use tastespace.read or Ratings.from_frame"
        )
    if not isinstance(model, str) or model not in MODELS:
        raise InvalidParameterError(f"there is no model {model!r}; expected one of {', '.join(MODELS)}")
    check_int("trials", trials, least=1)
    check_int("rungs", rungs, least=1)
    check_number("share", share, above=0, below=1)
    if seconds is not None:
        check_number("seconds", seconds, above=0)


def space_of(
    model: str,
    ratings: Ratings,
    fixed: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> SearchSpace:
    """What is searched of a model: its space, less what is fixed, with other ends where they are given."""
    usual = MODELS[model].search_space
    if not usual:
        able = ", ".join(tunable_models())
        raise InvalidParameterError(f"the model {model} has nothing to be tuned; expected one of {able}")
    given = dict(ranges or {})
    for name in given:
        if name not in usual or isinstance(usual[name], Choice):
            numbers = ", ".join(key for key, part in usual.items() if isinstance(part, Range))
            raise InvalidParameterError(
                f"a range is given for {name!r}, which is no number that is searched of {model}; expected one of "
                f"{numbers}"
            )
        if name in fixed:
            raise InvalidParameterError(f"{name} is fixed, and a range is given for it; expected one of the two")
    space = {
        name: part if name not in given or isinstance(part, Choice) else part.between(*given[name], ratings)
        for name, part in usual.items()
        if name not in fixed
    }
    if not space:
        raise InvalidParameterError(
            f"all that is searched of {model} is fixed ({', '.join(usual)}); expected at least one of them to be left"
        )
    return space


@dataclass(eq=False)
class _Run:
    """What is the same for all trials."""

    base: Recommender
    space: SearchSpace
    goal: Goal
    ratings: Ratings
    rungs: tuple[Rung, ...]
    until: float
    observer: Observer

    def all_trials(self, journal: Journal, trials: int, seed: int) -> tuple[float, list[FrozenTrial], Ending]:
        """What the model achieves as it is, all trials, and why there are no more."""
        defaults = journal.defaults()
        if defaults is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TastespaceWarning)
                defaults = float(run(self._task({}, self.rungs[-1]), self.rungs[-1].split, self._fitting).value)
            journal.keep_defaults(defaults)
        found = journal.trials()
        search = Search(self.space, is_smaller_better=self.goal.is_smaller_better, seed=seed, before=found)
        try:
            while len(found) < trials:
                self._tell(defaults, found, trials)
                ended = self._trial(search)
                if ended is None:
                    return defaults, found, "time"
                journal.keep(ended)
                found.append(ended)
        except KeyboardInterrupt:
            return defaults, found, "interrupt"
        self._tell(defaults, found, max(trials, len(found)))
        return defaults, found, "trials"

    def _trial(self, search: Search) -> FrozenTrial | None:
        """One trial, rung by rung; None if the time is up before it has ended: then it is as if it had not begun."""
        if time.monotonic() >= self.until:
            return None
        began, trial, said = time.monotonic(), search.ask(), dict[str, None]()
        for rung in self.rungs:
            if time.monotonic() >= self.until:
                return None
            outcome = attempt(self._task(trial.params, rung), rung.split, self._fitting)
            said |= dict.fromkeys(outcome.warnings)
            if outcome.error is not None or (search.is_hopeless(trial, rung.step, outcome.value) and rung.share < 1):
                break
        kept = {"seconds": time.monotonic() - began, "users": rung.share, "error": outcome.error}
        return search.end(trial, kept | {"warnings": list(said)}, value=outcome.value, is_complete=rung.share == 1)

    def _task(self, searched: Mapping[str, Any], rung: Rung) -> Task:
        """A fit with these settings, in the units of the rung."""
        settings = {name: self.space[name].value(value, rung.split.train) for name, value in searched.items()}
        return Task(type(self.base), {**self.base.get_params(), **settings}, self.goal.value)

    def _tell(self, defaults: float, found: list[FrozenTrial], total: int) -> None:
        """How many trials have ended, with the best value so far with all users, that of the defaults included."""
        values = [trial.value for trial in found if trial.user_attrs["users"] == 1 and trial.value is not None]
        best = (min if self.goal.is_smaller_better else max)([defaults, *values])
        self.observer(Progress("trials", len(found), total, {self.goal.measure: best}))

    def _fitting(self, event: Progress) -> None:
        self.observer(replace(event, phase="fitting"))

    def trial_of(self, trial: FrozenTrial) -> TuneTrial:
        """A trial of Optuna as people read it."""
        kept, values = trial.user_attrs, trial.intermediate_values
        return TuneTrial(
            number=trial.number + 1,
            settings={name: part.value(trial.params[name], self.ratings) for name, part in self.space.items()},
            value=None if kept["error"] is not None else values[max(values)],
            users=kept["users"],
            seconds=kept["seconds"],
            warnings=tuple(kept["warnings"]),
            error=kept["error"],
        )
