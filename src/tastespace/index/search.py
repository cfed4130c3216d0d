"""Types of searches: queries, results, filters, and arrays as kernels take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.errors import InvalidParameterError, NonFiniteStateError

Arrays = Mapping[str, NDArray[Any]]  # the saved arrays of a structure, by name
QUERY = 1 << 32  # Keys of (query, item) pairs: the maximum number of items.


@dataclass(frozen=True, eq=False)
class Excluded:
    """Items that must not be found: a list for each query, ascending, between its offsets."""

    offsets: OffsetArray  # n_queries + 1
    items: IntArray

    def of_queries(self, queries: NDArray[np.int64]) -> Excluded:
        """The lists of a subset of the queries."""
        if len(queries) == len(self.offsets) - 1:
            return self
        lists = [self.items[self.offsets[query] : self.offsets[query + 1]] for query in queries]
        return Excluded(np.cumsum([0, *map(len, lists)]), np.concatenate([*lists, np.zeros(0, np.int32)]))

    def contains(self, items: NDArray[np.int64]) -> BoolArray:
        """Which of these items (one row per query) are in the list of their query."""
        offsets: OffsetArray = contiguous(self.offsets, np.int64)
        numbers = QUERY * np.arange(len(items))
        keys = np.repeat(numbers, np.diff(offsets)) + self.items[offsets[0] : offsets[-1]]
        if len(keys) == 0:
            return np.zeros(items.shape, bool)
        pairs = numbers[:, None] + items
        found: BoolArray = keys[np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)] == pairs
        return found

    def renamed(self, which: BoolArray, items: NDArray[np.int32]) -> Excluded:
        """A subset of the listed items, renamed."""
        before = np.concatenate([[0], np.cumsum(which)])
        return Excluded(before[self.offsets], items)

    def for_kernels(self) -> dict[str, NDArray[Any]]:
        return {"excluded_offsets": contiguous(self.offsets, np.int64), "excluded": contiguous(self.items, np.int32)}


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The items of each query, best first; -1 and -inf where there are fewer than k."""

    items: IntArray  # n_queries x k
    scores: FloatMatrix  # n_queries x k

    @classmethod
    def empty(cls, n_queries: int, k: int) -> Neighbours:
        """Uninitialized arrays for the results of a kernel."""
        return cls(np.empty((n_queries, k), np.int32), np.empty((n_queries, k), np.float32))

    @classmethod
    def none(cls, n_queries: int, k: int) -> Neighbours:
        return cls(np.full((n_queries, k), -1, np.int32), np.full((n_queries, k), -np.inf, np.float32))


class Search(NamedTuple):
    """A validated search request: queries in single precision, C-ordered."""

    queries: FloatMatrix
    k: int
    excluded: Excluded | None
    allowed: BoolArray | None
    threads: int

    def among_few(self, vectors: FloatMatrix) -> Neighbours | None:
        """The result if so few items are allowed that each can be scored; else None."""
        rows = few_allowed(self.allowed)
        if rows is None:
            return None
        lists = {} if self.excluded is None else self.excluded.for_kernels()
        return best_of(rows, vectors, self.queries, self.k, self.threads, **lists)

    def run(
        self, kernel: Callable[..., None], arrays: tuple[Any, ...], n_items: int, effort: tuple[int, ...] = ()
    ) -> Neighbours:
        """Run a kernel on the arrays of a structure, with this effort."""
        queries, k, excluded, allowed, threads = self
        found = Neighbours.empty(len(queries), k)
        optional: dict[str, Any] = {} if excluded is None else excluded.for_kernels()
        if allowed is not None:
            optional["allowed"] = contiguous(allowed, np.bool_).view(np.uint8)
        kernel(*arrays, queries, n_items, *effort, found.items, found.scores, threads=threads, **optional)
        return found


class Content(NamedTuple):
    """What a structure has learned, and from what; a new build replaces it."""

    n_items: int
    vectors: FloatMatrix | None  # None where a structure can do without them
    built: Any  # None where there are no items


def checked_vectors(vectors: Any) -> FloatMatrix:
    """Validated item vectors, as every structure takes them."""
    checked = contiguous(vectors, np.float32)
    if checked.ndim != 2 or not checked.shape[1]:
        raise InvalidParameterError(f"item vectors have the shape {checked.shape}; expected (n, at least 1)")
    if not np.isfinite(checked).all():
        raise NonFiniteStateError("an item has infinite or missing coordinates; expected finite numbers")
    return checked


