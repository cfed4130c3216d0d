"""How alike items are, or users: by their directions in a taste space, or by what a model says itself.

What is asked about is cold if there is nothing to compare it by: it lies at the origin, or is similar to nothing at all
(a model's own similarity of 0 stands for that). It gets an empty list, and is in no other's list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatMatrix, IntArray
from tastespace.data.co_rating import RaterBits, n_words
from tastespace.data.compressed import Compressed
from tastespace.errors import InvalidParameterError
from tastespace.index.exact import Exact
from tastespace.index.index import Excluded, Neighbours
from tastespace.models.posterior import ComparesItems, ComparesUsers, Places, Posterior, Remembers
from tastespace.models.searching import BLOCK_SCORES, best_of_scores, forbid

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

    raters: Compressed  # of each item
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

    posterior: Places[Any]
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
    return isinstance(posterior, Places | ComparesItems)


def item_likeness(posterior: Posterior[Any], n_items: int) -> ItemLikeness:
    """How alike this model's items are; a model without tastes cannot say."""
    if isinstance(posterior, Places):
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
    if isinstance(posterior, Places):
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
