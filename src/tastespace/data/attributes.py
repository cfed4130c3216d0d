"""What is known about the items, by name: titles, genres, years, prices, numbers of ratings.

Every attribute is a flat list of values and the item of each, so that a list of genres is compared in the same way as
a single year: an item matches if one of its values does.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from operator import ge, gt, le, lt
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, IntArray
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Vocabulary, is_blank
from tastespace.errors import shortened

Value = str | int | float
Kind = Literal["number", "text", "other"]
_ORDERS: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_MOST_SUGGESTIBLE = 1000  # different values; searching all titles for a similar one would take seconds


def plain_text(text: str) -> str:
    """Normalize a text for comparison: case and Unicode variants of a letter are ignored."""
    return unicodedata.normalize("NFC", text).casefold()


@dataclass(frozen=True, eq=False)
class Column:
    """One attribute of all items: the values, and the item of each."""

    name: str
    kind: Kind
    n_items: int
    item_rows: IntArray  # one per value
    numbers: NDArray[Any] | None  # one per value
    texts: Vocabulary | None  # each text once
    codes: IntArray | None  # one per value: which text

    @classmethod
    def of(cls, name: str, cells: pl.Series) -> Column:
        """An attribute from one cell per item; nulls, NaN, blank texts and empty lists are missing values."""
        table = pl.DataFrame({"row": np.arange(len(cells), dtype=np.int32), "value": cells})
        if isinstance(cells.dtype, pl.List | pl.Array):
            table = table.explode("value")
        kind, values = _comparable(table["value"])
        table = table.with_columns(value=values).drop_nulls("value")
        numbers = table["value"].to_numpy() if kind == "number" else None
        texts, codes = Vocabulary.of(table["value"]) if kind == "text" else (None, None)
        return cls(name, kind, len(cells), table["row"].to_numpy(), numbers, texts, codes)

    @cached_property
    def present(self) -> BoolArray:
        """Which items have a value."""
        return self._of_values(np.ones(len(self.item_rows), np.bool_))

    @cached_property
    def values_of_items(self) -> list[list[int]]:
        """The values of each item as integer codes, which are equal where values compare equal."""
        keys = self.numbers if self.codes is None else np.array(self._plain, object)[self.codes]
        codes = np.unique([] if keys is None else keys, return_inverse=True)[1]
        found: list[list[int]] = [[] for _ in range(self.n_items)]
        for item, code in set(zip(self.item_rows.tolist(), codes.tolist(), strict=True)):
            found[item].append(code)
        return found

    @cached_property
    def _plain(self) -> list[str]:
        return [] if self.texts is None else [plain_text(text) for text in self.texts.ids]

    @cached_property
    def _spelled(self) -> dict[str, str]:
        """Each plain text as it is written."""
        return {} if self.texts is None else dict(zip(self._plain, self.texts.ids, strict=True))

    def matches(self, operation: str, values: Sequence[Value]) -> BoolArray:
        """The items with a value that passes the test; for != and `not`, with values that all fail the opposite."""
        if operation == "!=" or operation.startswith("not "):
            return self.present & ~self.matches(operation.removeprefix("not ") if operation != "!=" else "=", values)
        if self.numbers is not None:
            return self._of_values(_passes_numbers(self.numbers, operation, values))
        wanted = {plain_text(str(value)) for value in values}
        test = _text_test(operation, wanted)
        passes = np.fromiter((test(text) for text in self._plain), np.bool_, len(self._plain))
        return self._of_values(passes[self.codes])

    def has(self, value: Value) -> bool:
        """Whether any item has this text; always true for numbers, which can be compared anyway."""
        return self.kind == "number" or plain_text(str(value)) in self._spelled

    def doubt(self, value: Value) -> str:
        """The remark about a text that no item has."""
        known = self._plain if len(self._plain) <= _MOST_SUGGESTIBLE else []
        close = get_close_matches(plain_text(str(value)), known, n=1)
        hint = f"; did you mean {self._spelled[close[0]]!r}?" if close else ""
        return f"no item has the {self.name} {shortened(str(value))!r}{hint}"

    def _of_values(self, flags: BoolArray) -> BoolArray:
        """The items of the flagged values."""
        found = np.zeros(self.n_items, np.bool_)
        found[self.item_rows[flags]] = True
        return found


class Attributes:
    """The attributes of the items of some ratings, each prepared on first use.

    The columns of the item table come first, then `title`, `item` (the id) and `ratings` (the number of ratings).
    """

    def __init__(self, ratings: Ratings) -> None:
        self._ratings = ratings
        table = ratings.item_attributes
        self._cells: dict[str, pl.Series] = {} if table is None else {column.name: column for column in table}
        if ratings.item_titles is not None:
            self._cells.setdefault("title", ratings.item_titles)
        self._cells.setdefault("item", ratings.items.ids)
        self.rating_counts = np.bincount(ratings.item_rows, minlength=ratings.n_items)
        if len(ratings):
            self._cells.setdefault("ratings", pl.Series(self.rating_counts))
        self._columns: dict[str, Column] = {}

    @cached_property
    def _name_of(self) -> dict[str, str]:
        """Other ways of writing a name: any case and punctuation, and the singular for a list."""
        known: dict[str, str] = {}
        for name in self._cells:
            known.setdefault(plain_name(name), name)
        for name, cells in self._cells.items():
            if isinstance(cells.dtype, pl.List | pl.Array):
                for singular in singulars(plain_name(name)):
                    known.setdefault(singular, name)
        return known

    def find(self, name: str) -> Column | None:
        """The attribute with this name, or None."""
        found = name if name in self._cells else self._name_of.get(plain_name(name) or name)
        if found is None:
            return None
        if found not in self._columns:
            self._columns[found] = Column.of(found, self._cells[found])
        return self._columns[found]

    def unknown(self, name: str) -> tuple[str, str]:
        """The message about an unknown name: what is wrong, and what was expected."""
        problem = f"asks for {shortened(name)!r}, which is not an attribute of the items"
        if plain_name(name) == "ratings":
            problem = "asks for the number of ratings, but the model was saved without its ratings"
        close = get_close_matches(plain_name(name), self._name_of, n=1)
        hint = f"; did you mean {self._name_of[close[0]]}?" if close else ""
        return problem, f"one of {', '.join(self._cells)}{hint}"


def _comparable(cells: pl.Series) -> tuple[Kind, pl.Series]:
    """Values as numbers or texts; booleans and dates are compared as text."""
    kind = cells.dtype
    if kind.is_float() or kind.is_decimal():
        return "number", cells.cast(pl.Float64).fill_nan(None)
    if kind.is_integer():
        return "number", cells
    if kind in (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null) or kind.is_temporal():
        texts = cells.cast(pl.String)
        return "text", texts.set(is_blank(texts).fill_null(False), None)
    return "other", cells


def _passes_numbers(numbers: NDArray[Any], operation: str, values: Sequence[Value]) -> BoolArray:
    if operation in _ORDERS:
        return np.asarray(_ORDERS[operation](numbers, values[0]), np.bool_)
    return np.asarray(np.any([numbers == value for value in values], axis=0), np.bool_)


def _text_test(operation: str, wanted: set[str]) -> Callable[[str], bool]:
    if operation in ("=", "in"):
        return wanted.__contains__
    (value,) = wanted
    if operation == "contains":
        return lambda text: value in text
    return lambda text: bool(_ORDERS[operation](text, value))


def plain_name(name: str) -> str:
    """A name without case and punctuation."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def singulars(name: str) -> list[str]:
    """What one entry of a list of this name may be called."""
    endings = (("ies", "y"), ("s", ""), ("es", ""))
    return [name.removesuffix(plural) + singular for plural, singular in endings if name.endswith(plural)]
