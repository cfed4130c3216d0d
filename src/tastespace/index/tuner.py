"""The tuner: a target in, the fastest index that reaches it out, measured on queries that the choice has not seen.

Half of the queries choose: every structure is made to look longer until it reaches the target on them, with a margin
for chance. The other half is for the figures that are reported of the choice; what falls short there looks a little
longer, or is given up. Where structures learn from queries, as
reductions of wide vectors do, they do so from a third part, as large as the two others together. Which index is the
fastest depends on the machine and the moment, so that two runs may choose differently; an index with given parameters
is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass, fields, replace
from itertools import chain, zip_longest
from math import ceil, isfinite, sqrt
from numbers import Real
from time import perf_counter
from typing import Any

import numpy as np

from tastespace.arrays import FloatMatrix, OffsetArray, contiguous
from tastespace.errors import InvalidParameterError, MissingExtraError
from tastespace.index import described, structure_type
from tastespace.index.index import Index, unbuilt, with_threads
from tastespace.index.reduction import Reduced, SharedReductions
from tastespace.index.search import check_number
from tastespace.index.structures.exact import Exact
from tastespace.index.trials import N_TH, Quality, StoredIndex, Target, Trial, Truth, time_batch, time_single
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import generator

ACCURACY = 0.95  # where it is not given
MAX_WORK = 2e10  # multiplications of all measured queries with all items: a few seconds
MIN_QUERIES = 100  # whatever the work
MARGIN = 2.0  # standard errors beyond the target
NOT_WORTH_IT = 1.1  # an index that is not so many times faster than the exact scan, which misses nothing, is not used
HOPELESS = 0.7  # a trial that is so much slower than the scan, or than what reaches the target already
CLOSE = 1.1  # efforts whose ratio is this do not differ
FINALISTS = 3
RETRIES, LONGER = 3, 1.2  # a finalist that falls short on held-out queries looks so much longer, at most so often
LARGE, PART = 50_000, 20  # from so many items on, a slow build of one in so many tells how long that of all will take
QUICK, LONG = 0.005, 0.02  # of all the seconds: the time of a trial, and of a finalist, each way


@dataclass(frozen=True, eq=False)
class Tuned(StoredIndex):
    """The choice with its figures on held-out queries, and the trials on those that chose.

    `nearest` is the fastest that found enough where it took too long: then the exact scan is kept, and `reached` is
    False. `is_complete` says whether there was time for all that could be tried.
    """

    nearest: Trial | None
    is_complete: bool
    n_choosing: int
    n_held_out: int
    worst_positions: OffsetArray  # of the held-out queries under the choice
    seconds: float
    notes: tuple[str, ...] = ()  # what is to be known about the queries

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.curve


def tune(
    vectors: FloatMatrix,
    queries: FloatMatrix,
    *,
    accuracy: float | None = None,
    acceptance: float | None = None,
    k: int = 10,
    n_th: int = N_TH,
    latency_ms: float | None = None,
    seconds: float = 60.0,
    structures: Sequence[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    observer: Observer = silent,
) -> Tuned:
    """The fastest index over the vectors that finds enough for queries like these.

    `accuracy` is the share of the true best k that must be found in the mean (0.95 if nothing is said), `acceptance`
    the share of queries whose worst suggestion must be one of the true best `n_th`; `latency_ms` what one query may
    take, on one thread. After so many `seconds` nothing new is begun, and the best so far is kept. `structures` are
    those to try, all by default; the exact scan is always one of them.
    """
    if accuracy is None and acceptance is None:
        accuracy = ACCURACY
    target = Target(accuracy, acceptance, latency_ms, k, n_th)
    _check(target, seconds, len(vectors))
    known = [EXACT, *GRIDS, REDUCED]
    for name in structures or ():
        if name not in known:
            raise InvalidParameterError(f"there is no structure {name!r} to try; expected some of {', '.join(known)}")
    vectors, queries = contiguous(vectors, np.float32), contiguous(queries, np.float32)
    if queries.ndim != 2 or len(queries) < 2:
        raise InvalidParameterError(f"there are {len(queries)} queries; expected at least 2, to choose and to check by")
    learning, choosing, held_out = _parts(queries, vectors, seed)
    tuner = _Tuner(vectors, learning, choosing, held_out, target, seconds, structures or (), threads, observer)
    if len(vectors):
        for design in designs(vectors, learning, k, structures=structures, seed=seed, threads=threads):
            tuner.consider(design)
    return tuner.conclude()


def _parts(queries: FloatMatrix, vectors: FloatMatrix, seed: int) -> list[FloatMatrix]:
    """Queries to learn from, to choose and to check by, none of which knows of the others where that would flatter.

    At random; no more to choose and to check by than can be answered exactly in a few seconds.
    """
    rows = generator(seed).permutation(len(queries))
    n_learning = len(rows) // 2 if vectors.shape[1] > WIDE and len(rows) >= 4 else 0
    most = max(MIN_QUERIES, int(MAX_WORK / max(vectors.size, 1)))
    rest = rows[n_learning:][:most]
    choosing, held_out = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    learning = rows[:n_learning] if n_learning else choosing
    return [contiguous(queries[part], np.float32) for part in (learning, choosing, held_out)]


@dataclass(frozen=True, eq=False)
class _Passed:
    """A setting that reaches the target on the choosing queries."""

    trial: Trial
    design: Design | None  # None for the exact scan
    effort: int
    index: Any


@dataclass(eq=False)
class _Tuner:
    """One run of the tuner: time, queries, and what has been found so far."""

    _vectors: FloatMatrix
    _learning: FloatMatrix
    choosing: InitVar[FloatMatrix]
    held_out: InitVar[FloatMatrix]
    _target: Target
    _seconds: float
    _asked_for: Sequence[str]
    _threads: int | None
    _observer: Observer

    def __post_init__(self, choosing: FloatMatrix, held_out: FloatMatrix) -> None:
        self._begun = perf_counter()
        self._exact = Exact(threads=self._threads).build(self._vectors)
        exact_seconds = perf_counter() - self._begun
        self._choosing, self._held_out = (
            Truth.of(self._exact, self._vectors, part, self._target.k) for part in (choosing, held_out)
        )
        self._trials: list[Trial] = []
        self._builds: dict[str, float] = {}  # seconds of the longest build of each structure, or what is expected
        self._is_complete = True
        self._passed: list[_Passed] = []  # the fastest that reach the target, beside the exact scan
        trial, _ = self._try(EXACT, self._exact, exact_seconds, self._choosing, QUICK)
        self._scan = _Passed(trial, None, 0, self._exact)

    def consider(self, design: Design) -> None:
        """Build it if there is time, and find the least effort that reaches the target."""
        if self._left() <= 0 or self._left() <= self._foreseen(design):
            self._is_complete = False
            return
        built = self._built(design, self._vectors)
        if built is None:
            return
        index, build_seconds = built
        self._builds[design.structure] = max(build_seconds, self._builds[design.structure])
        passed = self._least_effort(design, index, build_seconds)
        if passed is not None:  # Others would only fill the memory.
            self._passed = sorted([*self._passed, passed], key=lambda entry: -entry.trial.speedup)[:FINALISTS]

    def conclude(self) -> Tuned:
        """The fastest of the finalists, by a longer measurement on the held-out queries."""
        n_trials = len(self._trials)
        finals = [self._final(entry) for entry in (*self._passed, self._scan)]
        scan = finals[-1]
        enough = [final for final in finals if self._finds_enough(final[0])]
        best = max(enough, key=lambda final: final[0].speedup_over_exact, default=scan)
        if best[0].speedup_over_exact < NOT_WORTH_IT:
            best = scan
        nearest = None
        if not self._target.is_fast_enough(best[0]):
            # Rounding may make even the scan miss some.
            nearest, best = best[0] if self._finds_enough(best[0]) else None, scan
        trial, quality, index = best
        return Tuned(
            index=with_threads(index, self._threads),
            chosen=trial,
            curve=tuple(self._trials[:n_trials]),
            target=self._target,
            nearest=nearest,
            is_complete=self._is_complete,
            n_choosing=len(self._choosing.queries),
            n_held_out=len(self._held_out.queries),
            worst_positions=quality.worst,
            seconds=perf_counter() - self._begun,
        )

    def _final(self, entry: _Passed) -> tuple[Trial, Quality, Any]:
        """A finalist on the held-out queries; one that falls short there looks a little longer."""
        effort = entry.effort
        for _ in range(RETRIES):
            if entry.design is not None:
                entry.design.set_effort(entry.index, effort)
            trial, quality = self._try(
                entry.trial.structure, entry.index, entry.trial.build_seconds, self._held_out, LONG, batched=True
            )
            if self._finds_enough(trial):
                break
            effort = ceil(LONGER * effort)
        return trial, quality, entry.index

    def _finds_enough(self, trial: Trial) -> bool:
        """Whether the target is reached, however long it takes."""
        return replace(self._target, latency_ms=None).is_reached_by(trial)

    def _foreseen(self, design: Design) -> float:
        """The seconds that a build will take, about: as long as another of the structure, or as a part of it tells."""
        if design.structure not in self._builds:
            self._builds[design.structure] = 0.0
            if design.is_slow and len(self._vectors) >= LARGE:
                built = self._built(design, self._vectors[::PART])
                self._builds[design.structure] = 0.0 if built is None else PART * built[1]
        return self._builds[design.structure]

    def _built(self, design: Design, vectors: FloatMatrix) -> tuple[Index, float] | None:
        """The index and the seconds it takes; None if it needs what is not installed, and it was not asked for."""
        try:
            return design.build(vectors, self._learning)
        except MissingExtraError:
            # Who asks for reductions does not ask for all that could be built over them.
            if design.structure.split()[-1] in self._asked_for:
                raise
            return None

    def _least_effort(self, design: Design, index: Any, build_seconds: float) -> _Passed | None:
        """The least effort that is enough: by doubling, then by halving what is between too little and enough."""
        too_little, effort, passed = design.least - 1, design.least, None
        while passed is None or (passed.effort - too_little > 1 and passed.effort > CLOSE * too_little):
            if self._left() <= 0:
                self._is_complete = False
                break
            design.set_effort(index, effort)
            trial, quality = self._try(design.structure, index, build_seconds, self._choosing, QUICK)
            if self._is_enough(quality):
                passed = _Passed(trial, design, effort, index)
            else:
                too_little = effort
                if passed is None and (effort >= len(self._vectors) or self._is_hopeless(trial)):
                    break
            effort = 2 * effort if passed is None else (too_little + passed.effort) // 2
        return passed

    def _is_hopeless(self, trial: Trial) -> bool:
        """Whether one that does not find enough is already too slow."""
        fastest = max(entry.trial.speedup for entry in (*self._passed, self._scan))
        return trial.speedup_over_exact < HOPELESS or trial.speedup < HOPELESS * fastest

    def _try(
        self, structure: str, index: Index, build_seconds: float, truth: Truth, share: float, *, batched: bool = False
    ) -> tuple[Trial, Quality]:
        quality = truth.judge(index.search(truth.queries, self._target.k).items)
        measured = (index, self._exact, self._vectors, truth.queries, self._target.k, share * self._seconds)
        timing, batch = time_single(*measured), time_batch(*measured) if batched else None
        trial = Trial(
            structure=structure,
            description=index.description,
            parameters=described(index)["parameters"],
            accuracy=quality.accuracy,
            acceptance=quality.acceptance(self._target.n_th),
            worst=int(quality.worst.max()),
            worst_99=int(np.quantile(quality.worst, 0.99, method="higher")),
            **vars(timing),
            build_seconds=build_seconds,
            n_bytes=index.n_bytes,
            batched_speedup=None if batch is None else batch.speedup,
            batched_speedup_over_exact=None if batch is None else batch.speedup_over_exact,
        )
        self._trials.append(trial)
        total = max(1, round(self._seconds))
        step = min(total, round(perf_counter() - self._begun))
        self._observer(Progress("indexing", step, total, {"accuracy": trial.accuracy, "speed-up": trial.speedup}))
        return trial, quality

    def _is_enough(self, quality: Quality) -> bool:
        """Whether the target is reached with a margin: of the least that do, some are only lucky with these queries."""
        accepted = (quality.worst <= self._target.n_th).astype(np.float64)
        wanted = ((self._target.accuracy, quality.accuracies), (self._target.acceptance, accepted))
        return all(least is None or values.mean() >= least + _margin(values, least) for least, values in wanted)

    def _left(self) -> float:
        """Seconds, less what the finalists will take."""
        return self._seconds * (1 - 2 * LONG * (FINALISTS + 1)) - (perf_counter() - self._begun)


def _margin(values: Any, least: float) -> float:
    """Some standard errors, but no more than half the way to finding everything."""
    return min(MARGIN * float(values.std()) / sqrt(len(values)), (1 - least) / 2)


def _check(target: Target, seconds: float, n_items: int) -> None:
    for name, share in (("accuracy", target.accuracy), ("acceptance", target.acceptance)):
        if share is not None and not (_is_number(share) and 0 < share <= 1):
            raise InvalidParameterError(f"{name} is {share!r}; expected a number above 0 and up to 1, such as 0.95")
    for name, amount in (("latency_ms", target.latency_ms), ("seconds", seconds)):
        if amount is not None and not (_is_number(amount) and amount > 0):
            raise InvalidParameterError(f"{name} is {amount!r}; expected a number above 0")
    check_number("k", target.k)
    check_number("n_th", target.n_th)
    # No list of k items can have it: the last of more than `n_th` is not one of the best.
    if target.acceptance is not None and min(target.k, n_items) > target.n_th:
        raise InvalidParameterError(
            f"k is {target.k}, and acceptance asks for the true best {target.n_th} only, which no list of that length "
            f"can keep to; expected k of at most {target.n_th}, or an accuracy instead of the acceptance"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


EXACT, REDUCED = "exact", "reduced"
WIDE = 32  # coordinates: with more, a few stand for all
# How many coordinates, and times k how many of what they find is put in order by all.
REDUCTIONS = ((20, 2), (20, 5), (32, 2), (32, 5), (12, 10), (48, 10))


@dataclass(frozen=True)
class Grid:
    """How a structure is built, and how its searches are made to look longer.

    To have another structure tried, give it a line in GRIDS. Vectors of many coordinates, such as stacked draws of a
    posterior, are searched in a few that stand for all, by every structure.
    """

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
    prototype: Any  # what it will be, without anything learned
    effort: str
    least: int
    is_slow: bool = False  # whether it is worth finding out how long a build will take before it is begun
    shared: SharedReductions | None = None  # for a structure over a reduction

    def build(self, vectors: FloatMatrix, queries: FloatMatrix) -> tuple[Index, float]:
        """Over these vectors, for queries like these; and the seconds that it takes."""
        index = unbuilt(self.prototype)
        if self.shared is not None:
            return self.shared.build(index, vectors, queries)
        begun = perf_counter()
        return index.build(vectors), perf_counter() - begun

    def set_effort(self, index: Any, value: int) -> None:
        """Make the next searches look so long."""
        *outer, name = self.effort.split(".")
        for part in outer:
            index = getattr(index, part)
        setattr(index, name, value)


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
    in_turn = chain.from_iterable(zip_longest(*(_plain(name, len(vectors), seed, threads) for name in GRIDS)))
    plain = [design for design in in_turn if design is not None]
    common = {"seed": seed, "threads": threads}
    found = plain
    if vectors.shape[1] > WIDE:
        found = [*_whitened(plain, k, **common), *plain]
    elif 0 < np.count_nonzero(np.ptp(queries, axis=0)) < vectors.shape[1]:  # else all or nothing would be left out
        found = [*plain, *_inside(plain, SharedReductions(), reduction="unbiased", candidates=5 * k, **common)]
    return [design for design in found if structures is None or set(design.structure.split()) & set(structures)]


def _plain(name: str, n_items: int, seed: int, threads: int | None) -> list[Design]:
    grid, structure = GRIDS[name], structure_type(name)
    common: dict[str, Any] = {"threads": threads}
    if any(field.name == "seed" for field in fields(structure)):
        common["seed"] = seed
    indexes = (structure(**options, **common) for options in grid.options(n_items))
    return [Design(name, index, grid.effort, grid.least, grid.is_slow) for index in indexes]


def _whitened(plain: list[Design], k: int, **common: Any) -> Iterator[Design]:
    """A scan of few coordinates, which obeys the number of candidates; then structures over them."""
    scan, shared = Design(EXACT, Exact(), "", 0), SharedReductions()
    for n_coordinates, times in REDUCTIONS:
        first, *others = _inside([scan, *plain], shared, n_coordinates=n_coordinates, candidates=times * k, **common)
        yield replace(first, effort="candidates", least=k)
        yield from others


def _inside(plain: list[Design], shared: SharedReductions, **options: Any) -> list[Design]:
    """The same structures, each over a reduction of the vectors."""

    def inside(one: Design) -> Design:
        name, effort = f"{REDUCED} {one.structure}", f"inner.{one.effort}"
        index = Reduced(inner=one.prototype, **options)
        return replace(one, structure=name, prototype=index, effort=effort, shared=shared)

    return [inside(one) for one in plain]
