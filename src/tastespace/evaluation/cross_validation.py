"""Cross-validation: a model is fitted and measured on several splits of the same ratings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tastespace.data.formats.files import ratings_of
from tastespace.data.splits import Split, k_fold
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import display_name, figure, plain_number
from tastespace.models import Recommender
from tastespace.progress import Observer, Progress, shown, silent
from tastespace.settings import suggests
from tastespace.tables import TableResult, TextTable


@dataclass(frozen=True)
class FoldSummary:
    """One measure over the folds."""

    measure: str
    mean: float
    sd: float  # between folds
    values: tuple[float, ...]  # one per fold


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(TableResult[FoldSummary]):
    """The measures of a model over folds: `result["rmse"].mean`; `reports` has the whole report of each fold."""

    key: ClassVar[str] = "measure"

    model: str
    reports: tuple[Report, ...]

    def records(self) -> list[dict[str, Any]]:
        """One row per measure: mean, sd between folds, and the value of each fold."""
        return [
            {"measure": entry.measure, "mean": plain_number(entry.mean), "sd": plain_number(entry.sd)}
            | {f"fold_{place}": plain_number(value) for place, value in enumerate(entry.values, 1)}
            for entry in self
        ]

    def schema(self) -> dict[str, Any]:
        """Measure, mean, sd, and a column per fold."""
        names = ("mean", "sd", *(f"fold_{place}" for place in range(1, len(self.reports) + 1)))
        return {"measure": pl.String} | dict.fromkeys(names, pl.Float64)

    def table(self) -> TextTable:
        """One row per measure."""
        rows = tuple(
            (display_name(entry.measure), *map(figure, (entry.mean, entry.sd, *entry.values))) for entry in self
        )
        folds = tuple(f"fold {place}" for place in range(1, len(self.reports) + 1))
        return TextTable(f"{self.model} over {len(folds)} folds", ("", "mean", "sd", *folds), rows)


@suggests
def cross_validate(
    model: Recommender,
    ratings: Any,
    *,
    cv: int | Iterable[Split] = 5,
    seed: int = 0,
    observer: Observer = silent,
    **options: Any,
) -> CrossValidation:
    """Fit a model on each of several splits of the ratings, and measure it on the rest; the model is not changed.

    `ratings` are `Ratings`, a frame, a file or the name of a data set. `cv` is a number of folds, which are drawn with
    `seed`, or splits of your own. `options` are those of `tastespace.evaluate`, such as `metrics` and `k`; there are no
    bootstrap intervals unless they are asked for, because folds show how much measures vary.
    """
    if not isinstance(model, Recommender):
        raise InvalidParameterError(f"cross_validate got {type(model).__name__} first; expected a recommender")
    whole = ratings_of(ratings, "cross_validate")
    splits = list(k_fold(whole, cv, seed=seed) if isinstance(cv, int) else cv)
    if not splits or not all(isinstance(split, Split) for split in splits):
        raise InvalidParameterError("cv has no splits, or something else; expected a number of folds, or Split objects")
    watch, reports = shown(observer), []
    for place, split in enumerate(splits):
        watch(Progress("folds", place, len(splits)))
        fitted = type(model)(**model.get_params()).fit(split.train, observer=observer)
        reports.append(evaluate(fitted, split, **{"bootstrap": 0, **options}))
    watch(Progress("folds", len(splits), len(splits)))
    names = [name for name in reports[0].measures if all(name in report.measures for report in reports)]
    values = {name: tuple(report[name] for report in reports) for name in names}
    entries = tuple(
        FoldSummary(name, float(np.mean(of)), float(np.std(of, ddof=1)) if len(of) > 1 else float("nan"), of)
        for name, of in values.items()
    )
    return CrossValidation(entries, type(model).__name__, tuple(reports))
