"""Changes since an index was built: added items, in a tail that is scanned, and removed items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tastespace import _native
from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.errors import InvalidParameterError, named
from tastespace.index.search import Arrays, Content, Excluded, Neighbours, Search, require

PANEL = _native.SCAN_PANEL


@dataclass(frozen=True, eq=False)
class Rows:
    """The mapping between rows and items of a structure; both parts are None if rows are items."""

    n_rows: int
    of_items: IntArray | None = None  # ascending, then -1, so that the item -1 (none) maps to the row -1
    items: IntArray | None = None  # one per row; -1 for gaps

    @classmethod
    def of(cls, alive: BoolArray) -> Rows:
        """The mapping for items that are the rows alive."""
        if alive.all():
            return cls(len(alive))
        rows = np.flatnonzero(alive).astype(np.int32)
        items = np.full(len(alive), -1, np.int32)
        items[rows] = np.arange(len(rows), dtype=np.int32)
        return cls(len(alive), np.append(rows, np.int32(-1)), items)

    def chosen(self, of_rows: NDArray[Any]) -> NDArray[Any]:
        """Per-item values from per-row values."""
        return of_rows if self.of_items is None else of_rows[self.of_items[:-1]]

    def items_at(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows if self.items is None else self.items[rows]

    def gaps(self) -> IntArray:
        return np.zeros(0, np.int32) if self.items is None else np.flatnonzero(self.items < 0).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Tail:
    """Added items, with spare capacity: entries that a running search may read never change."""

    panels: FloatArray  # panels x dimensions x items per panel, as the scan takes them
    n_items: int = 0

    @classmethod
    def empty(cls, n_dimensions: int) -> Tail:
        return cls(np.zeros((0, n_dimensions, PANEL), np.float32))

    def added(self, vectors: FloatMatrix) -> Tail:
        n_items = self.n_items + len(vectors)
        n_panels = -(-n_items // PANEL)
        panels = self.panels
        if n_panels > len(panels):
            # Double the capacity, so that each item is moved only a few times, however many are added one by one.
            n_more = max(n_panels, 2 * len(panels)) - len(panels)
            panels = np.concatenate([panels, np.zeros((n_more, *panels.shape[1:]), np.float32)])
        places = np.arange(self.n_items, n_items)
        panels[places // PANEL, :, places % PANEL] = vectors
        return Tail(panels, n_items)

    def vectors(self) -> FloatMatrix:
        return self.panels.transpose(0, 2, 1).reshape(-1, self.panels.shape[1])[: self.n_items]

    def search(self, search: Search) -> Neighbours:
        n_panels = -(-self.n_items // PANEL)
        return search.run(_native.scan, (self.panels[:n_panels].reshape(-1),), self.n_items)


@dataclass(frozen=True, eq=False)
class State:
    """All data that a search reads; a change creates a new state."""

    content: Content
    rows: Rows  # those that the structure was built over
    tail: Tail  # the rows after them
    live: BoolArray | None = None  # items of the structure, then of the tail, not removed since; None for all

    @cached_property
    def is_as_built(self) -> bool:
        """Whether the structure alone can answer."""
        return self.tail.n_items == 0 and self.live is None and self.rows.items is None

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows + self.tail.n_items

    @cached_property
    def n_removed(self) -> int:
        return 0 if self.live is None else int(np.count_nonzero(~self.live))

    @cached_property
    def n_items_removed(self) -> int:
        """The number of items of the structure that were removed."""
        return 0 if self.live is None else int(np.count_nonzero(~self.live[: self.content.n_items]))

    @property
    def n_bytes(self) -> int:
        """The memory in bytes in addition to the structure's."""
        arrays = (self.rows.of_items, self.rows.items, self.live, self.tail.panels)
        return sum(array.nbytes for array in arrays if array is not None)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "n_built": np.array([self.rows.n_rows], np.int64),
            "gaps": self.rows.gaps(),  # removed before it was built
            "removed": np.flatnonzero(~self.alive()).astype(np.int32),
        }

    def alive(self, rows: NDArray[Any] | None = None) -> BoolArray:
        """Which of these rows (all by default) were not removed."""
        places = self._places(np.arange(self.n_rows) if rows is None else rows)
        return (places >= 0) if self.live is None else (places >= 0) & self.live[places]

    def _places(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The positions of rows among the items of the structure followed by the tail; -1 for gaps."""
        places = rows - self.rows.n_rows + self.content.n_items
        is_built = rows < self.rows.n_rows
        places[is_built] = self.rows.items_at(rows[is_built])
        return places

    def living_vectors(self, vectors: FloatMatrix) -> FloatMatrix:
        """The vectors of all rows that are alive, given those of the structure."""
        both = np.concatenate([vectors, self.tail.vectors()])
        return both if self.live is None else both[self.live]

    def with_tail(self, tail: Tail) -> State:
        """The same state with another tail, of at least as many items; removed items stay removed."""
        if self.live is None:
            return replace(self, tail=tail)
        more = np.ones(tail.n_items - self.tail.n_items, bool)
        return replace(self, tail=tail, live=np.concatenate([self.live, more]))

    def without(self, rows: NDArray[np.int64]) -> State:
        live = np.ones(self.content.n_items + self.tail.n_items, bool) if self.live is None else self.live.copy()
        live[self._places(rows)] = False
        return replace(self, live=live)

    def checked_rows(self, rows: ArrayLike) -> NDArray[np.int64]:
        """Validated rows to remove: known, not removed yet, and distinct."""
        which = np.atleast_1d(np.asarray(rows))
        if which.size == 0:
            return np.zeros(0, np.int64)
        if which.ndim != 1 or not np.issubdtype(which.dtype, np.integer):
            raise InvalidParameterError(
                f"rows to remove are {which.dtype} of the shape {which.shape}; expected a list of whole numbers"
            )
        unknown = which[(which < 0) | (which >= self.n_rows)]
        if len(unknown):
            raise InvalidParameterError(
                f"rows to remove are unknown: {named(unknown.tolist())}; expected some of the {self.n_rows} ever "
                "indexed"
            )
        which = which.astype(np.int64)
        gone = which[~self.alive(which)]
        if len(gone):
            raise InvalidParameterError(
                f"rows to remove were removed before: {named(gone.tolist())}; expected rows that are present"
            )
        known, counts = np.unique(which, return_counts=True)
        if (counts > 1).any():
            raise InvalidParameterError(
                f"rows to remove are named twice: {named(known[counts > 1].tolist())}; expected each once"
            )
        return known

    def search(self, find: Callable[[Content, Search], Neighbours], search: Search) -> Neighbours:
        """The best of the structure's items, found by `find`, and of the tail."""
        n_built, excluded, allowed = self.rows.n_rows, search.excluded, search.allowed
        within, behind = (None, None) if excluded is None else self._parts(excluded)
        mine = None if allowed is None else allowed[:n_built]
        found = self._find(find, search._replace(excluded=within, allowed=mine))
        if self.rows.of_items is not None:
            found = Neighbours(self.rows.of_items[found.items], found.scores)
        if self.tail.n_items == 0:
            return found
        rest = None if self.live is None else self.live[self.content.n_items :]
        if allowed is not None:
            rest = allowed[n_built:] if rest is None else allowed[n_built:] & rest
        return _merged(found, self.tail.search(search._replace(excluded=behind, allowed=rest)), n_built)

    def _find(self, find: Callable[[Content, Search], Neighbours], search: Search) -> Neighbours:
        """Items of the structure that were not removed."""
        live = self.live[: self.content.n_items] if self.live is not None and self.n_items_removed else None
        if search.allowed is not None:
            allowed = self.rows.chosen(search.allowed)
            return find(self.content, search._replace(allowed=allowed if live is None else allowed & live))
        if live is None:
            return find(self.content, search)
        # A filter takes time for every item, however few were removed. So some more are found, and removed ones
        # dropped.
        k = search.k
        found = find(self.content, search._replace(k=k + min(k, self.n_items_removed)))
        stays = live[found.items] & (found.items >= 0)
        if stays[:, :k].all():
            return Neighbours(contiguous(found.items[:, :k], np.int32), contiguous(found.scores[:, :k], np.float32))
        best = np.argsort(~stays, axis=1, kind="stable")[:, :k]
        each = np.arange(len(best))[:, None]
        stays = stays[each, best]
        items = np.where(stays, found.items[each, best], np.int32(-1))
        scores = np.where(stays, found.scores[each, best], np.float32(-np.inf))
        # If too many were dropped and more can be found, use the filter.
        short = np.flatnonzero((items[:, -1] < 0) & (found.items[:, -1] >= 0))
        if len(short):
            mine = None if search.excluded is None else search.excluded.of_queries(short)
            rest = search._replace(queries=search.queries[short], excluded=mine, allowed=live)
            again = find(self.content, rest)
            items[short], scores[short] = again.items, again.scores
        return Neighbours(items, scores)

    def _parts(self, excluded: Excluded) -> tuple[Excluded, Excluded]:
        """Lists of rows as lists of items of the structure, and of the tail."""
        rows = excluded.items
        behind = rows >= self.rows.n_rows
        within = (rows >= 0) & ~behind
        items = self.rows.items_at(rows[within])
        within[within] = items >= 0  # Gaps need not be excluded.
        items = items[items >= 0]
        return excluded.renamed(within, items), excluded.renamed(behind, rows[behind] - np.int32(self.rows.n_rows))


def _merged(found: Neighbours, added: Neighbours, n_built: int) -> Neighbours:
    """The best of both; ties go to the lower row, as in any scan, since added items have higher rows."""
    if (added.scores[:, 0] <= found.scores[:, -1]).all():  # No added item is among the best.
        return found
    rows = np.where(added.items >= 0, added.items + np.int32(n_built), np.int32(-1))
    items = np.concatenate([found.items, rows], axis=1)
    scores = np.concatenate([found.scores, added.scores], axis=1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, : found.items.shape[1]]
    queries = np.arange(len(items))[:, None]
    return Neighbours(items[queries, best], scores[queries, best])


def saved_rows(arrays: Arrays, n_rows: int) -> tuple[Rows, NDArray[np.int64]]:
    """The rows that the structure was built over, and those removed since; a ValueError if they do not fit."""
    require(arrays["n_built"].shape == (1,), "the number of items built is not one number")
    n_built = int(arrays["n_built"][0])
    require(0 <= n_built <= n_rows, f"{n_built} items built, {n_rows} of the model")
    gaps, removed = _ascending(arrays, "gaps", n_built), _ascending(arrays, "removed", n_rows)
    require(bool(np.isin(gaps, removed).all()), "gaps that were not removed")
    alive = np.ones(n_built, bool)
    alive[gaps] = False
    return Rows.of(alive), np.setdiff1d(removed, gaps).astype(np.int64)


def _ascending(arrays: Arrays, name: str, n_rows: int) -> IntArray:
    rows = contiguous(arrays[name], np.int32)
    fits = rows.ndim == 1 and bool((np.diff(rows) > 0).all())
    fits = fits and (len(rows) == 0 or bool(rows[0] >= 0 and rows[-1] < n_rows))
    require(fits, f"{name} are not ascending rows of the model")
    return rows
