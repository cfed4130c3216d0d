"""Is one model better than another on the same test ratings, or was it luck?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError, warn
from tastespace.evaluation.report import ListsMade, Report
from tastespace.evaluation.resampling import Interval, Sums, bootstrap, display_name, middle, swapped
from tastespace.models.base.parameters import check_int
from tastespace.randomness import resolve
from tastespace.tables import TableResult, TextTable

CLOSE = 1e-12  # relative: sums in another order differ by so much
RESAMPLES = 10_000
SMALLEST_SHOWN = 0.0001  # of p-values


@dataclass(frozen=True)
class Comparison:
    """One measure of two models on the same users: `difference` is the first less the second.

    `interval` is a 95 % confidence interval of the difference. `p_value` is how often a difference at least as large
    would come about if it made no difference which model is which; it is never below 1 / (`resamples` + 1).
    """

    measure: str
    first: float
    second: float
    difference: float
    interval: Interval
    p_value: float
    users: int  # how many count
    resamples: int  # how often the models changed names

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return asdict(self) | {"interval": list(self.interval)}

    def __str__(self) -> str:
        values = f"{display_name(self.measure)} {self.first:.4f} against {self.second:.4f}"
        p = self.p_text()
        return f"{values}: {self.difference:+.4f} ({self.interval_text()}), p {p if p.startswith('≤') else f'= {p}'}"

    def interval_text(self) -> str:
        """The interval as shown."""
        return f"{self.interval.low:+.4f}…{self.interval.high:+.4f}"

    def p_text(self) -> str:
        """The p-value as shown: one that more resamples might make smaller says so."""
        is_least = self.p_value * (self.resamples + 1) < 1.5 or self.p_value < SMALLEST_SHOWN
        return f"≤ {max(self.p_value, SMALLEST_SHOWN):.4f}" if is_least else f"{self.p_value:.4f}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons(TableResult[Comparison]):
    """All measures that two reports share; `comparisons["rmse"]` is one of them."""

    key: ClassVar[str] = "measure"

    def records(self) -> list[dict[str, Any]]:
        """One a measure."""
        return [entry.to_dict() | entry.interval._asdict() for entry in self]

    def schema(self) -> dict[str, Any]:
        """Measure, first, second, difference, low, high, p_value, users."""
        names = ("first", "second", "difference", "low", "high", "p_value")
        return {"measure": pl.String} | dict.fromkeys(names, pl.Float64) | {"users": pl.Int64}

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON, by measure."""
        return {entry.measure: entry.to_dict() for entry in self}

    def table(self, first: str = "first", second: str = "second") -> TextTable:
        """The differences, under the names of the two."""

        def row(entry: Comparison) -> tuple[str, ...]:
            values = f"{entry.first:.4f}", f"{entry.second:.4f}", f"{entry.difference:+.4f}"
            return display_name(entry.measure), *values, entry.interval_text(), entry.p_text()

        columns = ("", first, second, "difference", "95 % interval", "p")
        return TextTable(f"{first} less {second}, user by user", columns, tuple(map(row, self)))


