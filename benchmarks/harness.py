"""What the benchmarks share: alternating runs, processes with a fixed number of threads, tables and results.

Times on a shared machine mean little alone. Competitors therefore take turns within one run, and what
counts is the ratio: the median over the rounds of (competitor's time / our time in the same round). One
thread against one is compared in processor seconds, which leave out the time given to other programs;
several in wall-clock seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "LK_NUM_THREADS")
# Libraries that run threads of their own over BLAS calls want a BLAS of one thread: with two, implicit warns
# of "severe performance issues" and takes about three times as long. So this is the peers' best.
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LK_NUM_BACKEND_THREADS")
COLUMNS = ("median s (cpu)", "least s (cpu)", "median s (wall)", "least s (wall)")
PACKAGES = (
    "tastespace",
    "numpy",
    "polars",
    "pyarrow",
    "duckdb",
    "cmfrec",
    "cornac",
    "scikit-surprise",
    "lenskit",
    "implicit",
    "smurff",
    "myfm",
    "torch",
    "scipy",
)


@dataclass
class Timing:
    """Wall-clock and processor seconds of one competitor, one entry a round."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def minus(self, other: Timing, divisor: float = 1.0) -> Timing:
        """The difference round by round: n2 sweeps less n1 sweeps is n2 - n1 sweeps without the set-up."""
        return Timing(
            [(a - b) / divisor for a, b in zip(self.wall, other.wall, strict=True)],
            [(a - b) / divisor for a, b in zip(self.processor, other.processor, strict=True)],
        )

    def times(self, ours: Timing, clock: str = "processor") -> float:
        """How many times as long as ours: the median of the rounds' ratios."""
        pairs = zip(getattr(self, clock), getattr(ours, clock), strict=True)
        return statistics.median(a / b for a, b in pairs)

    def times_least(self, ours: Timing, clock: str = "wall") -> float:
        """The same of the fastest rounds: for several threads, which a busy machine delays in most rounds."""
        return min(getattr(self, clock)) / min(getattr(ours, clock))

    def cells(self) -> list[float]:
        """The figures of a table's row, under COLUMNS."""
        clocks = (self.processor, self.wall)
        return [pick(seconds) for seconds in clocks for pick in (statistics.median, min)]

    def summary(self) -> dict[str, Any]:
        figures = dict(zip(COLUMNS, self.cells(), strict=True))
        return {**figures, "wall": self.wall, "processor": self.processor}


def measure(function: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock and processor seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


def alternate(functions: Mapping[str, Callable[[], Any]], rounds: int, *, warm_up: bool = True) -> dict[str, Timing]:
    """Let the functions take turns, in reversed order every other round: none has the better place."""
    if warm_up:
        for function in functions.values():
            function()
    timings = {name: Timing() for name in functions}
    for turn in range(rounds):
        for name in list(functions)[:: 1 if turn % 2 == 0 else -1]:
            wall, processor = measure(functions[name])
            timings[name].wall.append(wall)
            timings[name].processor.append(processor)
    return timings


def in_fresh_process(threads: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a module-level function in a new interpreter where every library is told to use so many threads.

    BLAS, OpenMP, polars and LensKit read their settings once, on import; hence a process of its own.
    """
    settings = dict.fromkeys(THREAD_VARIABLES, str(threads)) | dict.fromkeys(BLAS_VARIABLES, "1")
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(function, *arguments).result()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def peak_memory() -> float:
    """The most memory this process has held, in GB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    from tastespace import _native

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "instruction_set": _native.instruction_set(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A markdown table; floats with three significant digits or so."""
    cells = [list(columns)] + [[_text(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    lines = ["| " + " | ".join(row) + " |" for row in padded]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def verdict(name: str, figure: float, target: float, *, at_most: bool = False) -> str:
    """One line: is the target met?"""
    met = figure <= target if at_most else figure >= target
    wanted = f"target {'<=' if at_most else '>='} {target:g}"
    return f"{'met   ' if met else 'MISSED'} {name}: {_text(figure)} ({wanted})"


def save(name: str, result: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Keep a result, with the machine's description, as benchmarks/results/<name>.json; not a quick one."""
    if options.quick:
        return
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine(), **result}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def arguments(description: str | None, **more: dict[str, Any]) -> argparse.Namespace:
    """The options every benchmark has, and those of one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("TASTESPACE_DATA"),
        help="folder of the data sets (default: TASTESPACE_DATA)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often the competitors take turns")
    parser.add_argument("--quick", action="store_true", help="a smaller run that shows that everything works")
    for option, settings in more.items():
        parser.add_argument(f"--{option.replace('_', '-')}", **settings)
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds = min(chosen.rounds, 2)
    return chosen


def answer(questions: Mapping[str, Callable[[argparse.Namespace], list[str]]], description: str) -> None:
    """What a benchmark of several questions does: ask each, or the one that --only names, and print the verdicts."""
    options = arguments(description, only={"choices": tuple(questions), "help": "one of the questions alone"})
    asked = [options.only] if options.only else list(questions)
    verdicts = [line for name in asked for line in questions[name](options)]
    print("\n" + "\n".join(verdicts))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if value < 1 else f"{value:.3g}" if value < 100 else f"{value:.0f}"
    return str(value)
