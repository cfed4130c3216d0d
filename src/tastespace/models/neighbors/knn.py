"""Item and user k-NN: similarities of rows of ratings, predictions from them, and both models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray, row_blocks
from tastespace.data.csr import CSR, offsets_of
from tastespace.data.ratings import Ratings
from tastespace.index.search import Neighbours
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior
from tastespace.models.base.recommender import Recommender
from tastespace.models.biases import Baseline, damped_biases
from tastespace.parameters import Choice, Range, check_int, check_number, check_option, thousand_users
from tastespace.progress import Observer, Progress
from tastespace.settings import takes_old_parameters

Similarity = Literal["cosine", "pearson", "adjusted-cosine"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "pearson", "adjusted-cosine")  # artifacts store the position


@dataclass(frozen=True)
class Rule:
    """The parameters shared by both neighbourhood models.

    Between two items, sums are over the n users who rated both (between two users: over the items that both rated), and
    x and y are the values of the two:

        cosine           s = sum x y / sqrt(sum x^2 * sum y^2) * n / (n + shrinkage), with sums of squares over all
                         ratings of each; x and y are residuals of the baseline
        pearson          the same with sums of squares over common raters only
        adjusted-cosine  as pearson, but x and y are residuals of the mean of the other side: that of the user between
                         items, that of the item between users (Sarwar et al. 2001)
    """

    similarity: Similarity
    n_neighbours: int
    shrinkage: float
    min_common: int
    min_similarity: float  # neighbours are above it
    damping: float

    def check(self) -> None:
        check_option("similarity", self.similarity, SIMILARITIES)
        check_int("n_neighbours", self.n_neighbours, least=1)
        check_number("shrinkage", self.shrinkage, least=0)
        check_int("min_common", self.min_common, least=1)
        check_number("min_similarity", self.min_similarity, least=0, below=1)
        check_number("damping", self.damping, least=0)

    @property
    def comparison(self) -> tuple[bool, float, int]:
        """The rule as kernels take it: whether sums of squares are over common ratings only, and two limits."""
        return self.similarity != "cosine", self.shrinkage, self.min_common

    def array(self) -> DoubleArray:
        """The rule as an array for an artifact."""
        return np.array([SIMILARITIES.index(self.similarity), *astuple(self)[1:]], np.float64)

    @classmethod
    def from_array(cls, numbers: NDArray[Any]) -> Rule:
        kind, n_neighbours, shrinkage, min_common, min_similarity, damping = (float(value) for value in numbers)
        similarity = SIMILARITIES[int(kind)]
        return cls(similarity, int(n_neighbours), shrinkage, int(min_common), min_similarity, damping)


BLOCK_NEIGHBOURS = 1 << 22  # neighbours held at once before empty slots are dropped: 32 MB


@dataclass(frozen=True, eq=False)
class Others:
    """The users or items that rows are compared with, by the deviations of their ratings."""

    by_column: CSR  # grouped by what they share with a query: for items, by user
    squares: DoubleArray  # sum of the squared deviations of each

    @classmethod
    def of(cls, by_column: CSR, n: int) -> Others:
        squares = np.bincount(by_column.columns, by_column.values.astype(np.float64) ** 2, minlength=n)
        return cls(by_column, squares.astype(np.float64))

    @property
    def parts(self) -> tuple[OffsetArray, IntArray, FloatArray, DoubleArray]:
        """The arrays as kernels take them."""
        return *self.by_column.parts, self.squares


def similarities(queries: CSR, others: Others, rule: Rule, threads: int) -> FloatMatrix:
    """The similarity of each query to each of the others; 0 if they have too little in common."""
    out = np.empty((len(queries), len(others.squares)), np.float32)
    given = *queries.parts, *others.parts, *rule.comparison
    _native.similarities(*given, out, threads)
    return out


def most_similar_to_each(by_column: CSR, n: int, rule: Rule, n_most: int, threads: int, observer: Observer) -> CSR:
    """For each of n rows at most `n_most` similar other rows, best first (ties: the lower row first).

    `by_column` has the deviations of the rows, grouped the other way. All pairs are compared, but never held at once.
    """
    rows, others, width = by_column.transposed(n), Others.of(by_column, n), max(1, min(n_most, n - 1))
    counts, columns, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
    for block in row_blocks(n, width, BLOCK_NEIGHBOURS):
        queries = rows.take(block)
        found = Neighbours.empty(len(queries), width)
        given = *queries.parts, *others.parts, *rule.comparison, int(block[0]), rule.min_similarity
        _native.most_similar(*given, found.items, found.scores, threads)
        kept = found.items >= 0
        counts.append(kept.sum(axis=1))
        columns.append(found.items[kept])
        values.append(found.scores[kept])
        observer(Progress("similarities", int(block[-1]) + 1, n))
    return CSR(offsets_of(np.concatenate(counts)), np.concatenate(columns), np.concatenate(values))


@dataclass(frozen=True, eq=False)
class Histories(Belief):
    """The belief about users: their ratings (columns are item rows) and biases."""

    posterior: NeighbourPosterior
    ratings: CSR
    bias: FloatArray  # one per user
    threads: int

    def __len__(self) -> int:
        return len(self.bias)

    @property
    def residuals(self) -> CSR:
        """The residuals of the ratings from the baseline."""
        return self.posterior.baseline.residuals(self.ratings, self.bias)

    def take(self, rows: IntArray) -> Histories:
        return Histories(self.posterior, self.ratings.take(rows), self.bias[rows], self.threads)

    def mean(self, pairs: Pairs) -> FloatArray:
        order = np.argsort(pairs.rows, kind="stable")
        rows, starts = np.unique(pairs.rows[order], return_index=True)
        adjustments, offsets = np.empty(len(order), np.float32), np.append(starts, len(order)).astype(np.int64)
        adjustments[order] = self.posterior.adjustments(self.take(rows), offsets, pairs.items[order])
        return self.posterior.baseline.ratings(self.bias[pairs.rows], pairs.items) + adjustments

    def scores(self, rows: IntArray) -> FloatMatrix:
        adjustments = self.posterior.adjustments_of_all(self.take(rows))
        items = np.arange(self.posterior.n_items, dtype=np.int32)
        return self.posterior.baseline.ratings(self.bias[rows, None], items) + adjustments


@dataclass(frozen=True, eq=False)
class NeighbourPosterior(Posterior):
    """rating = baseline + adjustment by neighbours; subclasses define the neighbours."""

    baseline: Baseline
    ratings: CSR  # of the training users, who are treated like new users
    rule: Rule

    @abstractmethod
    def adjustments(self, belief: Histories, offsets: OffsetArray, items: IntArray) -> FloatArray:
        """The adjustments by neighbours for the queried items of each user of the belief.

        Those of a user are between two offsets; item row -1 is a new item.
        """

    @abstractmethod
    def adjustments_of_all(self, belief: Histories) -> FloatMatrix:
        """The same for every item, one row per user of the belief."""

    @property
    def n_items(self) -> int:
        return len(self.baseline.item_bias)

    def believe(self, people: People, threads: int) -> Histories:
        return Histories(self, people.history, self.baseline.user_bias(people.history), threads)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            "constants": np.array([self.baseline.mean, self.baseline.user_damping]),
            "rule": self.rule.array(),
            "item_bias": self.baseline.item_bias,
            "offsets": self.ratings.offsets,
            "columns": self.ratings.columns,
            "values": self.ratings.values,
        }


def shared_parts(arrays: Mapping[str, NDArray[Any]]) -> tuple[Baseline, CSR, Rule]:
    """The parts written by `arrays` of the base class; inconsistent ones raise an error."""
    mean, damping = (float(value) for value in arrays["constants"])
    ratings = CSR(arrays["offsets"], arrays["columns"], arrays["values"])
    require_rows("ratings", ratings, len(arrays["item_bias"]))
    return Baseline(mean, arrays["item_bias"], damping), ratings, Rule.from_array(arrays["rule"])


def require_rows(name: str, rows: CSR, n_columns: int) -> None:
    """Raise an error for invalid compressed rows: the kernels rely on them."""
    offsets, columns = rows.offsets, rows.columns
    whole = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(columns) == len(rows.values)
    if not whole or (np.diff(offsets) < 0).any():
        raise ValueError(f"the offsets of the {name} do not fit them")
    if len(columns) and not 0 <= columns.min() <= columns.max() < n_columns:
        raise ValueError(f"the {name} do not fit the items")


@dataclass(frozen=True, eq=False)
class ItemNeighbours(NeighbourPosterior):
    """Similar items of every item, found in training, of which those a user has rated are used."""

    neighbours: CSR  # of each item, best first; values are similarities

    def adjustments(self, belief: Histories, offsets: OffsetArray, items: IntArray) -> FloatArray:
        """The average residual of a user's ratings of the items most similar to each item."""
        out, rule = np.empty(len(items), np.float32), self.rule
        given = offsets, items, *self.neighbours.parts, *belief.residuals.parts
        _native.average_over_items(*given, rule.n_neighbours, rule.damping, out, belief.threads)
        return out

    def adjustments_of_all(self, belief: Histories) -> FloatMatrix:
        out, rule = np.empty((len(belief), self.n_items), np.float32), self.rule
        given = *self.neighbours.parts, *self.followers.parts, *belief.residuals.parts
        _native.average_over_items_of_all(*given, rule.n_neighbours, rule.damping, out, belief.threads)
        return out

    @cached_property
    def followers(self) -> CSR:
        """For each item, the items that have it among their neighbours."""
        return self.neighbours.transposed(self.n_items)

    def item_similarities(self, item_rows: IntArray, threads: int) -> FloatMatrix:
        """Similarities found in training; 0 for pairs that were not kept."""
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
        neighbours = CSR(arrays["neighbour_offsets"], arrays["neighbours"], arrays["similarities"])
        require_rows("neighbours", neighbours, len(baseline.item_bias))
        if len(neighbours) != len(baseline.item_bias):
            raise ValueError("the neighbours do not fit the items")
        return cls(baseline, ratings, rule, neighbours)


