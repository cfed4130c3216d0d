"""Ids of the outside world <-> rows 0..n-1."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import IntArray, contiguous
from tastespace.errors import DataError, UnknownIdError

if TYPE_CHECKING:
    from tastespace.data.ratings import Ratings

Ids = Any  # a polars or pandas series, a numpy array, or any iterable of strings or integers


OFFERED = 5  # titles named in a message
BLANKS = " \t\r\n"
CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
# Below one in this many, a dictionary made once is faster than a join, which scans all ids every time.
FEW = 100
# Up to this many ids, a polars query takes longer than a loop, and it waits for threads that others use.
SMALL = 1000
HANDFUL = 256  # the same where ids are looked up by row


def id_series(values: Ids, name: str = "ids") -> pl.Series:
    """Ids of any origin as one polars series, integers as Int64 and everything else as String."""
    series = _as_series(values, name)
    if series.dtype == pl.Null and len(series) == 0:
        return pl.Series(name, [], dtype=pl.Int64)
    if series.dtype.is_float():
        # A column of integers that once had a gap arrives as floats from pandas.
        whole = series.is_finite() & (series == series.round(0)) & (series.abs() <= 2**53)
        if not whole.fill_null(False).all():
            problem = f"{name}: fractional, missing or huge numbers among the ids"
            raise DataError(problem, expected="integers or strings")
        series = series.cast(pl.Int64)
    if series.null_count():
        row = int(np.flatnonzero(series.is_null().to_numpy())[0])
        raise DataError(f"{name}: the id at position {row} is missing", expected="an id in every row")
    if series.dtype.is_integer():
        narrow = series.cast(pl.Int64, strict=False)
        return series.cast(pl.String) if narrow.null_count() else narrow
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    raise DataError(f"{name}: ids of type {series.dtype}", expected="integers or strings")


def listed(ids: Ids) -> Ids:
    """A single id as a list of one; anything else unchanged."""
    return [ids] if isinstance(ids, str | Integral) else ids


def _as_series(values: Ids, name: str) -> pl.Series:
    if isinstance(values, pl.Series):
        return values.alias(name)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DataError(f"{name}: got {values!r}", expected="a list, array or series of ids")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return pl.Series(name, values)
    if isinstance(values, range):
        return pl.Series(name, np.arange(values.start, values.stop, values.step), dtype=pl.Int64)
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if kind is not None and kind in "iu" and hasattr(values, "to_numpy"):  # a pandas series of integers
        return pl.Series(name, values.to_numpy())
    entries = [entry.item() if isinstance(entry, np.generic) else entry for entry in values]
    entries = [None if is_missing(entry) else entry for entry in entries]
    kinds = {type(entry) for entry in entries if entry is not None}
    if kinds <= {int} and all(entry is None or -(2**63) <= entry < 2**63 for entry in entries):
        return pl.Series(name, entries, dtype=pl.Int64 if kinds else None)
    if kinds <= {float, int} and float in kinds:
        return pl.Series(name, entries, dtype=pl.Float64, strict=False)
    if kinds <= {str, int}:
        return pl.Series(name, [None if entry is None else str(entry) for entry in entries], dtype=pl.String)
    wrong = next(entry for entry in entries if entry is not None and type(entry) not in (int, str))
    raise DataError(f"{name}: an id of type {type(wrong).__name__}", text=str(wrong), expected="integers or strings")


def is_missing(entry: Any) -> bool:
    """Whether an entry is missing: None, NaN, or the NA of pandas, which cannot be compared."""
    if entry is None or type(entry).__name__ == "NAType":
        return True
    return isinstance(entry, float) and entry != entry


def is_blank(texts: pl.Series) -> pl.Series:
    """Which texts are blank, and so cannot be ids."""
    return texts.str.strip_chars(BLANKS) == ""


def is_canonical_integer(texts: pl.Series) -> pl.Series:
    """Which texts are exactly how an integer is written: "7" is, "007", "+7" and "7.0" are not."""
    parsed = texts.cast(pl.Int64, strict=False)
    return (parsed.cast(pl.String) == texts).fill_null(False)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The ids of one side, in the order in which they first appeared; the position is the row."""

    ids: pl.Series  # Int64 or String, no duplicates, no nulls

    @classmethod
    def of(cls, values: Ids, name: str = "ids") -> tuple[Vocabulary, IntArray]:
        """The vocabulary of these ids, and the row of each of them."""
        series = id_series(values, name)
        if len(series) <= SMALL:
            return cls._of_few(series, name)
        unique = series.unique(maintain_order=True)
        if unique.dtype == pl.String and is_blank(unique).any():
            raise DataError(f"{name}: an id is blank", expected="an id in every row")
        vocabulary = cls(unique)
        return vocabulary, vocabulary._join(series)

    @classmethod
    def _of_few(cls, series: pl.Series, name: str) -> tuple[Vocabulary, IntArray]:
        """The same for few ids, without a query."""
        row_of: dict[Any, int] = {}
        rows = [row_of.setdefault(entry, len(row_of)) for entry in series.to_list()]
        if series.dtype == pl.String and not all(entry.strip(BLANKS) for entry in row_of):
            raise DataError(f"{name}: an id is blank", expected="an id in every row")
        return cls(pl.Series(series.name, list(row_of), series.dtype)), np.array(rows, np.int32)

    @cached_property
    def _row_of(self) -> dict[Any, int]:
        return {entry: row for row, entry in enumerate(self.ids.to_list())}

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} ids: {', '.join(str(entry) for entry in self.ids.head(4))}, …)"

    def rows_of(self, ids: Ids) -> IntArray:
        """The row of each id, -1 for unknown ones. The text "7" finds the integer 7, "007" does not."""
        series = id_series(ids, self.ids.name)
        if series.dtype == self.ids.dtype:
            return self._join(series)
        if self.ids.dtype == pl.String:
            return self._join(series.cast(pl.String))
        if self._is_few(series):
            numbers = (int(text) if CANONICAL.fullmatch(text) else None for text in series.to_list())
            return np.array([self._row_of.get(number, -1) for number in numbers], np.int32)
        rows = self._join(series.cast(pl.Int64, strict=False))
        rows[~is_canonical_integer(series).to_numpy()] = -1
        return rows

    def at(self, rows: NDArray[Any]) -> pl.Series:
        """The ids of rows; null where a row is -1."""
        rows = np.asarray(rows)
        if rows.size <= HANDFUL:
            few = [self.ids[row] if row >= 0 else None for row in rows.tolist()]
            return pl.Series(self.ids.name, few, self.ids.dtype)
        if len(self) and (rows >= 0).all():  # This takes a hundredth of the time of the general case.
            return self.ids.gather(pl.Series(rows).cast(pl.UInt32))
        index = pl.Series(np.where(rows < 0, 0, rows)).cast(pl.UInt32)
        found = self.ids.gather(index) if len(self) else pl.Series(self.ids.name, [None] * len(rows), self.ids.dtype)
        return pl.select(pl.when(pl.Series(rows >= 0)).then(found)).to_series().alias(self.ids.name)

    def _is_few(self, series: pl.Series) -> bool:
        """Whether a dictionary finds these ids faster than a query."""
        return FEW * len(series) < len(self) or (len(series) <= SMALL and len(self) <= FEW * SMALL)

    def _join(self, series: pl.Series) -> IntArray:
        if self._is_few(series):
            return np.array([self._row_of.get(entry, -1) for entry in series.to_list()], np.int32)
        table = pl.DataFrame({"id": self.ids, "row": np.arange(len(self), dtype=np.int32)})
        asked = pl.DataFrame({"id": series})
        found = asked.join(table, on="id", how="left", maintain_order="left")["row"]
        return contiguous(found.fill_null(-1).to_numpy(), np.int32).copy()


