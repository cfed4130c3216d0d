"""One or several models as a self-contained HTML page that can be kept or sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import IntArray
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import HANDFUL
from tastespace.errors import DataError, InvalidParameterError
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.report import Report
from tastespace.evaluation.side_by_side import evaluate_popular
from tastespace.evaluation.significance import POPULAR, find_best
from tastespace.models import Recommender
from tastespace.models.base.attribution import Explanation
from tastespace.models.base.query import Query
from tastespace.models.base.results import Ranking, rounded
from tastespace.progress import Observer, Progress, silent
from tastespace.report import page
from tastespace.report.model_story import model_story, plain
from tastespace.report.plotting import writing
from tastespace.report.taste_map import METHODS, MIN_ITEMS, map_content, place_content, taste_map, user_place
from tastespace.storage import replace_file
from tastespace.version import __version__

PLAIN = (str, int)  # most attributes; yes and no are integers
REASONS = 3  # number of ratings shown in favour of an item


def listed(recommender: Recommender, request: Query, n: int) -> dict[str, Any]:
    """The best items for the one user of a request, with reasons, and the threshold from which a rating is liked."""
    ranking = recommender.recommend(request, n)
    is_any = (ranking.item_rows >= 0).any()
    explanation = recommender.explain(request, ranking.item_ids.drop_nulls()) if is_any else None
    return {
        "items": entries(recommender.ratings_, ranking, explanation),
        **{name: rounded(values[0]) for name, values in ranking.liking().items()},
    }


def entries(ratings: Ratings, ranking: Ranking, explanation: Explanation | None) -> list[dict[str, Any]]:
    """The entries of the first list of a ranking."""
    found = [{"rank": rank, **entry} for rank, entry in enumerate(ranking.entries_of(0, levels=True), 1)]
    about = attributes_of(ratings, ranking.item_rows[0][: len(found)])
    for place, entry in enumerate(found):
        entry |= {"item": str(entry["item"]), "attributes": about[place]}
        if explanation is not None:
            entry["because"] = _reasons(explanation, place)
    return found


def attributes_of(ratings: Ratings, rows: IntArray) -> list[dict[str, Any]]:
    """Attributes of items beside their titles, one entry per item."""
    about = ratings.item_attributes
    if about is None:
        return [{} for _ in rows]
    if len(rows) <= HANDFUL:
        found = [about.row(row, named=True) for row in rows.tolist()]
    else:
        found = about[rows].rows(named=True)
    return [{name: _value(cell) for name, cell in row.items()} for row in found]


def _value(cell: Any) -> Any:
    """Convert a value to one that JSON can hold."""
    if cell is None or isinstance(cell, PLAIN):
        return cell
    if isinstance(cell, pl.Series):
        cell = cell.to_list()
    if isinstance(cell, list):
        return [_value(part) for part in cell]
    if isinstance(cell, float):
        return cell if isfinite(cell) else None
    return str(cell)


def _reasons(explanation: Explanation, place: int) -> list[dict[str, Any]]:
    """The user's ratings that contribute most to an item, then the one that counts most against it."""
    effects = explanation.contributions[place]
    order = np.argsort(-effects, kind="stable")
    chosen = [row for row in order[:REASONS] if effects[row] > 0]
    chosen += [row for row in order[-1:] if effects[row] < 0]
    titles = explanation.rated_titles
    return [
        {
            "item": str(explanation.rated_ids[int(row)]),
            "title": None if titles is None else titles[int(row)],
            "rating": rounded(explanation.ratings[row]),
            "contribution": rounded(effects[row]),
        }
        for row in chosen
    ]


LIST_LENGTH = 10
EXAMPLES = 2  # users whose lists are shown by default


@dataclass(frozen=True, eq=False)
class Shown:
    """A model of the report: its name there, and the manifest of its artifact."""

    name: str
    recommender: Recommender
    manifest: Mapping[str, Any]


