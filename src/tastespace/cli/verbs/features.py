"""`tastespace features`: what is known of users and items in a model, and how much of them it explains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model
from tastespace.errors import InvalidParameterError
from tastespace.models.base.results import FeatureImportance


@runtime_checkable
class _Explains(Protocol):
    def feature_importance(self) -> FeatureImportance: ...


def show(model: Model, json: Json = False) -> None:
    """Show the features of a model, and how much of what users and items are like each group explains."""
    recommender = artifact.load(model, with_index=False)
    ratings = recommender.ratings_
    known = {"item": ratings.item_features, "user": ratings.user_features}
    found = {side: features.summary() for side, features in known.items() if features is not None}
    if not found:
        raise InvalidParameterError(
            f"{model} was fitted without features; expected a model of tastespace fit with --item-features or "
            "--user-features"
        )
    importance = None
    if recommender.learns_features and isinstance(recommender, _Explains):
        importance = recommender.feature_importance()
    content: dict[str, Any] = {
        "model": str(model),
        "features": {side: summary.to_dict() for side, summary in found.items()},
        "importance": None if importance is None else importance.to_dict(),
    }
    lines = [line for side, summary in found.items() for line in summary.lines(side)]
    width = max(len(label) for label, _ in lines)
    texts = [f"{label:<{width}}  {text}" for label, text in lines]
    if importance is None:
        texts.append(f"{type(recommender).__name__} does not say how much they explain; BPMF and ImplicitALS do")
    console.print_result(json, content, *texts)
    if importance is not None and not json:
        console.print_line("")
        console.print_rows(*_rows(importance))


def _rows(importance: FeatureImportance) -> tuple[list[str], list[list[str]]]:
    """The shares as a table with bars."""
    columns = ["side", "group", "columns", "explains", "90 % interval", "", "precision"]
    rows = [
        [
            *(row["side"], row["group"], f"{row['n_features']:,}", f"{row['share']:.1%}"),
            *(
                f"{row['low']:.1%} to {row['high']:.1%}",
                "█" * round(20 * min(row["share"], 1.0)),
                f"{row['precision']:.3g}",
            ),
        ]
        for row in importance.to_polars().to_dicts()
    ]
    return columns, rows


VERBS: dict[str, Callable[..., None]] = {"show": show}