def compare_reports(first: Report, second: Report, *, resamples: int = RESAMPLES, seed: int = 0) -> Comparisons:
    """Compare two reports on the same test ratings, measure by measure, users paired.

    The p-value is of a permutation test: the two models change names for each user with probability one half, which
    must not matter if they are equally good. The interval is of a paired bootstrap over users. Measures of all lists
    together (coverage, Gini) have no value for a user, and are not compared; neither are the AUC over all test ratings
    and the calibration error of yes and no, nor log scores of different things, probabilities of levels and densities.
    """
    check_int("resamples", resamples, least=1)
    resolve(seed)
    _check_same_test(first, second)
    able = [name for name in first.sums if name in second.sums and first.sums[name].n_users > 1]
    scales = {report.calibration.levels for report in (first, second) if report.calibration is not None}
    if "log_score" in able and len(scales) > 1:
        warn("the models give log scores of different levels, or one of levels and one of densities: not compared")
        able.remove("log_score")
    if first.lists and second.lists and first.lists.graded != second.lists.graded:
        warn("one report grades what is relevant by its rating, the other does not: NDCG is not compared")
        able = [name for name in able if not name.startswith("ndcg@")]
    one, other = ({name: report.sums[name] for name in able} for report in (first, second))
    both = {(which, name): sums[name] for which, sums in (("one", one), ("other", other)) for name in able}
    drawn = bootstrap(both, resamples, seed) if able else {}
    p_values = _p_values(one, other, resamples, seed)

    def compared(name: str) -> Comparison:
        interval, users = middle(drawn["one", name] - drawn["other", name]), one[name].n_users
        values = first[name], second[name], first[name] - second[name]
        return Comparison(name, *values, interval, p_values[name], users, resamples)

    return Comparisons(tuple(map(compared, able)))


def _p_values(one: dict[str, Sums], other: dict[str, Sums], resamples: int, seed: int) -> dict[str, float]:
    """The share of random renamings with a difference at least as large, this one included; by measure."""
    names = list(one)
    if not names:
        return {}
    totals = np.stack([one[name].totals - other[name].totals for name in names], axis=1)
    counts = np.stack([one[name].counts - other[name].counts for name in names], axis=1)
    drawn_totals = swapped(totals, resamples, seed)
    # Almost always both are divided by the same; then nothing is swapped below the line.
    drawn_counts = swapped(counts, resamples, seed) if counts.any() else np.zeros_like(drawn_totals)
    found = {}
    for place, name in enumerate(names):
        both = Sums(one[name].totals + other[name].totals, one[name].counts + other[name].counts, one[name].is_root)
        real = abs(float(_difference(both, totals[:, place].sum(), counts[:, place].sum())))
        renamed = np.abs(_difference(both, drawn_totals[:, place], drawn_counts[:, place]))
        found[name] = float((1 + np.count_nonzero(renamed >= real * (1 - CLOSE))) / (1 + resamples))
    return found


def _difference(both: Sums, totals: DoubleArray | float, counts: DoubleArray | float) -> DoubleArray:
    """The difference of the measures whose sums are `both` together and differ by these."""
    total, count = both.totals.sum(), both.counts.sum()
    upper = both.quotient((total + totals) / 2, (count + counts) / 2)
    return np.asarray(upper - both.quotient((total - totals) / 2, (count - counts) / 2))


def _check_same_test(first: Report, second: Report) -> None:
    for report in (first, second):
        if not isinstance(report, Report):
            raise InvalidParameterError(
                f"compare_reports got {type(report).__name__}; expected two reports of evaluate"
            )
    if first.test is None or second.test is None:
        raise InvalidParameterError("a report has no test ratings; expected reports that evaluate has made")
    if first.test is not second.test and first.test.fingerprint() != second.test.fingerprint():
        raise InvalidParameterError(
            f"the reports are on different test ratings ({first.n:,} and {second.n:,}); expected the same for both"
        )
    if first.lists and second.lists and first.lists.relevant != second.lists.relevant:
        raise InvalidParameterError(
            f"the reports take {_relevant(first.lists)} and {_relevant(second.lists)} as relevant; expected the same: "
            "say for both from which value on (in Python relevant=, else --relevant)"
        )
    own = [report.relevance.liked_from for report in (first, second) if report.relevance is not None]
    if len(own) == 2 and own[0] is not None and own[1] is not None and not np.array_equal(own[0], own[1]):
        raise InvalidParameterError(
            "the models know different ratings of the test users, by which other test ratings count as liked; expected "
            "the same: give the second evaluation the relevance of the first (relevant=first.relevance), or a value"
        )


def _relevant(lists: ListsMade) -> str:
    if lists.relevant == "liked":
        return "what users like"
    return "all ratings" if lists.relevant is None else f"ratings from {lists.relevant:.6g} on"
