"""Items that come and go: any structure, with what was added since it was built beside it, and what was removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tastespace import _native
from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.errors import InvalidParameterError, named
from tastespace.index.index import (
    Excluded,
    Index,
    Neighbours,
    check_filters,
    checked_vectors,
    kept,
    of_queries,
    require,
    unbuilt,
)
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.inverted_file import InvertedFile

PANEL = _native.SCAN_PANEL
INNER = "inner."  # what the names of arrays of the inner structure begin with


@dataclass(kw_only=True)
class Growing:
    """A structure that items can be added to, and removed from, without building it again.

    What is added is scanned, exactly, until added and removed items together are more than the share `rebuild_at` of
    those built: then all that is left is built anew, before `add` or `remove` comes back. None: never. A row is that of
    the same item for ever; a removed one is a gap, and filters speak of all rows that ever were.

    Any number of threads may search while one adds or removes: each search sees all of a change, or nothing of it. Two
    threads must not add or remove at the same time.
    """

    inner: Index = field(default_factory=InvertedFile)
    rebuild_at: float | None = 0.2
    threads: int | None = None  # those of the inner structure too

    def build(self, vectors: FloatMatrix) -> Self:
        self._check()
        vectors = checked_vectors(vectors)
        self._become(self._built(vectors, np.ones(len(vectors), bool)))
        return self

    @classmethod
    def over(cls, index: Index, vectors: FloatMatrix) -> Growing:
        """Over an index that is built already, and stays as it is; of these vectors those behind it are added.

        What was removed from an index that grows stays so. It is never built anew.
        """
        vectors = checked_vectors(vectors)
        empty = _Tail.empty(vectors.shape[1])
        if isinstance(index, Growing):
            state = index.state_
        else:
            places = _Places.of(np.ones(index.n_items_, bool))
            state = _State(index, vectors[: index.n_items_], places, None, 0, empty)
        n_built, gone = len(state.vectors), np.flatnonzero(~state.tail.live[: state.tail.n_items])
        tail = empty.added(vectors[n_built:])
        tail = tail.without(gone) if len(gone) else tail
        growing = cls(inner=state.inner, rebuild_at=None, threads=index.threads)
        growing._become(replace(state, vectors=vectors[:n_built], tail=tail))
        return growing

    def _check(self) -> None:
        share = self.rebuild_at
        if share is None or (isinstance(share, Real) and not isinstance(share, bool) and 0 < share < np.inf):
            return
        raise InvalidParameterError(f"rebuild_at is {share!r}; expected a share above 0, or None for never")

    def add(self, vectors: FloatMatrix) -> IntArray:
        """New items, which are found at once; gives their rows."""
        vectors = np.asarray(vectors, np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.n_dimensions_:
            raise InvalidParameterError(
                f"vectors have the shape {vectors.shape}; expected (n, {self.n_dimensions_}) as the items have"
            )
        vectors = checked_vectors(vectors)
        before = self.state_
        self._become(self._settled(replace(before, tail=before.tail.added(vectors))))
        return np.arange(before.n_rows, before.n_rows + len(vectors), dtype=np.int32)

    def remove(self, rows: ArrayLike) -> None:
        """Items that are never found again."""
        which = _checked_rows(rows, self.state_)
        if len(which):
            self._become(self._settled(self.state_.without(which)))

    def _become(self, state: _State) -> None:
        # A search looks at the state alone, and once: this assignment is the moment of the change.
        self.state_ = state
        self.n_items_, self.n_dimensions_ = state.n_rows, state.vectors.shape[1]
        self.n_added_, self.n_removed_ = state.n_added, state.n_removed
        self.n_built_ = len(state.vectors)

    def _settled(self, state: _State) -> _State:
        """The same items, built anew where too much has changed."""
        if self.rebuild_at is None or state.n_added + state.n_removed <= self.rebuild_at * state.inner.n_items_:
            return state
        return self._built(state.all_vectors(), state.alive())

    def _unbuilt(self) -> Index:
        index: Index = unbuilt(self.inner)
        index.threads = self.threads
        return index

    def _built(self, vectors: FloatMatrix, alive: BoolArray) -> _State:
        places = _Places.of(alive)
        inner = self._unbuilt().build(places.chosen(vectors))
        return _State(inner, vectors, places, None, 0, _Tail.empty(vectors.shape[1]))

    @property
    def description(self) -> str:
        state = self.state_
        return f"{state.inner.description}; {state.n_added} added since, {state.n_removed} removed"

    @property
    def n_bytes(self) -> int:
        return self.state_.n_bytes

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        state = self.state_
        return {INNER + name: array for name, array in state.inner.arrays().items()} | {
            "n_built": np.array([len(state.vectors)], np.int64),
            "gaps": state.places.gaps(),  # removed before it was built
            "removed": np.flatnonzero(~state.alive()).astype(np.int32),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        """Take what was saved; vectors are those of all rows, gaps included."""
        self._check()
        vectors = contiguous(vectors, np.float32)
        require(arrays["n_built"].shape == (1,), "the number of items built is not one number")
        n_built = int(arrays["n_built"][0])
        require(0 <= n_built <= len(vectors), f"{n_built} items built, {len(vectors)} of the model")
        gaps = _saved_rows(arrays, "gaps", n_built)
        removed = _saved_rows(arrays, "removed", len(vectors))
        require(bool(np.isin(gaps, removed).all()), "gaps that were not removed")
        alive = np.ones(n_built, bool)
        alive[gaps] = False
        places = _Places.of(alive)
        theirs = {name.removeprefix(INNER): array for name, array in arrays.items() if name.startswith(INNER)}
        inner = self._unbuilt().restore(theirs, places.chosen(vectors[:n_built]))
        tail = _Tail.empty(vectors.shape[1]).added(vectors[n_built:])
        state = _State(inner, vectors[:n_built], places, None, 0, tail)
        since = np.setdiff1d(removed, gaps).astype(np.int64)
        self._become(state.without(since) if len(since) else state)
        return self

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: BoolArray | None = None,
    ) -> Neighbours:
        state = self.state_
        state.inner.threads = self.threads
        if state.is_as_built:
            return state.inner.search(queries, k, excluded=excluded, allowed=allowed)
        state.tail.scan.threads = self.threads
        return state.search(queries, k, excluded, allowed)


@dataclass(frozen=True, eq=False)
class _Places:
    """Which row each item of a structure is, and the other way round; both None where rows are items."""

    rows: IntArray | None  # one an item, ascending, and -1 behind: what no item, -1, stands for
    items: IntArray | None  # one a row; -1 for gaps

    @classmethod
    def of(cls, alive: BoolArray) -> _Places:
        if alive.all():
            return cls(None, None)
        rows = np.flatnonzero(alive).astype(np.int32)
        items = np.full(len(alive), -1, np.int32)
        items[rows] = np.arange(len(rows), dtype=np.int32)
        return cls(np.append(rows, np.int32(-1)), items)

    def chosen(self, of_rows: NDArray[Any]) -> NDArray[Any]:
        """What belongs to the items, of what belongs to the rows."""
        return of_rows if self.rows is None else of_rows[self.rows[:-1]]

    def gaps(self) -> IntArray:
        return np.zeros(0, np.int32) if self.items is None else np.flatnonzero(self.items < 0).astype(np.int32)

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in (self.rows, self.items) if array is not None)


@dataclass(frozen=True, eq=False)
class _Tail:
    """Items behind one another, with room for more: those that a search may be looking at never change."""

    panels: FloatArray  # panels x dimensions x items a panel, as the scan takes them
    live: BoolArray  # one a place; true where nothing is yet
    n_items: int
    n_removed: int
    scan: Exact

    @classmethod
    def empty(cls, n_dimensions: int) -> _Tail:
        scan = Exact().build(np.zeros((0, n_dimensions), np.float32))
        return cls(np.zeros((0, n_dimensions, PANEL), np.float32), np.ones(0, bool), 0, 0, scan)

    def added(self, vectors: FloatMatrix) -> _Tail:
        n_items = self.n_items + len(vectors)
        n_panels = -(-n_items // PANEL)
        panels, live = self.panels, self.live
        if n_panels > len(panels):
            # Twice the room, so that each item is moved a few times only, however many come one by one.
            n_more = max(n_panels, 2 * len(panels)) - len(panels)
            panels = np.concatenate([panels, np.zeros((n_more, *panels.shape[1:]), np.float32)])
            live = np.concatenate([live, np.ones(n_more * PANEL, bool)])
        places = np.arange(self.n_items, n_items)
        panels[places // PANEL, :, places % PANEL] = vectors
        scan = Exact()
        scan.n_items_, scan.n_dimensions_ = n_items, panels.shape[1]
        scan.panels_ = panels[:n_panels].reshape(-1)
        return replace(self, panels=panels, live=live, n_items=n_items, scan=scan)

    def without(self, items: NDArray[np.int64]) -> _Tail:
        live = self.live.copy()
        live[items] = False
        return replace(self, live=live, n_removed=self.n_removed + len(items))

    def vectors(self) -> FloatMatrix:
        return self.panels.transpose(0, 2, 1).reshape(-1, self.panels.shape[1])[: self.n_items]

    def allowed(self, allowed: BoolArray | None) -> BoolArray | None:
        if self.n_removed == 0:
            return allowed
        live = self.live[: self.n_items]
        return live if allowed is None else allowed & live


@dataclass(frozen=True, eq=False)
class _State:
    """All that a search looks at; a change makes another."""

    inner: Index
    vectors: FloatMatrix  # of all rows there were when it was built
    places: _Places
    live: BoolArray | None  # items of the inner structure that were not removed since; None for all
    n_inner_removed: int
    tail: _Tail  # rows behind those vectors
    n_rows: int = field(init=False)
    is_as_built: bool = field(init=False)  # nothing to be done but to ask the inner structure

    def __post_init__(self) -> None:
        n_tail = self.tail.n_items
        object.__setattr__(self, "n_rows", len(self.vectors) + n_tail)
        object.__setattr__(self, "is_as_built", n_tail == 0 and self.live is None and self.places.rows is None)

    @property
    def n_added(self) -> int:
        return self.tail.n_items

    @property
    def n_removed(self) -> int:
        return self.n_inner_removed + self.tail.n_removed

    @property
    def n_bytes(self) -> int:
        live = 0 if self.live is None else self.live.nbytes
        return self.inner.n_bytes + self.places.n_bytes + live + self.tail.panels.nbytes + self.tail.live.nbytes

    def all_vectors(self) -> FloatMatrix:
        return np.concatenate([self.vectors, self.tail.vectors()]) if self.tail.n_items else self.vectors

    def alive(self) -> BoolArray:
        """One a row."""
        return self.are_alive(np.arange(self.n_rows))

    def are_alive(self, rows: NDArray[Any]) -> BoolArray:
        """These rows of all there are."""
        n_built = len(self.vectors)
        behind = rows >= n_built
        alive = np.ones(len(rows), bool)
        alive[behind] = self.tail.live[rows[behind] - n_built]
        items = rows[~behind] if self.places.items is None else self.places.items[rows[~behind]]
        alive[~behind] = (items >= 0) if self.live is None else (items >= 0) & self.live[items]
        return alive

    def without(self, rows: NDArray[np.int64]) -> _State:
        n_built = len(self.vectors)
        behind = rows >= n_built
        tail = self.tail.without(rows[behind] - n_built) if behind.any() else self.tail
        items = rows[~behind] if self.places.items is None else self.places.items[rows[~behind]]
        live = self.live
        if len(items):
            live = np.ones(self.inner.n_items_, bool) if live is None else live.copy()
            live[items] = False
        return replace(self, live=live, n_inner_removed=self.n_inner_removed + len(items), tail=tail)

    def search(self, queries: FloatMatrix, k: int, excluded: Excluded | None, allowed: BoolArray | None) -> Neighbours:
        check_filters(excluded, allowed, len(queries), self.n_rows)
        n_built = len(self.vectors)
        theirs, behind = (None, None) if excluded is None else self._parts(excluded)
        found = self._of_inner(queries, k, theirs, None if allowed is None else allowed[:n_built])
        if self.places.rows is not None:
            found = Neighbours(self.places.rows[found.items], found.scores)
        if self.tail.n_items == 0:
            return found
        added = self.tail.scan.search(
            queries, k, excluded=behind, allowed=self.tail.allowed(None if allowed is None else allowed[n_built:])
        )
        return _merged(found, added, n_built)

    def _of_inner(
        self, queries: FloatMatrix, k: int, excluded: Excluded | None, allowed: BoolArray | None
    ) -> Neighbours:
        """Items of the inner structure that were not removed."""
        if allowed is not None:
            allowed = self.places.chosen(allowed)
            both = allowed if self.live is None else allowed & self.live
            return self.inner.search(queries, k, excluded=excluded, allowed=both)
        if self.live is None:
            return self.inner.search(queries, k, excluded=excluded)
        # A filter takes time for every item, however few were removed. So some more are found, and few of them dropped.
        found = self.inner.search(queries, k + min(k, self.n_inner_removed), excluded=excluded)
        stays = self.live[found.items] & (found.items >= 0)
        if stays[:, :k].all():
            return Neighbours(contiguous(found.items[:, :k], np.int32), contiguous(found.scores[:, :k], np.float32))
        best = np.argsort(~stays, axis=1, kind="stable")[:, :k]
        each = np.arange(len(best))[:, None]
        stays = stays[each, best]
        items = np.where(stays, found.items[each, best], np.int32(-1))
        scores = np.where(stays, found.scores[each, best], np.float32(-np.inf))
        # Where too many were dropped, and there are more to be found, the filter does it.
        short = np.flatnonzero((items[:, -1] < 0) & (found.items[:, -1] >= 0))
        if len(short):
            mine = of_queries(excluded, short)
            again = self.inner.search(np.asarray(queries)[short], k, excluded=mine, allowed=self.live)
            items[short], scores[short] = again.items, again.scores
        return Neighbours(items, scores)

    def _parts(self, excluded: Excluded) -> tuple[Excluded, Excluded]:
        """Lists of rows as lists of items of the inner structure, and of the tail."""
        n_built = len(self.vectors)
        rows = excluded.items
        behind = rows >= n_built
        within = (rows >= 0) & ~behind
        items = rows[within]
        if self.places.items is not None:
            items = self.places.items[items]
            within[within] = items >= 0  # Gaps need not be excluded.
            items = items[items >= 0]
        return kept(excluded, within, items), kept(excluded, behind, rows[behind] - np.int32(n_built))


def _merged(found: Neighbours, added: Neighbours, n_built: int) -> Neighbours:
    """The best of both; of equal scores the lower row, as in any scan, since what was added comes behind."""
    if (added.scores[:, 0] <= found.scores[:, -1]).all():  # Nothing added is among the best: often, while it is little.
        return found
    rows = np.where(added.items >= 0, added.items + np.int32(n_built), np.int32(-1))
    items = np.concatenate([found.items, rows], axis=1)
    scores = np.concatenate([found.scores, added.scores], axis=1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, : found.items.shape[1]]
    queries = np.arange(len(items))[:, None]
    return Neighbours(items[queries, best], scores[queries, best])


def _checked_rows(rows: ArrayLike, state: _State) -> NDArray[np.int64]:
    """Rows that can be removed: known, still there, and each named once."""
    which = np.atleast_1d(np.asarray(rows))
    if which.size == 0:
        return np.zeros(0, np.int64)
    if which.ndim != 1 or not np.issubdtype(which.dtype, np.integer):
        raise InvalidParameterError(
            f"rows to remove are {which.dtype} of the shape {which.shape}; expected a list of whole numbers"
        )
    unknown = which[(which < 0) | (which >= state.n_rows)]
    if len(unknown):
        raise InvalidParameterError(
            f"rows to remove are unknown: {named(unknown.tolist())}; expected some of the {state.n_rows} that ever were"
        )
    gone = which[~state.are_alive(which)]
    if len(gone):
        raise InvalidParameterError(
            f"rows to remove were removed before: {named(gone.tolist())}; expected rows that are still there"
        )
    known, counts = np.unique(which.astype(np.int64), return_counts=True)
    if (counts > 1).any():
        raise InvalidParameterError(
            f"rows to remove are named twice: {named(known[counts > 1].tolist())}; expected each once"
        )
    return known


def _saved_rows(arrays: Mapping[str, NDArray[Any]], name: str, n_rows: int) -> IntArray:
    rows = contiguous(arrays[name], np.int32)
    fits = rows.ndim == 1 and bool((np.diff(rows) > 0).all())
    fits = fits and (len(rows) == 0 or bool(rows[0] >= 0 and rows[-1] < n_rows))
    require(fits, f"{name} are not ascending rows of the model")
    return rows
