"""What inference concluded, and the one way of asking it: `posterior.believe(people, threads)` gives a `Belief`.

Parts that not every model has are values that are there or None: item vectors and embeddings of a posterior;
uncertainty, queries, information and influence of a belief. What a model can do follows from them (`abilities_of`).
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
    """Pairs of people (rows of a belief) and items (-1 for one never seen), and when they meet, where that is known."""

    rows: IntArray
    items: IntArray
    times: TimeArray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of_one(cls, row: int, items: IntArray) -> Pairs:
        """One of the people, and each of these items."""
        return cls(np.full(len(items), row, np.int32), items)


@dataclass(frozen=True, eq=False)
class People:
    """Who is asked about: users of the training ratings, and new users."""

    rows: IntArray  # in training, -1 for a new user
    history: CSR  # every rating that counts for them now, with times where they are known
    trained: CSR | None  # those of the history that the posterior has seen; None for none of them
    is_new: BoolArray  # whose history differs from what training saw of them: they have to be folded in
    features: FloatMatrix | None = None  # what else is known of each, a row each

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def known(cls, rows: IntArray, ratings: CSR) -> People:
        """Users as training left them; `ratings` are all training ratings by user, or none."""
        history = ratings.take(rows if len(ratings.columns) else np.full(len(rows), -1, np.int32))
        return cls(rows, history, history, np.zeros(len(rows), np.bool_))

    @classmethod
    def strangers(cls, history: CSR, trained: CSR | None = None) -> People:
        """People who are known by these ratings alone, of which the posterior may have seen some."""
        n = len(history)
        return cls(np.full(n, -1, np.int32), history, trained, np.ones(n, np.bool_))

    @classmethod
    def nobody(cls) -> People:
        """One person without any ratings."""
        return cls.known(np.array([-1], np.int32), CSR.empty(1))

    @property
    def cold(self) -> BoolArray:
        """Who has nothing to go by."""
        return np.asarray((self.rows < 0) & (self.history.counts == 0))


@dataclass(frozen=True, eq=False)
class PredictiveDistribution:
    """What pairs of users and items would be rated: the expected rating, as far as it is known, and a rating."""

    belief: ExpectedRating
    rating: RatingDistribution


@dataclass(frozen=True, eq=False)
class Queries:
    """Scores that are inner products: score = query . item vector + offset, which an index can search."""

    vectors: FloatMatrix  # one row a person
    offsets: FloatArray  # one a person
    items: Callable[[], FloatMatrix]  # gives one row an item: made when every item is looked at without an index

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
    """How uncertain the scores of a belief are."""

    @property
    def usual_rating(self) -> float:
        """The mean of the training ratings: what a good item should reach, unless told otherwise."""

    @property
    def rating_range(self) -> tuple[float, float]:
        """The lowest and the highest rating."""

    @property
    def items_are_certain(self) -> bool:
        """Whether items are the same in every draw, so that an index over them finds the best of a draw."""

    def summary(self, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
        """The expected rating of each pair, and the standard deviation of the belief about it; items are known."""

    def draw_scores(self, row: int, n: int, rng: Generator, items: IntArray | None = None) -> FloatMatrix:
        """What items (None: all) would score for a person in n draws from the posterior, evenly over what is kept."""

    def draw_queries(self, row: int, n: int, rng: Generator) -> tuple[FloatMatrix, FloatArray]:
        """The query vectors and offsets of n draws: those whose scores `draw_scores` gives with the same numbers."""


@dataclass(frozen=True, eq=False)
class Inquiry:
    """What to ask a user, one question after the other, and how much less uncertain the answers leave the targets."""

    items: IntArray
    reductions: DoubleArray  # of the targets' mean variance, a question each; in squared units of ratings
    variance: float  # before the first


class Choices(Protocol):
    """What people would choose, and what is liked of it: where a model has a belief about both.

    The score of an item is that of choosing it and of liking it, combined.
    """

    @property
    def base_rate(self) -> float:
        """The probability of a choice, averaged over all items."""

    @property
    def liked_from(self) -> DoubleArray:
        """What each person has to rate something to have liked it."""

    def probabilities(self, pairs: Pairs) -> FloatArray:
        """How likely each item is among the next choices of a person."""

    def liked(self, pairs: Pairs, sds: float = 0.0) -> DoubleArray:
        """How likely each rating is to be at least `liked_from`, if the expected one were so many sds higher."""

    def choice_contributions(self, row: int, items: IntArray) -> FloatMatrix:
        """What each rating of a person adds to the propensity to choose items, items x ratings: they add up."""

    def scored(self, pairs: Pairs, liked: DoubleArray) -> FloatArray:
        """What lists are ordered by, given how likely each item is to be liked."""

    def drawn_liked(self, row: int, items: IntArray, rng: Generator) -> DoubleArray:
        """How likely items are to be liked by one person, in one draw from the posterior."""


class Information(Protocol):
    """How much an answer would tell, which is known before it is given."""

    def inquire(self, row: int, askable: IntArray, targets: IntArray, importance: DoubleArray, n: int) -> Inquiry:
        """Up to n of the askable items, whose ratings lower the variance of the targets' scores most.

        `importance` is what each target counts, 1 together; of equally good questions the first is asked.
        """


class Influence(Protocol):
    """What all ratings of a person did, known at once and not rating by rating."""

    def influences(self, item_rows: IntArray) -> FloatMatrix:
        """What a unit more of each rating of the first person would add to the expected ratings; items x ratings.

        Exact where these are linear in the ratings; else the effect of a small change.
        """


class Belief(ABC):
    """What a posterior says of some people (rows 0..n-1 of the belief) and of every item.

    A subclass writes `__len__`, `mean`, and either `queries` or `scores`. Every other part is None where a model does
    not have it.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def mean(self, pairs: Pairs) -> FloatArray:
        """The expected rating of each pair."""

    def scores(self, rows: IntArray) -> FloatMatrix:
        """What lists are ordered by: one row a person and one column an item; the caller may write into it."""
        if self.queries is None:
            raise NotImplementedError(f"{type(self).__name__} has neither scores nor queries")
        return self.queries.scores(rows)

    def predictive(self, pairs: Pairs) -> PredictiveDistribution | None:
        """What each pair would be rated, with all uncertainty; None for a model that predicts a point."""
        return None

    @property
    def is_latent(self) -> bool:
        """Whether scores are no ratings, which follow from them and not as a straight line.

        Items are searched by score. What is shown, and decides between the best found, is what `listed` gives.
        """
        return False

    def listed(self, pairs: Pairs) -> FloatArray:
        """What is shown of items found by score, and decides between them: the expected rating."""
        return self.mean(pairs)

    @property
    def queries(self) -> Queries | None:
        """The people as vectors, where scores are inner products with the posterior's `item_vectors`."""
        return None

    @property
    def embeddings(self) -> FloatMatrix | None:
        """The people as points, a row each, in the same dimensions as the posterior's `embeddings` of items."""
        return None

    @property
    def uncertainty(self) -> ScoreUncertainty | None:
        """How uncertain scores are."""
        return None

    @property
    def chosen(self) -> Choices | None:
        """What people would choose."""
        return None

    @property
    def rated(self) -> Belief:
        """The belief about ratings alone: that of a model that has no other."""
        return self

    @property
    def information(self) -> Information | None:
        """What an answer would tell."""
        return None

    @property
    def influence(self) -> Influence | None:
        """What each rating did."""
        return None

    # How similar people (rows of the belief) and training users are, in a way of the model's own: from -1 to 1, one
    # row a person and one column a training user; 0 is nothing in common, and the caller may write into it.
    user_similarities: Callable[[IntArray], FloatMatrix] | None = None


