"""Similarity of items, or of users: by their directions in a taste space, or by a model's own measure.

An item or user is cold if there is nothing to compare it by: it lies at the origin, or is similar to nothing at all
(a model's own similarity of 0 means that). It gets an empty list, and is in no other list.

The direction of an item with few ratings is mostly chance, and among many such items one is always close by chance.
With n_i the number of ratings of item i, the similarity of two items is therefore

    n_i / (n_i + shrinkage) * n_j / (n_j + shrinkage) * cosine(i, j)

A shrinkage of 20 finds what the same users choose about as well as any number from 10 to 50, and better than none
(`benchmarks/similar.py`). A model's own similarities are not shrunk by default: EASE and neighborhood models
have a regularization, which does the same.

A model of both liking and choosing by the same users distinguishes two kinds.
Among the items that are chosen together with one beyond chance, alternatives are those that are liked by the same
users more than an average item, and complements are the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, blocks, row_blocks
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.index.search import Excluded, Neighbours, Scan
from tastespace.models.base.posterior import BLOCK_SCORES, Posterior
from tastespace.models.base.query import Filters, Query, Remarks, known_items
from tastespace.models.base.results import Lists, id_columns, titled
from tastespace.parameters import check_number

BLOCK_NUMBERS = 1 << 22  # held at once for comparing: 16 MB
SHRINKAGE = 20.0  # number of ratings at which the cosine is halved, on either side

SimilarKind = Literal["alternatives", "complements"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Similar(Lists):
    """The items (or users) most similar to each requested one, most similar first, never itself.

    `similarities` are from -1 to 1; in a taste space they are cosines, for items shrunk by their number of ratings.
    `cold` ones have nothing to compare by, and an empty list.
    """

    side: Literal["item", "user"]
    ids: pl.Series  # one per request
    titles: pl.Series | None = None  # one per request; None for users
    similar_rows: IntArray  # requests x n, -1 where there is nothing
    similarities: FloatMatrix  # requests x n
    similar_ids: pl.Series  # requests * n, null where there is nothing
    similar_titles: pl.Series | None = None  # requests * n

    about = "Similar to"
    cold_note = "cold: nothing to compare by"

    @property
    def rows(self) -> IntArray:
        return self.similar_rows

    def asked(self) -> dict[str, Any]:
        return id_columns(self.side, self.ids, self.titles)

    def entries(self, *, levels: bool = False) -> dict[str, Any]:
        """Item or user, title, and similarity."""
        columns = id_columns(self.side, self.similar_ids, self.similar_titles)
        return columns | {"similarity": self.similarities.reshape(-1)}

    def name_beside(self, name: str) -> str:
        return {self.side: "similar", "title": "similar_title"}.get(name, name)

    def line(self, row: dict[str, Any]) -> str:
        return f"{row['similarity']:6.3f}  {titled(row[self.side], row.get('title'))}"


# The most similar to each requested one, and which of these have nothing to compare by.
Nearest = tuple[Neighbours, BoolArray]
Compare = Callable[[NDArray[Any]], FloatMatrix]  # a position in each list -> similarity of all its entries to that one


class Directions:
    """Points of a taste space, compared by the cosine; one at the origin, without information, is similar to none.

    Like the classes below it also compares the entries of lists (`among`), to make lists diverse.
    `trust`, from 0 to 1 and one per point, shrinks every similarity to it.
    """

    def __init__(self, embeddings: FloatMatrix, trust: FloatArray | None = None) -> None:
        self.vectors = directions(embeddings)
        if trust is not None:
            self.vectors *= trust[:, None]
        self._scan = Scan.of(self.vectors)
        self._placed = np.any(self.vectors, axis=1)  # not at the origin

    def nearest(self, queries: FloatMatrix, rows: IntArray, k: int, allowed: BoolArray | None, threads: int) -> Nearest:
        """The k most similar to each query (a direction), found exactly; `rows` are the queries' own, or -1."""
        if not self._placed.all():
            allowed = self._placed if allowed is None else self._placed & allowed
        scan = replace(self._scan, threads=threads)
        found = scan.search(queries, k, excluded=_oneself(rows), allowed=allowed)
        cold = ~np.any(queries, axis=1)
        found.items[cold], found.scores[cold] = -1, -np.inf
        # Rounding can make the cosine of two equal directions slightly larger than 1.
        return Neighbours(found.items, np.minimum(found.scores, np.float32(1))), cold

    def nearest_to(self, rows: IntArray, k: int, allowed: BoolArray | None, threads: int) -> Nearest:
        """The k most similar to each of these points."""
        return self.nearest(self.vectors[rows], rows, k, allowed, threads)

    def numbers_held(self, length: int) -> int:
        """The numbers needed to compare each list of this length, so that the caller can bound memory."""
        return length * int(self.vectors.shape[1])

    def among(self, lists: IntArray, threads: int) -> Compare:
        """Compare the entries of each list (one row of item rows per list) with one of them."""
        gathered, here = self.vectors[lists], np.arange(len(lists))
        return lambda positions: np.einsum("ncd,nd->nc", gathered, gathered[here, positions])


