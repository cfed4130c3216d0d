"""Pictures of an evaluation: errors by how much was known, lists by length, and two models against each other."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tastespace.errors import MissingExtraError
from tastespace.evaluation.groups import Group
from tastespace.evaluation.metrics.binary import BY_USER
from tastespace.evaluation.report import Report
from tastespace.evaluation.significance import Comparison, Comparisons
from tastespace.evaluation.tables import display_name
from tastespace.report.demo_figure import ACCENT, GRID, INK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUST, SEA = "#b5562b", "#5b7f3a"
LOOKS = ((ACCENT, "o"), (RUST, "s"), (INK, "^"), (SEA, "D"), (PALE, "v"))  # one a model
# All that are ever written, so that those of an earlier run can be told from files of others.
FIGURES = (
    *("errors-by-users", "errors-by-items", "found-by-users", "found-by-items", "lists"),
    *("coverage", "pit", "confidence", "reliability", "differences"),
)
CURVES = ("ndcg", "recall", "precision")
SMALLER_IS_BETTER = ("rmse", "mae", "crps", "log_loss")
LARGER_IS_BETTER = ("precision", "recall", "hit_rate", "mrr", "map", "ndcg", "ndcg_binary", "auc")
SIGNIFICANT = 0.05
BETTER, WORSE, UNSURE = "better", "worse", "not sure"
# The same bytes every time: without these, names inside the file are drawn at random and the date is written.
STEADY: dict[Any, Any] = {"svg.hashsalt": "tastespace", "font.size": 10.0, "font.family": "DejaVu Sans"}


@dataclass(frozen=True)
class Picture:
    """One figure as SVG, with the words for those who do not see it."""

    name: str
    title: str
    alt: str
    svg: bytes


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
    told = f"Share of the relevant test ratings in lists of {measure.partition('@')[2]}"
    return _groups_picture(reports, side, looks, measure, told, f"found-by-{side}")


def _groups_picture(
    reports: Mapping[str, Report], side: str, looks: Mapping[str, int] | None, measure: str, told: str, file: str
) -> Picture:
    groups = {name: report.groups[side] for name, report in reports.items()}
    figure, (axes,) = new_figure(1, (9.2, 3.9))
    draw_groups(axes, groups, measure, looks)
    name_groups(axes, next(iter(groups.values())), side)
    axes.set_ylabel(display_name(measure), color=INK)
    title = f"{told} by the number of training ratings of the {side}"
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    add_legend(figure, axes, looks or groups)
    return Picture(file, title, f"{title}. {_describe_groups(groups, measure)}", as_svg(figure))


def lists_picture(reports: Mapping[str, Report]) -> Picture:
    """NDCG, recall and precision against the length of the lists."""
    made = next(report.lists for report in reports.values() if report.lists is not None)
    figure, panels = new_figure(len(CURVES), (10.2, 3.5))
    for axes, curve in zip(panels, CURVES, strict=True):
        for place, (name, report) in enumerate(reports.items()):
            names = [f"{curve}@{k}" for k in made.k if not math.isnan(report.ranking.get(f"{curve}@{k}", math.nan))]
            places = [made.k.index(int(entry.partition("@")[2])) for entry in names]
            values = [report.ranking[entry] for entry in names]
            draw_points(
                axes, places, values, [report.intervals.get(entry) for entry in names], place, name, joined=True
            )
        axes.set_title(display_name(curve), loc="left", color=INK)
        axes.set_xticks(range(len(made.k)), [str(k) for k in made.k])
        axes.set_xlim(-0.4, len(made.k) - 0.6)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("length of the list, k", color=INK)
    add_legend(figure, panels[0], reports)
    title = "NDCG, recall and precision by the length of the lists"
    return Picture("lists", title, f"{title}. {_describe_curves(reports, made.k)}", as_svg(figure))


def differences_picture(comparisons: Comparisons, first: str, second: str) -> Picture:
    """How much better or worse the first of two models is, measure by measure."""
    rows = _shown(comparisons)
    figure, (axes,) = new_figure(1, (9.2, 1.3 + 0.34 * max(len(rows), 1)))
    axes.axvline(0, color=INK, linewidth=1, zorder=1)
    for place, row in enumerate(rows):
        verdict, colour = _verdict(row)
        span = (row.interval.low, row.difference, row.interval.high)
        low, value, high = (100 * part / abs(row.second) for part in span)
        axes.hlines(place, low, high, color=colour, linewidth=2, zorder=2)
        axes.scatter(value, place, s=48, color=colour, facecolor=colour if verdict != UNSURE else "white", zorder=3)
        # On the side away from zero, so that no word is written across its line.
        end, offset, side = (low, -8, "right") if value < 0 else (high, 8, "left")
        where: dict[str, Any] = {"textcoords": "offset points", "va": "center", "ha": side}
        axes.annotate(verdict, (end, place), (offset, 0), color=INK, fontsize=9, **where)
    axes.set_yticks(range(len(rows)), [display_name(row.measure) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.12)  # room for a word on either side
    axes.grid(axis="x", color=GRID)
    axes.set_xlabel(f"{first} less {second}, in per cent of {second}, with 95 % interval", color=INK)
    axes.set_title(f"{first} against {second} (hollow: p ≥ {SIGNIFICANT:g})", loc="left", fontsize=11, color=INK)
    title = f"{first} against {second}, measure by measure"
    return Picture("differences", title, f"{title}. {_describe_differences(rows, first, second)}", as_svg(figure))


def require_plot() -> None:
    """Refuse early, before long work, if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("Drawing figures", "plot")


