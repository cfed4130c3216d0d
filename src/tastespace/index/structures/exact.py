"""The exact scan: every item is looked at, none of the scores is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, contiguous
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.index.index import Excluded, Index, Neighbours, check_filters, check_number, checked_vectors, panels_of


@dataclass(kw_only=True)
class Exact:
    """Fused scan with a heap a query: the reference for every other index, and the fastest for small catalogues."""

    threads: int | None = None

    def build(self, vectors: FloatMatrix) -> Self:
        vectors = checked_vectors(vectors)
        self.n_items_, self.n_dimensions_ = vectors.shape
        self.panels_: FloatArray = panels_of(vectors)
        return self

    @property
    def description(self) -> str:
        return "scan of all items"

    @property
    def n_bytes(self) -> int:
        return self.panels_.nbytes

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """None: the panels are the vectors in another order, and soon made."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        return self.build(vectors)

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Neighbours:
        queries, found, optional = prepared_queries(self, queries, k, excluded, allowed)
        if len(queries) == 0 or self.n_items_ == 0:
            return nothing(found)
        _native.scan(
            self.panels_,
            queries,
            self.n_items_,
            found.items,
            found.scores,
            threads=threads.resolve(self.threads),
            **optional,
        )
        return found


def prepared_queries(
    index: Index, queries: FloatMatrix, k: int, excluded: Excluded | None, allowed: NDArray[np.bool_] | None
) -> tuple[FloatMatrix, Neighbours, dict[str, Any]]:
    """Queries as kernels take them, room for what will be found, and what must not be; errors where they are none.

    Every microsecond counts here: a search of one query may take ten.
    """
    queries = contiguous(queries, np.float32)
    if queries.ndim != 2 or queries.shape[1] != index.n_dimensions_:
        raise InvalidParameterError(
            f"queries have the shape {queries.shape}; expected (n, {index.n_dimensions_}) as the items have"
        )
    if type(k) is not int or k < 1:
        check_number("k", k)
    if not _are_finite(queries):
        raise NonFiniteStateError("a query has infinite or missing coordinates; expected finite numbers")
    if excluded is not None or allowed is not None:
        check_filters(excluded, allowed, len(queries), index.n_items_)
    found = Neighbours(np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32))
    optional: dict[str, Any] = {}
    if excluded is not None:
        optional["excluded_offsets"] = contiguous(excluded.offsets, np.int64)
        optional["excluded"] = contiguous(excluded.items, np.int32)
    if allowed is not None:
        optional["allowed"] = contiguous(allowed, np.bool_).view(np.uint8)
    return queries, found, optional


def nothing(found: Neighbours) -> Neighbours:
    """The same room, with nothing found."""
    found.items.fill(-1)
    found.scores.fill(-np.inf)
    return found


def _are_finite(queries: FloatMatrix) -> bool:
    """One product tells of a single query, unless it is very long, in a tenth of the time."""
    flat = queries.reshape(-1)
    return isfinite(flat.dot(flat)) or bool(np.isfinite(queries).all())
