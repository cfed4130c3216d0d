"""Search in fewer coordinates: inner products of long vectors are approximated by those of short ones.

Draws of a posterior, one after the other, make long vectors: mean_s u_s.v_s is one inner product in S D dimensions.
Draws are similar, so a few coordinates keep nearly all information. Which ones depends on the queries:
with queries q of second moments L L' and items v,

    q.v = (L^-1 q).(L' v)

the first factor has uncorrelated coordinates of the same size. So what is lost by leaving out coordinates of the second
is least, on average over the queries, if these are its principal components. The mean of the items is taken off before:
it adds the same to all scores of a query.

A bias is a coordinate in which all queries agree. It may be left out of the search and come back when the best are put
in order: then items differ by their direction alone, if their lengths do not differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, contiguous
from tastespace.errors import InvalidParameterError
from tastespace.index.index import INNER, Index, inner_arrays, unbuilt, with_threads
from tastespace.index.search import Arrays, Content, Neighbours, Search, best_of, require
from tastespace.index.structures.exact import Exact
from tastespace.randomness import generator
from tastespace.threads import one_blas_thread

SAMPLE = 50_000  # items in the sample that the components are computed from
BLOCK = 1 << 14  # items at a time
FOUND, MORE, PASSES = 56, 8, 3  # minimum number of components; oversampling; power iterations
TESTED = 128  # queries at a time
RIDGE = 1e-3  # of the mean square of the queries, added to their second moments for queries unlike the sample


@dataclass(frozen=True, eq=False)
class Whitened:
    """Principal components of the items, weighted by the queries."""

    of_items: FloatMatrix  # dimensions x coordinates
    of_queries: FloatMatrix  # dimensions x coordinates
    mean: FloatMatrix  # of the items; 1 x dimensions

    @classmethod
    def of(cls, vectors: FloatMatrix, queries: FloatMatrix | None, n_coordinates: int, rng: Generator) -> Whitened:
        """Learn the components; `queries` are a sample of those to come, None for uniform directions."""
        n_dimensions = vectors.shape[1]
        some = vectors
        # One thread, for the same numbers everywhere; more of them are slower for most of these products.
        with one_blas_thread():
            mean = vectors.sum(axis=0, dtype=np.float64) / max(len(vectors), 1)
            root = np.eye(n_dimensions) if queries is None or not len(queries) else _root(queries)
            if len(vectors) > SAMPLE:
                some = vectors[np.sort(rng.choice(len(vectors), SAMPLE, replace=False))]
            centred, n = some - mean.astype(np.float32), min(n_coordinates, n_dimensions)
            components = _components(centred, root.astype(np.float32), n, rng)
            back = scipy.linalg.solve_triangular(root, components, trans="T", lower=True)
            return cls(*(contiguous(array, np.float32) for array in (root @ components, back, mean[None])))

    @property
    def n_coordinates(self) -> int:
        return int(self.of_items.shape[1])

    def first(self, n: int) -> Whitened:
        """The first n coordinates, the most informative; up to FOUND the same that `of` would find for fewer."""
        of_items, of_queries = (contiguous(matrix[:, :n], np.float32) for matrix in (self.of_items, self.of_queries))
        return Whitened(of_items, of_queries, self.mean)

    def items(self, vectors: FloatMatrix) -> FloatMatrix:
        codes = np.empty((len(vectors), self.n_coordinates), np.float32)
        with one_blas_thread():
            for start in range(0, len(vectors), BLOCK):
                codes[start : start + BLOCK] = (vectors[start : start + BLOCK] - self.mean) @ self.of_items
        return codes

    def queries(self, queries: FloatMatrix, threads: int) -> FloatMatrix:
        codes = np.empty((len(queries), self.n_coordinates), np.float32)
        # Not by BLAS, which may sum in another order for a single query.
        _native.project(queries, self.of_queries, codes, threads=threads)
        return codes


@dataclass(frozen=True, eq=False)
class Shortened:
    """All items as short vectors, how to shorten queries, and what is lost."""

    items: FloatMatrix
    by: Whitened | None  # None: the vectors are as they were, because they are short already
    error: float  # root mean square of the difference of inner products, over the queries and all items

    @classmethod
    def of(cls, vectors: FloatMatrix, queries: FloatMatrix | None, n_dimensions: int) -> Shortened:
        """Vectors of at most so many dimensions, for queries like these."""
        if vectors.shape[1] <= n_dimensions or not len(vectors):
            return cls(contiguous(vectors, np.float32), None, 0.0)
        by = Whitened.of(vectors, queries, n_dimensions, generator(0))
        short = cls(by.items(vectors), by, 0.0)
        if queries is None:
            return short
        total = 0.0
        for start in range(0, len(queries), TESTED):
            some = contiguous(queries[start : start + TESTED], np.float32)
            codes, offsets = short.queries(some, threads=1)
            total += float(np.sum((some @ vectors.T - codes @ short.items.T - offsets[:, None]) ** 2, dtype=np.float64))
        return cls(short.items, by, float(np.sqrt(total / (len(queries) * len(vectors)))))

    def queries(self, queries: FloatMatrix, threads: int) -> tuple[FloatMatrix, FloatArray]:
        """Short vectors of queries, and what is to be added to their inner products with the items."""
        if self.by is None:
            return queries, np.zeros(len(queries), np.float32)
        return self.by.queries(queries, threads), np.asarray(queries @ self.by.mean[0], np.float32)


@dataclass(frozen=True, eq=False)
class Unbiased:
    """The coordinates in which not all queries agree."""

    kept: NDArray[np.int64]

    @classmethod
    def of(cls, queries: FloatMatrix) -> Unbiased:
        return cls(np.flatnonzero(np.ptp(queries, axis=0) > 0))

    @property
    def n_coordinates(self) -> int:
        return len(self.kept)

    def items(self, vectors: FloatMatrix) -> FloatMatrix:
        return contiguous(vectors[:, self.kept], np.float32)

    def queries(self, queries: FloatMatrix, threads: int) -> FloatMatrix:
        return contiguous(queries[:, self.kept], np.float32)


Reduction = Whitened | Unbiased  # maps from long to short vectors, separate ones for queries and items


def _root(queries: FloatMatrix) -> DoubleArray:
    """L, lower triangular, with L L' the second moments of the queries, plus a ridge for queries unlike these."""
    wide = queries.astype(np.float64)
    moments = wide.T @ wide / len(wide)
    size = float(np.trace(moments)) / len(moments)
    ridge = RIDGE * size if size > 0 else 1.0
    return np.asarray(np.linalg.cholesky(moments + ridge * np.eye(len(moments))), np.float64)


