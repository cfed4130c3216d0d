"""A search in few coordinates, and a second look at the best of it in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import FloatMatrix, contiguous
from tastespace.errors import InvalidParameterError
from tastespace.index.exact import Exact, nothing, prepared_queries
from tastespace.index.filtering import best_of, few_allowed, ranked
from tastespace.index.index import (
    Excluded,
    Index,
    Neighbours,
    check_number,
    checked_vectors,
    n_bytes_of,
    require,
    unbuilt,
)
from tastespace.index.reduction import Reduction, Unbiased, Whitened
from tastespace.randomness import generator

INNER = "inner."  # before the names of the inner structure's arrays
REDUCTIONS = ("whitened", "unbiased")


@dataclass(kw_only=True)
class Reduced:
    """Any structure over fewer coordinates; `candidates` of what it finds are put in order by their whole vectors.

    `reduction` is "whitened", the `n_coordinates` that tell most to those who ask (for stacked draws of a posterior),
    or "unbiased", all but the coordinates in which all queries agree (see `tastespace.index.reduction`).
    """

    inner: Index = field(default_factory=Exact)
    reduction: str = "whitened"
    n_coordinates: int = 20
    candidates: int = 50
    seed: int = 0
    threads: int | None = None

    def build(self, vectors: FloatMatrix, queries: FloatMatrix | None = None) -> Self:
        """`queries` are some of those that will come; without them any directions are taken to be as likely."""
        self._check()
        vectors = checked_vectors(vectors)
        reduction = self._reduction(vectors, None if queries is None else contiguous(queries, np.float32))
        self._take(vectors, reduction, reduction.items(vectors))
        # A structure of its own: the one that was given may be somebody's.
        self.inner = unbuilt(self.inner)
        self.inner.threads = self.threads
        self.inner.build(self.codes_)
        return self

    def _check(self) -> None:
        check_number("n_coordinates", self.n_coordinates)
        check_number("candidates", self.candidates)
        if self.reduction not in REDUCTIONS:
            raise InvalidParameterError(f"reduction is {self.reduction!r}; expected one of {', '.join(REDUCTIONS)}")

    def _reduction(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Reduction:
        if self.reduction == "whitened":
            return Whitened.of(vectors, queries, self.n_coordinates, generator(self.seed))
        if queries is None or not len(queries):
            raise InvalidParameterError("the reduction is unbiased, and there are no queries; expected some of them")
        return Unbiased.of(queries)

    def _take(self, vectors: FloatMatrix, reduction: Reduction, codes: FloatMatrix) -> None:
        self.n_items_, self.n_dimensions_ = vectors.shape
        self.vectors_, self.reduction_, self.codes_ = vectors, reduction, codes

    @property
    def description(self) -> str:
        return (
            f"{self.inner.description}, in {self.reduction_.n_coordinates} of {self.n_dimensions_} coordinates; the "
            f"best {self.candidates} in order of all"
        )

    @property
    def n_bytes(self) -> int:
        return n_bytes_of(self.reduction_.arrays()) + self.codes_.nbytes + self.inner.n_bytes

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        own = {**self.reduction_.arrays(), "codes": self.codes_}
        return own | {INNER + name: array for name, array in self.inner.arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        self._check()
        vectors, codes = contiguous(vectors, np.float32), contiguous(arrays["codes"], np.float32)
        reduction: Reduction
        if self.reduction == "whitened":
            names = ("of_items", "of_queries", "mean")
            reduction = Whitened(*(contiguous(arrays[name], np.float32) for name in names))
            require(len(reduction.of_queries) == vectors.shape[1], "vectors of another length")
        else:
            reduction = Unbiased(contiguous(arrays["kept"], np.int64))
        require(codes.shape == (len(vectors), reduction.n_coordinates), f"codes of the shape {codes.shape}")
        self._take(vectors, reduction, codes)
        inner = {name.removeprefix(INNER): array for name, array in arrays.items() if name.startswith(INNER)}
        self.inner.restore(inner, codes)
        return self

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Neighbours:
        queries, found, _ = prepared_queries(self, queries, k, excluded, allowed)
        if not len(queries) or not self.n_items_:
            return nothing(found)
        n_threads = threads.resolve(self.threads)
        rows = few_allowed(allowed)
        if rows is not None:
            return best_of(rows, self.vectors_, queries, k, excluded, n_threads)
        self.inner.threads = self.threads
        n_candidates = min(max(self.candidates, k), self.n_items_)
        codes = self.reduction_.queries(queries, n_threads)
        candidates = self.inner.search(codes, n_candidates, excluded=excluded, allowed=allowed)
        return ranked(candidates, self.vectors_, queries, k, n_threads)
