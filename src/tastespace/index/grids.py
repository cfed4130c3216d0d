"""What the tuner tries: structures with their parameters, and the one that says how long a search looks.

To have another structure tried, give it a line in GRIDS. Vectors of many coordinates, such as stacked draws of a
posterior, are searched in a few that stand for all, by every structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, zip_longest
from math import sqrt
from time import perf_counter
from typing import Any

import numpy as np

from tastespace.arrays import FloatMatrix
from tastespace.errors import InvalidParameterError
from tastespace.index import INDEXES
from tastespace.index.index import Index
from tastespace.index.sharing import SharedReductions

EXACT, REDUCED = "exact", "reduced"
WIDE = 32  # coordinates: with more, a few stand for all
# How many coordinates, and times k how many of what they find is put in order by all.
REDUCTIONS = ((20, 2), (20, 5), (32, 2), (32, 5), (12, 10), (48, 10))


@dataclass(frozen=True)
class Grid:
    """How a structure is built, and how its searches are made to look longer."""

    effort: str  # a parameter that the next search obeys, without a build: more of it finds more, and takes longer
    options: Callable[[int], Sequence[dict[str, Any]]]  # of a number of items; the likeliest first
    least: int = 1
    is_slow: bool = False  # to build: for many items it takes minutes


def _cells(n_items: int) -> list[dict[str, Any]]:
    """About as many cells as items in each, or some more or fewer."""
    numbers = [max(1, round(times * sqrt(n_items))) for times in (2, 1, 4, 0.5)]
    return [{"n_cells": n_cells} for n_cells in dict.fromkeys(numbers)]


GRIDS = {
    "inverted-file": Grid("probes", _cells),
    "kmeans-tree": Grid("budget", lambda n_items: [{"branching": 32}, {"branching": 64}, {"branching": 16}], least=64),
    "graph": Grid("effort", lambda n_items: [{"neighbours": 16}, {"neighbours": 32}], least=10, is_slow=True),
    "kd-forest": Grid("budget", lambda n_items: [{"n_trees": 1}, {"n_trees": 4}], least=64),
}


@dataclass(frozen=True)
class Design:
    """A structure that is not built yet; `effort` is the path to its parameter, such as inner.probes."""

    structure: str
    make: Callable[[], Any]
    effort: str
    least: int
    shared: SharedReductions | None = None  # for a structure over a reduction

    def build(self, vectors: FloatMatrix, queries: FloatMatrix) -> tuple[Index, float]:
        """Over these vectors, for queries like these; and the seconds that it takes."""
        unbuilt = self.make()
        if self.shared is not None:
            return self.shared.build(unbuilt, vectors, queries)
        begun = perf_counter()
        return unbuilt.build(vectors), perf_counter() - begun

    @property
    def is_slow(self) -> bool:
        """Whether it is worth finding out how long a build will take before it is begun."""
        grid = GRIDS.get(self.structure.split()[-1])
        return grid is not None and grid.is_slow

    def set_effort(self, index: Any, value: int) -> None:
        """Make the next searches look so long."""
        *outer, name = self.effort.split(".")
        for part in outer:
            index = getattr(index, part)
        setattr(index, name, value)


def structure_names() -> list[str]:
    """The structures that can be asked for."""
    return [EXACT, *(name for name in GRIDS if name in INDEXES), REDUCED]


def check_structures(structures: Sequence[str] | None) -> None:
    """Refuse what is not there to be tried."""
    for name in structures or ():
        if name not in structure_names():
            raise InvalidParameterError(
                f"there is no structure {name!r} to try; expected some of {', '.join(structure_names())}"
            )


def designs(
    vectors: FloatMatrix,
    queries: FloatMatrix,
    k: int,
    *,
    structures: Sequence[str] | None,
    seed: int,
    threads: int | None,
) -> list[Design]:
    """All that is tried beside the exact scan, the likeliest first: one of each structure, then the next of each."""
    names = [name for name in GRIDS if name in INDEXES]
    plain = _in_turn([_plain(name, len(vectors), seed, threads) for name in names])
    if vectors.shape[1] > WIDE:
        found = [*_whitened(plain, k, seed, threads), *plain]
    elif 0 < np.count_nonzero(np.ptp(queries, axis=0)) < vectors.shape[1]:  # else all or nothing would be left out
        found = [
            *plain,
            *_inside(plain, {"reduction": "unbiased", "candidates": 5 * k}, SharedReductions(), seed, threads),
        ]
    else:
        found = plain
    return [design for design in found if structures is None or set(design.structure.split()) & set(structures)]


def _plain(name: str, n_items: int, seed: int, threads: int | None) -> list[Design]:
    grid, structure = GRIDS[name], INDEXES[name]
    common: dict[str, Any] = {"threads": threads}
    if any(field.name == "seed" for field in fields(structure)):
        common["seed"] = seed

    def maker(options: dict[str, Any]) -> Callable[[], Any]:
        return lambda: structure(**options, **common)

    return [Design(name, maker(options), grid.effort, grid.least) for options in grid.options(n_items)]


def _whitened(plain: list[Design], k: int, seed: int, threads: int | None) -> Iterator[Design]:
    """A scan of few coordinates, which obeys the number of candidates; then structures over them."""
    scan, shared = Design(EXACT, INDEXES[EXACT], "", 0), SharedReductions()
    for n_coordinates, times in REDUCTIONS:
        options = {"reduction": "whitened", "n_coordinates": n_coordinates, "candidates": times * k}
        first, *_ = _inside([scan], options, shared, seed, threads)
        yield replace(first, effort="candidates", least=k)
        yield from _inside(plain, options, shared, seed, threads)


def _inside(
    plain: list[Design], options: dict[str, Any], shared: SharedReductions, seed: int, threads: int | None
) -> list[Design]:
    """The same structures, each over a reduction of the vectors."""

    def maker(inner: Design) -> Callable[[], Any]:
        return lambda: INDEXES[REDUCED](inner=inner.make(), seed=seed, threads=threads, **options)

    return [Design(f"{REDUCED} {one.structure}", maker(one), f"inner.{one.effort}", one.least, shared) for one in plain]


def _in_turn(columns: list[list[Design]]) -> list[Design]:
    """The first of each, then the second of each."""
    return [design for design in chain.from_iterable(zip_longest(*columns)) if design is not None]
