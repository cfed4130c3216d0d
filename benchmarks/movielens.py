"""MovieLens 1M as the benchmarks use it: 90:10, seed 0."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tastespace import Ratings, Split, random_split


def ratings(data: Path | str | None) -> Ratings:
    """All ratings, from ml-1m/ratings.parquet in the data folder."""
    if data is None:
        raise SystemExit("no data folder; pass --data DIR (with ml-1m/ratings.parquet) or set TASTESPACE_DATA")
    frame = pl.read_parquet(Path(data) / "ml-1m" / "ratings.parquet", columns=["user", "item", "rating"])
    return Ratings.from_frame(frame)


def split(data: Path | str | None) -> Split:
    """numpy.random.default_rng(0).permutation(n): the first 10 % are the test ratings."""
    return random_split(ratings(data), 0.1, seed=0)


@dataclass(frozen=True)
class Learned:
    """Any library's biased factorization, rows in the order of the training ratings' ids."""

    mean: float
    user_bias: np.ndarray
    item_bias: np.ndarray
    users: np.ndarray
    items: np.ndarray

    def rmse(self, parts: Split) -> float:
        """Over all test ratings, clipped to the training range; what is cold has zero bias and factors."""
        train, test = parts.train, parts.test
        users, items = train.users.rows_of(test.user_ids()), train.items.rows_of(test.item_ids())
        user_bias, item_bias = np.append(self.user_bias, 0), np.append(self.item_bias, 0)
        user_factors, item_factors = _with_stranger(self.users), _with_stranger(self.items)
        scores = self.mean + user_bias[users] + item_bias[items]
        scores += np.einsum("nd,nd->n", user_factors[users], item_factors[items], dtype=np.float64)
        return float(np.sqrt(np.mean((np.clip(scores, *train.range) - test.values) ** 2)))


def _with_stranger(factors: np.ndarray) -> np.ndarray:
    """A last row of zeros, which row -1 finds."""
    return np.vstack([factors, np.zeros((1, factors.shape[1]), factors.dtype)])
