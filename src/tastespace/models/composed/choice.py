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

Where both users and items are more than 20 000, neither matrix is made. With S = D^-1/2 and the largest singular values
s and right singular vectors V of F S, F is replaced by what these leave of it, F S V V^T S^-1, and

    P = S (I - V E V^T) S,   E = s^2 / (1 + s^2)

Replacing a user's row works as before, with x and r as V leaves them where they change G: a = S V (1 - E) V^T S x.
For an item that the user does not have, c_ij = (f_i S V E) . (S V)_j / P_jj: an inner product, by which an index finds
the items with the largest C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, blocks
from tastespace.data.csr import CSR
from tastespace.data.features import Features
from tastespace.data.kinds import liked_from
from tastespace.data.ratings import Ratings
from tastespace.models.composed.described import DescribedItems
from tastespace.models.linear.ease import fill_with_gram, invert
from tastespace.progress import Observer, silent

if TYPE_CHECKING:
    import scipy.sparse

ITEM_SHARE = 0.3  # of an item's own weight in its regularization
POPULAR_RATINGS = 0.3  # that popularity counts for in the propensity of a user
LEAST_PROPENSITY = 1e-12  # so that its logarithm is finite
FEW_USERS = 4  # times as many items: P is made from a matrix of users
MOST_ROWS = 20_000  # of a matrix of items or of users: 1.6 or 3.2 GB
RANK = 256  # of P, where both would have more
MORE_DIRECTIONS, ITERATIONS = 16, 3  # in the search for it
STEPS = np.iinfo(np.int16).max  # in which weights are stored
BLOCK_WEIGHTS = 1 << 20  # changed at once
WITHOUT_USERS = 128  # whose ratings are left out at once


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
        weights = (1 + np.clip(above / (self.sd or 1.0), -2, 2) / 4).astype(np.float32)
        return scipy.sparse.csr_array((weights, history.columns, history.offsets), shape=(len(history), n_items))


