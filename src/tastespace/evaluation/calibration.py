"""Calibration of a model's uncertainty: coverage of intervals, fit of distributions, errors by uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix
from tastespace.distributions.rating_distribution import RatingDistribution
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.groups import Group, Grouping, groups_frame, groups_table, measure_record
from tastespace.evaluation.metrics.rating import Loss, Predicted, squared_errors
from tastespace.evaluation.resampling import EMPTY, Interval, Sums, counted, figure, plain_measures, those_of
from tastespace.models.base.results import Prediction
from tastespace.tables import ShownAsText, TextTable, frame_of

COVERAGES = (0.5, 0.8, 0.9, 0.95)  # of the intervals


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Scores of predictive distributions, one per rating, with coverage and width of their intervals."""

    levels: DoubleArray | None  # None for a continuous scale
    crps: DoubleArray
    log_score: DoubleArray
    pit: DoubleArray  # probability integral transform: uniform from 0 to 1 if the distributions are right
    is_covered: BoolArray  # n x intervals: is the rating inside?
    expected: FloatMatrix  # n x intervals: probability of that under the model
    widths: FloatMatrix  # n x intervals
    belief_sd: FloatArray
    rating_sd: FloatArray
    is_level: BoolArray  # whether the rating is one of the levels

    @classmethod
    def of(cls, prediction: Prediction, true: FloatArray, noise: DoubleArray) -> Outcomes:
        """`noise` are uniform random numbers that randomize the PIT on levels."""
        rating, rating_sd = prediction.rating, prediction.rating_sd
        if rating is None or rating_sd is None:
            raise InvalidParameterError("a prediction has only one of rating and rating_sd; expected both or neither")
        # Points with calibrated intervals are ordered by these.
        belief_sd = rating_sd if prediction.belief_sd is None else prediction.belief_sd
        low, high = rating.cdf_steps(true)
        lows = prediction.quantiles(*((1 - coverage) / 2 for coverage in COVERAGES))
        highs = prediction.quantiles(*((1 + coverage) / 2 for coverage in COVERAGES))
        return cls(
            levels=rating.levels,
            crps=rating.crps(true),
            log_score=rating.log_score(true),
            pit=low + noise * (high - low),
            is_covered=rating.contains(true, COVERAGES),
            expected=_expected(rating, lows, highs),
            widths=(highs - lows).astype(np.float32),
            belief_sd=belief_sd,
            rating_sd=rating_sd,
            is_level=rating.is_level(true),
        )

    @classmethod
    def joined(cls, parts: Sequence[tuple[NDArray[np.int64], Outcomes]]) -> Outcomes:
        """Combine the outcomes of parts of the ratings, each at these positions."""
        order = np.argsort(np.concatenate([rows for rows, _ in parts]))
        names = [field.name for field in fields(cls) if field.name != "levels"]
        whole = {name: np.concatenate([getattr(part, name) for _, part in parts])[order] for name in names}
        return cls(levels=parts[0][1].levels, **whole)


def _expected(rating: RatingDistribution, lows: DoubleArray, highs: DoubleArray) -> FloatMatrix:
    """The probability of each rating between each pair of bounds; n x intervals.

    On levels this is not the nominal probability, because an interval contains a level as a whole or not at all.
    """
    if rating.levels is None:
        return np.tile(np.array(COVERAGES, np.float32), (len(rating), 1))
    between = [rating.level_between(low, high) for low, high in zip(lows.T, highs.T, strict=True)]
    return np.stack(between, axis=1).astype(np.float32)


SHARES = {coverage: f"{100 * coverage:g}" for coverage in COVERAGES}  # as in the names of measures
OF_TENTHS = ("belief_sd", "rating_sd", "rmse", "rmse_so_far")  # measures; the last two have intervals


