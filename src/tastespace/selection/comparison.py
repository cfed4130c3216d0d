"""What a comparison of models found: an entry a model, with what it costs and how far it is behind the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.splits import Split
from tastespace.evaluation import resampling
from tastespace.evaluation.calibration import Calibration
from tastespace.evaluation.groups import Group, groups_frame, groups_table
from tastespace.evaluation.metrics.order import ACCURACY, NDCG, TAU
from tastespace.evaluation.predictions import are_known
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import UNDEFINED, Interval, counted, display_name, figure, plain_number
from tastespace.selection.trials import Cost, Moment
from tastespace.tables import TableResult, TextTable, frame_of

COVERAGE = "coverage_90"
SMALLER_IS_BETTER = ("rmse", "log_loss")
HEADINGS = {TAU: "tau-b", ACCURACY: "pairs", NDCG: "NDCG rated"}  # of columns, of which there are many
COSTS = ("seconds", "processor_seconds", "memory_mb", "process_mb")


@dataclass(frozen=True)
class Behind:
    """How much worse a model is than the best one, on the same users: `interval` is of the difference, 95 %."""

    difference: float  # 0 for the best; never negative, whichever way the measure goes
    interval: Interval | None


@dataclass(frozen=True, eq=False)
class Entry:
    """One model of a comparison. `error` says why there is no report; it is None if there is one."""

    model: str
    parameters: Mapping[str, Any]
    report: Report | None = None
    cost: Cost | None = None
    trace: tuple[Moment, ...] = ()  # held-out errors during the fit; the last one is of the fitted model
    warnings: tuple[str, ...] = ()
    error: str | None = None
    start: str | None = None  # the model of the comparison that it began from; its cost has that one's in it
    behind: Mapping[str, Behind] = field(default_factory=dict[str, Behind])  # by measure

    @property
    def coverage(self) -> float | None:
        """How many test ratings lie in their 90 % intervals; None for a model that has no uncertainty."""
        return self.value(COVERAGE)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Errors, or what is found, by the number of training ratings of the users."""
        return () if self.report is None else tuple(self.report.groups.get("users", ()))

    def value(self, measure: str) -> float | None:
        """A measure; None if it does not have that."""
        holder = self._holder(measure)
        return None if holder is None else holder.measures.get(measure)

    def interval(self, measure: str) -> Interval | None:
        """The 95 % confidence interval of a measure, if it has one."""
        holder = self._holder(measure)
        return None if holder is None else holder.intervals.get(measure)

    def _holder(self, measure: str) -> Report | Calibration | None:
        return self.report.calibration if self.report is not None and measure == COVERAGE else self.report

    def to_dict(self, k: int) -> dict[str, Any]:
        """The content for JSON: the same names for every model, null for what there is not."""
        figures: dict[str, Any] = {}
        for name, measure in _columns(k).items():
            value = self.value(measure)
            figures[name] = None if value is None else plain_number(value)
            figures[f"{name}_low"], figures[f"{name}_high"] = self.interval(measure) or (None, None)
        measures = {} if self.report is None else self.report.measures
        return {
            "model": self.model,
            **figures,
            **(dict.fromkeys(COSTS) if self.cost is None else asdict(self.cost)),
            "behind": {
                name: {"difference": found.difference, "interval": found.interval and list(found.interval)}
                for name, found in self.behind.items()
            },
            "groups": [group.to_dict() for group in self.groups],
            "trace": [asdict(moment) for moment in self.trace],
            "measures": {name: plain_number(value) for name, value in measures.items()},
            "parameters": {
                name: value if value is None or isinstance(value, bool | int | float | str) else str(value)
                for name, value in self.parameters.items()
            },
            "start": self.start,
            "warnings": list(self.warnings),
            "error": self.error,
        }


