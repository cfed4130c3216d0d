"""Figures of what is learned beside factors: their number, precisions, curves of ratings, and clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.data.kinds import level_names
from tastespace.evaluation.resampling import counted
from tastespace.models.composed.co_clusters import ClusteredSide, CoClusters
from tastespace.models.factorization.monotone.monotone import CurveList
from tastespace.report import plotting as plot
from tastespace.report.plotting import ACCENT, GRID, LOOKS, PALE, Picture
from tastespace.selection.select_rank import RankChoice, RankChoices

if TYPE_CHECKING:
    from tastespace.models.factorization.empirical_bayes.posterior import Learning


def write_ranks(choices: RankChoices, folder: str | Path) -> list[Path]:
    """Write loss.svg and posterior.svg to a folder, if methods have them; returns the paths. Needs the extra `plot`."""
    return plot.write_pictures(plot.prepare_folder(folder), pictures(choices))


def pictures(choices: RankChoices) -> list[Picture]:
    """All figures for which there are values."""
    made = [loss_picture(choices), posterior_picture(choices)]
    return [picture for picture in made if picture is not None]


def loss_picture(choices: RankChoices) -> Picture | None:
    """Loss and rank against steps; the part with counted draws is a solid line."""
    traced = [choice for choice in choices if choice.trace is not None]
    if not traced:
        return None
    figure, (left, right) = plot.new_figure(2, (11.0, 4.2))
    words = []
    for choice in traced:
        trace, look = choice.trace, _look(choices, choice)
        assert trace is not None
        for axes, values in ((left, trace.loss), (right, trace.rank)):
            _draw_way(axes, values, slice(trace.first, trace.last), look, choice.method)
        end = float(np.mean(trace.loss[trace.first : trace.last]))
        words.append(f"{choice.method}: from {trace.loss[0]:.3f} to {end:.3f} where draws count")
    for axes, name in ((left, "loss per rating"), (right, "factors")):
        axes.set(xlabel="step (dashed: cooling, tuning and warm-up, and cooling on)", ylabel=name)
    right.set_ylim(bottom=0)
    plot.add_legend(figure, left, [choice.method for choice in traced])
    title = "Loss and number of factors, step by step"
    return Picture.of(figure, "loss", title, f". {'; '.join(words)}.")


def posterior_picture(choices: RankChoices) -> Picture | None:
    """The posterior probability of each rank, by method; None where no method has a posterior."""
    sure = [choice for choice in choices if choice.posterior is not None]
    if not sure:
        return None
    figure, (axes,) = plot.new_figure(1, (7.0, 4.0))
    width = 0.8 / len(sure)
    words = []
    for place, choice in enumerate(sure):
        assert choice.posterior is not None
        ranks = np.array(sorted(choice.posterior))
        shares = [choice.posterior[int(rank)] for rank in ranks]
        shift = (place - (len(sure) - 1) / 2) * width
        axes.bar(ranks + shift, shares, width, color=plot.colour_of(_look(choices, choice)), label=choice.method)
        words.append(f"{choice.method}: {choice.rank} with probability {choice.probability:.2f}")
    axes.set(xlabel="factors", ylabel="posterior probability", ylim=(0, 1.02))
    axes.set_xticks(_ticks([rank for choice in sure for rank in choice.posterior or ()]))
    plot.add_legend(figure, axes, [choice.method for choice in sure])
    title = "Posterior over the number of factors"
    return Picture.of(figure, "posterior", title, f". {'; '.join(words)}.")


def _look(choices: RankChoices, choice: RankChoice) -> int:
    """The same in both pictures."""
    return choices.entries.index(choice)


def _draw_way(axes: plot.Axes, values: DoubleArray, counted: slice, look: int, label: str) -> None:
    """The part that counts as a solid line; before and after it dashed, with a mark where it begins."""
    colour, steps = plot.colour_of(look), np.arange(len(values))
    axes.plot(steps, values, color=colour, linewidth=1.0, linestyle=(0, (3, 2)), alpha=0.7)
    axes.plot(steps[counted], values[counted], color=colour, linewidth=1.8, label=label)
    if counted.start:
        axes.axvline(counted.start, color=GRID, linewidth=1.0, zorder=0)


def _ticks(ranks: Sequence[int]) -> list[int]:
    """Integer ticks with a margin of one, so that a single bar does not fill the axis."""
    low, high = max(min(ranks) - 1, 0), max(ranks) + 1
    step = max(1, (high - low) // 12)
    return list(range(low, high + 1, step))


def write_learning(learning: Learning, folder: str | Path) -> list[Path]:
    """Write learning.svg to a folder; returns its path. Needs the extra `plot`."""
    return plot.write_pictures(plot.prepare_folder(folder), [learning_picture(learning)])


def learning_picture(learning: Learning) -> Picture:
    """One panel per strength, on a logarithmic scale: the rows of `Learning.table`."""
    final, series = learning.final(), learning.series()
    figure, panels = plot.panel_grid(len(series))
    steps = np.arange(1, len(learning.path) + 1)
    for axes, (name, values) in zip(panels, series.items(), strict=True):
        axes.axhline(final[name], color=PALE, linewidth=1.2, linestyle="--")
        axes.plot(steps, values, color=ACCENT, linewidth=1.4)
        axes.set_yscale("log")
        plot.set_title(axes, f"{name}: {final[name]:.3g}", 10, x="step (dashed: what was learned)")
    title = "How the regularization was learned"
    said = ", ".join(f"{name} from {values[0]:.3g} to {final[name]:.3g}" for name, values in series.items())
    return Picture.of(figure, "learning", title, f", as strengths of ALS, in {len(steps)} steps: {said}.")


MAX_NAMED = 11  # levels that are all labelled below the axis


def write_curves(curves: CurveList, path: str | Path) -> Path:
    """Draw curves (`MonotoneMF.curves`) as .png, .svg or .pdf. Needs the extra `plot`."""
    plot.check_figure(path)
    return plot.save_figure(curves_figure(curves), path)


def curves_figure(curves: CurveList) -> plot.Figure:
    """On the left the value of each rating on each curve, on the right the frequency of each level."""
    figure, (left, right) = plot.new_figure(2, (10.4, 4.4))
    ends = [curves.levels[0], curves.levels[-1]]
    left.plot(ends, ends, color=PALE, linestyle="--", linewidth=1, zorder=1)
    shares = curves.ratings / np.maximum(curves.ratings.sum(axis=1, keepdims=True), 1)
    for place, name in enumerate(_names(curves)):
        colour, marker = LOOKS[place % len(LOOKS)]
        marker = marker if len(curves.levels) <= MAX_NAMED else ""
        left.plot(curves.levels, curves.values[place], color=colour, marker=marker, markersize=5, label=name)
        right.plot(curves.levels, 100 * shares[place], color=colour, marker=marker, markersize=5)
    for axes, label, title in (
        (left, "value on the curve (dashed: identity)", "How ratings are understood"),
        (right, "per cent of the ratings", "Who rates in extremes"),
    ):
        plot.set_title(axes, title, x="rating", y=label)
        if len(curves.levels) <= MAX_NAMED:
            axes.set_xticks(curves.levels, level_names(curves.levels))
    right.set_ylim(bottom=0)
    plot.add_legend(figure, left, dict.fromkeys(_names(curves)))
    return figure


def _names(curves: CurveList) -> list[str]:
    if curves.side == "user":
        return [f"user {name}" for name in curves.ids]
    extremes = [f"{100 * share:.0f} % extremes" for share in curves.extremes]
    return [f"{counted(n, 'user')}, {extreme}" for n, extreme in zip(curves.n_users, extremes, strict=True)]


def write_co_clusters(model: CoClusters, folder: str | Path) -> list[Path]:
    """Draw the clusters of users and of items to users.svg and items.svg. Needs the extra `plot`."""
    found = model.clusters_
    return plot.write_pictures(plot.prepare_folder(folder), [cluster_picture(side, found[side]) for side in found])


MOST_POINTS = 2000  # of a side, evenly chosen


def cluster_picture(name: str, side: ClusteredSide) -> Picture:
    """The principal components of one side in three dimensions, coloured by cluster."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.6), layout="constrained")
    axes: Any = figure.add_subplot(projection="3d")
    shown = np.unique(np.linspace(0, len(side.points) - 1, MOST_POINTS).astype(np.int64))
    components = np.zeros((len(shown), 3))
    components[:, : side.points.shape[1]] = side.points[shown]
    colours = mpl.colormaps["tab20"](side.cells[shown] % 20)
    axes.scatter(*components.T, c=colours, s=6, linewidths=0, depthshade=False)
    axes.set(xlabel="component 1", ylabel="component 2", zlabel="component 3")
    axes.set_title(f"{name.capitalize()} in {counted(side.n_clusters, 'cluster')}", loc="left", fontsize=11)
    smallest, largest = (counted(int(size), name[:-1]) for size in np.sort(np.bincount(side.cells))[[0, -1]])
    words = f"the smallest of {smallest}, the largest of {largest}"
    return Picture.of(figure, name, f"{name.capitalize()} in {counted(side.n_clusters, 'cluster')}", f": {words}.")
