"""What a reader found in a file, before it becomes ratings."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tastespace.arrays import FloatArray, IntArray, TimeArray
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two sides of ratings: the ids, and which of them each record names."""

    vocabulary: Vocabulary
    rows: IntArray

    def ids(self) -> pl.Series:
        """The id of each record."""
        return self.vocabulary.at(self.rows)

    @classmethod
    def of(cls, ids: pl.Series, name: str) -> Side:
        return cls(*Vocabulary.of(ids, name))


@dataclass(frozen=True, eq=False)
class Observed:
    """The records of a file; a part is None where the file has no column for it."""

    users: Side | None
    items: Side
    values: FloatArray | None
    times: TimeArray | None
    rejected: int = 0
    first_fault: DataError | None = None  # why the first of the rejected was
