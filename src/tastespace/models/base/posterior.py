"""The result of inference, and its one interface: `posterior.believe(people, threads)` gives a `Belief`.

Parts that not every model has are None where they are missing: item vectors and embeddings of a posterior;
uncertainty, queries, information and influence of a belief. The abilities of a model follow from them (`abilities_of`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray, TimeArray, blocks, row_blocks
from tastespace.data.csr import CSR
from tastespace.distributions.rating_distribution import ExpectedRating, RatingDistribution

BLOCK_SCORES = 1 << 22  # scores held at once: 16 MB, whatever the numbers of users and items


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of people (rows of a belief) and items (-1 for an unknown one), with their times if these are known."""

    rows: IntArray
    items: IntArray
    times: TimeArray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of_one(cls, row: int, items: IntArray) -> Pairs:
        """One person, paired with each of these items."""
        return cls(np.full(len(items), row, np.int32), items)


@dataclass(frozen=True, eq=False)
class People:
    """The people of a query: users of the training ratings, and new users."""

    rows: IntArray  # in training, -1 for a new user
    history: CSR  # every rating that counts for them now, with times where they are known
    trained: CSR | None  # the part of the history that the posterior has seen; None for none of it
    is_new: BoolArray  # their history differs from the training ratings: they have to be folded in
    features: Any = None  # of each person, one sparse row each; None if the model knows none

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def known(cls, rows: IntArray, ratings: CSR) -> People:
        """Users as they were in training; `ratings` are all training ratings by user, or none."""
        history = ratings.take(rows if len(ratings.columns) else np.full(len(rows), -1, np.int32))
        return cls(rows, history, history, np.zeros(len(rows), np.bool_))

    @classmethod
    def new_users(cls, history: CSR, trained: CSR | None = None) -> People:
        """New users with these ratings, some of which the posterior may have seen."""
        n = len(history)
        return cls(np.full(n, -1, np.int32), history, trained, np.ones(n, np.bool_))

    @classmethod
    def without_ratings(cls) -> People:
        """One new user without any ratings."""
        return cls.known(np.array([-1], np.int32), CSR.empty(1))

    @property
    def cold(self) -> BoolArray:
        """Which people have no known ratings."""
        return np.asarray((self.rows < 0) & (self.history.counts == 0))


@dataclass(frozen=True, eq=False)
class PredictiveDistribution:
    """The distributions of pairs of users and items: of the expected rating, and of a single rating."""

    belief: ExpectedRating | None  # None for a model of points, with intervals calibrated around them
    rating: RatingDistribution


@dataclass(frozen=True, eq=False)
class Queries:
    """Scores that are inner products: score = query . item vector + offset, which an index can search."""

    vectors: FloatMatrix  # one row per person
    offsets: FloatArray  # one per person
    items: Callable[[], FloatMatrix]  # returns one row per item, made when all items are scored without an index

    def scores(self, rows: IntArray) -> FloatMatrix:
        return np.asarray(self.vectors[rows] @ self.items().T + self.offsets[rows, None])

    def of_pairs(self, pairs: Pairs) -> FloatArray:
        """The score of each pair, in bounded memory."""
        scores, vectors = np.empty(len(pairs), np.float32), self.items()
        for part in blocks(len(pairs), vectors.shape[1], BLOCK_SCORES):
            users, items = pairs.rows[part], pairs.items[part]
            scores[part] = np.einsum("nd,nd->n", self.vectors[users], vectors[items]) + self.offsets[users]
        return scores


