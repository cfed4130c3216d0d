"""Shared parts of all figures: colours, panels, points with whiskers, legends, SVG, and files with their checks.

Figures are made without pyplot, so that drawing one has no global effect, and they are the same bytes
every time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tastespace.arrays import DoubleArray
from tastespace.artifact import FORMAT
from tastespace.errors import DataError, InvalidParameterError, MissingExtraError
from tastespace.evaluation.groups import Group
from tastespace.evaluation.resampling import Interval
from tastespace.manifests import MANIFEST

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure


INK, ACCENT, PALE, GRID = "#22303c", "#0f7b8a", "#8fa3ae", "#e6ebee"
RUST, SEA = "#b5562b", "#5b7f3a"
LOOKS = ((ACCENT, "o"), (RUST, "s"), (INK, "^"), (SEA, "D"), (PALE, "v"))  # one per model
# Without a salt, ids inside the file are random.
STEADY: dict[Any, Any] = {"svg.hashsalt": "tastespace", "font.size": 10.0, "font.family": "DejaVu Sans"}
COLUMNS, PANEL = 2, (5.0, 2.1)  # of a grid of panels: panels per row, and their size in inches
FORMATS = (".png", ".svg", ".pdf")
T = TypeVar("T")


@dataclass(frozen=True)
class Look:
    """The style of a model: the same in all figures."""

    colour: str
    marker: str
    is_hollow: bool = False

    @property
    def point(self) -> dict[str, Any]:
        face = "white" if self.is_hollow else self.colour
        return {"color": self.colour, "marker": self.marker, "markerfacecolor": face, "markersize": 6.5}

    @property
    def line(self) -> dict[str, Any]:
        return {"color": self.colour, "linewidth": 1.6, "linestyle": (0, (5, 2)) if self.is_hollow else "-"}


@dataclass(frozen=True)
class Picture:
    """One figure as SVG, with a text alternative."""

    name: str
    title: str
    alt: str
    svg: bytes

    @classmethod
    def of(cls, figure: Figure, name: str, title: str, words: str) -> Picture:
        """The figure in its current state; `words` follow the title."""
        return cls(name, title, title + words, to_svg(figure))


def describe(models: Mapping[str, T], words: Callable[[T], str]) -> str:
    """The description of a figure, model by model."""
    return " ".join(f"{name}: {words(found)}" for name, found in models.items())


def require_plot() -> None:
    """Refuse early, before long work, if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("Drawing figures", "plot")


