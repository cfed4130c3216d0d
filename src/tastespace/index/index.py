"""What every index can do: find the items with the largest inner product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.errors import InvalidParameterError, NonFiniteStateError


@dataclass(frozen=True, eq=False)
class Excluded:
    """Items that must not be found: a list for each query, ascending, between its offsets."""

    offsets: OffsetArray  # n_queries + 1
    items: IntArray


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The items of each query, best first; -1 and -inf where there are fewer than asked for."""

    items: IntArray  # n_queries x k
    scores: FloatMatrix  # n_queries x k


class Index(Protocol):
    """Larger is better, best first, always two-dimensional, padded with -1.

    The fields of a structure are its parameters; learned names end in an underscore. What is built can be saved: arrays
    hold all that was learned but the vectors themselves, which belong to the model.
    """

    threads: int | None
    n_items_: int
    n_dimensions_: int

    def build(self, vectors: FloatMatrix) -> Self: ...

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Neighbours: ...

    @property
    def description(self) -> str:
        """What it is, with its parameters, in a few words for people."""
        ...

    @property
    def n_bytes(self) -> int:
        """Of memory, without the vectors that it was built over."""
        ...

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """All that must be saved."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        """Take what was saved as one's own, for the same vectors; what does not fit is a ValueError."""
        ...


def checked_vectors(vectors: Any) -> FloatMatrix:
    """Items as every structure takes them; errors where they are none."""
    checked = contiguous(vectors, np.float32)
    if checked.ndim != 2 or not checked.shape[1]:
        raise InvalidParameterError(f"item vectors have the shape {checked.shape}; expected (n, at least 1)")
    if not np.isfinite(checked).all():
        raise NonFiniteStateError("an item has infinite or missing coordinates; expected finite numbers")
    return checked


def unbuilt(index: Any) -> Any:
    """A structure of the same parameters with nothing learned; those inside it as well."""
    parameters = {parameter.name: getattr(index, parameter.name) for parameter in fields(index)}
    return type(index)(**{name: unbuilt(value) if is_dataclass(value) else value for name, value in parameters.items()})


def n_bytes_of(arrays: Mapping[str, NDArray[Any]]) -> int:
    return sum(array.nbytes for array in arrays.values())


