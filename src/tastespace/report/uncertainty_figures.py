"""Figures of uncertainty: a list with its intervals, a new user who becomes known, the effect of policies.

The picture of the demo is here as well: whether intervals hold what they promise, and a new user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.arrays import FloatArray
from tastespace.errors import DataError
from tastespace.evaluation.calibration import Calibration
from tastespace.models.base.results import Prediction, Ranking
from tastespace.report import plotting as plot
from tastespace.report.evaluation_figures import draw_coverage
from tastespace.report.plotting import ACCENT, GRID, INK, LOOKS, PALE, RUST, Picture

MAX_TITLE = 44  # characters
ROW = 0.34  # inches per entry of a list


def list_picture(ranking: Ranking, position: int = 0) -> Picture:
    """A user's list: the expected ratings, one belief sd to either side of them, and intervals of 90 % of ratings."""
    _require(ranking.uncertainty is not None)
    rows = [row | {"title": _name(row)} for row in ranking.of(position).rows(named=True)]
    figure, (axes,) = plot.new_figure(1, (8.4, 1.2 + ROW * len(rows)))
    axes.grid(visible=False, axis="y")
    _draw_list(axes, rows)
    places, scores = np.arange(len(rows)), np.array([row.get("expected_rating", row["score"]) for row in rows])
    sds = np.array([row["belief_sd"] for row in rows])
    axes.hlines(places, scores - sds, scores + sds, color=ACCENT, linewidth=5, zorder=2)
    axes.scatter(scores, places, c="white", s=14, zorder=3)
    title = f"Uncertainty of the list of user {ranking.user_ids[position]}"
    plot.set_title(axes, title, x="rating: 90 % of ratings (pale), one sd of the belief to either side (dark)")
    words = [f"{row['title']} {row['score']:.2f}, from {row['low']:.2f} to {row['high']:.2f}" for row in rows]
    return Picture.of(figure, "uncertainty-list", title, f". 90 % of ratings: {'; '.join(words)}.")


def narrowing_picture(steps: Mapping[int, Prediction], given: Sequence[float] | None = None) -> Picture:
    """Beliefs about the same items after some numbers of ratings of a user; `given` are the ratings they gave later."""
    n_items = len(next(iter(steps.values())).mean)
    figure, (axes,) = plot.new_figure(1, (8.4, 1.4 + 0.16 * n_items * (len(steps) + 1)))
    _draw_narrowing(axes, steps)
    if given is not None:
        axes.scatter(given, range(n_items), marker="x", color=RUST, s=45, zorder=4, label="given later")
    title = "Predictions for a new user, by number of ratings"
    plot.set_title(axes, title, x="rating: 90 % of ratings (thin), one sd of the belief to either side (thick)")
    figure.legend(loc="outside right upper", frameon=False, labelcolor=INK)
    widths = [f"{_belief_sd(prediction).mean():.2f} with {n}" for n, prediction in steps.items()]
    return Picture.of(figure, "uncertainty-new-user", title, f". Mean belief sd: {', '.join(widths)} ratings.")


def _draw_narrowing(axes: plot.Axes, steps: Mapping[int, Prediction]) -> None:
    """The same items after some numbers of ratings: 90 % of ratings (thin), one belief sd to either side (thick)."""
    first = next(iter(steps.values()))
    labels = [_cut(str(name)) for name in (first.item_ids if first.titles is None else first.titles)]
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=GRID)
    step = 0.8 / len(steps)
    for place, (n, prediction) in enumerate(steps.items()):
        heights = np.arange(len(labels)) + (place - (len(steps) - 1) / 2) * step
        depth = 0.3 + 0.7 * place / max(1, len(steps) - 1)
        mean, sd = prediction.mean, _belief_sd(prediction)
        low, high = prediction.interval().T
        axes.hlines(heights, low, high, color=ACCENT, alpha=depth, linewidth=1.4, zorder=1)
        name = f"{n} rating{'s' if n != 1 else ''}"
        axes.hlines(heights, mean - sd, mean + sd, color=ACCENT, alpha=depth, linewidth=5, zorder=2, label=name)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()


