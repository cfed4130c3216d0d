"""Figures as tables of text, for a terminal and for a page alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Table:
    """Cells of text under a title; the first column is of names, the others are of figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""  # below it

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        padded = (
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
            for line in lines
        )
        below = [self.note] if self.note else []
        return "\n".join([self.title, *("  ".join(cells).rstrip() for cells in padded), *below])


def display_name(measure: str) -> str:
    """How a person writes a measure: "NDCG@10" for "ndcg@10"."""
    name, at, k = measure.partition("@")
    return NAMES.get(name, name) + at + k


def counted(n: int, what: str) -> str:
    """So many of something: "1 user", "2,000 users"."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def plain_number(value: float) -> float | None:
    """As JSON has it: null for what is not defined."""
    return None if math.isnan(value) else value


def figure(value: float, interval: Interval | None = None) -> str:
    """A value with its interval, if it has any."""
    if math.isnan(value):
        return UNDEFINED
    return f"{value:.4f}" if interval is None else f"{value:.4f} ({interval.low:.4f}–{interval.high:.4f})"
