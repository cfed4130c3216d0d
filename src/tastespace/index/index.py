"""The index: finds the items with the largest inner product, and lets items come and go without a new build."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
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

INNER = "inner."  # what names of arrays begin with that belong to a structure inside another


@dataclass(kw_only=True)
class Index(ABC):
    """Finds items by inner product: larger is better, best first, always two-dimensional, padded with -1.

    The fields of a structure are its parameters; learned names end in an underscore. What is built can be saved: arrays
    hold all that was learned but the vectors themselves, which belong to the model. A structure writes the methods
    below "What a structure writes".

    Items can be added and removed after the build. What is added is scanned, exactly, until added and removed items
    together are more than the share `rebuild_at` of those built: then all that is left is built again, before `add` or
    `remove` returns. None: never. A row belongs to the same item for ever; a removed one is a gap, and filters speak of
    all rows that ever were. Any number of threads may search while one adds or removes: each search sees all of a
    change, or nothing of it. Two threads must not add or remove at the same time.
    """

    rebuild_at: float | None = None
    threads: int | None = None

    scans_few: ClassVar[bool] = True  # whether few allowed items are looked at one by one, beside the structure
    keeps_vectors: ClassVar[bool] = True
    least: ClassVar[Mapping[str, int]] = {}  # of each parameter that is a whole number

    # What a structure writes

    def _check(self) -> None:
        """Refuse parameters that are none."""
        for name, least in self.least.items():
            searches.check_number(name, getattr(self, name), least=least)

    @abstractmethod
    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Any:
        """What is learned from at least one item, and perhaps from queries like those that will come."""

    @abstractmethod
    def _search(self, content: Content, search: Search) -> Neighbours:
        """The best items for at least one query."""

    @abstractmethod
    def _describe(self, content: Content) -> str:
        """What it is, with its parameters, in a few words for people."""

    def _arrays(self, built: Any) -> Arrays:
        """All that must be saved of what was learned."""
        return dict(built._asdict())

    @abstractmethod
    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> Any:
        """What was learned, of what was saved; what does not fit is a ValueError."""

    def _n_bytes(self, content: Content) -> int:
        return sum(array.nbytes for array in content.built)

    # What all of them do

    def build(self, vectors: FloatMatrix, queries: FloatMatrix | None = None) -> Self:
        """Learn from these items; reductions also from queries, some of those that will come."""
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
        """All rows that ever were."""
        return self.state_.n_rows

    @property
    def n_built_(self) -> int:
        """Rows that the structure was built over."""
        return self.state_.rows.n_rows

    @property
    def n_added_(self) -> int:
        return self.state_.tail.n_items

    @property
    def n_removed_(self) -> int:
        """Since the last build."""
        return self.state_.n_removed

    @property
    def built_(self) -> Any:
        return self.state_.content.built

    @property
    def description(self) -> str:
        """What it is, with its parameters, in a few words for people."""
        own = self._describe(self.state_.content)
        if self.state_.is_as_built:
            return own
        return f"{own}; {self.n_added_} added since, {self.n_removed_} removed"

    @property
    def n_bytes(self) -> int:
        """Bytes of memory, without the vectors that it was built over."""
        content = self.state_.content
        return self.state_.n_bytes + (0 if content.built is None else self._n_bytes(content))

    def search(
        self, queries: FloatMatrix, k: int, *, excluded: Excluded | None = None, allowed: BoolArray | None = None
    ) -> Neighbours:
        """The k best items of each query, but those excluded for it, and of those allowed for all."""
        state = self.state_  # Once: a change makes another.
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
        """Go on with another state, built again where too much has changed."""
        limit = None if self.rebuild_at is None else self.rebuild_at * state.content.n_items
        if limit is not None and state.tail.n_items + state.n_removed > limit:
            content = self._content(state.living_vectors(self._vectors(state.content)))
            state = State(content, Rows.of(state.alive()), Tail.empty(self.n_dimensions_))
        self.state_ = state  # the moment of the change

    def _vectors(self, content: Content) -> FloatMatrix:
        """Those that the structure was built over."""
        assert content.vectors is not None
        return content.vectors

    def over(self, vectors: FloatMatrix) -> Self:
        """The same structure, without a build, for all these vectors: those behind the ones built over are added.

        What was removed stays so. It is never built again.
        """
        vectors = searches.checked_vectors(vectors)
        other: Self = unbuilt(self)
        other.rebuild_at, other.n_dimensions_ = None, self.n_dimensions_
        other.state_ = self.state_.with_tail(Tail.empty(vectors.shape[1]).added(vectors[self.n_built_ :]))
        return other

    def arrays(self) -> Arrays:
        """All that must be saved."""
        state = self.state_
        own = {} if state.content.built is None else self._arrays(state.content.built)
        return {INNER + name: array for name, array in own.items()} | state.arrays() if self.can_change else own

    @property
    def can_change(self) -> bool:
        """Whether items were added or removed, or a share is given from which on it builds itself again."""
        state = getattr(self, "state_", None)
        return self.rebuild_at is not None or not (state is None or state.is_as_built)

    def restore(self, arrays: Arrays, vectors: FloatMatrix) -> Self:
        """Take what was saved, for the same vectors, those of removed items included; an error is a ValueError."""
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
    """A structure of the same parameters with nothing learned; those inside it as well."""
    parameters = {parameter.name: getattr(index, parameter.name) for parameter in fields(index)}
    return type(index)(**{name: unbuilt(value) if is_dataclass(value) else value for name, value in parameters.items()})


def inner_arrays(arrays: Arrays, prefix: str = INNER) -> Arrays:
    """Those of the structure inside, by its own names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def with_threads(index: Index, threads: int | None) -> Any:
    """The same index for so many threads, with the structures inside it; what was built is shared, and unchanged."""
    if index.threads == threads:
        return index
    changed = copy(index)
    changed.threads = threads
    for name, inner in vars(index).items():
        if isinstance(inner, Index):
            setattr(changed, name, with_threads(inner, threads))
    return changed
