"""The result of a comparison of models: one entry per model, with its cost and its distance from the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.splits import Split
from tastespace.evaluation.calibration import Calibration
from tastespace.evaluation.groups import Group, groups_frame, groups_table
from tastespace.evaluation.metrics.order import ACCURACY, NDCG, TAU
from tastespace.evaluation.predictions import are_known
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import UNDEFINED, Interval, counted, display_name, figure, plain_number
from tastespace.evaluation.side_by_side import found_table, lists_table
from tastespace.evaluation.significance import Behind, Verdict, behind_best, verdicts_of
from tastespace.selection.trials import Cost, Moment
from tastespace.tables import TableResult, TextTable, frame_of

COVERAGE = "coverage_90"
DECISIVE = ("rmse", "log_loss")  # errors of predictions by which models are ordered: smaller is better
HEADINGS = {TAU: "tau-b", ACCURACY: "pairs", NDCG: "NDCG rated"}  # short headings, because there are many columns
COSTS = ("seconds", "processor_seconds", "memory_mb", "process_mb")


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
    start: str | None = None  # the model of the comparison that it started from, whose cost is included
    behind: Mapping[str, Behind] = field(default_factory=dict[str, Behind])  # by measure

    @property
    def coverage(self) -> float | None:
        """The share of test ratings in their 90 % intervals; None for a model without uncertainty."""
        return self.value(COVERAGE)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Errors, or the share found, by the number of training ratings of the users."""
        return () if self.report is None else tuple(self.report.groups.get("users", ()))

    def value(self, measure: str) -> float | None:
        """A measure; None if the model does not have it."""
        holder = self._holder(measure)
        return None if holder is None else holder.measures.get(measure)

    def interval(self, measure: str) -> Interval | None:
        """The 95 % confidence interval of a measure, if it has one."""
        holder = self._holder(measure)
        return None if holder is None else holder.intervals.get(measure)

    def _holder(self, measure: str) -> Report | Calibration | None:
        return self.report.calibration if self.report is not None and measure == COVERAGE else self.report

    def to_dict(self, k: int) -> dict[str, Any]:
        """The content for JSON: the same names for every model, null for missing values."""
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
            "behind": {name: found.to_dict() for name, found in self.behind.items()},
            "groups": [group.to_dict() for group in self.groups],
            "found": [group.to_dict() for group in ({} if self.report is None else self.report.found).get("items", ())],
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
    """The training and test data."""

    kind: Kind
    training_ratings: int
    test_ratings: int
    history_ratings: int  # known ratings of new users
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
    is_interrupted: bool = False  # ended by an interrupt before all models were tried

    @property
    def measure(self) -> str:
        """The deciding measure: RMSE for stars, log loss for yes and no; otherwise NDCG."""
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
            return 0, value if self.measure in DECISIVE else -value

        return sorted(self.entries, key=order)

    @property
    def best(self) -> Entry | None:
        """The model with the best `measure`; None if all have failed."""
        first = next(iter(self.ranked), None)
        return None if first is None or first.value(self.measure) is None else first

    def records(self) -> list[dict[str, Any]]:
        """One row per model, the best first."""
        return [entry.to_dict(self.k) for entry in self.ranked]

    def schema(self) -> dict[str, Any]:
        """Measures with the bounds of their intervals, costs, and errors."""
        figures = [f"{name}{end}" for name in _columns(self.k) for end in ("", "_low", "_high")]
        return {"model": pl.String} | dict.fromkeys([*figures, *COSTS], pl.Float64) | {"error": pl.String}

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON: `rows`, one per model, the best first, and the `split`."""
        made = next((report.lists for report in self._reports.values() if report.lists is not None), None)
        more = {"split": asdict(self.parts), "measure": self.measure, "k": self.k, "interrupted": self.is_interrupted}
        more |= {"lists": made and made.to_dict(), "verdicts": [verdict.to_dict() for verdict in self.verdicts]}
        return super().to_dict() | more

    @property
    def _reports(self) -> dict[str, Report]:
        """The models that could be measured, those with the best lists first."""
        reports = {entry.model: entry.report for entry in self.ranked if entry.report is not None}
        ndcg = f"ndcg@{self.k}"
        return dict(sorted(reports.items(), key=lambda pair: -pair[1].measures.get(ndcg, 0.0)))

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Which model is best for what, and which may be as good."""

        def behind(measure: str) -> dict[str, Behind]:
            found = {entry.model: entry.behind[measure] for entry in self if measure in entry.behind}
            return dict(sorted(found.items(), key=lambda pair: pair[1].difference))

        return verdicts_of(self._reports, self.k, behind)

    def lists_table(self) -> TextTable | None:
        """One row per model, the best lists first: NDCG, recall, coverage of the catalogue; None without lists."""
        behind = {entry.model: _behind(entry, f"ndcg@{self.k}") for entry in self}
        return lists_table(self._reports, k=self.k, behind=behind)

    def found_table(self) -> TextTable | None:
        """The share of relevant test items in lists, by popularity of the items; None without lists."""
        return found_table(self._reports, k=self.k)

    def trace_to_polars(self) -> pl.DataFrame:
        """Held-out errors during the fits: model, step, seconds, rmse."""
        records = [{"model": entry.model} | asdict(moment) for entry in self.ranked for moment in entry.trace]
        return frame_of(records, {"model": pl.String, "step": pl.Int64, "seconds": pl.Float64, "rmse": pl.Float64})

    def groups_to_polars(self) -> pl.DataFrame:
        """By the training ratings of the users: model, training_ratings, members, n, measure, value, low, high."""
        return groups_frame("model", {entry.model: entry.groups for entry in self.ranked})

    def table(self) -> TextTable:
        """One row per model, the best first: its quality and cost; the reason, for one that failed."""
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
        """The measure shown by groups: the deciding one, or for implicit feedback the share found in lists."""
        return self.measure if self.measure in DECISIVE else f"found@{self.k}"

    @property
    def group_title(self) -> str:
        """The same in words."""
        if self.measure in DECISIVE:
            return display_name(self.measure)
        return f"Share of the relevant test ratings in lists of {self.k}"

    def __str__(self) -> str:
        failed = [f"{entry.model}: {entry.error}" for entry in self if entry.error is not None]
        return "\n".join([str(self.table()), *failed])

    def _cells(self, entry: Entry) -> dict[str, str]:
        """Texts by column, empty for missing values."""

        def cell(measure: str, *, with_interval: bool = True) -> str:
            value = entry.value(measure)
            return "" if value is None else figure(value, entry.interval(measure) if with_interval else None)

        ndcg, cost = f"ndcg@{self.k}", entry.cost
        return {
            **{display_name(self.measure): cell(self.measure), "behind the best": _behind(entry, self.measure)},
            **{display_name(measure): cell(measure) for measure in DECISIVE},
            "log score": cell("log_score", with_interval=False),
            "in 90 %": "" if entry.coverage is None else f"{entry.coverage:.3f}",
            display_name(ndcg): cell(ndcg),
            **{HEADINGS[name]: cell(measure, with_interval=False) for name, measure in _of_order(self.k).items()},
            "seconds": "" if cost is None else _seconds(cost.seconds),
            "CPU s": "" if cost is None else _seconds(cost.processor_seconds),
            "MB": "" if cost is None or cost.memory_mb is None else f"{cost.memory_mb:,.0f}",
        }

    def _note(self) -> str:
        reports = [entry.report for entry in self if entry.report is not None]
        scales = {report.calibration.levels for report in reports if report.calibration is not None}
        if len(scales) < 2:
            return ""
        return "log scores are of different kinds (probabilities of levels, densities) and cannot be compared"