def check_number(name: str, value: Any, *, least: int = 1) -> None:
    """Raise an error unless a parameter is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}")


def require(fits: bool, what: str) -> None:
    """Raise an error if saved arrays do not fit the vectors or one another."""
    if not fits:
        raise ValueError(f"the index does not fit: {what}")


def check_shape(name: str, vectors: FloatMatrix, n_dimensions: int) -> None:
    """Raise an error for vectors with other dimensions than the items."""
    if vectors.ndim != 2 or vectors.shape[1] != n_dimensions:
        raise InvalidParameterError(
            f"{name} have the shape {vectors.shape}; expected (n, {n_dimensions}) like the items"
        )


def checked_queries(queries: FloatMatrix, n_dimensions: int) -> FloatMatrix:
    """Validated queries, as kernels take them."""
    # Every microsecond counts here: a search of one query may take ten.
    queries = contiguous(queries, np.float32)
    check_shape("queries", queries, n_dimensions)
    # For a single query that is not very long, one product checks it in a tenth of the time.
    flat = queries.reshape(-1)
    if not isfinite(flat.dot(flat)) and not np.isfinite(queries).all():
        raise NonFiniteStateError("a query has infinite or missing coordinates; expected finite numbers")
    return queries


def check_filters(excluded: Excluded | None, allowed: BoolArray | None, n_queries: int, n_items: int) -> None:
    """Raise an error for filters that do not fit these queries and items."""
    if allowed is not None and (allowed.shape != (n_items,) or allowed.dtype != np.bool_):
        raise InvalidParameterError(
            f"allowed has the shape {allowed.shape} and holds {allowed.dtype}; expected true or false for each of "
            f"{n_items} items"
        )
    if excluded is not None and len(excluded.offsets) != n_queries + 1:
        raise InvalidParameterError(
            f"{len(excluded.offsets) - 1} lists of what is excluded for {n_queries} queries; expected one per query"
        )


# With a filter that leaves the share f of the items, a structure has to score 1 / f times as many to find as much.
# One that otherwise scores 2 % scores 2 % / f; each of a few scattered items takes about ten times as long as one
# beside others. So scoring the few is cheaper below f = 0.04 or so (benchmarks/retrieval.py, filters).
FEW = 0.03


def few_allowed(allowed: BoolArray | None) -> IntArray | None:
    """The rows that may be found, if they are too few for a search to make sense; else None."""
    if allowed is None:
        return None
    rows = np.empty(int(FEW * len(allowed)), np.int32)
    # NumPy takes ten times as long for a hundred thousand flags.
    n = _native.set_rows(contiguous(allowed, np.bool_).view(np.uint8), rows)
    return None if n < 0 else rows[:n]


def best_of(
    rows: IntArray, vectors: FloatMatrix, queries: FloatMatrix, k: int, threads: int, **lists: NDArray[Any]
) -> Neighbours:
    """The best of these rows for every query; vectors and queries in single precision, C-ordered.

    `lists` are further arguments of the kernel: what is excluded for each query, or where its own rows begin.
    """
    found = Neighbours.empty(len(queries), k)
    _native.rank_candidates(vectors, queries, rows, found.items, found.scores, threads=threads, **lists)
    return found


def panels_of(vectors: FloatMatrix) -> FloatArray:
    """Items as the scan takes them, several to a register; the last panel is padded with zeros."""
    n_items, n_dimensions = vectors.shape
    n_panels = -(-n_items // _native.SCAN_PANEL)
    padded = np.zeros((n_panels * _native.SCAN_PANEL, n_dimensions), np.float32)
    padded[:n_items] = vectors
    panels = padded.reshape(n_panels, _native.SCAN_PANEL, n_dimensions).transpose(0, 2, 1)
    return np.ascontiguousarray(panels).reshape(-1)


def panels_at(vectors: FloatMatrix, members: IntArray) -> FloatArray:
    """Panels of the item at each position; zeros where there is none (-1)."""
    placed = vectors[members]
    placed[members < 0] = 0
    return panels_of(placed)


@dataclass(frozen=True, eq=False)
class Scan:
    """Vectors in the layout of the scanning kernel. Immutable: requests share it."""

    panels: FloatArray
    n_items: int
    threads: int = 1

    @classmethod
    def of(cls, vectors: FloatMatrix) -> Scan:
        return cls(panels_of(checked_vectors(vectors)), len(vectors))

    def search(
        self, queries: FloatMatrix, k: int, *, excluded: Excluded | None = None, allowed: BoolArray | None = None
    ) -> Neighbours:
        """The k best items of each query, as an index finds them, and exactly."""
        if not len(queries) or not self.n_items:
            return Neighbours.none(len(queries), k)
        if not np.isfinite(queries).all():
            raise NonFiniteStateError("a query has infinite or missing coordinates; expected finite numbers")
        search = Search(contiguous(queries, np.float32), k, excluded, allowed, self.threads)
        return search.run(_native.scan, (self.panels,), self.n_items)