@dataclass(frozen=True)
class Parts:
    """What was fitted on and what was tested on."""

    kind: Kind
    training_ratings: int
    test_ratings: int
    history_ratings: int  # that new users were known by
    users: int  # of the training part
    items: int  # of the training part
    cold: int  # test ratings of a user or item that the training part lacks

    @classmethod
    def of(cls, split: Split, kind: Kind) -> Parts:
        train, test = split.train, split.test
        history = 0 if split.history is None else len(split.history)
        cold = len(test) - int(np.count_nonzero(are_known(train, test)))
        return cls(kind, len(train), len(test), history, train.n_users, train.n_items, cold)

    def __str__(self) -> str:
        what = "choice" if self.kind in CHOICES else "rating"
        return (
            f"fitted on {counted(self.training_ratings, what)} ({self.kind}) by {counted(self.users, 'user')} of "
            f"{counted(self.items, 'item')}, tested on {self.test_ratings:,} ({self.cold:,} cold)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison(TableResult[Entry]):
    """Models on the same split, in the order in which they ran; `comparison["als"]` is one of them."""

    key: ClassVar[str] = "model"

    parts: Parts
    k: int  # length of the lists
    is_interrupted: bool = False  # a person ended it before all models had their turn

    @property
    def measure(self) -> str:
        """What decides: RMSE of stars, log loss of yes and no; of choices, and where no model has those, NDCG."""
        wanted = {"stars": "rmse", "yes-no": "log_loss"}.get(self.parts.kind)
        if wanted is not None and any(entry.value(wanted) is not None for entry in self):
            return wanted
        return f"ndcg@{self.k}"

    @property
    def ranked(self) -> list[Entry]:
        """The best first; then those without the measure, and those that failed."""

        def order(entry: Entry) -> tuple[int, float]:
            value = entry.value(self.measure)
            if value is None or plain_number(value) is None:
                return (2 if entry.report is None else 1), 0.0
            return 0, value if self.measure in SMALLER_IS_BETTER else -value

        return sorted(self.entries, key=order)

    @property
    def best(self) -> Entry | None:
        """The model with the best `measure`; None if all have failed."""
        first = next(iter(self.ranked), None)
        return None if first is None or first.value(self.measure) is None else first

    def records(self) -> list[dict[str, Any]]:
        """One a model, the best first."""
        return [entry.to_dict(self.k) for entry in self.ranked]

    def schema(self) -> dict[str, Any]:
        """Measures with the ends of their intervals, costs, and errors."""
        figures = [f"{name}{end}" for name in _columns(self.k) for end in ("", "_low", "_high")]
        return {"model": pl.String} | dict.fromkeys([*figures, *COSTS], pl.Float64) | {"error": pl.String}

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON: `rows`, one a model, the best first, and the `split`."""
        more = {"split": asdict(self.parts), "measure": self.measure, "k": self.k, "interrupted": self.is_interrupted}
        return super().to_dict() | more

    def trace_to_polars(self) -> pl.DataFrame:
        """Held-out errors during the fits: model, step, seconds, rmse."""
        records = [{"model": entry.model} | asdict(moment) for entry in self.ranked for moment in entry.trace]
        return frame_of(records, {"model": pl.String, "step": pl.Int64, "seconds": pl.Float64, "rmse": pl.Float64})

    def groups_to_polars(self) -> pl.DataFrame:
        """By the training ratings of the users: model, training_ratings, members, n, measure, value, low, high."""
        return groups_frame("model", {entry.model: entry.groups for entry in self.ranked})

    def table(self) -> TextTable:
        """One row a model, the best first: what it achieves and what it costs; why not, for one that failed."""
        cells = {entry.model: self._cells(entry) for entry in self.ranked}
        filled = [name for name in next(iter(cells.values()), {}) if any(row[name] for row in cells.values())]
        rows = tuple((model, *(row[name] or UNDEFINED for name in filled)) for model, row in cells.items())
        return TextTable(f"Models, best first: {self.parts}", ("model", *filled), rows, self._note())

    def groups_table(self) -> TextTable:
        """The measure of each model by the number of training ratings of the users; empty groups are in a note."""
        measure = self.group_measure
        able = [entry for entry in self.ranked if any(measure in group.measures for group in entry.groups)]
        columns = {entry.model: (entry.groups, measure) for entry in able}
        return groups_table(self.group_title, "users", columns, empty=False, intervals=False)

    @property
    def group_measure(self) -> str:
        """What is measured by groups: the measure that decides, or of choices how many of them lists hold."""
        return self.measure if self.measure in SMALLER_IS_BETTER else f"found@{self.k}"

    @property
    def group_title(self) -> str:
        """That in words."""
        if self.measure in SMALLER_IS_BETTER:
            return display_name(self.measure)
        return f"Share of the relevant test ratings in lists of {self.k}"

    def __str__(self) -> str:
        failed = [f"{entry.model}: {entry.error}" for entry in self if entry.error is not None]
        return "\n".join([str(self.table()), *failed])

    def _cells(self, entry: Entry) -> dict[str, str]:
        """Texts by column, empty where there is nothing to say."""

        def cell(measure: str, *, with_interval: bool = True) -> str:
            value = entry.value(measure)
            return "" if value is None else figure(value, entry.interval(measure) if with_interval else None)

        ndcg, cost = f"ndcg@{self.k}", entry.cost
        return {
            **{display_name(self.measure): cell(self.measure), "behind the best": _behind(entry, self.measure)},
            **{display_name(measure): cell(measure) for measure in SMALLER_IS_BETTER},
            "log score": cell("log_score", with_interval=False),
            "in 90 %": "" if entry.coverage is None else f"{entry.coverage:.3f}",
            display_name(ndcg): cell(ndcg),
            **{HEADINGS[name]: cell(measure, with_interval=False) for name, measure in _of_order(self.k).items()},
            "seconds": "" if cost is None else _seconds(cost.seconds),
            "processor s": "" if cost is None else _seconds(cost.processor_seconds),
            "MB": "" if cost is None or cost.memory_mb is None else f"{cost.memory_mb:,.0f}",
        }

    def _note(self) -> str:
        reports = [entry.report for entry in self if entry.report is not None]
        scales = {report.calibration.levels for report in reports if report.calibration is not None}
        if len(scales) < 2:
            return ""
        return "log scores are of different things, probabilities of levels and densities: not to be compared"


def with_differences(entries: Sequence[Entry], k: int, resamples: int, seed: int) -> tuple[Entry, ...]:
    """The entries with how far each is behind the best, measure by measure; users are resampled for all at once."""
    behind: dict[str, dict[str, Behind]] = {entry.model: {} for entry in entries}
    for measure in (*SMALLER_IS_BETTER, f"ndcg@{k}", *_of_order(k).values()):
        sums = {
            entry.model: entry.report.sums[measure]
            for entry in entries
            if entry.report is not None and measure in entry.report.sums and entry.report.sums[measure].n_users
        }
        if not sums:
            continue
        sign = 1 if measure in SMALLER_IS_BETTER else -1
        values = {model: sign * found.value() for model, found in sums.items()}
        best = min(values, key=lambda model: values[model])
        drawn = resampling.bootstrap(sums, resamples, seed) if resamples and sums[best].n_users > 1 else {}
        for model, value in values.items():
            span = resampling.middle(sign * (drawn[model] - drawn[best])) if drawn else None
            behind[model][measure] = Behind(value - values[best], span)
    return tuple(replace(entry, behind=behind[entry.model]) for entry in entries)


def _columns(k: int) -> dict[str, str]:
    """Columns in JSON, and the measures that these are."""
    names = {name: name for name in ("rmse", "log_loss", "log_score")}
    return {**names, "coverage": COVERAGE, "ndcg": f"ndcg@{k}", **_of_order(k)}


def _of_order(k: int) -> dict[str, str]:
    return {TAU: TAU, ACCURACY: ACCURACY, NDCG: f"{NDCG}@{k}"}


def _behind(entry: Entry, measure: str) -> str:
    found = entry.behind.get(measure)
    if found is None:
        return ""
    if not found.difference and (found.interval is None or found.interval == (0, 0)):
        return "best"
    span = "" if found.interval is None else f" ({found.interval.low:+.4f}…{found.interval.high:+.4f})"
    return f"{found.difference:.4f}{span}"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f}" if seconds >= 10 else f"{seconds:.2f}"
