"""The index: finds the items with the largest inner product, and lets items come and go without a new build."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from math import isfinite
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tastespace import threads
from tastespace.arrays import BoolArray, FloatMatrix, IntArray, contiguous
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.index.search import (
    Content,
    Excluded,
    Neighbours,
    Search,
    best_of,
    check_filters,
    check_number,
    checked_vectors,
    few_allowed,
    require,
)
from tastespace.index.tail import Rows, State, Tail, saved_rows

__all__ = ["Excluded", "Index", "Neighbours", "few_allowed", "inner_arrays", "set_threads", "unbuilt", "with_threads"]

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

    # What a structure writes

    @abstractmethod
    def _check(self) -> None:
        """Refuse parameters that are none."""

    @abstractmethod
    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Any:
        """What is learned from at least one item, and perhaps from queries like those that will come."""

    @abstractmethod
    def _search(self, content: Content, search: Search) -> Neighbours:
        """The best items for at least one query."""

    @abstractmethod
    def _describe(self, content: Content) -> str:
        """What it is, with its parameters, in a few words for people."""

    @abstractmethod
    def _arrays(self, built: Any) -> Mapping[str, NDArray[Any]]:
        """All that must be saved of what was learned."""

    @abstractmethod
    def _restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Any:
        """What was learned, of what was saved; what does not fit is a ValueError."""

    def _n_bytes(self, content: Content) -> int:
        return sum(array.nbytes for array in content.built)

    # What all of them do

    def build(self, vectors: FloatMatrix, queries: FloatMatrix | None = None) -> Self:
        """Learn from these items; reductions also from queries, some of those that will come."""
        self._check_all()
        vectors = checked_vectors(vectors)
        self.state_ = State.as_built(self._content(vectors, queries), vectors.shape[1])
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
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: BoolArray | None = None,
    ) -> Neighbours:
        """The k best items of each query, but those excluded for it, and of those allowed for all."""
        state = self.state_  # Once: a change makes another.
        queries = self._checked_queries(queries, k)
        if excluded is not None or allowed is not None:
            check_filters(excluded, allowed, len(queries), state.n_rows)
        search = Search(queries, k, excluded, allowed, threads.resolve(self.threads))
        if state.is_as_built:
            return self._find(state.content, search)
        return state.search(self._find, search)

    def _checked_queries(self, queries: FloatMatrix, k: int) -> FloatMatrix:
        # Every microsecond counts here: a search of one query may take ten.
        queries = contiguous(queries, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.n_dimensions_:
            raise InvalidParameterError(
                f"queries have the shape {queries.shape}; expected (n, {self.n_dimensions_}) as the items have"
            )
        if type(k) is not int or k < 1:
            check_number("k", k)
        # One product tells of a single query, unless it is very long, in a tenth of the time.
        flat = queries.reshape(-1)
        if not isfinite(flat.dot(flat)) and not np.isfinite(queries).all():
            raise NonFiniteStateError("a query has infinite or missing coordinates; expected finite numbers")
        return queries

    def _find(self, content: Content, search: Search) -> Neighbours:
        """The best of the items that the structure was built over."""
        if len(search.queries) == 0 or content.n_items == 0:
            return Neighbours.none(len(search.queries), search.k)
        if search.allowed is not None and self.scans_few and content.vectors is not None:
            rows = few_allowed(search.allowed)
            if rows is not None:
                return best_of(rows, content.vectors, search.queries, search.k, search.excluded, search.threads)
        return self._search(content, search)

    def add(self, vectors: FloatMatrix) -> IntArray:
        """Add items, which are found at once; returns their rows."""
        vectors = np.asarray(vectors, np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.n_dimensions_:
            raise InvalidParameterError(
                f"vectors have the shape {vectors.shape}; expected (n, {self.n_dimensions_}) as the items have"
            )
        before = self.state_
        self._change(replace(before, tail=before.tail.added(checked_vectors(vectors))))
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
            alive = state.alive()
            content = self._content(state.living_vectors(self._vectors(state.content)))
            state = State.as_built(content, self.n_dimensions_, Rows.of(alive))
        self.state_ = state  # the moment of the change

    def _vectors(self, content: Content) -> FloatMatrix:
        """Those that the structure was built over."""
        assert content.vectors is not None
        return content.vectors

    def over(self, vectors: FloatMatrix) -> Self:
        """The same structure, without a build, for all these vectors: those behind the ones built over are added.

        What was removed stays so. It is never built again.
        """
        vectors, state = checked_vectors(vectors), self.state_
        gone = np.flatnonzero(~state.tail.live[: state.tail.n_items])
        tail = Tail.empty(vectors.shape[1]).added(vectors[self.n_built_ :])
        other: Self = unbuilt(self)
        other.rebuild_at, other.n_dimensions_ = None, self.n_dimensions_
        other.state_ = replace(state, tail=tail.without(gone) if len(gone) else tail)
        return other

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """All that must be saved."""
        state = self.state_
        own = {} if state.content.built is None else self._arrays(state.content.built)
        return {INNER + name: array for name, array in own.items()} | state.arrays() if self.can_change else own

    @property
    def can_change(self) -> bool:
        """Whether items were added or removed, or a share is given from which on it builds itself again."""
        state = getattr(self, "state_", None)
        return self.rebuild_at is not None or not (state is None or state.is_as_built)

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        """Take what was saved, for the same vectors, those of removed items included; an error is a ValueError."""
        self._check_all()
        vectors = contiguous(vectors, np.float32)
        own, rows, removed = arrays, Rows(len(vectors)), np.zeros(0, np.int64)
        if "n_built" in arrays:
            rows, removed = saved_rows(arrays, len(vectors))
            own = inner_arrays(arrays)
        items = rows.chosen(vectors[: rows.n_rows])
        require(not own or len(items) > 0, "it has arrays where there are no items")
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


def inner_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str = INNER) -> dict[str, NDArray[Any]]:
    """Those of the structure inside, by its own names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def set_threads(index: Any, threads: int | None) -> None:
    """Set the threads of an index and of all structures inside it."""
    index.threads = threads
    for field in fields(index) if is_dataclass(index) else ():
        inner = getattr(index, field.name)
        if hasattr(inner, "search") and hasattr(inner, "threads"):
            set_threads(inner, threads)


def with_threads(index: Index, threads: int | None) -> Any:
    """The same index for so many threads, with the structures inside it; what was built is shared, and unchanged."""
    if index.threads == threads:
        return index
    changed = copy(index)
    changed.threads = threads
    for field in fields(index):
        inner = getattr(index, field.name)
        if isinstance(inner, Index):
            setattr(changed, field.name, with_threads(inner, threads))
    return changed
