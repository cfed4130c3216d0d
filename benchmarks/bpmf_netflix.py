"""BPMF on ratings with the shape of Netflix: seconds a sweep and memory at D = 20 and 50, two threads.

`tastespace.synthetic("netflix")`: 480 189 users, 17 770 items, 100M ratings; with fewer ratings users shrink in
proportion and items with the root. Each fit is in a process of its own: two sweeps of warm-up and four draws of one
chain from a random start, everything else at its default, biases off and on. A sweep is the median of the times between
its ends, wall clock; the peak of memory is that of the whole process, the making of the ratings included. Two chains,
as by default, run side by side on a thread each; their sweep is the time over the sweeps of both together. A longer run
holds no more but its draws: "full run" adds those of the default schedule to the peak.

Fraccaro (2014) had 31 s at D = 20 and 62 s at D = 50 on 8 workers, on the real ratings. The prototype had 3.5 and 7.9 s
here, without biases.

Linearity: seconds of a sweep from 1M to 100M ratings, and seconds of a whole fit of 1M ratings by the number of draws.
"""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any

import harness
import numpy as np

import tastespace as ts
from tastespace.data.shapes import SHAPES
from tastespace.errors import ConvergenceWarning
from tastespace.progress import Progress

THREADS = 2
LARGEST = SHAPES["netflix"].n_ratings
SIZES = (1e6, 1e7, LARGEST)
WARMUP, DRAWS = 2, 4
SEED_SECONDS = {20: 31.0, 50: 62.0}  # Fraccaro 2014, 8 workers
PROTOTYPE_SECONDS = {20: 3.5, 50: 7.9}
MOST_MEMORY = 4.0
DRAW_COUNTS = (10, 50, 150)
NOT_LINEAR = 1.25  # seconds a draw may differ by so much between the fewest and the most


