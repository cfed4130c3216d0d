"""What an exact search finds for some queries: what every other answer is held against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tastespace.arrays import DoubleArray, FloatMatrix, IntArray, OffsetArray
from tastespace.index.exact import Exact
from tastespace.index.measures import N_TH, acceptance, accuracies, positions, tolerances, worst_positions

BLOCK = 1 << 22  # numbers held at once: 16 MB
DEPTH = 1000  # true positions up to here are kept; beyond, they are counted when they are needed


@dataclass(frozen=True, eq=False)
class Judged:
    """What answers to queries are worth, query by query."""

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
        """As the scan over these vectors finds it."""
        depth = min(max(DEPTH, k), max(len(vectors), 1))
        return cls(vectors, queries, k, exact.search(queries, depth).scores)

    def judge(self, items: IntArray) -> Judged:
        """Answers of up to k items each, -1 where there are fewer; scored here, whatever an index says they score."""
        found = _scores(self.vectors, self.queries, items)
        n_items = len(self.vectors)
        places = positions(found, self.best)
        depth = self.best.shape[1]
        if depth < n_items:
            deep = np.flatnonzero((places > depth).any(axis=1))
            places[deep, 0] = self._counted(deep, found[deep])
        worst = worst_positions(places, min(self.k, n_items), n_items)
        return Judged(accuracies(found, self.best[:, : self.k]), worst)

    def _counted(self, rows: OffsetArray, found: FloatMatrix) -> OffsetArray:
        """The position of the worst item found, counted among all."""
        worst = np.where(np.isfinite(found), found, np.inf).min(axis=1) + tolerances(self.best[rows])
        counted = np.empty(len(rows), np.int64)
        step = max(1, BLOCK // max(len(self.vectors), 1))
        for start in range(0, len(rows), step):
            scores = self.queries[rows[start : start + step]] @ self.vectors.T
            counted[start : start + step] = 1 + (scores > worst[start : start + step, None]).sum(axis=1)
        return counted


def _scores(vectors: FloatMatrix, queries: FloatMatrix, items: IntArray) -> FloatMatrix:
    """Of the items of each query, best first; some queries at a time, so that memory stays bounded."""
    scores = np.full(items.shape, -np.inf, np.float32)
    if not len(vectors):
        return scores
    step = max(1, BLOCK // max(items.shape[1] * vectors.shape[1], 1))
    for start in range(0, len(items), step):
        part = items[start : start + step]
        products = np.einsum("qd,qkd->qk", queries[start : start + step], vectors[np.maximum(part, 0)])
        scores[start : start + step] = np.where(part >= 0, products, -np.inf)
    return -np.sort(-scores, axis=1)
