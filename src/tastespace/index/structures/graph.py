"""Items joined to their neighbours; a search walks from item to item towards better ones. Needs faiss."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, contiguous
from tastespace.errors import MissingExtraError
from tastespace.index.index import Index
from tastespace.index.search import Arrays, Content, Neighbours, Search, panels_of, require
from tastespace.randomness import generator

# Scoring an item on a walk takes as long as scoring this many in a scan, which reads them in order.
SCANNED = 400
# The library's threads do not survive a fork, and a child that used them would wait forever: it gets one.
PROCESS = os.getpid()
DEEPER = 4  # factor by which the search widens when too few of the items found are wanted


class Links(NamedTuple):
    """The content of a graph: that of faiss, and the items as the scan takes them."""

    graph: Any
    panels: FloatArray


@dataclass(kw_only=True)
class Graph(Index):
    """A hierarchical graph (HNSW) by inner product: `effort` candidates are kept while walking.

    More effort finds more of the best items, and takes longer. More neighbours per item, and more effort while
    building, make a better graph that is larger and takes longer to build: in a poor one some items cannot be reached,
    whatever the effort. If few items are allowed, or most of those found are excluded, the rest is scanned.
    """

    neighbours: int = 16
    build_effort: int = 200
    effort: int = 64
    seed: int = 0

    least: ClassVar = {"neighbours": 2, "build_effort": 1, "effort": 1}

    def _check(self) -> None:
        super()._check()
        _library()  # A missing library is reported at once, even if there is nothing to build.

    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Links:
        faiss = _library()
        graph = faiss.IndexHNSWFlat(vectors.shape[1], int(self.neighbours), faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = int(self.build_effort)
        graph.hnsw.rng = faiss.RandomGenerator(int(generator(self.seed).integers(2**31)))
        with _threads(threads.resolve(self.threads)):
            graph.add(vectors)
        return Links(graph, panels_of(vectors))

    def _describe(self, content: Content) -> str:
        return f"graph of {self.neighbours} neighbours per item, {self.effort} candidates kept while walking"

    def _n_bytes(self, content: Content) -> int:
        links = content.built.graph.hnsw
        n_bytes = int(4 * (links.neighbors.size() + links.levels.size()) + 8 * links.offsets.size())
        # The library keeps the vectors once more, and so does the scan.
        return n_bytes + self._vectors(content).nbytes + int(content.built.panels.nbytes)

    def _arrays(self, built: Links) -> Arrays:
        """The links in the format of faiss, without the vectors."""
        faiss = _library()
        return {"graph": faiss.serialize_index(built.graph, faiss.IO_FLAG_SKIP_STORAGE)}

    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> Links:
        return Links(_read(contiguous(arrays["graph"], np.uint8), vectors), panels_of(vectors))

    def _search(self, content: Content, search: Search) -> Neighbours:
        k, excluded, allowed = search.k, search.excluded, search.allowed
        if excluded is None and allowed is None and k <= content.n_items:
            scores, items = self._walk(content, search.queries, k, k)
            if items.min() >= 0:  # All of them were found, as in nearly all cases.
                return Neighbours(items.astype(np.int32), scores)
        found = Neighbours.empty(len(search.queries), k)
        pending = np.arange(len(search.queries))  # queries that are not answered yet
        for depth in self._depths(content.n_items, k, allowed):
            pending = self._answer(content, search, pending, depth, found)
            if len(pending) == 0:
                return found
        rest = search._replace(queries=search.queries[pending], excluded=excluded and excluded.of_queries(pending))
        scanned = rest.run(_native.scan, (content.built.panels,), content.n_items)
        found.items[pending], found.scores[pending] = scanned.items, scanned.scores
        return found

    def _answer(
        self, content: Content, search: Search, pending: NDArray[np.int64], depth: int, found: Neighbours
    ) -> NDArray[np.int64]:
        """Answer the queries for which enough of `depth` items are wanted, and return the others."""
        k = search.k
        scores, items = self._walk(content, search.queries[pending], depth, self._effort(depth, k))
        wanted: BoolArray = items >= 0
        if search.allowed is not None:
            wanted &= search.allowed[items]
        if search.excluded is not None:
            wanted &= ~search.excluded.of_queries(pending).contains(items)
        enough = np.count_nonzero(wanted, axis=1) >= k
        # The wanted ones come first, in their order.
        first = np.argsort(~wanted[enough], axis=1, kind="stable")[:, :k]
        answered = pending[enough]
        found.items[answered] = np.take_along_axis(items[enough], first, axis=1)
        found.scores[answered] = np.take_along_axis(scores[enough], first, axis=1)
        short: NDArray[np.int64] = pending[~enough]
        return short

    def _depths(self, n_items: int, k: int, allowed: BoolArray | None) -> Iterator[int]:
        """How many items to find at first, and how many if too few of them are wanted, unless a scan is faster."""
        n_allowed = n_items if allowed is None else int(np.count_nonzero(allowed))
        # Twice what would be enough if the wanted ones were spread evenly. Walks to far more than that miss too many:
        # the lower the score, the fewer links lead to an item.
        first = 2 * k * n_items // max(1, n_allowed)
        for depth in (first, DEEPER * first):
            if depth <= n_items and self._effort(depth, k) <= n_items // SCANNED:
                yield depth

    def _effort(self, depth: int, k: int) -> int:
        """Candidates of a walk: as many per item found as without filters, since the end of its list misses many."""
        return depth * max(int(self.effort), k) // k

    def _walk(
        self, content: Content, queries: FloatMatrix, n_found: int, effort: int
    ) -> tuple[FloatMatrix, NDArray[np.int64]]:
        # Asking for more items than the effort would return more of the same walk, not a longer one.
        parameters = _parameters(max(effort, int(self.effort)))
        # One query takes one thread anyway.
        with nullcontext() if len(queries) == 1 else _threads(threads.resolve(self.threads)):
            found: tuple[FloatMatrix, NDArray[np.int64]] = content.built.graph.search(
                queries, n_found, params=parameters
            )
        return found


def _read(saved: NDArray[np.uint8], vectors: FloatMatrix) -> Any:
    """The graph of these bytes over these vectors. A walk trusts the links, so all are checked here."""
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
    """Set the number of threads of faiss for calls from this thread inside the context."""
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
    """Search parameters, cached because making them takes longer than everything else in Python."""
    return _library().SearchParametersHNSW(efSearch=effort)


@cache
def _library() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("An index that is a graph", "graph") from error
    return faiss
