"""What a contest found: a row a model, with what it costs and how far it is behind the best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import polars as pl

from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.splits import Split
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.groups import Group
from tastespace.evaluation.metrics.order import ACCURACY, NDCG, TAU
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import Interval, bootstrap, middle
from tastespace.evaluation.tables import EMPTY, UNDEFINED, Table, counted, display_name, figure, plain_number
from tastespace.selection.trials import Cost, Moment

COVERAGE = "coverage_90"
SMALLER_IS_BETTER = ("rmse", "log_loss")
SHORT = {TAU: "tau-b", ACCURACY: "pairs", NDCG: "NDCG rated"}  # heads of columns, of which there are many


@dataclass(frozen=True)
class Behind:
    """How much worse a model is than the best one, on the same users: `interval` is of the difference, 95 %."""

    difference: float  # 0 for the best; always from 0 on, whichever way the measure goes
    interval: Interval | None


@dataclass(frozen=True, eq=False)
class Entry:
    """One model of a contest. `error` says why there is no report; it is None if there is one."""

    model: str
    parameters: Mapping[str, Any]
    report: Report | None = None
    cost: Cost | None = None
    trace: tuple[Moment, ...] = ()  # held-out errors on the way; the last one is of the fitted model
    warnings: tuple[str, ...] = ()
    error: str | None = None
    start: str | None = None  # the model of the contest that it began from; its cost has that one's in it
    behind: Mapping[str, Behind] = field(default_factory=dict[str, Behind])  # by measure

    @property
    def coverage(self) -> float | None:
        """How many test ratings lie in their 90 % intervals; None for a model that does not say how sure it is."""
        calibration = None if self.report is None else self.report.calibration
        return None if calibration is None else calibration[COVERAGE]

    @property
    def groups(self) -> tuple[Group, ...]:
        """Errors, or what is found, by the number of training ratings of the users."""
        return () if self.report is None else tuple(self.report.groups.get("users", ()))

    def value(self, measure: str) -> float | None:
        """A measure; None if it does not have that."""
        return None if self.report is None else self.report.measures.get(measure)

    def interval(self, measure: str) -> Interval | None:
        """The 95 % confidence interval of a measure, if it has one."""
        if self.report is None:
            return None
        calibration = self.report.calibration
        if measure == COVERAGE and calibration is not None:
            return calibration.intervals.get(COVERAGE)
        return self.report.intervals.get(measure)

    def to_dict(self, k: int) -> dict[str, Any]:
        """As JSON has it: the same names for every model, null for what there is not."""
        figures: dict[str, Any] = {}
        for name, measure in _columns(k).items():
            value = self.coverage if measure == COVERAGE else self.value(measure)
            span = self.interval(measure)
            figures[name] = None if value is None else plain_number(value)
            figures[f"{name}_low"], figures[f"{name}_high"] = (None, None) if span is None else span
        cost = {name: None for name in ("seconds", "processor_seconds", "memory_mb", "process_mb")}
        return {
            "model": self.model,
            **figures,
            **(cost if self.cost is None else asdict(self.cost)),
            "behind": {
                name: {"difference": found.difference, "interval": found.interval and list(found.interval)}
                for name, found in self.behind.items()
            },
            "groups": [group.to_dict() for group in self.groups],
            "trace": [asdict(moment) for moment in self.trace],
            "measures": {}
            if self.report is None
            else {name: plain_number(value) for name, value in self.report.measures.items()},
            "parameters": {name: _plain(value) for name, value in self.parameters.items()},
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
    history_ratings: int  # that strangers were known by
    users: int  # of the training part
    items: int  # of the training part
    cold: int  # test ratings of a user or item that the training part lacks

    @classmethod
    def of(cls, split: Split, kind: Kind) -> Parts:
        train, test = split.train, split.test
        users = train.users.rows_of(test.users.ids)[test.user_rows]
        items = train.items.rows_of(test.items.ids)[test.item_rows]
        return cls(
            kind=kind,
            training_ratings=len(train),
            test_ratings=len(test),
            history_ratings=0 if split.history is None else len(split.history),
            users=train.n_users,
            items=train.n_items,
            cold=int(((users < 0) | (items < 0)).sum()),
        )

    def __str__(self) -> str:
        what = "choice" if self.kind in CHOICES else "rating"
        return (
            f"fitted on {counted(self.training_ratings, what)} ({self.kind}) by {counted(self.users, 'user')} of "
            f"{counted(self.items, 'item')}, tested on {self.test_ratings:,} ({self.cold:,} cold)"
        )


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Models on the same split, in the order in which they ran; `contest["als"]` is one of them."""

    entries: tuple[Entry, ...]
    parts: Parts
    k: int  # length of the lists
    is_interrupted: bool = False  # somebody ended it before all models had their turn

    def __getitem__(self, model: str) -> Entry:
        for entry in self.entries:
            if entry.model == model:
                return entry
        names = ", ".join(entry.model for entry in self.entries)
        raise InvalidParameterError(f"there is no model {model!r} in the contest; expected one of {names}")

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def measure(self) -> str:
        """What decides: RMSE of stars, log loss of yes and no; of choices, and where no model has those, NDCG."""
        wanted = {"stars": "rmse", "yes-no": "log_loss"}.get(self.parts.kind)
        if wanted is not None and any(entry.value(wanted) is not None for entry in self.entries):
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: `rows`, one a model, the best first, and the `split`."""
        return {
            "rows": [entry.to_dict(self.k) for entry in self.ranked],
            "split": asdict(self.parts),
            "measure": self.measure,
            "k": self.k,
            "interrupted": self.is_interrupted,
        }

    def to_polars(self) -> pl.DataFrame:
        """One row a model, the best first: measures with the ends of their intervals, costs, and errors."""
        names = [*_columns(self.k), "seconds", "processor_seconds", "memory_mb", "process_mb"]
        names = [name for name in self._any_row() if name.removesuffix("_low").removesuffix("_high") in names]
        rows = [entry.to_dict(self.k) for entry in self.ranked]
        schema = {"model": pl.String} | dict.fromkeys(names, pl.Float64) | {"error": pl.String}
        return pl.DataFrame([{name: row[name] for name in schema} for row in rows], schema=schema)

    def trace_to_polars(self) -> pl.DataFrame:
        """Held-out errors on the way: model, step, seconds, rmse."""
        rows = [(entry.model, point.step, point.seconds, point.rmse) for entry in self.ranked for point in entry.trace]
        schema = {"model": pl.String, "step": pl.Int64, "seconds": pl.Float64, "rmse": pl.Float64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def groups_to_polars(self) -> pl.DataFrame:
        """By the training ratings of the users: model, training_ratings, members, n, measure, value, low, high."""
        schema = {"model": pl.String, "training_ratings": pl.String, "members": pl.Int64, "n": pl.Int64}
        schema |= {"measure": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
        rows = [
            (
                *(entry.model, group.label, group.members, group.n, name, value),
                *group.intervals.get(name, (None, None)),
            )
            for entry in self.ranked
            for group in entry.groups
            for name, value in group.measures.items()
        ]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def table(self) -> Table:
        """One row a model, the best first: what it achieves and what it costs; why not, for one that failed."""
        cells = {entry.model: self._cells(entry) for entry in self.ranked}
        filled = [name for name in next(iter(cells.values()), {}) if any(row[name] for row in cells.values())]
        rows = tuple((model, *(row[name] or UNDEFINED for name in filled)) for model, row in cells.items())
        return Table(f"Models, best first: {self.parts}", ("model", *filled), rows, self._note())

    def groups_table(self) -> Table:
        """The measure of each model by the number of training ratings of the users; empty groups are in a note."""
        entries = [entry for entry in self.ranked if self.group_measure in _group_measures(entry)]
        labels = entries[0].groups if entries else ()
        rows = tuple(
            (
                *(group.label, f"{group.members:,}", f"{group.n:,}"),
                *(figure(entry.groups[place].measures[self.group_measure]) for entry in entries),
            )
            for place, group in enumerate(labels)
            if group.n
        )
        left_out = [group.label for group in labels if not group.n]
        return Table(
            f"{self.group_title} by the number of training ratings of the users",
            ("training ratings", "test users", "test ratings", *(entry.model for entry in entries)),
            rows,
            f"{EMPTY}: {', '.join(left_out)}" if left_out else "",
        )

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
        failed = [f"{entry.model}: {entry.error}" for entry in self.entries if entry.error is not None]
        return "\n".join([str(self.table()), *failed])

    def __repr__(self) -> str:
        return f"<Contest of {counted(len(self), 'model')}: {self.parts}>"

    def _any_row(self) -> list[str]:
        return list(Entry("", {}).to_dict(self.k))

    def _cells(self, entry: Entry) -> dict[str, str]:
        """Texts by column, empty where there is nothing to be said."""
        ndcg, cost = f"ndcg@{self.k}", entry.cost
        cells = {}
        for measure in (self.measure, *({"rmse", "log_loss"} - {self.measure})):
            cells[display_name(measure)] = self._figure(entry, measure)
            if measure == self.measure:
                cells["behind the best"] = _behind(entry, measure)
        cells["log score"] = self._figure(entry, "log_score", with_interval=False)
        cells["in 90 %"] = "" if entry.coverage is None else f"{entry.coverage:.3f}"
        cells[display_name(ndcg)] = self._figure(entry, ndcg)
        for name, measure in _of_order(self.k).items():
            cells[SHORT[name]] = self._figure(entry, measure, with_interval=False)
        cells["seconds"] = "" if cost is None else _seconds(cost.seconds)
        cells["processor s"] = "" if cost is None else _seconds(cost.processor_seconds)
        cells["MB"] = "" if cost is None or cost.memory_mb is None else f"{cost.memory_mb:,.0f}"
        return cells

    def _figure(self, entry: Entry, measure: str, *, with_interval: bool = True) -> str:
        value = entry.value(measure)
        return "" if value is None else figure(value, entry.interval(measure) if with_interval else None)

    def _note(self) -> str:
        scales = {
            report.calibration.levels
            for entry in self.entries
            if (report := entry.report) is not None and report.calibration is not None
        }
        if len(scales) < 2:
            return ""
        return "log scores are of different things, probabilities of levels and densities: not to be compared"


def compared(entries: Sequence[Entry], k: int, resamples: int, seed: int) -> tuple[Entry, ...]:
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
        drawn = bootstrap(sums, resamples, seed) if resamples and sums[best].n_users > 1 else {}
        for model, value in values.items():
            span = middle(sign * (drawn[model] - drawn[best])) if drawn else None
            behind[model][measure] = Behind(value - values[best], span)
    return tuple(replace(entry, behind=behind[entry.model]) for entry in entries)


def _columns(k: int) -> dict[str, str]:
    """What rows are told by in JSON, and the measures that these are."""
    return {
        "rmse": "rmse",
        "log_loss": "log_loss",
        "log_score": "log_score",
        "coverage": COVERAGE,
        "ndcg": f"ndcg@{k}",
        **_of_order(k),
    }


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


def _group_measures(entry: Entry) -> set[str]:
    return {name for group in entry.groups for name in group.measures}


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
