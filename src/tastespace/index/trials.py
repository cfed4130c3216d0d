"""What was tried and what it was worth: one setting of one structure, the target it was tried for, the choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from itertools import chain, zip_longest
from math import sqrt
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatMatrix
from tastespace.errors import InvalidParameterError
from tastespace.index import INDEXES
from tastespace.index.index import Index
from tastespace.index.measurement import N_TH
from tastespace.index.reduction import SharedReductions


@dataclass(frozen=True)
class Target:
    """What an index must reach to be chosen; None for what does not matter."""

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
        parts = [] if self.accuracy is None else [f"accuracy {self.accuracy:g}"]
        parts += [] if self.acceptance is None else [f"acceptance {self.acceptance:g}"]
        parts += [] if self.latency_ms is None else [f"at most {self.latency_ms:g} ms"]
        return " and ".join(parts)

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
    worst: int  # the largest true position of a worst suggestion
    worst_99: int  # 99 of 100 queries have none beyond
    speedup: float  # over numpy's scan
    speedup_over_exact: float  # over ours
    microseconds: float
    build_seconds: float
    n_bytes: int
    batched_speedup: float | None = None  # many queries in one call; None where that was not measured
    batched_speedup_over_exact: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `bytes` is the memory of the index without the vectors."""
        content = asdict(self)
        content["bytes"] = content.pop("n_bytes")
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        return cls(**_known(cls, {**content, "n_bytes": content["bytes"]}))


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """An index that was chosen, and why: what an artifact keeps."""

    index: Index
    chosen: Trial
    curve: tuple[Trial, ...]  # all that was tried
    target: Target

    @property
    def reached(self) -> bool:
        return self.target.is_reached_by(self.chosen)


def _known(kind: type[Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """What this version knows of; a newer one may say more."""
    return {field.name: content[field.name] for field in fields(kind) if field.name in content}


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


NOT_SAVED = ("threads",)  # a property of the machine


def described(index: Index) -> dict[str, Any]:
    """The structure and its parameters, among which may be structures."""
    names = {structure: name for name, structure in INDEXES.items()}
    if type(index) not in names or not is_dataclass(index):
        raise InvalidParameterError(
            f"an index of the type {type(index).__name__} cannot be saved; expected one of {', '.join(INDEXES)}"
        )
    parameters = {}
    for field in fields(index):
        value = getattr(index, field.name)
        if field.name not in NOT_SAVED:
            parameters[field.name] = described(value) if type(value) in names else value
    return {"structure": names[type(index)], "parameters": parameters}


def restored(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Index:
    """The index that was described, over the same vectors; what does not fit is a ValueError or a KeyError."""
    index: Index = _unbuilt(description).restore(arrays, vectors)
    return index


def _unbuilt(description: Mapping[str, Any]) -> Any:
    structure = INDEXES[description["structure"]]
    parameters = {
        name: _unbuilt(value) if isinstance(value, dict) and "structure" in value else value
        for name, value in description["parameters"].items()
    }
    return structure(**parameters)