class Clock:
    """An observer that notes when each sweep ended, by the wall and by the processor."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, float]] = []

    def __call__(self, progress: Progress) -> None:
        self.ends.append((time.perf_counter(), time.process_time()))

    def sweeps(self, chains: int) -> harness.Timing:
        """Seconds from the end of a sweep to the end of the next; over their number, of chains side by side."""
        wall, processor = np.diff(np.array(self.ends[chains - 1 :: chains]), axis=0).T / chains
        return harness.Timing(wall.tolist(), processor.tolist())


def fit(ratings: ts.Ratings, n_factors: int, draws: int, *, biases: bool, chains: int = 1) -> Clock:
    clock = Clock()
    model = ts.BPMF(
        n_factors=n_factors,
        chains=chains,
        warmup=WARMUP,
        draws=draws,
        thin=1,
        biases=biases,
        start="random",
        seed=0,
        threads=THREADS,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so few sweeps are no posterior
        model.fit(ratings, observer=clock)
    return clock


def made(n_ratings: float) -> ts.Ratings:
    return ts.synthetic("netflix", scale=n_ratings / LARGEST, seed=0, threads=THREADS)


def measure_sweeps(n_ratings: float, n_factors: int, biases: bool, chains: int) -> dict[str, Any]:
    """A short fit: seconds a sweep, memory."""
    ratings = made(n_ratings)
    before = harness.peak_memory()
    start = time.perf_counter()
    sweeps = fit(ratings, n_factors, DRAWS, biases=biases, chains=chains).sweeps(chains)
    seconds = statistics.median(sweeps.wall)
    peak, default = harness.peak_memory(), ts.BPMF()
    n_draws = default.chains * default.draws - chains * DRAWS
    return {
        "n_ratings": len(ratings),
        "n_users": ratings.n_users,
        "n_items": ratings.n_items,
        "n_factors": n_factors,
        "biases": biases,
        "chains": chains,
        "seconds_a_sweep": seconds,
        "seconds_a_sweep_least": min(sweeps.wall),
        "seconds_a_sweep_processor": statistics.median(sweeps.processor),
        "ns_a_rating": 1e9 * seconds / len(ratings),
        "sweeps": sweeps.summary(),
        "fit_seconds": time.perf_counter() - start,
        "peak_memory_before_gb": before,
        "peak_memory_gb": peak,
        "full_run_gb": peak + 4e-9 * n_draws * ratings.n_items * (n_factors + biases),
    }


def measure_draws(n_ratings: float, rounds: int) -> dict[int, harness.Timing]:
    """Whole fits by the number of draws, taking turns."""
    ratings = made(n_ratings)
    functions = {str(draws): lambda draws=draws: fit(ratings, 20, draws, biases=True) for draws in DRAW_COUNTS}
    return {int(draws): timing for draws, timing in harness.alternate(functions, rounds).items()}


def further_draws(by_draws: dict[int, harness.Timing]) -> list[float]:
    """Processor seconds that each further draw takes, from each number of draws to the next."""
    steps = zip(DRAW_COUNTS[:-1], DRAW_COUNTS[1:], strict=True)
    return [statistics.median(by_draws[more].minus(by_draws[fewer], more - fewer).processor) for fewer, more in steps]


def sweep_verdicts(found: list[dict[str, Any]]) -> list[str]:
    """The prototype's seconds without biases; memory of the run that is the default."""
    lines = []
    for row in found:
        name = f"D = {row['n_factors']}, {row['n_ratings']:,} ratings"
        if not row["biases"]:
            most = PROTOTYPE_SECONDS[row["n_factors"]]
            lines.append(harness.verdict(f"seconds a sweep, {name}", row["seconds_a_sweep"], most, at_most=True))
        if row["chains"] > 1:
            lines.append(harness.verdict(f"GB of a full run, {name}", row["full_run_gb"], MOST_MEMORY, at_most=True))
    return lines


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    sizes = SIZES[:2] if options.quick else SIZES
    plans = [(sizes[-1], n_factors, *how) for n_factors in SEED_SECONDS for how in ((False, 1), (True, 1), (True, 2))]
    plans += [(size, 20, True, 1) for size in sizes[:-1]]
    found = [harness.in_fresh_process(THREADS, measure_sweeps, *plan) for plan in plans]
    columns = {
        "ratings": "n_ratings",
        "users": "n_users",
        "items": "n_items",
        "D": "n_factors",
        "biases": "biases",
        "chains": "chains",
        "s a sweep": "seconds_a_sweep",
        "least": "seconds_a_sweep_least",
        "s a sweep (cpu)": "seconds_a_sweep_processor",
        "ns a rating": "ns_a_rating",
        "fit s": "fit_seconds",
        "peak GB before": "peak_memory_before_gb",
        "peak GB": "peak_memory_gb",
        "full run GB": "full_run_gb",
    }
    print(f"\n## Seconds a sweep and memory, shape of Netflix, {THREADS} threads, wall clock\n")
    print(harness.markdown(list(columns), [[row[key] for key in columns.values()] for row in found]), flush=True)
    by_draws = harness.in_fresh_process(THREADS, measure_draws, SIZES[0], options.rounds)
    print("\n## Seconds of a fit by draws, 1M ratings, D = 20\n")
    print(harness.markdown(["draws", *harness.COLUMNS], [[draws, *row.cells()] for draws, row in by_draws.items()]))
    slopes = further_draws(by_draws)
    largest = [row for row in found if row["n_ratings"] == found[0]["n_ratings"]]
    verdicts = sweep_verdicts(largest)
    verdicts.append(
        harness.verdict("seconds of a further draw, last / first", slopes[-1] / slopes[0], NOT_LINEAR, at_most=True)
    )
    result = {
        "protocol": __doc__,
        "threads": THREADS,
        "seed_seconds": SEED_SECONDS,
        "prototype_seconds": PROTOTYPE_SECONDS,
        "fits": found,
        "by draws": {draws: timing.summary() for draws, timing in by_draws.items()},
        "verdicts": verdicts,
    }
    harness.save("bpmf_netflix", result, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
