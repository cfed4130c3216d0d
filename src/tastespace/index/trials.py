"""Trials of indexes: settings and targets, how much is found, and how long it takes.

Times are compared side by side: an index, the exact scan, and NumPy for the same search, on one thread and in CPU time,
so that other programs matter little. Contenders take turns, some queries each, and what is reported is the median of
ratios: a machine that slows down temporarily does so for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from time import perf_counter, process_time_ns
from typing import Any, Self

import numpy as np

from tastespace.arrays import DoubleArray, FloatMatrix, IntArray, OffsetArray
from tastespace.index.index import Index, with_threads
from tastespace.index.structures.exact import Exact
from tastespace.threads import one_blas_thread

N_TH = 100  # a suggestion among this many true best is good enough
BASELINE = "numpy: vectors @ query, argpartition, sort; one thread, processor time"
BLOCK = 1 << 22  # scores that numpy's scan of a batch holds at once
# Queries per turn. After a scan the caches hold what the scan has read: with one query per turn, that
# of an index would only measure how they are filled again.
LONGEST_TURN = 16
TURN = 0.05  # seconds of numpy's scan, at most, as long as that is one query
BATCH = 128  # queries
MIN_ROUNDS = 3
TOLERANCE = 1e-5  # of the largest score of the query


@dataclass(frozen=True)
class Target:
    """The target that an index must reach to be chosen; None for figures that do not matter."""

    accuracy: float | None = None
    acceptance: float | None = None
    latency_ms: float | None = None
    k: int = 10
    n_th: int = N_TH

    def is_reached_by(self, trial: Trial) -> bool:
        """Whether a trial's figures are all good enough."""
        return (
            (self.accuracy is None or trial.accuracy >= self.accuracy)
            and (self.acceptance is None or trial.acceptance >= self.acceptance)
            and self.is_fast_enough(trial)
        )

    def is_fast_enough(self, trial: Trial) -> bool:
        return self.latency_ms is None or trial.microseconds <= 1000 * self.latency_ms

    def __str__(self) -> str:
        texts = ("accuracy {:g}", "acceptance {:g}", "at most {:g} ms")
        values = (self.accuracy, self.acceptance, self.latency_ms)
        return " and ".join(text.format(value) for text, value in zip(texts, values, strict=True) if value is not None)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        return cls(**_known(cls, content))


@dataclass(frozen=True)
class Trial:
    """One setting of a structure: how much it finds, how fast. Speed-ups of one query are over scans by one thread."""

    structure: str
    description: str
    parameters: Mapping[str, Any]
    accuracy: float
    acceptance: float
    worst: int  # the largest true rank of a worst suggestion
    worst_99: int  # 99th percentile over the queries
    speedup: float  # over numpy's scan
    speedup_over_exact: float  # over ours
    microseconds: float
    build_seconds: float
    n_bytes: int
    batched_speedup: float | None = None  # many queries in one call; None if not measured
    batched_speedup_over_exact: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Content for JSON; `bytes` is the memory of the index without the vectors."""
        content = asdict(self)
        content["bytes"] = content.pop("n_bytes")
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        return cls(**_known(cls, {**content, "n_bytes": content["bytes"]}))


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """A chosen index and the trials behind the choice, as kept in an artifact."""

    index: Index
    chosen: Trial
    curve: tuple[Trial, ...]  # all that was tried
    target: Target

    @property
    def reached(self) -> bool:
        return self.target.is_reached_by(self.chosen)


def _known(kind: type[Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that this version knows; a newer one may have more."""
    return {field.name: content[field.name] for field in fields(kind) if field.name in content}


# How much is found: what share of the true best, and how bad the worst suggestion is. Scores are inner products, one
# row per query, best first, minus infinity where there is no item. Sums of single precision depend on the order they
# are taken in, so that scores count as equal to within a tolerance; then for two equally good items it does not
# matter which was found.


def accuracies(found: FloatMatrix, best: FloatMatrix) -> DoubleArray:
    """The share of each query's true best items, those of `best`, that was found; 1 where there are none."""
    wanted = np.isfinite(best).sum(axis=1)
    # Any item that scores as much as the last of the true best is one of them.
    edge = np.where(np.isfinite(best), best, np.inf).min(axis=1, initial=np.inf)
    hits = (found >= (edge - tolerances(best))[:, None]).sum(axis=1)
    return np.where(wanted > 0, np.minimum(hits, wanted) / np.maximum(wanted, 1), 1.0)


