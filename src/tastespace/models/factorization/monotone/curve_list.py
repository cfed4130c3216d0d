"""Curves as a person sees them: by cluster, or of single users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from numpy.random import Generator

from tastespace.arrays import DoubleArray, OffsetArray
from tastespace.frames import to_pandas
from tastespace.models.factorization.monotone.clusters import by_cluster, grouped
from tastespace.models.factorization.monotone.posterior import CurveTable

if TYPE_CHECKING:
    import pandas as pd


TYPICAL = 4  # groups that curves of single users are shown in


@dataclass(frozen=True, eq=False)
class CurveList:
    """Curves with the levels that they have values at, the most used curve first.

    `values` are in units of ratings: a curve has the mean and variance of the ratings that it serves, as the shared
    curve has them, so that a straight line is the levels themselves. `ratings` are how many the curve serves at each
    level.
    """

    side: Literal["cluster", "user"]
    ids: pl.Series  # of the clusters, from 1 on, or of the users
    n_users: OffsetArray
    levels: DoubleArray
    values: DoubleArray  # curves x levels
    ratings: DoubleArray  # curves x levels

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def extremes(self) -> DoubleArray:
        """The share of the ratings of each curve that are the lowest or the highest: who rates in extremes."""
        total = np.maximum(self.ratings.sum(axis=1), 1)
        return np.asarray((self.ratings[:, 0] + self.ratings[:, -1] * (len(self.levels) > 1)) / total)

    def to_polars(self) -> pl.DataFrame:
        """One row a curve and level."""
        n_levels = len(self.levels)
        return pl.DataFrame(
            {
                self.side: self.ids.gather(np.repeat(np.arange(len(self)), n_levels)),
                "users": np.repeat(self.n_users, n_levels),
                "level": np.tile(self.levels, len(self)),
                "value": self.values.reshape(-1),
                "ratings": self.ratings.reshape(-1).astype(np.int64),
            }
        )

    def to_pandas(self) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars())

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=20, tbl_hide_dataframe_shape=True):
            noun = f"curve{'s' if len(self) != 1 else ''}"
            return f"{len(self)} {noun} of {len(self.levels)} levels\n{self.to_polars()}"


def curves_of_clusters(table: CurveTable, rng: Generator) -> CurveList:
    """One a cluster of training users. Curves of single users are put into a few groups, and averaged."""
    if table.way == "per-user":
        own, counts = table.curves[table.of_user], table.counts[table.of_user]
        cells = grouped(own, counts, TYPICAL, rng)
        n_users = np.bincount(cells)
        values = by_cluster(own * counts.sum(axis=1)[:, None], cells, len(n_users))
        ratings = by_cluster(counts, cells, len(n_users))
        values /= ratings.sum(axis=1)[:, None]
    else:
        n_users = np.bincount(table.of_user, minlength=len(table.curves))
        values, ratings = table.curves, table.counts
    order = np.argsort(-n_users, kind="stable")
    order = order[n_users[order] > 0]
    return CurveList(
        "cluster",
        pl.Series("cluster", range(1, len(order) + 1)),
        n_users[order],
        table.scale.levels,
        values[order],
        ratings[order],
    )


def curves_of_users(table: CurveTable, curves: DoubleArray, ids: pl.Series, ratings: DoubleArray) -> CurveList:
    """The curve of each of these users."""
    return CurveList("user", ids, np.ones(len(ids), np.int64), table.scale.levels, curves, ratings)
