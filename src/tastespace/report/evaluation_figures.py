"""Pictures of an evaluation: errors by how much was known, lists by length, and two models against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tastespace.evaluation.groups import Group
from tastespace.evaluation.metrics.binary import BY_USER
from tastespace.evaluation.report import Report
from tastespace.evaluation.significance import Comparison, Comparisons
from tastespace.evaluation.tables import display_name
from tastespace.report import plotting as plot
from tastespace.report.plotting import ACCENT, GRID, INK, PALE, RUST, Picture

CURVES = ("ndcg", "recall", "precision")
SMALLER_IS_BETTER = ("rmse", "mae", "crps", "log_loss")
LARGER_IS_BETTER = ("precision", "recall", "hit_rate", "mrr", "map", "ndcg", "ndcg_binary", "auc")
SIGNIFICANT = 0.05
BETTER, WORSE, UNSURE = "better", "worse", "not sure"


def errors_picture(reports: Mapping[str, Report], side: str, looks: Mapping[str, int] | None = None) -> Picture:
    """The error of each model by the number of training ratings of the users, or of the items.

    `looks` says of all models of a page which colour and shape each has; without it, these are all.
    """
    measure = next(iter(reports.values())).group_measures[0]
    return _groups_picture(reports, side, looks, measure, display_name(measure), f"errors-by-{side}")


def found_picture(reports: Mapping[str, Report], side: str, looks: Mapping[str, int] | None = None) -> Picture:
    """The share of choices that the lists of each model hold, by the number of training ratings."""
    names = next(iter(reports.values())).group_measures
    measure = names[(len(names) - 1) // 2]
    what = f"Share of the relevant test ratings in lists of {measure.partition('@')[2]}"
    return _groups_picture(reports, side, looks, measure, what, f"found-by-{side}")


def _groups_picture(
    reports: Mapping[str, Report], side: str, looks: Mapping[str, int] | None, measure: str, what: str, name: str
) -> Picture:
    groups = {name: report.groups[side] for name, report in reports.items()}
    figure, (axes,) = plot.new_figure(1, (9.2, 3.9))
    plot.draw_groups(axes, groups, measure, looks)
    plot.name_groups(axes, next(iter(groups.values())), side)
    title = f"{what} by the number of training ratings of the {side}"
    plot.set_title(axes, title, y=display_name(measure))
    plot.add_legend(figure, axes, looks or groups)
    return Picture.of(figure, name, title, f". {_describe_groups(groups, measure)}")


def lists_picture(reports: Mapping[str, Report]) -> Picture:
    """NDCG, recall and precision against the length of the lists."""
    ks = next(report.lists.k for report in reports.values() if report.lists is not None)
    figure, panels = plot.new_figure(len(CURVES), (10.2, 3.5))
    for axes, curve in zip(panels, CURVES, strict=True):
        for place, (name, report) in enumerate(reports.items()):
            there = [at for at, k in enumerate(ks) if not math.isnan(report.ranking.get(f"{curve}@{k}", math.nan))]
            names = [f"{curve}@{ks[at]}" for at in there]
            spans = [report.intervals.get(entry) for entry in names]
            plot.draw_points(axes, there, [report.ranking[entry] for entry in names], spans, place, name)
        axes.set_title(display_name(curve), loc="left", color=INK)
        axes.set_xticks(range(len(ks)), [str(k) for k in ks])
        axes.set(xlim=(-0.4, len(ks) - 0.6), xlabel="length of the list, k")
        axes.set_ylim(bottom=0)
    plot.add_legend(figure, panels[0], reports)
    title = "NDCG, recall and precision by the length of the lists"
    return Picture.of(figure, "lists", title, f". {_describe_curves(reports, ks)}")


def differences_picture(comparisons: Comparisons, first: str, second: str) -> Picture:
    """How much better or worse the first of two models is, measure by measure."""
    rows = _shown(comparisons)
    figure, (axes,) = plot.new_figure(1, (9.2, 1.3 + 0.34 * max(len(rows), 1)))
    axes.axvline(0, color=INK, linewidth=1, zorder=1)
    for place, row in enumerate(rows):
        verdict, colour = _verdict(row)
        span = (row.interval.low, row.difference, row.interval.high)
        low, value, high = (100 * part / abs(row.second) for part in span)
        axes.hlines(place, low, high, color=colour, linewidth=2, zorder=2)
        axes.scatter(value, place, s=48, color=colour, facecolor=colour if verdict != UNSURE else "white", zorder=3)
        # On the side away from zero, so that no word is written across its line.
        end, offset, side = (low, -8, "right") if value < 0 else (high, 8, "left")
        plot.write_note(axes, verdict, (end, place), (offset, 0), fontsize=9, va="center", ha=side)
    axes.set_yticks(range(len(rows)), [display_name(row.measure) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.12)  # room for a word on either side
    axes.grid(axis="x", color=GRID)
    difference = f"{first} less {second}, in per cent of {second}, with 95 % interval"
    plot.set_title(axes, f"{first} against {second} (hollow: p ≥ {SIGNIFICANT:g})", x=difference)
    title = f"{first} against {second}, measure by measure"
    return Picture.of(figure, "differences", title, f". {_describe_differences(rows, first, second)}")


def _shown(comparisons: Comparisons) -> list[Comparison]:
    """Measures that say which model is better, lists at one length only, the one in the middle."""
    ks = sorted({int(row.measure.partition("@")[2]) for row in comparisons if "@" in row.measure})
    k = ks[(len(ks) - 1) // 2] if ks else 0
    wanted = [*SMALLER_IS_BETTER, "log_score", BY_USER, *(f"{name}@{k}" for name in LARGER_IS_BETTER), "auc"]
    return [row for name in wanted for row in comparisons if row.measure == name and row.second]


def _verdict(row: Comparison) -> tuple[str, str]:
    """What a difference says about the first model, and its colour."""
    if row.p_value >= SIGNIFICANT:
        return UNSURE, PALE
    is_better = (row.difference < 0) == (row.measure in SMALLER_IS_BETTER)
    return (BETTER, ACCENT) if is_better else (WORSE, RUST)


def _describe_groups(models: Mapping[str, tuple[Group, ...]], measure: str) -> str:
    """What is to be seen, in words: both ends of each model, and what is empty."""
    sentences = []
    for name, groups in models.items():
        filled = [group for group in groups if group.n]
        most, least = (pick(filled, key=lambda group: group.measures[measure]) for pick in (max, min))
        sentences.append(
            f"{name}: largest with {most.label} training ratings ({most.measures[measure]:.3f}), smallest with "
            f"{least.label} ({least.measures[measure]:.3f})."
        )
    empty = [group.label for group in next(iter(models.values())) if not group.n]
    return " ".join([*sentences, *([f"No test ratings with {', '.join(empty)}."] if empty else [])])


def _describe_curves(reports: Mapping[str, Report], ks: Sequence[int]) -> str:
    sentences = []
    for name, report in reports.items():
        ends = {curve: [report.ranking[f"{curve}@{k}"] for k in (ks[0], ks[-1])] for curve in CURVES}
        parts = [f"{display_name(curve)} from {first:.3f} to {last:.3f}" for curve, (first, last) in ends.items()]
        sentences.append(f"{name}, from {ks[0]} to {ks[-1]} items: {', '.join(parts)}.")
    return " ".join(sentences)


def _describe_differences(rows: Sequence[Comparison], first: str, second: str) -> str:
    sentences = {
        BETTER: f"{first} is better than {second} by",
        WORSE: f"{first} is worse than {second} by",
        UNSURE: "No sure difference by",
    }
    names = {name: [display_name(row.measure) for row in rows if _verdict(row)[0] == name] for name in sentences}
    return " ".join(f"{what} {', '.join(names[verdict])}." for verdict, what in sentences.items() if names[verdict])
