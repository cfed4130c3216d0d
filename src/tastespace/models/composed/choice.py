"""What people choose: a linear model of rated pairs, the choice side of `Joint`.

People rate what they chose. Which items a user has rated, and how much better than usual, predicts what they choose
next. With the ratings r_ij of user i, n_i of them,

    m_i  = (n_i mean_i + 5 mean) / (n_i + 5)                      what the user must rate to have liked something
    f_ij = 1 + clip((r_ij - m_i) / sd, -2, 2) / 4                 the weight of a pair; 0 where there is no rating
    G    = F^T F,   P = (G + D)^-1,   D_jj = lambda + 0.3 G_jj
    c_ij = -(f_i P)_j / P_jj                                      for items j that the user does not have
    C_ij = (n_i max(c_ij, 0) + 0.3 p_j) / (n_i + 0.3)             p_j: the share of users who have item j

c is EASE (Steck 2019) on weighted pairs, whose regularization grows with the popularity of an item. C, the propensity,
falls back to popularity for users with few ratings: with one to three, EASE alone is worse than popularity.

P has one row an item. Where users are far fewer, the same comes from a matrix of users, by Woodbury's identity:

    K = (I + F D^-1 F^T)^-1,   f P = f D^-1 - (f D^-1 F^T) K F D^-1

What a user would be predicted without some of their ratings is known without another inversion. Replacing their row x
of F by r changes G by r r^T - x x^T. With a = P x, b = P r, V = [a b] and

    M = [[x.a - 1, x.b], [x.b, r.b + 1]]
    P' r = b - V M^-1 (r.a, r.b)^T,   diag P' = diag P - rowsum((V M^-1) * V)

This is exact but for D, whose share of G_jj is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.data.kinds import liked_from
from tastespace.data.ratings import Ratings
from tastespace.models.linear.ease import fill_with_gram, invert
from tastespace.progress import Observer

if TYPE_CHECKING:
    import scipy.sparse

ITEM_SHARE = 0.3  # of an item's own weight in its regularization
POPULAR_RATINGS = 0.3  # that popularity counts for in the propensity of a user
LEAST_PROPENSITY = 1e-12  # so that its logarithm is finite
FEW_USERS = 4  # times as many items: P is made from a matrix of users


@dataclass(frozen=True)
class PairWeights:
    """What a rating counts as a choice, by the mean and the standard deviation of all training ratings."""

    mean: float
    sd: float

    @classmethod
    def of(cls, observed: Ratings) -> PairWeights:
        values = observed.values.astype(np.float64)
        return cls(float(values.mean()), float(values.std()))

    def liked_from(self, history: CSR) -> DoubleArray:
        """What each user must rate at least to have liked something: their mean, shrunk to that of all."""
        return liked_from(history, self.mean)

    def weigh(self, history: CSR, n_items: int) -> scipy.sparse.csr_array:
        """F: a row a user, a weight for each rating."""
        import scipy.sparse

        above = history.values - self.liked_from(history)[history.rows()]
        weights = 1 + np.clip(above / (self.sd or 1.0), -2, 2) / 4
        return scipy.sparse.csr_array((weights, history.columns, history.offsets), shape=(len(history), n_items))


@dataclass(frozen=True, eq=False)
class ByItems:
    """P as weights between items: B_ij = -P_ij / P_jj for i != j, and 0 on the diagonal."""

    matrix: FloatMatrix  # B, items x items: row i is what having item i adds to c of each item
    diagonal: DoubleArray  # of P

    @classmethod
    def of(cls, inverse: DoubleArray) -> ByItems:
        """From P, which is overwritten. In half precision on disk: what is kept is what will be read."""
        diagonal = np.diagonal(inverse).copy()
        inverse /= -diagonal
        matrix = inverse.astype(np.float16).astype(np.float32)
        matrix[np.diag_indices(len(matrix))] = 0
        return cls(matrix, diagonal)

    def linear(self, rows: scipy.sparse.csr_array) -> FloatMatrix:
        """c of rows of weights, of items that a row has as if it had them not."""
        return np.asarray(rows.astype(np.float32) @ self.matrix)

    def times(self, rows: scipy.sparse.csr_array) -> DoubleArray:
        """Rows of weights times P."""
        return np.asarray(self.diagonal * (rows.toarray() - self.linear(rows)))


@dataclass(frozen=True, eq=False)
class ByUsers:
    """The same from K, where users are few: it takes less room, and less time to make."""

    weights: scipy.sparse.csr_array  # F
    penalties: DoubleArray  # D
    inverse: NDArray[Any]  # K, users x users
    diagonal: DoubleArray  # of P

    @classmethod
    def of(cls, weights: scipy.sparse.csr_array, penalties: DoubleArray, observer: Observer) -> ByUsers:
        scaled = weights.multiply(1 / np.sqrt(penalties)).tocsr()
        inverse = _inverted(scaled.T.tocsr(), np.ones(scaled.shape[0]), observer)
        explained = np.asarray((scaled.multiply((scaled.T @ inverse).T)).sum(axis=0)).ravel()
        return cls(weights, penalties, inverse, (1 - explained) / penalties)

    def times(self, rows: scipy.sparse.csr_array) -> DoubleArray:
        """Rows of weights times P."""
        scaled = rows.multiply(1 / self.penalties).tocsr()
        with threads.one_blas_thread():
            solved = np.asarray((scaled @ self.weights.T).todense()) @ self.inverse
        return np.asarray(scaled.toarray() - (solved @ self.weights) / self.penalties)

    def linear(self, rows: scipy.sparse.csr_array) -> FloatMatrix:
        """c of rows of weights; each by itself, so that the company of a user changes nothing to the last bit."""
        each = [self.times(rows[[place]]) for place in range(rows.shape[0])]
        return (rows.toarray() - np.vstack(each) / self.diagonal).astype(np.float32)

    def by_items(self) -> ByItems:
        """The same as weights between items."""
        scaled = self.weights.multiply(1 / self.penalties).tocsr()
        met = scaled.T @ self.inverse  # items x users
        inverse = -np.asarray(met @ scaled)
        inverse[np.diag_indices(len(inverse))] += 1 / self.penalties
        return ByItems.of(inverse)


def _inverted(weights: scipy.sparse.csr_array, penalties: DoubleArray, observer: Observer) -> DoubleArray:
    """(F^T F + D)^-1."""
    n = weights.shape[1]
    inverse = np.empty((n, n))
    fill_with_gram(inverse, weights.T.tocsr(), weights, 0.0, observer)
    inverse[np.diag_indices(n)] += penalties
    with threads.one_blas_thread():
        invert(inverse, observer)
    return inverse


def inverse_of(weights: scipy.sparse.csr_array, regularization: float, observer: Observer) -> ByItems | ByUsers:
    """(G + D)^-1, by the smaller of the two matrices."""
    own = np.asarray(weights.multiply(weights).sum(axis=0)).ravel()
    penalties, (n_users, n_items) = regularization + ITEM_SHARE * own, weights.shape
    if n_items <= n_users:
        return ByItems.of(_inverted(weights, penalties, observer))
    by_users = ByUsers.of(weights, penalties, observer)
    return by_users if FEW_USERS * n_users <= n_items else by_users.by_items()


def without(inverse: ByItems | ByUsers, whole: scipy.sparse.csr_array, rest: scipy.sparse.csr_array) -> DoubleArray:
    """c of users of whom only the rest of their ratings is known: as if the whole had never been seen."""
    a, b = inverse.times(whole), inverse.times(rest)
    xa, xb, ra, rb = (
        np.asarray(rows.multiply(solved).sum(axis=1)).ravel()
        for rows, solved in ((whole, a), (whole, b), (rest, a), (rest, b))
    )
    m11, m12, m22 = xa - 1, xb, rb + 1
    determinant = m11 * m22 - m12**2
    # V M^-1, a column each.
    first = (m22[:, None] * a - m12[:, None] * b) / determinant[:, None]
    second = (m11[:, None] * b - m12[:, None] * a) / determinant[:, None]
    product = b - first * ra[:, None] - second * rb[:, None]
    diagonal = inverse.diagonal - first * a - second * b
    return np.asarray(rest.toarray() - product / diagonal)


def propensities(linear: NDArray[Any], counts: NDArray[Any], shares: NDArray[Any]) -> NDArray[Any]:
    """C from c (users x items), the number of ratings of each user, and the share of users who have each item."""
    n = counts[:, None].astype(linear.dtype)
    mixed = (n * np.maximum(linear, 0) + linear.dtype.type(POPULAR_RATINGS) * shares) / (n + POPULAR_RATINGS)
    return np.asarray(np.maximum(mixed, LEAST_PROPENSITY), linear.dtype)


@dataclass(frozen=True, eq=False)
class ChoiceModel:
    """What is learned of choices, and what a history says by it."""

    pairs: PairWeights
    shares: FloatArray  # of the training users, who have each item
    inverse: ByItems | ByUsers

    @classmethod
    def of(cls, observed: Ratings, regularization: float, observer: Observer) -> ChoiceModel:
        pairs = PairWeights.of(observed)
        inverse = inverse_of(pairs.weigh(observed.by_user, observed.n_items), regularization, observer)
        return cls(pairs, (observed.by_item.counts / max(observed.n_users, 1)).astype(np.float32), inverse)

    @property
    def n_items(self) -> int:
        return len(self.shares)

    def propensities(self, history: CSR) -> FloatMatrix:
        """C: one row a user, one column an item."""
        linear = self.inverse.linear(self.pairs.weigh(history, self.n_items))
        return propensities(linear, history.counts, self.shares)

    def item_similarities(self, item_rows: IntArray, threads: int) -> FloatMatrix:
        """Partial correlations of choices, as in `tastespace.models.linear.ease`: -P_ij / sqrt(P_ii P_jj)."""
        import scipy.sparse

        n, sizes = len(item_rows), np.sqrt(self.inverse.diagonal).astype(np.float32)
        each = scipy.sparse.csr_array((np.ones(n), item_rows, np.arange(n + 1)), shape=(n, self.n_items))
        found: FloatMatrix = self.inverse.linear(each) * (sizes / sizes[item_rows, None])
        found[np.arange(n), item_rows] = 1
        return np.clip(found, -1, 1, out=found)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        common = {
            "pairs": np.array([self.pairs.mean, self.pairs.sd]),
            "shares": self.shares,
            "diagonal": self.inverse.diagonal,
        }
        if isinstance(self.inverse, ByItems):
            return common | {"weights": self.inverse.matrix.astype(np.float16)}
        weights = self.inverse.weights
        return common | {
            "user_offsets": weights.indptr.astype(np.int64),
            "user_items": weights.indices.astype(np.int32),
            "user_weights": weights.data,
            "penalties": self.inverse.penalties,
            "user_inverse": self.inverse.inverse,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ChoiceModel:
        import scipy.sparse

        pairs, shares, n = PairWeights(*map(float, arrays["pairs"])), arrays["shares"], len(arrays["shares"])
        if "weights" in arrays:
            if arrays["weights"].shape != (n, n):
                raise ValueError(f"the weights are {arrays['weights'].shape}, and there are {n} items")
            return cls(pairs, shares, ByItems(arrays["weights"].astype(np.float32), arrays["diagonal"]))
        given = arrays["user_weights"], arrays["user_items"], arrays["user_offsets"]
        weights = scipy.sparse.csr_array(given, shape=(len(arrays["user_offsets"]) - 1, n))
        return cls(pairs, shares, ByUsers(weights, arrays["penalties"], arrays["user_inverse"], arrays["diagonal"]))
