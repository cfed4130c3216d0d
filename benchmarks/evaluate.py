"""Full ranking evaluation of all users of MovieLens 1M: seconds and memory of `evaluate` alone, ALS with D = 32.

Split 90:10, seed 0. The model is fitted and saved beforehand. A fresh process on two threads loads it and the test
ratings, and calls `evaluate` with everything it does by default: RMSE and MAE with groups, lists of 5, 10 and 20 out
of all unseen items of every user, AUC over all unseen items, 1000 bootstrap resamples of every measure. The peak of
memory is that of the whole process: interpreter, libraries, model and ratings included. "before" is the peak just
before the first evaluation. `compare` is the paired test of all measures against popularity, 10 000 resamples.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import harness
import movielens

import tastespace as ts

N_FACTORS, THREADS = 32, 2
MOST_SECONDS, MOST_MEMORY = 20.0, 1.0


def prepare(data: Path | None, folder: Path) -> None:
    """Fit two models and keep them, with the test ratings, for a process of their own."""
    split = movielens.split(data)
    als = ts.ALS(n_factors=N_FACTORS, regularization=0.05, sweeps=10, seed=0, threads=THREADS).fit(split.train)
    ts.save(als, folder / "als")
    ts.save(ts.Popular().fit(split.train), folder / "popular")
    split.test.to_polars().write_parquet(folder / "test.parquet")


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Time and memory of evaluations in this process."""
    test = ts.read(folder / "test.parquet")
    als, popular = (ts.load(folder / name).set_params(threads=THREADS) for name in ("als", "popular"))
    before = harness.peak_memory()
    report = ts.evaluate(als, test)
    after = harness.peak_memory()
    other = ts.evaluate(popular, test)
    work = {
        "evaluate": lambda: ts.evaluate(als, test),
        "without intervals": lambda: ts.evaluate(als, test, bootstrap=0),
        "predicted ratings only": lambda: ts.evaluate(als, test, ranking=False),
        "compare": lambda: ts.compare_reports(report, other),
    }
    timings = harness.alternate(work, rounds)
    return {
        "timings": timings,
        "memory before": before,
        "memory": after,
        "report": report.to_dict(),
        "users": report.lists.users,
        "table": report.table(),
    }


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    with tempfile.TemporaryDirectory() as name:
        harness.in_fresh_process(THREADS, prepare, options.data, Path(name))
        found = harness.in_fresh_process(THREADS, measure, Path(name), options.rounds)
    timings = found["timings"]
    print(found["table"])
    print(f"\n## Evaluation of {found['users']} users of ml-1m, D = {N_FACTORS}, {THREADS} threads\n")
    print(harness.markdown(["", *harness.COLUMNS], [[name, *timing.cells()] for name, timing in timings.items()]))
    print(f"\npeak of memory: {found['memory']:.2f} GB (before: {found['memory before']:.2f} GB)")
    seconds = sorted(timings["evaluate"].wall)[len(timings["evaluate"].wall) // 2]
    verdicts = [
        harness.verdict("seconds of a full evaluation", seconds, MOST_SECONDS, at_most=True),
        harness.verdict("peak of memory in GB", found["memory"], MOST_MEMORY, at_most=True),
    ]
    harness.save(
        "evaluate",
        {
            "protocol": __doc__,
            "rounds": options.rounds,
            "seconds": {name: timing.summary() for name, timing in timings.items()},
            "peak_memory_gb": found["memory"],
            "peak_memory_before_gb": found["memory before"],
            "report": found["report"],
            "verdicts": verdicts,
        },
        options,
    )
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
