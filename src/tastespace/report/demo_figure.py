"""The picture of the demo: what was gained over the baselines, and one user's list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tastespace.errors import DataError, MissingExtraError
from tastespace.evaluation.evaluate import Report
from tastespace.ranking import Ranking

INK, ACCENT, PALE = "#22303c", "#0f7b8a", "#b9c7cf"


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
    bars = left.bar(names, errors, color=[PALE] * (len(names) - 1) + [ACCENT], width=0.6)
    left.bar_label(bars, [f"{value:.3f}" for value in errors], padding=3, color=INK)
    left.set_ylim(0.9 * min(errors), 1.04 * max(errors))
    left.set_title("RMSE on held-out ratings (less is better)", loc="left", fontsize=10, color=INK)
    top = ranking.of(0)
    titles = [row.get("title") or str(row["item"]) for row in top.rows(named=True)]
    scores = top["score"].to_list()
    places = list(range(len(titles)))
    right.hlines(places, min(scores) - 0.3, scores, color=PALE, linewidth=2)
    right.plot(scores, places, "o", color=ACCENT)
    right.set_yticks(places, titles)
    right.invert_yaxis()
    right.set_xlim(left=min(scores) - 0.3)
    right.set_title(f"Recommended to user {ranking.user_ids[0]}: predicted rating", loc="left", fontsize=10, color=INK)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, labelcolor=INK)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write the picture ({error})", file=path, expected="a writable .png file") from error
    finally:
        plt.close(figure)
