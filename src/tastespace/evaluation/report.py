"""The report of an evaluation: measures, their confidence intervals, and groups of users and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from html import escape
from typing import Any, Literal

import polars as pl

from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.calibration import Calibration
from tastespace.evaluation.groups import Group, groups_frame, groups_table, measure_record
from tastespace.evaluation.metrics.binary import Reliability
from tastespace.evaluation.metrics.order import TAU
from tastespace.evaluation.relevance import Relevance
from tastespace.evaluation.resampling import Interval, Sums, counted, display_name, figure, plain_number
from tastespace.tables import TextTable, frame_of


@dataclass(frozen=True)
class ListsMade:
    """Whose lists were measured, and against what."""

    k: tuple[int, ...]  # lengths of the lists
    relevant: float | Literal["liked"] | None  # a test rating of at least this, or the user's own mean; None: all are
    users: int  # with at least one relevant test rating, and so a list
    users_without_relevant: int  # without any, who are left out
    cold_users: int  # of `users`, those without any known ratings, who get the default list
    relevant_ratings: int
    cold_relevant_ratings: int  # of items that the model does not know: never found, but counted
    users_not_drawn: int = 0  # who have one, but were not drawn into the sample
    graded: bool = True  # whether the gain in NDCG grows with the rating; else every relevant item has the gain 1

    @property
    def middle(self) -> int:
        """The length in the middle, shown where there is room for one."""
        return self.k[(len(self.k) - 1) // 2]

    def users_text(self) -> str:
        """Whose lists were measured, in words."""
        drawn = f" drawn at random from {self.users + self.users_not_drawn:,}" if self.users_not_drawn else ""
        return f"{counted(self.users, 'user')}{drawn}"

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return asdict(self) | {"k": list(self.k)}

    def relevant_text(self) -> str:
        """What is relevant, in words."""
        if self.relevant == "liked":
            return "liked, rated at least the user's own mean"
        return "all test ratings" if self.relevant is None else f"rated at least {self.relevant:.4g}"


@dataclass(frozen=True, eq=False)
class Report:
    """Measures over `n` test ratings; `cold` of them have a user or item that the training ratings lack.

    `report["rmse"]`, `report["ndcg@10"]`: a measure. Which there are depends on the `kind` of the ratings, and on what
    the model predicts: for implicit feedback, only lists are measured. `intervals` has 95 % confidence intervals by the
    same names, `groups` the errors of "users" and of "items" by their number of training ratings; for implicit
    feedback, the share found in lists. `found` has, for "users" and "items", the share of relevant test items in lists
    by the number of training ratings, which for items is their popularity. `parts` are the measures of cold items, cold
    users and the others, if there are cold ones. `calibration` is None for a model that
    provides no uncertainty, and where ratings are not stars; `reliability` is for yes and no. `order` says whether the
    test items of each user are in the right order, for models that predict stars.
    """

    rating: Mapping[str, float]
    n: int
    cold: int
    seen: int = 0  # test ratings of pairs that the model was fitted on, which makes scores optimistic
    order: Mapping[str, float] = field(default_factory=dict[str, float])
    ranking: Mapping[str, float] = field(default_factory=dict[str, float])
    intervals: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict[str, tuple[Group, ...]])
    found: Mapping[str, tuple[Group, ...]] = field(default_factory=dict[str, tuple[Group, ...]])
    parts: tuple[Group, ...] = ()  # cold items, cold users and the others, where there are cold ones
    lists: ListsMade | None = None
    relevance: Relevance | None = None  # for another report on the same test ratings
    calibration: Calibration | None = None
    reliability: Reliability | None = None
    kind: Kind = "stars"
    sums: Mapping[str, Sums] = field(default_factory=dict[str, Sums])  # users in the order of their ids
    test: Ratings | None = None

    @property
    def measures(self) -> dict[str, float]:
        """All measures by name."""
        return {**self.rating, **self.order, **self.ranking}

    def __getitem__(self, name: str) -> float:
        """A measure; that of lists by its name alone, if they have one length."""
        names = [name] if name in self.measures else self._of_lists(name)
        if len(names) != 1:
            known = names or self.measures
            raise KeyError(f"the report has no measure {name!r}; expected one of {', '.join(known)}")
        return self.measures[names[0]]

    def _of_lists(self, name: str) -> list[str]:
        """The measures of lists of any length with this name."""
        return [measure for measure in self.measures if measure.partition("@")[0] == name]

    def only(self, names: Sequence[str]) -> Report:
        """The same report with these measures only; "ndcg" stands for all lengths of lists."""
        wanted: list[str] = []
        for name in names:
            found = [name] if name in self.measures else self._of_lists(str(name))
            if not found:
                near = get_close_matches(str(name), [*self.measures], n=1)
                said = f" (did you mean {near[0]}?)" if near else ""
                raise InvalidParameterError(
                    f"there is no measure {name!r}{said}; expected some of {', '.join(self.measures)}, or functions of "
                    "your own as {name: function}"
                )
            wanted += found
        kept: dict[str, Any] = {
            part: {name: value for name, value in getattr(self, part).items() if name in wanted}
            for part in ("rating", "order", "ranking", "intervals", "sums")
        }
        return replace(self, **kept, lists=self.lists if kept["ranking"] else None)

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON: measures, `n` and `cold` as numbers, the rest nested; null for undefined values."""
        content: dict[str, Any] = {name: plain_number(value) for name, value in self.rating.items()}
        content |= {"kind": self.kind, "n": self.n, "cold": self.cold}
        content |= {name: plain_number(value) for name, value in {**self.order, **self.ranking}.items()}
        parts = {
            "seen": self.seen,
            "lists": self.lists and self.lists.to_dict(),
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "groups": {side: [group.to_dict() for group in found] for side, found in self.groups.items()},
            "found": {side: [group.to_dict() for group in held] for side, held in self.found.items()},
            "parts": [group.to_dict() for group in self.parts],
            "calibration": self.calibration and self.calibration.to_dict(),
            "reliability": self.reliability and self.reliability.to_list(),
        }
        return content | {name: part for name, part in parts.items() if part}

    def to_polars(self) -> pl.DataFrame:
        """One row per measure: measure, k, value, low, high, users (the number that count)."""
        records = [
            measure_record(name.partition("@")[0], value, self.intervals.get(name))
            | {"k": int(name.partition("@")[2]) if "@" in name else None}
            | {"users": self.sums[name].n_users if name in self.sums else None}
            for name, value in self.measures.items()
        ]
        schema = {"measure": pl.String, "k": pl.Int64, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
        return frame_of(records, schema | {"users": pl.Int64})

    def groups_to_polars(self) -> pl.DataFrame:
        """One row per group and measure: side, training_ratings, members, n, measure, value, low, high."""
        return groups_frame("side", self.groups, self.group_measures)

    def tables(self, *, empty: bool = True) -> list[TextTable]:
        """Everything beyond the first line, as tables; `empty` is passed to `groups_table`."""
        tables = [] if not self.order else [self.order_table()]
        tables += [] if self.lists is None else [self.lists_table()]
        tables += [self.parts_table()] if self.parts else []
        tables += [self.groups_table(side, empty=empty) for side in self.groups]
        # For implicit feedback the groups show what was found; else a table by popularity does.
        tables += [self.found_table(empty=empty)] if self.rating and self.found else []
        tables += [] if self.reliability is None else [self.reliability.table()]
        return tables + ([] if self.calibration is None else self.calibration.tables(empty=empty))

    def summary(self, baselines: Mapping[str, Report] | None = None) -> tuple[str, ...]:
        """Five sentences: is it good, for whom not, are its intervals right, are its lists good, and what to do next.

        `baselines` are reports on the same test ratings to compare with, by name, such as that of `Popular`.
        """
        from tastespace.evaluation.summary import summarize  # which compares reports

        return summarize(self, baselines)

    def table(self) -> str:
        """The whole report as text."""
        return "\n\n".join(["\n".join(self.summary()), str(self), *(str(table) for table in self.tables())])

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.summary())
        tables = "\n".join(table.to_html() for table in self.tables(empty=False))
        return f"<ul>{lines}</ul><p>{escape(str(self))}</p><details><summary>All measures</summary>{tables}</details>"

    def __str__(self) -> str:
        figures = ", ".join(f"{display_name(name)} {figure(self[name])}" for name in self.headline)
        whose = "" if self.rating or self.lists is None else f" of {counted(self.lists.users, 'user')}"
        unit = "choice" if self.kind in CHOICES else "rating"
        return f"{figures} over {counted(self.n, unit)}{whose} ({self.cold:,} cold)"

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    @property
    def headline(self) -> list[str]:
        """The main measures: those of predictions if there are any, else those of lists of the middle length."""
        if self.rating or self.lists is None:
            return list(self.rating)
        return [f"ndcg@{self.lists.middle}", f"recall@{self.lists.middle}", "auc"]

    @property
    def group_measures(self) -> list[str]:
        """The measures shown for each group."""
        filled = (group.measures for groups in self.groups.values() for group in groups if group.n)
        return list(next(filled, ()))

    def order_table(self) -> TextTable:
        """Whether the test items of each user are in the right order, one row per measure, with columns by length."""
        if not self.order:
            raise InvalidParameterError(
                "the report has no measures of order; expected one of a rating model, and users with two different "
                "test ratings"
            )
        n_users = self.sums[TAU].n_users
        title = f"Order of their test items, of {counted(n_users, 'user')} with two different test ratings or more"
        return self._by_length(title, self.order, "all")

    def _by_length(self, title: str, measures: Mapping[str, float], of_all: str) -> TextTable:
        """One row per measure and one column per length; a measure without length is in the first column."""
        ks = list(dict.fromkeys(name.partition("@")[2] for name in measures if "@" in name))
        names = list(dict.fromkeys(name.partition("@")[0] for name in measures if "@" in name))
        rows = [(display_name(name), *(self._cell(f"{name}@{k}") for k in ks)) for name in names]
        whole = [name for name in measures if "@" not in name]
        rows += [(f"{display_name(name)} ({of_all})", self._cell(name), *[""] * (len(ks) - 1)) for name in whole]
        return TextTable(title, ("", *(f"@{k}" for k in ks)), tuple(rows))

    def lists_table(self) -> TextTable:
        """Measures of lists, one row each, by length."""
        made = self.lists
        if made is None:
            raise InvalidParameterError("the report has no measures of lists; expected evaluate with ranking")
        title = f"Lists of {made.users_text()}, out of all items they had not rated; relevant: {made.relevant_text()}"
        if made.users_without_relevant:
            title += f" (left out: {counted(made.users_without_relevant, 'user')} without a relevant test rating)"
        return self._by_length(title, self.ranking, "all items")

    def groups_table(self, side: str, *, empty: bool = True) -> TextTable:
        """Errors of "users" or "items", or for implicit feedback the share found; one row per group.

        Empty groups have their own rows or are in a note.
        """
        what = "Errors" if self.rating else "Share of the relevant test ratings that lists hold,"
        columns = {display_name(name): (self.groups[side], name) for name in self.group_measures}
        return groups_table(what, side, columns, empty=empty)

    def found_table(self, side: str = "items", *, empty: bool = True) -> TextTable:
        """The share of the relevant test items in lists: by popularity of the items, or by "users"."""
        ks = () if self.lists is None else self.lists.k
        columns = {f"found@{k}": (self.found[side], f"found@{k}") for k in ks}
        return groups_table("Share of the relevant test ratings that lists hold,", side, columns, empty=empty)

    def parts_table(self) -> TextTable:
        """Cold items, cold users and the others, one row each; without intervals, which `parts` has."""
        if not self.parts:
            raise InvalidParameterError("the report has no parts; expected test ratings some of which are cold")
        filled = [group for group in self.parts if group.n]
        names = list(dict.fromkeys(name for group in filled for name in group.measures))
        rows = [
            (group.label, f"{group.members:,}", f"{group.n:,}")
            + tuple(figure(group.measures[name], None) if name in group.measures else "" for name in names)
            for group in filled
        ]
        note = "coverage: of intervals that should hold 90 % of the ratings" if "coverage" in names else ""
        title = "Cold and warm test ratings"
        return TextTable(title, ("", "items", "ratings", *map(display_name, names)), tuple(rows), note)

    def _cell(self, name: str) -> str:
        return figure(self[name], self.intervals.get(name))
