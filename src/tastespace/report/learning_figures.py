"""The picture of a regularisation that was learned: where each precision went, step by step, and what it came to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.report.demo_figure import ACCENT, INK, PALE
from tastespace.report.diagnostics_figures import panels_of, svg_of, write_pictures
from tastespace.report.evaluation_figures import Picture
from tastespace.report.evaluation_page import prepare_folder

if TYPE_CHECKING:
    from tastespace.models.factorization.empirical_bayes.posterior import Learning

NAMES = ("factors", "user bias", "item bias", "noise")


def write_learning(learning: Learning, folder: str | Path) -> list[Path]:
    """Write learning.svg to a folder; its path. Needs the extra `plot`."""
    return write_pictures([learning_picture(learning)], prepare_folder(folder))


def learning_picture(learning: Learning) -> Picture:
    """One panel a precision, on a logarithmic scale; that of the factors is the root of users' times items'."""
    final = _shown(learning.precisions.array()[None])
    series = {name: values for name, values in _shown(learning.path).items() if final[name][0] > 0}
    figure, panels = panels_of(len(series))
    steps = np.arange(1, len(learning.path) + 1)
    for axes, (name, values) in zip(panels, series.items(), strict=True):
        axes.axhline(final[name][0], color=PALE, linewidth=1.2, linestyle="--")
        axes.plot(steps, values, color=ACCENT, linewidth=1.4)
        axes.set_yscale("log")
        axes.set_title(f"{name}: {final[name][0]:.3g}", loc="left", fontsize=10, color=INK)
        axes.set_xlabel("step (dashed: what was learned)", color=INK)
    title = "How the precisions were learned"
    said = ", ".join(f"{name} from {values[0]:.3g} to {final[name][0]:.3g}" for name, values in series.items())
    return Picture("learning", title, f"{title}, in {len(steps)} steps: {said}.", svg_of(figure))


def _shown(path: DoubleArray) -> dict[str, DoubleArray]:
    """Series by name: only the product of users' and items' precision means something."""
    columns = (np.sqrt(path[:, 0] * path[:, 1]), path[:, 2], path[:, 3], path[:, 4])
    return dict(zip(NAMES, columns, strict=True))