def check_number(name: str, value: Any, *, least: int = 1) -> None:
    """A parameter of a structure is a whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}")


def require(fits: bool, what: str) -> None:
    """What was saved fits the vectors, and itself."""
    if not fits:
        raise ValueError(f"the index does not fit: {what}")


def set_threads(index: Any, threads: int | None) -> None:
    """Of an index and of all structures inside it."""
    index.threads = threads
    if is_dataclass(index):
        for field in fields(index):
            inner = getattr(index, field.name)
            if hasattr(inner, "search") and hasattr(inner, "threads"):
                set_threads(inner, threads)


QUERY = 1 << 32  # Keys of pairs of a query and an item: there can be no more items than that.


def check_filters(excluded: Excluded | None, allowed: BoolArray | None, n_queries: int, n_items: int) -> None:
    """For what Python does with them; the kernels look for themselves."""
    if allowed is not None and (allowed.shape != (n_items,) or allowed.dtype != np.bool_):
        raise InvalidParameterError(
            f"allowed has the shape {allowed.shape} and holds {allowed.dtype}; expected true or false for each of "
            f"{n_items} items"
        )
    if excluded is not None and len(excluded.offsets) != n_queries + 1:
        raise InvalidParameterError(
            f"{len(excluded.offsets) - 1} lists of what is excluded for {n_queries} queries; expected one a query"
        )


def of_queries(excluded: Excluded | None, queries: NDArray[np.int64]) -> Excluded | None:
    """The lists of some of the queries only."""
    if excluded is None or len(queries) == len(excluded.offsets) - 1:
        return excluded
    lists = [excluded.items[excluded.offsets[query] : excluded.offsets[query + 1]] for query in queries]
    return Excluded(np.cumsum([0, *map(len, lists)]), np.concatenate([*lists, np.zeros(0, np.int32)]))


def is_excluded(items: NDArray[np.int64], excluded: Excluded) -> BoolArray:
    """Which of these items, a row of them a query, are in the list of their query."""
    offsets: OffsetArray = contiguous(excluded.offsets, np.int64)
    numbers = QUERY * np.arange(len(items))
    keys = np.repeat(numbers, np.diff(offsets)) + excluded.items[offsets[0] : offsets[-1]]
    if len(keys) == 0:
        return np.zeros(items.shape, bool)
    pairs = numbers[:, None] + items
    found: BoolArray = keys[np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)] == pairs
    return found


def kept(excluded: Excluded, which: BoolArray, items: NDArray[np.int32]) -> Excluded:
    """Those of the lists that are to be kept, under other names: one for each of them."""
    before = np.concatenate([[0], np.cumsum(which)])
    return Excluded(before[excluded.offsets], items)


# With a filter that leaves the share f of the items, a structure has to look at 1 / f times as many to find as much.
# One that looks at 2 % otherwise looks at 2 % / f; each item of a scattered few takes some ten times as long as one
# beside others. So the few cost less below f = 0.04 or so (benchmarks/retrieval.py, filters).
FEW = 0.03


def few_allowed(allowed: BoolArray | None) -> IntArray | None:
    """The rows that may be found, where they are so few that a search makes no sense; else None."""
    if allowed is None:
        return None
    rows = np.empty(int(FEW * len(allowed)), np.int32)
    # Numpy takes ten times as long over a hundred thousand flags.
    n = _native.set_rows(contiguous(allowed, np.bool_).view(np.uint8), rows)
    return None if n < 0 else rows[:n]


def best_of(
    rows: IntArray, vectors: FloatMatrix, queries: FloatMatrix, k: int, excluded: Excluded | None, threads: int
) -> Neighbours:
    """The best of these rows, for every query; vectors and queries in single precision, C-ordered."""
    found = Neighbours(np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32))
    if excluded is None:
        _native.rank_candidates(vectors, queries, rows, found.items, found.scores, threads=threads)
    else:
        _native.rank_candidates(
            vectors,
            queries,
            rows,
            found.items,
            found.scores,
            excluded_offsets=excluded.offsets,
            excluded=excluded.items,
            threads=threads,
        )
    return found


def ranked(candidates: Neighbours, vectors: FloatMatrix, queries: FloatMatrix, k: int, threads: int) -> Neighbours:
    """The best of each query's own candidates, in the order of their whole vectors."""
    n_queries, n_candidates = candidates.items.shape
    found = Neighbours(np.empty((n_queries, k), np.int32), np.empty((n_queries, k), np.float32))
    if n_queries == 1:  # All that there are: no need to say where they begin.
        _native.rank_candidates(
            vectors, queries, candidates.items.reshape(-1), found.items, found.scores, threads=threads
        )
        return found
    offsets = np.arange(0, (n_queries + 1) * n_candidates, n_candidates)
    _native.rank_candidates(
        vectors,
        queries,
        candidates.items.reshape(-1),
        found.items,
        found.scores,
        candidate_offsets=offsets,
        threads=threads,
    )
    return found


def panels_of(vectors: FloatMatrix) -> FloatArray:
    """So that one register holds several items; the last panel is padded with zeros."""
    n_items, n_dimensions = vectors.shape
    n_panels = -(-n_items // _native.SCAN_PANEL)
    padded = np.zeros((n_panels * _native.SCAN_PANEL, n_dimensions), np.float32)
    padded[:n_items] = vectors
    panels = padded.reshape(n_panels, _native.SCAN_PANEL, n_dimensions).transpose(0, 2, 1)
    return np.ascontiguousarray(panels).reshape(-1)
