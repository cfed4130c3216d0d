"""How long searches take, side by side: an index, the exact scan, and what numpy takes for the same.

One thread and processor time, so that other programs count little. Contenders take turns, some queries each, and what
is reported is the median of ratios: a machine that is slower for a while is so for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time_ns
from typing import Any

import numpy as np

from tastespace.arrays import FloatMatrix, IntArray
from tastespace.index.exact import Exact
from tastespace.index.index import Index, set_threads
from tastespace.threads import one_blas_thread

BASELINE = "numpy: vectors @ query, argpartition, sort; one thread, processor time"
BLOCK = 1 << 22  # scores that numpy's scan of a batch holds at once
# Queries before it is another's turn. After a scan the caches hold what the scan has read: with one query a turn, that
# of an index would only measure how they are filled again.
LONGEST_TURN = 16
TURN = 0.05  # seconds of numpy's scan, at most, as long as that is one query
BATCH = 128  # queries
LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Timing:
    """What a search takes, and how many times faster it is than the scans."""

    microseconds: float
    speedup: float  # over numpy's scan
    speedup_over_exact: float


def time_single(
    index: Index, exact: Exact, vectors: FloatMatrix, queries: FloatMatrix, k: int, seconds: float
) -> Timing:
    """One query at a time, for about so long."""

    def one_by_one(search: Callable[[FloatMatrix], object]) -> Callable[[FloatMatrix], None]:
        def run(block: FloatMatrix) -> None:
            for row in range(len(block)):
                search(block[row : row + 1])

        return run

    contenders = [
        one_by_one(lambda query: index.search(query, k)),
        one_by_one(lambda query: exact.search(query, k)),
        one_by_one(lambda query: numpy_scan(vectors, query[0], k)),
    ]
    return _taking_turns(index, exact, contenders, queries, None, seconds)


def time_batch(
    index: Index, exact: Exact, vectors: FloatMatrix, queries: FloatMatrix, k: int, seconds: float
) -> Timing:
    """Many queries in one call; the microseconds are those of one of them."""
    contenders: list[Callable[[FloatMatrix], object]] = [
        lambda block: index.search(block, k),
        lambda block: exact.search(block, k),
        lambda block: numpy_batch(vectors, block, k),
    ]
    return _taking_turns(index, exact, contenders, queries, BATCH, seconds)


def numpy_scan(vectors: FloatMatrix, query: FloatMatrix, k: int) -> IntArray:
    """The best k items of one query, as one would write it in a line or two."""
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


def _taking_turns(
    index: Index,
    exact: Exact,
    contenders: list[Callable[[FloatMatrix], Any]],
    queries: FloatMatrix,
    turn: int | None,
    seconds: float,
) -> Timing:
    """The index is the first contender, the exact scan the second, numpy's the third."""
    before = index.threads, exact.threads
    set_threads(index, 1)
    set_threads(exact, 1)
    try:
        with one_blas_thread():
            turn = _turn(contenders[-1], queries) if turn is None else turn
            taken = _rounds(contenders, queries, turn, seconds)
    finally:
        set_threads(exact, before[1])
        set_threads(index, before[0])
    return Timing(
        microseconds=float(np.median(taken[:, 0])) / 1e3,
        speedup=float(np.median(taken[:, 2] / taken[:, 0])),
        speedup_over_exact=float(np.median(taken[:, 1] / taken[:, 0])),
    )


def _turn(scan: Callable[[FloatMatrix], Any], queries: FloatMatrix) -> int:
    """How many queries make a turn."""
    scan(queries[:1])  # The first time, memory must be fetched.
    begun = process_time_ns()
    scan(queries[:1])
    return int(np.clip(TURN * 1e9 / max(process_time_ns() - begun, 1), 1, LONGEST_TURN))


def _rounds(
    contenders: list[Callable[[FloatMatrix], Any]], queries: FloatMatrix, turn: int, seconds: float
) -> FloatMatrix:
    """Nanoseconds a query, one row a round and one column a contender."""
    end, start = perf_counter() + seconds, 0
    taken: list[list[float]] = []
    while len(taken) < LEAST_ROUNDS or perf_counter() < end:
        block = queries[start : start + turn]
        nanoseconds = []
        for contender in contenders:
            begun = process_time_ns()
            contender(block)
            nanoseconds.append(max(process_time_ns() - begun, 1) / len(block))
        taken.append(nanoseconds)
        start = start + turn if start + 2 * turn <= len(queries) else 0
    return np.array(taken)