def accuracy(found: FloatMatrix, best: FloatMatrix) -> float:
    """The mean over the queries."""
    return float(accuracies(found, best).mean())


def positions(found: FloatMatrix, best: FloatMatrix) -> OffsetArray:
    """The true rank of each found item, from 1, among the scores of `best`; 0 where none was found.

    Items worse than all of them rank after the last.
    """
    limits = found.astype(np.float64) + tolerances(best)[:, None]
    places = np.stack([np.searchsorted(-row, -line) for row, line in zip(best.astype(np.float64), limits, strict=True)])
    return np.where(np.isfinite(found), places + 1, 0).astype(np.int64)


def worst_positions(positions: OffsetArray, n_wanted: int, n_items: int) -> OffsetArray:
    """The position of each query's worst suggestion; the last of all where fewer were found than `n_wanted`."""
    complete = (positions > 0).sum(axis=1) >= n_wanted
    return np.where(complete, positions.max(axis=1, initial=min(1, n_items)), n_items).astype(np.int64)


def acceptance(worst: OffsetArray, n_th: int = N_TH) -> float:
    """The share of queries whose worst suggestion is one of the true best `n_th`."""
    return float(np.mean(worst <= n_th))


def tolerances(best: FloatMatrix) -> DoubleArray:
    """The tolerance within which scores of each query count as equal."""
    sizes = np.where(np.isfinite(best), np.abs(best), 0.0).max(axis=1, initial=0.0)
    return np.asarray(TOLERANCE * sizes.astype(np.float64))


TRUTH_BLOCK = 1 << 22  # numbers held at once: 16 MB
DEPTH = 1000  # true positions up to here are kept; beyond, they are counted when they are needed


@dataclass(frozen=True, eq=False)
class Quality:
    """The quality of answers, query by query."""

    accuracies: DoubleArray
    worst: OffsetArray  # the true position of the worst suggestion

    @property
    def accuracy(self) -> float:
        return float(self.accuracies.mean())

    def acceptance(self, n_th: int = N_TH) -> float:
        return acceptance(self.worst, n_th)


