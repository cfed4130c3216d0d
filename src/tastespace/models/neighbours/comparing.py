"""The kernels that compare rows with one another, in their one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatMatrix
from tastespace.data.compressed import Compressed
from tastespace.models.neighbours.rule import Rule
from tastespace.progress import Observer, Progress

BLOCK_NEIGHBOURS = 1 << 22  # neighbours held at once before the empty places among them are dropped: 32 MB


@dataclass(frozen=True, eq=False)
class Others:
    """All that rows are compared with: users, or items. Each has the deviations of its ratings."""

    by_column: Compressed  # grouped by what they have in common with a query: between items by user
    squares: DoubleArray  # sum of the squared deviations of each

    @classmethod
    def of(cls, by_column: Compressed, n: int) -> Others:
        squares = np.bincount(by_column.columns, by_column.values.astype(np.float64) ** 2, minlength=n)
        return cls(by_column, squares.astype(np.float64))


def similarities(queries: Compressed, others: Others, rule: Rule, threads: int) -> FloatMatrix:
    """How alike each query is to each of the others; 0 where they have too little in common."""
    out = np.empty((len(queries), len(others.squares)), np.float32)
    _native.similarities(**_comparison(queries, others, rule), out=out, threads=threads)
    return out


def most_similar_to_each(
    rows: Compressed, others: Others, rule: Rule, n_most: int, threads: int, observer: Observer
) -> Compressed:
    """Each row's most similar other rows, itself left out, best first (of equals the lower): at most `n_most`.

    The rows are the others, grouped the other way. All pairs are compared, but never held at once.
    """
    n, width = len(rows), max(1, min(n_most, len(rows) - 1))
    step = max(1, BLOCK_NEIGHBOURS // width)
    blocks: list[Compressed] = []
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
        blocks.append(Compressed(_offsets(kept.sum(axis=1)), found[kept], values[kept]))
        observer(Progress("similarities", start + len(queries), n))
    counts = np.concatenate([np.zeros(0, np.int64), *(block.counts for block in blocks)])
    return Compressed(
        _offsets(counts),
        np.concatenate([np.zeros(0, np.int32), *(block.columns for block in blocks)]),
        np.concatenate([np.zeros(0, np.float32), *(block.values for block in blocks)]),
    )


def _comparison(queries: Compressed, others: Others, rule: Rule) -> dict[str, Any]:
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


def _offsets(counts: Any) -> Any:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
