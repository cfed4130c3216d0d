"""How alike items are, or users: by their directions in a taste space, or by what a model says itself.

What is asked about is cold if there is nothing to compare it by: it lies at the origin, or is similar to nothing at all
(a model's own similarity of 0 stands for that). It gets an empty list, and is in no other's list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.frames import to_pandas
from tastespace.index.index import Excluded, Neighbours
from tastespace.index.structures.exact import Exact
from tastespace.models.base.candidates import BLOCK_SCORES, best_of_scores, forbid
from tastespace.models.base.posterior import ComparesItems, ComparesUsers, Embeddings, Posterior, Remembers
from tastespace.models.base.query import Asked
from tastespace.models.base.ranking import known_items

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class RaterBits:
    """Who rated each of some items, one bit a user, so that common raters are counted 64 at a time."""

    bits: NDArray[np.uint64]  # one row an item
    lengths: FloatArray  # root of the number of raters of each

    @classmethod
    def of(cls, raters: CSR, n_users: int) -> RaterBits:
        """`raters` has one row an item, whose users ascend."""
        bits = np.zeros((len(raters), n_words(n_users)), np.uint64)
        if len(raters.columns):
            words = raters.rows().astype(np.int64) * bits.shape[1] + raters.columns // 64
            starts = np.flatnonzero(np.diff(words, prepend=-1))  # where another word begins
            flags = np.uint64(1) << (raters.columns % 64).astype(np.uint64)
            bits.reshape(-1)[words[starts]] = np.bitwise_or.reduceat(flags, starts)
        return cls(bits, np.sqrt(raters.counts).astype(np.float32))

    def cosines(self, one: NDArray[Any], other: NDArray[Any]) -> FloatArray:
        """Of pairs of these items, positions that broadcast; 0 with an item that nobody rated."""
        common = np.bitwise_count(self.bits[one] & self.bits[other]).sum(axis=-1, dtype=np.int64)
        scale = self.lengths[one] * self.lengths[other]
        return np.asarray(common / np.where(scale > 0, scale, 1), np.float32)


def n_words(n_users: int) -> int:
    """How many numbers of 64 bits have one for each user."""
    return -(-n_users // 64)


Compare = Callable[[NDArray[Any]], FloatMatrix]  # a position in each list -> similarity of all its entries to that one


class Nearest(NamedTuple):
    """What is most like each one asked about, and which of these have nothing to be compared by."""

    found: Neighbours
    cold: BoolArray  # one asked about


class Directions:
    """Places of a taste space, compared by the cosine; one at the origin, of which nothing is known, is like none."""

    def __init__(self, places: FloatMatrix) -> None:
        self.vectors = directions(places)
        self._index = Exact().build(self.vectors)
        self._placed = _are_placed(self.vectors)

    def nearest(
        self, queries: FloatMatrix, k: int, excluded: Excluded, allowed: BoolArray | None, threads: int
    ) -> Nearest:
        """The k likest of each query (directions), found exactly."""
        if not self._placed.all():
            allowed = self._placed if allowed is None else self._placed & allowed
        self._index.threads = threads
        found = self._index.search(queries, k, excluded=excluded, allowed=allowed)
        cold = ~_are_placed(queries)
        found.items[cold], found.scores[cold] = -1, -np.inf
        # Rounding takes the cosine of two equal directions a little above 1.
        return Nearest(Neighbours(found.items, np.minimum(found.scores, np.float32(1))), cold)


class PlacedItems:
    """Items of a taste space."""

    def __init__(self, places: FloatMatrix) -> None:
        self.directions = Directions(places)

    def nearest(
        self, item_rows: IntArray, k: int, excluded: Excluded, allowed: BoolArray | None, threads: int
    ) -> Nearest:
        """The k items most like each of these."""
        return self.directions.nearest(self.directions.vectors[item_rows], k, excluded, allowed, threads)

    def numbers_held(self, length: int) -> int:
        """How many numbers comparing takes for each list of this length, so that the caller can bound memory."""
        return length * int(self.directions.vectors.shape[1])

    def among(self, lists: IntArray, threads: int) -> Compare:
        """Compares the entries of each list (one row a list of item rows) with one of them."""
        gathered, here = self.directions.vectors[lists], np.arange(len(lists))
        return lambda positions: np.einsum("ncd,nd->nc", gathered, gathered[here, positions])


@dataclass(frozen=True)
class ComparedItems:
    """Items of a model that says itself how alike they are."""

    posterior: ComparesItems
    n_items: int

    def nearest(
        self, item_rows: IntArray, k: int, excluded: Excluded, allowed: BoolArray | None, threads: int
    ) -> Nearest:
        def similarities(positions: IntArray) -> FloatMatrix:
            return self.posterior.item_similarities(item_rows[positions], threads)

        return _nearest(similarities, len(item_rows), self.n_items, k, excluded, allowed)

    def numbers_held(self, length: int) -> int:
        return self.n_items

    def among(self, lists: IntArray, threads: int) -> Compare:
        here = np.arange(len(lists))

        def compare(positions: NDArray[Any]) -> FloatMatrix:
            rows, which = np.unique(lists[here, positions], return_inverse=True)
            similarities = self.posterior.item_similarities(rows.astype(np.int32), threads)
            return similarities[which[:, None], lists]

        return compare


@dataclass(frozen=True, eq=False)
class CoRatedItems:
    """Items compared by who rated them: for lists of different things, where the model knows no better."""

    raters: CSR  # of each item
    n_users: int

    def numbers_held(self, length: int) -> int:
        return 2 * length * n_words(self.n_users)  # a word takes as much room as two numbers

    def among(self, lists: IntArray, threads: int) -> Compare:
        rows, places = np.unique(lists, return_inverse=True)
        bits = RaterBits.of(self.raters.take(rows.astype(np.int32)), self.n_users)
        places, here = places.reshape(lists.shape), np.arange(len(lists))
        return lambda positions: bits.cosines(places, places[here, positions][:, None])


@dataclass(frozen=True)
class PlacedUsers:
    """Users of a taste space."""

    posterior: Embeddings[Any]
    directions: Directions

    def nearest(self, belief: Any, n_asked: int, k: int, excluded: Excluded, threads: int) -> Nearest:
        """The k training users most like each user of the belief."""
        return self.directions.nearest(directions(self.posterior.user_places(belief)), k, excluded, None, threads)


@dataclass(frozen=True)
class ComparedUsers:
    """Users of a model that says itself how alike they are."""

    posterior: ComparesUsers[Any]
    n_users: int

    def nearest(self, belief: Any, n_asked: int, k: int, excluded: Excluded, threads: int) -> Nearest:
        def similarities(positions: IntArray) -> FloatMatrix:
            return self.posterior.user_similarities(belief, positions, threads)

        return _nearest(similarities, n_asked, self.n_users, k, excluded, None)


ItemLikeness = PlacedItems | ComparedItems
PoolLikeness = ItemLikeness | CoRatedItems
UserLikeness = PlacedUsers | ComparedUsers


def compares_items(posterior: Posterior[Any]) -> bool:
    """Whether this model knows how alike items are."""
    return isinstance(posterior, Embeddings | ComparesItems)


def item_likeness(posterior: Posterior[Any], n_items: int) -> ItemLikeness:
    """How alike this model's items are; a model without tastes cannot say."""
    if isinstance(posterior, Embeddings):
        return PlacedItems(posterior.item_places())
    if isinstance(posterior, ComparesItems):
        return ComparedItems(posterior, n_items)
    raise _no_tastes("items")