def _deviations(baseline: Baseline, ratings: CSR, rule: Rule) -> CSR:
    """The deviations of each user's ratings by which items are compared."""
    if rule.similarity != "adjusted-cosine":
        return baseline.residuals(ratings, baseline.user_bias(ratings))
    total = np.bincount(ratings.rows(), ratings.values, minlength=len(ratings))
    mean = (total / np.maximum(ratings.counts, 1)).astype(np.float32)
    return CSR(ratings.offsets, ratings.columns, ratings.values - mean[ratings.rows()])


BLOCK_SIMILARITIES = 1 << 24  # similarities held at once: 64 MB, whatever the number of users


@dataclass(frozen=True, eq=False)
class UserNeighbours(NeighbourPosterior):
    """The training users, with whom users are compared at query time.

    Training users are compared with themselves as well, so that they get the same answers as a new user with their
    ratings. That counts only for items that they have rated. There their training rating counts even beside a newer one
    of a history, because folding in does not know who the user is.
    """

    @cached_property
    def residuals(self) -> CSR:
        """The residuals of each training user's ratings from the baseline."""
        return self.baseline.residuals(self.ratings, self.baseline.user_bias(self.ratings))

    @cached_property
    def raters(self) -> CSR:
        """The residuals grouped by item."""
        return self.residuals.transposed(self.n_items)

    @cached_property
    def others(self) -> Others:
        """The training users as candidates for neighbours."""
        by_item = self.raters
        if self.rule.similarity == "adjusted-cosine":
            by_item = self._less_item_means(self.ratings).transposed(self.n_items)
        return Others.of(by_item, len(self.ratings))

    def adjustments(self, belief: Histories, offsets: OffsetArray, items: IntArray) -> FloatArray:
        """The average residual of each item's ratings by the users most similar to its user."""
        out, rule = np.empty(len(items), np.float32), self.rule
        for rows in self._blocks(belief):
            here = offsets[rows[0] : rows[-1] + 2]
            part = slice(here[0], here[-1])
            given = here - here[0], items[part], self.similarities(belief, rows), *self.raters.parts
            limits = rule.n_neighbours, rule.min_similarity, rule.damping
            _native.average_over_users(*given, *limits, out[part], belief.threads)
        return out

    def adjustments_of_all(self, belief: Histories) -> FloatMatrix:
        out, rule = np.empty((len(belief), self.n_items), np.float32), self.rule
        for rows in self._blocks(belief):
            given = self.similarities(belief, rows), *self.residuals.parts
            limits = rule.n_neighbours, rule.min_similarity, rule.damping
            _native.average_over_users_of_all(*given, *limits, out[rows[0] : rows[-1] + 1], belief.threads)
        return out

    def believe(self, people: People, threads: int) -> ComparedHistories:
        belief = super().believe(people, threads)
        return ComparedHistories(self, belief.ratings, belief.bias, threads)

    def similarities(self, belief: Histories, rows: IntArray) -> FloatMatrix:
        """The similarities of users of the belief to all training users."""
        return similarities(self._deviations(belief.take(rows)), self.others, self.rule, belief.threads)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> UserNeighbours:
        return cls(*shared_parts(arrays))

    def _blocks(self, belief: Histories) -> Iterator[IntArray]:
        """Blocks of users whose similarities to all others fit into memory."""
        return row_blocks(len(belief), len(self.ratings), BLOCK_SIMILARITIES)

    def _deviations(self, users: Histories) -> CSR:
        """The deviations by which users are compared."""
        if self.rule.similarity == "adjusted-cosine":
            return self._less_item_means(users.ratings)
        return users.residuals

    def _less_item_means(self, ratings: CSR) -> CSR:
        return CSR(ratings.offsets, ratings.columns, ratings.values - self._item_means[ratings.columns])

    @cached_property
    def _item_means(self) -> FloatArray:
        total = np.bincount(self.ratings.columns, self.ratings.values, minlength=self.n_items)
        counts = np.bincount(self.ratings.columns, minlength=self.n_items)
        return np.where(counts > 0, total / np.maximum(counts, 1), self.baseline.mean).astype(np.float32)


