"""Ratings grouped by one side (compressed sparse rows), as the kernels expect them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import FloatArray, IntArray, OffsetArray, TimeArray, contiguous

ASCENDING_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class CSR:
    """Row i has the columns and values offsets[i]..offsets[i + 1]."""

    offsets: OffsetArray
    columns: IntArray
    values: FloatArray
    times: TimeArray | None = None  # one per entry; None where they are unknown or not requested

    @classmethod
    def empty(cls, n_rows: int) -> CSR:
        """n rows without entries."""
        return cls(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))

    @classmethod
    def group(cls, rows: IntArray, columns: IntArray, values: FloatArray, n_rows: int) -> CSR:
        """Group by row; within a row the order is kept."""
        grouped = cls(np.empty(n_rows + 1, np.int64), np.empty(len(rows), np.int32), np.empty(len(rows), np.float32))
        given = contiguous(rows, np.int32), contiguous(columns, np.int32), contiguous(values, np.float32)
        _native.compress(*given, *grouped.parts)
        return grouped

    @classmethod
    def group_ascending(cls, rows: IntArray, columns: IntArray, values: FloatArray, n_rows: int) -> CSR:
        """Group by row; within a row the columns ascend. Where they do already, the arrays given are shared."""
        if _ascend(rows, columns):
            offsets = offsets_of(np.bincount(rows, minlength=n_rows))
            return cls(offsets, contiguous(columns, np.int32), contiguous(values, np.float32))
        grouped = cls.group(rows, columns, values, n_rows)
        _native.sort_rows(*grouped.parts, threads=threads.resolve(None))
        return grouped

    def transposed(self, n_columns: int) -> CSR:
        """The transposed matrix; its columns ascend within a row."""
        n = len(self.columns)
        other = CSR(np.empty(n_columns + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.float32))
        _native.transpose(*self.parts, *other.parts)
        return other

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> OffsetArray:
        """The number of entries of each row."""
        return np.diff(self.offsets)

    @property
    def parts(self) -> tuple[OffsetArray, IntArray, FloatArray]:
        """Offsets, columns and values, as kernels take them."""
        return self.offsets, self.columns, self.values

    def rows(self) -> IntArray:
        """The row of each entry."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.counts)

    def take(self, rows: IntArray) -> CSR:
        """These rows, in this order; row -1 is empty."""
        rows = np.asarray(rows)
        starts = np.where(rows < 0, 0, self.offsets[np.maximum(rows, 0)])
        counts = np.where(rows < 0, 0, self.counts[np.maximum(rows, 0)]) if len(self) else np.zeros(len(rows), int)
        offsets = offsets_of(counts)
        index = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
        times = None if self.times is None else self.times[index]
        return CSR(offsets, self.columns[index], self.values[index], times)

    def masked(self, keep: NDArray[np.bool_]) -> CSR:
        """A subset of the entries; the number of rows stays the same."""
        counts = np.bincount(self.rows()[keep], minlength=len(self))
        times = None if self.times is None else self.times[keep]
        return CSR(offsets_of(counts), self.columns[keep], self.values[keep], times)


def offsets_of(counts: NDArray[Any]) -> OffsetArray:
    """Offsets of rows with these numbers of entries: where each begins, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def sorted_order(rows: IntArray, columns: IntArray) -> NDArray[np.integer[Any]] | slice:
    """The positions that sort pairs by row and column, or a slice of all if they are sorted already."""
    if _ascend(rows, columns):
        return slice(None)
    pairs = pl.DataFrame({"row": rows, "column": columns})
    return pairs.select(pl.arg_sort_by("row", "column", maintain_order=True)).to_series().to_numpy()


def _ascend(rows: IntArray, columns: IntArray) -> bool:
    """Whether pairs are sorted; checked in parts, so that an unsorted file is detected early."""
    for start in range(0, len(rows), ASCENDING_BLOCK):
        row, column = rows[start : start + ASCENDING_BLOCK + 1], columns[start : start + ASCENDING_BLOCK + 1]
        if not ((row[1:] > row[:-1]) | ((row[1:] == row[:-1]) & (column[1:] >= column[:-1]))).all():
            return False
    return True
