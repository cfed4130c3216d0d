"""Search the settings of a model that it does not learn by itself."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tastespace.data.ratings import Ratings
from tastespace.data.splits import random_split
from tastespace.errors import InvalidParameterError, TastespaceError, TastespaceWarning
from tastespace.models import MODELS, Recommender
from tastespace.models.base.parameters import check_int, check_number
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import resolve
from tastespace.selection.compare_models import suited
from tastespace.selection.journal import Journal, check_folder
from tastespace.selection.search import Rung, Search, Space, require_optuna, rungs_of, space_of
from tastespace.selection.tune_result import Ending, Goal, TuneResult, TuneTrial, goal_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


TRIALS, RUNGS = 30, 3


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

    A `share` of the ratings is held out at random, and settings are judged by what a model fitted to the others says of
    it: nothing else is looked at, so ratings that are to test the result must not be among those given here. By
    successive halving most settings are tried on a part of the users only (`tastespace.selection.search`); `rungs` is
    how many parts there are, 1 for all users at once. What is searched is in `tastespace.selection.search`: `fixed` are
    parameters that are not, `ranges` other ends of what is, as (low, high).

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
    told = dict(fixed or {})
    base = suited(MODELS[model], ratings).set_params(**{"seed": resolve(seed), **told, "threads": threads})
    base.check()
    space, goal = space_of(model, ratings, told, ranges), goal_of(measure, base, ratings)
    split = random_split(ratings, share, seed=resolve(seed))
    run = _Run(
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
        "space": {name: part.told(ratings) for name, part in space.items()},
        "measure": goal.measure,
        "share": share,
        "rungs": len(run.rungs),
        "seed": seed,
    }
    journal = Journal.begin(where, resume=resume, is_smaller_better=goal.is_smaller_better, run=same)
    began = time.monotonic()
    try:
        defaults, found, ended_by = _searched(run, journal, trials, resolve(seed))
    finally:
        journal.close()
    return TuneResult(
        model=model,
        goal=goal,
        defaults=defaults,
        trials=tuple(run.told(trial) for trial in found),
        parameters=base.get_params(),
        shares=tuple(rung.share for rung in run.rungs),
        held_out=len(split.test),
        ratings=len(ratings),
        seconds=time.monotonic() - began,
        ended_by=ended_by,
    )


def _check(ratings: Any, model: Any, trials: int, seconds: float | None, share: float, rungs: int) -> None:
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


def _searched(run: _Run, journal: Journal, trials: int, seed: int) -> tuple[float, list[FrozenTrial], Ending]:
    """What the model achieves as it is, all trials, and why there are no more."""
    defaults = journal.defaults()
    if defaults is None:
        defaults = run.measured({}, run.rungs[-1])
        journal.keep_defaults(defaults)
    found = journal.trials()
    search = Search(run.space, is_smaller_better=run.goal.is_smaller_better, seed=seed, before=found)
    best = run.best(defaults, found)
    try:
        while len(found) < trials:
            run.observer(Progress("trials", len(found), trials, {run.goal.measure: best}))
            ended = run.attempt(search)
            if ended is None:
                return defaults, found, "time"
            journal.keep(ended)
            found.append(ended)
            best = run.best(defaults, found)
    except KeyboardInterrupt:
        return defaults, found, "interrupt"
    run.observer(Progress("trials", len(found), max(trials, len(found)), {run.goal.measure: best}))
    return defaults, found, "trials"


@dataclass(eq=False)
class _Run:
    """What is the same for all trials."""

    base: Recommender
    space: Space
    goal: Goal
    ratings: Ratings
    rungs: tuple[Rung, ...]
    until: float
    observer: Observer
    said: dict[str, None] = field(default_factory=dict[str, None])  # warnings of the trial that runs

    def measured(self, searched: Mapping[str, Any], rung: Rung) -> float:
        """What settings achieve on a rung."""
        settings = {name: self.space[name].value(value, rung.split.train) for name, value in searched.items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recommender = type(self.base)(**{**self.base.get_params(), **settings})
            recommender.fit(rung.split.train, observer=self._fitting)
            value = self.goal.value(recommender, rung.split)
        self.said |= dict.fromkeys(str(entry.message) for entry in caught if _is_ours(entry.category))
        if not math.isfinite(value):
            raise InvalidParameterError(f"{self.goal.measure} is {value} on the held-out ratings; expected a number")
        return value

    def attempt(self, search: Search) -> FrozenTrial | None:
        """One trial, rung by rung; None if the time is up before it has ended: then it is as if it had not begun."""
        if time.monotonic() >= self.until:
            return None
        began, trial, value, share, error = time.monotonic(), search.ask(), None, self.rungs[0].share, None
        self.said.clear()
        for place, rung in enumerate(self.rungs):
            if time.monotonic() >= self.until:
                return None
            share = rung.share
            try:
                value = self.measured(trial.params, rung)
            except TastespaceError as problem:
                value, error = None, str(problem)
                break
            is_hopeless = search.is_hopeless(trial, rung.step, value)
            if is_hopeless and place + 1 < len(self.rungs):
                break
        told = {"seconds": time.monotonic() - began, "users": share, "error": error, "warnings": list(self.said)}
        return search.end(trial, told, value=value, is_complete=share == 1)

    def best(self, defaults: float, found: list[FrozenTrial]) -> float:
        """The best value so far with all users, that of the model as it is included."""
        values = [trial.value for trial in found if trial.user_attrs["users"] == 1 and trial.value is not None]
        return (min if self.goal.is_smaller_better else max)([defaults, *values])

    def told(self, trial: FrozenTrial) -> TuneTrial:
        """A trial as people read it."""
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

    def _fitting(self, event: Progress) -> None:
        self.observer(replace(event, phase="fitting"))


def _is_ours(category: type[Warning]) -> bool:
    return issubclass(category, TastespaceWarning)
