"""Search the settings that a model does not learn by itself."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import polars as pl

from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split, random_split
from tastespace.errors import InvalidParameterError, TastespaceWarning
from tastespace.evaluation.evaluate import OF_UNCERTAIN, evaluate
from tastespace.evaluation.metrics import binary, order
from tastespace.evaluation.resampling import UNDEFINED, counted, display_name, figure
from tastespace.models import MODELS, Recommender
from tastespace.models.registry import suited
from tastespace.parameters import Choice, Range, SearchSpace, check_int, check_number
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import resolve
from tastespace.selection.search import DEFAULTS, Rung, Search, begin_run, check_folder, quiet, require_optuna, rungs_of
from tastespace.selection.trials import Task, attempt, run
from tastespace.settings import suggests
from tastespace.tables import TableResult, TextTable

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial


SMALLER_IS_BETTER = ("rmse", "mae", "crps", "log_loss", "ece")
OF_LISTS = ("ndcg", "ndcg_binary", "recall", "precision", "hit_rate", "mrr", "map", "auc")  # larger is better
KNOWN = (*SMALLER_IS_BETTER, "log_score", *order.OF_ORDER, "yes_no_auc", binary.BY_USER, *OF_LISTS)
WITH_LENGTH = (order.NDCG, *(name for name in OF_LISTS if name != "auc"))
DEFAULT_K = 10


@dataclass(frozen=True)
class Goal:
    """A measure of held-out ratings, as in a report."""

    measure: str
    k: int = DEFAULT_K

    @property
    def name(self) -> str:
        """The measure without the length of lists."""
        return self.measure.partition("@")[0]

    @property
    def is_smaller_better(self) -> bool:
        return self.name in SMALLER_IS_BETTER

    def better(self, value: float, other: float) -> bool:
        return value < other if self.is_smaller_better else value > other

    def value(self, recommender: Recommender, split: Split, observer: Observer = silent) -> float:
        """The measure of a fitted model on the held-out part."""
        lists, uncertainty = self.name in OF_LISTS, self.name in OF_UNCERTAIN
        report = evaluate(
            recommender, split, k=self.k, ranking=lists, groups=False, calibration=uncertainty, bootstrap=0
        )
        if self.measure not in report.measures:
            raise InvalidParameterError(
                f"{self.measure} is not measured for {type(recommender).__name__} on {report.kind} ratings; expected "
                f"one of {', '.join(name for name in report.measures if name.partition('@')[0] in KNOWN)}"
            )
        value = report[self.measure]
        if not math.isfinite(value):
            raise InvalidParameterError(f"{self.measure} is {value} on the held-out ratings; expected a number")
        return value


def goal_of(measure: str | None, recommender: Recommender, ratings: Ratings) -> Goal:
    """The requested measure, or the deciding one for the kind of the ratings, as in a comparison of models."""
    if measure is None:
        if ratings.kind in CHOICES or not recommender.suits("stars"):
            return Goal(f"ndcg@{DEFAULT_K}")
        return Goal("log_loss" if ratings.kind == "yes-no" else "rmse")
    name, at, length = str(measure).partition("@")
    has_length = name in WITH_LENGTH
    if name not in KNOWN or has_length != bool(at) or (at and not (length.isdecimal() and int(length) >= 1)):
        shown = (f"{known}@{DEFAULT_K}" if known in WITH_LENGTH else known for known in KNOWN)
        raise InvalidParameterError(f"the measure is {measure!r}; expected one of {', '.join(shown)}")
    return Goal(measure, int(length) if at else DEFAULT_K)


Ending = Literal["trials", "time", "interrupt"]
AS_IT_IS = "defaults"  # the row of a model with its defaults


@dataclass(frozen=True)
class TuneTrial:
    """One setting that was tried. `value` is its measure with the users of its last rung, None where a fit failed."""

    number: int  # from 1, in the order in which they were tried
    settings: Mapping[str, Any]  # for a fit on all the given ratings
    value: float | None
    users: float  # share of the users of its last rung: 1 if it was finished
    seconds: float
    warnings: tuple[str, ...] = ()
    error: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it was measured with all users: the best is chosen among these."""
        return self.error is None and self.users == 1