@dataclass(frozen=True, eq=False)
class ByItems:
    """P as weights between items: B_ij = -P_ij / P_jj for i != j, and 0 on the diagonal.

    What is stored is one triangle of the partial correlations B_ij sqrt(P_jj / P_ii), which are symmetric, in steps of
    1 / 32 767 of the largest. What is used is made from these, so that it is the same before and after it was stored.
    """

    matrix: FloatMatrix  # B, items x items: row i is what having item i adds to c of each item
    diagonal: FloatArray  # of P
    unit: float  # a step

    @classmethod
    def of(cls, inverse: FloatMatrix) -> ByItems:
        """From P, which is overwritten."""
        diagonal = np.diagonal(inverse).copy()
        inverse[np.diag_indices(len(inverse))] = 0
        sizes = 1 / np.sqrt(diagonal)
        for part in blocks(len(inverse), len(inverse), BLOCK_WEIGHTS):
            inverse[part] *= -(sizes[part, None] * sizes)  # A product of the two: the same on both sides, to the bit.
        largest = max(float(inverse.max()), -float(inverse.min()))
        unit = largest / STEPS or 1.0
        for part in blocks(len(inverse), len(inverse), BLOCK_WEIGHTS):
            inverse[part] = np.rint(inverse[part] / np.float32(unit))
        return cls._scaled(inverse, diagonal, unit)

    @classmethod
    def _scaled(cls, steps: FloatMatrix, diagonal: FloatArray, unit: float) -> ByItems:
        """From partial correlations in steps, which are overwritten."""
        sizes = np.sqrt(diagonal)
        steps *= np.float32(unit) * sizes[:, None]
        steps /= sizes
        return cls(steps, diagonal, unit)

    def linear(self, rows: scipy.sparse.csr_array) -> FloatMatrix:
        """c of rows of weights, of items that a row has as if it had them not."""
        return np.asarray(rows @ self.matrix)

    def times(self, rows: scipy.sparse.csr_array) -> FloatMatrix:
        """Rows of weights times P."""
        return np.asarray(self.diagonal * (rows.toarray() - self.linear(rows)))

    entering = times  # rows of weights, as far as G has them, times P

    def with_items(self, n: int, penalty: float) -> ByItems:
        more = n - len(self.diagonal)
        diagonal = np.concatenate([self.diagonal, np.full(more, 1 / penalty, np.float32)])
        return replace(self, matrix=np.pad(self.matrix, (0, more)), diagonal=diagonal)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        sizes = np.sqrt(self.diagonal)
        scales = 1 / (np.float32(self.unit) * sizes)
        steps = [np.rint(row[k + 1 :] * sizes[k + 1 :] * scales[k]) for k, row in enumerate(self.matrix)]
        return {"steps": np.concatenate(steps).astype(np.int16), "unit": np.array([self.unit])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ByItems:
        steps, n = arrays["steps"], len(arrays["diagonal"])
        if len(steps) != n * (n - 1) // 2:
            raise ValueError(f"{len(steps)} weights are stored, and there are {n} items")
        matrix, start = np.zeros((n, n), np.float32), 0
        for k in range(n):
            matrix[k, k + 1 :] = matrix[k + 1 :, k] = steps[start : start + n - k - 1]
            start += n - k - 1
        return cls._scaled(matrix, arrays["diagonal"], float(arrays["unit"][0]))


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
        inverse = _gram(scaled.T.tocsr(), observer)
        _invert(inverse, 1.0, observer)
        by_item = scaled.T.tocsr()
        explained = np.concatenate(
            [
                np.asarray(by_item[part].multiply(by_item[part] @ inverse).sum(axis=1)).ravel()
                for part in blocks(by_item.shape[0], by_item.shape[1], BLOCK_WEIGHTS)
            ]
        )
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

    entering = times

    def with_items(self, n: int, penalty: float) -> ByUsers:
        import scipy.sparse

        more, own = n - len(self.diagonal), self.weights
        weights = scipy.sparse.csr_array((own.data, own.indices, own.indptr), shape=(own.shape[0], n))
        penalties = np.concatenate([self.penalties, np.full(more, penalty)])
        diagonal = np.concatenate([self.diagonal, np.full(more, 1 / penalty)])
        return replace(self, weights=weights, penalties=penalties, diagonal=diagonal)

    def by_items(self) -> ByItems:
        """The same as weights between items, some rows at a time."""
        scaled = self.weights.multiply(1 / self.penalties).tocsr()
        by_item, n = scaled.T.tocsr(), len(self.penalties)
        inverse = np.empty((n, n), np.float32)
        for part in blocks(n, n, BLOCK_WEIGHTS):
            rows = -np.asarray((by_item[part] @ self.inverse) @ scaled)
            rows[np.arange(len(rows)), np.arange(part.start, part.stop)] += 1 / self.penalties[part]
            inverse[part] = rows
        return ByItems.of(inverse)


@dataclass(frozen=True, eq=False)
class LowRank:
    """P by the strongest directions of F, where neither of the two matrices would have room."""

    vectors: FloatMatrix  # S V, items x rank
    explained: FloatArray  # E
    penalties: FloatArray  # D
    diagonal: FloatArray  # of P

    @classmethod
    def of(cls, weights: scipy.sparse.csr_array, penalties: DoubleArray) -> LowRank:
        """By subspace iteration from random directions (Halko, Martinsson and Tropp 2011); its seed is fixed."""
        scaled = weights.multiply(1 / np.sqrt(penalties)).tocsr().astype(np.float32)
        by_item, n_kept = scaled.T.tocsr(), min(RANK, *scaled.shape)
        n = min(n_kept + MORE_DIRECTIONS, *scaled.shape)
        basis = np.random.default_rng(0).standard_normal((scaled.shape[1], n), np.float32)
        with threads.one_blas_thread():
            for _ in range(ITERATIONS):
                basis = np.linalg.qr(by_item @ (scaled @ np.linalg.qr(basis)[0]))[0]
            image = scaled @ basis
            squares, turn = np.linalg.eigh((image.T @ image).astype(np.float64))
            squares, turn = np.maximum(squares[: -n_kept - 1 : -1], 0), turn[:, : -n_kept - 1 : -1]
            vectors = basis @ turn.astype(np.float32)
        explained = (squares / (1 + squares)).astype(np.float32)
        diagonal = (1 - vectors**2 @ explained) / penalties
        vectors /= np.sqrt(penalties)[:, None]
        return cls(vectors, explained, penalties.astype(np.float32), diagonal.astype(np.float32))

    def times(self, rows: scipy.sparse.csr_array) -> FloatMatrix:
        """Rows of weights times P."""
        return np.asarray(rows.multiply(1 / self.penalties).toarray() - self._met(rows, self.explained))

    def entering(self, rows: scipy.sparse.csr_array) -> FloatMatrix:
        """Rows of weights, as far as G has them, times P."""
        return self._met(rows, 1 - self.explained)

    def linear(self, rows: scipy.sparse.csr_array) -> FloatMatrix:
        """c of rows of weights; each by itself, so that the company of a user changes nothing to the last bit."""
        each = [self.times(rows[[place]]) for place in range(rows.shape[0])]
        return np.asarray(rows.toarray() - np.vstack(each) / self.diagonal, np.float32)

    def linear_of(self, rows: scipy.sparse.csr_array, places: IntArray, items: IntArray) -> FloatArray:
        """c of some items only: each of them, and the place of its row."""
        queries, own = (rows @ self.vectors) * self.explained, np.asarray(rows[places, items]).ravel()
        met = np.empty(len(items), np.float32)
        for some in blocks(len(items), queries.shape[1], BLOCK_WEIGHTS):
            met[some] = np.einsum("nd,nd->n", queries[places[some]], self.vectors[items[some]])
        return np.asarray(own - (own / self.penalties[items] - met) / self.diagonal[items], np.float32)

    def with_items(self, n: int, penalty: float) -> LowRank:
        more = n - len(self.diagonal)
        penalties = np.concatenate([self.penalties, np.full(more, penalty, np.float32)])
        diagonal = np.concatenate([self.diagonal, np.full(more, 1 / penalty, np.float32)])
        return replace(self, vectors=np.pad(self.vectors, ((0, more), (0, 0))), penalties=penalties, diagonal=diagonal)

    def _met(self, rows: scipy.sparse.csr_array, scales: FloatArray) -> FloatMatrix:
        with threads.one_blas_thread():
            return np.asarray(((rows @ self.vectors) * scales) @ self.vectors.T)


Inverse: TypeAlias = ByItems | ByUsers | LowRank


def _gram(weights: scipy.sparse.csr_array, observer: Observer, n_threads: int = 1) -> NDArray[Any]:
    n = weights.shape[1]
    found = np.empty((n, n), weights.dtype)
    fill_with_gram(found, weights.T.tocsr(), weights, 0.0, observer, n_threads)
    return found


def gram_of(weights: scipy.sparse.csr_array, observer: Observer = silent, n_threads: int = 1) -> FloatMatrix | None:
    """G = F^T F, if P is made from it: where there are more users than items."""
    return _gram(weights, observer, n_threads) if weights.shape[1] <= min(weights.shape[0], MOST_ROWS) else None


def _invert(gram: NDArray[Any], penalties: Any, observer: Observer) -> None:
    """Replace G by (G + D)^-1.

    Cholesky's rounding errors are those of the matrix scaled to a diagonal of 1. D has a share of G's own diagonal, so
    that this one is far from singular, and single precision is enough.
    """
    gram[np.diag_indices(len(gram))] += penalties
    with threads.one_blas_thread():
        invert(gram, observer)


def inverse_of(
    weights: scipy.sparse.csr_array, regularization: float, observer: Observer, gram: FloatMatrix | None = None
) -> Inverse:
    """(G + D)^-1, by the smaller of the two matrices, or by neither if both are too large.

    G is overwritten, where it is known already.
    """
    own = np.asarray(weights.multiply(weights).sum(axis=0, dtype=np.float64)).ravel()
    penalties, (n_users, n_items) = regularization + ITEM_SHARE * own, weights.shape
    gram = gram_of(weights, observer) if gram is None else gram
    if gram is not None:
        _invert(gram, penalties.astype(np.float32), observer)
        return ByItems.of(gram)
    if min(weights.shape) > MOST_ROWS:
        return LowRank.of(weights, penalties)
    by_users = ByUsers.of(weights.astype(np.float64), penalties, observer)
    return by_users.by_items() if n_items < min(FEW_USERS * n_users, MOST_ROWS) else by_users


def without(
    inverse: Inverse, whole: scipy.sparse.csr_array, rest: scipy.sparse.csr_array, n_threads: int = 1
) -> FloatMatrix:
    """c of users of whom only the rest of their ratings is known: as if the whole had never been seen."""
    # Always as many users at once, since products of matrices may differ in their last digits with their sizes.
    parts = blocks(whole.shape[0], 1, WITHOUT_USERS)
    found = threads.mapped(lambda part: _without(inverse, whole[part], rest[part]), parts, n_threads)
    return np.vstack([np.zeros((0, whole.shape[1]), np.float32), *found])


def _without(inverse: Inverse, whole: scipy.sparse.csr_array, rest: scipy.sparse.csr_array) -> FloatMatrix:
    a, b = inverse.entering(whole), inverse.entering(rest)
    xa, xb, ra, rb = (
        np.asarray(rows.multiply(solved).sum(axis=1)).reshape(-1, 1)
        for rows, solved in ((whole, a), (whole, b), (rest, a), (rest, b))
    )
    m11, m12, m22 = xa - 1, xb, rb + 1
    determinant = m11 * m22 - m12**2
    # V M^-1, a column each.
    first = m22 / determinant * a - m12 / determinant * b
    second = m11 / determinant * b - m12 / determinant * a
    product = inverse.times(rest) - first * ra - second * rb
    first *= a
    second *= b
    product /= inverse.diagonal - first - second
    return (rest.toarray() - product).astype(np.float32)


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
    inverse: Inverse
    described: DescribedItems | None = None  # items that nobody has, by their features

    @classmethod
    def of(
        cls, observed: Ratings, regularization: float, observer: Observer, gram: FloatMatrix | None = None
    ) -> ChoiceModel:
        pairs = PairWeights.of(observed)
        inverse = inverse_of(pairs.weigh(observed.by_user, observed.n_items), regularization, observer, gram)
        shares = (observed.by_item.counts / max(observed.n_users, 1)).astype(np.float32)
        return cls(pairs, shares, inverse).describing(observed.item_features)

    def describing(self, features: Features | None) -> ChoiceModel:
        """The same, with what features say of the items that nobody has."""
        is_had = self.shares > 0
        if self.described is not None:
            is_had[self.described.rows] = False
        described = DescribedItems.of(features, is_had)
        known = np.where(is_had, self.shares, np.float32(0))
        return replace(self, shares=known if described is None else described.expected(known), described=described)

    @property
    def n_items(self) -> int:
        return len(self.shares)

    def with_items(self, n: int, regularization: float, features: Features | None) -> ChoiceModel:
        """The same for n items, the last of which nobody has: as it would be learned again, without doing so."""
        shares = np.concatenate([self.shares, np.zeros(n - self.n_items, np.float32)])
        grown = replace(self, shares=shares, inverse=self.inverse.with_items(n, regularization))
        return grown.describing(features)

    def linear(self, rows: scipy.sparse.csr_array) -> FloatMatrix:
        """c of rows of weights, of items that nobody has, too."""
        found = self.inverse.linear(rows)
        if self.described is not None:
            self.described.fill(found)
        return found

    def propensities(self, history: CSR) -> FloatMatrix:
        """C: one row a user, one column an item."""
        linear = self.linear(self.pairs.weigh(history, self.n_items))
        return propensities(linear, history.counts, self.shares)

    def propensities_of(self, history: CSR, places: IntArray, items: IntArray) -> FloatArray:
        """C of some items only: each of them, and the place of its user in the history. For a low rank."""
        assert isinstance(self.inverse, LowRank)
        weights = self.pairs.weigh(history, self.n_items)
        linear = self.inverse.linear_of(weights, places, items)
        if self.described is not None:
            at = np.flatnonzero(np.isin(items, self.described.rows))
            queries = (weights @ self.inverse.vectors) * self.inverse.explained
            for k, item in zip(at, items[at], strict=True):
                linear[k] = self._described_vectors[np.searchsorted(self.described.rows, item)] @ queries[places[k]]
        return propensities(linear[:, None], history.counts[places], self.shares[items, None])[:, 0]

    def vectors(self) -> FloatMatrix:
        """One row an item: C of items that a user does not have is an inner product, where c is above 0.

        For a low rank, and so are the queries.
        """
        assert isinstance(self.inverse, LowRank)
        vectors = self.inverse.vectors / self.inverse.diagonal[:, None]
        if self.described is not None:
            vectors[self.described.rows] = self._described_vectors
        return np.hstack([vectors, self.shares[:, None]])

    @cached_property
    def _described_vectors(self) -> FloatMatrix:
        """Those of the items that nobody has, for a low rank."""
        assert isinstance(self.inverse, LowRank)
        assert self.described is not None
        return np.asarray(self.described.expect(self.inverse.vectors / self.inverse.diagonal[:, None]))

    def queries(self, history: CSR) -> FloatMatrix:
        """What the items' vectors are multiplied with, a row a user."""
        assert isinstance(self.inverse, LowRank)
        n = history.counts[:, None].astype(np.float32)
        weights = self.pairs.weigh(history, self.n_items)
        own = (weights @ self.inverse.vectors) * self.inverse.explained
        popular = np.float32(POPULAR_RATINGS)
        return np.hstack([own * (n / (n + popular)), popular / (n + popular)])

    def item_similarities(self, item_rows: IntArray, threads: int) -> FloatMatrix:
        """Partial correlations of choices, as in `tastespace.models.linear.ease`: -P_ij / sqrt(P_ii P_jj)."""
        import scipy.sparse

        n, sizes = len(item_rows), np.sqrt(self.inverse.diagonal).astype(np.float32)
        each = scipy.sparse.csr_array((np.ones(n), item_rows, np.arange(n + 1)), shape=(n, self.n_items))
        found: FloatMatrix = self.inverse.linear(each) * (sizes / sizes[item_rows, None])
        found[np.arange(n), item_rows] = 1
        return np.clip(found, -1, 1, out=found)

    def contributions(self, history: CSR, items: IntArray) -> FloatMatrix:
        """f_ik B_kj: what each rating k of one user adds to c of these items, items x ratings."""
        import scipy.sparse

        n_rated, found = len(history.columns), []
        weights = self.pairs.weigh(history, self.n_items).data
        for some in blocks(n_rated, self.n_items, BLOCK_WEIGHTS):
            n = some.stop - some.start
            alone = weights[some], history.columns[some], np.arange(n + 1)  # as if each were the only one
            found.append(self.linear(scipy.sparse.csr_array(alone, shape=(n, self.n_items)))[:, items])
        return np.vstack(found).T if found else np.zeros((len(items), 0), np.float32)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        common = {
            "pairs": np.array([self.pairs.mean, self.pairs.sd]),
            "shares": self.shares,
            "diagonal": self.inverse.diagonal,
            **({} if self.described is None else self.described.arrays()),
        }
        if isinstance(self.inverse, ByItems):
            return {**common, **self.inverse.arrays()}
        if isinstance(self.inverse, LowRank):
            return common | {
                "vectors": self.inverse.vectors,
                "explained": self.inverse.explained,
                "penalties": self.inverse.penalties,
            }
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
        described = DescribedItems.found_in(arrays)
        if "steps" in arrays:
            return cls(pairs, shares, ByItems.from_arrays(arrays), described)
        if "vectors" in arrays:
            parts = (arrays[name] for name in ("vectors", "explained", "penalties", "diagonal"))
            return cls(pairs, shares, LowRank(*parts), described)
        given = arrays["user_weights"], arrays["user_items"], arrays["user_offsets"]
        weights = scipy.sparse.csr_array(given, shape=(len(arrays["user_offsets"]) - 1, n))
        return cls(
            pairs, shares, ByUsers(weights, arrays["penalties"], arrays["user_inverse"], arrays["diagonal"]), described
        )
