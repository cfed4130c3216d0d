"""The figures of docs/explanation/sphere-experiment.md.

Paths and lengths are computed here, the rest is what sphere.py found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np
import sphere
from sphere import Step

import tastespace as ts
from tastespace.evaluation.groups import LABELS, group_of
from tastespace.models.factorization.als.posterior import PointPosterior
from tastespace.models.factorization.rows import Factors
from tastespace.randomness import generator
from tastespace.report.plotting import ACCENT, GRID, INK, PALE, RUST, SEA, new_figure, to_svg

IMAGES = Path(__file__).parent.parent / "docs" / "images"
COLOURS = {"geodesic": ACCENT, "metropolis": RUST, "slice": SEA}
NAMES = {"geodesic": "geodesic Monte Carlo", "metropolis": "Metropolis-Hastings", "slice": "geodesic slices"}
RATINGS = 1000  # about so many has the item whose path is drawn
DRAWS = 200  # of where it belongs
STEPS = 10  # of a trajectory
PROPOSALS, GLOBE_PROPOSALS = 600, 200
AWAY, SEEN_FROM = np.radians(120), 0.6  # from its mean: where the path starts, and a share of the way back
SHOWN_COMPONENTS = 4  # those that have the longest way to go
SHOWN_LAGS = 30
WEIGHTED = 0.05  # the strength of Fraccaro (2014), by the number of ratings


def paths(data: Path | None, n_factors: int, proposals: int) -> dict[str, np.ndarray]:
    """Of one item from a bad start, by either sampler, and many draws of where it belongs; lengths are 1."""
    whole = Step.after_warmup(movielens.split(data).train, n_factors, sphere.FEW_SWEEPS)
    counts = np.diff(whole.responses.side.offsets)
    step = whole.of(np.array([int(np.argmin(np.abs(counts - RATINGS)))]))
    tuned = whole.some()
    slices, now, cloud = step.moves("slice", 20), step.state.items, []
    for place in range(DRAWS):
        now = step.moved(slices, now, None, generator(place)).points
        cloud.append(now.factors[0].astype(np.float64))
    mean = np.mean(cloud, axis=0)
    found = {"cloud": np.array(cloud) / sphere.RADIUS}
    start = _bad_start(mean / np.linalg.norm(mean), n_factors)
    for sampler, steps, n in (("geodesic", STEPS, proposals // STEPS), ("metropolis", 1, proposals)):
        # Trajectories with the step that chains begin with: larger ones, as found later, go astray from far away.
        tuning = None
        if sampler == "metropolis":
            tuning = sphere.settled(tuned.tuned(tuned.moves(sampler, STEPS, sphere.TUNING), generator(3)).tuning)
        moves, rng, path = step.moves(sampler, steps), generator(7), [start]
        points = Factors((sphere.RADIUS * start)[None].astype(np.float32), step.state.items.bias)
        for _ in range(n):
            points = step.moved(moves, points, tuning, rng).points
            path.append(points.factors[0].astype(np.float64) / sphere.RADIUS)
        found[sampler] = np.array(path)
    return found


def _bad_start(mean: np.ndarray, n_factors: int) -> np.ndarray:
    across = generator(11).standard_normal(n_factors)
    across -= (across @ mean) * mean
    return np.cos(AWAY) * mean + np.sin(AWAY) * across / np.linalg.norm(across)


def globe_picture(found: Mapping[str, np.ndarray]) -> Any:
    """Two globes, seen from half-way between the start and where the item belongs."""
    figure, panels = new_figure(2, (9.6, 5.0))
    figure.get_layout_engine().set(h_pad=0.12)
    mean = found["cloud"].mean(axis=0)
    turn = _towards(found["geodesic"][0], mean / np.linalg.norm(mean))
    for axes, sampler in zip(panels, ("metropolis", "geodesic"), strict=True):
        axes.axis("off")
        axes.set_aspect("equal")
        _draw_globe(axes)
        cloud, path = found["cloud"] @ turn.T, found[sampler] @ turn.T
        axes.scatter(cloud[:, 0], cloud[:, 1], s=9, color=PALE, alpha=0.35, linewidths=0)
        axes.plot(path[:, 0], path[:, 1], color=COLOURS[sampler], linewidth=0.9, alpha=0.75)
        own = np.unique(path[1:], axis=0)  # a refused proposal stays where it was
        axes.scatter(own[:, 0], own[:, 1], s=13, color=COLOURS[sampler], linewidths=0)
        axes.scatter(*path[0, :2], s=90, marker="x", color=INK, linewidths=2)
        steps = STEPS if sampler == "geodesic" else 1
        what = f"{len(path) - 1} trajectories of about {STEPS} steps" if steps > 1 else f"{len(path) - 1} proposals"
        axes.set_title(f"{NAMES[sampler]}: {what}", loc="center", fontsize=10.5, color=INK)
    return figure


def _towards(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Axes to the right, up, and to the viewer, who is above the way from one to the other."""
    across = end - (end @ start) * start
    across /= np.linalg.norm(across)
    angle = SEEN_FROM * np.arccos(np.clip(start @ end, -1, 1))
    out, right = np.cos(angle) * start + np.sin(angle) * across, np.cos(angle) * across - np.sin(angle) * start
    return np.array([right, np.cross(out, right), out])


