"""How similar rows of ratings are: the rule of both neighbourhood models, and the kernels that compare by it."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray, row_blocks
from tastespace.data.csr import CSR, offsets_of
from tastespace.index.search import Neighbours
from tastespace.models.base.parameters import check_int, check_number, check_option
from tastespace.progress import Observer, Progress

Similarity = Literal["cosine", "pearson", "adjusted-cosine"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "pearson", "adjusted-cosine")  # an artifact has the position


@dataclass(frozen=True)
class Rule:
    """The parameters that both neighbourhood models have.

    Between two items, sums are over the n users who rated both (between two users: over the items that both rated), and
    x and y are what the two got:

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
        """As kernels take it: whether sums of squares are over common ratings only, and two limits."""
        return self.similarity != "cosine", self.shrinkage, self.min_common

    def array(self) -> DoubleArray:
        """As an artifact keeps it."""
        return np.array([SIMILARITIES.index(self.similarity), *astuple(self)[1:]], np.float64)

    @classmethod
    def from_array(cls, numbers: NDArray[Any]) -> Rule:
        kind, n_neighbours, shrinkage, min_common, min_similarity, damping = (float(value) for value in numbers)
        similarity = SIMILARITIES[int(kind)]
        return cls(similarity, int(n_neighbours), shrinkage, int(min_common), min_similarity, damping)


BLOCK_NEIGHBOURS = 1 << 22  # neighbours held at once before the empty places among them are dropped: 32 MB


@dataclass(frozen=True, eq=False)
class Others:
    """All that rows are compared with: users, or items. Each has the deviations of its ratings."""

    by_column: CSR  # grouped by what they have in common with a query: between items by user
    squares: DoubleArray  # sum of the squared deviations of each

    @classmethod
    def of(cls, by_column: CSR, n: int) -> Others:
        squares = np.bincount(by_column.columns, by_column.values.astype(np.float64) ** 2, minlength=n)
        return cls(by_column, squares.astype(np.float64))

    @property
    def parts(self) -> tuple[OffsetArray, IntArray, FloatArray, DoubleArray]:
        """As kernels take them."""
        return *self.by_column.parts, self.squares


def similarities(queries: CSR, others: Others, rule: Rule, threads: int) -> FloatMatrix:
    """How similar each query is to each of the others; 0 where they have too little in common."""
    out = np.empty((len(queries), len(others.squares)), np.float32)
    given = *queries.parts, *others.parts, *rule.comparison
    _native.similarities(*given, out, threads)
    return out


def most_similar_to_each(by_column: CSR, n: int, rule: Rule, n_most: int, threads: int, observer: Observer) -> CSR:
    """Each of n rows' most similar other rows, itself left out, best first (of equals the lower): at most `n_most`.

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
