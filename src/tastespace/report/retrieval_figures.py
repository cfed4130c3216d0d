"""The picture of a tuned index: speed-up against what is found, structure by structure, and the worst suggestions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tastespace.errors import DataError
from tastespace.index.trials import Trial
from tastespace.index.tuner import EXACT, REDUCED, Tuned
from tastespace.report.demo_figure import GRID, INK, PALE
from tastespace.report.evaluation_figures import LOOKS, RUST, STEADY, new_figure, require_plot
from tastespace.report.evaluation_page import refuse_artifact

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
MOST_BARS = 40


def check_figure(path: str | Path) -> None:
    """Refuse early, before long work, a picture that could not be drawn or written."""
    require_plot()
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"{path} is no picture that can be drawn", expected=f"a name with {', '.join(FORMATS)}")
    if not path.resolve().parent.is_dir():
        raise DataError("there is no such folder", file=path.resolve().parent, expected="one that is there")
    if path.is_dir():
        raise DataError("this is a folder", file=path, expected="the name of a picture")
    refuse_artifact(path.resolve().parent)


def write_retrieval(tuned: Tuned, path: str | Path) -> Path:
    """Draw what the tuner tried and chose, as .png, .svg or .pdf. Needs the extra `plot`."""
    check_figure(path)
    return save_figure(retrieval_figure(tuned), path)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a picture; as .svg the same bytes every time."""
    import matplotlib as mpl

    path = Path(path)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    try:
        with mpl.rc_context(STEADY):
            figure.savefig(path, dpi=150, metadata=metadata)
    except OSError as error:
        raise DataError(
            f"cannot write the picture ({error.strerror or error})", file=path, expected="a place to write to"
        ) from error
    return path


def retrieval_figure(tuned: Tuned) -> Figure:
    """Speed-up against accuracy, and against acceptance; and where the worst suggestions of the choice stand."""
    figure, (left, middle, right) = new_figure(3, (14.0, 4.6))
    target = tuned.target
    _draw_curves(left, tuned, lambda trial: trial.accuracy, target.accuracy)
    left.set_xlabel(f"accuracy: share of the true best {target.k} that is found", color=INK)
    left.set_ylabel("times as fast as numpy's scan", color=INK)
    left.set_title("Speed-up against accuracy", loc="left", fontsize=11, color=INK)
    _draw_curves(middle, tuned, lambda trial: trial.acceptance, target.acceptance)
    middle.set_xlabel(f"acceptance: share of lists within the true best {target.n_th}", color=INK)
    middle.set_title("Speed-up against acceptance", loc="left", fontsize=11, color=INK)
    _draw_worst(right, tuned)
    entries: dict[str, Any] = {}
    for axes in (left, middle):
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(entries.values()), list(entries), loc="outside upper left", ncols=8, frameon=False, labelcolor=INK
    )
    return figure


def _draw_curves(axes: Axes, tuned: Tuned, measure: Callable[[Trial], float], least: float | None) -> None:
    """A dot a trial, and a line through the best of each structure."""
    axes.axhline(1, color=PALE, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    if least is not None:
        axes.axvline(least, color=RUST, linewidth=1, linestyle=(0, (4, 3)), zorder=1, label="target")
    for structure in dict.fromkeys(trial.structure for trial in tuned.trials):
        trials = [trial for trial in tuned.trials if trial.structure == structure]
        colour, marker, is_reduced = _look(structure)
        best = _frontier(trials, measure)
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 6, "linewidth": 1.6}
        style |= {"markerfacecolor": "white", "linestyle": (0, (5, 2))} if is_reduced else {}
        places, speeds = [measure(trial) for trial in trials], [trial.speedup for trial in trials]
        axes.scatter(places, speeds, s=10, color=colour, alpha=0.35, linewidth=0, zorder=2)
        axes.plot([measure(trial) for trial in best], [trial.speedup for trial in best], **style, label=structure)
    chosen = tuned.chosen
    axes.plot(
        [measure(chosen)],
        [chosen.speedup],
        marker="*",
        markersize=20,
        color=INK,
        markeredgecolor="white",
        linestyle="none",
        zorder=6,
        label=f"chosen, on held-out queries: {chosen.structure}",
    )
    axes.annotate(
        f"{chosen.speedup:.1f}× at {measure(chosen):.3f}",
        (measure(chosen), chosen.speedup),
        (-12, -24),
        textcoords="offset points",
        ha="right",
        color=INK,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        zorder=7,
    )
    axes.annotate(
        "numpy's scan",
        (0, 1),
        (3, 3),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        color=INK,
        fontsize=9,
    )
    _scale(axes, [trial.speedup for trial in (*tuned.trials, chosen)])


