"""Compare models on the same test ratings: is a difference significant, and which model is best for what?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError, warn
from tastespace.evaluation.report import ListsMade, Report
from tastespace.evaluation.resampling import Interval, Sums, bootstrap, display_name, middle, plain_number, swapped
from tastespace.parameters import check_int
from tastespace.randomness import resolve
from tastespace.tables import TableResult, TextTable

CLOSE = 1e-12  # relative: sums in another order differ by this much
RESAMPLES = 10_000
SMALLEST_SHOWN = 0.0001  # of p-values
SMALLER_IS_BETTER = ("rmse", "mae", "crps", "log_loss")
POPULAR = "popular"  # the baseline that lists are always compared with


@dataclass(frozen=True)
class Comparison:
    """One measure of two models on the same users: `difference` is the first less the second.

    `interval` is a 95 % confidence interval of the difference. `p_value` is how often a difference at least as large
    would occur if the models were interchangeable; it is never below 1 / (`resamples` + 1).
    """

    measure: str
    first: float
    second: float
    difference: float
    interval: Interval
    p_value: float
    users: int  # number that count
    resamples: int  # number of permutations

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return asdict(self) | {"interval": list(self.interval)}

    def __str__(self) -> str:
        values = f"{display_name(self.measure)} {self.first:.4f} against {self.second:.4f}"
        p = self.p_text()
        return f"{values}: {self.difference:+.4f} ({self.interval_text()}), p {p if p.startswith('≤') else f'= {p}'}"

    def interval_text(self) -> str:
        """The interval as text."""
        return f"{self.interval.low:+.4f}…{self.interval.high:+.4f}"

    def p_text(self) -> str:
        """The p-value as text; "≤" marks one that more resamples might make smaller."""
        is_least = self.p_value * (self.resamples + 1) < 1.5 or self.p_value < SMALLEST_SHOWN
        return f"≤ {max(self.p_value, SMALLEST_SHOWN):.4f}" if is_least else f"{self.p_value:.4f}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons(TableResult[Comparison]):
    """All measures that two reports share; `comparisons["rmse"]` is one of them."""

    key: ClassVar[str] = "measure"

    def records(self) -> list[dict[str, Any]]:
        """One comparison per measure."""
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

    The p-value is of a permutation test: the two models are swapped for each user with probability one half, which
    must not matter if they are equally good. The interval is of a paired bootstrap over users. Measures of all lists
    together (coverage, Gini) have no value for a user, and are not compared; neither are the AUC over all test ratings
    and the calibration error for yes and no, nor log scores of different kinds (probabilities of levels and densities).
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
        warn("one report has gains by rating, the other does not: NDCG is not compared")
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
    """The share of random swaps with a difference at least as large, this one included; by measure."""
    names = list(one)
    if not names:
        return {}
    totals = np.stack([one[name].totals - other[name].totals for name in names], axis=1)
    counts = np.stack([one[name].counts - other[name].counts for name in names], axis=1)
    drawn_totals = swapped(totals, resamples, seed)
    # Almost always both have the same divisor; then only numerators are swapped.
    drawn_counts = swapped(counts, resamples, seed) if counts.any() else np.zeros_like(drawn_totals)
    found = {}
    for place, name in enumerate(names):
        both = Sums(one[name].totals + other[name].totals, one[name].counts + other[name].counts, one[name].is_root)
        real = abs(float(_difference(both, totals[:, place].sum(), counts[:, place].sum())))
        renamed = np.abs(_difference(both, drawn_totals[:, place], drawn_counts[:, place]))
        found[name] = float((1 + np.count_nonzero(renamed >= real * (1 - CLOSE))) / (1 + resamples))
    return found


def _difference(both: Sums, totals: DoubleArray | float, counts: DoubleArray | float) -> DoubleArray:
    """The difference of the measures with the sums `both` together and these differences."""
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
            "give both the same threshold (in Python relevant=, else --relevant)"
        )
    drawn = [report.lists for report in (first, second) if report.lists is not None]
    if len(drawn) == 2 and any(lists.users_not_drawn for lists in drawn) and _listed(first) != _listed(second):
        raise InvalidParameterError(
            f"the reports are on the lists of different users, {drawn[0].users_text()} and {drawn[1].users_text()}; "
            "expected the same max_users and seed for both"
        )
    own = [report.relevance.liked_from for report in (first, second) if report.relevance is not None]
    if len(own) == 2 and own[0] is not None and own[1] is not None and not np.array_equal(own[0], own[1]):
        raise InvalidParameterError(
            "the models know different ratings of the test users, so other test ratings count as liked; expected "
            "the same: give the second evaluation the relevance of the first (relevant=first.relevance), or a value"
        )


def _listed(report: Report) -> list[int]:
    """The users whose lists were measured."""
    return np.flatnonzero(report.sums["auc"].counts).tolist()


def _relevant(lists: ListsMade) -> str:
    if lists.relevant == "liked":
        return "what users like"
    return "all ratings" if lists.relevant is None else f"ratings from {lists.relevant:.6g} on"


@dataclass(frozen=True)
class Behind:
    """How much worse a model is than the best one, on the same users: `interval` is of the difference, 95 %."""

    difference: float  # 0 for the best; never negative, whether higher or lower is better
    interval: Interval | None

    @property
    def may_be_chance(self) -> bool:
        """Whether there is no difference, or its interval includes 0."""
        return not self.difference or (self.interval is not None and self.interval.low <= 0)

    def __str__(self) -> str:
        span = "" if self.interval is None else f" ({self.interval.low:+.4f}…{self.interval.high:+.4f})"
        return f"{self.difference:.4f}{span}"

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return {"difference": self.difference, "interval": self.interval and list(self.interval)}


def behind_best(reports: Mapping[str, Report], measure: str, resamples: int, seed: int) -> dict[str, Behind]:
    """How far each model with the measure is behind the best, best first; users are resampled for all."""
    sums = {
        name: report.sums[measure]
        for name, report in reports.items()
        if measure in report.sums and report.sums[measure].n_users
    }
    sign = 1 if measure in SMALLER_IS_BETTER else -1
    values = {name: sign * found.value() for name, found in sums.items()}
    ordered = sorted(values, key=lambda name: values[name])
    if not ordered:
        return {}
    best = ordered[0]
    drawn = bootstrap(sums, resamples, seed) if resamples and sums[best].n_users > 1 else {}

    def behind(name: str) -> Behind:
        span = middle(sign * (drawn[name] - drawn[best])) if drawn else None
        return Behind(values[name] - values[best], span)

    return {name: behind(name) for name in ordered}


@dataclass(frozen=True)
class Verdict:
    """Which of several models is best for a purpose, by one measure on the same users.

    `level` lists the models whose difference to the best may be chance: its 95 % interval includes 0.
    """

    purpose: str  # "ratings", "yes and no" or "lists"
    measure: str
    best: str
    value: float
    behind: Mapping[str, Behind]  # of the other models, the next best first

    @property
    def level(self) -> list[str]:
        """The other models that may be as good."""
        return [name for name, found in self.behind.items() if found.may_be_chance]

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON; `words` is the verdict as a sentence."""
        behind = {name: found.to_dict() for name, found in self.behind.items()}
        said = {"for": self.purpose, "measure": self.measure, "best": self.best, "value": plain_number(self.value)}
        return said | {"level": self.level, "behind": behind, "words": str(self)}

    def __str__(self) -> str:
        said = [f"best for {self.purpose}: {self.best} ({display_name(self.measure)} {self.value:.4f})"]
        if self.level:
            said.append(f"within noise of it: {', '.join(self.level)}")
        worse = [name for name in self.behind if name not in self.level]
        told = {*worse[:1], POPULAR} if self.purpose == "lists" else {*worse[:1]}  # The next best, and the baseline.
        said += [f"{name} is behind by {self.behind[name]}" for name in worse if name in told]
        return "; ".join(said)


