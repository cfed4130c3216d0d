"""Ratings for gradient descent: from memory, or piece by piece from a file, in blocks without common rows.

Users and items are each split into `N_PARTS` parts with about equally many ratings. Block (a, b) has the ratings of
users of part a and items of part b, in an order drawn once. The blocks (a, (a + s) mod N_PARTS) of a stage s share no
row: whichever thread takes which block, every row sees the same ratings in the same order (Gemulla et al. 2011). So the
result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import randomness
from tastespace.arrays import AnyFloats, BoolArray, FloatArray, IntArray, OffsetArray, contiguous
from tastespace.data.csr import offsets_of
from tastespace.data.formats.streaming import RatingStream, Triples
from tastespace.data.ratings import Ratings
from tastespace.models.factorization.held_out_search import MIN_HELD_OUT, Validation
from tastespace.models.factorization.sgd.forms import Form

N_PARTS = 16  # of each side: more than the number of processors, few enough for blocks of thousands of ratings
MAX_HELD_OUT = 1_000_000  # of a stream: more would not improve early stopping, and would have to stay in memory


@dataclass(frozen=True, eq=False)
class RatingBlocks:
    """Ratings by block; `targets` are the values that scores are fitted to."""

    offsets: OffsetArray  # N_PARTS^2 + 1
    user_rows: IntArray
    item_rows: IntArray
    targets: AnyFloats

    @classmethod
    def of(
        cls, some: Triples, parts: tuple[IntArray, IntArray], targets: Callable[[FloatArray], AnyFloats], rng: Generator
    ) -> RatingBlocks:
        """The ratings by block, shuffled within each, given the part of each user and item."""
        user_parts, item_parts = parts
        order = rng.permutation(len(some.values))
        block = (user_parts[some.user_rows[order]] * N_PARTS + item_parts[some.item_rows[order]]).astype(np.uint16)
        order = order[np.argsort(block, kind="stable")]
        counts = np.bincount(block, minlength=N_PARTS**2)
        return cls(
            offsets=offsets_of(counts),
            user_rows=contiguous(some.user_rows[order], np.int32),
            item_rows=contiguous(some.item_rows[order], np.int32),
            targets=targets(some.values[order]),
        )

    def __len__(self) -> int:
        return len(self.targets)


def deal(counts: NDArray[Any]) -> IntArray:
    """The part of each row, so that parts have about equally many ratings: largest rows first, back and forth."""
    there_and_back = np.concatenate([np.arange(N_PARTS), np.arange(N_PARTS)[::-1]])
    parts = np.empty(len(counts), np.int32)
    parts[np.argsort(-counts, kind="stable")] = np.resize(there_and_back, len(counts))
    return parts


Epoch = Callable[[Generator], Iterator[RatingBlocks]]  # all ratings, once, in one piece or in several


@dataclass(frozen=True, eq=False)
class Source:
    """Ratings for descent: their summary figures, and a function that reads a piece."""

    n_ratings: int
    mean: float
    standard_deviation: float
    range: tuple[float, float]
    user_counts: NDArray[Any]
    item_counts: NDArray[Any]
    read: Callable[[int], Triples]
    n_pieces: int
    ratings: Ratings | None = None  # if they are in memory

    @classmethod
    def of(cls, ratings: Ratings) -> Source:
        """A source in memory, in one piece."""
        counts = (
            np.bincount(ratings.user_rows, minlength=ratings.n_users),
            np.bincount(ratings.item_rows, minlength=ratings.n_items),
        )
        figures = (len(ratings), ratings.mean, ratings.standard_deviation, ratings.range)
        return cls(*figures, *counts, lambda piece: triples_of(ratings), 1, ratings)

    @classmethod
    def of_stream(cls, stream: RatingStream) -> Source:
        """A source that is read piece by piece, with at most one in memory."""
        figures = (stream.n_ratings, stream.mean, stream.standard_deviation, stream.range)
        return cls(*figures, stream.user_counts, stream.item_counts, stream.read, stream.n_pieces)

    @property
    def visits(self) -> float:
        """The number of visits of an average row in an epoch."""
        return 2 * self.n_ratings / (len(self.user_counts) + len(self.item_counts))

    def form(self, name: Any) -> Form:
        """The form with this name for these ratings."""
        return Form.of(name, self.mean, self.standard_deviation, self.range)

    def epochs(self, form: Form, dtype: Any, rng: Generator) -> Epoch:
        """The ratings of each epoch: blocks that stay the same, or pieces in a new order every epoch."""

        def blocks(piece: int, rng: Generator) -> RatingBlocks:
            return RatingBlocks.of(self.read(piece), parts, lambda values: form.targets(values, dtype), rng)

        parts = deal(self.user_counts), deal(self.item_counts)
        if self.ratings is None:
            return lambda rng: (blocks(int(piece), rng) for piece in rng.permutation(self.n_pieces))
        whole = blocks(0, rng)
        return lambda rng: iter([whole])

    def split(self, share: float, rng: Generator) -> tuple[Source, Triples] | None:
        """The rest, and about this share held out; None if that would be too few to be informative.

        A share of each piece of a stream is held out, the same one every time it is read. Figures and counts stay those
        of all ratings: holding out a random share changes them little.
        """
        if self.ratings is not None:
            validation = Validation.split(self.ratings, share, rng)
            return None if validation is None else (Source.of(validation.train), triples_of(validation.held_out))
        share = min(share, MAX_HELD_OUT / self.n_ratings)
        if int(share * self.n_ratings) < MIN_HELD_OUT:
            return None
        part = partial(self._read_part, share=share, seed=int(rng.integers(1 << 63)))
        held_out = [part(piece, is_held_out=True) for piece in range(self.n_pieces)]
        rest = replace(self, read=partial(part, is_held_out=False))
        return rest, Triples(*(np.concatenate(columns) for columns in zip(*held_out, strict=True)))

    def _read_part(self, piece: int, *, share: float, seed: int, is_held_out: bool) -> Triples:
        some = self.read(piece)
        chosen: BoolArray = randomness.derive(seed, "held out", piece).random(len(some.values)) < share
        return some.masked(chosen if is_held_out else ~chosen)


def triples_of(ratings: Ratings) -> Triples:
    """The ratings without their ids."""
    return Triples(ratings.user_rows, ratings.item_rows, ratings.values)