def new_figure(
    n: int, size: tuple[float, float], widths: Sequence[float] | None = None, columns: int | None = None
) -> tuple[Figure, list[Axes]]:
    """An empty figure with panels side by side or row by row, in the common style."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = columns or n
    with mpl.rc_context(STEADY | {"axes.labelcolor": INK}):
        figure = Figure(figsize=size, layout="constrained")
        panels: list[Axes] = list(figure.subplots(-(-n // columns), columns, squeeze=False, width_ratios=widths).flat)
    for axes in panels[n:]:
        axes.set_axis_off()
    for axes in panels[:n]:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(PALE)
        axes.tick_params(length=0, labelcolor=INK)
        axes.grid(axis="y", color=GRID)
        axes.set_axisbelow(True)
    return figure, panels[:n]


def panel_grid(
    n: int, *, columns: int = COLUMNS, width: float = PANEL[0], height: float = PANEL[1]
) -> tuple[Figure, list[Axes]]:
    """A figure with n panels, row by row; remaining places stay empty."""
    return new_figure(n, (width * columns, height * -(-n // columns) + 0.5), columns=columns)


def set_title(axes: Axes, title: str, size: float = 11, *, x: str | None = None, y: str | None = None) -> None:
    """A title above the left end of a panel, and the names of its axes."""
    axes.set_title(title, loc="left", fontsize=size, color=INK)
    if x is not None:
        axes.set_xlabel(x)
    if y is not None:
        axes.set_ylabel(y)


def write_note(axes: Axes, text: str, at: Any, offset: tuple[float, float], **style: Any) -> None:
    """A text beside a point, offset by typographic points to the right and above."""
    axes.annotate(text, at, offset, textcoords="offset points", **{"color": INK} | style)


def colour_of(place: int) -> str:
    """The colour of a model, or chain, by its position among all of a page."""
    return LOOKS[place % len(LOOKS)][0]


Point = tuple[float, float, Interval | None]  # place, value and interval


def draw_points(axes: Axes, points: Sequence[Point], look: int, label: str, *, joined: bool = True) -> None:
    """Dots with whiskers, in the colour and shape of a model."""
    colour, marker = LOOKS[look % len(LOOKS)]
    for place, _, interval in points:
        if interval is not None:
            axes.vlines(place, *interval, color=colour, linewidth=1.5, alpha=0.75)
    places, values, style = [point[0] for point in points], [point[1] for point in points], "-" if joined else "none"
    axes.plot(places, values, marker=marker, markersize=6, color=colour, linestyle=style, linewidth=1.3, label=label)


def draw_groups(
    axes: Axes, models: Mapping[str, Sequence[Any]], measure: str, looks: Mapping[str, int], *, joined: bool = False
) -> None:
    """A measure of each non-empty group, or anything with n, measures and intervals; models side by side."""
    for place, (name, groups) in enumerate(models.items()):
        shift = (place - (len(models) - 1) / 2) * (0.12 if joined else 0.18)
        filled = [(x + shift, group) for x, group in enumerate(groups) if group.n]
        points = [(x, group.measures[measure], group.intervals.get(measure)) for x, group in filled]
        draw_points(axes, points, looks[name], name, joined=joined)


def name_groups(axes: Axes, groups: Sequence[Group], side: str) -> None:
    """Tick labels: the number of training ratings of each group, and its number of test ratings."""
    counts = (f"{group.n:,}" if group.n else "none" for group in groups)
    labels = [f"{group.label}\n{count}" for group, count in zip(groups, counts, strict=True)]
    axes.set_xticks(range(len(groups)), labels, fontsize=9)
    for label, group in zip(axes.get_xticklabels(), groups, strict=True):
        label.set_color(INK if group.n else PALE)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_xlabel(f"training ratings of the {side[:-1]}; below, the number of test ratings")


def add_legend(figure: Figure, axes: Axes, models: Iterable[str]) -> None:
    """A legend of the models, above the panels, where it covers nothing; omitted for a single model."""
    if (n := len(list(models))) > 1:
        legend_above(figure, named_handles(axes), n)


def named_handles(*panels: Axes) -> dict[str, Any]:
    """The labelled artists of panels, by label."""
    found = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in panels)
    return {name: handle for pairs in found for handle, name in pairs}


def legend_above(figure: Figure, entries: Mapping[str, Any], columns: int) -> None:
    """A legend above the panels, from artists by label."""
    style: dict[str, Any] = {"loc": "outside upper left", "frameon": False, "labelcolor": INK}
    figure.legend(list(entries.values()), list(entries), ncols=columns, **style)


def frontier(points: Iterable[T], order: Callable[[T], Any], is_better: Callable[[T, T], bool]) -> list[T]:
    """The points, in the given order, that are better than all before them."""
    best: list[T] = []
    for point in sorted(points, key=order):
        if not best or is_better(point, best[-1]):
            best.append(point)
    return best


def to_svg(figure: Figure) -> bytes:
    """The bytes of the file, the same every time."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context(STEADY):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a picture; as .svg the same bytes every time."""
    import matplotlib as mpl

    path = Path(path)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with writing(path, "write the picture", "a place to write to"), mpl.rc_context(STEADY):
        figure.savefig(path, dpi=150, metadata=metadata)
    return path