@dataclass(frozen=True)
class Tenth:
    """Test ratings about which the model was about equally certain."""

    label: str  # "0-10 %": the most certain
    n: int  # a tenth of the test ratings; more or fewer where there are ties
    measures: Mapping[str, float] = field(default_factory=dict[str, float])  # empty if n is 0
    intervals: Mapping[str, Interval] = field(default_factory=dict[str, Interval])

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON; nulls if there are no ratings."""
        return {"share": self.label, "n": self.n, **plain_measures(self.measures, self.intervals)}


@dataclass(frozen=True, repr=False)
class Calibration(ShownAsText):
    """How well the uncertainty of a model held up on `n` test ratings.

    `measures` has, for each of the intervals of 50, 80, 90 and 95 %, `coverage_90` (the share of ratings inside),
    `expected_90` (the share that the model expected inside; on levels this is not quite 0.9) and `width_90` (the mean
    width, in units of the ratings); and for the probability integral transform (PIT), which is uniform from 0 to 1 for
    correct distributions, `pit_mean` (0.5), `pit_spread` (1; more if the model is overconfident, less if it is
    underconfident) and `pit_distance` (0; the largest difference between its distribution function and the uniform
    one).

    `calibration["coverage_90"]` is a measure. `intervals` has 95 % confidence intervals by the same names, `groups` the
    measures of "users" and of "items" by their number of training ratings. `confidence` are tenths of the test ratings
    by `belief_sd` (`rating_sd` for a model without), the most certain first: the `rmse` of each, the `rmse_so_far` of
    these and all before, and the root mean square of both sds.
    """

    n: int
    measures: Mapping[str, float]
    intervals: Mapping[str, Interval]
    pit: tuple[float, ...]  # the share of ratings in each of equal parts from 0 to 1
    pit_intervals: tuple[Interval, ...]  # of these shares; empty without a bootstrap
    confidence: tuple[Tenth, ...]
    groups: Mapping[str, tuple[Group, ...]]
    levels: tuple[float, ...] | None = None  # what was scored: probabilities of levels, or densities
    off_levels: int = 0  # test ratings that are not levels, scored as the nearest one

    def __getitem__(self, name: str) -> float:
        if name not in self.measures:
            raise KeyError(f"the calibration has no measure {name!r}; expected one of {', '.join(self.measures)}")
        return self.measures[name]

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return {
            "n": self.n,
            "levels": None if self.levels is None else list(self.levels),
            "off_levels": self.off_levels,
            **plain_measures(self.measures, self.intervals),
            "pit": list(self.pit),
            "pit_intervals": [list(interval) for interval in self.pit_intervals] or None,
            "confidence": [tenth.to_dict() for tenth in self.confidence],
            "groups": {side: [group.to_dict() for group in groups] for side, groups in self.groups.items()},
        }

    def to_polars(self) -> pl.DataFrame:
        """One row per measure, for all ratings ("all") and for each group.

        The columns: side, training_ratings, members, n, measure, value, low, high.
        """
        values = [measure_record(name, value, self.intervals.get(name)) for name, value in self.measures.items()]
        return groups_frame("side", self.groups, above=[{"side": "all", "n": self.n} | value for value in values])

    def confidence_to_polars(self) -> pl.DataFrame:
        """One row per tenth: share, n, belief_sd, rating_sd, rmse, rmse_so_far and the intervals of the last two."""
        ends = {f"{name}_{end}": (name, end) for end in ("low", "high") for name in OF_TENTHS[2:]}
        records = [
            {"share": tenth.label, "n": tenth.n, **tenth.measures}
            | {column: getattr(tenth.intervals.get(name), end, None) for column, (name, end) in ends.items()}
            for tenth in self.confidence
        ]
        return frame_of(records, {"share": pl.String, "n": pl.Int64} | dict.fromkeys([*OF_TENTHS, *ends], pl.Float64))

    def tables(self, *, empty: bool = True) -> list[TextTable]:
        """Coverage, errors by confidence, and the groups; `empty` is passed to `groups_table`."""
        groups = [self.groups_table(side, empty=empty) for side in self.groups]
        return [self.coverage_table(), self.confidence_table(), *groups]

    def table(self) -> TextTable:
        """Coverage of the intervals."""
        return self.coverage_table()

    def coverage_table(self) -> TextTable:
        """Coverage of the intervals, one row each, with the PIT in a note."""
        # On a continuous scale the expected share is always the nominal one.
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
        return TextTable("Calibration: how many test ratings lie in their intervals", columns, tuple(rows), note)

    def confidence_table(self) -> TextTable:
        """The error of each tenth of the ratings, the most certain first."""

        def cell(tenth: Tenth, name: str) -> str:
            return figure(tenth.measures[name], tenth.intervals.get(name)) if tenth.n else EMPTY

        rows = tuple(
            (tenth.label, f"{tenth.n:,}", *(cell(tenth, name) for name in OF_TENTHS)) for tenth in self.confidence
        )
        columns = ("tenth", "test ratings", "belief sd", "rating sd", "RMSE", "RMSE so far")
        return TextTable("Errors by confidence, the most certain tenth first", columns, rows)

    def pit_table(self) -> TextTable:
        """The share of ratings in each part of the PIT from 0 to 1."""
        width, spans = 1 / len(self.pit), self.pit_intervals or [None] * len(self.pit)
        parts = [f"{place * width:.2f}–{(place + 1) * width:.2f}" for place in range(len(self.pit))]
        rows = tuple(zip(parts, map(figure, self.pit, spans), strict=True))
        of_each = f"{width:.4g} of the ratings in each part if the distributions are right"
        return TextTable(f"Probability integral transform: {of_each}", ("part", "share of the test ratings"), rows)

    def groups_table(self, side: str, *, empty: bool = True) -> TextTable:
        """Calibration of "users" or "items", one row per group; empty groups have their own rows or are in a note."""
        if side not in self.groups:
            raise InvalidParameterError(f"the calibration has no groups of {side!r}; expected evaluate with groups")
        headings = (*(f"in {share} %" for share in SHARES.values()), "PIT mean", "PIT spread")
        columns = {heading: (self.groups[side], name) for heading, name in zip(headings, RESAMPLED, strict=True)}
        return groups_table("Calibration", side, columns, empty=empty)

    def _cell(self, name: str) -> str:
        return figure(self[name], self.intervals.get(name))


PIT_PARTS = 20
TENTHS = tuple(f"{10 * place}-{10 * place + 10} %" for place in range(10))
RESAMPLED = (*(f"coverage_{share}" for share in SHARES.values()), "pit_mean", "pit_spread")  # measures with intervals


@dataclass(frozen=True, eq=False)
class Assessment:
    """Calibration being computed: first the sums to resample, then the result with its intervals."""

    outcomes: Outcomes
    said: Predicted  # coverage, widths and PIT
    errors: Predicted  # by tenths
    tenths: NDArray[np.int64]  # uncertainty of each test rating: 0 is the most certain tenth
    groupings: Sequence[Grouping]

    @classmethod
    def of(cls, outcomes: Outcomes, predicted: Predicted, groupings: Sequence[Grouping]) -> Assessment:
        squares = {name: getattr(outcomes, name).astype(np.float64) ** 2 for name in OF_TENTHS[:2]}
        squares["rmse"] = squared_errors(predicted.predicted, predicted.true)
        errors = {name: Loss(values, is_root=True) for name, values in squares.items()}
        said, wrong = (replace(predicted, metrics={}, losses=losses) for losses in (_losses(outcomes), errors))
        return cls(outcomes, said, wrong, tenths(outcomes.belief_sd), groupings)

    def sums(self) -> dict[Any, Sums]:
        """All sums to resample."""
        found: dict[Any, Sums] = {("all", name): measure for name, measure in self.said.sums().items()}
        for grouping in self.groupings:
            found |= grouping.sums(self.said)
        found = {key: measure for key, measure in found.items() if key[-1] in RESAMPLED}
        found |= {("pit", place): measure for place, measure in enumerate(self._pit_sums())}
        for place in range(len(TENTHS)):
            found[place, "rmse"] = self.errors.sums(self.tenths == place)["rmse"]
            found[place, "rmse_so_far"] = self.errors.sums(self.tenths <= place)["rmse"]
        return found

    def calibration(self, intervals: Mapping[Any, Interval]) -> Calibration:
        """The result; `intervals` has those of `sums` by the same keys."""
        levels, pit = self.outcomes.levels, self.outcomes.pit
        return Calibration(
            n=len(pit),
            measures=self.said.values() | {"pit_distance": distance_from_uniform(pit)},
            intervals=those_of(intervals, {name: ("all", name) for name in RESAMPLED}),
            pit=tuple((np.bincount(_pit_parts(pit), minlength=PIT_PARTS) / len(pit)).tolist()),
            pit_intervals=tuple(intervals[key] for place in range(PIT_PARTS) if (key := ("pit", place)) in intervals),
            confidence=tuple(self._tenth(place, intervals) for place in range(len(TENTHS))),
            groups={grouping.side: grouping.groups(self.said, intervals) for grouping in self.groupings},
            levels=None if levels is None else tuple(levels.tolist()),
            off_levels=int(np.count_nonzero(~self.outcomes.is_level)),
        )

    def _tenth(self, place: int, intervals: Mapping[Any, Interval]) -> Tenth:
        here = self.tenths == place
        n = int(np.count_nonzero(here))
        if not n:
            return Tenth(TENTHS[place], 0)
        so_far = {"rmse_so_far": self.errors.losses["rmse"].over(self.tenths <= place)}
        spans = those_of(intervals, {name: (place, name) for name in ("rmse", "rmse_so_far")})
        return Tenth(TENTHS[place], n, self.errors.values(here) | so_far, spans)

    def _pit_sums(self) -> list[Sums]:
        """The share of ratings in each part from 0 to 1, as sums by user."""
        n_users = self.said.n_users
        keys = self.said.users.astype(np.int64) * PIT_PARTS + _pit_parts(self.outcomes.pit)
        counts = np.bincount(keys, minlength=n_users * PIT_PARTS).reshape(n_users, PIT_PARTS).astype(np.float64)
        return [Sums(np.ascontiguousarray(column), counts.sum(axis=1)) for column in counts.T]


def tenths(belief_sd: NDArray[Any]) -> NDArray[np.int64]:
    """The tenth of each value, the smallest first; ties share the tenth of their middle."""
    _, places, counts = np.unique(belief_sd, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    return np.minimum((len(TENTHS) * middles / max(len(belief_sd), 1)).astype(np.int64), len(TENTHS) - 1)[places]


def distance_from_uniform(values: DoubleArray) -> float:
    """The largest difference between the distribution function of values and the uniform one: Kolmogorov's distance."""
    ordered, n = np.sort(values), len(values)
    steps = np.arange(n + 1) / n
    return float(max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1])))


def _losses(outcomes: Outcomes) -> dict[str, Loss]:
    """The values of which the measures are means."""
    columns = {"coverage": outcomes.is_covered, "expected": outcomes.expected, "width": outcomes.widths}
    found = {
        f"{name}_{share}": Loss(values[:, place])
        for name, values in columns.items()
        for place, share in enumerate(SHARES.values())
    }
    # A uniform variable has the variance 1/12.
    return found | {"pit_mean": Loss(outcomes.pit), "pit_spread": Loss(12 * (outcomes.pit - 0.5) ** 2, is_root=True)}


def _pit_parts(pit: DoubleArray) -> NDArray[np.int64]:
    return np.minimum((pit * PIT_PARTS).astype(np.int64), PIT_PARTS - 1)
