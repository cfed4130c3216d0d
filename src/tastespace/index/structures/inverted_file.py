"""Items in cells around centres; a search scans only the best cells.

Cells are found by k-means: Lloyd's iterations on a sample, then every point goes to its nearest centre. The nearest
centre c of x has the largest x.c - |c|^2 / 2, so that the scan finds it, the same for any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from tastespace import _native, threads
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.index.index import Index
from tastespace.index.search import Arrays, Content, Neighbours, Search, check_number, panels_at, panels_of, require
from tastespace.index.structures.exact import Exact
from tastespace.randomness import generator

PANEL = _native.SCAN_PANEL
ITERATIONS = 10
SAMPLE = 64  # points per cell used to find the centres: more hardly improve them


class Cells(NamedTuple):
    """The content of an inverted file: every cell begins a panel."""

    centres: FloatArray  # in panels
    first_panels: OffsetArray  # n_cells + 1
    panels: FloatArray
    members: IntArray  # the item at each position of the panels; -1 for none


@dataclass(kw_only=True)
class InvertedFile(Index):
    """k-means cells: the items of the `probes` best of `n_cells` cells are scored exactly; others are skipped.

    More probes find more of the best items, and take longer. With `n_cells=None` there are twice the root of the number
    of items: then finding the cells takes about as long as scanning them.
    """

    n_cells: int | None = None
    probes: int = 8
    seed: int = 0

    least: ClassVar = {"probes": 1}

    def _check(self) -> None:
        super()._check()
        if self.n_cells is not None:
            check_number("n_cells", self.n_cells)

    def _build(self, vectors: FloatMatrix, queries: FloatMatrix | None) -> Cells:
        wanted = max(1, round(2 * sqrt(len(vectors)))) if self.n_cells is None else self.n_cells
        centres, cells = clusters(vectors, wanted, generator(self.seed), threads.resolve(self.threads))
        counts = np.bincount(cells, minlength=len(centres))
        first_panels: OffsetArray = np.concatenate([[0], np.cumsum(-(-counts // PANEL))]).astype(np.int64)
        # The position of each item: after the earlier ones of its cell.
        order = np.argsort(cells, kind="stable")
        within = np.arange(len(vectors)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = first_panels[cells[order]] * PANEL + within
        members: IntArray = np.full(first_panels[-1] * PANEL, -1, np.int32)
        members[places] = order
        return Cells(panels_of(centres), first_panels, panels_at(vectors, members), members)

    def _describe(self, content: Content) -> str:
        n_cells = 0 if content.built is None else len(content.built.first_panels) - 1
        return f"inverted file of {n_cells} cells, {min(self.probes, n_cells)} of them looked into"

    def _restore(self, arrays: Arrays, vectors: FloatMatrix) -> Cells:
        kinds = {"centres": np.float32, "first_panels": np.int64, "panels": np.float32, "members": np.int32}
        cells = Cells(*(contiguous(arrays[name], kind) for name, kind in kinds.items()))
        # The search does not check them again.
        items = cells.members[cells.members >= 0]
        require(len(items) == len(vectors), f"{len(items)} items in cells, {len(vectors)} of the model")
        require(int(items.max()) < len(vectors), "items in cells that the model does not have")
        return cells

    def _search(self, content: Content, search: Search) -> Neighbours:
        probes = self.probes
        if search.allowed is not None:  # More cells are scanned if fewer of their items are allowed.
            probes = ceil(probes * content.n_items / max(int(np.count_nonzero(search.allowed)), 1))
        probes = min(probes, len(content.built.first_panels) - 1)
        return search.run(_native.search_cells, content.built, content.n_items, (probes,))


def clusters(points: FloatMatrix, n_cells: int, rng: Generator, threads: int) -> tuple[FloatMatrix, IntArray]:
    """At most `n_cells` centres, and no more than there are points; and the nearest centre of each point."""
    n_cells = min(n_cells, len(points))
    sample = points
    if len(points) > SAMPLE * n_cells:
        sample = points[np.sort(rng.choice(len(points), SAMPLE * n_cells, replace=False))]
    centres = contiguous(sample[np.sort(rng.choice(len(sample), n_cells, replace=False))], np.float32)
    for _ in range(ITERATIONS):
        centres = _moved(sample, nearest(sample, centres, threads), centres, rng)
    return centres, nearest(points, centres, threads)


def nearest(points: FloatMatrix, centres: FloatMatrix, threads: int) -> IntArray:
    """The nearest centre of each point; the first in case of ties."""
    lengths = np.einsum("cd,cd->c", centres, centres, dtype=np.float64)
    lifted = np.hstack([centres, (-0.5 * lengths).astype(np.float32)[:, None]])
    queries = np.hstack([points, np.ones((len(points), 1), np.float32)])
    return Exact(threads=threads).build(lifted).search(queries, 1).items[:, 0]


def _moved(points: FloatMatrix, cells: IntArray, centres: FloatMatrix, rng: Generator) -> FloatMatrix:
    """Move every centre to the mean of its points; one without points moves to a point of another."""
    n_cells, n_dimensions = centres.shape
    counts = np.bincount(cells, minlength=n_cells)
    totals: DoubleArray = np.empty((n_cells, n_dimensions))
    for d in range(n_dimensions):
        totals[:, d] = np.bincount(cells, points[:, d], minlength=n_cells)
    moved = (totals / np.maximum(counts, 1)[:, None]).astype(np.float32)
    empty = np.flatnonzero(counts == 0)
    moved[empty] = points[rng.integers(len(points), size=len(empty))]
    return moved
