"""How well the promises of a version were kept: measures of its latest ratings, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import DoubleArray, IntArray
from tastespace.evaluation.calibration import distance_from_uniform
from tastespace.service.promises.drift import Outcome

WINDOW = 1000  # of the latest ratings
COVERAGE = 0.9  # of the intervals that are held against ratings
TOP = 10  # positions that count as a hit
NORMAL = 1.959964  # intervals of measures have 95 %


def measures_of(rows: pl.DataFrame) -> dict[str, Any]:
    """Measures of judged ratings, each with its number of ratings and an interval; those that the model has."""
    users = rows["user_id"].rank("dense").to_numpy().astype(np.int64) - 1
    errors = (rows["value"] - rows["expected"]).to_numpy().astype(float)
    columns: dict[str, DoubleArray] = {
        "rmse": errors**2,
        "bias": errors,
        f"coverage_{COVERAGE * 100:.0f}": rows["is_covered"].cast(pl.Float64).to_numpy(),
        "crps": rows["crps"].to_numpy(),
        "liked": rows["is_liked"].cast(pl.Float64).to_numpy(),
        "liked_expected": rows["liked_probability"].to_numpy(),
        f"hit_rate_{TOP}": (rows["position"].fill_null(TOP + 1) <= TOP).cast(pl.Float64).to_numpy(),
    }
    found: dict[str, Any] = {}
    for name, values in columns.items():
        known = ~np.isnan(values.astype(float))
        if known.any():
            found[name] = _mean(values[known].astype(float), users[known], is_root=name == "rmse")
    pit = rows["pit"].drop_nulls().to_numpy()
    if len(pit):
        found["pit_distance"] = {"value": round(distance_from_uniform(pit), 4), "n": len(pit)}
    return found


def _mean(values: DoubleArray, users: IntArray, *, is_root: bool) -> dict[str, Any]:
    """A mean over ratings, with an interval that knows that the ratings of one user are alike."""
    n, mean = len(values), float(values.mean())
    sums = np.bincount(users, values - mean)
    n_users = len(np.unique(users))
    record: dict[str, Any] = {"value": mean, "n": n}
    if n_users > 1:
        half = NORMAL * float(np.sqrt((sums**2).sum() * n_users / (n_users - 1))) / n
        record |= {"low": mean - half, "high": mean + half}
    if is_root:
        record |= {name: float(np.sqrt(max(record[name], 0.0))) for name in ("value", "low", "high") if name in record}
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in record.items()}


def outcomes_of(rows: pl.DataFrame) -> list[Outcome]:
    """What the test of drift looks at: one outcome for all ratings that a user stored at once.

    They depend on one another. Where the model has no distribution, errors are taken as they are.
    """
    if not rows.height:
        return []
    pit, error = pl.col("pit") - 0.5, pl.col("value") - pl.col("expected")
    direction = pl.coalesce(pit, error)
    each = rows.with_columns(direction=direction, surprise=direction.abs()).drop_nulls("direction")
    at_once = each.group_by("user_id", "judged_at", maintain_order=True).agg(
        pl.col("surprise").mean(), pl.col("direction").mean()
    )
    return [Outcome(*row) for row in at_once.select("surprise", "direction", "judged_at").rows()]