@dataclass(frozen=True, eq=False)
class ComparedHistories(Histories):
    """Histories of users who are compared with the training users."""

    posterior: UserNeighbours

    def user_similarities(self, rows: IntArray) -> FloatMatrix:
        return self.posterior.similarities(self, rows)


BIAS_SWEEPS = 20  # alternating steps for the biases, which have long converged by then


@dataclass(kw_only=True)
class _KNN(Recommender):
    """The shared parameters of both models."""

    n_neighbours: int = 20
    similarity: Similarity = "cosine"
    shrinkage: float = 25.0
    damping: float = 0.1
    min_similarity: float = 0.0
    min_common: int = 1
    user_damping: float = 5.0
    item_damping: float = 5.0

    is_its_ratings = True

    def check(self) -> None:
        super().check()
        self._rule.check()
        check_number("user_damping", self.user_damping, least=0)
        check_number("item_damping", self.item_damping, least=0)

    @property
    def _rule(self) -> Rule:
        return Rule(**{field.name: getattr(self, field.name) for field in fields(Rule)})

    def _baseline(self, observed: Ratings) -> Baseline:
        _, items = damped_biases(observed, self.user_damping, self.item_damping, BIAS_SWEEPS)
        return Baseline(observed.mean, items.astype(np.float32), float(self.user_damping))