@dataclass(frozen=True, eq=False)
class Truth:
    """The best `k` of each query, and the scores of more."""

    vectors: FloatMatrix
    queries: FloatMatrix
    k: int
    best: FloatMatrix  # n_queries x depth

    @classmethod
    def of(cls, exact: Exact, vectors: FloatMatrix, queries: FloatMatrix, k: int) -> Truth:
        """The truth that the scan over these vectors finds."""
        depth = min(max(DEPTH, k), max(len(vectors), 1))
        return cls(vectors, queries, k, exact.search(queries, depth).scores)

    def judge(self, items: IntArray) -> Quality:
        """The quality of answers of up to k items each, padded with -1; scores are computed here."""
        found, n_items = _scores(self.vectors, self.queries, items), len(self.vectors)
        places, depth = positions(found, self.best), self.best.shape[1]
        if depth < n_items:
            deep = np.flatnonzero((places > depth).any(axis=1))
            places[deep, 0] = self._counted(deep, found[deep])
        worst = worst_positions(places, min(self.k, n_items), n_items)
        return Quality(accuracies(found, self.best[:, : self.k]), worst)

    def _counted(self, rows: OffsetArray, found: FloatMatrix) -> OffsetArray:
        """The position of the worst item found, counted among all."""
        worst = np.where(np.isfinite(found), found, np.inf).min(axis=1) + tolerances(self.best[rows])
        counted = np.empty(len(rows), np.int64)
        step = max(1, TRUTH_BLOCK // max(len(self.vectors), 1))
        for start in range(0, len(rows), step):
            scores = self.queries[rows[start : start + step]] @ self.vectors.T
            counted[start : start + step] = 1 + (scores > worst[start : start + step, None]).sum(axis=1)
        return counted


def _scores(vectors: FloatMatrix, queries: FloatMatrix, items: IntArray) -> FloatMatrix:
    """Scores of the items of each query, best first; in blocks of queries, so that memory stays bounded."""
    scores = np.full(items.shape, -np.inf, np.float32)
    if not len(vectors):
        return scores
    step = max(1, TRUTH_BLOCK // max(items.shape[1] * vectors.shape[1], 1))
    for start in range(0, len(items), step):
        part = items[start : start + step]
        products = np.einsum("qd,qkd->qk", queries[start : start + step], vectors[np.maximum(part, 0)])
        scores[start : start + step] = np.where(part >= 0, products, -np.inf)
    return -np.sort(-scores, axis=1)


# How long it takes

Contender = Callable[[FloatMatrix], object]


@dataclass(frozen=True)
class Timing:
    """The time of a search, and its speed-ups over the scans."""

    microseconds: float
    speedup: float  # over numpy's scan
    speedup_over_exact: float


def time_single(
    index: Index, exact: Exact, vectors: FloatMatrix, queries: FloatMatrix, k: int, seconds: float
) -> Timing:
    """Time one query at a time, for about this many seconds."""

    def one_by_one(search: Contender) -> Contender:
        def run(block: FloatMatrix) -> None:
            for row in range(len(block)):
                search(block[row : row + 1])

        return run

    searches = [*_single_threaded(index, exact, k=k), lambda query: numpy_scan(vectors, query[0], k)]
    return _taking_turns([one_by_one(search) for search in searches], queries, None, seconds)


def time_batch(
    index: Index, exact: Exact, vectors: FloatMatrix, queries: FloatMatrix, k: int, seconds: float
) -> Timing:
    """Time many queries in one call; the microseconds are per query."""
    contenders = [*_single_threaded(index, exact, k=k), lambda block: numpy_batch(vectors, block, k)]
    return _taking_turns(contenders, queries, BATCH, seconds)


def _single_threaded(*indexes: Index, k: int) -> list[Contender]:
    """Searches of the indexes, each by one thread."""
    return [partial(with_threads(index, 1).search, k=k) for index in indexes]


def numpy_scan(vectors: FloatMatrix, query: FloatMatrix, k: int) -> IntArray:
    """The best k items of one query in plain NumPy."""
    scores = vectors @ query
    if k >= len(scores):
        return np.argsort(-scores).astype(np.int32)
    best = np.argpartition(scores, len(scores) - k)[-k:]
    return best[np.argsort(-scores[best])].astype(np.int32)


def numpy_batch(vectors: FloatMatrix, queries: FloatMatrix, k: int) -> IntArray:
    """The same for many, as products of matrices."""
    k = min(k, len(vectors))
    found = np.empty((len(queries), k), np.int32)
    step = max(1, BLOCK // max(len(vectors), 1))
    for start in range(0, len(queries), step):
        scores = queries[start : start + step] @ vectors.T
        best = np.argpartition(scores, len(vectors) - k, axis=1)[:, -k:] if k < len(vectors) else np.argsort(scores)
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        found[start : start + step] = np.take_along_axis(best, order, axis=1)
    return found


def _taking_turns(contenders: list[Contender], queries: FloatMatrix, turn: int | None, seconds: float) -> Timing:
    """Time the contenders in turns: the index first, the exact scan second, NumPy's third."""
    with one_blas_thread():
        taken = _rounds(contenders, queries, _turn(contenders[-1], queries) if turn is None else turn, seconds)
    return Timing(
        microseconds=float(np.median(taken[:, 0])) / 1e3,
        speedup=float(np.median(taken[:, 2] / taken[:, 0])),
        speedup_over_exact=float(np.median(taken[:, 1] / taken[:, 0])),
    )


def _turn(scan: Contender, queries: FloatMatrix) -> int:
    """The number of queries per turn."""
    scan(queries[:1])  # The first run also has to fetch memory.
    begun = process_time_ns()
    scan(queries[:1])
    return int(np.clip(TURN * 1e9 / max(process_time_ns() - begun, 1), 1, LONGEST_TURN))


def _rounds(contenders: list[Contender], queries: FloatMatrix, turn: int, seconds: float) -> FloatMatrix:
    """Nanoseconds per query, one row per round and one column per contender."""
    end, start = perf_counter() + seconds, 0
    taken: list[list[float]] = []
    while len(taken) < MIN_ROUNDS or perf_counter() < end:
        block = queries[start : start + turn]
        nanoseconds = []
        for contender in contenders:
            begun = process_time_ns()
            contender(block)
            nanoseconds.append(max(process_time_ns() - begun, 1) / len(block))
        taken.append(nanoseconds)
        start = start + turn if start + 2 * turn <= len(queries) else 0
    return np.array(taken)
