"""Pictures of uncertainty and whether it is right: coverage, fit of the distributions, error by uncertainty.

`looks` says of all models of a page which colour and shape each has, those included that have no uncertainty.
"""

from __future__ import annotations

from collections.abc import Mapping

from tastespace.evaluation.calibration import SHARES, Calibration
from tastespace.evaluation.metrics.binary import Reliability
from tastespace.report import plotting as plot
from tastespace.report.plotting import INK, PALE, Picture

MAIN = 0.9  # the coverage that is shown by groups


def coverage_picture(models: Mapping[str, Calibration], looks: Mapping[str, int]) -> Picture:
    """How many ratings lie in intervals, against how many should; and by groups of users if there are any."""
    groups = {name: found.groups["users"] for name, found in models.items() if "users" in found.groups}
    figure, panels = plot.new_figure(2, (11.0, 4.0), (2, 5)) if groups else plot.new_figure(1, (4.4, 4.0))
    axes = panels[0]
    axes.plot([0.4, 1], [0.4, 1], color=PALE, linewidth=1, zorder=1)
    for name, found in models.items():
        names = [f"coverage_{share}" for share in SHARES.values()]
        spans = [found.intervals.get(entry) for entry in names]
        plot.draw_points(axes, list(SHARES), [found[entry] for entry in names], spans, looks[name], name)
        if found.levels is not None:
            expected = [found[f"expected_{share}"] for share in SHARES.values()]
            colour = plot.colour_of(looks[name])
            axes.plot(list(SHARES), expected, marker="_", markersize=16, color=colour, linestyle="none", zorder=4)
    axes.set_xticks(list(SHARES), list(SHARES.values()))
    axes.set(xlim=(0.45, 1.0), xlabel="interval, in per cent", ylabel="share of the test ratings inside")
    dashes = " (dash: expected)" if any(found.levels is not None for found in models.values()) else ""
    plot.set_title(axes, f"All ratings{dashes}")
    if groups:
        panels[1].axhline(MAIN, color=PALE, linewidth=1, zorder=1)
        plot.draw_groups(panels[1], groups, f"coverage_{SHARES[MAIN]}", looks)
        plot.name_groups(panels[1], next(iter(groups.values())), "users")
        plot.set_title(panels[1], f"{SHARES[MAIN]} % intervals, by groups of users")
    plot.add_legend(figure, axes, looks)
    title = "Coverage: how many test ratings lie in their intervals"
    return Picture.of(figure, "coverage", title, f". {_describe_coverage(models)}")


