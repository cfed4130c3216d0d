"""Synthetic ratings with the shape of Netflix: seconds and memory for 1M, 10M and 100M of them.

`tastespace.synthetic("netflix", scale=...)`, without and with times, each in a process of its own: wall-clock and
processor seconds of the call, and the most memory the process has ever held, imports included, by getrusage. After
that, outside the measured time, every pair is checked to occur once, and Gini coefficients are taken. The digest of all
arrays must be the same for one thread and for all.
"""

from __future__ import annotations

import hashlib
from typing import Any

import harness
import numpy as np

from tastespace import synthetic, threads
from tastespace.data.ratings import Ratings
from tastespace.data.shapes import SHAPES, gini

SIZES = (1e6, 1e7, float(SHAPES["netflix"].n_ratings))
MOST_SECONDS, MOST_MEMORY = 120.0, 4.0


def measure_size(n_ratings: float, times: bool, n_threads: int) -> dict[str, Any]:
    """One call: seconds, memory, and what came out."""
    found: list[Ratings] = []
    scale = n_ratings / SHAPES["netflix"].n_ratings
    wall, processor = harness.measure(
        lambda: found.append(synthetic("netflix", scale=scale, times=times, seed=0, threads=n_threads))
    )
    memory = harness.peak_memory()
    ratings = found[0]
    by_user, by_item = np.bincount(ratings.user_rows), np.bincount(ratings.item_rows)
    return {
        "n_ratings": len(ratings),
        "n_users": ratings.n_users,
        "n_items": ratings.n_items,
        "times": times,
        "threads": n_threads,
        "seconds": wall,
        "seconds_processor": processor,
        "peak_memory_gb": memory,
        "repeated_pairs": repeated_pairs(ratings),
        "fewest": [int(by_user.min()), int(by_item.min())],
        "median": [float(np.median(by_user)), float(np.median(by_item))],
        "most": [int(by_user.max()), int(by_item.max())],
        "gini": [gini(by_user), gini(by_item)],
        "digest": digest(ratings),
    }


def repeated_pairs(ratings: Ratings) -> int:
    """How many pairs occur again, counted from the grouping by user, in which items ascend."""
    grouped = ratings.by_user
    same = grouped.columns[1:] == grouped.columns[:-1]
    same[grouped.offsets[1:-1] - 1] = False  # the last of a user and the first of the next
    return int(same.sum())


def digest(ratings: Ratings) -> str:
    arrays = [ratings.user_rows, ratings.item_rows, ratings.values]
    arrays += [] if ratings.times is None else [ratings.times]
    together = hashlib.sha256()
    for array in arrays:
        together.update(array.data if array.dtype.kind != "M" else array.view(np.int64).data)
    return together.hexdigest()


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    sizes = SIZES[:2] if options.quick else SIZES
    n_threads = threads.available()
    plans = [(size, times, n_threads) for size in sizes for times in (False, True)] + [(sizes[-1], False, 1)]
    found = [harness.in_fresh_process(plan[2], measure_size, *plan) for plan in plans]
    columns = {
        "ratings": "n_ratings",
        "users": "n_users",
        "items": "n_items",
        "times": "times",
        "threads": "threads",
        "s (wall)": "seconds",
        "s (cpu)": "seconds_processor",
        "peak GB": "peak_memory_gb",
        "repeated": "repeated_pairs",
        "Gini (users, items)": "gini",
    }
    shown = [{**row, "gini": ", ".join(f"{value:.3f}" for value in row["gini"])} for row in found]
    print(harness.markdown(list(columns), [[row[key] for key in columns.values()] for row in shown]))
    largest = [row for row in found if row["n_ratings"] == found[-1]["n_ratings"]]
    same = len({row["digest"] for row in largest if not row["times"]}) == 1
    verdicts = [
        harness.verdict(
            "seconds for 100M, the slowest", max(row["seconds"] for row in largest), MOST_SECONDS, at_most=True
        ),
        harness.verdict(
            "GB for 100M, the most", max(row["peak_memory_gb"] for row in largest), MOST_MEMORY, at_most=True
        ),
        harness.verdict("repeated pairs", sum(row["repeated_pairs"] for row in found), 0, at_most=True),
        harness.verdict("the same bytes for any threads", float(same), 1),
    ]
    harness.save("shapes", {"protocol": __doc__, "sizes": found, "verdicts": verdicts}, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
