"""Figures of uncertainty: a list with its intervals, a new user who becomes known, the effect of policies.

The figure of the demo is here as well: the gain over the baselines, and one user's list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.arrays import FloatArray
from tastespace.errors import DataError, MissingExtraError
from tastespace.evaluation.report import Report
from tastespace.models.base.results import Prediction, Ranking
from tastespace.report import plotting as plot
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
    sds = {n: _belief_sd(prediction) for n, prediction in steps.items()}
    first = next(iter(steps.values()))
    labels = [_cut(str(name)) for name in (first.item_ids if first.titles is None else first.titles)]
    figure, (axes,) = plot.new_figure(1, (8.4, 1.4 + 0.16 * len(labels) * (len(steps) + 1)))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=GRID)
    step = 0.8 / len(steps)
    for place, (n, prediction) in enumerate(steps.items()):
        heights = np.arange(len(labels)) + (place - (len(steps) - 1) / 2) * step
        depth = 0.3 + 0.7 * place / max(1, len(steps) - 1)
        low, high = prediction.interval().T
        axes.hlines(heights, low, high, color=ACCENT, alpha=depth, linewidth=1.4, zorder=1)
        name = f"{n} rating{'s' if n != 1 else ''}"
        mean, sd = prediction.mean, sds[n]
        axes.hlines(heights, mean - sd, mean + sd, color=ACCENT, alpha=depth, linewidth=5, zorder=2, label=name)
    if given is not None:
        axes.scatter(given, range(len(labels)), marker="x", color=RUST, s=45, zorder=4, label="given later")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    title = "Predictions for a new user, by number of ratings"
    plot.set_title(axes, title, x="rating: 90 % of ratings (thin), one sd of the belief to either side (thick)")
    figure.legend(loc="outside right upper", frameon=False, labelcolor=INK)
    widths = [f"{sd.mean():.2f} with {n}" for n, sd in sds.items()]
    return Picture.of(figure, "uncertainty-new-user", title, f". Mean belief sd: {', '.join(widths)} ratings.")


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


def draw_demo(reports: Mapping[str, Report], ranking: Ranking, path: Path) -> None:
    """Two panels as one image: the error of each model, and the first user's recommendations."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("Drawing the picture", "plot") from error
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 3])
    names = list(reports)
    errors = [reports[name]["rmse"] for name in names]
    _draw_dots(left, names, errors, [PALE] * (len(names) - 1) + [ACCENT], "{:.3f}")
    plot.set_title(left, "RMSE on held-out ratings (less is better)", 10)
    _draw_list(right, ranking.of(0).rows(named=True))
    shown = "predicted rating" if ranking.uncertainty is None else "expected rating, 90 % interval"
    plot.set_title(right, f"For user {ranking.user_ids[0]}: {shown}", 10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, labelcolor=INK)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write the picture ({error})", file=path, expected="a writable .png file") from error


def _draw_list(axes: plot.Axes, rows: list[dict[str, Any]]) -> None:
    """A list, best on top: a dot for the expected rating, and a line for 90 % of ratings, if they are known."""
    labels, scores = [_name(row) for row in rows], [row.get("expected_rating", row["score"]) for row in rows]
    if not rows or "low" not in rows[0]:
        _draw_dots(axes, labels, scores, [ACCENT] * len(rows), "{:.2f}")
        return
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


def _draw_dots(axes: plot.Axes, labels: list[str], values: list[float], colours: list[str], form: str) -> None:
    """One dot per row with its value beside it: no bar, so no zero is needed to read it fairly."""
    places = range(len(labels))
    axes.hlines(places, 0, 1, transform=axes.get_yaxis_transform(), color=GRID, linewidth=1, zorder=0)
    axes.scatter(values, places, c=colours, s=60, zorder=2)
    for place, value in zip(places, values, strict=True):
        plot.write_note(axes, form.format(value), (value, place), (8, 0), va="center")
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.margins(x=0.2, y=0.1)


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
