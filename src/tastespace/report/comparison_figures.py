"""Figures of a comparison of models: errors by sweeps and seconds, by groups of users, against the cost; lists."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.evaluation.groups import Group
from tastespace.evaluation.resampling import Interval, display_name
from tastespace.report import plotting as plot
from tastespace.report.plotting import INK, PALE, Look, Picture
from tastespace.selection.comparison import DECISIVE, Entry, ModelComparison
from tastespace.selection.trials import Moment

# Distinguishable without colour vision: shapes differ as well, and every line has its name at its end.
COLOURS = ("#0f7b8a", "#b5562b", INK, "#5b7f3a", "#8a4f9e", "#a87b00", "#2f74c0", "#77858e")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
CONTENT = "comparison.json"
FIGURES = ("learning", "groups", "cost", "lists")  # all that may be written
QUICKEST = 1e-3  # seconds: faster fits are drawn here
GAP = 0.062  # between two names, as a share of the height
SHOWN = 0.95  # share of the values reported during a fit that is within the axis
FAR = 3.0  # a model farther from the best than this many times the distance of the middle one is off the scale


@dataclass(frozen=True)
class Named:
    """A point labelled beside the panel."""

    name: str
    x: float
    y: float
    look: Look


def write_comparison(
    comparison: ModelComparison, folder: str | Path, content: Mapping[str, Any] | None = None
) -> list[Path]:
    """Write figures (SVG) and comparison.json, which has all that they show, to a folder; returns their paths.

    `content` is the content of the file, by default `comparison.to_dict()`. A figure that an earlier comparison left
    there is removed if this one has nothing to show for it. Needs the extra `plot`.
    """
    folder = plot.prepare_folder(folder)
    text = json.dumps(comparison.to_dict() if content is None else content, indent=1, allow_nan=False)
    return plot.write_pictures(folder, pictures(comparison), with_file=(CONTENT, f"{text}\n"), all_names=FIGURES)


def pictures(comparison: ModelComparison) -> list[Picture]:
    """All figures for which there are values."""
    draw = (learning_picture, groups_picture, cost_picture, lists_picture)
    return [picture for picture in (each(comparison) for each in draw) if picture is not None]


def learning_picture(comparison: ModelComparison) -> Picture | None:
    """The error on held-out ratings by sweeps, and by seconds; None where no model predicts ratings."""
    entries = [entry for entry in comparison.ranked if entry.trace]
    if not entries:
        return None
    looks, limits = _looks(comparison), _learning_limits(entries)
    far = [entry for entry in entries if entry.trace[-1].rmse > limits[1]]
    entries = [entry for entry in entries if entry not in far]
    figure, (left, right) = plot.new_figure(2, (12.4, 4.8))
    stepping = [entry for entry in entries if entry.trace[-1].step is not None]
    for axes, shown in ((left, stepping), (right, entries)):
        names = [_draw_trace(axes, entry, looks[entry.model], in_seconds=axes is right) for entry in shown]
        axes.set_ylim(*limits)
        _name_ends(axes, names)
    left.set_xlim(left=0)
    plot.set_title(left, "By sweeps", x="sweeps or epochs", y="RMSE on held-out ratings")
    _in_seconds(right)
    plot.set_title(right, "By seconds")
    _tell_outside(right, [Named(entry.model, 0, entry.trace[-1].rmse, looks[entry.model]) for entry in far])
    title = "RMSE on held-out ratings of known users and items while models are fitted"
    return Picture.of(figure, "learning", title, _describe_learning(entries, limits))


def groups_picture(comparison: ModelComparison) -> Picture | None:
    """The measure of each model by the number of training ratings of the users."""
    measure = comparison.group_measure
    every = {
        entry.model: entry.groups
        for entry in comparison.ranked
        if any(measure in group.measures for group in entry.groups)
    }
    if not every:
        return None
    looks, far = _looks(comparison), _far(comparison, every)
    groups = {model: found for model, found in every.items() if model not in far}
    figure, (axes,) = plot.new_figure(1, (10.4, 4.6))
    names = []
    for model, found in groups.items():
        filled = [place for place, group in enumerate(found) if group.n]
        values = [found[place].measures[measure] for place in filled]
        axes.plot(filled, values, **looks[model].line | looks[model].point)
        names.append(Named(model, filled[-1], values[-1], looks[model]))
    shown = [group.measures[measure] for found in groups.values() for group in found if group.n]
    is_error = measure in DECISIVE
    low, high = _padded(min(shown), max(shown))
    axes.set_ylim(low if is_error else 0.0, high)
    any_groups = next(iter(groups.values()))
    plot.name_groups(axes, any_groups, "users")
    axes.set_xlim(next(place for place, group in enumerate(any_groups) if group.n) - 0.4, names[0].x + 0.2)
    _name_ends(axes, names)
    title = f"{comparison.group_title} by the number of training ratings of the users"
    plot.set_title(axes, title, y=display_name(measure) if is_error else "share")
    _tell_outside(axes, [Named(model, 0, value, looks[model]) for model, value in far.items()])
    return Picture.of(figure, "groups", title, _describe_groups(every, measure))


def cost_picture(comparison: ModelComparison) -> Picture | None:
    """The measure of each model against the seconds of its fit, with a line along the Pareto front."""
    measure, smaller = comparison.measure, comparison.measure in DECISIVE
    looks = _looks(comparison)
    named = [
        Named(entry.model, max(entry.cost.seconds, QUICKEST), value, looks[entry.model])
        for entry in comparison.ranked
        if entry.cost is not None and (value := entry.value(measure)) is not None and not math.isnan(value)
    ]
    if not named:
        return None
    low, high = _limits([point.y for point in named], smaller=smaller)
    near = [point for point in named if low <= point.y <= high]
    figure, (axes,) = plot.new_figure(1, (9.2, 4.8))
    # Models that no faster model equals, from the fastest on.
    best = plot.frontier(near, lambda one: (one.x, one.y), lambda one, other: (one.y < other.y) == smaller)
    line: dict[str, Any] = {"color": PALE, "linewidth": 6, "alpha": 0.35, "drawstyle": "steps-post", "zorder": 1}
    axes.plot([point.x for point in best], [point.y for point in best], **line)
    _draw_points(axes, near, comparison, measure)
    axes.set_ylim(low, high)
    _in_seconds(axes)
    _name_ends(axes, near)
    _tell_outside(axes, [point for point in named if point not in near])
    name, better = display_name(measure), "lower" if smaller else "higher"
    whiskers = f"{name}; whiskers: 95 % of the difference to the best"
    plot.set_title(axes, f"{name} against cost ({better} is better)", y=whiskers)
    title = f"{name} of each model against the seconds of its fit"
    words = ", ".join(f"{point.name} {point.y:.4f} in {point.x:.3g} s" for point in named)
    return Picture.of(figure, "cost", title, f", the best first: {words}.")


def lists_picture(comparison: ModelComparison) -> Picture | None:
    """The quality of the lists of each model against their coverage of the catalogue; None without lists."""
    ndcg, coverage = f"ndcg@{comparison.k}", f"coverage@{comparison.k}"
    looks = _looks(comparison)
    values = {entry.model: (entry.value(coverage), entry.value(ndcg)) for entry in comparison.ranked}
    named = [
        Named(model, x, y, looks[model])
        for model, (x, y) in values.items()
        if x is not None and y is not None and not math.isnan(y)
    ]
    if not named:
        return None
    figure, (axes,) = plot.new_figure(1, (9.2, 4.8))
    _draw_points(axes, named, comparison, ndcg)
    axes.set_ylim(0, _padded(0, max(point.y for point in named))[1])
    axes.set_xlabel(f"coverage: the share of the catalogue in lists of {comparison.k}")
    _name_ends(axes, named)
    name = display_name(ndcg)
    whiskers = f"{name}; whiskers: 95 % of the difference to the best"
    plot.set_title(axes, "Lists: how good, and of how much of the catalogue", y=whiskers)
    title = f"{name} of each model against the share of the catalogue that lists hold"
    said = "".join(f" {verdict}." for verdict in comparison.verdicts if verdict.purpose == "lists")
    words = ", ".join(f"{point.name} {point.y:.4f} with {point.x:.1%}" for point in named)
    return Picture.of(figure, "lists", title, f": {words}.{said}")


def _draw_points(axes: plot.Axes, points: Sequence[Named], comparison: ModelComparison, measure: str) -> None:
    """One point per model, with whiskers for its difference to the best."""
    for point in points:
        span = _span(comparison[point.name], measure, point.y)
        if span is not None:
            axes.vlines(point.x, *span, color=point.look.colour, linewidth=1.5, alpha=0.75)
        axes.plot([point.x], [point.y], linestyle="none", zorder=3, **point.look.point)
    axes.margins(x=0.08)


def _draw_trace(axes: plot.Axes, entry: Entry, look: Look, *, in_seconds: bool) -> Named:
    """A line through the values reported during the fit, and a labelled point at its end."""
    end = entry.trace[-1]
    xs = [max(moment.seconds, QUICKEST) if in_seconds else moment.step or 1 for moment in entry.trace]
    axes.plot(xs, [moment.rmse for moment in entry.trace], **look.line)
    axes.plot(xs[-1:], [end.rmse], linestyle="none", zorder=3, **look.point)
    return Named(entry.model, xs[-1], end.rmse, look)


def _in_seconds(axes: plot.Axes) -> None:
    """A logarithmic axis of seconds, from milliseconds to hours."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    axes.set_xlabel("seconds of fitting (log scale)")


