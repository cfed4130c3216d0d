"""User k-NN: what the users most similar to the one who asks gave to an item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, FloatMatrix, IntArray
from tastespace.data.compressed import Compressed
from tastespace.models.neighbours.averaging import Targets, average_over_users, average_over_users_of_all
from tastespace.models.neighbours.comparing import Others, similarities
from tastespace.models.neighbours.posterior import Histories, NeighbourPosterior, shared_parts

BLOCK_SIMILARITIES = 1 << 24  # similarities held at once: 64 MB, whatever the number of users


@dataclass(frozen=True, eq=False)
class UserNeighbours(NeighbourPosterior):
    """The training users, whom whoever asks is compared with at that moment.

    A training user is compared with himself as well, so that he gets the same answers as a stranger with his ratings.
    That counts only for items that he has rated. There his training rating counts even beside a newer one of a history,
    because folding in does not know who asks.
    """

    @cached_property
    def residuals(self) -> Compressed:
        """What the baseline leaves of the ratings of each training user."""
        return self.baseline.residuals(self.ratings, self.baseline.user_bias(self.ratings))

    @cached_property
    def raters(self) -> Compressed:
        """The same, of each item."""
        return self.residuals.transposed(self.n_items)

    @cached_property
    def others(self) -> Others:
        """The training users, to be compared with."""
        by_item = self.raters
        if self.rule.similarity == "adjusted-cosine":
            by_item = self._less_item_means(self.ratings).transposed(self.n_items)
        return Others.of(by_item, len(self.ratings))

    def adjustments(self, belief: Histories, targets: Targets, threads: int) -> FloatArray:
        out = np.empty(len(targets.items), np.float32)
        for rows in self._blocks(belief):
            alike, part = self.user_similarities(belief, rows, threads), targets.part(rows[0], rows[-1] + 1)
            answers = average_over_users(part, alike, self.raters, self.rule, threads)
            out[targets.offsets[rows[0]] : targets.offsets[rows[-1] + 1]] = answers
        return out

    def adjustments_of_all(self, belief: Histories, threads: int) -> FloatMatrix:
        out = np.empty((len(belief.bias), self.n_items), np.float32)
        for rows in self._blocks(belief):
            alike = self.user_similarities(belief, rows, threads)
            out[rows] = average_over_users_of_all(alike, self.residuals, self.n_items, self.rule, threads)
        return out

    def user_similarities(self, belief: Histories, belief_rows: IntArray, threads: int) -> FloatMatrix:
        return similarities(self._deviations(belief.take(belief_rows)), self.others, self.rule, threads)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> UserNeighbours:
        return cls(*shared_parts(arrays))

    def _blocks(self, belief: Histories) -> Iterator[IntArray]:
        """So many users at a time that their similarities to all others can be held."""
        n_users, step = len(belief.bias), max(1, BLOCK_SIMILARITIES // max(len(self.ratings), 1))
        for start in range(0, n_users, step):
            yield np.arange(start, min(start + step, n_users), dtype=np.int32)

    def _deviations(self, users: Histories) -> Compressed:
        """What users are compared by."""
        if self.rule.similarity == "adjusted-cosine":
            return self._less_item_means(users.ratings)
        return self.baseline.residuals(users.ratings, users.bias)

    def _less_item_means(self, ratings: Compressed) -> Compressed:
        return Compressed(ratings.offsets, ratings.columns, ratings.values - self._item_means[ratings.columns])

    @cached_property
    def _item_means(self) -> FloatArray:
        total = np.bincount(self.ratings.columns, self.ratings.values, minlength=self.n_items)
        counts = np.bincount(self.ratings.columns, minlength=self.n_items)
        return np.where(counts > 0, total / np.maximum(counts, 1), self.baseline.mean).astype(np.float32)