def user_likeness(posterior: Posterior[Any], n_users: int) -> UserLikeness:
    """How alike this model's users are; a model without tastes cannot say."""
    if isinstance(posterior, Remembers) and not posterior.remembers:
        raise InvalidParameterError(
            "the model was saved without its ratings, which are all that it knows its users by; expected a model saved "
            "with its ratings"
        )
    if isinstance(posterior, Embeddings):
        everybody = posterior.known(np.arange(n_users, dtype=np.int32))
        return PlacedUsers(posterior, Directions(posterior.user_places(everybody)))
    if isinstance(posterior, ComparesUsers):
        return ComparedUsers(posterior, n_users)
    raise _no_tastes("users")


def directions(places: FloatMatrix) -> FloatMatrix:
    """Places scaled to length 1; one at the origin stays there."""
    lengths = np.sqrt(np.einsum("nd,nd->n", places, places, dtype=np.float64))
    return (places / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)


def _are_placed(vectors: FloatMatrix) -> BoolArray:
    """Which are not at the origin."""
    return np.asarray((vectors != 0).any(axis=1))


def _nearest(
    similarities: Callable[[IntArray], FloatMatrix],
    n_asked: int,
    n_others: int,
    k: int,
    excluded: Excluded,
    allowed: BoolArray | None,
) -> Nearest:
    """The k likest of each by a model's own similarities, some of those asked about at a time."""
    cold: BoolArray = np.empty(n_asked, np.bool_)
    found = Neighbours(np.full((n_asked, k), -1, np.int32), np.full((n_asked, k), -np.inf, np.float32))
    step = max(1, BLOCK_SCORES // max(n_others, 1))
    for start in range(0, n_asked, step):
        positions = np.arange(start, min(start + step, n_asked), dtype=np.int32)
        block = similarities(positions)
        block[block == 0] = -np.inf
        forbid(block, positions, excluded, None)
        cold[positions] = ~np.isfinite(block).any(axis=1)  # whatever may be shown of the rest
        found.items[positions], found.scores[positions] = best_of_scores(block, positions, k, None, allowed)
    return Nearest(found, cold)


def _no_tastes(side: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"this model does not know how alike {side} are; expected one that learns tastes, such as als"
    )


@dataclass(frozen=True, eq=False)
class Similar:
    """The items (or users) that are most like each one asked about, likest first, never itself.

    `similarities` are from -1 to 1; in a taste space they are cosines. `cold` ones have nothing to be compared by,
    and an empty list.
    """

    side: Literal["item", "user"]
    ids: pl.Series  # one asked about
    titles: pl.Series | None  # one asked about; None for users
    cold: BoolArray  # one asked about
    rows: IntArray  # asked x n, -1 where there is nothing
    similarities: FloatMatrix  # asked x n
    similar_ids: pl.Series  # asked * n, null where there is nothing
    similar_titles: pl.Series | None  # asked * n

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """One table for each that was asked about."""
        return (self.of(position) for position in range(len(self)))

    def of(self, position: int) -> pl.DataFrame:
        """What is like the one at this position: rank, item or user, title, similarity."""
        if not 0 <= position < len(self):
            raise InvalidParameterError(f"position is {position}; expected one from 0 to {len(self) - 1}")
        n = self.rows.shape[1]
        here = slice(position * n, (position + 1) * n)
        columns: dict[str, Any] = {"rank": np.arange(1, n + 1), self.side: self.similar_ids[here]}
        if self.similar_titles is not None:
            columns["title"] = self.similar_titles[here]
        columns["similarity"] = self.similarities[position]
        return pl.DataFrame(columns).filter(pl.Series(self.rows[position] >= 0))

    def to_polars(self) -> pl.DataFrame:
        """One row a pair: the one asked about, rank, the similar one and perhaps its title, similarity."""
        n_asked, n = self.rows.shape
        asked = pl.Series(np.repeat(np.arange(n_asked), n))
        columns: dict[str, Any] = {self.side: self.ids.gather(asked)}
        if self.titles is not None:
            columns["title"] = self.titles.gather(asked)
        columns |= {"rank": np.tile(np.arange(1, n + 1), n_asked), "similar": self.similar_ids}
        if self.similar_titles is not None:
            columns["similar_title"] = self.similar_titles
        columns["similarity"] = self.similarities.reshape(-1)
        return pl.DataFrame(columns).filter(pl.Series(self.rows.reshape(-1) >= 0))

    def to_pandas(self) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars())

    def __repr__(self) -> str:
        lines = [f"Similar to {len(self)} {self.side}{'s' if len(self) != 1 else ''}"]
        for position in range(min(len(self), 3)):
            title = None if self.titles is None else self.titles[position]
            lines.append(
                f"{self.side} {_named(self.ids[position], title)}"
                + (" (cold: nothing to compare by)" if self.cold[position] else "")
            )
            for row in self.of(position).head(10).iter_rows(named=True):
                lines.append(
                    f"  {row['rank']:>3}  {row['similarity']:6.3f}  {_named(row[self.side], row.get('title'))}"
                )
        if len(self) > 3:
            lines.append(f"… and {len(self) - 3} more; to_polars() has them all")
        return "\n".join(lines)


