"""The exact scan: every item is looked at, none of the scores is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, contiguous
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.index.index import Excluded, Neighbours


@dataclass(kw_only=True)
class Exact:
    """Fused scan with a heap a query: the reference for every other index, and the fastest for small catalogues."""

    threads: int | None = None

    def build(self, vectors: FloatMatrix) -> Self:
        vectors = contiguous(vectors, np.float32)
        self.n_items_, self.n_dimensions_ = vectors.shape
        # Panels of items, one coordinate after another, so that one register holds several items.
        n_panels = -(-self.n_items_ // _native.SCAN_PANEL)
        padded = np.zeros((n_panels * _native.SCAN_PANEL, self.n_dimensions_), np.float32)
        padded[: self.n_items_] = vectors
        panels = padded.reshape(n_panels, _native.SCAN_PANEL, self.n_dimensions_).transpose(0, 2, 1)
        self.panels_: FloatArray = np.ascontiguousarray(panels).reshape(-1)
        return self

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Neighbours:
        queries = contiguous(queries, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.n_dimensions_:
            raise InvalidParameterError(
                f"queries have the shape {queries.shape}; expected (n, {self.n_dimensions_}) as the items have"
            )
        if k < 1:
            raise InvalidParameterError(f"k is {k}; expected at least 1")
        if not np.isfinite(queries).all():
            raise NonFiniteStateError("a query has infinite or missing coordinates; expected finite numbers")
        shape = (len(queries), k)
        found = Neighbours(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
        if len(queries) == 0 or self.n_items_ == 0:
            return found
        optional: dict[str, Any] = {}
        if excluded is not None:
            optional["excluded_offsets"] = contiguous(excluded.offsets, np.int64)
            optional["excluded"] = contiguous(excluded.items, np.int32)
        if allowed is not None:
            optional["allowed"] = contiguous(allowed, np.uint8)
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
