"""The row kernel from 1M to 100M ratings: ns a rating and memory, D = 32, float32, one and two threads.

Synthetic ratings with the shape of Netflix, `tastespace.synthetic("netflix", scale=...)`: 477 893 x 17 727 at
100M; with fewer ratings users shrink in proportion (the ratings a user stay the same) and items with the root.
Each size runs in a process of its own and takes turns with 1M ratings there, so that the ratio to 1M is of the
same minutes. A sweep solves the items and then the users, each with bias: what tastespace.ALS does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness
import numpy as np

from tastespace import synthetic
from tastespace.data.csr import CSR
from tastespace.data.shapes import SHAPES
from tastespace.models.factorization.als.sweep import Penalty, Strengths, Weighting
from tastespace.models.factorization.rows import Factors, RatingBlock, solve_rows

LARGEST, SMALLEST = 100e6, 1e6
N_FACTORS = 32
TARGET = 2.0


class Problem:
    """Random ratings in both groupings, and a sweep over them."""

    def __init__(self, n_ratings: int) -> None:
        rng = np.random.default_rng(0)
        ratings = synthetic("netflix", scale=n_ratings / SHAPES["netflix"].n_ratings, seed=0)
        n_users, n_items = ratings.n_users, ratings.n_items
        self.n_ratings = len(ratings)
        # The ratings of a user stand together already: no need for a copy to group them.
        offsets = np.searchsorted(ratings.user_rows, np.arange(n_users + 1, dtype=np.int32)).astype(np.int64)
        unordered = CSR(offsets, ratings.item_rows, ratings.values - np.float32(ratings.mean))
        del ratings
        by_item = unordered.transposed(n_items)
        del unordered
        by_user = by_item.transposed(n_users)  # its columns ascend, as those of Ratings do
        penalty = Penalty(Strengths.tied(0.05), Weighting(per_rating=1.0, base=100.0))
        self.by_user = RatingBlock(by_user.offsets, by_user.columns, by_user.values)
        self.by_item = RatingBlock(by_item.offsets, by_item.columns, by_item.values)
        self.user_prior = penalty.prior("users", N_FACTORS, by_user.counts, np.float32)
        self.item_prior = penalty.prior("items", N_FACTORS, by_item.counts, np.float32)
        factors = rng.standard_normal((n_users, N_FACTORS), np.float32) * np.float32(0.1)
        self.users = Factors(factors, np.zeros(n_users, np.float32))
        self.items = self.solve_items(1)

    def solve_items(self, threads: int) -> Factors:
        return solve_rows(self.by_item, self.users, self.item_prior, name="item", threads=threads).points

    def solve_users(self, threads: int) -> Factors:
        return solve_rows(self.by_user, self.items, self.user_prior, name="user", threads=threads).points


def measure_size(n_ratings: int, rounds: int) -> dict[str, Any]:
    """Half-sweeps at this size and at 1M, taking turns; ns a rating."""
    problem = Problem(n_ratings)
    reference = Problem(int(SMALLEST))

    def repeated(function: Callable[[int], Any], threads: int, times: int) -> Callable[[], Any]:
        return lambda: [function(threads) for _ in range(times)]

    again = max(1, int(10e6 / n_ratings))  # small problems several times, to be measured over a second or so
    functions = {}
    for threads in (1, 2):
        functions[f"items/{threads}"] = repeated(problem.solve_items, threads, again)
        functions[f"users/{threads}"] = repeated(problem.solve_users, threads, again)
    functions["items/reference"] = repeated(reference.solve_items, 1, 10)
    functions["users/reference"] = repeated(reference.solve_users, 1, 10)
    timings = harness.alternate(functions, rounds, warm_up=False)

    def nanoseconds(which: str, clock: str) -> np.ndarray:
        n = 10 * SMALLEST if which == "reference" else again * n_ratings
        return 1e9 / n * np.array([getattr(timings[f"{side}/{which}"], clock) for side in ("items", "users")])

    one, reference_one = nanoseconds("1", "processor"), nanoseconds("reference", "processor")
    one_wall, two_wall = nanoseconds("1", "wall"), nanoseconds("2", "wall")
    return {
        "n_ratings": n_ratings,
        "n_users": len(problem.by_user.offsets) - 1,
        "n_items": len(problem.by_item.offsets) - 1,
        "items_ns": float(np.median(one[0])),
        "users_ns": float(np.median(one[1])),
        "sweep_ns": float(np.median(one.sum(0))),
        "sweep_ns_least": float(one.sum(0).min()),
        "two_threads_ns_wall": float(np.median(two_wall.sum(0))),
        "two_threads_ns_processor": float(np.median(nanoseconds("2", "processor").sum(0))),
        "two_threads_ns_wall_least": float(two_wall.sum(0).min()),
        "two_threads_speedup": float(one_wall.sum(0).min() / two_wall.sum(0).min()),
        "times_1M": float(np.median(one.sum(0) / reference_one.sum(0))),
        "seconds_a_sweep": float(np.median(one.sum(0)) * n_ratings / 1e9),
        "peak_memory_gb": harness.peak_memory(),
        "arrays_gb": 2 * (8 * n_ratings) / 1e9,
    }


def main() -> None:
    options = harness.arguments(
        __doc__.splitlines()[0],
        largest={"type": float, "default": LARGEST, "help": "the largest number of ratings (default: 100e6)"},
    )
    largest = 1e7 if options.quick else options.largest
    sizes = [int(size) for size in (1e6, 1e7, 1e8) if size <= largest] or [int(largest)]
    found = [harness.in_fresh_process(1, measure_size, size, options.rounds) for size in sizes]
    print(f"\n## ns a rating a sweep (both sides), D = {N_FACTORS}, float32, processor time of one thread\n")
    columns = {
        "ratings": "n_ratings",
        "users": "n_users",
        "items": "n_items",
        "item half": "items_ns",
        "user half": "users_ns",
        "sweep": "sweep_ns",
        "least": "sweep_ns_least",
        "x 1M": "times_1M",
        "s a sweep": "seconds_a_sweep",
        "2 threads (wall)": "two_threads_ns_wall_least",
        "x 1 thread": "two_threads_speedup",
        "peak GB": "peak_memory_gb",
    }
    print(harness.markdown(list(columns), [[row[key] for key in columns.values()] for row in found]))
    name = f"ns a rating at {sizes[-1]:.0e} / at 1M"
    line = harness.verdict(name, found[-1]["times_1M"], TARGET, at_most=True)
    result = {"protocol": __doc__, "rounds": options.rounds, "sizes": found, "verdicts": [line]}
    harness.save("scaling", result, options)
    print("\n" + line)


if __name__ == "__main__":
    main()
