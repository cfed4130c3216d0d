"""The index: finds the items with the largest inner product; items can be added and removed without a rebuild."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from tastespace import threads
from tastespace.arrays import BoolArray, FloatMatrix, IntArray, contiguous
from tastespace.errors import InvalidParameterError
from tastespace.index import search as searches
from tastespace.index.search import Arrays, Content, Excluded, Neighbours, Search
from tastespace.index.tail import Rows, State, Tail, saved_rows

INNER = "inner."  # prefix of array names that belong to a structure inside another


@dataclass(kw_only=True)
class Index(ABC):
    """Finds items by inner product: larger is better, best first, always two-dimensional, padded with -1.

    The fields of a structure are its parameters; learned names end in an underscore. A built index can be saved: arrays
    hold everything learned except the vectors, which belong to the model. A structure implements the methods below
    "Methods of a structure".

    Items can be added and removed after the build. Added items are scanned exactly until added and removed items
    together exceed the share `rebuild_at` of those built: then the index is rebuilt from the remaining items, before
    `add` or `remove` returns. None: never. A row always belongs to the same item; a removed one is a gap, and filters
    refer to all rows, including removed ones. Any number of threads may search while one adds or removes: each search
    sees a change completely or not at all. Two threads must not add or remove at the same time.
    """

    rebuild_at: float | None = None
    threads: int | None = None

    scans_few: ClassVar[bool] = True  # whether few allowed items are scored one by one, without the structure
    keeps_vectors: ClassVar[bool] = True
    least: ClassVar[Mapping[str, int]] = {}  # minimum of each integer parameter

    # Methods of a structure

    def _check(self) -> None:
        """Raise an error for invalid parameters."""
        for name, least in self.least.items():
            searches.check_number(name, getattr(self, name), least=least)

    @abstractmethod
    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Any:
        """Learn from at least one item, and optionally from sample queries."""

    @abstractmethod
    def _search(self, content: Content, search: Search) -> Neighbours:
        """The best items for at least one query."""

    @abstractmethod
    def _describe(self, content: Content) -> str:
        """A short readable description with its parameters."""

    def _arrays(self, built: Any) -> Arrays:
        """Everything learned that must be saved."""
        return dict(built._asdict())

    @abstractmethod
    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> Any:
        """The learned content from saved arrays; a mismatch is a ValueError."""

    def _n_bytes(self, content: Content) -> int:
        return sum(array.nbytes for array in content.built)

    # Methods of all structures

    def build(self, vectors: FloatMatrix, queries: FloatMatrix | None = None) -> Self:
        """Build the index from these items; reductions also learn from sample queries."""
        self._check_all()
        content = self._content(searches.checked_vectors(vectors), queries)
        self.state_ = State(content, Rows(content.n_items), Tail.empty(self.n_dimensions_))
        return self

    def _check_all(self) -> None:
        share = self.rebuild_at
        if not (share is None or (isinstance(share, Real) and not isinstance(share, bool) and 0 < share < np.inf)):
            raise InvalidParameterError(f"rebuild_at is {share!r}; expected a share above 0, or None for never")
        self._check()

    def _content(self, vectors: FloatMatrix, queries: FloatMatrix | None = None) -> Content:
        built = self._build(vectors, queries) if len(vectors) else None
        self.n_dimensions_: int = vectors.shape[1]
        return Content(len(vectors), vectors if self.keeps_vectors else None, built)

    @property
    def n_items_(self) -> int:
        """The number of all rows, including removed ones."""
        return self.state_.n_rows

    @property
    def n_built_(self) -> int:
        """The number of rows that the structure was built over."""
        return self.state_.rows.n_rows

    @property
    def n_added_(self) -> int:
        return self.state_.tail.n_items

    @property
    def n_removed_(self) -> int:
        """The number of rows removed since the last build."""
        return self.state_.n_removed

    @property
    def built_(self) -> Any:
        return self.state_.content.built

    @property
    def description(self) -> str:
        """A short readable description with its parameters."""
        own = self._describe(self.state_.content)
        if self.state_.is_as_built:
            return own
        return f"{own}; {self.n_added_} added since, {self.n_removed_} removed"

    @property
    def n_bytes(self) -> int:
        """The memory in bytes, without the vectors that it was built over."""
        content = self.state_.content
        return self.state_.n_bytes + (0 if content.built is None else self._n_bytes(content))

    def search(
        self, queries: FloatMatrix, k: int, *, excluded: Excluded | None = None, allowed: BoolArray | None = None
    ) -> Neighbours:
        """The k best items of each query among those allowed, without those excluded for the query."""
        state = self.state_  # Read once: a change replaces it.
        queries = searches.checked_queries(queries, self.n_dimensions_)
        if type(k) is not int or k < 1:
            searches.check_number("k", k)
        if excluded is not None or allowed is not None:
            searches.check_filters(excluded, allowed, len(queries), state.n_rows)
        search = Search(queries, k, excluded, allowed, threads.resolve(self.threads))
        if state.is_as_built:
            return self._find(state.content, search)
        return state.search(self._find, search)

    def _find(self, content: Content, search: Search) -> Neighbours:
        """The best of the items that the structure was built over."""
        if len(search.queries) == 0 or content.n_items == 0:
            return Neighbours.none(len(search.queries), search.k)
        few = search.among_few(content.vectors) if self.scans_few and content.vectors is not None else None
        return self._search(content, search) if few is None else few

    def add(self, vectors: FloatMatrix) -> IntArray:
        """Add items, which are found at once; returns their rows."""
        vectors = np.asarray(vectors, np.float32)
        searches.check_shape("vectors", vectors, self.n_dimensions_)
        before = self.state_
        self._change(before.with_tail(before.tail.added(searches.checked_vectors(vectors))))
        return np.arange(before.n_rows, before.n_rows + len(vectors), dtype=np.int32)

    def remove(self, rows: ArrayLike) -> None:
        """Remove items, which are never found again."""
        which = self.state_.checked_rows(rows)
        if len(which):
            self._change(self.state_.without(which))

    def _change(self, state: State) -> None:
        """Switch to another state, after a rebuild if too much has changed."""
        limit = None if self.rebuild_at is None else self.rebuild_at * state.content.n_items
        if limit is not None and state.tail.n_items + state.n_removed > limit:
            content = self._content(state.living_vectors(self._vectors(state.content)))
            state = State(content, Rows.of(state.alive()), Tail.empty(self.n_dimensions_))
        self.state_ = state  # the change takes effect here

    def _vectors(self, content: Content) -> FloatMatrix:
        """The vectors that the structure was built over."""
        assert content.vectors is not None
        return content.vectors

    def over(self, vectors: FloatMatrix) -> Self:
        """The same structure, without a build, for all these vectors: those after the ones built over are added.

        Removed items stay removed. It is never rebuilt.
        """
        vectors = searches.checked_vectors(vectors)
        other: Self = unbuilt(self)
        other.rebuild_at, other.n_dimensions_ = None, self.n_dimensions_
        other.state_ = self.state_.with_tail(Tail.empty(vectors.shape[1]).added(vectors[self.n_built_ :]))
        return other

    def arrays(self) -> Arrays:
        """All arrays that must be saved."""
        state = self.state_
        own = {} if state.content.built is None else self._arrays(state.content.built)
        return {INNER + name: array for name, array in own.items()} | state.arrays() if self.can_change else own

    @property
    def can_change(self) -> bool:
        """Whether items were added or removed, or `rebuild_at` is set."""
        state = getattr(self, "state_", None)
        return self.rebuild_at is not None or not (state is None or state.is_as_built)

    def restore(self, arrays: Arrays, vectors: FloatMatrix) -> Self:
        """Restore from saved arrays and the same vectors, removed items included; a mismatch is a ValueError."""
        self._check_all()
        vectors = contiguous(vectors, np.float32)
        own, rows, removed = arrays, Rows(len(vectors)), np.zeros(0, np.int64)
        if "n_built" in arrays:
            rows, removed = saved_rows(arrays, len(vectors))
            own = inner_arrays(arrays)
        items = rows.chosen(vectors[: rows.n_rows])
        searches.require(not own or len(items) > 0, "it has arrays where there are no items")
        try:
            built = self._restore(own, items) if len(items) else None
        except KeyError as error:
            raise ValueError(f"the index does not fit: it lacks {error}") from error
        self.n_dimensions_ = vectors.shape[1]
        content = Content(len(items), items if self.keeps_vectors else None, built)
        state = State(content, rows, Tail.empty(vectors.shape[1]).added(vectors[rows.n_rows :]))
        self.state_ = state.without(removed) if len(removed) else state
        return self


def unbuilt(index: Any) -> Any:
    """A structure with the same parameters and nothing learned, including nested ones."""
    parameters = {parameter.name: getattr(index, parameter.name) for parameter in fields(index)}
    return type(index)(**{name: unbuilt(value) if is_dataclass(value) else value for name, value in parameters.items()})


def inner_arrays(arrays: Arrays, prefix: str = INNER) -> Arrays:
    """The arrays of the inner structure, by its own names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def with_threads(index: Index, threads: int | None) -> Any:
    """The same index, with nested structures, for this number of threads; what was built is shared and unchanged."""
    if index.threads == threads:
        return index
    # Every answer does this: `copy` would take ten times as long, and so would asking all parts for their type.
    changed, parts = object.__new__(type(index)), vars(index)
    changed.__dict__.update(parts, threads=threads)
    for name, inner in parts.items():
        if hasattr(inner, "threads") and isinstance(inner, Index):
            setattr(changed, name, with_threads(inner, threads))
    return changed
