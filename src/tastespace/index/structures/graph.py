"""Items joined to their neighbours; a search walks from item to item towards better ones. Needs faiss."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import BoolArray, FloatMatrix, contiguous
from tastespace.errors import MissingExtraError
from tastespace.index.index import (
    Excluded,
    Neighbours,
    best_of,
    check_number,
    checked_vectors,
    few_allowed,
    is_excluded,
    of_queries,
    require,
)
from tastespace.index.structures.exact import Exact, nothing, prepared_queries
from tastespace.randomness import generator

# To look at an item on a walk takes as long as to look at so many in a scan, which reads them in their order.
SCANNED = 400
# The library's threads do not survive a fork, and a child that asked for them would wait for ever: it gets one.
PROCESS = os.getpid()
DEEPER = 4  # times as many items, when too few of those found are wanted


@dataclass(kw_only=True)
class Graph:
    """A hierarchical graph (HNSW) by inner product: `effort` candidates are kept while walking.

    More effort finds more of the best items, and takes longer. More neighbours an item, and more effort while building,
    make a better graph that is larger, and longer in building: in a poor one no walk leads to some items, whatever its
    effort. Where little is allowed, or most of what a walk finds is
    not wanted, what is left is scanned.
    """

    neighbours: int = 16
    build_effort: int = 200
    effort: int = 64
    seed: int = 0
    threads: int | None = None

    def build(self, vectors: FloatMatrix) -> Self:
        vectors = self._begin(vectors)
        if self.n_items_ == 0:
            return self
        faiss = _library()
        graph = faiss.IndexHNSWFlat(self.n_dimensions_, int(self.neighbours), faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = int(self.build_effort)
        graph.hnsw.rng = faiss.RandomGenerator(int(generator(self.seed).integers(2**31)))
        with _threads(threads.resolve(self.threads)):
            graph.add(vectors)
        self.graph_ = graph
        return self

    def _begin(self, vectors: FloatMatrix) -> FloatMatrix:
        for name in ("build_effort", "effort"):
            check_number(name, getattr(self, name))
        check_number("neighbours", self.neighbours, least=2)
        _library()  # A missing one is told at once, even where there is nothing to build.
        self.vectors_: FloatMatrix = checked_vectors(vectors)
        self.n_items_, self.n_dimensions_ = self.vectors_.shape
        self.graph_ = None
        self.scan_ = Exact().build(self.vectors_)
        return self.vectors_

    @property
    def description(self) -> str:
        return f"graph of {self.neighbours} neighbours an item, {self.effort} candidates kept while walking"

    @property
    def n_bytes(self) -> int:
        if self.graph_ is None:
            return 0
        links = self.graph_.hnsw
        n_bytes = int(4 * (links.neighbors.size() + links.levels.size()) + 8 * links.offsets.size())
        # The library keeps the vectors once more, and so does the scan.
        return n_bytes + self.vectors_.nbytes + self.scan_.n_bytes

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The links in the format of faiss, without the vectors."""
        if self.graph_ is None:
            return {}
        faiss = _library()
        return {"graph": faiss.serialize_index(self.graph_, faiss.IO_FLAG_SKIP_STORAGE)}

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        vectors = self._begin(vectors)
        require(bool(arrays) == bool(self.n_items_), "it has a graph where there are no items, or none where there are")
        if arrays:
            self.graph_ = _read(contiguous(arrays["graph"], np.uint8), vectors)
        return self

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: BoolArray | None = None,
    ) -> Neighbours:
        queries, found, optional = prepared_queries(self, queries, k, excluded, allowed)
        if len(queries) == 0 or self.n_items_ == 0:
            return nothing(found)
        if excluded is None and allowed is None and k <= self.n_items_:
            scores, items = self._walk(queries, k, k)
            if items.min() >= 0:  # All of them were found, as nearly always.
                return Neighbours(items.astype(np.int32), scores)
        if excluded is not None:
            excluded = Excluded(optional["excluded_offsets"], optional["excluded"])
        few = few_allowed(allowed)
        if few is not None:
            return best_of(few, self.vectors_, queries, k, excluded, threads.resolve(self.threads))
        pending = np.arange(len(queries))  # queries that are not answered yet
        for depth in self._depths(k, allowed):
            pending = self._answer(queries, pending, depth, excluded, allowed, found)
            if len(pending) == 0:
                return found
        self.scan_.threads = self.threads
        rest = self.scan_.search(queries[pending], k, excluded=of_queries(excluded, pending), allowed=allowed)
        found.items[pending], found.scores[pending] = rest.items, rest.scores
        return found

    def _answer(
        self,
        queries: FloatMatrix,
        pending: NDArray[np.int64],
        depth: int,
        excluded: Excluded | None,
        allowed: BoolArray | None,
        found: Neighbours,
    ) -> NDArray[np.int64]:
        """Answer those queries for which enough of so many items are wanted; the others are given back."""
        k = found.items.shape[1]
        scores, items = self._walk(queries[pending], depth, self._effort(depth, k))
        wanted = _wanted(items, of_queries(excluded, pending), allowed)
        enough = np.count_nonzero(wanted, axis=1) >= k
        # The wanted ones come first, in their order.
        first = np.argsort(~wanted[enough], axis=1, kind="stable")[:, :k]
        answered = pending[enough]
        found.items[answered] = np.take_along_axis(items[enough], first, axis=1)
        found.scores[answered] = np.take_along_axis(scores[enough], first, axis=1)
        short: NDArray[np.int64] = pending[~enough]
        return short

    def _depths(self, k: int, allowed: BoolArray | None) -> Iterator[int]:
        """How many items to find at first, and how many if too few are wanted; where no scan is faster."""
        n_allowed = self.n_items_ if allowed is None else int(np.count_nonzero(allowed))
        # Twice what would do if the wanted ones lay anywhere. Walks to far more than that miss too many: the lower
        # the score, the fewer links lead to an item.
        first = 2 * k * self.n_items_ // max(1, n_allowed)
        for depth in (first, DEEPER * first):
            if depth <= self.n_items_ and self._effort(depth, k) <= self.n_items_ // SCANNED:
                yield depth

    def _effort(self, depth: int, k: int) -> int:
        """As many candidates for each item found as without filters: the end of a walk's list misses many."""
        return depth * max(int(self.effort), k) // k

    def _walk(self, queries: FloatMatrix, n_found: int, effort: int) -> tuple[FloatMatrix, NDArray[np.int64]]:
        # To ask for more items than there is effort would give more of the same walk, not a longer one.
        parameters = _parameters(max(effort, int(self.effort)))
        found: tuple[FloatMatrix, NDArray[np.int64]]
        if len(queries) == 1:  # takes one thread anyway
            found = self.graph_.search(queries, n_found, params=parameters)
        else:
            with _threads(threads.resolve(self.threads)):
                found = self.graph_.search(queries, n_found, params=parameters)
        return found