def _draw_globe(axes: Any) -> None:
    angles = np.linspace(0, 2 * np.pi, 181)
    axes.plot(np.cos(angles), np.sin(angles), color=PALE, linewidth=1.1)
    # Circles of latitude and longitude that are tilted a little, or they would be straight lines.
    tilt = np.radians(20)
    lean = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    circles = [_circle(angles, np.radians(height)) for height in (-60, -30, 0, 30, 60)]
    circles += [_meridian(angles, np.radians(side)) for side in range(0, 180, 30)]
    for circle in circles:
        x, y, z = lean @ circle
        axes.plot(np.where(z > 0, x, np.nan), np.where(z > 0, y, np.nan), color=GRID, linewidth=0.9, zorder=0)


def _circle(angles: np.ndarray, height: float) -> np.ndarray:
    return np.array(
        [np.cos(angles) * np.cos(height), np.full(len(angles), np.sin(height)), np.sin(angles) * np.cos(height)]
    )


def _meridian(angles: np.ndarray, side: float) -> np.ndarray:
    return np.array([np.cos(angles) * np.cos(side), np.sin(angles), np.cos(angles) * np.sin(side)])


def components_picture(found: Mapping[str, np.ndarray]) -> Any:
    """Some components of an item, by steps: a step is one product with its matrix, whatever the sampler."""
    figure, panels = new_figure(SHOWN_COMPONENTS, (10.2, 2.9))
    away = np.abs(found["geodesic"][0] - found["cloud"].mean(axis=0))
    for axes, component in zip(panels, np.sort(np.argsort(-away)[:SHOWN_COMPONENTS]), strict=True):
        low, high = np.quantile(found["cloud"][:, component], [0.025, 0.975])
        axes.axhspan(low, high, color=GRID, zorder=0)
        for sampler, each in (("metropolis", 1), ("geodesic", STEPS)):
            path = found[sampler][:, component]
            style = {"marker": "o", "markersize": 2.6} if each > 1 else {}
            axes.plot(
                np.arange(len(path)) * each, path, color=COLOURS[sampler], linewidth=0.9, label=NAMES[sampler], **style
            )
        axes.set_title(f"component {component + 1}", loc="left", fontsize=10, color=INK)
        axes.set_xlabel("steps", color=INK)
        axes.set_ylim(-0.95, 0.95)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False, labelcolor=INK)
    return figure


def lengths(data: Path | None, n_factors: int) -> dict[str, Any]:
    """Of free items, by two kinds of penalty, and how many ratings each has."""
    train = movielens.split(data).train
    common: dict[str, Any] = {"n_factors": n_factors, "biases": False, "seed": 0, "threads": 1}
    found: dict[str, Any] = {"counts": train.by_item.counts}
    for name, own in (("weighted", {"weighting": "weighted", "regularization": WEIGHTED}), ("blended", {})):
        posterior = ts.ALS(**common, **own).fit(train).posterior_
        assert isinstance(posterior, PointPosterior)
        found[name] = np.linalg.norm(posterior.items.factors.astype(np.float64), axis=1)
    return found


def lengths_picture(found: Mapping[str, Any]) -> Any:
    """How long free items are, and which."""
    figure, (left, right) = new_figure(2, (10.2, 3.5), widths=[1, 1.35])
    own, median = found["weighted"], float(np.median(found["weighted"]))
    left.hist(own, bins=50, color=PALE)
    left.axvline(median, color=RUST, linewidth=1.5)
    left.annotate(
        f"median {median:.2f}",
        (median, left.get_ylim()[1] * 0.93),
        xytext=(6, 0),
        textcoords="offset points",
        color=RUST,
    )
    left.set_xlabel("length of an item, penalty by its ratings", color=INK)
    left.set_ylabel("items", color=INK)
    groups, places = group_of(found["counts"]), [i for i in range(1, len(LABELS))]
    for shift, (name, colour, label) in enumerate(
        (("weighted", RUST, "penalty by its ratings (Zhou et al. 2008)"), ("blended", ACCENT, "our blended penalty"))
    ):
        own = [found[name][groups == place] / np.median(found[name]) for place in places]
        means = [of.mean() for of in own]
        errors = [1.96 * of.std() / np.sqrt(len(of)) for of in own]
        right.errorbar(
            np.array(places) + 0.12 * (shift - 0.5),
            means,
            errors,
            color=colour,
            marker="os"[shift],
            markersize=5,
            label=label,
        )
    right.set_xticks(places, [LABELS[place] for place in places], fontsize=8)
    right.set_xlabel("ratings of the item", color=INK)
    right.set_ylabel("mean length / median", color=INK)
    right.legend(frameon=False, labelcolor=INK)
    right.set_ylim(0, None)
    return figure