def _named(entry: Any, title: str | None) -> str:
    return f"{title} [{entry}]" if title else f"{entry}"


def similar_items(
    ratings: Ratings, likeness: ItemLikeness, items: pl.Series, n: int, allowed: BoolArray | None, threads: int
) -> Similar:
    """The n items most like each of these, which the model must know."""
    rows = known_items(ratings, items)
    found, cold = likeness.nearest(rows, min(n, ratings.n_items), _oneself(rows), allowed, threads)
    has_titles = ratings.item_titles is not None
    return Similar(
        side="item",
        ids=items,
        titles=ratings.title_of(rows) if has_titles else None,
        cold=cold,
        rows=found.items,
        similarities=found.scores,
        similar_ids=ratings.items.at(found.items.reshape(-1)),
        similar_titles=ratings.title_of(found.items.reshape(-1)) if has_titles else None,
    )


def similar_users(
    ratings: Ratings, likeness: UserLikeness, asked: Asked, belief: Any, users: pl.Series, n: int, threads: int
) -> Similar:
    """The n training users most like each of these; somebody with nothing to be compared by is like nobody."""
    found, cold = likeness.nearest(belief, len(asked.users), min(n, ratings.n_users), _oneself(asked.rows), threads)
    found.items[asked.cold], found.scores[asked.cold] = -1, -np.inf
    positions = asked.users.rows_of(users)
    rows = found.items[positions]
    return Similar(
        side="user",
        ids=users,
        titles=None,
        cold=(asked.cold | cold)[positions],
        rows=rows,
        similarities=found.scores[positions],
        similar_ids=ratings.users.at(rows.reshape(-1)),
        similar_titles=None,
    )


def _oneself(rows: IntArray) -> Excluded:
    """Nobody is compared with himself; row -1 is in nobody's way."""
    return Excluded(np.concatenate([[0], np.cumsum(rows >= 0)]).astype(np.int64), rows[rows >= 0])