def write_report(
    models: list[Shown],
    path: str | Path,
    *,
    users: list[str] | None = None,
    test: Ratings | None = None,
    method: str = "pca",
    observer: Observer = silent,
) -> Path:
    """Write descriptions of the models, maps of their items and some lists to one HTML file; returns its path.

    `users` are those whose lists are shown: by default two of the first model, one with many ratings and one with few.
    With `test` all models are measured on the same ratings; else the measures are those of their artifacts. `method` is
    that of the maps, "pca" or "tsne".
    """
    if not models:
        raise InvalidParameterError("there is no model to report on; expected at least one")
    if method not in METHODS:
        raise InvalidParameterError(f"the map is {method!r}; expected one of {', '.join(METHODS)}")
    path = check_path(path)
    named = users if users is not None else _examples(models[0].recommender)
    total, contents = len(models), []
    reports: dict[str, Report] = {}
    for place, shown in enumerate(models):
        observer(Progress(f"report on {shown.name}", place, total, {}))
        contents.append(_content(shown, named, method))
        if test is not None:
            # The relevant items are the same for all models, whatever each was fitted on.
            relevant = next((report.relevance for report in reports.values()), None)
            report = evaluate(shown.recommender, test, relevant=relevant, bootstrap=0)
            popular = evaluate_popular(shown.recommender, test, report)
            measured = report.to_dict() | ({} if popular is None else {POPULAR: popular.to_dict()})
            contents[-1]["story"]["measures"] = {"test": plain(measured)}
            reports |= {shown.name: report} | ({} if popular is None or POPULAR in reports else {POPULAR: popular})
    observer(Progress("report", total, total, {}))
    notes = {"made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), "by": f"tastespace {__version__}"}
    if test is not None:
        notes["measured on"] = f"{len(test):,} ratings"
        notes |= {f"best for {each.purpose}": str(each).partition(": ")[2] for each in find_best(reports)}
    with writing(path, expected="a place to write to"), replace_file(path) as stream:
        stream.write(_html({"models": contents, "notes": notes}).encode())
    return path


def check_path(path: str | Path) -> Path:
    """Refuse early a path where no file can be written."""
    path = Path(path)
    if path.is_dir():
        raise DataError("is a folder", file=path, expected="the name of a file, such as report.html")
    if not path.resolve().parent.is_dir():
        raise DataError("is in a folder that is not there", file=path, expected="a folder that is; create it first")
    return path


def _content(shown: Shown, users: list[str], method: str) -> dict[str, Any]:
    recommender = shown.recommender
    story = model_story(recommender, shown.manifest)
    has_map = recommender.posterior_.embeddings is not None and recommender.ratings_.n_items >= MIN_ITEMS
    drawn = taste_map(recommender, method) if has_map else None
    lists = []
    for user in users:
        request = recommender.about([user])
        if request.cold[0]:
            continue
        place = None if drawn is None else place_content(user_place(drawn, request))
        lists.append({"user": user, **listed(recommender, request, LIST_LENGTH), "place": place})
    shown_map = None if drawn is None else map_content(recommender, drawn)
    return {"name": shown.name, "story": story, "map": shown_map, "lists": lists}


def _examples(recommender: Recommender) -> list[str]:
    """A user with many ratings and one with few; empty if ratings were not kept."""
    ratings = recommender.ratings_
    if not len(ratings):
        return []
    order = ratings.by_user.counts.argsort(kind="stable")
    chosen = [int(order[len(order) * 9 // 10]), int(order[len(order) // 10])]
    names = ratings.users.ids.cast(pl.String)
    return [names[row] for row in dict.fromkeys(chosen)][:EXAMPLES]


def _html(values: Mapping[str, Any]) -> str:
    scripts = "\n".join(f"<script>{_inside(page.read(name).decode())}</script>" for name in page.REPORT)
    title = escape(", ".join(model["name"] for model in values["models"]))
    # Inside a script no less-than sign may start a tag; in JSON it can be escaped.
    content = json.dumps(values, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    head = f"""<meta name="color-scheme" content="light dark">
<title>{title} – tastespace</title>
<link rel="icon" href="data:,">
<style>{page.read(page.STYLE).decode()}</style>"""
    body = f"""<main id="main"></main>
<div id="status" role="status" class="unseen"></div>
<script type="application/json" id="values">{content}</script>
{scripts}"""
    return page.document(head, body)


def _inside(script: str) -> str:
    """Escape a script so that it can be embedded in a page: nothing in it ends the element."""
    return script.replace("</script", "<\\/script")
