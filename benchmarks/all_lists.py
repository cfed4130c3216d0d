"""The best 10 unseen items of all 6 040 users of MovieLens 1M, as a table: `recommend_all`, and policies.

Models are fitted on all ratings, with 32 factors where there are any. "everything" are the columns of uncertainty:
intervals and sds, and for Joint also P(chosen), P(liked) and the expected rating. implicit's `recommend(all user rows,
user_items)` takes and gives row numbers; its model has 32 factors, too, and no biases. Both leave out what a user has
rated, and have the ratings grouped by user beforehand. BLAS runs on one thread, as implicit asks for; its own threads
are as many as ours. Lists with a policy are asked for 32 users at a time, and for one.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np

import tastespace as ts
from tastespace import threads as thread_counts
from tastespace.errors import ConvergenceWarning

N_FACTORS, N_ITEMS = 32, 10
IMPLICIT = "implicit, rows only"
MOST_MS, MOST_SHOWN = 0.5, 3.0  # of joint and bpmf on two cores, and how many times as long everything may take
MOST_POLICY = 3.0  # times the default list
MOST_ONE_MS = 10.0  # of a processor, one list with everything
POLICIES = ("best", "rating", "cautious", "curious", "likely", "thompson")
AT_ONCE = 32


def fitted(data: Path | None, threads: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Models of these names, by name."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    ratings = movielens.ratings(data)
    models = {
        "als": ts.ALS(n_factors=N_FACTORS, regularization=0.05, sweeps=5, seed=0),
        "ease": ts.EASE(),
        "implicit-als": ts.ImplicitALS(n_factors=N_FACTORS, regularization=10.0, strength=10.0, sweeps=3, seed=0),
        "bpmf": ts.BPMF(n_factors=N_FACTORS, seed=0),
        "joint": ts.Joint(n_factors=N_FACTORS, seed=0),
    }
    return {name: models[name].set_params(threads=threads).fit(ratings) for name in names}


def peer(data: Path | None, threads: int) -> Callable[[], Any]:
    """implicit, ready to be asked for everybody."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    ratings = movielens.ratings(data)
    by_user, shape = ratings.by_user, (ratings.n_users, ratings.n_items)
    matrix = csr_matrix((by_user.values, by_user.columns, by_user.offsets), shape=shape, copy=True)
    model = AlternatingLeastSquares(factors=N_FACTORS, iterations=3, num_threads=threads, random_state=0)
    model.fit(matrix, show_progress=False)
    rows = np.arange(ratings.n_users)
    return lambda: model.recommend(rows, matrix, N=N_ITEMS, filter_already_liked_items=True)


def measure_lists(data: Path | None, threads: int, rounds: int) -> dict[str, harness.Timing]:
    """Seconds for all users."""
    functions = {IMPLICIT: peer(data, threads)}
    for name, model in fitted(data, threads, ("als", "ease", "implicit-als", "bpmf", "joint")).items():
        functions[name] = lambda model=model: model.recommend_all(N_ITEMS, uncertainty=False)
        if name in ("implicit-als", "bpmf", "joint"):
            functions[f"{name}, everything"] = lambda model=model: model.recommend_all(N_ITEMS)
    return harness.alternate(functions, rounds)


def lists(options: argparse.Namespace) -> list[str]:
    """Everybody's lists, one and two threads."""
    result: dict[str, Any] = {"protocol": __doc__, "rounds": options.rounds}
    verdicts = []
    for threads in (1, 2):
        timings = harness.in_fresh_process(threads, measure_lists, options.data, threads, options.rounds)
        clock = "processor" if threads == 1 else "wall"
        print(f"\n## The best {N_ITEMS} of all ml-1m users, {threads} thread(s), {options.rounds} rounds\n")
        rows = [[name, *timing.cells(), 1 / timing.times(timings[IMPLICIT], clock)] for name, timing in timings.items()]
        print(harness.markdown(["", *harness.COLUMNS, "implicit, x this"], rows))
        result[f"{threads} threads"] = {name: timing.summary() for name, timing in timings.items()}
        for name in ("bpmf", "joint") if threads == 2 else ():
            a_user = 1e3 / 6040 * min(timings[name].wall)
            verdicts.append(harness.verdict(f"{name}, ms a user", a_user, MOST_MS, at_most=True))
            shown = timings[f"{name}, everything"].times(timings[name], "wall")
            verdicts.append(harness.verdict(f"{name}, everything, times", shown, MOST_SHOWN, at_most=True))
    harness.save("all_lists", {**result, "verdicts": verdicts}, options)
    return verdicts


def measure_policies(data: Path | None, rounds: int) -> dict[str, dict[str, harness.Timing]]:
    """Processor seconds of a list with everything, for users who come together and for those who come alone."""
    found = {}
    for name, model in fitted(data, 1, ("implicit-als", "bpmf", "joint")).items():
        users = model.ratings_.users.ids
        for kind, size, n_requests in ((f"{AT_ONCE} at once", AT_ONCE, 4), ("one", 1, 40)):

            def lists(
                policy: str, model: Any = model, users: Any = users, size: int = size, n: int = n_requests
            ) -> None:
                with thread_counts.one_blas_thread():
                    for place in range(n):
                        model.recommend(users[place * size : (place + 1) * size], policy=policy)

            functions = {policy: lambda policy=policy, lists=lists: lists(policy) for policy in POLICIES}
            timings = harness.alternate(functions, rounds)
            n_lists = size * n_requests
            found[f"{name}, {kind}"] = {
                policy: harness.Timing(*([s / n_lists for s in part] for part in (timing.wall, timing.processor)))
                for policy, timing in timings.items()
            }
    return found


def policies(options: argparse.Namespace) -> list[str]:
    """What lists with a policy take, one thread."""
    found = harness.in_fresh_process(1, measure_policies, options.data, options.rounds)
    rows, verdicts = [], []
    for name, timings in found.items():
        best = timings["best"]
        times = {policy: timing.times(best) for policy, timing in timings.items()}
        one = 1e3 * statistics.median(best.processor)
        rows.append([name, one, *(times[policy] for policy in POLICIES[1:])])
        verdicts.append(harness.verdict(f"{name}, the slowest policy", max(times.values()), MOST_POLICY, at_most=True))
        if name == "joint, one":
            verdicts.append(harness.verdict(f"{name}, ms of a processor", one, MOST_ONE_MS, at_most=True))
    print("\n## A list with everything, ml-1m, one thread: processor ms, and times that with a policy\n")
    print(harness.markdown(["", "best, ms", *POLICIES[1:]], rows))
    timed = {name: {policy: timing.summary() for policy, timing in part.items()} for name, part in found.items()}
    harness.save("all_lists_policies", {"protocol": __doc__, "timings": timed, "verdicts": verdicts}, options)
    return verdicts


if __name__ == "__main__":
    harness.answer({"lists": lists, "policies": policies}, __doc__.splitlines()[0])