@dataclass(frozen=True)
class ComparedItems:
    """Items of a model with its own similarity."""

    similarities: Callable[[IntArray, int], FloatMatrix]  # see `Posterior.item_similarities`
    n_items: int
    trust: FloatArray | None = None  # see `Directions`

    def nearest_to(self, rows: IntArray, k: int, allowed: BoolArray | None, threads: int) -> Nearest:
        return nearest_by(lambda asked: self._shrunk(rows[asked], threads), rows, self.n_items, k, allowed)

    def _shrunk(self, rows: IntArray, threads: int) -> FloatMatrix:
        found = self.similarities(rows, threads)
        return found if self.trust is None else found * (self.trust[rows, None] * self.trust)

    def of_kind(self, kind: SimilarKind, tastes: Directions) -> ComparedItems:
        """Only items chosen together beyond chance, and more similar in taste than an average one, or less."""

        def similarities(rows: IntArray, threads: int) -> FloatMatrix:
            found, taste = self.similarities(rows, threads), tastes.vectors[rows] @ tastes.vectors.T
            is_alike = taste >= taste.mean(axis=1, keepdims=True)
            found[(found < 0) | (is_alike != (kind == "alternatives"))] = 0
            return found

        return replace(self, similarities=similarities)

    def numbers_held(self, length: int) -> int:
        return self.n_items

    def among(self, lists: IntArray, threads: int) -> Compare:
        here = np.arange(len(lists))

        def compare(positions: NDArray[Any]) -> FloatMatrix:
            rows, which = np.unique(lists[here, positions], return_inverse=True)
            return self.similarities(rows.astype(np.int32), threads)[which[:, None], lists]

        return compare


@dataclass(frozen=True, eq=False)
class CoRatedItems:
    """Items compared by the users who rated them: for diverse lists of models without a similarity."""

    raters: CSR  # of each item
    n_users: int

    def numbers_held(self, length: int) -> int:
        return 2 * length * n_words(self.n_users)  # a word takes as much memory as two numbers

    def among(self, lists: IntArray, threads: int) -> Compare:
        rows, places = np.unique(lists, return_inverse=True)
        bits = RaterBits.of(self.raters.take(rows.astype(np.int32)), self.n_users)
        places, here = places.reshape(lists.shape), np.arange(len(lists))
        return lambda positions: bits.cosines(places, places[here, positions][:, None])


ComparesItems = Directions | ComparedItems
ComparesLists = ComparesItems | CoRatedItems


@dataclass(frozen=True, eq=False)
class RaterBits:
    """The users who rated each of some items, one bit per user, so that common raters are counted 64 at a time."""

    bits: NDArray[np.uint64]  # one row per item
    lengths: FloatArray  # root of the number of raters of each

    @classmethod
    def of(cls, raters: CSR, n_users: int) -> RaterBits:
        """`raters` has one row per item, whose users ascend."""
        bits = np.zeros((len(raters), n_words(n_users)), np.uint64)
        if len(raters.columns):
            words = raters.rows().astype(np.int64) * bits.shape[1] + raters.columns // 64
            starts = np.flatnonzero(np.diff(words, prepend=-1))  # where a new word begins
            flags = np.uint64(1) << (raters.columns % 64).astype(np.uint64)
            bits.reshape(-1)[words[starts]] = np.bitwise_or.reduceat(flags, starts)
        return cls(bits, np.sqrt(raters.counts).astype(np.float32))

    def cosines(self, one: NDArray[Any], other: NDArray[Any]) -> FloatArray:
        """Cosines of pairs of these items, positions that broadcast; 0 for an item without ratings."""
        common = np.bitwise_count(self.bits[one] & self.bits[other]).sum(axis=-1, dtype=np.int64)
        scale = self.lengths[one] * self.lengths[other]
        return np.asarray(common / np.where(scale > 0, scale, 1), np.float32)


