"""Is a model as sure as it should be? What its intervals held, how its distributions fit, whether doubt is error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tastespace.errors import InvalidParameterError
from tastespace.evaluation.groups import Group
from tastespace.evaluation.outcomes import COVERAGES
from tastespace.evaluation.resampling import Interval
from tastespace.evaluation.tables import EMPTY, Table, counted, figure

SHARES = {coverage: f"{100 * coverage:g}" for coverage in COVERAGES}  # as names of measures have them


@dataclass(frozen=True)
class Tenth:
    """Test ratings of which the model was about equally sure."""

    label: str  # "0-10 %": the most certain
    n: int  # a tenth of the test ratings; more or fewer where many are equally certain
    measures: Mapping[str, float] = field(default_factory=dict[str, float])  # empty if n is 0
    intervals: Mapping[str, Interval] = field(default_factory=dict[str, Interval])

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; an empty one has nulls."""
        return {"share": self.label, "n": self.n, **_plain(self.measures, self.intervals)}


@dataclass(frozen=True)
class Calibration:
    """How what a model said of its own outcomes held up on `n` test ratings.

    `measures` are, for each of the intervals of 50, 80, 90 and 95 %, `coverage_90` (how many ratings were inside),
    `expected_90` (how many the model itself held to be inside; on levels this is not quite 0.9) and `width_90` (the
    mean width, in units of the ratings); and of the probability integral transform (PIT), which is uniform from 0 to 1
    for right distributions, `pit_mean` (0.5), `pit_spread` (1; more if the model is too sure, less if it is not sure
    enough) and `pit_distance` (0; the largest difference between its distribution function and the uniform one).

    `calibration["coverage_90"]` is a measure. `intervals` has 95 % confidence intervals by the same names, `groups` the
    measures of "users" and of "items" by their number of training ratings. `confidence` are tenths of the test ratings
    by `belief_sd`, the most certain first: the `rmse` of each, the `rmse_so_far` of these and all before, and the
    root mean square of both sds.
    """

    n: int
    measures: Mapping[str, float]
    intervals: Mapping[str, Interval]
    pit: tuple[float, ...]  # the share of ratings in each of equal parts from 0 to 1
    pit_intervals: tuple[Interval, ...]  # of these; empty if there are none
    confidence: tuple[Tenth, ...]
    groups: Mapping[str, tuple[Group, ...]]
    levels: tuple[float, ...] | None = None  # what was scored: probabilities of levels, or densities
    off_levels: int = 0  # test ratings that are no levels, and were scored as the nearest one

    def __getitem__(self, name: str) -> float:
        if name not in self.measures:
            raise KeyError(f"the calibration has no measure {name!r}; expected one of {', '.join(self.measures)}")
        return self.measures[name]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "n": self.n,
            "levels": None if self.levels is None else list(self.levels),
            "off_levels": self.off_levels,
            **_plain(self.measures, self.intervals),
            "pit": list(self.pit),
            "pit_intervals": [list(interval) for interval in self.pit_intervals] or None,
            "confidence": [tenth.to_dict() for tenth in self.confidence],
            "groups": {side: [group.to_dict() for group in groups] for side, groups in self.groups.items()},
        }

    def to_polars(self) -> pl.DataFrame:
        """One row a measure, of everything ("all") and of each group.

        The columns: side, training_ratings, members, n, measure, value, low, high.
        """
        schema = {"side": pl.String, "training_ratings": pl.String, "members": pl.Int64, "n": pl.Int64}
        schema |= {"measure": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
        rows = [
            ("all", None, None, self.n, name, value, *self.intervals.get(name, (None, None)))
            for name, value in self.measures.items()
        ]
        rows += [
            (side, group.label, group.members, group.n, name, value, *group.intervals.get(name, (None, None)))
            for side, groups in self.groups.items()
            for group in groups
            for name, value in group.measures.items()
        ]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def confidence_to_polars(self) -> pl.DataFrame:
        """One row a tenth: share, n, belief_sd, rating_sd, rmse, rmse_so_far and the intervals of the last two."""
        names = ("belief_sd", "rating_sd", "rmse", "rmse_so_far")
        rows = [
            {"share": tenth.label, "n": tenth.n}
            | {name: tenth.measures.get(name) for name in names}
            | {f"{name}_low": tenth.intervals[name].low if name in tenth.intervals else None for name in names[2:]}
            | {f"{name}_high": tenth.intervals[name].high if name in tenth.intervals else None for name in names[2:]}
            for tenth in self.confidence
        ]
        figures = [*names, *(f"{name}_{end}" for end in ("low", "high") for name in names[2:])]
        return pl.DataFrame(rows, schema={"share": pl.String, "n": pl.Int64} | dict.fromkeys(figures, pl.Float64))

    def tables(self, *, empty: bool = True) -> list[Table]:
        """Coverage, errors by confidence, and the groups; `empty` is of groups, as in `groups_table`."""
        groups = [self.groups_table(side, empty=empty) for side in self.groups]
        return [self.coverage_table(), self.confidence_table(), *groups]

    def __repr__(self) -> str:
        return str(self.coverage_table())

    def coverage_table(self) -> Table:
        """What the intervals held, one row each; of the PIT in a note."""
        # On a continuous scale a model always expects what the interval is called.
        kinds = ("coverage", "width") if self.levels is None else ("coverage", "expected", "width")
        titles = {"coverage": "ratings inside", "expected": "expected", "width": "mean width"}
        rows = [(f"{share} %", *(self._cell(f"{kind}_{share}") for kind in kinds)) for share in SHARES.values()]
        columns = ("interval", *(titles[kind] for kind in kinds))
        note = (
            f"PIT: mean {self._cell('pit_mean')}, spread {self._cell('pit_spread')}, distance from "
            f"uniform {self['pit_distance']:.4f}"
        )
        if self.off_levels:
            note += f"; scored as the nearest level: {counted(self.off_levels, 'rating')}"
        return Table("Calibration: how many test ratings lie in their intervals", columns, tuple(rows), note)

    def confidence_table(self) -> Table:
        """The error of each tenth of the ratings, the most certain first."""
        rows = tuple(
            (
                *(tenth.label, f"{tenth.n:,}"),
                *(f"{tenth.measures[name]:.4f}" if tenth.n else EMPTY for name in ("belief_sd", "rating_sd")),
                *(
                    figure(tenth.measures[name], tenth.intervals.get(name)) if tenth.n else EMPTY
                    for name in ("rmse", "rmse_so_far")
                ),
            )
            for tenth in self.confidence
        )
        columns = ("tenth", "test ratings", "belief sd", "rating sd", "RMSE", "RMSE so far")
        return Table("Errors by confidence, the most certain tenth first", columns, rows)

    def pit_table(self) -> Table:
        """How many ratings are in each part from 0 to 1 of the PIT."""
        width = 1 / len(self.pit)
        spans = self.pit_intervals or [None] * len(self.pit)
        rows = tuple(
            (f"{place * width:.2f}–{(place + 1) * width:.2f}", figure(share, span))
            for place, (share, span) in enumerate(zip(self.pit, spans, strict=True))
        )
        title = (
            f"Probability integral transform: {width:.4g} of the ratings in each part if the distributions are right"
        )
        return Table(title, ("part", "share of the test ratings"), rows)

    def groups_table(self, side: str, *, empty: bool = True) -> Table:
        """Calibration of "users" or "items", one row a group; empty groups have rows of their own, or are in a note."""
        if side not in self.groups:
            raise InvalidParameterError(f"the calibration has no groups of {side!r}; expected evaluate with groups")
        names = (*(f"coverage_{share}" for share in SHARES.values()), "pit_mean", "pit_spread")
        rows = [
            (
                *(group.label, f"{group.members:,}", f"{group.n:,}"),
                *(figure(group.measures[name], group.intervals.get(name)) if group.n else EMPTY for name in names),
            )
            for group in self.groups[side]
            if empty or group.n
        ]
        left_out = [] if empty else [group.label for group in self.groups[side] if not group.n]
        note = f"{EMPTY}: {', '.join(left_out)}" if left_out else ""
        shares = [f"in {share} %" for share in SHARES.values()]
        columns = ("training ratings", f"test {side}", "test ratings", *shares, "PIT mean", "PIT spread")
        return Table(f"Calibration by the number of training ratings of the {side}", columns, tuple(rows), note)

    def _cell(self, name: str) -> str:
        return figure(self[name], self.intervals.get(name))


def _plain(measures: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """Measures and intervals as JSON has them, null where there are none."""
    spans = {name: list(interval) for name, interval in intervals.items()}
    return {"measures": dict(measures) or None, "intervals": spans or None}
