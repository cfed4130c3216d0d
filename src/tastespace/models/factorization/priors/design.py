"""The features of the rows of one side as a sparse matrix in groups of columns, the bag among them.

The bag of a user are the items that they rated, each 1/sqrt(n); that of an item the users who rated it, each
1/sqrt(m). It is made from the training pairs alone: a pair of a test part never enters (SVD++; Koren 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, IntArray, OffsetArray, contiguous
from tastespace.data.csr import CSR

if TYPE_CHECKING:
    from tastespace.data.features import Features

BAG = "bag"


@dataclass(frozen=True)
class Group:
    """Columns whose coefficients share one precision."""

    name: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix by rows, in double, as the kernels take it."""

    offsets: OffsetArray
    columns: IntArray
    values: DoubleArray

    @classmethod
    def of(cls, matrix: Any) -> Sparse:
        rows = scipy.sparse.csr_array(matrix)
        rows.sort_indices()
        return cls(contiguous(rows.indptr, np.int64), contiguous(rows.indices, np.int32), contiguous(rows.data, float))

    def times(self, dense: DoubleArray, threads: int = 1) -> DoubleArray:
        """The product with a dense matrix."""
        out = np.empty((len(self.offsets) - 1, dense.shape[1]))
        _native.sparse_product(self.offsets, self.columns, self.values, contiguous(dense, np.float64), out, threads)
        return out


@dataclass(frozen=True, eq=False)
class Design:
    """The features of n rows: F columns in groups; the bag, if there is one, is the last group."""

    matrix: scipy.sparse.csr_array  # n x F, double
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, features: Features, pairs: CSR, n_others: int) -> Design:
        """The features of all rows; `pairs` are their training pairs with the other side's `n_others` rows."""
        parts: list[Any] = [features.matrix.astype(np.float64)]
        groups = [Group(group.name, group.start, group.stop) for group in features.groups]
        if features.has_bag:
            first = parts[0].shape[1]
            parts.append(bag_of(pairs, n_others))
            groups.append(Group(BAG, first, first + n_others))
        return cls(scipy.sparse.csr_array(scipy.sparse.hstack(parts, format="csr")), tuple(groups))

    @property
    def n_rows(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def n_attributes(self) -> int:
        """The number of columns before the bag."""
        return next((group.start for group in self.groups if group.name == BAG), self.n_features)

    @cached_property
    def bagless(self) -> Design | None:
        """The same rows without their bag; None if they have none."""
        if self.n_attributes == self.n_features:
            return None
        attributes = scipy.sparse.csr_array(self.matrix[:, : self.n_attributes])
        return Design(attributes, tuple(group for group in self.groups if group.name != BAG))

    @cached_property
    def by_row(self) -> Sparse:
        return Sparse.of(self.matrix)

    @cached_property
    def by_feature(self) -> Sparse:
        return Sparse.of(self.matrix.T)

    @cached_property
    def totals(self) -> DoubleArray:
        """The sum of each column."""
        return np.asarray(self.matrix.sum(axis=0), np.float64).reshape(-1)

    @cached_property
    def squares(self) -> DoubleArray:
        """The sum of squares of each column."""
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=0)).reshape(-1)

    @cached_property
    def usual_squares(self) -> DoubleArray:
        """The mean squared length of a row in each group: the unit of its precision."""
        sums = [self.squares[group.start : group.stop].sum() for group in self.groups]
        return np.array([max(total / max(self.n_rows, 1), 1e-6) for total in sums])

    @cached_property
    def gram(self) -> DoubleArray:
        """X^T X, dense."""
        return np.asarray((self.matrix.T @ self.matrix).toarray())

    @cached_property
    def group_of(self) -> NDArray[np.intp]:
        """The group of each column."""
        return np.repeat(np.arange(len(self.groups)), [len(group) for group in self.groups])


def met_rows(counts: NDArray[Any]) -> IntArray:
    """Rows as often as ratings meet them, evenly spaced along all ratings, each with the number of its own.

    They are as many as equally frequent rows would say as much: (sum n)^2 / sum n^2 (Kish 1965).
    """
    ends = np.cumsum(counts, dtype=np.float64)
    n = max(1, round(float(ends[-1] ** 2 / max(float(np.sum(counts.astype(np.float64) ** 2)), 1.0))))
    places = np.searchsorted(ends, (np.arange(n) + 0.5) * ends[-1] / n, side="right")
    return contiguous(np.minimum(places, len(counts) - 1), np.int32)  # without any rating the last will do


def load_solvers() -> None:
    """Load what solves for coefficients: a limit of BLAS threads holds for libraries that are loaded when it is set."""
    import scipy.linalg  # noqa: F401


def bag_of(pairs: CSR, n_others: int) -> scipy.sparse.csr_array:
    """The bag of each row: 1/sqrt(n) for each of its n pairs, whatever the rating; empty for a row without pairs.

    Columns of -1 are unknown: they count for nothing, and not in n either.
    """
    known = pairs.columns >= 0
    if not known.all():
        pairs = pairs.masked(known)
    counts = pairs.counts
    values: Any = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
    return scipy.sparse.csr_array((values, pairs.columns, pairs.offsets), shape=(len(pairs), n_others))
