"""A picture of whether yes comes as often as models say."""

from __future__ import annotations

from collections.abc import Mapping

from tastespace.evaluation.reliability import Reliability
from tastespace.report.demo_figure import INK, PALE
from tastespace.report.evaluation_figures import Picture, add_legend, as_svg, draw_points, new_figure


def reliability_picture(models: Mapping[str, Reliability], looks: Mapping[str, int]) -> Picture:
    """The share of yes against its predicted probability, which should be the same.

    `looks` says of all models of a page which colour and shape each has.
    """
    figure, (axes,) = new_figure(1, (5.2, 4.4))
    axes.plot([0, 1], [0, 1], color=PALE, linewidth=1, zorder=1)
    for name, found in models.items():
        filled = [entry for entry in found.bins if entry.predicted is not None and entry.yes is not None]
        places = [entry.predicted for entry in filled if entry.predicted is not None]
        shares = [entry.yes for entry in filled if entry.yes is not None]
        draw_points(axes, places, shares, [entry.interval for entry in filled], looks[name], name, joined=True)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("predicted probability of yes", color=INK)
    axes.set_ylabel("share of yes among the test ratings", color=INK)
    add_legend(figure, axes, looks)
    title = "Reliability: how often yes came, by its predicted probability"
    return Picture("reliability", title, f"{title}. {_describe(models)}", as_svg(figure))


def _describe(models: Mapping[str, Reliability]) -> str:
    """What is to be seen, in words: both ends of each model."""
    sentences = []
    for name, found in models.items():
        filled = [entry for entry in found.bins if entry.predicted is not None]
        parts = [f"predicted {entry.predicted:.3f}, came {entry.yes:.3f}" for entry in (filled[0], filled[-1])]
        sentences.append(f"{name}: at the least likely {parts[0]}; at the most likely {parts[1]}.")
    return " ".join(sentences)