def _components(centred: FloatMatrix, root: FloatMatrix, n: int, rng: Generator) -> DoubleArray:
    """The principal components of (items x root): a random subspace, turned towards them (Halko et al. 2011)."""
    n_dimensions = root.shape[0]
    basis = np.linalg.qr(rng.standard_normal((n_dimensions, min(max(n, FOUND) + MORE, n_dimensions))))[0]
    for _ in range(PASSES):
        basis = np.linalg.qr(_squared(centred, root, basis))[0]
    values, turn = np.linalg.eigh(basis.T @ _squared(centred, root, basis))
    return np.asarray(basis @ turn[:, ::-1][:, :n])


def _squared(centred: FloatMatrix, root: FloatMatrix, basis: DoubleArray) -> DoubleArray:
    """X'X times a basis, X being the items times the root."""
    total: DoubleArray = np.zeros(basis.shape)
    through = root @ basis.astype(np.float32)
    for start in range(0, len(centred), BLOCK):
        block = centred[start : start + BLOCK]
        total += block.T @ (block @ through)
    return np.asarray(root.T.astype(np.float64) @ total)


REDUCTIONS = ("whitened", "unbiased")


class Codes(NamedTuple):
    """The content of a reduced index."""

    reduction: Reduction
    items: FloatMatrix  # in its coordinates
    inner: Index

    def arrays(self) -> dict[str, NDArray[Any]]:
        own = {**vars(self.reduction), "codes": self.items}
        return own | {INNER + name: array for name, array in self.inner.arrays().items()}


