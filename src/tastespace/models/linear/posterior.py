"""What a linear model concludes: weights between items. What a user has chooses among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import FloatArray, FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.base.parameters import Range, check_int, check_number, thousand_users
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior
from tastespace.models.implicit_feedback import OneClass
from tastespace.models.linear.ease import ItemWeights, bytes_needed, item_weights
from tastespace.progress import Observer

BLOCK_WEIGHTS = 1 << 20  # weights gathered at once for pairs of users and items
TIE = np.float32(1e-9)  # Of scores of 0 the order; beside any other it is lost in rounding.


@dataclass(frozen=True, eq=False)
class LinearPosterior(Posterior):
    """score = sum of the weights from the items that a user has. A belief about users is what they have: 1 an item."""

    weights: ItemWeights
    shares: FloatArray  # of the training users, who have each item: settles scores of 0

    keeps_users = False

    @property
    def n_items(self) -> int:
        return len(self.weights.matrix)

    def believe(self, people: People, threads: int) -> LinearBelief:
        """Whatever is above zero counts as 1. A zero stands for an item that the user has not: `explain` asks so."""
        history = people.history
        return LinearBelief(self, CSR(history.offsets, history.columns, (history.values > 0).astype(np.float32)))

    def item_similarities(self, item_rows: IntArray, threads: int) -> FloatMatrix:
        """Partial correlations (see `tastespace.models.linear.ease`)."""
        sizes: FloatArray = np.sqrt(self.weights.unexplained)
        found: FloatMatrix = self.weights.matrix[item_rows] * (sizes / sizes[item_rows, None])
        found[np.arange(len(item_rows)), item_rows] = 1
        return np.clip(found, -1, 1, out=found)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"weights": self.weights.matrix, "unexplained": self.weights.unexplained, "shares": self.shares}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LinearPosterior:
        matrix, unexplained = arrays["weights"], arrays["unexplained"]
        if unexplained.ndim != 1 or matrix.shape != (len(unexplained), len(unexplained)):
            raise ValueError(f"the weights are {matrix.shape}, and the items {unexplained.shape}")
        shares = arrays.get("shares", np.zeros(len(unexplained), np.float32))  # Earlier there were none.
        if shares.shape != unexplained.shape:
            raise ValueError(f"the shares are {shares.shape}, and the items {unexplained.shape}")
        return cls(ItemWeights(matrix, unexplained), shares)


@dataclass(frozen=True, eq=False)
class LinearBelief(Belief):
    """What users have."""

    posterior: LinearPosterior
    has: CSR  # 1 for each item

    def __len__(self) -> int:
        return len(self.has)

    def mean(self, pairs: Pairs) -> FloatArray:
        """The score of each pair; 0 for an item never seen."""
        items, n_items = pairs.items, self.posterior.n_items
        if len(items) and items.max() >= n_items:
            raise IndexError(f"item row {items.max()}; expected below {n_items}, the items with weights")
        scores = np.empty(len(items), np.float32)
        for some in _blocks(self.has.counts[pairs.rows]):
            has = self.has.take(pairs.rows[some])
            owners = has.rows()  # of each weight, its pair
            gathered = self.posterior.weights.matrix[has.columns, items[some][owners]] * has.values
            # One after the other and in double precision, so that the company of a pair changes nothing.
            scores[some] = np.bincount(owners, gathered, minlength=len(has))
        scores += TIE * self.posterior.shares[items]
        return np.where(items < 0, np.float32(0), scores)

    def scores(self, rows: IntArray) -> FloatMatrix:
        import scipy.sparse

        has = self.has.take(rows)
        users = scipy.sparse.csr_array((has.values, has.columns, has.offsets), shape=(len(has), self.posterior.n_items))
        scores: FloatMatrix = np.asarray(users @ self.posterior.weights.matrix)
        scores += TIE * self.posterior.shares
        return scores


def _blocks(counts: NDArray[Any]) -> Iterator[slice]:
    """Pairs in a row whose users have not too many items together, in bounded memory."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + BLOCK_WEIGHTS, side="right")))
        yield slice(start, stop)
        start = stop


@dataclass(kw_only=True)
class EASE(OneClass):
    """What goes with the things that a user has: weights from every item to every other, in closed form (Steck 2019).

    For clicks, plays and purchases. Every rating counts as 1, whatever its value: of stars, it only counts that an item
    has been rated. Zeros and negative numbers, which say no, are refused.

    score = sum of the weights from the items that a user has. It is no rating and no probability: only the order
    means something, and `predict` does not clip it. Where it is 0, as with everything for somebody of whom nothing is
    known, what more people have comes first.

    `regularisation` pulls the weights to zero; where an item has many more users than that, it is hardly felt. Weights
    take 4 bytes for each pair of items, and twice as much while fitting. A catalogue of more than `most_items` is
    refused before it fills the memory.

    There is nothing random in it: neither `seed` nor `threads` changes anything. LAPACK works with one thread, so that
    the weights are the same to the last bit wherever it has the same instructions.
    """

    regularisation: float = 100.0
    most_items: int = 20_000

    search_space = {"regularisation": Range(1, 10_000, unit=thousand_users)}
    posterior_class = LinearPosterior
    scores_are_ratings = False

    def check(self) -> None:
        super().check()
        check_number("regularisation", self.regularisation, above=0)
        check_int("most_items", self.most_items, least=1)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> LinearPosterior:
        self.require_choices(observed)
        self._require_room(observed)
        with threads.one_blas_thread():
            weights = item_weights(observed.by_user, observed.n_items, float(self.regularisation), observer)
        shares = observed.by_item.counts / max(observed.n_users, 1)
        return LinearPosterior(weights, shares.astype(np.float32))

    @property
    def prediction_range(self) -> tuple[float, float]:
        """Scores are no ratings."""
        return -inf, inf

    def _require_room(self, observed: Ratings) -> None:
        n_items = observed.n_items
        if n_items <= self.most_items:
            return
        counts = np.sort(observed.by_item.counts)[::-1]
        least = int(counts[self.most_items]) + 1  # more users than the first item that is too many
        n_left = int(np.count_nonzero(counts >= least))
        raise InvalidParameterError(
            f"EASE got {n_items:,} items, and needs 8 bytes for each pair of them: "
            f"{bytes_needed(n_items) / 1e9:,.1f} GB; most_items allows {self.most_items:,} "
            f"({bytes_needed(self.most_items) / 1e9:,.1f} GB). Expected fewer items, such as the {n_left:,} with at "
            f"least {least:,} users; or most_items={n_items} if there is so much memory; or another model, such as "
            "ImplicitALS (implicit-als)"
        )
