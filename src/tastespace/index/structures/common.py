"""Cells of points by k-means: centres near which points lie, and the cell of each point.

Lloyd's iterations on a sample, then every point goes to its nearest centre. The nearest centre c of x has the largest
x.c - |c|^2 / 2, so that the scan finds it, with any number of threads the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.arrays import BoolArray, DoubleArray, FloatMatrix, IntArray, contiguous
from tastespace.errors import NonFiniteStateError
from tastespace.index.index import Excluded, Index, Neighbours, best_of, few_allowed
from tastespace.index.structures.exact import Exact, nothing, prepared_queries

ITERATIONS = 10
SAMPLE = 64  # points a cell that centres are found by: more make them hardly better


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centres, and which of them each point is nearest to."""

    centres: FloatMatrix  # cells x dimensions
    cells: IntArray  # one a point

    @classmethod
    def of(cls, points: FloatMatrix, n_cells: int, rng: Generator, threads: int) -> Clusters:
        """At most so many cells: no more than there are points."""
        n_cells = min(n_cells, len(points))
        sample = points
        if len(points) > SAMPLE * n_cells:
            sample = points[np.sort(rng.choice(len(points), SAMPLE * n_cells, replace=False))]
        centres = contiguous(sample[np.sort(rng.choice(len(sample), n_cells, replace=False))], np.float32)
        for _ in range(ITERATIONS):
            cells = nearest(sample, centres, threads)
            centres = _moved(sample, cells, centres, rng)
        return cls(centres, nearest(points, centres, threads))


def nearest(points: FloatMatrix, centres: FloatMatrix, threads: int) -> IntArray:
    """The nearest centre of each point; of two as near, the first."""
    lengths = np.einsum("cd,cd->c", centres, centres, dtype=np.float64)
    lifted = np.hstack([centres, (-0.5 * lengths).astype(np.float32)[:, None]])
    queries = np.hstack([points, np.ones((len(points), 1), np.float32)])
    return Exact(threads=threads).build(lifted).search(queries, 1).items[:, 0]


def _moved(points: FloatMatrix, cells: IntArray, centres: FloatMatrix, rng: Generator) -> FloatMatrix:
    """Every centre to the mean of its points; one without any to a point of some other."""
    n_cells, n_dimensions = centres.shape
    counts = np.bincount(cells, minlength=n_cells)
    totals: DoubleArray = np.empty((n_cells, n_dimensions))
    for d in range(n_dimensions):
        totals[:, d] = np.bincount(cells, points[:, d], minlength=n_cells)
    moved = (totals / np.maximum(counts, 1)[:, None]).astype(np.float32)
    empty = np.flatnonzero(counts == 0)
    moved[empty] = points[rng.integers(len(points), size=len(empty))]
    return moved


EQUAL = 1e-5  # norms that differ by less, relatively, are one


def lifted(vectors: FloatMatrix) -> FloatMatrix:
    """Items as points of the sphere, with one coordinate more than they have where their norms differ."""
    squares = np.einsum("id,id->i", vectors, vectors, dtype=np.float64)
    if not np.isfinite(squares).all():
        raise NonFiniteStateError("an item has infinite or missing coordinates; expected finite numbers")
    largest = float(squares.max(initial=0.0))
    if largest == 0:
        return vectors  # all in the centre: none is nearer than another
    points = vectors / np.float32(np.sqrt(largest))
    # A relative difference of squares is about twice that of norms.
    if largest - float(squares.min()) <= 2 * EQUAL * largest:
        return points
    heights = np.sqrt(1 - squares / largest)
    return np.hstack([points, heights.astype(np.float32)[:, None]])


class Kept(Index, Protocol):
    """A structure that keeps the vectors that it was built over, for what it does not find itself."""

    vectors_: FloatMatrix


def search_by_kernel(
    index: Kept,
    kernel: Callable[..., None],
    structure: Callable[[], tuple[Any, ...]],
    effort: Callable[[], tuple[int, ...]],
    queries: FloatMatrix,
    k: int,
    excluded: Excluded | None,
    allowed: BoolArray | None,
) -> Neighbours:
    """What a kernel finds in the arrays of a structure that has items, with this effort."""
    queries, found, optional = prepared_queries(index, queries, k, excluded, allowed)
    if len(queries) == 0 or index.n_items_ == 0:
        return nothing(found)
    n_threads = threads.resolve(index.threads)
    rows = few_allowed(allowed)
    if rows is not None:
        return best_of(rows, index.vectors_, queries, k, excluded, n_threads)
    kernel(
        *structure(),
        queries,
        index.n_items_,
        *effort(),
        found.items,
        found.scores,
        threads=n_threads,
        **optional,
    )
    return found