def new_figure(
    n_panels: int, size: tuple[float, float], widths: Sequence[float] | None = None
) -> tuple[Figure, Sequence[Axes]]:
    """An empty figure with panels side by side, in the looks of all our figures."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STEADY):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, n_panels, squeeze=False, width_ratios=widths)[0]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(PALE)
        axes.tick_params(length=0, labelcolor=INK)
        axes.grid(axis="y", color=GRID)
        axes.set_axisbelow(True)
    return figure, list(panels)


def draw_points(
    axes: Axes,
    places: Sequence[float],
    values: Sequence[float],
    intervals: Sequence[Any],
    look: int,
    label: str,
    *,
    joined: bool,
) -> None:
    """Dots with whiskers, in the colour and shape of a model."""
    colour, marker = LOOKS[look % len(LOOKS)]
    for place, interval in zip(places, intervals, strict=True):
        if interval is not None:
            axes.vlines(place, *interval, color=colour, linewidth=1.5, alpha=0.75)
    style = "-" if joined else "none"
    axes.plot(places, values, marker=marker, markersize=6, color=colour, linestyle=style, linewidth=1.3, label=label)


def draw_groups(
    axes: Axes, models: Mapping[str, Sequence[Group]], measure: str, looks: Mapping[str, int] | None = None
) -> None:
    """A measure of each group that is not empty, the models side by side; `looks` where not in their order."""
    for place, (name, groups) in enumerate(models.items()):
        filled = [x for x, group in enumerate(groups) if group.n]
        values = [groups[x].measures[measure] for x in filled]
        spans = [groups[x].intervals.get(measure) for x in filled]
        shift, look = (place - (len(models) - 1) / 2) * 0.18, place if looks is None else looks[name]
        draw_points(axes, [x + shift for x in filled], values, spans, look, name, joined=False)


def name_groups(axes: Axes, groups: Sequence[Group], side: str) -> None:
    """Below the axis: how many training ratings those of a group have, and how many test ratings there are."""
    axes.set_xticks(range(len(groups)), [f"{group.label}\n{_count(group)}" for group in groups], fontsize=9)
    for label, group in zip(axes.get_xticklabels(), groups, strict=True):
        label.set_color(INK if group.n else PALE)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_xlabel(f"training ratings of the {side[:-1]}; below, the number of test ratings", color=INK)


def add_legend(figure: Figure, axes: Axes, models: Mapping[str, Any]) -> None:
    """Which model is which, above everything, where it covers nothing; not needed for one alone."""
    if len(models) > 1:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(models), frameon=False, labelcolor=INK)


def as_svg(figure: Figure) -> bytes:
    """The bytes of the file, the same every time."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context(STEADY):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _count(group: Group) -> str:
    return f"{group.n:,}" if group.n else "none"


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
    if empty:
        sentences.append(f"No test ratings with {', '.join(empty)}.")
    return " ".join(sentences)


def _describe_curves(reports: Mapping[str, Report], ks: Sequence[int]) -> str:
    sentences = []
    for name, report in reports.items():
        parts = [
            f"{display_name(curve)} from {report.ranking[f'{curve}@{ks[0]}']:.3f} to "
            f"{report.ranking[f'{curve}@{ks[-1]}']:.3f}"
            for curve in CURVES
        ]
        sentences.append(f"{name}, from {ks[0]} to {ks[-1]} items: {', '.join(parts)}.")
    return " ".join(sentences)


def _describe_differences(rows: Sequence[Comparison], first: str, second: str) -> str:
    sentences = []
    for verdict, what in (
        (BETTER, f"{first} is better than {second} by"),
        (WORSE, f"{first} is worse than {second} by"),
        (UNSURE, "No sure difference by"),
    ):
        names = [display_name(row.measure) for row in rows if _verdict(row)[0] == verdict]
        if names:
            sentences.append(f"{what} {', '.join(names)}.")
    return " ".join(sentences)
