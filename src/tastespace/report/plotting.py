"""What all figures share: colours, panels, points with whiskers, legends, SVG, and files with their checks.

Figures are made without pyplot, so that drawing one changes nothing for others who draw, and they are the same bytes
every time.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tastespace.artifact import FORMAT, MANIFEST
from tastespace.errors import DataError, MissingExtraError
from tastespace.evaluation.groups import Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, ACCENT, PALE, GRID = "#22303c", "#0f7b8a", "#8fa3ae", "#e6ebee"
RUST, SEA = "#b5562b", "#5b7f3a"
LOOKS = ((ACCENT, "o"), (RUST, "s"), (INK, "^"), (SEA, "D"), (PALE, "v"))  # one a model
# Without a salt, names inside the file are drawn at random.
STEADY: dict[Any, Any] = {"svg.hashsalt": "tastespace", "font.size": 10.0, "font.family": "DejaVu Sans"}
COLUMNS, PANEL = 2, (5.0, 2.1)  # of a grid of panels: how many side by side, and their size in inches
FORMATS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Picture:
    """One figure as SVG, with the words for those who do not see it."""

    name: str
    title: str
    alt: str
    svg: bytes

    @classmethod
    def of(cls, figure: Figure, name: str, title: str, words: str) -> Picture:
        """The figure as it is now; `words` go on after the title."""
        return cls(name, title, title + words, to_svg(figure))


def require_plot() -> None:
    """Refuse early, before long work, if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("Drawing figures", "plot")


def new_figure(
    n_panels: int, size: tuple[float, float], widths: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """An empty figure with panels side by side, in the looks of all our figures."""
    return _styled(1, n_panels, size, n_panels, width_ratios=widths)


def panel_grid(
    n: int, *, columns: int = COLUMNS, width: float = PANEL[0], height: float = PANEL[1]
) -> tuple[Figure, list[Axes]]:
    """A figure with n panels, row by row; places that are left over stay empty."""
    rows = -(-n // columns)
    return _styled(rows, columns, (width * columns, height * rows + 0.5), n)


def _styled(rows: int, columns: int, size: tuple[float, float], n: int, **more: Any) -> tuple[Figure, list[Axes]]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STEADY | {"axes.labelcolor": INK}):
        figure = Figure(figsize=size, layout="constrained")
        panels: list[Axes] = list(figure.subplots(rows, columns, squeeze=False, **more).flat)
    for axes in panels[n:]:
        axes.set_axis_off()
    for axes in panels[:n]:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(PALE)
        axes.tick_params(length=0, labelcolor=INK)
        axes.grid(axis="y", color=GRID)
        axes.set_axisbelow(True)
    return figure, panels[:n]


def set_title(axes: Axes, title: str, size: float = 11, *, x: str | None = None, y: str | None = None) -> None:
    """A title above the left end of a panel, and the names of its axes."""
    axes.set_title(title, loc="left", fontsize=size, color=INK)
    if x is not None:
        axes.set_xlabel(x)
    if y is not None:
        axes.set_ylabel(y)


def write_note(axes: Axes, text: str, at: Any, offset: tuple[float, float], **style: Any) -> None:
    """A text beside a point: so many points of print to the right and above."""
    axes.annotate(text, at, offset, textcoords="offset points", **{"color": INK} | style)


def colour_of(place: int) -> str:
    """The colour of a model, or chain, by its place among all of a page."""
    return LOOKS[place % len(LOOKS)][0]


def draw_points(
    axes: Axes,
    places: Sequence[float],
    values: Sequence[float],
    intervals: Sequence[Any],
    look: int,
    label: str,
    *,
    joined: bool = True,
) -> None:
    """Dots with whiskers, in the colour and shape of a model."""
    colour, marker = LOOKS[look % len(LOOKS)]
    for place, interval in zip(places, intervals, strict=True):
        if interval is not None:
            axes.vlines(place, *interval, color=colour, linewidth=1.5, alpha=0.75)
    style = "-" if joined else "none"
    axes.plot(places, values, marker=marker, markersize=6, color=colour, linestyle=style, linewidth=1.3, label=label)


def draw_groups(
    axes: Axes, models: Mapping[str, Sequence[Group]], measure: str, looks: Mapping[str, int] | None = None
) -> None:
    """A measure of each group that is not empty, the models side by side; `looks` where not in their order."""
    for place, (name, groups) in enumerate(models.items()):
        filled = [x for x, group in enumerate(groups) if group.n]
        values = [groups[x].measures[measure] for x in filled]
        spans = [groups[x].intervals.get(measure) for x in filled]
        shift, look = (place - (len(models) - 1) / 2) * 0.18, place if looks is None else looks[name]
        draw_points(axes, [x + shift for x in filled], values, spans, look, name, joined=False)


def name_groups(axes: Axes, groups: Sequence[Group], side: str) -> None:
    """Below the axis: how many training ratings those of a group have, and how many test ratings there are."""
    counts = (f"{group.n:,}" if group.n else "none" for group in groups)
    labels = [f"{group.label}\n{count}" for group, count in zip(groups, counts, strict=True)]
    axes.set_xticks(range(len(groups)), labels, fontsize=9)
    for label, group in zip(axes.get_xticklabels(), groups, strict=True):
        label.set_color(INK if group.n else PALE)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_xlabel(f"training ratings of the {side[:-1]}; below, the number of test ratings")


def add_legend(figure: Figure, axes: Axes, models: Iterable[str]) -> None:
    """Which model is which, above everything, where it covers nothing; not needed for one alone."""
    if (n := len(list(models))) > 1:
        handles, labels = axes.get_legend_handles_labels()
        legend_above(figure, dict(zip(labels, handles, strict=True)), n)


def legend_above(figure: Figure, entries: Mapping[str, Any], columns: int) -> None:
    """A legend above everything, of what is drawn by the name it has."""
    style: dict[str, Any] = {"loc": "outside upper left", "frameon": False, "labelcolor": INK}
    figure.legend(list(entries.values()), list(entries), ncols=columns, **style)


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
    """Say which file could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot {what} ({error.strerror or error})", file=file, expected=expected) from error


def check_figure(path: str | Path) -> None:
    """Refuse early, before long work, a picture that could not be drawn or written."""
    require_plot()
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"{path} is no picture that can be drawn", expected=f"a name with {', '.join(FORMATS)}")
    if not path.resolve().parent.is_dir():
        raise DataError("there is no such folder", file=path.resolve().parent, expected="one that is there")
    if path.is_dir():
        raise DataError("this is a folder", file=path, expected="the name of a picture")
    _refuse_artifact(path.resolve().parent)


def prepare_folder(folder: str | Path) -> Path:
    """Make the folder if need be, and refuse early what would fail after long work."""
    require_plot()
    folder = Path(folder)
    _refuse_artifact(folder)
    with writing(folder, "make the folder"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_pictures(
    folder: Path, pictures: Sequence[Picture], *, with_file: tuple[str, str] | None = None, all_names: Any = ()
) -> list[Path]:
    """Write each to a file of its own in a folder, which `prepare_folder` has made before they were drawn; their paths.

    `with_file` is the name and the text of one more file. Where an earlier run left that file, its pictures are those
    of `all_names`, and what is not drawn again is removed: it would be taken for a part of this one.
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
        try:  # A manifest that speaks of us, damaged or not.
            holds_model = FORMAT in (place / MANIFEST).read_text(errors="replace")
        except OSError:
            continue
        if holds_model:
            raise DataError(
                f"{place} holds a model, which could not be replaced with other files beside it",
                expected="another folder for the figures",
            )
