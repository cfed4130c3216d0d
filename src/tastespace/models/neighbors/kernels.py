"""The kernels that average over neighbours, in their one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray
from tastespace.data.csr import CSR, offsets_of
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
    def common_norms(self) -> bool:
        """Whether sums of squares are over common ratings only."""
        return self.similarity != "cosine"

    def array(self) -> DoubleArray:
        """As an artifact keeps it."""
        kind = SIMILARITIES.index(self.similarity)
        numbers = (kind, self.n_neighbours, self.shrinkage, self.min_common, self.min_similarity, self.damping)
        return np.array(numbers, np.float64)

    @classmethod
    def from_array(cls, numbers: NDArray[Any]) -> Rule:
        kind, n_neighbours, shrinkage, min_common, min_similarity, damping = (float(value) for value in numbers)
        similarity = SIMILARITIES[int(kind)]
        return cls(similarity, int(n_neighbours), shrinkage, int(min_common), min_similarity, damping)


@dataclass(frozen=True, eq=False)
class Targets:
    """The items that each of some users is asked about; item row -1 is one never seen."""

    offsets: OffsetArray  # users + 1
    items: IntArray

    @property
    def parts(self) -> tuple[OffsetArray, IntArray]:
        """Both arrays, as kernels take them."""
        return self.offsets, self.items

    def part(self, first: int, last: int) -> Targets:
        """Those of some users only."""
        offsets = self.offsets[first : last + 1]
        return Targets(offsets - offsets[0], self.items[offsets[0] : offsets[-1]])


def average_over_items(targets: Targets, neighbours: CSR, residuals: CSR, rule: Rule, threads: int) -> FloatArray:
    """For each target: the residuals that its user gave to the items most similar to it, averaged.

    `neighbours` are the similar items of each item, best first; `residuals` one row a user.
    """
    out = np.empty(len(targets.items), np.float32)
    given = *targets.parts, *neighbours.parts, *residuals.parts
    _native.average_over_items(*given, rule.n_neighbours, rule.damping, out, threads)
    return out


def average_over_items_of_all(neighbours: CSR, followers: CSR, residuals: CSR, rule: Rule, threads: int) -> FloatMatrix:
    """The same for every item, one row a user of the residuals; `followers` is `neighbours` transposed."""
    out = np.empty((len(residuals), len(neighbours)), np.float32)
    given = *neighbours.parts, *followers.parts, *residuals.parts
    _native.average_over_items_of_all(*given, rule.n_neighbours, rule.damping, out, threads)
    return out


def average_over_users(
    targets: Targets, similarities: FloatMatrix, raters: CSR, rule: Rule, threads: int
) -> FloatArray:
    """For each target: the residuals that it got from the users most similar to its user, averaged.

    `similarities` has one row a user of the targets and one column a rater; `raters` the residuals of each item.
    """
    out = np.empty(len(targets.items), np.float32)
    given = *targets.parts, similarities, *raters.parts
    _native.average_over_users(*given, rule.n_neighbours, rule.min_similarity, rule.damping, out, threads)
    return out


def average_over_users_of_all(
    similarities: FloatMatrix, residuals: CSR, n_items: int, rule: Rule, threads: int
) -> FloatMatrix:
    """The same for every item, one row a user of the similarities; `residuals` are those of each rater."""
    out = np.empty((len(similarities), n_items), np.float32)
    given = similarities, *residuals.parts
    _native.average_over_users_of_all(*given, rule.n_neighbours, rule.min_similarity, rule.damping, out, threads)
    return out


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


def similarities(queries: CSR, others: Others, rule: Rule, threads: int) -> FloatMatrix:
    """How alike each query is to each of the others; 0 where they have too little in common."""
    out = np.empty((len(queries), len(others.squares)), np.float32)
    _native.similarities(**_comparison(queries, others, rule), out=out, threads=threads)
    return out


def most_similar_to_each(rows: CSR, others: Others, rule: Rule, n_most: int, threads: int, observer: Observer) -> CSR:
    """Each row's most similar other rows, itself left out, best first (of equals the lower): at most `n_most`.

    The rows are the others, grouped the other way. All pairs are compared, but never held at once.
    """
    n, width = len(rows), max(1, min(n_most, len(rows) - 1))
    step = max(1, BLOCK_NEIGHBOURS // width)
    blocks: list[CSR] = []
    for start in range(0, n, step):
        queries = rows.take(np.arange(start, min(start + step, n), dtype=np.int32))
        found = np.empty((len(queries), width), np.int32)
        values = np.empty((len(queries), width), np.float32)
        _native.most_similar(
            **_comparison(queries, others, rule),
            first=start,
            least=rule.min_similarity,
            out_rows=found,
            out_similarities=values,
            threads=threads,
        )
        kept = found >= 0
        blocks.append(CSR(offsets_of(kept.sum(axis=1)), found[kept], values[kept]))
        observer(Progress("similarities", start + len(queries), n))
    counts = np.concatenate([np.zeros(0, np.int64), *(block.counts for block in blocks)])
    return CSR(
        offsets_of(counts),
        np.concatenate([np.zeros(0, np.int32), *(block.columns for block in blocks)]),
        np.concatenate([np.zeros(0, np.float32), *(block.values for block in blocks)]),
    )


def _comparison(queries: CSR, others: Others, rule: Rule) -> dict[str, Any]:
    """The arguments that both kernels have."""
    return {
        "query_offsets": queries.offsets,
        "query_columns": queries.columns,
        "query_values": queries.values,
        "offsets": others.by_column.offsets,
        "columns": others.by_column.columns,
        "values": others.by_column.values,
        "other_squares": others.squares,
        "common_norms": rule.common_norms,
        "shrinkage": rule.shrinkage,
        "min_common": rule.min_common,
    }