@dataclass(frozen=True, eq=False, repr=False)
class TuneResult(TableResult[TuneTrial]):
    """Settings of a model, tried on a held-out part of the ratings; `settings` are the best.

    `defaults` is the measure of the model with its defaults. If no setting was better, `settings` is empty.
    """

    key: ClassVar[str] = "number"

    model: str
    goal: Goal
    defaults: float
    parameters: Mapping[str, Any]  # the same in all fits
    shares: tuple[float, ...]  # of the users, by rung
    held_out: int  # ratings used to choose
    ratings: int  # all ratings, including these
    seconds: float  # of this call
    ended_by: Ending = "trials"  # all trials done, time limit, or interrupt

    @property
    def trials(self) -> tuple[TuneTrial, ...]:
        """In the order in which they were tried."""
        return self.entries

    @property
    def ranked(self) -> list[TuneTrial]:
        """The best first: those that were finished, then by their last rung; those that failed last."""
        sign = 1 if self.goal.is_smaller_better else -1

        def order(trial: TuneTrial) -> tuple[bool, float, float, int]:
            value = 0.0 if trial.value is None else sign * trial.value
            return trial.error is not None, -trial.users, value, trial.number

        return sorted(self.trials, key=order)

    @property
    def best(self) -> TuneTrial | None:
        """The best of those that were finished; None if nothing beats the defaults."""
        first = next(iter(self.ranked), None)
        return first if first is not None and self._beats_defaults(first) else None

    def _beats_defaults(self, trial: TuneTrial) -> bool:
        return trial.is_complete and trial.value is not None and self.goal.better(trial.value, self.defaults)

    @property
    def settings(self) -> dict[str, Any]:
        """The best settings; empty where nothing beats the defaults."""
        return {} if self.best is None else dict(self.best.settings)

    @property
    def value(self) -> float:
        """The measure of the best settings on the held-out ratings: slightly optimistic, being chosen on it."""
        best = self.best
        return self.defaults if best is None or best.value is None else best.value

    def recommender(self) -> Recommender:
        """The model with the best settings, to be fitted to all ratings."""
        return MODELS[self.model](**{**self.parameters, **self.settings})

    def changed(self) -> dict[str, Any]:
        """The parameters of that model that differ from its defaults, seed and threads aside."""
        usual = MODELS[self.model]().get_params()
        given = {**self.parameters, **self.settings}
        return {key: value for key, value in given.items() if key not in ("seed", "threads") and value != usual[key]}

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return {
            "model": self.model,
            "measure": self.goal.measure,
            "smaller_is_better": self.goal.is_smaller_better,
            "settings": self.settings,
            "value": self.value,
            "defaults": self.defaults,
            "trials": [asdict(trial) | {"warnings": list(trial.warnings)} for trial in self.trials],
            "users": list(self.shares),
            "ratings": self.ratings,
            "held_out": self.held_out,
            "seconds": round(self.seconds, 3),
            "ended_by": self.ended_by,
        }

    def records(self) -> list[dict[str, Any]]:
        """One row per trial, the best first."""
        return [{**asdict(trial), **trial.settings} for trial in self.ranked]

    def schema(self) -> dict[str, Any]:
        """Number, one column per setting, value, users, seconds, error."""
        figures = {"value": pl.Float64, "users": pl.Float64, "seconds": pl.Float64, "error": pl.String}
        return {"number": pl.Int64} | dict.fromkeys(self._names()) | figures

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for trial in self.trials for name in trial.settings))

    def table(self, n: int | None = None) -> TextTable:
        """One row per setting, the best first, and the defaults; the first n of them."""
        names, tried = self._names(), self.ranked[:n]

        def row(trial: TuneTrial) -> tuple[str, ...]:
            value = UNDEFINED if trial.value is None else figure(trial.value)
            return str(trial.number), *(_text(trial.settings.get(name)) for name in names), value, f"{trial.users:.0%}"

        rows = [row(trial) for trial in tried]
        place = sum(map(self._beats_defaults, tried))
        rows.insert(place, (AS_IT_IS, *([""] * len(names)), figure(self.defaults), "100%"))
        left = len(self.trials) - len(tried)
        measure = display_name(self.goal.measure)
        judged = f"measured by {measure} of {self.held_out:,} of {counted(self.ratings, 'rating')}"
        title = f"Settings of {self.model}, best first: {counted(len(self.trials), 'trial')}, {judged}"
        note = f"and {left} more" if left else ""
        return TextTable(title, ("trial", *names, measure, "users"), tuple(rows), note)

    def __repr__(self) -> str:
        return f"<TuneResult of {self.model}: {display_name(self.goal.measure)} {figure(self.value)}, {self.settings}>"