@dataclass(kw_only=True)
class Reduced(Index):
    """Any structure over fewer coordinates; the best `candidates` it finds are reordered by their full vectors.

    `reduction` is "whitened", the `n_coordinates` that matter most for the queries (for stacked draws of a posterior),
    or "unbiased", all but the coordinates in which all queries agree (see `tastespace.index.reduction`). Without
    queries to learn from, a build assumes all directions to be equally likely.
    """

    inner: Index = field(default_factory=Exact)
    reduction: str = "whitened"
    n_coordinates: int = 20
    candidates: int = 50
    seed: int = 0

    least: ClassVar = {"n_coordinates": 1, "candidates": 1}

    def _check(self) -> None:
        super()._check()
        if self.reduction not in REDUCTIONS:
            raise InvalidParameterError(f"reduction is {self.reduction!r}; expected one of {', '.join(REDUCTIONS)}")

    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Codes:
        queries = None if queries is None else contiguous(queries, np.float32)
        if self.reduction == "whitened":
            reduction: Reduction = Whitened.of(vectors, queries, self.n_coordinates, generator(self.seed))
        elif queries is None or not len(queries):
            raise InvalidParameterError("the reduction is unbiased, and there are no queries; expected some of them")
        else:
            reduction = Unbiased.of(queries)
        codes = reduction.items(vectors)
        # A separate structure: the given one may be in use.
        inner = unbuilt(self.inner)
        inner.threads = self.threads
        self.inner = inner.build(codes)
        return Codes(reduction, codes, inner)

    def _describe(self, content: Content) -> str:
        if content.built is None:
            return f"{self.n_coordinates} coordinates of no items"
        reduction, _, inner = content.built
        return (
            f"{inner.description}, in {reduction.n_coordinates} of {self.n_dimensions_} coordinates; the "
            f"best {self.candidates} in order of all"
        )

    def _n_bytes(self, content: Content) -> int:
        reduction, codes, inner = content.built
        return int(sum(array.nbytes for array in vars(reduction).values()) + codes.nbytes + inner.n_bytes)

    def _arrays(self, built: Codes) -> Arrays:
        return built.arrays()

    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> Codes:
        codes = contiguous(arrays["codes"], np.float32)
        if self.reduction == "whitened":
            names = ("of_items", "of_queries", "mean")
            reduction: Reduction = Whitened(*(contiguous(arrays[name], np.float32) for name in names))
            require(len(arrays["of_queries"]) == vectors.shape[1], "vectors of another length")
        else:
            reduction = Unbiased(contiguous(arrays["kept"], np.int64))
        require(codes.shape == (len(vectors), reduction.n_coordinates), f"codes of the shape {codes.shape}")
        return Codes(reduction, codes, self.inner.restore(inner_arrays(arrays), codes))

    def _search(self, content: Content, search: Search) -> Neighbours:
        reduction, _, inner = content.built
        inner = with_threads(inner, self.threads)  # Another request may search with different parameters.
        n_candidates = min(max(self.candidates, search.k), content.n_items)
        codes = reduction.queries(search.queries, search.threads)
        candidates = inner.search(codes, n_candidates, excluded=search.excluded, allowed=search.allowed).items
        # The best of each query's own, in the order of their full vectors. A single query has all of them: no need
        # to say where they begin.
        lists = {}
        if len(candidates) > 1:
            lists["candidate_offsets"] = np.arange(0, candidates.size + 1, n_candidates)
        vectors = self._vectors(content)
        return best_of(candidates.reshape(-1), vectors, search.queries, search.k, search.threads, **lists)


