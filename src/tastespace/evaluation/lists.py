"""Lists that were judged, and the table of what is measured on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatMatrix, IntArray
from tastespace.data.ratings import Ratings
from tastespace.evaluation import catalogue, ranking


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The training ratings as lists are compared with them."""

    trained: Ratings

    @cached_property
    def shares(self) -> DoubleArray:
        """The popularity of each item: the share of the training users who rated it."""
        return np.asarray(self.trained.by_item.counts / max(self.trained.n_users, 1))


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of some users with relevant test items, best first, judged by their test ratings."""

    item_rows: IntArray  # users x k, rows of the training ratings, -1 where there is no item
    hits: BoolArray  # users x k: is the item relevant?
    gains: FloatMatrix  # users x k: what the item is worth
    ideal_gains: FloatMatrix  # users x k: what the items of the best list would be worth
    n_relevant: NDArray[np.int64]  # one a user
    catalogue: Catalogue

    def __len__(self) -> int:
        return len(self.item_rows)

    def first(self, k: int) -> Lists:
        """The first k places of each list."""
        return replace(
            self,
            item_rows=self.item_rows[:, :k],
            hits=self.hits[:, :k],
            gains=self.gains[:, :k],
            ideal_gains=self.ideal_gains[:, :k],
        )


ListMetric = Callable[[Lists], DoubleArray]  # one value a user, NaN where there is none


def _ndcg_binary(lists: Lists) -> DoubleArray:
    ideal = np.arange(lists.hits.shape[1]) < lists.n_relevant[:, None]
    return ranking.ndcg(lists.hits.astype(np.float64), ideal.astype(np.float64))


LIST_METRICS: Mapping[str, ListMetric] = {
    "precision": lambda lists: ranking.precision(lists.hits),
    "recall": lambda lists: ranking.recall(lists.hits, lists.n_relevant),
    "hit_rate": lambda lists: ranking.hit_rate(lists.hits),
    "mrr": lambda lists: ranking.reciprocal_rank(lists.hits),
    "map": lambda lists: ranking.average_precision(lists.hits, lists.n_relevant),
    "ndcg": lambda lists: ranking.ndcg(lists.gains, lists.ideal_gains),
    "ndcg_binary": _ndcg_binary,
    "novelty": lambda lists: catalogue.novelty(lists.item_rows, lists.catalogue.shares),
    "diversity": lambda lists: catalogue.diversity(lists.item_rows, lists.catalogue.trained.by_item),
    "popularity": lambda lists: catalogue.popularity(lists.item_rows, lists.catalogue.shares),
}
