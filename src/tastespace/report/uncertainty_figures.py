"""Pictures of how sure answers are: a list with its intervals, a stranger who becomes known, the choice of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tastespace.arrays import FloatArray
from tastespace.errors import DataError
from tastespace.models.base.posterior import Prediction
from tastespace.models.base.ranking import Ranking
from tastespace.report.demo_figure import ACCENT, GRID, INK, PALE, cut, draw_list
from tastespace.report.evaluation_figures import LOOKS, RUST, Picture, as_svg, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ROW = 0.34  # inches that an entry of a list takes


def list_picture(ranking: Ranking, position: int = 0) -> Picture:
    """A user's list: the expected ratings, one belief sd to either side of them, and where 90 % of ratings lie."""
    _require(ranking.sureness is not None)
    rows = _short(ranking.of(position).rows(named=True))
    figure, (axes,) = new_figure(1, (8.4, 1.2 + ROW * len(rows)))
    axes.grid(visible=False, axis="y")
    draw_list(axes, rows)
    places, scores = np.arange(len(rows)), np.array([row["score"] for row in rows])
    sds = np.array([row["belief_sd"] for row in rows])
    axes.hlines(places, scores - sds, scores + sds, color=ACCENT, linewidth=5, zorder=2)
    axes.scatter(scores, places, c="white", s=14, zorder=3)
    axes.set_xlabel("rating: 90 % of ratings (pale), one sd of the belief to either side (dark)", color=INK)
    title = f"How sure the list of user {ranking.user_ids[position]} is"
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    words = [f"{row['title']} {row['score']:.2f}, from {row['low']:.2f} to {row['high']:.2f}" for row in rows]
    return Picture("how-sure-list", title, f"{title}. 90 % of ratings: {'; '.join(words)}.", as_svg(figure))


def narrowing_picture(steps: Mapping[int, Prediction], given: Sequence[float] | None = None) -> Picture:
    """What is believed of the same items after so many ratings of a user; `given` is what he gave them later on."""
    _require(all(prediction.is_uncertain for prediction in steps.values()))
    labels = _titles(next(iter(steps.values())))
    figure, (axes,) = new_figure(1, (8.4, 1.4 + 0.16 * len(labels) * (len(steps) + 1)))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=GRID)
    step = 0.8 / len(steps)
    for place, (n, prediction) in enumerate(steps.items()):
        heights = np.arange(len(labels)) + (place - (len(steps) - 1) / 2) * step
        depth = 0.3 + 0.7 * place / max(1, len(steps) - 1)
        low, high = prediction.interval().T
        axes.hlines(heights, low, high, color=ACCENT, alpha=depth, linewidth=1.4, zorder=1)
        name = f"{n} rating{'s' if n != 1 else ''}"
        mean, sd = prediction.mean, _belief_sd(prediction)
        axes.hlines(heights, mean - sd, mean + sd, color=ACCENT, alpha=depth, linewidth=5, zorder=2, label=name)
    if given is not None:
        axes.scatter(given, range(len(labels)), marker="x", color=RUST, s=45, zorder=4, label="given later")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("rating: 90 % of ratings (thin), one sd of the belief to either side (thick)", color=INK)
    title = "How a stranger becomes known"
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    figure.legend(loc="outside right upper", frameon=False, labelcolor=INK)
    widths = [f"{_belief_sd(prediction).mean():.2f} with {n}" for n, prediction in steps.items()]
    return Picture("how-sure-stranger", title, f"{title}. Mean belief sd: {', '.join(widths)} ratings.", as_svg(figure))


def policies_picture(everything: Prediction, lists: Mapping[str, Ranking]) -> Picture:
    """All items by expected rating and sd of the belief, and which of them each policy puts on a user's list."""
    _require(everything.is_uncertain)
    assert everything.rating is not None
    figure, (axes,) = new_figure(1, (8.4, 4.6))
    means = everything.rating.mean()  # not clipped, as lists have it
    # As an image inside the file: thousands of points would make it a megabyte.
    axes.scatter(
        means,
        _belief_sd(everything),
        c=PALE,
        s=8,
        alpha=0.4,
        linewidths=0,
        rasterized=True,
        zorder=1,
        label="all items",
    )
    words = []
    for place, (name, ranking) in enumerate(lists.items()):
        _mark(axes, ranking, place, name)
        mean, sd = (float(np.mean(ranking.of(0)[column].to_numpy())) for column in ("score", "belief_sd"))
        words.append(f"{name}: mean {mean:.2f}, belief sd {sd:.2f}")
    axes.set_xlabel("expected rating", color=INK)
    axes.set_ylabel("sd of the belief", color=INK)
    axes.grid(axis="x", color=GRID)
    user = next(iter(lists.values())).user_ids[0]
    title = f"What policies choose for user {user}"
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.legend(loc="upper left", frameon=False, labelcolor=INK)
    return Picture("how-sure-policies", title, f"{title}. Averages of the lists: {'; '.join(words)}.", as_svg(figure))


def _mark(axes: Axes, ranking: Ranking, place: int, name: str) -> None:
    """The items of a list, in a shape of their own, so that those of several lists can be seen."""
    colour, shape = LOOKS[place % len(LOOKS)]
    table = ranking.of(0)
    axes.scatter(
        table["score"],
        table["belief_sd"],
        marker=shape,
        s=36 + 40 * place,
        facecolors="none",
        edgecolors=colour,
        linewidths=1.6,
        zorder=2,
        label=name,
    )


def _require(says_how_sure: bool) -> None:
    if not says_how_sure:
        raise DataError(
            "the model does not say how sure it is", expected="answers of one with a posterior, such as BPMF"
        )


def _belief_sd(prediction: Prediction) -> FloatArray:
    assert prediction.belief_sd is not None
    return prediction.belief_sd


def _short(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"title": cut(row.get("title") or str(row["item"]))} for row in rows]


def _titles(prediction: Prediction) -> list[str]:
    names = prediction.item_ids if prediction.titles is None else prediction.titles
    return [cut(str(name)) for name in names]
