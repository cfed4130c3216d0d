"""Ratings grouped by one side (compressed sparse rows), as the kernels expect them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import BoolArray, FloatArray, IntArray, OffsetArray, TimeArray, contiguous

ASCENDING_BLOCK = 1 << 20
BLOCK_ROWS = 4096  # rows per block: each has its own generator of noise, and sums over rows go block by block


class Part(Protocol):
    """Where the rows of one side that are here belong, if the others are on other machines."""

    @property
    def rows(self) -> slice:
        """The rows that are here, among all."""

    @property
    def counts(self) -> OffsetArray:
        """The number of entries of every row of the side."""

    def gather(self, *own: NDArray[Any]) -> list[NDArray[Any]]:
        """Arrays with a row for each row of the side, from those of every part; all parts must call it in turn."""


class Grouped:
    """Entries grouped by row: all rows of a side, or a part of them."""

    offsets: OffsetArray
    part: Part | None

    @property
    def here(self) -> slice:
        """Where these rows are among all rows of the side."""
        return slice(0, len(self.offsets) - 1) if self.part is None else self.part.rows

    @property
    def side_counts(self) -> OffsetArray:
        """The number of entries of every row of the side."""
        return np.diff(self.offsets) if self.part is None else self.part.counts

    @property
    def n_rows(self) -> int:
        """The number of rows of the side."""
        return len(self.offsets) - 1 if self.part is None else len(self.part.counts)

    @property
    def n_entries(self) -> int:
        """The number of entries of all rows of the side."""
        return int(self.offsets[-1]) if self.part is None else int(self.part.counts.sum())

    @property
    def n_blocks(self) -> int:
        """The number of blocks of the side."""
        return len(row_blocks(self.n_rows))

    @property
    def first_block(self) -> int:
        """The number of blocks of the side before these rows."""
        return int(self.here.start) // BLOCK_ROWS

    def gathered(self, own: NDArray[Any]) -> NDArray[Any]:
        """An array of the whole side from those of the parts, one after another along the first dimension."""
        return own if self.part is None else self.part.gather(own)[0]

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Blocks of these rows, and of their entries."""
        for rows in row_blocks(len(self.offsets) - 1):
            yield rows, slice(int(self.offsets[rows.start]), int(self.offsets[rows.stop]))

    def total(self, of: Callable[[slice], NDArray[Any]]) -> float:
        """A sum over the entries of the whole side, in double, block by block: the same wherever the blocks are."""
        sums = np.array([float(of(entries).sum(dtype=np.float64)) for _, entries in self.blocks()])
        return float(sum(self.gathered(sums).tolist()))


@dataclass(frozen=True, eq=False)
class CSR(Grouped):
    """Row i has the columns and values offsets[i]..offsets[i + 1]."""

    offsets: OffsetArray
    columns: IntArray
    values: FloatArray
    times: TimeArray | None = None  # one per entry; None where they are unknown or not requested
    part: Part | None = None  # None if all rows are here

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

    def contains(self, rows: NDArray[Any], columns: NDArray[Any]) -> BoolArray:
        """Whether the side has entries at these places; the columns of its rows must ascend."""
        found = np.zeros(len(rows), np.bool_)
        for place, (row, column) in enumerate(zip((rows - self.here.start).tolist(), columns.tolist(), strict=True)):
            if 0 <= row < len(self):
                own = self.columns[self.offsets[row] : self.offsets[row + 1]]
                at = int(np.searchsorted(own, column))
                found[place] = at < len(own) and own[at] == column
        return np.asarray(self.gathered(found[None]).any(axis=0))

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


def row_blocks(n_rows: int) -> list[slice]:
    """Blocks of rows, the last of which may be smaller."""
    return [slice(first, min(first + BLOCK_ROWS, n_rows)) for first in range(0, n_rows, BLOCK_ROWS)]


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
