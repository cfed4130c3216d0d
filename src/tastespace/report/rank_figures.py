"""Pictures of a chosen number of factors: loss and rank step by step, and how likely each rank is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tastespace.errors import DataError
from tastespace.evaluation.rank_choice import RankChoice, RankChoices
from tastespace.report.demo_figure import GRID, INK
from tastespace.report.evaluation_figures import LOOKS, Picture, add_legend, as_svg, new_figure
from tastespace.report.evaluation_page import prepare_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_ranks(choices: RankChoices, folder: str | Path) -> list[Path]:
    """Write loss.svg and posterior.svg to a folder, where methods have them; their paths. Needs the extra `plot`."""
    folder = prepare_folder(folder)
    paths = []
    for picture in pictures(choices):
        path = folder / f"{picture.name}.svg"
        try:
            path.write_bytes(picture.svg)
        except OSError as error:
            raise DataError(
                f"cannot write ({error.strerror or error})", file=path, expected="a folder to write to"
            ) from error
        paths.append(path)
    return paths


def pictures(choices: RankChoices) -> list[Picture]:
    """All that there is to be drawn."""
    made = [loss_picture(choices), posterior_picture(choices)]
    return [picture for picture in made if picture is not None]


def loss_picture(choices: RankChoices) -> Picture | None:
    """Loss and rank against steps; where draws count is the full line."""
    traced = [choice for choice in choices if choice.trace is not None]
    if not traced:
        return None
    figure, (left, right) = new_figure(2, (11.0, 4.2))
    words = []
    for choice in traced:
        trace, look = choice.trace, _look(choices, choice)
        assert trace is not None
        _draw_way(left, trace.loss, trace.first, trace.last, look, choice.method)
        _draw_way(right, trace.rank, trace.first, trace.last, look, choice.method)
        counted = slice(trace.first, trace.last)
        words.append(
            f"{choice.method}: from {trace.loss[0]:.3f} to {float(np.mean(trace.loss[counted])):.3f} where draws count"
        )
    left.set_ylabel("loss a rating", color=INK)
    right.set_ylabel("factors", color=INK)
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("step (dashed: cooling, tuning and warm-up, and cooling on)", color=INK)
    add_legend(figure, left, {choice.method: None for choice in traced})
    title = "Loss and number of factors, step by step"
    return Picture("loss", title, f"{title}. {'; '.join(words)}.", as_svg(figure))


def posterior_picture(choices: RankChoices) -> Picture | None:
    """How likely each rank is, method beside method; None where none has a posterior."""
    sure = [choice for choice in choices if choice.posterior is not None]
    if not sure:
        return None
    figure, (axes,) = new_figure(1, (7.0, 4.0))
    width = 0.8 / len(sure)
    words = []
    for place, choice in enumerate(sure):
        assert choice.posterior is not None
        ranks = np.array(sorted(choice.posterior))
        shares = [choice.posterior[int(rank)] for rank in ranks]
        shift = (place - (len(sure) - 1) / 2) * width
        axes.bar(ranks + shift, shares, width, color=LOOKS[_look(choices, choice)][0], label=choice.method)
        words.append(f"{choice.method}: {choice.rank} with probability {choice.probability:.2f}")
    axes.set_xlabel("factors", color=INK)
    axes.set_ylabel("posterior probability", color=INK)
    axes.set_ylim(0, 1.02)
    axes.set_xticks(_ticks([rank for choice in sure for rank in choice.posterior or ()]))
    add_legend(figure, axes, {choice.method: None for choice in sure})
    title = "Posterior over the number of factors"
    return Picture("posterior", title, f"{title}. {'; '.join(words)}.", as_svg(figure))


def _look(choices: RankChoices, choice: RankChoice) -> int:
    """The same in both pictures."""
    return choices.entries.index(choice) % len(LOOKS)


def _draw_way(
    axes: Axes, values: Sequence[float] | np.ndarray, first: int, last: int | None, look: int, label: str
) -> None:
    """The part that counts as a full line; what is before and after it dashed, with a mark where it begins."""
    colour, end = LOOKS[look][0], len(values) if last is None else last
    steps = np.arange(len(values))
    axes.plot(steps, values, color=colour, linewidth=1.0, linestyle=(0, (3, 2)), alpha=0.7)
    axes.plot(steps[first:end], values[first:end], color=colour, linewidth=1.8, label=label)
    if first:
        axes.axvline(first, color=GRID, linewidth=1.0, zorder=0)


def _ticks(ranks: Sequence[int]) -> list[int]:
    """Whole numbers, and one to either side so that a single bar is not a wall."""
    low, high = max(min(ranks) - 1, 0), max(ranks) + 1
    step = max(1, (high - low) // 12)
    return list(range(low, high + 1, step))