def _wanted(items: NDArray[np.int64], excluded: Excluded | None, allowed: BoolArray | None) -> BoolArray:
    """Which of the items found, a row a query, are items that may be found."""
    wanted: BoolArray = items >= 0
    if allowed is not None:
        wanted &= allowed[items]
    if excluded is not None:
        wanted &= ~is_excluded(items, excluded)
    return wanted


def _read(saved: NDArray[np.uint8], vectors: FloatMatrix) -> Any:
    """The graph of these bytes over these vectors. A walk trusts the links, so that all are looked at here."""
    faiss = _library()
    try:
        graph = faiss.deserialize_index(saved)
    except RuntimeError as error:
        raise ValueError("the index does not fit: its graph cannot be read") from error
    n_items, n_dimensions = vectors.shape
    require(isinstance(graph, faiss.IndexHNSWFlat), "its graph is one of another kind")
    require(graph.metric_type == faiss.METRIC_INNER_PRODUCT, "its graph is not one by inner products")
    require(graph.ntotal == n_items, f"{graph.ntotal} items in the graph, {n_items} of the model")
    require(graph.d == n_dimensions, f"{graph.d} dimensions in the graph, {n_dimensions} of the model")
    _check_links(graph.hnsw, faiss, n_items)
    storage = faiss.IndexFlat(n_dimensions, faiss.METRIC_INNER_PRODUCT)
    storage.add(vectors)
    graph.storage = storage
    graph.own_fields = True  # The graph frees it,
    storage.this.disown()  # and Python does not.
    return graph


def _check_links(links: Any, faiss: Any, n_items: int) -> None:
    levels, offsets = faiss.vector_to_array(links.levels), faiss.vector_to_array(links.offsets)
    room = faiss.vector_to_array(links.cum_nneighbor_per_level)
    items = faiss.vector_to_array(links.neighbors)
    require(len(levels) == n_items and len(offsets) == n_items + 1, "not every item has a place in the graph")
    require(bool((levels >= 1).all() and (levels < len(room)).all()), "items on levels that the graph does not have")
    fit = offsets[0] == 0 and offsets[-1] == len(items) and (np.diff(offsets) == room[levels]).all()
    require(bool(fit), "links of the graph that belong to no item")
    require(bool((items >= -1).all() and (items < n_items).all()), "links to items that the model does not have")
    start = links.entry_point
    require(0 <= start < n_items and levels[start] == links.max_level + 1, "the graph has no place to start from")


@contextmanager
def _threads(n_threads: int) -> Iterator[None]:
    """So many threads of faiss while it lasts, for calls from this thread of ours alone."""
    faiss = _library()
    if os.getpid() != PROCESS:
        n_threads = 1
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n_threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@lru_cache(maxsize=64)
def _parameters(effort: int) -> Any:
    """Made once, as that takes longer than all else that is done in Python."""
    return _library().SearchParametersHNSW(efSearch=effort)


@cache
def _library() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("An index that is a graph", "graph") from error
    return faiss
