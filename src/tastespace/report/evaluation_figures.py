"""Figures of an evaluation: errors by amount of training data, lists by length, uncertainty, and two models compared.

`looks` gives the colour and shape of all models of a page; without it, the models passed are all there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tastespace.evaluation.calibration import SHARES, Calibration
from tastespace.evaluation.groups import Group
from tastespace.evaluation.metrics.binary import BY_USER, Reliability
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import display_name
from tastespace.evaluation.significance import SMALLER_IS_BETTER, Comparison, Comparisons
from tastespace.report import plotting as plot
from tastespace.report.plotting import ACCENT, GRID, INK, PALE, RUST, Picture

CURVES = ("ndcg", "recall", "precision")
LARGER_IS_BETTER = ("precision", "recall", "hit_rate", "mrr", "map", "ndcg", "ndcg_binary", "auc")
SIGNIFICANT = 0.05
MAIN = 0.9  # the coverage that is shown by groups
BETTER, WORSE, UNSURE = "better", "worse", "not sure"


Groups = Mapping[str, tuple[Group, ...]]  # by model


def errors_picture(reports: Mapping[str, Report], side: str, looks: Mapping[str, int] | None = None) -> Picture:
    """The error of each model by the number of training ratings of the users, or of the items."""
    measure = next(iter(reports.values())).group_measures[0]
    groups = {name: report.groups[side] for name, report in reports.items()}
    return _groups_picture(groups, measure, side, "errors", display_name(measure), looks)


def found_picture(reports: Mapping[str, Report], side: str, looks: Mapping[str, int] | None = None) -> Picture:
    """The share of relevant test items in lists, by the number of training ratings of the users or items."""
    k = next(report.lists.middle for report in reports.values() if report.lists is not None)
    groups = {name: report.found[side] for name, report in reports.items()}
    what = f"Share of the relevant test ratings in lists of {k}"
    return _groups_picture(groups, f"found@{k}", side, "found", what, looks)


def _groups_picture(
    groups: Groups, measure: str, side: str, kind: str, what: str, looks: Mapping[str, int] | None
) -> Picture:
    looks = looks or {name: place for place, name in enumerate(groups)}
    figure, (axes,) = plot.new_figure(1, (9.2, 3.9))
    plot.draw_groups(axes, groups, measure, looks)
    plot.name_groups(axes, next(iter(groups.values())), side)
    title = f"{what} by the number of training ratings of the {side}"
    plot.set_title(axes, title, y=display_name(measure))
    plot.add_legend(figure, axes, looks)
    return Picture.of(figure, f"{kind}-by-{side}", title, _describe_groups(groups, measure))


def lists_picture(reports: Mapping[str, Report]) -> Picture:
    """NDCG, recall and precision against the length of the lists."""
    ks = next(report.lists.k for report in reports.values() if report.lists is not None)
    figure, panels = plot.new_figure(len(CURVES), (10.2, 3.5))
    for axes, curve in zip(panels, CURVES, strict=True):
        for place, (name, report) in enumerate(reports.items()):
            values = [report.ranking.get(f"{curve}@{k}", math.nan) for k in ks]
            spans = [report.intervals.get(f"{curve}@{k}") for k in ks]
            points = [(at, *pair) for at, pair in enumerate(zip(values, spans, strict=True)) if not math.isnan(pair[0])]
            plot.draw_points(axes, points, place, name)
        axes.set_title(display_name(curve), loc="left", color=INK)
        axes.set_xticks(range(len(ks)), [str(k) for k in ks])
        axes.set(xlim=(-0.4, len(ks) - 0.6), xlabel="length of the list, k")
        axes.set_ylim(bottom=0)
    plot.add_legend(figure, panels[0], reports)
    title = "NDCG, recall and precision by the length of the lists"
    return Picture.of(figure, "lists", title, _describe_curves(reports, ks))


def differences_picture(comparisons: Comparisons, first: str, second: str) -> Picture:
    """Differences between two models, measure by measure."""
    rows = _shown(comparisons)
    figure, (axes,) = plot.new_figure(1, (9.2, 1.3 + 0.34 * max(len(rows), 1)))
    axes.axvline(0, color=INK, linewidth=1, zorder=1)
    for place, row in enumerate(rows):
        verdict, colour = _verdict(row)
        span = (row.interval.low, row.difference, row.interval.high)
        low, value, high = (100 * part / abs(row.second) for part in span)
        axes.hlines(place, low, high, color=colour, linewidth=2, zorder=2)
        axes.scatter(value, place, s=48, color=colour, facecolor=colour if verdict != UNSURE else "white", zorder=3)
        # On the side away from zero, so that no label crosses its line.
        end, offset, side = (low, -8, "right") if value < 0 else (high, 8, "left")
        plot.write_note(axes, verdict, (end, place), (offset, 0), fontsize=9, va="center", ha=side)
    axes.set_yticks(range(len(rows)), [display_name(row.measure) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.12)  # room for a label on either side
    axes.grid(axis="x", color=GRID)
    difference = f"{first} less {second}, in per cent of {second}, with 95 % interval"
    plot.set_title(axes, f"{first} against {second} (hollow: p ≥ {SIGNIFICANT:g})", x=difference)
    title = f"{first} against {second}, measure by measure"
    return Picture.of(figure, "differences", title, f". {_describe_differences(rows, first, second)}")


def coverage_picture(models: Mapping[str, Calibration], looks: Mapping[str, int]) -> Picture:
    """Observed against nominal coverage of intervals; also by groups of users if there are any."""
    groups = {name: found.groups["users"] for name, found in models.items() if "users" in found.groups}
    figure, panels = plot.new_figure(2, (11.0, 4.0), (2, 5)) if groups else plot.new_figure(1, (4.4, 4.0))
    axes = panels[0]
    draw_coverage(axes, models, looks)
    if groups:
        panels[1].axhline(MAIN, color=PALE, linewidth=1, zorder=1)
        plot.draw_groups(panels[1], groups, f"coverage_{SHARES[MAIN]}", looks)
        plot.name_groups(panels[1], next(iter(groups.values())), "users")
        plot.set_title(panels[1], f"{SHARES[MAIN]} % intervals, by groups of users")
    plot.add_legend(figure, axes, looks)
    title = "Coverage: how many test ratings lie in their intervals"
    return Picture.of(figure, "coverage", title, f". {plot.describe(models, _describe_coverage)}")


def draw_coverage(axes: plot.Axes, models: Mapping[str, Calibration], looks: Mapping[str, int]) -> None:
    """Draw observed against nominal coverage of intervals; on the diagonal models are calibrated."""
    axes.plot([0.4, 1], [0.4, 1], color=PALE, linewidth=1, zorder=1)
    for name, found in models.items():
        names = {coverage: f"coverage_{share}" for coverage, share in SHARES.items()}
        points = [(place, found[entry], found.intervals.get(entry)) for place, entry in names.items()]
        plot.draw_points(axes, points, looks[name], name)
        if found.levels is not None:
            expected = [found[f"expected_{share}"] for share in SHARES.values()]
            colour = plot.colour_of(looks[name])
            axes.plot(list(SHARES), expected, marker="_", markersize=16, color=colour, linestyle="none", zorder=4)
    axes.set_xticks(list(SHARES), list(SHARES.values()))
    axes.set(xlim=(0.45, 1.0), xlabel="interval, in per cent", ylabel="share of the test ratings inside")
    dashes = " (dash: expected)" if any(found.levels is not None for found in models.values()) else ""
    plot.set_title(axes, f"All ratings{dashes}")


def pit_picture(models: Mapping[str, Calibration], looks: Mapping[str, int]) -> Picture:
    """The histogram of the probability integral transform, flat for correct distributions; one panel per model."""
    figure, panels = plot.new_figure(len(models), (max(5.2, 3.8 * len(models)), 3.4))
    highest = max(max(found.pit) * len(found.pit) for found in models.values())
    for axes, (name, found) in zip(panels, models.items(), strict=True):
        n_parts = len(found.pit)
        middles = [(part + 0.5) / n_parts for part in range(n_parts)]
        heights = [share * n_parts for share in found.pit]
        axes.bar(middles, heights, width=0.92 / n_parts, color=plot.colour_of(looks[name]), alpha=0.75)
        for middle, span in zip(middles, found.pit_intervals, strict=False):  # none without a bootstrap
            axes.vlines(middle, span.low * n_parts, span.high * n_parts, color=INK, linewidth=1)
        axes.axhline(1, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.set(xlim=(0, 1), ylim=(0, 1.15 * max(highest, 1)), xlabel="probability of a lower rating")
        plot.set_title(axes, name)
    panels[0].set_ylabel("ratings, 1 being as many as expected")
    title = "Probability integral transform: flat if the distributions are correct"
    return Picture.of(figure, "pit", title, f". {plot.describe(models, _describe_pit)}")


def confidence_picture(models: Mapping[str, Calibration], looks: Mapping[str, int]) -> Picture:
    """The RMSE of each tenth of the ratings, the most certain first."""
    figure, (axes,) = plot.new_figure(1, (9.2, 3.6))
    tenths = {name: found.confidence for name, found in models.items()}
    plot.draw_groups(axes, tenths, "rmse", looks, joined=True)
    labels = [tenth.label for tenth in next(iter(models.values())).confidence]
    axes.set_xticks(range(len(labels)), labels, fontsize=9)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    title, order = "RMSE by confidence", "tenths of the test ratings by the sd of the belief, the most certain first"
    plot.set_title(axes, title, x=order, y="RMSE")
    plot.add_legend(figure, axes, looks)
    return Picture.of(figure, "confidence", title, f". {plot.describe(models, _describe_confidence)}")


def reliability_picture(models: Mapping[str, Reliability], looks: Mapping[str, int]) -> Picture:
    """The observed share of yes against its predicted probability."""
    figure, (axes,) = plot.new_figure(1, (5.2, 4.4))
    axes.plot([0, 1], [0, 1], color=PALE, linewidth=1, zorder=1)
    sentences = []
    for name, found in models.items():
        filled = [
            (entry.predicted, entry.yes, entry.interval)
            for entry in found.bins
            if entry.predicted is not None and entry.yes is not None
        ]
        plot.draw_points(axes, filled, looks[name], name)
        parts = [f"predicted {predicted:.3f}, came {yes:.3f}" for predicted, yes, _ in (filled[0], filled[-1])]
        sentences.append(f"{name}: at the least likely {parts[0]}; at the most likely {parts[1]}.")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set(xlabel="predicted probability of yes", ylabel="share of yes among the test ratings")
    plot.add_legend(figure, axes, looks)
    title = "Reliability: how often yes came, by its predicted probability"
    return Picture.of(figure, "reliability", title, f". {' '.join(sentences)}")


def _shown(comparisons: Comparisons) -> list[Comparison]:
    """Measures by which models are compared, those of lists at the middle length only."""
    ks = sorted({int(row.measure.partition("@")[2]) for row in comparisons if "@" in row.measure})
    k = ks[(len(ks) - 1) // 2] if ks else 0
    wanted = [*SMALLER_IS_BETTER, "log_score", BY_USER, *(f"{name}@{k}" for name in LARGER_IS_BETTER), "auc"]
    return [row for name in wanted for row in comparisons if row.measure == name and row.second]


def _verdict(row: Comparison) -> tuple[str, str]:
    """The verdict on the first model, and its colour."""
    if row.p_value >= SIGNIFICANT:
        return UNSURE, PALE
    is_better = (row.difference < 0) == (row.measure in SMALLER_IS_BETTER)
    return (BETTER, ACCENT) if is_better else (WORSE, RUST)


def _least_and_most(groups: Sequence[Group], measure: str) -> tuple[tuple[str, float], tuple[str, float]]:
    """The groups with the smallest and the largest value, with that value."""
    found = [(group.label, group.measures[measure]) for group in groups if group.n]
    return min(found, key=lambda pair: pair[1]), max(found, key=lambda pair: pair[1])


def _describe_groups(models: Groups, measure: str) -> str:
    """The extremes of each model, and the empty groups."""

    def words(groups: Sequence[Group]) -> str:
        (least, smallest), (most, largest) = _least_and_most(groups, measure)
        return f"largest with {most} training ratings ({largest:.3f}), smallest with {least} ({smallest:.3f})."

    empty = [group.label for group in next(iter(models.values())) if not group.n]
    return f". {plot.describe(models, words)}" + (f" No test ratings with {', '.join(empty)}." if empty else "")


def _describe_curves(reports: Mapping[str, Report], ks: Sequence[int]) -> str:
    def words(report: Report) -> str:
        ends = {curve: [report.ranking[f"{curve}@{k}"] for k in (ks[0], ks[-1])] for curve in CURVES}
        parts = [f"{display_name(curve)} from {first:.3f} to {last:.3f}" for curve, (first, last) in ends.items()]
        return f"{', '.join(parts)}."

    named = {f"{name}, from {ks[0]} to {ks[-1]} items": report for name, report in reports.items()}
    return f". {plot.describe(named, words)}"


def _describe_differences(rows: Sequence[Comparison], first: str, second: str) -> str:
    sentences = {
        BETTER: f"{first} is better than {second} by",
        WORSE: f"{first} is worse than {second} by",
        UNSURE: "No significant difference by",
    }
    names = {name: [display_name(row.measure) for row in rows if _verdict(row)[0] == name] for name in sentences}
    return " ".join(f"{what} {', '.join(names[verdict])}." for verdict, what in sentences.items() if names[verdict])


def _describe_coverage(found: Calibration) -> str:
    """Every interval, and the groups at both ends."""
    parts = [f"{100 * found[f'coverage_{share}']:.1f} % in intervals of {share} %" for share in SHARES.values()]
    if not any(group.n for group in found.groups.get("users", ())):
        return f"{', '.join(parts)}."
    (least, low), (most, high) = _least_and_most(found.groups["users"], f"coverage_{SHARES[MAIN]}")
    return (
        f"{', '.join(parts)}. By users, those of {SHARES[MAIN]} % hold from {100 * low:.1f} % ({least} training "
        f"ratings) to {100 * high:.1f} % ({most})."
    )


def _describe_pit(found: Calibration) -> str:
    n_parts, low, high = len(found.pit), min(found.pit), max(found.pit)
    where = [f"{found.pit.index(share) / n_parts:.2f}" for share in (low, high)]
    return (
        f"mean {found['pit_mean']:.3f} (0.5 is right), spread {found['pit_spread']:.3f} (1 is right); fewest ratings "
        f"from {where[0]} on, {low * n_parts:.2f} times as many as expected, most from {where[1]} on, "
        f"{high * n_parts:.2f} times."
    )


def _describe_confidence(found: Calibration) -> str:
    filled = [(f"{tenth.measures['rmse']:.3f}", tenth.label) for tenth in found.confidence if tenth.n]
    (first, most), (last, least) = filled[0], filled[-1]
    return f"{first} for the most certain ratings ({most}), {last} for the least certain ({least})."