_YEAR = re.compile(r"\s*\(\d{4}\)$")


def rows_by_title(titles: pl.Series | None) -> dict[str, tuple[int, ...]]:
    """The rows of each title, whole and without the year at its end; where both fit, whole titles win."""
    whole: dict[str, tuple[int, ...]] = {}
    shorter: dict[str, tuple[int, ...]] = {}
    for row, title in enumerate(() if titles is None else titles.to_list()):
        if title is not None:
            name = title.strip().casefold()
            whole[name] = (*whole.get(name, ()), row)
            if (short := _YEAR.sub("", name)) != name:
                shorter[short] = (*shorter.get(short, ()), row)
    return shorter | whole


# Items by their titles: an id wins, and a title counts where no id matches.


def items_named(ratings: Ratings, names: Ids) -> pl.Series:
    """The ids of items named by id or by title, in any case and with or without the year at its end.

    A name that fits nothing stays as it is; one that fits the titles of several items is an error that offers them.
    """
    asked = id_series(listed(names), "item")
    if ratings.item_titles is None or asked.dtype != pl.String:
        return asked
    rows = ratings.items.rows_of(asked)
    if (rows >= 0).all():
        return asked
    for place in (rows < 0).nonzero()[0].tolist():
        found = ratings.rows_by_title.get(asked[place].strip().casefold(), ())
        if len(found) > 1:
            raise UnknownIdError(
                f"{asked[place]!r} is the title of {len(found)} items", expected=f"one of {_offer(ratings, found)}"
            )
        if found:
            rows[place] = found[0]
    ids = ratings.items.at(rows)
    return ids if (rows >= 0).all() else pl.select(pl.coalesce(ids.cast(pl.String), asked)).to_series().alias("item")


def titles_like(ratings: Ratings, name: object) -> str:
    """Some items whose titles contain this text, for a message; empty if there are none."""
    if ratings.item_titles is None or not isinstance(name, str) or len(name.strip()) < 3:
        return ""
    holds = ratings.item_titles.str.to_lowercase().str.contains(name.strip().lower(), literal=True).fill_null(False)
    return _offer(ratings, holds.arg_true().to_list())


def _offer(ratings: Ratings, rows: list[int] | tuple[int, ...]) -> str:
    assert ratings.item_titles is not None
    shown = [f"{ratings.items.ids[row]} ({ratings.item_titles[row]})" for row in rows[:OFFERED]]
    return ", ".join(shown) + (f" and {len(rows) - OFFERED} more" if len(rows) > OFFERED else "")
