"""An evaluation as one page that needs nothing else: figures, each with words and its table, and all measures."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path

from tastespace.errors import DataError, InvalidParameterError
from tastespace.evaluation.compare import Comparisons
from tastespace.evaluation.report import Report
from tastespace.evaluation.tables import Table
from tastespace.report.evaluation_figures import (
    Picture,
    differences_picture,
    errors_picture,
    lists_picture,
    require_plot,
)

PAGE = "evaluation.html"
STYLE = """
:root { --ink: #22303c; --accent: #0f7b8a; --grid: #e6ebee; }
body { color: var(--ink); background: #fff; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; border-bottom: 3px solid var(--accent); padding-bottom: .4rem; }
h2 { font-size: 1.2rem; margin-top: 2.5rem; }
figure { margin: 0; }
img { width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .15rem .8rem .15rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid); }
th:first-child { text-align: left; }
tbody th { font-weight: normal; }
"""


def write_evaluation(
    reports: Mapping[str, Report], folder: str | Path, *, comparisons: Comparisons | None = None
) -> Path:
    """Write figures (SVG) and `evaluation.html`, which holds them all, to a folder; the path of the page.

    `reports` are those of one or several models by name. `comparisons`, of the first two of them, are drawn as well.
    Needs the extra `plot`.
    """
    if not reports:
        raise InvalidParameterError("there is no report to draw; expected {name: report}")
    if comparisons is not None and len(reports) < 2:
        raise InvalidParameterError("comparisons are of two models, and there is one report; expected both reports")
    folder = prepare_folder(folder)
    drawn = _pictures(reports, comparisons)
    try:
        for picture, _ in drawn:
            (folder / f"{picture.name}.svg").write_bytes(picture.svg)
        (folder / PAGE).write_text(_page(reports, drawn), encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"cannot write ({error.strerror or error})", file=folder, expected="a folder to write to"
        ) from error
    return folder / PAGE


def prepare_folder(folder: str | Path) -> Path:
    """Make the folder if need be, and refuse early what would fail after long work."""
    require_plot()
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the folder ({error.strerror or error})", file=folder, expected="a folder to write to"
        ) from error
    return folder


def _pictures(reports: Mapping[str, Report], comparisons: Comparisons | None) -> list[tuple[Picture, list[Table]]]:
    """Each picture with the tables of its figures."""
    drawn: list[tuple[Picture, list[Table]]] = []
    for side in ("users", "items"):
        grouped = {name: report for name, report in reports.items() if side in report.groups}
        if grouped:
            tables = [_of(name, report.groups_table(side)) for name, report in grouped.items()]
            drawn.append((errors_picture(grouped, side), tables))
    ranked = {name: report for name, report in reports.items() if report.lists is not None and report.lists.users}
    if ranked:
        drawn.append((lists_picture(ranked), [_of(name, report.lists_table()) for name, report in ranked.items()]))
    if comparisons is not None:
        first, second = list(reports)[:2]
        drawn.append((differences_picture(comparisons, first, second), [comparisons.table(first, second)]))
    return drawn


def _of(name: str, table: Table) -> Table:
    return replace(table, title=f"{name}: {table.title}")


def _page(reports: Mapping[str, Report], drawn: list[tuple[Picture, list[Table]]]) -> str:
    summary = "\n".join(
        f"<p><strong>{escape(name)}</strong>: {escape(str(report))}</p>" for name, report in reports.items()
    )
    sections = "\n".join(_section(picture, tables) for picture, tables in drawn)
    heading = f"Evaluation of {escape(' and '.join(reports))}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{heading}</h1>
{summary}
<p>In brackets, and as whiskers: 95 % confidence intervals, users being resampled.</p>
{sections}
</main>
</body>
</html>
"""


def _section(picture: Picture, tables: list[Table]) -> str:
    data = base64.b64encode(picture.svg).decode()
    shown = "\n".join(_table(table) for table in tables)
    return f"""<section>
<h2>{escape(picture.title)}</h2>
<figure>
<img src="data:image/svg+xml;base64,{data}" alt="{escape(picture.alt)}">
</figure>
{shown}
</section>"""


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in table.rows
    )
    return f"""<div class="wide"><table>
<caption>{escape(table.title)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>"""
