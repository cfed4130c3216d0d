"""The picture of the demo: what was gained over the baselines, and one user's list with how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tastespace.errors import DataError, MissingExtraError
from tastespace.evaluation.report import Report
from tastespace.models.base.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 44  # letters of a title
INK, ACCENT, PALE, GRID = "#22303c", "#0f7b8a", "#8fa3ae", "#e6ebee"


def draw_demo(reports: Mapping[str, Report], ranking: Ranking, path: Path) -> None:
    """Two panels as one image: the error of each model, and the first user's recommendations."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("Drawing the picture", "plot") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=[2, 3], layout="constrained")
    names = list(reports)
    errors = [reports[name]["rmse"] for name in names]
    _dots(left, names, errors, [PALE] * (len(names) - 1) + [ACCENT], "{:.3f}")
    left.set_title("RMSE on held-out ratings (less is better)", loc="left", fontsize=10, color=INK)
    draw_list(right, ranking.of(0).rows(named=True))
    shown = "predicted rating" if ranking.sureness is None else "expected rating, 90 % interval"
    right.set_title(f"For user {ranking.user_ids[0]}: {shown}", loc="left", fontsize=10, color=INK)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, labelcolor=INK)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write the picture ({error})", file=path, expected="a writable .png file") from error
    finally:
        plt.close(figure)


def draw_list(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """A list, best on top: a dot for the expected rating, and a line that holds 90 % of ratings, if they are known."""
    labels, scores = [cut(row.get("title") or str(row["item"])) for row in rows], [row["score"] for row in rows]
    if not rows or "low" not in rows[0]:
        _dots(axes, labels, scores, [ACCENT] * len(rows), "{:.2f}")
        return
    places = range(len(rows))
    lows, highs = [row["low"] for row in rows], [row["high"] for row in rows]
    axes.hlines(places, lows, highs, color=ACCENT, alpha=0.35, linewidth=5, zorder=1)
    axes.scatter(scores, places, c=ACCENT, s=45, zorder=2)
    # Figures stand in a column of their own at the right: lines are long, and there is no room beside the dots.
    for place, score in zip(places, scores, strict=True):
        axes.annotate(
            f"{score:.2f}",
            (1, place),
            (6, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            va="center",
            color=INK,
        )
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.margins(y=0.07)
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)


def cut(title: str) -> str:
    """What there is room for."""
    return title if len(title) <= LONGEST else f"{title[: LONGEST - 1]}…"


def _dots(axes: Axes, labels: list[str], values: list[float], colours: list[str], form: str) -> None:
    """A dot a row with its value beside it: no bar, so no zero is needed to read it fairly."""
    places = range(len(labels))
    axes.hlines(places, 0, 1, transform=axes.get_yaxis_transform(), color=GRID, linewidth=1, zorder=0)
    axes.scatter(values, places, c=colours, s=60, zorder=2)
    for place, value in zip(places, values, strict=True):
        axes.annotate(form.format(value), (value, place), (8, 0), textcoords="offset points", va="center", color=INK)
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.margins(x=0.2, y=0.1)
