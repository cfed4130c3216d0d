"""An evaluation as one self-contained page: figures, each with a description and its table, and all measures."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from tastespace.errors import InvalidParameterError
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import UNDEFINED, display_name, figure
from tastespace.evaluation.significance import Comparisons, Verdict
from tastespace.report import evaluation_figures as draw
from tastespace.report import page
from tastespace.report.plotting import Picture, prepare_folder, write_pictures
from tastespace.tables import TextTable

PAGE = "evaluation.html"
STYLE = Path(__file__).with_name("evaluation.css")
Section = tuple[Picture, list[TextTable]]  # a picture with the tables of its figures
# All file names that may be written, so that those of an earlier run can be told from other files.
FIGURES = (
    *("errors-by-users", "errors-by-items", "found-by-users", "found-by-items", "lists"),
    *("coverage", "pit", "confidence", "reliability", "differences"),
)


def write_evaluation(
    reports: Mapping[str, Report],
    folder: str | Path,
    *,
    comparisons: Comparisons | None = None,
    notes: Mapping[str, Any] | None = None,
    verdicts: Sequence[Verdict] = (),
) -> Path:
    """Write figures (SVG) and `evaluation.html`, which holds them all, to a folder; returns the path of the page.

    `reports` has one or several reports by model name. `comparisons`, of the first two of them, are drawn as well.
    `notes` are shown at the top of the page, such as ``{"test file": "test.csv", "seed": 0}``, and so are `verdicts`
    from `find_best`. Figures that an earlier evaluation left in the folder are replaced
    or removed. Needs the extra `plot`.
    """
    _check_reports(reports)
    if comparisons is not None and not isinstance(comparisons, Comparisons):
        raise InvalidParameterError(f"comparisons is {type(comparisons).__name__}; expected compare_reports' result")
    if comparisons is not None and len(reports) < 2:
        raise InvalidParameterError("comparisons are of two models, and there is one report; expected both reports")
    folder = prepare_folder(folder)
    drawn = _pictures(reports, comparisons)
    content = _page(reports, drawn, notes or {}, verdicts)
    return write_pictures(folder, [each for each, _ in drawn], with_file=(PAGE, content), all_names=FIGURES)[-1]


def _check_reports(reports: Any) -> None:
    if not isinstance(reports, Mapping):
        raise InvalidParameterError(f"reports is {type(reports).__name__}; expected {{name: report}}")
    if not reports:
        raise InvalidParameterError("there is no report to draw; expected {name: report}")
    for name, report in reports.items():
        if not isinstance(name, str) or not isinstance(report, Report):
            raise InvalidParameterError(
                f"reports has {type(report).__name__} for {name!r}; expected names, and reports that evaluate has made"
            )


def _pictures(reports: Mapping[str, Report], comparisons: Comparisons | None) -> list[Section]:
    """Each picture with the tables of its figures."""
    drawn: list[Section] = []
    looks = {name: place for place, name in enumerate(reports)}  # the same in all figures

    def add(tables: Mapping[str, Sequence[TextTable]], picture: Callable[..., Picture], *of: Any) -> None:
        """Add a picture with the tables of its models, if there are any."""
        if tables:
            titled = [replace(table, title=f"{name}: {table.title}") for name, own in tables.items() for table in own]
            drawn.append((picture(*of), titled))

    for side in ("users", "items"):
        wrong = {name: report for name, report in reports.items() if report.rating and side in report.groups}
        add(
            {name: [report.groups_table(side)] for name, report in wrong.items()},
            draw.errors_picture,
            wrong,
            side,
            looks,
        )
    for side in ("users", "items"):
        listed = {name: report for name, report in reports.items() if any(one.n for one in report.found.get(side, ()))}
        add(
            {name: [report.found_table(side)] for name, report in listed.items()},
            draw.found_picture,
            listed,
            side,
            looks,
        )
    ranked = {name: report for name, report in reports.items() if report.lists is not None and report.lists.users}
    add({name: [report.lists_table()] for name, report in ranked.items()}, draw.lists_picture, ranked)
    # Only models that provide uncertainty.
    sure = {name: report.calibration for name, report in reports.items() if report.calibration is not None}
    held = {name: [found.coverage_table(), *map(found.groups_table, found.groups)] for name, found in sure.items()}
    add(held, draw.coverage_picture, sure, looks)
    add({name: [found.pit_table()] for name, found in sure.items()}, draw.pit_picture, sure, looks)
    add({name: [found.confidence_table()] for name, found in sure.items()}, draw.confidence_picture, sure, looks)
    reliable = {name: report.reliability for name, report in reports.items() if report.reliability is not None}
    add({name: [found.table()] for name, found in reliable.items()}, draw.reliability_picture, reliable, looks)
    if comparisons is not None:
        first, second = list(reports)[:2]
        drawn.append((draw.differences_picture(comparisons, first, second), [comparisons.table(first, second)]))
    return drawn


def _summary(reports: Mapping[str, Report]) -> TextTable:
    """One row per model: the main measures, those of lists at the middle length."""
    names = (name for report in reports.values() for name in (*report.rating, *report.order) if "@" not in name)
    measures = list(dict.fromkeys(names))
    made = next((report.lists for report in reports.values() if report.lists is not None), None)
    if made is not None:
        measures += [f"ndcg@{made.middle}", f"recall@{made.middle}", f"coverage@{made.middle}", "auc"]

    def cell(report: Report, name: str) -> str:
        return figure(report[name], report.intervals.get(name)) if name in report.measures else UNDEFINED

    rows = tuple((name, *(cell(report, each) for each in measures)) for name, report in reports.items())
    return TextTable("Main measures", ("model", *map(display_name, measures)), rows)


def _notes(reports: Mapping[str, Report], notes: Mapping[str, Any]) -> str:
    """The protocol of the evaluation, as far as it is known."""
    made = [report.lists for report in reports.values() if report.lists is not None]
    facts = {
        "test ratings": [f"{report.n:,} ({report.cold:,} cold)" for report in reports.values()],
        "relevant": [lists.relevant_text() for lists in made],
        "lists": [f"of {lists.users_text()}" for lists in made],
    }
    known = {str(name): str(value) for name, value in notes.items()}
    for name, values in facts.items():
        if values:  # Usually the same for all models; otherwise all are shown. A note of this name takes precedence.
            known.setdefault(name, "; ".join(dict.fromkeys(values)))
    terms = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in known.items())
    return f"<dl>\n{terms}\n</dl>"


def _page(
    reports: Mapping[str, Report], drawn: list[Section], notes: Mapping[str, Any], verdicts: Sequence[Verdict]
) -> str:
    said = "\n".join(f"<p>{escape(str(verdict))}</p>" for verdict in verdicts)
    sections = "\n".join(_section(picture, tables) for picture, tables in drawn)
    heading = f"Evaluation of {escape(' and '.join(reports))}"
    head = f"<title>{heading}</title>\n<style>\n{STYLE.read_text()}</style>"
    body = f"""<main>
<h1>{heading}</h1>
{_notes(reports, notes)}
{_summary(reports).to_html()}
{said}
<p>In brackets, and as whiskers: 95 % confidence intervals from resampled users.</p>
{sections}
</main>"""
    return page.document(head, body)


def _section(picture: Picture, tables: list[TextTable]) -> str:
    data = base64.b64encode(picture.svg).decode()
    shown = "\n".join(table.to_html() for table in tables)
    return f"""<section>
<h2>{escape(picture.title)}</h2>
<figure>
<img src="data:image/svg+xml;base64,{data}" alt="{escape(picture.alt)}">
</figure>
{shown}
</section>"""