def _text(value: Any) -> str:
    return UNDEFINED if value is None else f"{value:g}" if isinstance(value, float) else str(value)


TRIALS, RUNGS = 30, 3


def tunable_models() -> list[str]:
    """The names of the models with a search space."""
    return [name for name, model in MODELS.items() if model.search_space]


@suggests
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

    A `share` of the ratings is held out at random, and settings are compared by the error of a model fitted to the
    others on it. Only the given ratings are used, so ratings that are to test the result must not be among them. By
    successive halving most settings are tried on a part of the users only (`tastespace.selection.search`); `rungs` is
    the number of parts, 1 for all users at once. The `search_space` of the model is searched: `fixed` are
    parameters that are not searched, `ranges` other bounds, as (low, high).

    `measure` is that of a report; by default RMSE for stars, log loss for yes and no, NDCG@10 for implicit feedback.
    The search ends after `trials` settings in all; no further fit starts after `seconds`. The defaults of the model are
    measured first, and settings that do not beat them are not recommended.

    The same seed gives the same trials, whatever the number of threads. With a `folder` each trial is kept when it
    ends; an interrupted run continues with `resume`, and ends as it would have without the interruption. More
    `trials` than before continue a finished search. Needs the extra `tune`.
    """
    _check(ratings, model, trials, seconds, share, rungs)
    require_optuna()
    where = None if folder is None else Path(folder)
    if where is not None:
        check_folder(where, resume=resume)
    elif resume:
        raise InvalidParameterError("resume is True without a folder; expected the folder of the search to resume")
    fixed, seed = dict(fixed or {}), resolve(seed)
    base = suited(MODELS[model], ratings).set_params(**{"seed": seed, **fixed, "threads": threads})
    base.check()
    space, goal = space_of(model, ratings, fixed, ranges), goal_of(measure, base, ratings)
    split = random_split(ratings, share, seed=seed)
    parts, until = rungs_of(split, rungs, seed), math.inf if seconds is None else time.monotonic() + seconds
    search = _Run(base, space, goal, ratings, parts, until, observer)
    same = {
        "ratings": ratings.fingerprint()[:16],
        "model": model,
        "parameters": {key: value for key, value in base.get_params().items() if key not in ("seed", "threads")},
        "space": {name: part.describe(ratings) for name, part in space.items()},
        "measure": goal.measure,
        "share": share,
        "rungs": len(parts),
        "seed": seed,
    }
    with ExitStack() as held:
        kept = begin_run(where, held, resume=resume, is_smaller_better=goal.is_smaller_better, run=same)
        began = time.monotonic()
        defaults, found, ended_by = search.all_trials(kept, trials, seed)
    return TuneResult(
        entries=tuple(search.trial_of(trial) for trial in found),
        model=model,
        goal=goal,
        defaults=defaults,
        parameters=base.get_params(),
        shares=tuple(rung.share for rung in parts),
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
    model: str, ratings: Ratings, fixed: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]] | None = None
) -> SearchSpace:
    """The search space of a model, without fixed parameters, and with other bounds where they are given."""
    usual = MODELS[model].search_space
    if not usual:
        able = ", ".join(tunable_models())
        raise InvalidParameterError(f"the model {model} has nothing to tune; expected one of {able}")
    given = dict(ranges or {})
    for name in given:
        if name not in usual or isinstance(usual[name], Choice):
            numbers = ", ".join(key for key, part in usual.items() if isinstance(part, Range))
            raise InvalidParameterError(
                f"a range is given for {name!r}, which is not a number in the search space of {model}; expected one of "
                f"{numbers}"
            )
        if name in fixed:
            raise InvalidParameterError(f"{name} is fixed, but a range is given for it; expected one of the two")
    space = {
        name: part if name not in given or isinstance(part, Choice) else part.between(*given[name], ratings)
        for name, part in usual.items()
        if name not in fixed
    }
    if not space:
        raise InvalidParameterError(
            f"the whole search space of {model} is fixed ({', '.join(usual)}); expected at least one of them to be left"
        )
    return space


@dataclass(eq=False)
class _Run:
    """The constants of all trials."""

    base: Recommender
    space: SearchSpace
    goal: Goal
    ratings: Ratings
    rungs: tuple[Rung, ...]
    until: float
    observer: Observer

    def all_trials(self, kept: Study, trials: int, seed: int) -> tuple[float, list[FrozenTrial], Ending]:
        """The measure of the defaults, all trials, and why there are no more."""
        defaults: float | None = kept.user_attrs.get(DEFAULTS)
        if defaults is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TastespaceWarning)
                defaults = float(run(self._task({}, self.rungs[-1]), self.rungs[-1].split, self._fitting).value)
            with quiet():
                kept.set_user_attr(DEFAULTS, defaults)
        found = kept.get_trials()
        search = Search(self.space, is_smaller_better=self.goal.is_smaller_better, seed=seed, before=found)
        try:
            while len(found) < trials:
                self._report(defaults, found, trials)
                ended = self._trial(search)
                if ended is None:
                    return defaults, found, "time"
                with quiet():
                    kept.add_trial(ended)
                found.append(ended)
        except KeyboardInterrupt:
            return defaults, found, "interrupt"
        self._report(defaults, found, max(trials, len(found)))
        return defaults, found, "trials"

    def _trial(self, search: Search) -> FrozenTrial | None:
        """One trial, rung by rung; None if the time is up before it has ended: it is then discarded."""
        began, trial, warned = time.monotonic(), search.ask(), dict[str, None]()
        for rung in self.rungs:
            if time.monotonic() >= self.until:
                return None
            outcome = attempt(self._task(trial.params, rung), rung.split, self._fitting)
            warned |= dict.fromkeys(outcome.warnings)
            if outcome.error is not None or (search.is_hopeless(trial, rung.step, outcome.value) and rung.share < 1):
                break
        kept = {"seconds": time.monotonic() - began, "users": rung.share, "error": outcome.error}
        return search.end(trial, kept | {"warnings": list(warned)}, value=outcome.value, is_complete=rung.share == 1)

    def _task(self, searched: Mapping[str, Any], rung: Rung) -> Task:
        """A fit with these settings, in the units of the rung."""
        settings = {name: self.space[name].value(value, rung.split.train) for name, value in searched.items()}
        return Task(type(self.base), {**self.base.get_params(), **settings}, self.goal.value)

    def _report(self, defaults: float, found: list[FrozenTrial], total: int) -> None:
        """Report the number of finished trials, with the best value so far with all users, including the defaults."""
        values = [trial.value for trial in found if trial.user_attrs["users"] == 1 and trial.value is not None]
        best = (min if self.goal.is_smaller_better else max)([defaults, *values])
        self.observer(Progress("trials", len(found), total, {self.goal.measure: best}))

    def _fitting(self, event: Progress) -> None:
        self.observer(replace(event, phase="fitting"))

    def trial_of(self, trial: FrozenTrial) -> TuneTrial:
        """Convert a trial of Optuna to a `Trial`."""
        kept, values = trial.user_attrs, trial.intermediate_values
        settings = {name: part.value(trial.params[name], self.ratings) for name, part in self.space.items()}
        value = None if kept["error"] is not None else values[max(values)]
        return TuneTrial(trial.number + 1, settings, value, **kept | {"warnings": tuple(kept["warnings"])})