def groups_picture(lines: Mapping[str, Mapping[str, Any]], colours: Sequence[Any], sizes: Mapping[str, Any]) -> Any:
    """RMSE by the training ratings of users and of items."""
    figure, panels = new_figure(2, (10.2, 3.9), widths=[1, 1.15])
    for axes, side in zip(panels, ("users", "items"), strict=True):
        labels = [label for label in LABELS if label in sizes[side] and label != LABELS[0]]
        for place, (name, row) in enumerate(lines.items()):
            axes.plot(
                range(len(labels)),
                [row[side][label] for label in labels],
                color=colours[place],
                marker="osD^v<>"[place],
                markersize=4.5,
                linewidth=1.2,
                label=name,
            )
        axes.set_xticks(range(len(labels)), [f"{label}\n{sizes[side][label]:,}" for label in labels], fontsize=8)
        axes.set_xlabel(f"training ratings of the {side[:-1]}; below, the number of test ratings", color=INK)
    panels[0].set_ylabel("test RMSE", color=INK)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=min(5, len(names)), frameon=False, labelcolor=INK)
    return figure


def radii_picture(found: Mapping[str, Any]) -> Any:
    import matplotlib as mpl

    shown = {f"{times} x median": row for times, row in found["radii"].items()}
    shade = mpl.colormaps["viridis"](np.linspace(0, 0.92, len(shown)))
    return groups_picture(shown, list(shade), found["test ratings"])


def quality_picture(found: Mapping[str, Any], n_factors: int) -> Any:
    rows = found[f"D={n_factors}"]
    lines = {
        "ALS, no biases": rows["ALS, no biases"],
        "sphere, uniform, no biases": rows[sphere.UNIFORM],
        "BPMF, no biases": rows[sphere.FREE + sphere.WITHOUT],
        "sphere, von Mises-Fisher, no biases": rows[sphere.SPHERE + sphere.WITHOUT],
    }
    return groups_picture(lines, [PALE, RUST, INK, ACCENT], found["test ratings"])


def mixing_picture(found: Mapping[str, Any], case: str) -> Any:
    """Correlations of the slowest component by lag, and what an effective sample costs."""
    rows = found["items"][case]
    figure, (left, right) = new_figure(2, (9.6, 3.5))
    figure.get_layout_engine().set(w_pad=0.12)
    for sampler, marker in (("metropolis", "s"), ("slice", "D"), ("geodesic", "o")):
        colour, label = COLOURS[sampler], NAMES[sampler]
        own = rows[f"{sampler}, {STEPS}"]["correlations of the least component"]
        left.plot(own[: SHOWN_LAGS + 1], color=colour, marker=marker, markersize=3, linewidth=1.4, label=label)
        cost = [1000 / rows[f"{sampler}, {n}"]["effective a second, median item"] for n in sphere.STEPS]
        right.plot(sphere.STEPS, cost, color=colour, marker=marker, markersize=5.5, linewidth=1.4)
    left.set_xlabel(f"moves of {STEPS} steps apart", color=INK)
    left.set_ylabel("correlation, slowest component", color=INK)
    right.set_yscale("log")
    right.set_ylim(25, 900)
    right.set_yticks((30, 50, 100, 200, 400, 800), ("30", "50", "100", "200", "400", "800"))
    right.minorticks_off()
    right.set_xticks(sphere.STEPS, [str(n) for n in sphere.STEPS])
    right.set_xlabel("steps of a move", color=INK)
    right.set_ylabel("ms for an effective sample", color=INK)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False, labelcolor=INK)
    return figure


def kept(name: str) -> Any:
    """What sphere.py has left."""
    return json.loads((harness.RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    options = harness.arguments(
        __doc__.splitlines()[0],
        figures={"type": Path, "default": IMAGES, "help": "folder to draw into (default: docs/images)"},
        only={"nargs": "*", "help": "names of figures"},
    )
    drawn = {
        "sphere-globe": lambda: globe_picture(paths(options.data, 3, GLOBE_PROPOSALS)),
        "sphere-components": lambda: components_picture(paths(options.data, 20, PROPOSALS)),
        "sphere-lengths": lambda: lengths_picture(lengths(options.data, 50)),
        "sphere-groups": lambda: quality_picture(kept("sphere_quality")["ml-1m"], 50),
        "sphere-radii": lambda: radii_picture(kept("sphere_radii")),
        "sphere-mixing": lambda: mixing_picture(kept("sphere_mixing"), "ml-1m, D = 20"),
    }
    for name in options.only or drawn:
        (options.figures / f"{name}.svg").write_bytes(to_svg(drawn[name]()))
        print(options.figures / f"{name}.svg", flush=True)


if __name__ == "__main__":
    main()
