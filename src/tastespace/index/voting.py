"""A list from every draw, and a vote: what stacking the draws is measured against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import FloatMatrix, IntArray, contiguous
from tastespace.errors import InvalidParameterError
from tastespace.index.index import Excluded, Index, Neighbours, best_of, check_number, checked_vectors, require, unbuilt
from tastespace.index.structures.exact import Exact, nothing, prepared_queries


@dataclass(kw_only=True)
class Vote:
    """Long vectors in parts of equal length, a structure over each; what most parts list is found.

    Of items with as many votes those with the larger inner product of the whole vectors come first; so are the
    chosen put in order. Every part lists `candidates` of them, at least as many as are asked for.
    """

    inner: Index = field(default_factory=Exact)
    n_parts: int = 2
    candidates: int = 10
    threads: int | None = None

    def build(self, vectors: FloatMatrix) -> Self:
        self._take(vectors)
        self.parts_ = [self._part().build(part) for part in self._split(self.vectors_)]
        return self

    def _take(self, vectors: FloatMatrix) -> None:
        check_number("n_parts", self.n_parts)
        check_number("candidates", self.candidates)
        self.vectors_ = checked_vectors(vectors)
        self.n_items_, self.n_dimensions_ = self.vectors_.shape
        if self.n_dimensions_ % self.n_parts:
            raise InvalidParameterError(
                f"vectors have {self.n_dimensions_} coordinates; expected so many that {self.n_parts} parts are of "
                "equal length"
            )

    def _part(self) -> Index:
        part: Index = unbuilt(self.inner)
        part.threads = self.threads
        return part

    def _split(self, vectors: FloatMatrix) -> list[FloatMatrix]:
        return [contiguous(part, np.float32) for part in np.split(vectors, self.n_parts, axis=1)]

    @property
    def description(self) -> str:
        return f"vote of {self.n_parts} lists of {self.candidates}, each by: {self.parts_[0].description}"

    @property
    def n_bytes(self) -> int:
        return sum(part.n_bytes for part in self.parts_)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            f"{number}.{name}": array
            for number, part in enumerate(self.parts_)
            for name, array in part.arrays().items()
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        require(not vectors.shape[1] % self.n_parts, "vectors of another length")
        self._take(vectors)
        self.parts_ = []
        for number, part in enumerate(self._split(self.vectors_)):
            prefix = f"{number}."
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            self.parts_.append(self._part().restore(own, part))
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
        if not self.n_items_:
            return nothing(found)
        for part in self.parts_:
            part.threads = self.threads
        each = min(max(self.candidates, k), self.n_items_)
        lists = [
            part.search(mine, each, excluded=excluded, allowed=allowed).items
            for part, mine in zip(self.parts_, self._split(queries), strict=True)
        ]
        listed, n_threads = np.hstack(lists), threads.resolve(self.threads)
        for row, query in enumerate(queries):
            chosen = self._elected(listed[row], query, k, n_threads)
            best = best_of(chosen, self.vectors_, query[None], k, None, n_threads)
            found.items[row], found.scores[row] = best.items[0], best.scores[0]
        return found

    def _elected(self, listed: IntArray, query: FloatMatrix, k: int, n_threads: int) -> IntArray:
        """The k items with most votes."""
        items, votes = np.unique(listed[listed >= 0], return_counts=True)
        order = best_of(items, self.vectors_, query[None], max(len(items), 1), None, n_threads).items[0]
        order = order[order >= 0]
        by_votes = np.argsort(-votes[np.searchsorted(items, order)], kind="stable")
        return np.asarray(order[by_votes[:k]])