def n_words(n_users: int) -> int:
    """The number of 64-bit words with one bit for each user."""
    return -(-n_users // 64)


def directions(embeddings: FloatMatrix) -> FloatMatrix:
    """Points scaled to length 1; one at the origin stays there."""
    lengths = np.sqrt(np.einsum("nd,nd->n", embeddings, embeddings, dtype=np.float64))
    return (embeddings / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)


def nearest_by(
    similarities: Callable[[IntArray], FloatMatrix], rows: IntArray, n_others: int, k: int, allowed: BoolArray | None
) -> Nearest:
    """The k most similar by a model's own similarities, in blocks of requests.

    `rows` are those of the requests among the others, or -1.
    """
    cold: BoolArray = np.empty(len(rows), np.bool_)
    found, oneself = Neighbours.none(len(rows), k), Filters(_oneself(rows))
    for positions in row_blocks(len(rows), n_others, BLOCK_SCORES):
        block = similarities(positions)
        block[block == 0] = -np.inf
        oneself.forbid(block, positions)
        cold[positions] = ~np.isfinite(block).any(axis=1)  # whatever the filters allow
        Filters(None, allowed).forbid(block, positions)
        found.items[positions], found.scores[positions] = top_k(block, k)
    return found, cold


def top_k(scores: FloatMatrix, k: int) -> tuple[IntArray, FloatMatrix]:
    """The best k of each row, best first; ties by the lower item, as in the exact scan."""
    best, edge = Neighbours.none(len(scores), k), np.full(len(scores), -np.inf, np.float32)
    if k < scores.shape[1]:
        # All that reach the k-th score, so that ties at the edge are broken by the item and not by chance.
        edge = -np.partition(-scores, k - 1, axis=1)[:, k - 1]
    for row, (line, limit) in enumerate(zip(scores, edge, strict=True)):
        candidates = np.flatnonzero((line >= limit) & (line > -np.inf))
        chosen = candidates[np.argsort(-line[candidates], kind="stable")[:k]]
        best.items[row, : len(chosen)], best.scores[row, : len(chosen)] = chosen, line[chosen]
    return best.items, best.scores


def no_tastes(side: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"this model does not know how similar {side} are; expected one that learns tastes, such as als"
    )


@dataclass(eq=False)
class ItemSimilarity:
    """The similarity of the items of a model, by taste and by its own measure."""

    _posterior: Posterior
    _ratings: Ratings

    @cached_property
    def _tastes(self) -> Directions | None:
        embeddings = self._posterior.embeddings
        return None if embeddings is None else Directions(embeddings)

    @cached_property
    def _own(self) -> ComparedItems | None:
        own = self._posterior.item_similarities
        return None if own is None else ComparedItems(own, self._ratings.n_items)

    @property
    def plain(self) -> ComparesItems | None:
        """By taste, or else by the model's own measure; not shrunk. None for a model with neither."""
        return self._own if self._tastes is None else self._tastes

    @cached_property
    def _usual(self) -> Directions:
        return self._shrunk(SHRINKAGE)

    def _shrunk(self, shrinkage: float) -> Directions:
        assert self._tastes is not None  # Used only where there are tastes.
        return Directions(self._tastes.vectors, self._trust(shrinkage)) if shrinkage else self._tastes

    def _trust(self, shrinkage: float) -> FloatArray:
        """The factor by which the similarities of each item are shrunk."""
        counts = np.bincount(self._ratings.item_rows, minlength=self._ratings.n_items)
        return (counts / (counts + shrinkage)).astype(np.float32)

    def compared(self, shrinkage: float | None, kind: SimilarKind | None) -> tuple[ComparesItems, Remarks]:
        """The comparison of items, of all kinds or one, with this shrinkage (None: the default); and remarks on it."""
        if shrinkage is not None:
            check_number("shrinkage", shrinkage, least=0)
        if kind not in (None, *get_args(SimilarKind)):
            raise InvalidParameterError(f"kind is {kind!r}; expected None, 'alternatives' or 'complements'")
        if self.plain is None:
            raise no_tastes("items")
        if kind is not None and (self._tastes is None or self._own is None):
            raise InvalidParameterError(
                f"kind is {kind!r}, but this model does not distinguish choices and tastes; expected no kind, or a "
                "model that does: Joint (joint), where its lists are ordered by choices"
            )
        if shrinkage and not len(self._ratings):
            raise InvalidParameterError(
                f"shrinkage is {shrinkage}, but the model was saved without its ratings and does not know how "
                "many an item has; expected shrinkage=0, or a model saved with its ratings"
            )
        if self._own is not None:
            own = self._own if kind is None or self._tastes is None else self._own.of_kind(kind, self._tastes)
            return (replace(own, trust=self._trust(shrinkage)) if shrinkage else own), ()
        if shrinkage is not None:
            return self._shrunk(shrinkage), ()
        if len(self._ratings):
            return self._usual, ()
        return self._shrunk(0), (
            "the model was saved without its ratings: similarities are not shrunk, and items with few ratings may be "
            "listed by chance",
        )


def similar_items(
    ratings: Ratings, compared: ComparesItems, items: pl.Series, n: int, allowed: BoolArray | None, threads: int
) -> Similar:
    """The n items most similar to each of these, which the model must know."""
    rows = known_items(ratings, items)
    found, cold = compared.nearest_to(rows, min(n, ratings.n_items), allowed, threads)
    has_titles = ratings.item_titles is not None
    return Similar(
        side="item",
        ids=items,
        titles=ratings.title_of(rows) if has_titles else None,
        cold=cold,
        similar_rows=found.items,
        similarities=found.scores,
        similar_ids=ratings.items.at(found.items.reshape(-1)),
        similar_titles=ratings.title_of(found.items.reshape(-1)) if has_titles else None,
    )


def similar_users(query: Query, trained: Callable[[], Directions], n: int) -> Similar:
    """The n training users most similar to each of these; a user with nothing to compare by is similar to none.

    `trained` gives the training users of a taste space.
    """
    ratings, people, belief = query.trained, query.people, query.belief
    if not query.posterior.keeps_users and not len(ratings):
        raise InvalidParameterError(
            "the model was saved without its ratings, from which it computes its users; expected a model saved "
            "with its ratings"
        )
    k = min(n, ratings.n_users)
    if belief.embeddings is not None:
        found, cold = trained().nearest(directions(belief.embeddings), people.rows, k, None, query.threads)
    elif belief.user_similarities is not None:
        found, cold = nearest_by(belief.user_similarities, people.rows, ratings.n_users, k, None)
    else:
        raise no_tastes("users")
    found.items[people.cold], found.scores[people.cold] = -1, -np.inf
    rows = found.items[query.positions]
    return Similar(
        side="user",
        ids=query.users,
        cold=(people.cold | cold)[query.positions],
        similar_rows=rows,
        similarities=found.scores[query.positions],
        similar_ids=ratings.users.at(rows.reshape(-1)),
        remarks=query.remarks,
    )


def _oneself(rows: IntArray) -> Excluded:
    """Remove each user's comparison with themselves; row -1 has none."""
    return Excluded(np.concatenate([[0], np.cumsum(rows >= 0)]).astype(np.int64), rows[rows >= 0])


def diversify(found: Neighbours, n: int, diversity: float, compared: ComparesLists, threads: int) -> Neighbours:
    """The n chosen items of each user's pool (best first, padded with -1), in the order of choice.

    Maximal marginal relevance (Carbonell and Goldstein 1998, with lambda = 1 - diversity):

        next = argmax over the pool, less what is chosen, of
               (1 - diversity) * relevance - diversity * (largest similarity to anything chosen)

    The relevance of an item is its score, scaled to 0..1 over the pool of a user's best items. Similarity is the
    model's own, or else the cosine of co-rating. The first item of a list stays the first.
    """
    n_users, size = found.items.shape
    chosen = np.empty((n_users, min(n, size)), np.intp)
    for part in blocks(n_users, compared.numbers_held(size), BLOCK_NUMBERS):
        block = Neighbours(found.items[part], found.scores[part])
        chosen[part] = _choices(block, chosen.shape[1], diversity, compared, threads)
    return Neighbours(np.take_along_axis(found.items, chosen, axis=1), np.take_along_axis(found.scores, chosen, axis=1))


def _choices(pool: Neighbours, n: int, diversity: float, compared: ComparesLists, threads: int) -> NDArray[np.intp]:
    """The chosen positions in each pool, one after another; padding comes last."""
    users = np.arange(len(pool.items))
    is_there = pool.items >= 0
    compare = compared.among(np.maximum(pool.items, 0), threads)
    merit = np.where(is_there, (1 - diversity) * _relevance(pool.scores, is_there), -np.inf).astype(np.float32)
    nearest = np.full(merit.shape, -np.inf, np.float32)
    value = merit.copy()
    choices = np.empty((len(users), n), np.intp)
    for step in range(n):
        choice = value.argmax(axis=1)  # ties go to the one that was better before
        choices[:, step] = choice
        np.maximum(nearest, compare(choice), out=nearest)
        merit[users, choice] = -np.inf
        value = merit - np.float32(diversity) * nearest
    # Where every item has been chosen, argmax is arbitrary: only padding is left.
    short = np.arange(n) >= is_there.sum(axis=1)[:, None]
    return np.where(short, pool.items.shape[1] - 1, choices)


def _relevance(scores: FloatMatrix, is_there: BoolArray) -> FloatMatrix:
    """From 0 to 1 over each pool; 0 for padding."""
    worst = np.where(is_there, scores, np.inf).min(axis=1, keepdims=True)
    above = np.where(is_there, scores, worst) - np.where(np.isfinite(worst), worst, 0)
    above[~is_there] = 0
    spread = above.max(axis=1, keepdims=True)
    return (above / np.where(spread > 0, spread, 1)).astype(np.float32)