@contextmanager
def writing(file: Path, what: str = "write", expected: str = "a folder to write to") -> Iterator[None]:
    """Raise an error that names the file that could not be written, and the reason."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot {what} ({error.strerror or error})", file=file, expected=expected) from error


def check_figure(path: str | Path) -> None:
    """Refuse early, before long work, a picture that could not be drawn or written."""
    require_plot()
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"{path} is not a picture that can be drawn", expected=f"a name with {', '.join(FORMATS)}")
    if not path.resolve().parent.is_dir():
        raise DataError("the folder does not exist", file=path.resolve().parent, expected="an existing folder")
    if path.is_dir():
        raise DataError("this is a folder", file=path, expected="the name of a picture")
    _refuse_artifact(path.resolve().parent)


def prepare_folder(folder: str | Path) -> Path:
    """Create the folder if needed, and refuse early what would fail after long work."""
    require_plot()
    folder = Path(folder)
    _refuse_artifact(folder)
    with writing(folder, "make the folder"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_pictures(
    folder: Path, pictures: Sequence[Picture], *, with_file: tuple[str, str] | None = None, all_names: Any = ()
) -> list[Path]:
    """Write each picture to its own file in a folder that `prepare_folder` has created before; returns their paths.

    `with_file` is the name and the text of one more file. Where an earlier run left that file, its pictures are those
    of `all_names`, and those not drawn again are removed: they would be taken for a part of this run.
    """
    contents = {f"{picture.name}.svg": picture.svg for picture in pictures}
    # Without that file, a picture of the same name is not ours.
    if with_file is not None and (folder / with_file[0]).exists():
        for name in {f"{name}.svg" for name in all_names} - contents.keys():
            with writing(folder / name):
                (folder / name).unlink(missing_ok=True)
    contents |= {} if with_file is None else {with_file[0]: with_file[1].encode()}
    for name, content in contents.items():
        with writing(folder / name):
            (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def _refuse_artifact(folder: Path) -> None:
    """Refuse figures in a folder with a model, or below it."""
    for place in (folder.resolve(), *folder.resolve().parents):
        try:  # A manifest of tastespace, damaged or not.
            holds_model = FORMAT in (place / MANIFEST).read_text(errors="replace")
        except OSError:
            continue
        if holds_model:
            raise DataError(
                f"{place} holds a model, which could not be replaced with other files beside it",
                expected="another folder for the figures",
            )


PIXELS = 240  # of the shading, per side
MERIDIANS, PARALLELS = 12, 5
BEHIND = 0.15  # opacity of the far side


def draw_globe(
    axes: Axes,
    points: ArrayLike,
    *,
    log_density: Callable[[DoubleArray], ArrayLike] | None = None,
    radius: float = 1.0,
    towards: tuple[float, float, float] = (1.0, 0.6, 0.5),
    path: int = 0,
) -> None:
    """Points (n x 3) on a globe, seen from the direction `towards`, shaded by the density if there is one.

    The first `path` points are joined by a line: the path of a chain from its start. The far side is drawn
    faintly.
    """
    places = np.asarray(points, np.float64)
    if places.ndim != 2 or places.shape[1] != 3:
        raise InvalidParameterError(f"points have the shape {places.shape}; expected n x 3")
    frame = _frame(towards)
    if log_density is not None:
        _shade(axes, log_density, radius, frame)
    _grid(axes, frame)
    seen = places @ frame.T / radius  # right, up, towards the viewer
    right, up, near = seen[path:].T
    for side, strength in ((near < 0, BEHIND), (near >= 0, 0.75)):
        axes.scatter(right[side], up[side], s=9, color=INK, alpha=strength, linewidths=0, zorder=2)
    if path:
        _line(axes, seen[:path])
    angles = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(angles), np.sin(angles), color=INK, linewidth=1)
    axes.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), aspect="equal")
    axes.set_axis_off()


def _frame(towards: tuple[float, float, float]) -> DoubleArray:
    """Rows: to the right, up, and towards the viewer."""
    near = np.asarray(towards, np.float64)
    length = float(np.linalg.norm(near))
    if near.shape != (3,) or not length > 0:
        raise InvalidParameterError(f"towards is {towards!r}; expected a direction: three numbers, not all 0")
    near = near / length
    # North is up, unless the view is at a pole.
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
    """Meridians and parallels on the near side."""
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


def _line(axes: Axes, seen: DoubleArray) -> None:
    """The path of a chain, with a ring at its start; cut where it is on the far side."""
    axes.plot(seen[:, 0], seen[:, 1], color=RUST, alpha=2 * BEHIND, linewidth=0.8, zorder=3)
    front = np.where(seen[:, 2:] >= 0, seen, np.nan)
    axes.plot(front[:, 0], front[:, 1], color=RUST, linewidth=1.2, marker="o", markersize=2.5, zorder=4)
    filling = "white" if seen[0, 2] >= 0 else "none"
    axes.scatter(seen[:1, 0], seen[:1, 1], s=42, linewidths=1.5, zorder=5, facecolors=filling, edgecolors=RUST)
