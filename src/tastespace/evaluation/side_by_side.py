"""The lists of several models side by side, and beside those of the popularity baseline that a model should beat."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.errors import DataWarning
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.groups import groups_table
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import UNDEFINED, display_name, figure
from tastespace.models import Recommender
from tastespace.models.baselines.baselines import DampedBias, Popular
from tastespace.progress import Observer, silent
from tastespace.tables import TextTable

LIST_USERS = 5_000  # default number of users whose lists are measured in a comparison


def evaluate_popular(
    recommender: Recommender,
    test: Ratings | Split,
    report: Report,
    *,
    max_users: int | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    observer: Observer = silent,
) -> Report | None:
    """Measure the lists of `Popular`, fitted on the ratings of a recommender, in the same way as its `report`.

    Returns None for `Popular` itself, and where the report has no lists.
    """
    if report.lists is None or isinstance(recommender, Popular):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # Warnings about the test were given for the model.
        return evaluate(
            Popular().fit(recommender.ratings_),
            test,
            {},
            k=report.lists.k,
            relevant=report.relevance,
            max_users=max_users,
            calibration=False,
            bootstrap=bootstrap,
            seed=seed,
            observer=observer,
        )


def evaluate_averages(
    recommender: Recommender, test: Ratings | Split, report: Report, *, seed: int = 0, observer: Observer = silent
) -> Report | None:
    """Measure the averages of users and items (`DampedBias`), which predictions should beat.

    Returns None for that model itself, and where the report has no errors of predictions.
    """
    if not report.rating or isinstance(recommender, DampedBias) or not len(recommender.ratings_):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        averages = DampedBias().fit(recommender.ratings_)
        options: dict[str, Any] = {"ranking": False, "groups": False, "calibration": False, "bootstrap": 0}
        return evaluate(averages, test, **options, seed=seed, observer=observer)


def lists_table(
    reports: Mapping[str, Report], *, k: int | None = None, behind: Mapping[str, str] | None = None
) -> TextTable | None:
    """One row per model: NDCG, recall of the longest lists, coverage of the catalogue, popularity; None without lists.

    `k` is the length of the lists, by default the one in the middle. `behind` says how far each is behind the best.
    """
    listed = {name: report for name, report in reports.items() if report.lists is not None}
    made = next((report.lists for report in listed.values()), None)
    if made is None or not made.users:
        return None
    k = made.middle if k is None else k
    ndcg, others = f"ndcg@{k}", (f"recall@{made.k[-1]}", f"coverage@{k}", f"popularity_lift@{k}")

    def row(name: str, report: Report) -> tuple[str, ...]:
        gap = () if behind is None else (behind.get(name) or UNDEFINED,)
        first = figure(report[ndcg], report.intervals.get(ndcg))
        return name, first, *gap, *(figure(report[measure]) for measure in others)

    gap = () if behind is None else ("behind the best",)
    columns = ("model", display_name(ndcg), *gap, *map(display_name, others))
    title = f"Lists of {made.users_text()}; relevant: {made.relevant_text()}"
    return TextTable(title, columns, tuple(row(name, report) for name, report in listed.items()))


def found_table(reports: Mapping[str, Report], *, k: int | None = None) -> TextTable | None:
    """The share of relevant test items in the lists of each model, by popularity of the items; None if unknown."""
    listed = {name: report for name, report in reports.items() if report.lists is not None and "items" in report.found}
    made = next((report.lists for report in listed.values()), None)
    if made is None or not made.users:
        return None
    k = made.middle if k is None else k
    columns = {name: (report.found["items"], f"found@{k}") for name, report in listed.items()}
    title = f"Share of the relevant test ratings in lists of {k}"
    return groups_table(title, "items", columns, empty=False, intervals=False)