@takes_old_parameters
@dataclass(kw_only=True)
class ItemKNN(_KNN):
    """A user rates an item as they rated the items most similar to it.

    rating = mean + user bias + item bias + average residual of their ratings of the `n_neighbours` most similar items,
    weighted by similarity. `similarity` is "cosine" (the default), "pearson" or "adjusted-cosine" (see
    `tastespace.models.neighbors.knn.Rule`), times n / (n + `shrinkage`) for n common raters. Neighbours have a
    similarity above `min_similarity` and at least `min_common` common raters. `damping` shrinks the average to zero,
    like one more neighbour of that similarity with a residual of 0.

    The biases are those of `DampedBias`. The `n_candidates` most similar items of each item are kept.
    """

    n_candidates: int = 400

    search_space = {
        "n_neighbours": Range(5, 200, whole=True),
        "similarity": Choice(("cosine", "pearson", "adjusted-cosine")),
        "shrinkage": Range(0.5, 500, unit=thousand_users),
        "damping": Range(0.01, 10),
    }
    posterior_class = ItemNeighbours

    def check(self) -> None:
        super().check()
        check_int("n_candidates", self.n_candidates, least=1)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> ItemNeighbours:
        baseline, ratings, rule = self._baseline(observed), observed.by_user, self._rule
        deviations, n_threads = _deviations(baseline, ratings, rule), threads.resolve(self.threads)
        given = deviations, observed.n_items, rule, self.n_candidates, n_threads, observer
        return ItemNeighbours(baseline, ratings, rule, most_similar_to_each(*given))


@takes_old_parameters
@dataclass(kw_only=True)
class UserKNN(_KNN):
    """A user rates an item as the users most similar to them rated it.

    rating = mean + user bias + item bias + average residual of the ratings of the item by the `n_neighbours` users most
    similar to them, weighted by similarity. `similarity`, `shrinkage`, `damping`, `min_similarity` and `min_common`
    (here: items that both rated) are as in `ItemKNN`.

    Only biases are learned. Every user, known or new, is compared with all training users at query time.
    """

    n_neighbours: int = 40

    search_space = {
        "n_neighbours": Range(10, 400, whole=True),
        "similarity": Choice(("cosine", "pearson", "adjusted-cosine")),
        "shrinkage": Range(1, 200),  # by the items that two users have in common, whatever the number of users
        "damping": Range(0.01, 10),
    }
    posterior_class = UserNeighbours

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> UserNeighbours:
        return UserNeighbours(self._baseline(observed), observed.by_user, self._rule)