def _name_ends(axes: plot.Axes, points: Sequence[Named]) -> None:
    """Names in a column at the right, each with a thin line to its point."""
    low, high = axes.get_ylim()
    ordered = sorted(points, key=lambda point: point.y)
    heights = _spread([(point.y - low) / (high - low) for point in ordered])
    for point, height in zip(ordered, heights, strict=True):
        colour = point.look.colour
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.7, "linestyle": ":", "alpha": 0.8, "shrinkA": 1}
        line["relpos"] = (0, 0.5)  # It ends before its name, and crosses no other.
        text, at, beside = f"{point.name} {point.y:.3f}", (point.x, point.y), (1.03, height)
        where: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "annotation_clip": False}
        axes.annotate(text, at, beside, color=colour, fontsize=9, arrowprops=line, **where)


def _tell_outside(axes: plot.Axes, points: Sequence[Named]) -> None:
    """Below the panel, where no line runs: models that are too far away to be shown."""
    if points:
        names = ", ".join(f"{point.name} {point.y:.3f}" for point in points)
        axes.set_xlabel(f"{axes.get_xlabel()}\noff the scale: {names}")


def _spread(heights: Sequence[float]) -> list[float]:
    """Ascending heights moved as little as possible to keep them apart, within the panel where there is room."""
    from scipy.optimize import isotonic_regression

    if not heights:
        return []
    # After subtracting the gaps, heights must only be non-decreasing: those that decrease share their mean.
    gaps, most = GAP * np.arange(len(heights)), 1 - (len(heights) - 1) * GAP
    together = np.clip(isotonic_regression(heights - gaps).x, min(0.0, most), most)
    return [float(height) for height in together + gaps]


