"""One question, one answer: how good is this recommender on these ratings?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split
from tastespace.evaluation.rating import mae, rmse
from tastespace.models import Recommender

Metric = Callable[[NDArray[Any], NDArray[Any]], float]

STANDARD: Mapping[str, Metric] = {"rmse": rmse, "mae": mae}
LABELS = {"rmse": "RMSE", "mae": "MAE"}  # how a person writes them


@dataclass(frozen=True)
class Report:
    """Measures over `n` test ratings, of which `cold` have a user or item that the training ratings lack."""

    measures: Mapping[str, float]
    n: int
    cold: int

    def __getitem__(self, name: str) -> float:
        return self.measures[name]

    def to_dict(self) -> dict[str, float]:
        return {**self.measures, "n": self.n, "cold": self.cold}

    def __str__(self) -> str:
        figures = ", ".join(f"{LABELS.get(name, name)} {value:.4f}" for name, value in self.measures.items())
        return f"{figures} over {self.n:,} rating{'s' if self.n != 1 else ''} ({self.cold:,} cold)"


def evaluate(recommender: Recommender, test: Ratings | Split, metrics: Mapping[str, Metric] = STANDARD) -> Report:
    """Measure predictions, clipped to the training range, against test ratings (or the test part of a split).

    Cold pairs count like any other. The history of a split is what its strangers are folded in by.
    """
    history = None
    if isinstance(test, Split):
        history, test = _usable(recommender, test.history), test.test
    prediction = recommender.predict(test.user_ids(), test.item_ids(), history=history)
    return Report(
        measures={name: metric(prediction.mean, test.values) for name, metric in metrics.items()},
        n=len(test),
        cold=int(np.count_nonzero(prediction.cold)),
    )


def _usable(recommender: Recommender, history: Ratings | None) -> Ratings | None:
    """The part of a split's history that the model knows the items of: that some are new is no reason to warn."""
    if history is None:
        return None
    recommender.require_fitted()
    known = recommender.ratings_.items.rows_of(history.items.ids)[history.item_rows] >= 0
    return history.take(np.flatnonzero(known)) if known.any() else None
