"""Points on the sphere in three dimensions, as they are seen from afar: what samplers on spheres are looked at with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.report.plotting import INK, PALE, RUST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PIXELS = 240  # of the shading, from side to side
MERIDIANS, PARALLELS = 12, 5
BEHIND = 0.15  # how much is seen of what lies on the other side


def draw_globe(
    axes: Axes,
    points: ArrayLike,
    *,
    log_density: Callable[[DoubleArray], ArrayLike] | None = None,
    radius: float = 1.0,
    towards: tuple[float, float, float] = (1.0, 0.6, 0.5),
    path: int = 0,
) -> None:
    """Points (n x 3) on a globe that turns its side `towards` to us, shaded by the density if there is one.

    The first `path` of the points are joined by a line: how a chain came from its start. What lies on the other side
    shines through faintly.
    """
    places = np.asarray(points, np.float64)
    if places.ndim != 2 or places.shape[1] != 3:
        raise InvalidParameterError(f"points have the shape {places.shape}; expected n x 3")
    frame = _frame(towards)
    if log_density is not None:
        _shade(axes, log_density, radius, frame)
    _grid(axes, frame)
    seen = places @ frame.T / radius  # right, up, towards us
    _dots(axes, seen[path:])
    _line(axes, seen[:path])
    angles = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(angles), np.sin(angles), color=INK, linewidth=1)
    axes.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), aspect="equal")
    axes.set_axis_off()


def _frame(towards: tuple[float, float, float]) -> DoubleArray:
    """Rows: to the right, up, and towards us."""
    near = np.asarray(towards, np.float64)
    length = float(np.linalg.norm(near))
    if near.shape != (3,) or not length > 0:
        raise InvalidParameterError(f"towards is {towards!r}; expected a direction: three numbers, not all 0")
    near = near / length
    # North is up, unless we look at a pole.
    up = np.array([0.0, 0.0, 1.0]) if abs(near[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
    right = np.cross(up, near)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(near, right), near])


def _shade(axes: Axes, log_density: Callable[[DoubleArray], ArrayLike], radius: float, frame: DoubleArray) -> None:
    """Darker where the density is higher."""
    from matplotlib.colors import LinearSegmentedColormap

    across, up = np.meshgrid(np.linspace(-1, 1, PIXELS), np.linspace(-1, 1, PIXELS))
    squares = across**2 + up**2
    inside = squares < 1
    seen = np.stack([across, up, np.sqrt(np.where(inside, 1 - squares, 0))], axis=-1)
    value = np.asarray(log_density((radius * seen @ frame).reshape(-1, 3)), np.float64).reshape(squares.shape)
    shade = np.where(inside, np.exp(value - value[inside].max()), np.nan)
    colours = LinearSegmentedColormap.from_list("density", ["#ffffff", "#bfe0e3", "#6fb3bb"])
    axes.imshow(shade, extent=(-1, 1, -1, 1), origin="lower", cmap=colours, interpolation="bilinear", zorder=0)


def _grid(axes: Axes, frame: DoubleArray) -> None:
    """Meridians and parallels, where they are on our side."""
    turn = np.linspace(-np.pi, np.pi, 181)
    lines = [
        np.stack([np.cos(turn) * np.cos(at), np.cos(turn) * np.sin(at), np.sin(turn)], axis=1)
        for at in np.arange(MERIDIANS // 2) * 2 * np.pi / MERIDIANS
    ]
    for height in np.linspace(-np.pi / 2, np.pi / 2, PARALLELS + 2)[1:-1]:
        ring = np.stack([np.cos(turn), np.sin(turn), np.full_like(turn, np.tan(height))], axis=1)
        lines.append(ring * np.cos(height))
    for line in lines:
        seen = line @ frame.T
        seen[seen[:, 2] < 0] = np.nan
        axes.plot(seen[:, 0], seen[:, 1], color=PALE, linewidth=0.5, alpha=0.6, zorder=1)


def _dots(axes: Axes, seen: DoubleArray) -> None:
    for side, strength in ((seen[:, 2] < 0, BEHIND), (seen[:, 2] >= 0, 0.75)):
        axes.scatter(seen[side, 0], seen[side, 1], s=9, color=INK, alpha=strength, linewidths=0, zorder=2)


def _line(axes: Axes, seen: DoubleArray) -> None:
    """The way of a chain, with a ring where it began; cut where it goes behind."""
    if len(seen) == 0:
        return
    axes.plot(seen[:, 0], seen[:, 1], color=RUST, alpha=2 * BEHIND, linewidth=0.8, zorder=3)
    front = np.where(seen[:, 2:] >= 0, seen, np.nan)
    axes.plot(front[:, 0], front[:, 1], color=RUST, linewidth=1.2, marker="o", markersize=2.5, zorder=4)
    filling = "white" if seen[0, 2] >= 0 else "none"
    axes.scatter(seen[:1, 0], seen[:1, 1], s=42, linewidths=1.5, zorder=5, facecolors=filling, edgecolors=RUST)