def _looks(comparison: ModelComparison) -> dict[str, Look]:
    """One style per model, the best first: they get the colours that are easiest to distinguish."""
    n = len(COLOURS)
    return {
        entry.model: Look(COLOURS[place % n], MARKERS[place % n], is_hollow=place // n % 2 == 1)
        for place, entry in enumerate(comparison.ranked)
    }


def _limits(values: Sequence[float], *, smaller: bool) -> tuple[float, float]:
    """The limits of the axis, without models so far worse that they would compress the others."""
    ordered = sorted(values, reverse=not smaller)
    reach = FAR * abs(ordered[len(ordered) // 2] - ordered[0])
    near = [value for value in ordered if abs(value - ordered[0]) <= reach] if reach > 0 else ordered
    return _padded(min(near), max(near))


def _far(comparison: ModelComparison, models: Iterable[str]) -> dict[str, float]:
    """The models that are far worse than the others, with their measure."""
    found = {model: comparison[model].value(comparison.measure) for model in models}
    values = {model: value for model, value in found.items() if value is not None and not math.isnan(value)}
    if not values:
        return {}
    low, high = _limits(list(values.values()), smaller=comparison.measure in DECISIVE)
    return {model: value for model, value in values.items() if not low <= value <= high}


def _learning_limits(entries: Sequence[Entry]) -> tuple[float, float]:
    """The limits of the axis: where fits ended, and most of what was before, without bad initial values."""
    low, high = _limits([entry.trace[-1].rmse for entry in entries], smaller=True)
    way = sorted(moment.rmse for entry in entries if len(entry.trace) > 2 for moment in entry.trace)
    return (low, max(high, way[int(SHOWN * len(way))])) if way else (low, high)


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.08 * (high - low) or 0.05 * abs(high) or 0.1
    return low - room, high + room


def _span(entry: Entry, measure: str, value: float) -> Interval | None:
    """The values at the bounds of the interval of a model's difference to the best; None for the best."""
    behind = entry.behind.get(measure)
    if behind is None or behind.interval is None or not behind.difference:
        return None
    sign = 1 if measure in DECISIVE else -1
    return Interval(*(value + sign * (end - behind.difference) for end in behind.interval))


def _describe_learning(entries: Sequence[Entry], limits: tuple[float, float]) -> str:
    def words(trace: Sequence[Moment]) -> str:
        first, last = trace[0], trace[-1]
        way = f"from {first.rmse:.3f} " if len(trace) > 1 else ""
        steps = "" if last.step is None else f"{last.step} sweeps, "
        return f"{way}to {last.rmse:.4f} ({steps}{last.seconds:.3g} s)."

    traces = {entry.model: entry.trace for entry in entries}
    return f". {plot.describe(traces, words)} Values above {limits[1]:.3f} are cut off."


def _describe_groups(groups: Mapping[str, Sequence[Group]], measure: str) -> str:
    def words(found: Sequence[Group]) -> str:
        filled = [f"{group.measures[measure]:.3f} with {group.label}" for group in found if group.n]
        return f"{filled[0]} and {filled[-1]} training ratings."

    return f". {plot.describe(groups, words)}"