class Posterior(ABC):
    """Beliefs about users, and the ratings that follow from them. A subclass writes `believe` and what is saved."""

    keeps_users: ClassVar[bool] = True  # False where users are known by their ratings alone, which are not saved here

    @abstractmethod
    def believe(self, people: People, threads: int) -> Belief:
        """What is believed of these people: as training left them, or folded in where their history is new."""

    @abstractmethod
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """All that must be saved."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The same posterior from what was saved."""

    @property
    def item_vectors(self) -> FloatMatrix | None:
        """What an index is built over, one row an item, where scores are inner products."""
        return None

    @property
    def embeddings(self) -> FloatMatrix | None:
        """Items as points of a taste space, one row each: similar where they lie in one direction.

        They have the factors only. A bias says how much is thought of a thing, not of what kind it is.
        """
        return None

    @property
    def rating_range(self) -> tuple[float, float] | None:
        """The lowest and the highest rating, where the model knows better than its training ratings."""
        return None

    @property
    def levels(self) -> DoubleArray | None:
        """Those that ratings can be; None for numbers."""
        return None

    @property
    def history_levels(self) -> DoubleArray | None:
        """Those that ratings of a history have to be; None for any numbers."""
        return None

    # The items as factors and biases in units of ratings, which another fit can begin from (`resuming.ItemPoints`).
    item_points: Callable[[], Any] | None = None
    # How similar items are, in a way of the model's own: from -1 to 1, one row an item asked about and one column an
    # item. 0 is nothing in common: such an item is not listed as similar. The caller may write into it.
    item_similarities: Callable[[IntArray, int], FloatMatrix] | None = None


class Scored(Protocol):
    """Whatever scores every item for some people at a time: a belief, or what changes its scores."""

    def scores(self, rows: IntArray) -> FloatMatrix: ...


def score_blocks(scored: Scored, n_people: int, n_items: int) -> Iterator[tuple[IntArray, FloatMatrix]]:
    """The scores of every item, some people (rows of the belief) at a time, so that memory stays bounded."""
    if isinstance(scored, Belief):
        scored = scored.queries or scored
    if isinstance(scored, Queries):  # Its item vectors are made once for all blocks.
        items = scored.items()
        scored = Queries(scored.vectors, scored.offsets, lambda: items)
    for rows in row_blocks(n_people, n_items, BLOCK_SCORES):
        yield rows, scored.scores(rows)


def abilities_of(posterior: Posterior) -> dict[str, bool]:
    """What a model can do, from the parts that it has: for JSON and messages."""
    belief = posterior.believe(People.nobody(), 1)
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