def _scale(axes: Axes, speedups: Sequence[float]) -> None:
    """Ratios: twice as fast is as far from once as four times is from twice."""
    axes.set_yscale("log", base=2)
    low, high = min(0.9, *speedups), max(2.0, *speedups)
    powers = range(int(np.ceil(np.log2(low / 1.15))), int(np.floor(np.log2(high * 1.4))) + 1)
    axes.set_yticks([2.0**power for power in powers], [f"{2.0**power:g}×" for power in powers], minor=False)
    axes.set_yticks([], minor=True)
    axes.set_ylim(low / 1.15, high * 1.4)
    axes.grid(axis="x", color=GRID)
    axes.margins(x=0.06)


def _draw_worst(axes: Axes, tuned: Tuned) -> None:
    """How many lists have their worst suggestion at which position."""
    worst, k, n_th = tuned.worst_positions, tuned.target.k, tuned.target.n_th
    low, high = min(k, int(worst.min())), int(worst.max())
    width = max(1, -(-(high - low + 1) // MOST_BARS))
    edges = np.arange(low, high + width + 1, width) - 0.5
    axes.hist(worst, bins=[float(edge) for edge in edges], color=LOOKS[0][0], alpha=0.8, rwidth=0.9)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, 2.2 * max(1.0, float(np.histogram(worst, edges)[0].max())))
    counts = [0, *(10**power for power in range(int(np.log10(len(worst))) + 1))]
    axes.set_yticks(counts, [f"{count:,}" for count in counts])
    axes.set_yticks([], minor=True)
    if high >= 0.6 * n_th:
        axes.axvline(n_th, color=RUST, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
        axes.annotate(
            f"accepted up to {n_th}",
            (n_th, 0.97),
            (-4, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right",
            va="top",
            color=RUST,
            fontsize=9,
        )
    axes.margins(x=0.08)
    axes.set_xlabel(f"true position of the worst of {k} suggestions ({k} is best)", color=INK)
    axes.set_ylabel(f"of {len(worst):,} lists", color=INK)
    title = f"Worst suggestions: 99 % up to {tuned.chosen.worst_99:,}, the largest {high:,}"
    axes.set_title(title, loc="left", fontsize=11, color=INK)


def _frontier(trials: Sequence[Trial], measure: Callable[[Trial], float]) -> list[Trial]:
    """Those that no other of the structure beats in both, from the fastest on."""
    best: list[Trial] = []
    for trial in sorted(trials, key=lambda one: (-one.speedup, -measure(one))):
        if not best or measure(trial) > measure(best[-1]):
            best.append(trial)
    return best


def _look(structure: str) -> tuple[str, str, bool]:
    """Colour and shape; a structure over a reduction has those of the structure, hollow."""
    plain = structure.removeprefix(f"{REDUCED} ")
    known = (EXACT, "inverted-file", "kmeans-tree", "kd-forest", "graph")
    order = (2, 0, 1, 3, 4)
    colour, marker = LOOKS[order[known.index(plain)] if plain in known else 4]
    return colour, marker, plain != structure