def find_best(
    reports: Mapping[str, Report], *, k: int | None = None, resamples: int = 1000, seed: int = 0
) -> tuple[Verdict, ...]:
    """Find the best model for each purpose: RMSE for ratings, log loss for yes and no, NDCG for lists.

    `reports` has two or more reports by model name, on the same test ratings. `k` is the length of the lists, by
    default the middle one of those measured. Differences come with paired bootstrap intervals over users, none where
    `resamples` is 0. A purpose that fewer than two models serve is left out.
    """
    check_int("resamples", resamples, least=0)
    resolve(seed)
    if not isinstance(reports, Mapping):
        raise InvalidParameterError(f"reports is {type(reports).__name__}; expected {{name: report}}")
    for name, report in reports.items():
        if not isinstance(report, Report):
            raise InvalidParameterError(
                f"reports has {type(report).__name__} for {name!r}; expected reports that evaluate has made"
            )
        _check_same_test(next(iter(reports.values())), report)
    made = next((report.lists for report in reports.values() if report.lists is not None), None)
    k = made.middle if k is None and made is not None else k
    return verdicts_of(reports, k, lambda measure: behind_best(reports, measure, resamples, seed))


def verdicts_of(
    reports: Mapping[str, Report], k: int | None, behind: Callable[[str], Mapping[str, Behind]]
) -> tuple[Verdict, ...]:
    """A verdict for each purpose that at least two models serve; `behind` has differences by measure, best first."""
    verdicts = []
    for purpose, measure in {"ratings": "rmse", "yes and no": "log_loss", "lists": f"ndcg@{k}"}.items():
        best, *others = (found := behind(measure)) or [""]
        if others:
            rest = {name: found[name] for name in others}
            verdicts.append(Verdict(purpose, measure, best, reports[best][measure], rest))
    return tuple(verdicts)
