"""Names that measures may have: one name, one measure, in reports and in their JSON alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tastespace.errors import InvalidParameterError
from tastespace.evaluation.lists import LIST_METRICS
from tastespace.evaluation.order import OF_ORDER
from tastespace.evaluation.predicted import STANDARD
from tastespace.evaluation.yes_no import BY_USER, YES_NO

OF_LISTS = (*LIST_METRICS, "popularity_lift", "coverage", "gini", "auc")
OF_UNCERTAIN = ("crps", "log_score")  # of models that say how sure they are
# What else JSON has beside the measures.
OF_REPORTS = ("kind", "n", "cold", "seen", "lists", "intervals", "groups", "calibration", "reliability")


def check_measures(metrics: Any, ranking: Any) -> None:
    """Refuse what is no mapping of names to functions, and names that would hide another measure."""
    if metrics is not None:
        _check("metrics", metrics, (*OF_LISTS, *OF_UNCERTAIN, *OF_ORDER, *OF_REPORTS))
    if not isinstance(ranking, bool):
        _check("ranking", ranking, (*OF_LISTS, *OF_UNCERTAIN, *OF_ORDER, *STANDARD, *YES_NO, BY_USER))


def _check(parameter: str, measures: Any, taken: Collection[str]) -> None:
    if not isinstance(measures, Mapping):
        raise InvalidParameterError(f"{parameter} is {measures!r}; expected functions by name, {{name: function}}")
    for name, function in measures.items():
        if not isinstance(name, str) or not name or "@" in name:
            raise InvalidParameterError(
                f"{parameter} has a measure called {name!r}; expected a name without @, which stands before the length "
                "of lists"
            )
        if name in taken:
            raise InvalidParameterError(
                f"{parameter} has a measure called {name!r}, which is the name of another one; expected a new name"
            )
        if not callable(function):
            raise InvalidParameterError(f"{parameter} has {function!r} for {name!r}; expected a function")
