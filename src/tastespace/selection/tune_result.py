"""What a search of settings found, and the goal by which it was decided."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import polars as pl

from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.metrics.binary import BY_USER
from tastespace.evaluation.metrics.order import NDCG as NDCG_RATED
from tastespace.evaluation.metrics.order import OF_ORDER
from tastespace.evaluation.tables import UNDEFINED, counted, display_name, figure
from tastespace.models import MODELS, Recommender
from tastespace.progress import Observer, silent
from tastespace.tables import Table, TableResult

SMALLER_IS_BETTER = ("rmse", "mae", "crps", "log_loss", "ece")
OF_LISTS = ("ndcg", "ndcg_binary", "recall", "precision", "hit_rate", "mrr", "map", "auc")  # larger is better
KNOWN = (*SMALLER_IS_BETTER, "log_score", *OF_ORDER, "yes_no_auc", BY_USER, *OF_LISTS)
WITH_LENGTH = (NDCG_RATED, *(name for name in OF_LISTS if name != "auc"))
DEFAULT_K = 10


@dataclass(frozen=True)
class Goal:
    """A measure of held-out ratings, as a report has it."""

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
        report = evaluate(
            recommender,
            split,
            k=self.k,
            ranking=self.name in OF_LISTS,
            groups=False,
            calibration=self.name in ("crps", "log_score"),
            bootstrap=0,
        )
        if self.measure not in report.measures:
            raise InvalidParameterError(
                f"{self.measure} is not measured of {type(recommender).__name__} on {report.kind} ratings; expected "
                f"one of {', '.join(name for name in report.measures if name.partition('@')[0] in KNOWN)}"
            )
        value = report[self.measure]
        if not math.isfinite(value):
            raise InvalidParameterError(f"{self.measure} is {value} on the held-out ratings; expected a number")
        return value


def goal_of(measure: str | None, recommender: Recommender, ratings: Ratings) -> Goal:
    """The measure asked for, or what decides by the kind of the ratings, as in a comparison of models."""
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
DEFAULTS = "as it is"  # the row of a model with its defaults


@dataclass(frozen=True)
class TuneTrial:
    """One setting that was tried. `value` is what it achieved with the users it got to, None where a fit failed."""

    number: int  # from 1 on, in the order in which they were tried
    settings: Mapping[str, Any]  # for a fit on all the given ratings
    value: float | None
    users: float  # share of the users that it got to: 1 if it went all the way
    seconds: float
    warnings: tuple[str, ...] = ()
    error: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it was measured with all users: among such the best is chosen."""
        return self.error is None and self.users == 1


@dataclass(frozen=True, eq=False, repr=False)
class TuneResult(TableResult[TuneTrial]):
    """Settings of a model, tried on a held-out part of the ratings; `settings` are the best.

    `defaults` is what the model achieves as it is. If no setting did better, `settings` is empty: leave it as it is.
    """

    key: ClassVar[str] = "number"

    model: str
    goal: Goal
    defaults: float
    parameters: Mapping[str, Any]  # the same in all fits
    shares: tuple[float, ...]  # of the users, rung by rung
    held_out: int  # ratings that decided
    ratings: int  # of which these were held out
    seconds: float  # of this call
    ended_by: Ending = "trials"  # all had their turn, the time was up, or a person ended it

    @property
    def trials(self) -> tuple[TuneTrial, ...]:
        """In the order in which they were tried."""
        return self.entries

    @property
    def ranked(self) -> list[TuneTrial]:
        """The best first: those that went all the way, then by how far they got; those that failed last."""
        sign = 1 if self.goal.is_smaller_better else -1

        def order(trial: TuneTrial) -> tuple[bool, float, float, int]:
            value = 0.0 if trial.value is None else sign * trial.value
            return trial.error is not None, -trial.users, value, trial.number

        return sorted(self.trials, key=order)

    @property
    def best(self) -> TuneTrial | None:
        """The best of those that went all the way; None if the model is better left as it is."""
        first = next(iter(self.ranked), None)
        return first if first is not None and self._beats_defaults(first) else None

    def _beats_defaults(self, trial: TuneTrial) -> bool:
        return trial.is_complete and trial.value is not None and self.goal.better(trial.value, self.defaults)

    @property
    def settings(self) -> dict[str, Any]:
        """The best settings; empty where nothing beats the model as it is."""
        return {} if self.best is None else dict(self.best.settings)

    @property
    def value(self) -> float:
        """What the best settings achieve on the held-out ratings: a little too good, having been chosen by it."""
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
        """One a trial, the best first."""
        return [{**asdict(trial), **trial.settings} for trial in self.ranked]

    def schema(self) -> dict[str, Any]:
        """Number, a column a setting, value, users, seconds, error."""
        figures = {"value": pl.Float64, "users": pl.Float64, "seconds": pl.Float64, "error": pl.String}
        return {"number": pl.Int64} | dict.fromkeys(self._names()) | figures

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for trial in self.trials for name in trial.settings))

    def table(self, n: int | None = None) -> Table:
        """One row a setting, the best first, and the model as it is; the first n of them."""
        names, tried = self._names(), self.ranked[:n]
        rows = [
            (
                *(str(trial.number), *(_text(trial.settings.get(name)) for name in names)),
                *(UNDEFINED if trial.value is None else figure(trial.value), f"{trial.users:.0%}"),
            )
            for trial in tried
        ]
        place = sum(map(self._beats_defaults, tried))
        rows.insert(place, (DEFAULTS, *([""] * len(names)), figure(self.defaults), "100%"))
        left = len(self.trials) - len(tried)
        measure = display_name(self.goal.measure)
        return Table(
            f"Settings of {self.model}, best first: {counted(len(self.trials), 'trial')}, judged by {measure} of "
            f"{self.held_out:,} of {counted(self.ratings, 'rating')}",
            ("trial", *names, measure, "users"),
            tuple(rows),
            f"and {left} more" if left else "",
        )

    def __repr__(self) -> str:
        return f"<TuneResult of {self.model}: {display_name(self.goal.measure)} {figure(self.value)}, {self.settings}>"


def _text(value: Any) -> str:
    return UNDEFINED if value is None else f"{value:g}" if isinstance(value, float) else str(value)
