"""Implicit feedback: ImplicitALS against implicit with the same settings, seconds a sweep, what intervals are worth.

hetrec-lastfm (play counts, as log(1 + plays)) and citeulike-a (bookmarks). What lists are worth against tuned peers is
measured by `lists.py`.

same: the same confidences, regularization, factors and 15 sweeps for implicit and for ours, mean of three starts, on
the test part of `lists.py`.
sweeps: processor seconds a sweep with one thread, wall-clock seconds with two; from the same start, at D = 32 and 128,
with the loss (that implicit computes) after 15 sweeps.
coverage: how often intervals from a part of a user's choices hold the score after all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import harness
import lists
import numpy as np
import scipy.sparse as sp

import tastespace as ts

DATA = ("hetrec-lastfm", "citeulike-a")
SWEEPS = 15
SHARES, LEAST_CHOICES = (0.1, 0.3, 0.5, 0.8), 10
CHOLESKY_UP_TO = 32  # factors; with 128 a sweep of implicit's takes fifteen times as long as its conjugate gradients
LEAST_TIMES, MOST_APART = 2.0, 0.002
FACTORS, RIDGE, STRENGTH = 64, 1.0, 10.0


def choices(data: Path, name: str) -> sp.csr_matrix:
    """All choices, users x items; values are counts."""
    by_user = lists.SETS[name][1](data).by_user
    return sp.csr_matrix((by_user.values, by_user.columns, by_user.offsets))


def same(data: Path, name: str, starts: int) -> dict[str, dict[str, float]]:
    part = lists.Part.of(lists.SETS[name][1](data), "implicit")
    settings = {"n_factors": FACTORS, "regularization": RIDGE, "strength": STRENGTH, "weighting": "plain"}
    ours = lists.ours(ts.ImplicitALS)
    found = {
        "tastespace": [ours(part, **settings, sweeps=SWEEPS, tolerance=0.0, seed=seed) for seed in range(starts)],
        "implicit": [lists.implicit_als(part, "log counts", FACTORS, RIDGE, STRENGTH, seed) for seed in range(starts)],
    }
    runs = {who: [part.measured(made) for made in some] for who, some in found.items()}
    return {who: {key: float(np.mean([run[key] for run in some])) for key in some[0]} for who, some in runs.items()}


def measure_same(options: Any) -> list[str]:
    verdicts, result = [], {}
    for name in DATA:
        starts = 1 if options.quick else 3
        found = result[name] = harness.in_fresh_process(1, same, Path(options.data), name, starts)
        print(f"\n## The same settings, {name}\n")
        print(harness.markdown(["", *found["tastespace"]], [[who, *row.values()] for who, row in found.items()]))
        for key, value in found["tastespace"].items():
            apart = abs(value - found["implicit"][key])
            verdicts.append(harness.verdict(f"{name}: {key}, apart from implicit", apart, MOST_APART, at_most=True))
    harness.save("one_class_same", {"protocol": __doc__, **result, "verdicts": verdicts}, options)
    return verdicts


# Seconds a sweep


def sweep_times(data: Path | None, name: str, n_factors: int, threads: int, rounds: int) -> dict[str, Any]:
    from implicit.cpu import _als

    from tastespace.models.factorization.implicit.cells import AlternatingChoices, Confidence, ImplicitState, Ridge

    chosen, ridge, strength = choices(Path(data), name), RIDGE, STRENGTH
    rows, columns = chosen.nonzero()
    ratings = ts.Ratings.from_arrays(rows, columns, chosen.data)
    rng = np.random.default_rng(0)
    start = [0.01 * rng.random((n, n_factors), dtype=np.float32) for n in chosen.shape]
    users, items = ratings.users.ids.to_numpy(), ratings.items.ids.to_numpy()
    sweep = AlternatingChoices(
        ratings,
        Confidence(strength),
        Ridge(ridge, False),
        n_factors=n_factors,
        has_biases=False,
        solver="conjugate",
        steps=3,
        threads=threads,
    )
    weighted = sp.csr_matrix((1 + strength * np.log1p(chosen.data), chosen.indices, chosen.indptr), chosen.shape)
    turned = weighted.T.tocsr()
    reached: dict[str, float] = {}

    def loss(of_users: np.ndarray, of_items: np.ndarray) -> float:
        return float(_als.calculate_loss(weighted, of_users, of_items, ridge))

    def run_ours() -> None:
        state = ImplicitState(start[0][users], start[1][items])
        for _ in range(SWEEPS):
            state = sweep.moved(state)
        back = [np.empty_like(part) for part in start]
        back[0][users], back[1][items] = state.users, state.items
        reached["tastespace"] = loss(*back)

    def run_theirs(solver: str) -> None:
        solve = _als.least_squares_cg if solver == "conjugate" else _als.least_squares
        of_users, of_items = start[0].copy(), start[1].copy()
        for _ in range(SWEEPS):
            solve(turned, of_items, of_users, ridge, num_threads=threads)
            solve(weighted, of_users, of_items, ridge, num_threads=threads)
        reached[f"implicit, {solver}"] = loss(of_users, of_items)

    functions: dict[str, Callable[[], None]] = {
        "tastespace": run_ours,
        "implicit, conjugate": lambda: run_theirs("conjugate"),
    }
    if n_factors <= CHOLESKY_UP_TO:
        functions["implicit, cholesky"] = lambda: run_theirs("cholesky")
    return {"timings": harness.alternate(functions, rounds, warm_up=False), "loss": reached}


def measure_sweeps(options: Any) -> list[str]:
    verdicts, result = [], {}
    for name, n_factors, threads in product(DATA, (32, 128), (1, 2)):
        found = harness.in_fresh_process(threads, sweep_times, options.data, name, n_factors, threads, options.rounds)
        timings, losses = found["timings"], found["loss"]
        clock = "processor" if threads == 1 else "wall"
        times = {who: timing.times(timings["tastespace"], clock) for who, timing in timings.items()}
        case = f"{name}, D = {n_factors}, {threads} thread{'s' if threads > 1 else ''}"
        print(f"\n## {SWEEPS} sweeps, {case}\n")
        rows = [[who, *timing.cells(), times[who], losses[who]] for who, timing in timings.items()]
        print(harness.markdown(["", *harness.COLUMNS, "x ours", "loss"], rows), flush=True)
        faster = min(time for who, time in times.items() if who != "tastespace")
        verdicts.append(harness.verdict(f"{case}: implicit's faster solver, x ours", faster, LEAST_TIMES))
        verdicts.append(
            harness.verdict(
                f"{case}: loss against implicit's faster one",
                losses["tastespace"] / losses["implicit, conjugate"],
                1.0,
                at_most=True,
            )
        )
        result[case] = {
            who: {**timing.summary(), "times ours": times[who], "loss": losses[who]} for who, timing in timings.items()
        }
    harness.save("one_class_sweeps", {"protocol": __doc__, **result, "verdicts": verdicts}, options)
    return verdicts


# What intervals are worth


def coverage(data: Path | None, name: str, n_users: int) -> dict[str, float]:
    """How often the 90 % interval from a part of a new user's choices holds the score after all of them."""
    chosen = choices(Path(data), name)
    rng = np.random.default_rng(0)
    new_users = rng.permutation(chosen.shape[0])[:n_users]
    rows, columns = chosen.nonzero()
    others = ~np.isin(rows, new_users)
    ratings = ts.Ratings.from_arrays(rows[others], columns[others], chosen.data[others])
    model = ts.ImplicitALS(n_factors=32, seed=0, threads=1).fit(ratings)
    counts = ratings.by_item.counts
    found: dict[str, list[float]] = {f"{share:.0%}": [] for share in SHARES}
    for user in new_users:
        own = {int(item): float(count) for item, count in zip(chosen[user].indices, chosen[user].data, strict=True)}
        own = {item: count for item, count in own.items() if ratings.items.rows_of([item])[0] >= 0}
        if len(own) < LEAST_CHOICES:
            continue
        for share, held in zip(SHARES, found.values(), strict=True):
            some = rng.permutation(list(own))[: max(1, int(share * len(own)))]
            asked = ratings.items.ids[rng.choice(len(counts), 50, p=counts / counts.sum())]
            before = model.predict(["new"] * 50, asked, history={item: own[item] for item in some.tolist()})
            after = model.predict(["new"] * 50, asked, history=own)
            low, high = before.interval(0.9).T
            held.append(float(np.mean((low <= after.mean) & (after.mean <= high))))
    return {share: float(np.mean(held)) for share, held in found.items()}


def measure_coverage(options: Any) -> list[str]:
    result = {
        name: harness.in_fresh_process(1, coverage, options.data, name, 20 if options.quick else 300) for name in DATA
    }
    print("\n## 90 % intervals of new users' scores, by the known share of their choices\n")
    print(harness.markdown(["", *result[DATA[0]]], [[name, *row.values()] for name, row in result.items()]))
    harness.save("one_class_coverage", {"protocol": coverage.__doc__, **result}, options)
    return []


if __name__ == "__main__":
    harness.answer(
        {"same": measure_same, "sweeps": measure_sweeps, "coverage": measure_coverage},
        __doc__.splitlines()[0],
    )
