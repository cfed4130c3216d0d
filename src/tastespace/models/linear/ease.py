"""What a linear model concludes: weights between items. What a user has chooses among them.

EASE: the best linear prediction of each item from all others, in closed form (Steck 2019).

    minimise  |X - X B|^2 + lambda |B|^2   subject to  B_jj = 0

X has one row a user and one column an item, 1 where the user has the item. Without the constraint an item would best be
predicted by itself, and B would say nothing about items that a user does not have yet. With multipliers 2 gamma_j for
the constraints, the derivative of the Lagrangian by B is zero where

    (X^T X + lambda I) B = X^T X - diag(gamma)

With P = (X^T X + lambda I)^-1 this is B = I - P diag(gamma + lambda), and B_jj = 0 asks for gamma_j + lambda =
1 / P_jj:

    B_ij = -P_ij / P_jj   for i != j                                                             (by items)

P has one row an item. Where users are fewer, the same comes from a matrix with one row a user. By Woodbury's identity
lambda P = I - H with H = X^T (X X^T + lambda I)^-1 X, and so

    B_ij = H_ij / (1 - H_jj)   for i != j                                                        (by users)

With an `item_share` items that many have are held back more: lambda I becomes D, D_jj = lambda + item_share * n_j for
the n_j users of item j. All of the above holds for X D^-1/2 sqrt(lambda) in place of X, whose weights are those of X
times sqrt(D_ii / D_jj): it is the same model in other units of the items.

1 - H_jj = lambda P_jj, between 0 and 1, is kept beside B: it is how much of item j the other items leave unexplained,
and makes weights comparable. -P_ij / sqrt(P_ii P_jj) = B_ij sqrt(P_jj / P_ii) is the partial correlation of two items:
how much they go together beyond what all other items account for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import AnyFloats, DoubleArray, FloatArray, FloatMatrix, IntArray, blocks
from tastespace.data.csr import CSR
from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior
from tastespace.models.implicit_feedback import OneClass
from tastespace.parameters import Range, check_int, check_number, thousand_users
from tastespace.progress import Observer, Progress
from tastespace.settings import takes_old_parameters

BLOCK_PRODUCTS = 1 << 22  # products of rows held at once in sparse form: at most 64 MB


def fill_with_gram(
    out: AnyFloats,  # n x n, C-ordered
    rows: scipy.sparse.csr_array,  # n x m, of the same precision
    columns: scipy.sparse.csr_array,  # m x n: the same, transposed
    diagonal: float | DoubleArray,
    observer: Observer,
    n_threads: int = 1,
) -> None:
    """Write rows . rows^T + a diagonal, some rows at a time."""
    n = len(out)

    def fill(part: slice) -> int:
        (rows[part] @ columns).toarray(out=out[part])
        return int(part.stop)

    for stop in threads.mapped(fill, blocks(n, n, BLOCK_PRODUCTS), n_threads):
        observer(Progress("occurring together", stop, n))
    out[np.diag_indices(n)] += diagonal


BLOCK_ROWS = 512  # mirrored at once: both sides of a block stay in the cache


def invert(matrix: AnyFloats, observer: Observer) -> None:
    """Replace a positive definite matrix (n x n, C-ordered) by its inverse: Cholesky, then the inverse of the factors.

    LAPACK does both in place: n^3 multiplications in all, a third of them for the factors.
    """
    from scipy.linalg import get_lapack_funcs

    functions: Any = get_lapack_funcs(("potrf", "potri"), (matrix,))
    factorize, invert_factor = functions
    observer(Progress("inverting", 0, 2))
    # LAPACK counts by columns: what it calls the lower triangle is the upper one by rows.
    factor, failed = factorize(matrix.T, lower=1, clean=0, overwrite_a=1)
    _require(failed)
    observer(Progress("inverting", 1, 2))
    inverse, failed = invert_factor(factor, lower=1, overwrite_c=1)
    _require(failed)
    assert np.shares_memory(inverse, matrix), "LAPACK worked on a copy"
    _mirror(matrix)
    observer(Progress("inverting", 2, 2))


def _mirror(matrix: AnyFloats) -> None:
    """Copy the upper triangle to the lower one."""
    for part in blocks(len(matrix), 1, BLOCK_ROWS):
        matrix[part.stop :, part] = matrix[part, part.stop :].T
        block = matrix[part, part]
        block[:] = np.triu(block) + np.triu(block, 1).T


def _require(failed: int) -> None:
    if failed:
        raise NonFiniteStateError(
            "the matrix of what occurs together cannot be inverted: in double precision it is singular; expected a "
            "larger regularization"
        )


BLOCK_NUMBERS = 1 << 22  # numbers in double precision held at once beside the large matrices: 32 MB
MOST_SHORT = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """What is learned: B, and how much of each item the others leave unexplained."""

    matrix: FloatMatrix  # items x items; row k is what having item k adds to the score of each item
    unexplained: FloatArray  # lambda P_jj, one an item; 1 for one that nobody has


def item_weights(
    has: CSR, n_items: int, regularization: float, observer: Observer, item_share: float = 0.0
) -> ItemWeights:
    """B from what each user has (columns are item rows; values do not count)."""
    by_user = _matrix(has, n_items)
    by_item = by_user.T.tocsr()
    # sqrt(D_jj / lambda)
    units = np.sqrt(1 + item_share / regularization * np.bincount(has.columns, minlength=n_items))
    solve = _by_users if is_by_users(len(has), n_items) else _by_items
    return solve(by_user, by_item, regularization, units, observer)


def is_by_users(n_users: int, n_items: int) -> bool:
    """Whether to work with a matrix of users: where it, in double precision, takes no more room than B itself does."""
    return 2 * n_users**2 <= n_items**2


def bytes_needed(n_items: int) -> int:
    """The memory that fitting takes, whichever way: P in double precision, or B beside the matrix of users."""
    return 8 * n_items**2


def _by_items(
    by_user: scipy.sparse.csr_array,
    by_item: scipy.sparse.csr_array,
    regularization: float,
    units: DoubleArray,
    observer: Observer,
) -> ItemWeights:
    """-P_ij / P_jj, written over P."""
    n_items = by_item.shape[0]
    numbers = np.empty(n_items * n_items)
    fill_with_gram(numbers.reshape(n_items, n_items), by_item, by_user, regularization * units**2, observer)
    invert(numbers.reshape(n_items, n_items), observer)
    precisions = _positive(np.diagonal(numbers.reshape(n_items, n_items)).copy())
    _divide_in_place(numbers, precisions, observer)
    # What lies behind is free now. Nobody else has a view of these numbers, so that they may be moved.
    numbers.resize((n_items * n_items + 1) // 2, refcheck=False)
    matrix = numbers.view(np.float32)[: n_items * n_items].reshape(n_items, n_items)
    return ItemWeights(matrix, (regularization * precisions).astype(np.float32))


def _divide_in_place(numbers: DoubleArray, precisions: DoubleArray, observer: Observer) -> None:
    """Turn P into B in single precision at the front of the same memory.

    From the first row on: row i of B ends where row i / 2 of P did, so that only rows that were read are overwritten.
    """
    n = len(precisions)
    before, after = numbers.reshape(n, n), numbers.view(np.float32)
    for part in blocks(n, n, BLOCK_NUMBERS):
        block = before[part] / -precisions
        block[np.arange(len(block)), np.arange(part.start, part.stop)] = 0
        after[part.start * n : part.stop * n] = block.reshape(-1)
        observer(Progress("weights", part.stop, n))


def _by_users(
    by_user: scipy.sparse.csr_array,
    by_item: scipy.sparse.csr_array,
    regularization: float,
    units: DoubleArray,
    observer: Observer,
) -> ItemWeights:
    """H_ij / (1 - H_jj), some columns at a time, of items in units of their regularization."""
    n_users, n_items = by_user.shape
    by_user, by_item = by_user.multiply(1 / units).tocsr(), by_item.multiply(1 / units[:, None]).tocsr()
    inverse = np.empty((n_users, n_users))
    fill_with_gram(inverse, by_user, by_item, regularization, observer)
    invert(inverse, observer)
    matrix, unexplained = np.empty((n_items, n_items), np.float32), np.empty(n_items)
    for part in blocks(n_items, n_items, BLOCK_NUMBERS):
        own = np.arange(part.start, part.stop), np.arange(part.stop - part.start)
        explained = by_item @ np.ascontiguousarray((by_item[part] @ inverse).T)  # H, items x block
        unexplained[part] = _positive(1 - explained[own])
        explained /= unexplained[part]
        explained[own] = 0
        matrix[:, part] = explained * units[part] / units[:, None]
        observer(Progress("weights", part.stop, n_items))
    return ItemWeights(matrix, (unexplained / units**2).astype(np.float32))


def _positive(numbers: DoubleArray) -> DoubleArray:
    """Theory has them so; rounding may not, if there is next to no regularization."""
    if not (numbers > 0).all():
        raise NonFiniteStateError(
            "the weights of EASE have lost all precision: what the other items leave of an item is zero; expected a "
            "larger regularization"
        )
    return numbers


def _matrix(has: CSR, n_items: int) -> scipy.sparse.csr_array:
    """X, users x items."""
    index = np.int32 if len(has.columns) <= MOST_SHORT else np.int64
    return scipy.sparse.csr_array(
        (np.ones(len(has.columns)), has.columns.astype(index), has.offsets.astype(index)), shape=(len(has), n_items)
    )


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


@takes_old_parameters
@dataclass(kw_only=True)
class EASE(OneClass):
    """What goes with the things that a user has: weights from every item to every other, in closed form (Steck 2019).

    For clicks, plays and purchases. Every rating counts as 1, whatever its value: of stars, it only counts that an item
    has been rated. Zeros and negative numbers, which say no, are refused.

    score = sum of the weights from the items that a user has. It is no rating and no probability: only the order
    means something, and `predict` does not clip it. Where it is 0, as with everything for someone of whom nothing is
    known, what more people have comes first.

    `regularization` pulls the weights to zero; where an item has many more users than that, it is hardly felt.
    `item_share` adds this share of the number of users of an item to it, so that it is felt by popular items, too.
    Weights take 4 bytes for each pair of items, and twice as much while fitting. A catalogue of more than `most_items`
    is refused before it fills the memory.

    There is nothing random in it: neither `seed` nor `threads` changes anything. LAPACK works with one thread, so that
    the weights are the same to the last bit wherever it has the same instructions.
    """

    regularization: float = 100.0
    item_share: float = 0.0
    most_items: int = 20_000

    search_space = {"regularization": Range(1, 10_000, unit=thousand_users)}
    posterior_class = LinearPosterior
    scores_are_ratings = False

    def check(self) -> None:
        super().check()
        check_number("regularization", self.regularization, above=0)
        check_number("item_share", self.item_share, least=0)
        check_int("most_items", self.most_items, least=1)

    @classmethod
    def candidates(cls, observed: Ratings) -> list[dict[str, float]]:
        if observed.kind not in CHOICES or observed.n_items > cls.most_items:
            return []
        return [{"regularization": value, "item_share": 0.5} for value in (100.0, 30.0, 300.0, 1000.0)]

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> LinearPosterior:
        self.check_ratings(observed)
        self._require_room(observed)
        with threads.one_blas_thread():
            strengths = float(self.regularization), observer, float(self.item_share)
            weights = item_weights(observed.by_user, observed.n_items, *strengths)
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
