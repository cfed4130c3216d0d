"""Ratings in blocks without common rows, so that several threads may descend at once and nothing depends on how many.

Users and items are each dealt into `N_PARTS` parts, of about as many ratings each. Block (a, b) has the ratings of
users of part a and items of part b, in an order drawn once. The blocks (a, (a + s) mod N_PARTS) of a stage s share no
row: whoever takes which, every row sees the same ratings in the same order (Gemulla et al. 2011).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, FloatArray, IntArray, OffsetArray, contiguous
from tastespace.data.streaming import Triples

N_PARTS = 16  # of each side: more than processors at work, few enough for blocks of thousands of ratings


@dataclass(frozen=True, eq=False)
class RatingBlocks:
    """Ratings by block; `targets` are what scores should become."""

    offsets: OffsetArray  # N_PARTS^2 + 1
    user_rows: IntArray
    item_rows: IntArray
    targets: AnyFloats

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, eq=False)
class Deal:
    """Which part every row is in."""

    users: IntArray
    items: IntArray

    @classmethod
    def of(cls, user_counts: NDArray[Any], item_counts: NDArray[Any]) -> Deal:
        return cls(_dealt(user_counts), _dealt(item_counts))

    def blocks(self, some: Triples, target: Callable[[FloatArray], AnyFloats], rng: Generator) -> RatingBlocks:
        """The ratings by block, shuffled within each."""
        order = rng.permutation(len(some.values))
        block = (self.users[some.user_rows[order]] * N_PARTS + self.items[some.item_rows[order]]).astype(np.uint16)
        order = order[np.argsort(block, kind="stable")]
        counts = np.bincount(block, minlength=N_PARTS**2)
        return RatingBlocks(
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            user_rows=contiguous(some.user_rows[order], np.int32),
            item_rows=contiguous(some.item_rows[order], np.int32),
            targets=target(some.values[order]),
        )


def _dealt(counts: NDArray[Any]) -> IntArray:
    """Parts of about equally many ratings: from the largest row on, there and back."""
    there_and_back = np.concatenate([np.arange(N_PARTS), np.arange(N_PARTS)[::-1]])
    parts = np.empty(len(counts), np.int32)
    parts[np.argsort(-counts, kind="stable")] = np.resize(there_and_back, len(counts))
    return parts


class Supply(Protocol):
    """Where the ratings of an epoch come from."""

    def epoch(self, rng: Generator) -> Iterator[RatingBlocks]:
        """All ratings, once, in one piece or in several."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """All ratings at once, in blocks that stay the same."""

    blocks: RatingBlocks

    def epoch(self, rng: Generator) -> Iterator[RatingBlocks]:
        yield self.blocks


@dataclass(frozen=True, eq=False)
class InPieces:
    """One piece after the other, in a new order every epoch: no more than one is in memory."""

    read: Callable[[int], Triples]
    n_pieces: int
    deal: Deal
    target: Callable[[FloatArray], AnyFloats]

    def epoch(self, rng: Generator) -> Iterator[RatingBlocks]:
        for piece in rng.permutation(self.n_pieces):
            yield self.deal.blocks(self.read(int(piece)), self.target, rng)