def with_differences(entries: Sequence[Entry], k: int, resamples: int, seed: int) -> tuple[Entry, ...]:
    """The entries with their distance from the best, measure by measure; users are resampled for all at once."""
    behind: dict[str, dict[str, Behind]] = {entry.model: {} for entry in entries}
    reports = {entry.model: entry.report for entry in entries if entry.report is not None}
    for measure in (*DECISIVE, f"ndcg@{k}", *_of_order(k).values()):
        for model, found in behind_best(reports, measure, resamples, seed).items():
            behind[model][measure] = found
    return tuple(replace(entry, behind=behind[entry.model]) for entry in entries)


def _columns(k: int) -> dict[str, str]:
    """Columns in JSON, and the measures that they hold."""
    names = {name: name for name in ("rmse", "log_loss", "log_score")}
    lists = {"ndcg": "ndcg", "recall": "recall", "catalogue_coverage": "coverage", "popularity_lift": "popularity_lift"}
    of_lists = {name: f"{measure}@{k}" for name, measure in lists.items()}
    return {**names, "coverage": COVERAGE, **of_lists, **_of_order(k)}


def _of_order(k: int) -> dict[str, str]:
    return {TAU: TAU, ACCURACY: ACCURACY, NDCG: f"{NDCG}@{k}"}


def _behind(entry: Entry, measure: str) -> str:
    found = entry.behind.get(measure)
    if found is None:
        return ""
    return "best" if not found.difference and (found.interval is None or found.interval == (0, 0)) else str(found)


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f}" if seconds >= 10 else f"{seconds:.2f}"
