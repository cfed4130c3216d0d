"""Ratings of a Parquet file that need not fit into memory: read piece by piece, as many times as needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from tastespace.arrays import FloatArray, IntArray, OffsetArray, contiguous
from tastespace.data.formats.content import ask_parquet, named_faults
from tastespace.data.formats.layout import sniff
from tastespace.data.tables import EXPECTED_CELL, problem_of, typed
from tastespace.data.vocabulary import Vocabulary, id_series
from tastespace.errors import DataError, check_int

_EXPECTED = "a Parquet file of ratings"
ROWS_AT_ONCE = 1 << 22  # about 100 MB while a piece is read and put in order


class Triples(NamedTuple):
    """Some ratings: user rows, item rows and values."""

    user_rows: IntArray
    item_rows: IntArray
    values: FloatArray

    def masked(self, keep: np.ndarray) -> Triples:
        """Some of them."""
        return Triples(self.user_rows[keep], self.item_rows[keep], self.values[keep])


@dataclass(frozen=True, eq=False)
class RatingStream:
    """A Parquet file of ratings: the ids and counts of both sides are in memory, the ratings are not.

    Each row is a rating: a pair that occurs twice counts twice, since pairs are not compared across pieces.
    """

    file: Path
    columns: tuple[str, str, str]  # user, item, rating
    rows_at_once: int
    users: Vocabulary
    items: Vocabulary
    user_counts: OffsetArray
    item_counts: OffsetArray
    n_ratings: int
    mean: float
    standard_deviation: float
    range: tuple[float, float]

    @classmethod
    def scan(cls, path: str | Path, *, rows_at_once: int = ROWS_AT_ONCE) -> RatingStream:
        """Scan a file twice: for the ids, the mean and the range, then for counts and the standard deviation.

        Columns are found by their usual names.
        """
        check_int("rows_at_once", rows_at_once, least=1)
        rows_at_once = int(rows_at_once)
        file = Path(path)
        if not file.is_file():
            raise DataError("there is no such file", file=file, expected=_EXPECTED)
        with named_faults(file, _EXPECTED):
            layout = sniff(file)
        if layout.kind != "parquet" or "rating" not in layout.parts:
            expected = "a Parquet file with the columns user, item and rating"
            raise DataError(f"the file is {layout}", file=file, expected=expected)
        columns = (layout.parts["user"], layout.parts["item"], layout.parts["rating"])
        users = items = pl.Series([], dtype=pl.Null)
        n, total, low, high = 0, 0.0, np.inf, -np.inf
        for piece in _pieces(file, columns, rows_at_once):
            users, items = _with(users, piece["user"], "user"), _with(items, piece["item"], "item")
            values = piece["rating"].to_numpy()
            n, total = n + len(values), total + float(values.sum())
            low, high = min(low, float(values.min())), max(high, float(values.max()))
        if not n:
            raise DataError("the table has no rows", file=file, expected="ratings")
        mean, squares = total / n, 0.0
        people, things = Vocabulary(users), Vocabulary(items)
        counts = np.zeros(len(people), np.int64), np.zeros(len(things), np.int64)
        for piece in _pieces(file, columns, rows_at_once):
            counts[0][:] += np.bincount(people.rows_of(piece["user"]), minlength=len(people))
            counts[1][:] += np.bincount(things.rows_of(piece["item"]), minlength=len(things))
            squares += float(np.sum((piece["rating"].to_numpy() - mean) ** 2))
        deviation = float(np.sqrt(squares / n)) if high > low else 0.0
        return cls(file, columns, rows_at_once, people, things, *counts, n, mean, deviation, (low, high))

    @property
    def n_pieces(self) -> int:
        return -(-self.n_ratings // self.rows_at_once)

    def read(self, piece: int) -> Triples:
        """The ratings of one piece."""
        table = _piece(self.file, self.columns, piece * self.rows_at_once, self.rows_at_once)
        return Triples(
            self.users.rows_of(table["user"]),
            self.items.rows_of(table["item"]),
            contiguous(table["rating"].to_numpy(), np.float32),
        )


def _pieces(file: Path, columns: tuple[str, str, str], rows_at_once: int) -> Iterator[pl.DataFrame]:
    start = 0
    while (piece := _piece(file, columns, start, rows_at_once)).height:
        yield piece
        start += rows_at_once


def _piece(file: Path, columns: tuple[str, str, str], start: int, n: int) -> pl.DataFrame:
    """Some rows; only the row groups that have them are read."""
    stored = ask_parquet(file, lambda table: table.select(columns).slice(start, n).collect())
    found = {}
    for part, name in zip(("user", "item", "rating"), columns, strict=True):
        found[part], wrong = typed(part, stored[name])
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            problem = f"row {start + row + 1}, column {part}: {problem_of(part, stored[name][row])}"
            raise DataError(problem, file=file, expected=EXPECTED_CELL[part])
    return pl.DataFrame(found)


def _with(known: pl.Series, more: pl.Series, name: str) -> pl.Series:
    """The ids known so far and those of more rows, each once, in the order in which they first appeared."""
    ids = id_series(more, name).unique(maintain_order=True)
    if not len(known):
        return ids
    if known.dtype != ids.dtype:  # numbers too large for a row of integers are texts, and then all are
        known, ids = known.cast(pl.String), ids.cast(pl.String)
    return pl.concat([known, ids]).unique(maintain_order=True)
