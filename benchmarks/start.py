"""How quickly tastespace starts, as a ratio to `import numpy, polars` in the same run.

    python benchmarks/start.py [--runs 10]

Each contender is a fresh process; they take turns, and the figure is the ratio of the medians. Run it with the Python
of an environment where tastespace was installed from a wheel: an editable install looks for changed kernels at every
start.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

PAIR = "import numpy, polars"
FIRST_LIST = """
import numpy as np
import tastespace as ts
rng = np.random.default_rng(0)
pairs = rng.choice(100 * 80, 1000, replace=False)
ratings = ts.Ratings.from_arrays(pairs // 80, pairs % 80, rng.integers(1, 6, 1000).astype(float))
ts.ALS(seed=0).fit(ratings).recommend([1], 5)
"""
VERB = "import sys; sys.argv = ['tastespace', {!r}]; from tastespace.cli.main import run; run()"
CONTENDERS = {
    PAIR: (PAIR, None),
    "import tastespace": ("import tastespace", 1.3),
    "fit als on 1 000 ratings, one list": (FIRST_LIST, 1.8),
    "tastespace --version": (VERB.format("--version"), 0.6),
    "tastespace --help": (VERB.format("--help"), 1.2),
}


def seconds(code: str) -> float:
    """The time of a fresh process."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    taken: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for run in range(runs + 1):
        for name, (code, _) in CONTENDERS.items():
            spent = seconds(code)
            if run:  # The first compiles to bytecode and fills the cache of the disk.
                taken[name].append(spent)
    pair = statistics.median(taken[PAIR])
    for name, (_, limit) in CONTENDERS.items():
        median = statistics.median(taken[name])
        goal = "" if limit is None else f"  (goal {limit})"
        print(f"{name:38} {1000 * median:7.0f} ms  {median / pair:5.2f}{goal}")


if __name__ == "__main__":
    main()
