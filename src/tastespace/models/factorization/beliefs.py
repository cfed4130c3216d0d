"""What is believed about users, folded in: given a draw of the items, a user's posterior is a normal in closed form.

    p(u, c | draw s, ratings) = N(mean_s, T_s T_s^T)

Training users, users with new ratings and strangers take the same path; somebody without ratings gets the population.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.compressed import Compressed
from tastespace.models.factorization.kept_noise import fold_in_normal

if TYPE_CHECKING:
    from tastespace.models.factorization.item_draws import ItemDraws

BLOCK_BYTES = 1 << 26  # of beliefs held at once: 64 MB, whatever the number of users asked about


@dataclass(frozen=True, eq=False)
class Belief:
    """Of some users, a normal a draw over (factors, bias) in units of the ratings' standard deviation.

    W is the number of factors, and one more where there are biases.
    """

    means: FloatArray  # B x S x W
    roots: FloatArray  # B x S x W x W: T, upper triangular
    weights: FloatMatrix  # B x S: what each draw counts for a user; rows sum to 1
    precision: FloatMatrix | None = None  # B x S: of the users' own noise, where they have one

    def __len__(self) -> int:
        return len(self.means)


@dataclass(eq=False)
class UserBeliefs:
    """The users of one request: computed some at a time, when they are needed; the latest block is kept."""

    draws: ItemDraws
    ratings: Compressed  # of each user, by item row
    threads: int
    trained: Compressed | None = None  # those that the draws have seen; None where all draws count alike
    queries: tuple[FloatMatrix, FloatArray] | None = field(default=None, repr=False)  # as the posterior made them
    _latest: tuple[int, Belief] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ratings)

    @property
    def block(self) -> int:
        """Users held at once."""
        _, n_draws, width = self.draws.items.shape
        return max(1, BLOCK_BYTES // int(4 * n_draws * width * (width + 1)))

    def blocks(self, rows: IntArray) -> Iterator[tuple[slice, Belief]]:
        """Beliefs about all users among these rows, block by block: which users, and what is believed."""
        if len(self) <= self.block and len(rows):
            yield slice(0, len(self)), self._at(0)
            return
        for number in np.unique(rows // self.block):
            first = int(number) * self.block
            yield slice(first, min(first + self.block, len(self))), self._at(first)

    def means(self, first: int, last: int) -> tuple[FloatArray, FloatMatrix]:
        """The means alone, which take less room, and the weights: users first..last."""
        if self._latest is not None and self._latest[0] <= first and last <= self._latest[0] + len(self._latest[1]):
            start, belief = self._latest
            return belief.means[first - start : last - start], belief.weights[first - start : last - start]
        ratings = _part(self.ratings, first, last)
        folded = self.draws.noise.fold_in(self.draws, ratings, None, self.threads)
        return folded.means, self._weights(first, last, ratings)

    def _at(self, first: int) -> Belief:
        if self._latest is not None and self._latest[0] == first:
            return self._latest[1]
        last = min(first + self.block, len(self))
        ratings = _part(self.ratings, first, last)
        _, n_draws, width = self.draws.items.shape
        roots = np.empty((last - first, n_draws, width, width), np.float32)
        folded = self.draws.noise.fold_in(self.draws, ratings, roots, self.threads)
        belief = Belief(folded.means, roots, self._weights(first, last, ratings), folded.precision)
        self._latest = (first, belief)
        return belief

    def _weights(self, first: int, last: int, ratings: Compressed) -> FloatMatrix:
        n_draws = self.draws.items.shape[1]
        if self.trained is None:
            return np.full((last - first, n_draws), 1 / n_draws, np.float32)
        # What the draws have not seen says how good they are: p(all ratings | draw) / p(those seen | draw).
        news = evidence(self.draws, ratings, self.threads)
        news -= evidence(self.draws, _part(self.trained, first, last), self.threads)
        weights = np.exp(news - news.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def evidence(draws: ItemDraws, ratings: Compressed, threads: int) -> DoubleArray:
    """log p(ratings of a user | draw), users x draws; less what is the same for all draws. For even noise."""
    shape = (len(ratings), draws.items.shape[1])
    energy, log_determinant = np.empty(shape), np.empty(shape)
    fold_in_normal(draws, ratings, None, threads, energy=energy, log_determinant=log_determinant)
    counts = ratings.counts[:, None]
    prior: DoubleArray = counts * np.log(draws.alpha) + draws.users.log_determinant - draws.users.constant
    return np.asarray((prior - log_determinant) / 2 - energy)


def _part(ratings: Compressed, first: int, last: int) -> Compressed:
    start, end = int(ratings.offsets[first]), int(ratings.offsets[last])
    return Compressed(ratings.offsets[first : last + 1] - start, ratings.columns[start:end], ratings.values[start:end])