def pit_picture(models: Mapping[str, Calibration], looks: Mapping[str, int]) -> Picture:
    """The histogram of the probability integral transform, which is flat for right distributions; one panel a model."""
    figure, panels = plot.new_figure(len(models), (max(5.2, 3.8 * len(models)), 3.4))
    highest = max(max(found.pit) * len(found.pit) for found in models.values())
    for axes, (name, found) in zip(panels, models.items(), strict=True):
        n_parts = len(found.pit)
        middles = [(part + 0.5) / n_parts for part in range(n_parts)]
        heights = [share * n_parts for share in found.pit]
        axes.bar(middles, heights, width=0.92 / n_parts, color=plot.colour_of(looks[name]), alpha=0.75)
        for middle, span in zip(middles, found.pit_intervals, strict=False):  # none without a bootstrap
            axes.vlines(middle, span.low * n_parts, span.high * n_parts, color=INK, linewidth=1)
        axes.axhline(1, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.set(xlim=(0, 1), ylim=(0, 1.15 * max(highest, 1)), xlabel="probability of a lower rating")
        plot.set_title(axes, name)
    panels[0].set_ylabel("ratings, 1 being as many as expected")
    title = "Probability integral transform: flat if the distributions are right"
    return Picture.of(figure, "pit", title, f". {_describe_pit(models)}")


def confidence_picture(models: Mapping[str, Calibration], looks: Mapping[str, int]) -> Picture:
    """The error of each tenth of the ratings, the most certain first."""
    figure, (axes,) = plot.new_figure(1, (9.2, 3.6))
    for place, (name, found) in enumerate(models.items()):
        filled = [x for x, tenth in enumerate(found.confidence) if tenth.n]
        values = [found.confidence[x].measures["rmse"] for x in filled]
        spans = [found.confidence[x].intervals.get("rmse") for x in filled]
        shift = (place - (len(models) - 1) / 2) * 0.12
        plot.draw_points(axes, [x + shift for x in filled], values, spans, looks[name], name)
    labels = [tenth.label for tenth in next(iter(models.values())).confidence]
    axes.set_xticks(range(len(labels)), labels, fontsize=9)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    title, tenths = "RMSE by confidence", "tenths of the test ratings by the sd of the belief, the most certain first"
    plot.set_title(axes, title, x=tenths, y="RMSE")
    plot.add_legend(figure, axes, looks)
    return Picture.of(figure, "confidence", title, f". {_describe_confidence(models)}")


def reliability_picture(models: Mapping[str, Reliability], looks: Mapping[str, int]) -> Picture:
    """The share of yes against its predicted probability, which should be the same."""
    figure, (axes,) = plot.new_figure(1, (5.2, 4.4))
    axes.plot([0, 1], [0, 1], color=PALE, linewidth=1, zorder=1)
    sentences = []
    for name, found in models.items():
        filled = [
            (entry.predicted, entry.yes, entry.interval)
            for entry in found.bins
            if entry.predicted is not None and entry.yes is not None
        ]
        places, shares, spans = zip(*filled, strict=True)
        plot.draw_points(axes, places, shares, spans, looks[name], name)
        parts = [f"predicted {predicted:.3f}, came {yes:.3f}" for predicted, yes, _ in (filled[0], filled[-1])]
        sentences.append(f"{name}: at the least likely {parts[0]}; at the most likely {parts[1]}.")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set(xlabel="predicted probability of yes", ylabel="share of yes among the test ratings")
    plot.add_legend(figure, axes, looks)
    title = "Reliability: how often yes came, by its predicted probability"
    return Picture.of(figure, "reliability", title, f". {' '.join(sentences)}")


def _describe_coverage(models: Mapping[str, Calibration]) -> str:
    """What is to be seen, in words: every interval, and the groups at both ends."""
    sentences = []
    for name, found in models.items():
        parts = [f"{100 * found[f'coverage_{share}']:.1f} % in intervals of {share} %" for share in SHARES.values()]
        sentences.append(f"{name}: {', '.join(parts)}.")
        filled = [group for group in found.groups.get("users", ()) if group.n]
        if filled:
            measure = f"coverage_{SHARES[MAIN]}"
            least, most = (pick(filled, key=lambda group: group.measures[measure]) for pick in (min, max))
            sentences.append(
                f"By users, those of {SHARES[MAIN]} % hold from {100 * least.measures[measure]:.1f} % "
                f"({least.label} training ratings) to {100 * most.measures[measure]:.1f} % ({most.label})."
            )
    return " ".join(sentences)


def _describe_pit(models: Mapping[str, Calibration]) -> str:
    sentences = []
    for name, found in models.items():
        n_parts = len(found.pit)
        low, high = min(found.pit), max(found.pit)
        where = [f"{found.pit.index(share) / n_parts:.2f}" for share in (low, high)]
        sentences.append(
            f"{name}: mean {found['pit_mean']:.3f} (0.5 is right), spread {found['pit_spread']:.3f} (1 is right); "
            f"fewest ratings from {where[0]} on, {low * n_parts:.2f} times as many as expected, most from {where[1]} "
            f"on, {high * n_parts:.2f} times."
        )
    return " ".join(sentences)


def _describe_confidence(models: Mapping[str, Calibration]) -> str:
    sentences = []
    for name, found in models.items():
        filled = [tenth for tenth in found.confidence if tenth.n]
        first, last = filled[0], filled[-1]
        sentences.append(
            f"{name}: {first.measures['rmse']:.3f} for the most certain ratings ({first.label}), "
            f"{last.measures['rmse']:.3f} for the least certain ({last.label})."
        )
    return " ".join(sentences)
