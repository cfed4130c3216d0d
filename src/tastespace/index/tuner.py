"""The tuner: finds the fastest index that reaches a target, measured on held-out queries.

Half of the queries are used to choose: the effort of every structure is raised until it reaches the target on them,
with a margin for chance. The other half gives the reported figures; a choice that falls short there gets a little more
effort, or is given up. Where structures learn from queries, as reductions of wide vectors do, they do so from a third
part, as large as the two others together. Which index is the fastest depends on the machine and the moment, so that two
runs may choose differently; an index with given parameters is always the same.
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

ACCURACY = 0.95  # the default
MAX_WORK = 2e10  # multiplications of all measured queries with all items: a few seconds
MIN_QUERIES = 100  # minimum, whatever the work
MARGIN = 2.0  # standard errors beyond the target
NOT_WORTH_IT = 1.1  # an index must be this many times faster than the exact scan, which misses nothing
HOPELESS = 0.7  # a trial this much slower than the scan, or than one that reaches the target, is stopped
CLOSE = 1.1  # efforts with a ratio below this count as equal
FINALISTS = 3
RETRIES, LONGER = 3, 1.2  # how often, and by which factor, a finalist gets more effort
LARGE, PART = 50_000, 20  # from this many items on, the build of one in this many predicts the duration of a slow build
QUICK, LONG = 0.005, 0.02  # shares of all seconds: a trial, and a finalist, for each kind of timing


@dataclass(frozen=True, eq=False)
class Tuned(StoredIndex):
    """The choice with its figures on held-out queries, and the trials on those that chose.

    `nearest` is the fastest index that found enough but took too long: then the exact scan is kept, and `reached` is
    False. `is_complete` says whether there was time for all that could be tried.
    """

    nearest: Trial | None
    is_complete: bool
    n_choosing: int
    n_held_out: int
    worst_positions: OffsetArray  # of the chosen index on the held-out queries
    seconds: float
    notes: tuple[str, ...] = ()  # facts about the queries for the report

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

    `accuracy` is the share of the true best k that must be found on average (0.95 by default), `acceptance`
    the share of queries whose worst suggestion must be one of the true best `n_th`; `latency_ms` the time that one
    query may take on one thread. After `seconds` no new trial is started, and the best so far is kept. `structures` are
    those to try, all by default; the exact scan is always one of them.
    """
    if accuracy is None and acceptance is None:
        accuracy = ACCURACY
    target = Target(accuracy, acceptance, latency_ms, k, n_th)
    _check(target, seconds, len(vectors))
    structures = None if structures is None else [_structure(name) for name in structures]
    for name in structures or ():
        if name not in STRATEGIES:
            known = ", ".join(words.replace(" ", "-") for words in STRATEGIES.values())
            raise InvalidParameterError(f"there is no structure {name!r} to try; expected some of {known}")
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
    """Disjoint parts of the queries: to learn from, to choose by and to check by.

    Parts are random, with no more queries to choose and check by than can be answered exactly in a few seconds.
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
    """One run of the tuner: time, queries, and results so far."""

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
        self._builds: dict[str, float] = {}  # seconds of the longest build of each structure, measured or expected
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
        if passed is not None:  # Keeping others would only waste memory.
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
            # Because of rounding even the scan may miss some.
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
        """Measure a finalist on the held-out queries; one that falls short there gets a little more effort."""
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
        """The approximate seconds of a build, from another build of the structure or from a build of a part."""
        if design.structure not in self._builds:
            self._builds[design.structure] = 0.0
            if design.is_slow and len(self._vectors) >= LARGE:
                built = self._built(design, self._vectors[::PART])
                self._builds[design.structure] = 0.0 if built is None else PART * built[1]
        return self._builds[design.structure]

    def _built(self, design: Design, vectors: FloatMatrix) -> tuple[Index, float] | None:
        """The index and its build time; None if it needs a missing library and was not requested explicitly."""
        try:
            return design.build(vectors, self._learning)
        except MissingExtraError:
            # A request for reductions is not one for every structure that could be built over them.
            if design.structure.split()[-1] in self._asked_for:
                raise
            return None

    def _least_effort(self, design: Design, index: Any, build_seconds: float) -> _Passed | None:
        """The least effort that is enough, by doubling and then by bisection."""
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
        """Whether a trial that does not find enough is already too slow."""
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
        """Whether the target is reached with a margin, since some would reach it by luck on these queries."""
        accepted = (quality.worst <= self._target.n_th).astype(np.float64)
        wanted = ((self._target.accuracy, quality.accuracies), (self._target.acceptance, accepted))
        return all(least is None or values.mean() >= least + _margin(values, least) for least, values in wanted)

    def _left(self) -> float:
        """The seconds left, without those for the finalists."""
        return self._seconds * (1 - 2 * LONG * (FINALISTS + 1)) - (perf_counter() - self._begun)


def _margin(values: Any, least: float) -> float:
    """A few standard errors, but no more than half of the remaining distance to 1."""
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
    # Impossible for k items: the last of more than `n_th` is never among the true best.
    if target.acceptance is not None and min(target.k, n_items) > target.n_th:
        raise InvalidParameterError(
            f"k is {target.k}, and acceptance asks for the true best {target.n_th} only, which no list of that length "
            f"can keep to; expected k of at most {target.n_th}, or an accuracy instead of the acceptance"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


EXACT, REDUCED = "exact", "reduced"
# What people read and may type, with a hyphen, in place of the names that artifacts hold.
STRATEGIES = {
    EXACT: "exact scan",
    "inverted-file": "inverted file",
    "kmeans-tree": "kmeans tree",
    "kd-forest": "kd forest",
    "graph": "neighbor graph",
    REDUCED: "reduced vectors",
}


def strategy(structure: str) -> str:
    """The name of a structure for people: "neighbor graph", "kmeans tree, reduced vectors"."""
    return ", ".join(STRATEGIES.get(part, part) for part in reversed(structure.split()))


def _structure(name: str) -> str:
    """The structure of a name for people; other names stay."""
    return {words.replace(" ", "-"): structure for structure, words in STRATEGIES.items()}.get(name, name)


WIDE = 32  # coordinates: longer vectors are reduced
# The number of coordinates, and the number of candidates, times k, that are reordered by full vectors.
REDUCTIONS = ((20, 2), (20, 5), (32, 2), (32, 5), (12, 10), (48, 10))


@dataclass(frozen=True)
class Grid:
    """How a structure is built, and which parameter sets the effort of its searches.

    To try another structure, add a line to GRIDS. Vectors of many coordinates, such as stacked draws of a posterior,
    are reduced to a few coordinates for every structure.
    """

    effort: str  # a parameter of searches that needs no rebuild: higher values find more and take longer
    options: Callable[[int], Sequence[dict[str, Any]]]  # of a number of items; the likeliest first
    least: int = 1
    is_slow: bool = False  # to build: minutes for many items


def _cells(n_items: int) -> list[dict[str, Any]]:
    """About as many cells as items per cell, or somewhat more or fewer."""
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
    prototype: Any  # the structure, with nothing learned yet
    effort: str
    least: int
    is_slow: bool = False  # whether to predict the duration of a build before starting it
    shared: SharedReductions | None = None  # for a structure over a reduction

    def build(self, vectors: FloatMatrix, queries: FloatMatrix) -> tuple[Index, float]:
        """Build the index over these vectors, for queries like these; returns it with the seconds taken."""
        index = unbuilt(self.prototype)
        if self.shared is not None:
            return self.shared.build(index, vectors, queries)
        begun = perf_counter()
        return index.build(vectors), perf_counter() - begun

    def set_effort(self, index: Any, value: int) -> None:
        """Set the effort of the next searches."""
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
    """All designs to try besides the exact scan, the best guesses first: one per structure, then the next."""
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
    """A scan of few coordinates, whose effort is the number of candidates; then structures over them."""
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