def policies_picture(everything: Prediction, lists: Mapping[str, Ranking]) -> Picture:
    """All items by expected rating and sd of the belief, and which of them each policy puts on a user's list."""
    sds = _belief_sd(everything)
    assert everything.rating is not None
    figure, (axes,) = plot.new_figure(1, (8.4, 4.6))
    means = everything.rating.mean()  # not clipped, as in lists
    # Rasterized: thousands of points would make the file a megabyte.
    cloud: dict[str, Any] = {"c": PALE, "s": 8, "alpha": 0.4, "linewidths": 0, "rasterized": True}
    axes.scatter(means, sds, **cloud, zorder=1, label="all items")
    words = []
    for place, (name, ranking) in enumerate(lists.items()):
        # A shape per policy, so that the items of several lists can be seen.
        (colour, shape), table = LOOKS[place % len(LOOKS)], ranking.of(0)
        ring: dict[str, Any] = {"facecolors": "none", "edgecolors": colour, "linewidths": 1.6}
        axes.scatter(table["score"], table["belief_sd"], s=36 + 40 * place, marker=shape, zorder=2, label=name, **ring)
        mean, sd = (float(np.mean(table[column].to_numpy())) for column in ("score", "belief_sd"))
        words.append(f"{name}: mean {mean:.2f}, belief sd {sd:.2f}")
    axes.grid(axis="x", color=GRID)
    title = f"What policies choose for user {next(iter(lists.values())).user_ids[0]}"
    plot.set_title(axes, title, x="expected rating", y="sd of the belief")
    axes.legend(loc="upper left", frameon=False, labelcolor=INK)
    return Picture.of(figure, "uncertainty-policies", title, f". Averages of the lists: {'; '.join(words)}.")


def draw_demo(calibration: Calibration, steps: Mapping[int, Prediction], path: Path) -> None:
    """Draw whether intervals hold what they promise, and how they narrow for a new user; one image."""
    figure, (left, right) = plot.new_figure(2, (11, 4.2), (2, 3))
    draw_coverage(left, {"": calibration}, {"": 0})
    plot.set_title(left, "Test ratings inside their intervals (dash: expected)", 10)
    _draw_narrowing(right, steps)
    plot.set_title(right, "A new user, rating by rating: 90 % of ratings (thin), belief (thick)", 10)
    highest = max(prediction.interval().max() for prediction in steps.values())
    right.set_xlim(right=highest + 0.02)  # a belief may go on, ratings do not
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=4, frameon=False, labelcolor=INK)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write the picture ({error})", file=path, expected="a writable .png file") from error


def _draw_list(axes: plot.Axes, rows: list[dict[str, Any]]) -> None:
    """A list, best on top: a dot for the expected rating, and a line for 90 % of ratings."""
    labels, scores = [_name(row) for row in rows], [row.get("expected_rating", row["score"]) for row in rows]
    places = range(len(rows))
    lows, highs = [row["low"] for row in rows], [row["high"] for row in rows]
    axes.hlines(places, lows, highs, color=ACCENT, alpha=0.35, linewidth=5, zorder=1)
    axes.scatter(scores, places, c=ACCENT, s=45, zorder=2)
    # Figures have their own column at the right: lines are long, and there is no room beside the dots.
    for place, score in zip(places, scores, strict=True):
        plot.write_note(axes, f"{score:.2f}", (1, place), (6, 0), xycoords=axes.get_yaxis_transform(), va="center")
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.margins(y=0.07)
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)


def _belief_sd(prediction: Prediction) -> FloatArray:
    _require(prediction.is_uncertain)
    assert prediction.belief_sd is not None
    return prediction.belief_sd


def _require(has_uncertainty: bool) -> None:
    if not has_uncertainty:
        raise DataError("the model provides no uncertainty", expected="those of a model with a posterior, such as BPMF")


def _name(row: Mapping[str, Any]) -> str:
    return _cut(row.get("title") or str(row["item"]))


def _cut(title: str) -> str:
    """Shorten a title to the space there is."""
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 1]}…"
