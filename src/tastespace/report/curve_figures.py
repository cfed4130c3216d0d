"""The picture of curves: how each cluster of users rates, and who rates in extremes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tastespace.data.levels import level_names
from tastespace.models.factorization.monotone.curve_list import CurveList
from tastespace.report.demo_figure import INK, PALE
from tastespace.report.evaluation_figures import LOOKS, add_legend, new_figure
from tastespace.report.retrieval_figures import check_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMED = 11  # levels that are all named below the axis


def write_curves(curves: CurveList, path: str | Path) -> Path:
    """Draw curves (`MonotoneMF.curves`) as .png, .svg or .pdf. Needs the extra `plot`."""
    check_figure(path)
    return save_figure(curves_figure(curves), path)


def curves_figure(curves: CurveList) -> Figure:
    """On the left what a rating is on each curve, on the right how often each level is given."""
    figure, (left, right) = new_figure(2, (10.4, 4.4))
    ends = [curves.levels[0], curves.levels[-1]]
    left.plot(ends, ends, color=PALE, linestyle="--", linewidth=1, zorder=1)
    shares = curves.ratings / np.maximum(curves.ratings.sum(axis=1, keepdims=True), 1)
    for place, name in enumerate(_names(curves)):
        colour, marker = LOOKS[place % len(LOOKS)]
        marker = marker if len(curves.levels) <= MOST_NAMED else ""
        left.plot(curves.levels, curves.values[place], color=colour, marker=marker, markersize=5, label=name)
        right.plot(curves.levels, 100 * shares[place], color=colour, marker=marker, markersize=5)
    for axes, label, title in (
        (left, "value on the curve (dashed: as it is)", "How ratings are understood"),
        (right, "per cent of the ratings", "Who rates in extremes"),
    ):
        _name_levels(axes, curves)
        axes.set_ylabel(label, color=INK)
        axes.set_title(title, loc="left", fontsize=11, color=INK)
    right.set_ylim(bottom=0)
    add_legend(figure, left, dict.fromkeys(_names(curves)))
    return figure


def _names(curves: CurveList) -> list[str]:
    if curves.side == "user":
        return [f"user {name}" for name in curves.ids]
    extremes = [f"{100 * share:.0f} % extremes" for share in curves.extremes]
    return [
        f"{n:,} user{'s' if n != 1 else ''}, {extreme}" for n, extreme in zip(curves.n_users, extremes, strict=True)
    ]


def _name_levels(axes: Axes, curves: CurveList) -> None:
    axes.set_xlabel("rating", color=INK)
    if len(curves.levels) <= MOST_NAMED:
        axes.set_xticks(curves.levels, level_names(curves.levels))
