"""Ratings in blocks without common rows, so that several threads may descend at once and nothing depends on how many.

Users and items are each dealt into `N_PARTS` parts, of about as many ratings each. Block (a, b) has the ratings of
users of part a and items of part b, in an order drawn once. The blocks (a, (a + s) mod N_PARTS) of a stage s share no
row: whoever takes which, every row sees the same ratings in the same order (Gemulla et al. 2011).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import randomness
from tastespace.arrays import AnyFloats, BoolArray, FloatArray, IntArray, OffsetArray, contiguous
from tastespace.data.formats.streaming import RatingStream, Triples
from tastespace.data.ratings import Ratings
from tastespace.models.factorization.als.strength_search import LEAST_HELD_OUT
from tastespace.models.factorization.sgd.forms import Form

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


MOST_HELD_OUT = 1_000_000  # of a stream: more would tell no better when to stop, and would have to stay in memory


@dataclass(frozen=True)
class Figures:
    """What is known of all ratings."""

    n_ratings: int
    mean: float
    standard_deviation: float
    range: tuple[float, float]


class Source(Protocol):
    """Ratings to descend on."""

    @property
    def figures(self) -> Figures: ...

    @property
    def counts(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Of users and items: how many ratings each has."""
        ...

    def supply(self, form: Form, dtype: Any, rng: Generator) -> Supply:
        """The ratings, ready to be visited."""
        ...

    def split(self, share: float, rng: Generator) -> tuple[Self, Triples] | None:
        """The rest, and about this share held out; None when that would be too few to learn anything from."""
        ...


@dataclass(frozen=True, eq=False)
class WholeRatings:
    """All in memory."""

    ratings: Ratings

    @property
    def figures(self) -> Figures:
        ratings = self.ratings
        return Figures(len(ratings), ratings.mean, ratings.standard_deviation, ratings.range)

    @property
    def counts(self) -> tuple[NDArray[Any], NDArray[Any]]:
        ratings = self.ratings
        return (
            np.bincount(ratings.user_rows, minlength=ratings.n_users),
            np.bincount(ratings.item_rows, minlength=ratings.n_items),
        )

    def supply(self, form: Form, dtype: Any, rng: Generator) -> Supply:
        deal = Deal.of(*self.counts)
        return InMemory(deal.blocks(triples_of(self.ratings), lambda values: form.targets(values, dtype), rng))

    def split(self, share: float, rng: Generator) -> tuple[WholeRatings, Triples] | None:
        n = len(self.ratings)
        n_held_out = int(share * n)
        if n_held_out < LEAST_HELD_OUT:
            return None
        held_out: BoolArray = np.zeros(n, np.bool_)
        held_out[rng.permutation(n)[:n_held_out]] = True
        return WholeRatings(self.ratings.masked(~held_out)), triples_of(self.ratings.masked(held_out))


@dataclass(frozen=True, eq=False)
class StreamedRatings:
    """Piece by piece; of each piece a share may be held out, the same one every time that it is read."""

    stream: RatingStream
    held_out_share: float = 0.0
    seed: int = 0

    @property
    def figures(self) -> Figures:
        """Of all: those held out are a random share, and change little."""
        stream = self.stream
        return Figures(stream.n_ratings, stream.mean, stream.standard_deviation, stream.range)

    @property
    def counts(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.stream.user_counts, self.stream.item_counts

    def supply(self, form: Form, dtype: Any, rng: Generator) -> Supply:
        deal = Deal.of(*self.counts)
        return InPieces(self.read, self.stream.n_pieces, deal, lambda values: form.targets(values, dtype))

    def read(self, piece: int) -> Triples:
        """The ratings of a piece that are not held out."""
        some = self.stream.read(piece)
        return some if not self.held_out_share else some.masked(~self._is_held_out(piece, len(some.values)))

    def split(self, share: float, rng: Generator) -> tuple[StreamedRatings, Triples] | None:
        share = min(share, MOST_HELD_OUT / self.stream.n_ratings)
        if int(share * self.stream.n_ratings) < LEAST_HELD_OUT:
            return None
        rest = StreamedRatings(self.stream, share, int(rng.integers(1 << 63)))
        parts = []
        for piece in range(self.stream.n_pieces):
            some = self.stream.read(piece)
            parts.append(some.masked(rest._is_held_out(piece, len(some.values))))
        return rest, Triples(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _is_held_out(self, piece: int, n: int) -> BoolArray:
        draws = randomness.derive(self.seed, "held out", piece).random(n)
        return np.asarray(draws < self.held_out_share)


def triples_of(ratings: Ratings) -> Triples:
    """The ratings without their ids."""
    return Triples(ratings.user_rows, ratings.item_rows, ratings.values)
