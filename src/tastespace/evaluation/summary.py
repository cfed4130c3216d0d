"""The first five lines of an evaluation: what its tables mean, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from tastespace.data.kinds import CHOICES
from tastespace.evaluation.groups import Group
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import Interval, counted, display_name, figure
from tastespace.evaluation.significance import SMALLER_IS_BETTER, behind_best

ERRORS = ("rmse", "log_loss")
MIN_SHARE = 0.01  # of the test ratings: smaller groups say little
WORSE = 1.1  # how much larger the error of a group must be to be named
LEVEL = "90"  # per cent: the intervals that are judged
ALLOWED = 0.01  # difference of coverage that has no consequences, beside chance
RESAMPLES = 1000


def summarize(
    report: Report, baselines: Mapping[str, Report] | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[str, ...]:
    """Five sentences: is it good, for whom not, are its intervals right, are its lists good, and what to do next.

    `baselines` are reports on the same test ratings, by the names of their models: what is said to be better or worse
    is so on resampled users, or may be chance.
    """
    others = dict(baselines or {})
    error = next((name for name in ERRORS if name in report.rating), None)
    predictions = "Predictions: not measured; this model, or this feedback, has lists only."
    if error is not None:
        against = _against(report, others, error, resamples, seed)
        predictions = f"Predictions: {display_name(error)} {figure(report[error])}{against}."
    made = report.lists
    lists = "Lists: not measured."
    if made is not None and made.users:
        ndcg = f"ndcg@{made.middle}"
        found = report.ranking.get(f"recall@{made.middle}")
        sought = "what users were looking for"
        holds = "" if found is None else f"; lists of {made.middle} hold {_percent(found)} of {sought}"
        against = _against(report, others, ndcg, resamples, seed)
        lists = f"Lists: {display_name(ndcg)} {figure(report[ndcg])}{against}{holds}."
    return predictions, _weak_spot(report, error), _intervals(report), lists, _next_step(report, others)


def _against(report: Report, others: Mapping[str, Report], measure: str, resamples: int, seed: int) -> str:
    """Whether the model is better by this measure than each of the others that have it."""
    said = []
    for name, other in others.items():
        if measure not in other.measures:
            continue
        if not other[measure]:
            said.append(f"{name} has {figure(other[measure])}")
            continue
        change = abs(report[measure] / other[measure] - 1)
        is_better = (report[measure] < other[measure]) == (measure in SMALLER_IS_BETTER)
        behind = behind_best({"this": report, "other": other}, measure, resamples, seed)
        may_be_chance = all(found.may_be_chance for found in behind.values())
        word = f"{_percent(change)} {'better' if is_better else 'worse'} than"
        if may_be_chance:
            word = "no clear difference from"
        elif change > 1:
            word = f"{change + 1:.1f} times that of"
        said.append(f"{word} {name} ({figure(other[measure])})")
    return f", {', '.join(said)}" if said else ""


def _weak_spot(report: Report, error: str | None) -> str:
    """The users, or items, for whom predictions or lists are worst, of those with enough test ratings."""
    if error is None:
        side, groups = "items", report.found.get("items", ())
        measure = f"found@{report.lists.middle}" if report.lists is not None else ""
    else:
        side, groups, measure = "users", report.groups.get("users", ()), error
    total = sum(group.n for group in groups)
    able = [group for group in groups if measure in group.measures and group.n >= MIN_SHARE * total]
    if len(able) < 2:
        return "For whom not: too few groups of test ratings to tell."
    if error is None:
        weak = [group for group in able if group.measures[measure] < _mean(able, measure) / 2]
        if not weak:
            return "For whom not: items of all sizes are found in lists."
        share = sum(group.n for group in weak) / total
        return (
            f"For whom not: items with {_sizes(weak)} training ratings are seldom in lists "
            f"({_percent(_mean(weak, measure))} found; {_percent(share)} of what users were looking for)."
        )
    worst = max(able, key=lambda group: group.measures[measure])
    if worst.measures[measure] < WORSE * report[measure]:
        return "For whom not: errors are about the same for users with few and with many ratings."
    return (
        f"For whom not: {side} with {worst.label} training ratings have {display_name(measure)} "
        f"{figure(worst.measures[measure])} ({_percent(worst.n / total)} of the test ratings)."
    )


def _mean(groups: list[Group], measure: str) -> float:
    """The mean of a measure over the test ratings of groups."""
    return sum(group.n * group.measures[measure] for group in groups) / sum(group.n for group in groups)


def _sizes(groups: list[Group]) -> str:
    """The numbers of training ratings of groups next to one another, in words."""
    first, last = groups[0].label.split(" ")[0].split("-")[0], groups[-1].label
    return last if len(groups) == 1 else f"{first} to {last.rpartition('-')[2]}"


def _intervals(report: Report) -> str:
    """Whether intervals hold as many test ratings as they should."""
    if report.reliability is not None:
        found = report.rating.get("ece")
        return "Probabilities: compared with how often yes was said, below" + (
            "." if found is None else f"; they miss it by {_percent(found, 1)} on average."
        )
    if report.kind in CHOICES:
        return "Intervals: none; implicit feedback has no ratings to hold."
    if report.calibration is None:
        return "Intervals: none; this model provides no uncertainty."
    name, expected = f"coverage_{LEVEL}", report.calibration.measures.get(f"expected_{LEVEL}", int(LEVEL) / 100)
    value, span = report.calibration[name], report.calibration.intervals.get(name)
    said = f"Intervals: those of {LEVEL} % hold {_percent(value, 1)} of the test ratings"
    # Where ratings are levels, an interval holds a level as a whole or not at all, and so more than its nominal share.
    wanted = "" if abs(expected - int(LEVEL) / 100) < 0.005 else f" ({_percent(expected, 1)} expected on levels)"
    low, high = span or Interval(value, value)
    if low - ALLOWED <= expected and int(LEVEL) / 100 <= high + ALLOWED:
        return f"{said}{wanted}: right."
    return f"{said}{wanted}: too {'narrow' if value < expected else 'wide'}."


def _next_step(report: Report, others: Mapping[str, Report]) -> str:
    """The most useful thing to do, given all this."""
    ndcg = "" if report.lists is None else f"ndcg@{report.lists.middle}"
    popular = max((other.ranking.get(ndcg, 0.0) for other in others.values()), default=0.0)
    if report.seen:
        step = (
            f"{counted(report.seen, 'test rating')} were in training, so all this is too good: make a test part with "
            "tastespace data split"
        )
    elif report.n and report.cold > report.n / 2:
        step = "most test ratings are of new users or items: give a history, or describe items by features"
    elif ndcg in report.ranking and report[ndcg] < popular:
        step = "for lists use the default model (fit without --model), which is chosen by its lists"
    elif any(report.rating.get(name, -inf) > each.rating.get(name, inf) for name in ERRORS for each in others.values()):
        step = "tastespace compare fits all models that suit the ratings"
    elif "too narrow" in _intervals(report):
        step = "check the chains with tastespace diagnose; test ratings later than training ones scatter more"
    else:
        step = "look at lists with tastespace report, or serve the model with tastespace serve"
    return f"Next: {step}."


def _percent(share: float, decimals: int = 0) -> str:
    return f"{100 * share:.{decimals}f} %"