class SharedReductions:
    """Builds `Reduced` structures over the same vectors and queries; coordinates are computed once and truncated."""

    def __init__(self) -> None:
        # By seed and number of items, with the reduced items and the seconds taken.
        self._found: dict[tuple[int, int], tuple[Whitened, FloatMatrix, float]] = {}

    def build(self, unbuilt: Reduced, vectors: FloatMatrix, queries: FloatMatrix) -> tuple[Index, float]:
        """The result of its own `build`, and the seconds that would have taken."""
        begun, key, n = perf_counter(), (unbuilt.seed, len(vectors)), unbuilt.n_coordinates
        if unbuilt.reduction != "whitened" or n > FOUND:
            return unbuilt.build(vectors, queries), perf_counter() - begun
        if key not in self._found:
            whole = Whitened.of(vectors, queries, FOUND, generator(unbuilt.seed))
            self._found[key] = whole, whole.items(vectors), perf_counter() - begun
        whole, all_codes, seconds = self._found[key]
        begun = perf_counter()
        codes = contiguous(all_codes[:, :n], np.float32)
        unbuilt.inner.threads = unbuilt.threads
        arrays = Codes(whole.first(n), codes, unbuilt.inner.build(codes)).arrays()
        return unbuilt.restore(arrays, vectors), seconds + perf_counter() - begun


@dataclass(kw_only=True)
class Vote(Index):
    """Voting over long vectors in parts of equal length, with a structure over each: items on most lists win.

    It is the baseline for stacking the draws. Among items with equally many votes, those with the larger inner product
    of the full vectors come first; the result is sorted by it. Every part lists `candidates` items, at least as many as
    requested.
    """

    inner: Index = field(default_factory=Exact)
    n_parts: int = 2
    candidates: int = 10

    scans_few: ClassVar[bool] = False
    least: ClassVar = {"n_parts": 1, "candidates": 1}

    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> list[Index]:
        if vectors.shape[1] % self.n_parts:
            raise InvalidParameterError(
                f"vectors have {vectors.shape[1]} coordinates; expected {self.n_parts} parts of equal length"
            )
        return [self._part().build(part) for part in self._split(vectors)]

    def _part(self) -> Index:
        part: Index = unbuilt(self.inner)
        part.threads = self.threads
        return part

    def _split(self, vectors: FloatMatrix) -> list[FloatMatrix]:
        return [contiguous(part, np.float32) for part in np.split(vectors, self.n_parts, axis=1)]

    def _describe(self, content: Content) -> str:
        each = "no items" if content.built is None else content.built[0].description
        return f"vote of {self.n_parts} lists of {self.candidates}, each by: {each}"

    def _n_bytes(self, content: Content) -> int:
        return sum(part.n_bytes for part in content.built)

    def _arrays(self, built: list[Index]) -> Arrays:
        parts = enumerate(part.arrays().items() for part in built)
        return {f"{number}.{name}": array for number, arrays in parts for name, array in arrays}

    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> list[Index]:
        require(not vectors.shape[1] % self.n_parts, "vectors of another length")
        parts = enumerate(self._split(vectors))
        return [self._part().restore(inner_arrays(arrays, f"{number}."), part) for number, part in parts]

    def _search(self, content: Content, search: Search) -> Neighbours:
        each = min(max(self.candidates, search.k), content.n_items)
        lists = []
        for part, queries in zip(content.built, self._split(search.queries), strict=True):
            mine = with_threads(part, self.threads)
            lists.append(mine.search(queries, each, excluded=search.excluded, allowed=search.allowed).items)
        found = Neighbours.none(len(search.queries), search.k)
        for row, (listed, query) in enumerate(zip(np.hstack(lists), search.queries, strict=True)):
            items, votes = np.unique(listed[listed >= 0], return_counts=True)
            best = best_of(items, self._vectors(content), query[None], max(len(items), 1), search.threads)
            order, scores = best.items[0, : len(items)], best.scores[0, : len(items)]
            by_votes = np.argsort(-votes[np.searchsorted(items, order)], kind="stable")
            elected = np.sort(by_votes[: search.k])  # the positions of the k items with most votes
            found.items[row, : len(elected)], found.scores[row, : len(elected)] = order[elected], scores[elected]
        return found