class ScoreUncertainty(Protocol):
    """The uncertainty of the scores of a belief."""

    @property
    def liked_from(self) -> DoubleArray:
        """The lowest rating of an item that each person likes: the default threshold of a good item."""

    @property
    def rating_range(self) -> tuple[float, float]:
        """The lowest and the highest rating."""

    @property
    def items_are_certain(self) -> bool:
        """Whether items are the same in every draw, so that an index over them finds the best of a draw."""

    def summary(self, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
        """The expected rating of each pair, and the standard deviation of the belief about it; items are known."""

    def draw_scores(self, row: int, n: int, rng: Generator, items: IntArray | None = None) -> FloatMatrix:
        """The scores of items (None: all) for a person in n draws from the posterior, evenly spaced over kept ones."""

    def draw_queries(self, row: int, n: int, rng: Generator) -> tuple[FloatMatrix, FloatArray]:
        """The query vectors and offsets of n draws, which give the scores of `draw_scores` with the same numbers."""


@dataclass(frozen=True, eq=False)
class Inquiry:
    """The questions to ask a user, in order, and the reduction of the targets' uncertainty by the answers."""

    items: IntArray
    reductions: DoubleArray  # of the targets' mean variance, one per question; in squared units of ratings
    variance: float  # before the first


class Choices(Protocol):
    """Beliefs about both choosing and liking, where a model has them.

    The score of an item combines the propensity to choose it with the probability of liking it.
    """

    @property
    def base_rate(self) -> float:
        """The probability of a choice, averaged over all items."""

    @property
    def liked_from(self) -> DoubleArray:
        """The lowest rating of an item that each person likes."""

    def probabilities(self, pairs: Pairs) -> FloatArray:
        """The probability that each item is among the next choices of a person."""

    @property
    def bounds(self) -> Callable[[IntArray], FloatMatrix] | None:
        """Upper bounds of the scores of people, whatever the probability of liking; None where only liking counts.

        One row per person and one column per item; the caller may write into it.
        """

    @property
    def queries_of_choices(self) -> Queries | None:
        """The people as vectors whose products with the posterior's `item_vectors` approximate `bounds`; or None."""

    def liked(self, pairs: Pairs, sds: float = 0.0) -> DoubleArray:
        """The probability of a rating of at least `liked_from`, the mean being shifted by some sds of the belief."""

    def choice_contributions(self, row: int, items: IntArray) -> FloatMatrix:
        """The contribution of each rating of a person to the propensity to choose items; items x ratings."""

    def scored(self, pairs: Pairs, liked: DoubleArray) -> FloatArray:
        """The scores that lists are ordered by, given the probability that each item is liked."""

    def drawn_liked(self, row: int, items: IntArray, rng: Generator) -> DoubleArray:
        """The probability that one person likes each item, in one draw from the posterior."""


class Information(Protocol):
    """The expected information of an answer, which is known before it is given."""

    def inquire(self, row: int, askable: IntArray, targets: IntArray, importance: DoubleArray, n: int) -> Inquiry:
        """Up to n of the askable items whose ratings reduce the variance of the targets' scores most.

        `importance` are the weights of the targets, which sum to 1; the first of equally good questions is asked.
        """


class Influence(Protocol):
    """The influence of all ratings of a person, computed at once and not rating by rating."""

    def influences(self, item_rows: IntArray) -> FloatMatrix:
        """The derivatives of the expected ratings by each rating of the first person; items x ratings.

        Exact where these are linear in the ratings; else the effect of a small change.
        """


class Belief(ABC):
    """What a posterior says about some people (rows 0..n-1 of the belief) and all items.

    A subclass writes `__len__`, `mean`, and either `queries` or `scores`. Every other part is None where a model does
    not have it.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def mean(self, pairs: Pairs) -> FloatArray:
        """The expected rating of each pair."""

    def scores(self, rows: IntArray) -> FloatMatrix:
        """The scores that lists are ordered by: one row per person, one column per item; callers may write into it."""
        if self.queries is None:
            raise NotImplementedError(f"{type(self).__name__} has neither scores nor queries")
        return self.queries.scores(rows)

    def predictive(self, pairs: Pairs) -> PredictiveDistribution | None:
        """The predictive distribution of each pair; None for a model that provides none."""
        return None

    def prepare(self) -> None:  # noqa: B027  # Most have nothing to prepare.
        """Compute in advance the uncertainties that will be needed, if they fit in memory."""

    @property
    def is_latent(self) -> bool:
        """Whether ratings are a nonlinear function of scores.

        Items are searched by score. The best found are then shown with, and ordered by, what `listed` returns.
        """
        return False

    def listed(self, pairs: Pairs) -> FloatArray:
        """The values by which items found by score are shown and ordered: the expected ratings."""
        return self.mean(pairs)

    @property
    def queries(self) -> Queries | None:
        """The people as vectors, if scores are inner products with the posterior's `item_vectors`."""
        return None

    @property
    def embeddings(self) -> FloatMatrix | None:
        """The people as points, one row each, in the same dimensions as the posterior's `embeddings` of items."""
        return None

    @property
    def uncertainty(self) -> ScoreUncertainty | None:
        """The uncertainty of scores."""
        return None

    @property
    def chosen(self) -> Choices | None:
        """The belief about choices."""
        return None

    @property
    def rated(self) -> Belief:
        """The belief about ratings alone: the belief itself, for a model that has no other."""
        return self

    @property
    def information(self) -> Information | None:
        """The information of answers."""
        return None

    @property
    def influence(self) -> Influence | None:
        """The influence of ratings."""
        return None

    # Similarity of people (rows of the belief) and training users, for models with their own: from -1 to 1, one row
    # per person and one column per training user; 0 is nothing in common, and the caller may write into it.
    user_similarities: Callable[[IntArray], FloatMatrix] | None = None


class Posterior(ABC):
    """Beliefs about users, and the ratings that follow from them. A subclass writes `believe` and what is saved."""

    keeps_users: ClassVar[bool] = True  # False where users are known by their ratings alone, which are not saved here

    @property
    def people_at_once(self) -> int | None:
        """The number of people whose beliefs fit in memory at once; None where it does not matter."""
        return None

    @abstractmethod
    def believe(self, people: People, threads: int) -> Belief:
        """The belief about these people: as they were in training, or folded in where their history is new."""

    @abstractmethod
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """All arrays that must be saved."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The same posterior from the saved arrays."""

    @property
    def item_vectors(self) -> FloatMatrix | None:
        """The vectors that an index is built over, one row per item, if scores are inner products.

        Where there is a belief about choices, its candidates are found by these.
        """
        return None

    @property
    def no_index(self) -> str:
        """Why there are no item vectors, and what to do."""
        return (
            "has no item vectors, so no index can be built; expected a model that scores by inner products, "
            "such as ALS, BPMF or ImplicitALS"
        )

    @property
    def embeddings(self) -> FloatMatrix | None:
        """Items as points of a taste space, one row each: similar if they have similar directions.

        They have the factors only: a bias is about the quality of an item, not about its kind.
        """
        return None

    @property
    def rated(self) -> Posterior:
        """The posterior of ratings alone, which a belief's `rated` uses."""
        return self

    @property
    def rating_range(self) -> tuple[float, float] | None:
        """The lowest and the highest rating, where the model knows better than its training ratings."""
        return None

    @property
    def levels(self) -> DoubleArray | None:
        """The possible ratings; None for a continuous scale."""
        return None

    @property
    def history_levels(self) -> DoubleArray | None:
        """The values allowed for ratings of a history; None for any numbers."""
        return None

    def rough_summaries(self, panels: FloatArray) -> Callable[[Any, IntArray], tuple[FloatMatrix, FloatMatrix]] | None:
        """Return a fast function for the expected ratings of all items and rough sds; None if there is none.

        It takes a belief of this posterior and some of its rows. `panels` are the item vectors as a scan takes them.
        """
        return None

    # The items as factors and biases in units of ratings, which another fit can start from (`resuming.ItemPoints`).
    item_points: Callable[[], Any] | None = None
    # Similarity of items, for models with their own: from -1 to 1, one row per requested item and one column per
    # item. 0 is nothing in common: such an item is not listed as similar. The caller may write into it.
    item_similarities: Callable[[IntArray, int], FloatMatrix] | None = None


class Scored(Protocol):
    """Anything that scores all items for some people at a time: a belief, or a change of its scores."""

    def scores(self, rows: IntArray) -> FloatMatrix: ...


def score_blocks(scored: Scored, n_people: int, n_items: int) -> Iterator[tuple[IntArray, FloatMatrix]]:
    """The scores of all items, a block of people (rows of the belief) at a time, so that memory stays bounded."""
    if isinstance(scored, Belief):
        scored = scored.queries or scored
    if isinstance(scored, Queries):  # Its item vectors are made once for all blocks.
        items = scored.items()
        scored = Queries(scored.vectors, scored.offsets, lambda: items)
    for rows in row_blocks(n_people, n_items, BLOCK_SCORES):
        yield rows, scored.scores(rows)


def abilities_of(posterior: Posterior) -> dict[str, bool]:
    """The abilities of a model, from the parts that it has: for JSON and messages."""
    belief = posterior.believe(People.without_ratings(), 1)
    has_embeddings = posterior.embeddings is not None
    return {
        "uncertainty": belief.uncertainty is not None,
        "choices": belief.chosen is not None,
        "ask": belief.information is not None,
        "map": has_embeddings,
        "index": posterior.item_vectors is not None,
        "similar_items": has_embeddings or posterior.item_similarities is not None,
        "complements": has_embeddings and posterior.item_similarities is not None,
        "similar_users": has_embeddings or belief.user_similarities is not None,
    }
