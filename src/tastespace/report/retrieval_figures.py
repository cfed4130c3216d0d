"""The figure of a tuned index: speed-up against accuracy, by structure, and the worst suggestions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.index.trials import Trial
from tastespace.index.tuner import EXACT, REDUCED, Tuned
from tastespace.report import plotting as plot
from tastespace.report.plotting import GRID, INK, LOOKS, PALE, RUST

MAX_BARS = 40


def write_retrieval(tuned: Tuned, path: str | Path) -> Path:
    """Draw the trials and the choice of the tuner, as .png, .svg or .pdf. Needs the extra `plot`."""
    plot.check_figure(path)
    return plot.save_figure(retrieval_figure(tuned), path)


def retrieval_figure(tuned: Tuned) -> plot.Figure:
    """Speed-up against accuracy, and against acceptance; and the positions of the worst suggestions of the choice."""
    figure, (left, middle, right) = plot.new_figure(3, (14.0, 4.6))
    target = tuned.target
    _draw_curves(left, tuned, lambda trial: trial.accuracy, target.accuracy)
    accuracy = f"accuracy: share of the true best {target.k} that is found"
    plot.set_title(left, "Speed-up against accuracy", x=accuracy, y="times as fast as numpy's scan")
    _draw_curves(middle, tuned, lambda trial: trial.acceptance, target.acceptance)
    acceptance = f"acceptance: share of lists within the true best {target.n_th}"
    plot.set_title(middle, "Speed-up against acceptance", x=acceptance)
    _draw_worst(right, tuned)
    plot.legend_above(figure, plot.named_handles(left, middle), 8)
    return figure


def _draw_curves(axes: plot.Axes, tuned: Tuned, measure: Callable[[Trial], float], least: float | None) -> None:
    """One dot per trial, and a line through the best of each structure."""
    axes.axhline(1, color=PALE, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    if least is not None:
        axes.axvline(least, color=RUST, linewidth=1, linestyle=(0, (4, 3)), zorder=1, label="target")
    for structure in dict.fromkeys(trial.structure for trial in tuned.trials):
        trials = [trial for trial in tuned.trials if trial.structure == structure]
        look = _look(structure)
        # The Pareto front of the structure, from the fastest on.
        best = plot.frontier(
            trials, lambda one: (-one.speedup, -measure(one)), lambda one, other: measure(one) > measure(other)
        )
        style = look.line | look.point | {"markersize": 6}
        places, speeds = [measure(trial) for trial in trials], [trial.speedup for trial in trials]
        axes.scatter(places, speeds, s=10, color=look.colour, alpha=0.35, linewidth=0, zorder=2)
        axes.plot([measure(trial) for trial in best], [trial.speedup for trial in best], **style, label=structure)
    chosen = tuned.chosen
    at, name = (measure(chosen), chosen.speedup), f"chosen, on held-out queries: {chosen.structure}"
    star: dict[str, Any] = {"marker": "*", "markersize": 20, "color": INK, "markeredgecolor": "white"}
    axes.plot(at[:1], at[1:], **star, linestyle="none", zorder=6, label=name)
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    plot.write_note(axes, f"{at[1]:.1f}× at {at[0]:.3f}", at, (-12, -24), ha="right", bbox=box, zorder=7)
    plot.write_note(axes, "numpy's scan", (0, 1), (3, 3), xycoords=axes.get_yaxis_transform(), fontsize=9)
    _scale(axes, [trial.speedup for trial in (*tuned.trials, chosen)])


def _scale(axes: plot.Axes, speedups: Sequence[float]) -> None:
    """A logarithmic axis of ratios, with powers of two."""
    axes.set_yscale("log", base=2)
    low, high = min(0.9, *speedups), max(2.0, *speedups)
    powers = range(int(np.ceil(np.log2(low / 1.15))), int(np.floor(np.log2(high * 1.4))) + 1)
    axes.set_yticks([2.0**power for power in powers], [f"{2.0**power:g}×" for power in powers], minor=False)
    axes.set_yticks([], minor=True)
    axes.set_ylim(low / 1.15, high * 1.4)
    axes.grid(axis="x", color=GRID)
    axes.margins(x=0.06)


def _draw_worst(axes: plot.Axes, tuned: Tuned) -> None:
    """The histogram of the positions of the worst suggestions of lists."""
    worst, k, n_th = tuned.worst_positions, tuned.target.k, tuned.target.n_th
    low, high = min(k, int(worst.min())), int(worst.max())
    width = max(1, -(-(high - low + 1) // MAX_BARS))
    edges = np.arange(low, high + width + 1, width) - 0.5
    axes.hist(worst, bins=[float(edge) for edge in edges], color=LOOKS[0][0], alpha=0.8, rwidth=0.9)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, 2.2 * max(1.0, float(np.histogram(worst, edges)[0].max())))
    counts = [0, *(10**power for power in range(int(np.log10(len(worst))) + 1))]
    axes.set_yticks(counts, [f"{count:,}" for count in counts])
    axes.set_yticks([], minor=True)
    if high >= 0.6 * n_th:
        axes.axvline(n_th, color=RUST, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
        style = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "top", "color": RUST, "fontsize": 9}
        plot.write_note(axes, f"accepted up to {n_th}", (n_th, 0.97), (-4, 0), **style)
    axes.margins(x=0.08)
    title = f"Worst suggestions: 99 % up to {tuned.chosen.worst_99:,}, the largest {high:,}"
    position = f"true position of the worst of {k} suggestions ({k} is best)"
    plot.set_title(axes, title, x=position, y=f"of {len(worst):,} lists")


def _look(structure: str) -> plot.Look:
    """Color and shape; a structure over a reduction has those of the structure, hollow."""
    plain = structure.removeprefix(f"{REDUCED} ")
    places = {EXACT: 2, "inverted-file": 0, "kmeans-tree": 1, "kd-forest": 3}
    return plot.Look(*LOOKS[places.get(plain, 4)], is_hollow=plain != structure)
