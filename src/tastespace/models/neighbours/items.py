"""Item k-NN: what a user gave to the items most similar to the one asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, FloatMatrix, IntArray
from tastespace.data.compressed import Compressed
from tastespace.models.biases import Baseline
from tastespace.models.neighbours.averaging import Targets, average_over_items, average_over_items_of_all
from tastespace.models.neighbours.comparing import Others, most_similar_to_each
from tastespace.models.neighbours.posterior import Histories, NeighbourPosterior, require_rows, shared_parts
from tastespace.models.neighbours.rule import Rule
from tastespace.progress import Observer


@dataclass(frozen=True, eq=False)
class ItemNeighbours(NeighbourPosterior):
    """Similar items of every item, found in training: a user's ratings choose among them."""

    neighbours: Compressed  # of each item, best first; values are similarities

    @classmethod
    def find(
        cls, baseline: Baseline, ratings: Compressed, rule: Rule, n_candidates: int, threads: int, observer: Observer
    ) -> ItemNeighbours:
        """Compare every item with every other."""
        n_items = len(baseline.item_bias)
        by_user = _deviations(baseline, ratings, rule)
        others = Others.of(by_user, n_items)
        by_item = by_user.transposed(n_items)
        neighbours = most_similar_to_each(by_item, others, rule, n_candidates, threads, observer)
        return cls(baseline, ratings, rule, neighbours)

    def adjustments(self, belief: Histories, targets: Targets, threads: int) -> FloatArray:
        residuals = self.baseline.residuals(belief.ratings, belief.bias)
        return average_over_items(targets, self.neighbours, residuals, self.rule, threads)

    def adjustments_of_all(self, belief: Histories, threads: int) -> FloatMatrix:
        residuals = self.baseline.residuals(belief.ratings, belief.bias)
        return average_over_items_of_all(self.neighbours, self.followers, residuals, self.rule, threads)

    @cached_property
    def followers(self) -> Compressed:
        """The items that have each item among their neighbours."""
        return self.neighbours.transposed(self.n_items)

    def item_similarities(self, item_rows: IntArray, threads: int) -> FloatMatrix:
        """As training found them; 0 for items that are not among those it has kept."""
        out = np.zeros((len(item_rows), self.n_items), np.float32)
        found = self.neighbours.take(item_rows)
        out[found.rows(), found.columns] = found.values
        out[np.arange(len(item_rows)), item_rows] = 1
        return out

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            **super().arrays(),
            "neighbour_offsets": self.neighbours.offsets,
            "neighbours": self.neighbours.columns,
            "similarities": self.neighbours.values,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ItemNeighbours:
        baseline, ratings, rule = shared_parts(arrays)
        neighbours = Compressed(arrays["neighbour_offsets"], arrays["neighbours"], arrays["similarities"])
        require_rows("neighbours", neighbours, len(baseline.item_bias))
        if len(neighbours) != len(baseline.item_bias):
            raise ValueError("the neighbours do not fit the items")
        return cls(baseline, ratings, rule, neighbours)


def _deviations(baseline: Baseline, ratings: Compressed, rule: Rule) -> Compressed:
    """What items are compared by, of each user."""
    if rule.similarity != "adjusted-cosine":
        return baseline.residuals(ratings, baseline.user_bias(ratings))
    total = np.bincount(ratings.rows(), ratings.values, minlength=len(ratings))
    mean = (total / np.maximum(ratings.counts, 1)).astype(np.float32)
    return Compressed(ratings.offsets, ratings.columns, ratings.values - mean[ratings.rows()])
