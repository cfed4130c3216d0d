"""How measures are written, for a terminal and for a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tastespace.evaluation.resampling import Interval

NAMES = {
    "rmse": "RMSE",
    "mae": "MAE",
    "crps": "CRPS",
    "log_score": "log score",
    "log_loss": "log loss",
    "ece": "ECE",
    "yes_no_auc": "AUC of yes over no",
    "yes_no_auc_by_user": "AUC by user",
    "hit_rate": "hit rate",
    "mrr": "MRR",
    "map": "MAP",
    "ndcg": "NDCG",
    "ndcg_binary": "NDCG (binary)",
    "popularity_lift": "popularity lift",
    "gini": "Gini",
    "auc": "AUC",
    "kendall_tau": "Kendall tau-b",
    "pairwise_accuracy": "pairwise accuracy",
    "ndcg_rated": "NDCG (rated items)",
}
UNDEFINED, EMPTY = "–", "empty"


def display_name(measure: str) -> str:
    """How a person writes a measure: "NDCG@10" for "ndcg@10"."""
    name, at, k = measure.partition("@")
    return NAMES.get(name, name) + at + k


def counted(n: int, what: str) -> str:
    """So many of something: "1 user", "2,000 users"."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def plain_number(value: float) -> float | None:
    """The content for JSON: null for what is not defined."""
    return None if math.isnan(value) else value


def plain_measures(measures: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """Measures and their intervals for JSON, null where there are none."""
    values = {name: plain_number(value) for name, value in measures.items()}
    return {"measures": values or None, "intervals": {name: list(span) for name, span in intervals.items()} or None}


def figure(value: float, interval: Interval | None = None) -> str:
    """A value with its interval, if it has any."""
    if math.isnan(value):
        return UNDEFINED
    return f"{value:.4f}" if interval is None else f"{value:.4f} ({interval.low:.4f}–{interval.high:.4f})"
