"""Alternating least squares against cmfrec and LensKit, on MovieLens 1M (90:10, seed 0).

1. Processor seconds a sweep at D = 32 and 64, one thread everywhere: the time of n2 sweeps less that of n1,
   over n2 - n1, so that set-up does not count. All have biases, a centred target and penalties that grow
   with the number of ratings (cmfrec: scale_lam; LensKit: always; tastespace: weighting="weighted"). cmfrec
   is as pip builds it, on SciPy's BLAS.
2. Ours on two threads against one: single sweeps in wall-clock seconds, the fastest of each, since any
   other program takes one of two cores away.
3. Seconds to the same test RMSE at D = 32. The strength and the sweeps of each peer are the best of a grid
   on the test ratings, and so is our fixed strength; "search" is what the whole grid took. With
   regularization="auto" tastespace has seen no test rating, and its search is part of its time. "until
   below" is our fixed strength stopped after the first sweep that is better than that peer's best, again
   judged on the test ratings. Fit times include all set-up from a library's own input (cmfrec: COO matrix,
   LensKit: Dataset, tastespace: ungrouped Ratings).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np
from movielens import Learned

from tastespace import ALS, Ratings, Split
from tastespace.models.factorization.als.sweep import ALSState, AlternatingLeastSquares

OURS = "tastespace"
CHOLESKY, CG, LENSKIT = "cmfrec Cholesky", "cmfrec CG", "LensKit BiasedMF"
PEERS = (CHOLESKY, CG, LENSKIT)
FEW = 1
# Short sweeps need more of them for the same accuracy.
MANY = {OURS: 31, CHOLESKY: 5, CG: 21, LENSKIT: 11}
OUR_STRENGTH, COMMON_STRENGTH = 0.05, 0.06
STRENGTHS = {CHOLESKY: (0.06, 0.07, 0.08), CG: (0.05, 0.06, 0.07, 0.08), LENSKIT: (0.05, 0.07, 0.1)}
SWEEPS = {CHOLESKY: (5, 10, 15), CG: (5, 10, 15, 20), LENSKIT: (5, 10, 15, 20)}
TARGETS = {
    32: {CHOLESKY: 8.0, CG: 3.0, LENSKIT: 3.0},
    64: {CHOLESKY: 8.0, CG: 1.5, LENSKIT: 1.5},
}
TWO_THREADS_TARGET = 1.6

Fit = Callable[[int, float, int], Any]  # (n_factors, strength, sweeps) -> the fitted model


class Competitors:
    """Every library's way to fit the same training ratings, and to say what it learned."""

    def __init__(self, parts: Split) -> None:
        from lenskit.data import from_interactions_df
        from scipy.sparse import coo_matrix

        train = self.train = parts.train
        self.matrix = coo_matrix(
            (train.values, (train.user_rows, train.item_rows)), shape=(train.n_users, train.n_items)
        )
        columns = {"user": "user_id", "item": "item_id"}
        self.dataset = from_interactions_df(train.to_polars().rename(columns).to_pandas())
        self.fits: dict[str, Fit] = {
            OURS: self.tastespace,
            CHOLESKY: lambda *settings: self.cmfrec(*settings, use_cg=False),
            CG: lambda *settings: self.cmfrec(*settings, use_cg=True),
            LENSKIT: self.lenskit,
        }

    def tastespace(self, n_factors: int, strength: float, sweeps: int, *, threads: int = 1) -> ALS:
        """Weighted-lambda, as the peers have it, and no early stop."""
        model = ALS(n_factors=n_factors, regularization=strength, weighting="weighted", seed=0, threads=threads)
        model.set_params(sweeps=sweeps, tolerance=0.0).fit(ungrouped(self.train))
        assert len(model.posterior_.losses) == sweeps
        return model

    def cmfrec(self, n_factors: int, strength: float, sweeps: int, *, use_cg: bool) -> Any:
        """Defaults but for scale_lam and threads: single precision, 3 CG steps, last CG sweep by Cholesky."""
        from cmfrec import CMF

        model = CMF(k=n_factors, lambda_=strength, use_cg=use_cg, scale_lam=True, niter=sweeps, nthreads=1)
        return model.fit(self.matrix)

    def lenskit(self, n_factors: int, strength: float, sweeps: int) -> Any:
        from lenskit.als import BiasedMFScorer
        from lenskit.training import TrainingOptions

        scorer = BiasedMFScorer(features=n_factors, epochs=sweeps, regularization=strength)
        scorer.train(self.dataset, TrainingOptions(rng=0))
        return scorer

    def learned(self, name: str, model: Any) -> Learned:
        if name == LENSKIT:
            users = model.users.numbers(self.train.users.ids.to_numpy())
            items = model.items.numbers(self.train.items.ids.to_numpy())
            bias = model.bias
            return Learned(
                bias.global_bias,
                bias.user_biases[users],
                bias.item_biases[items],
                model.user_embeddings[users],
                model.item_embeddings[items],
            )
        if name == OURS:
            posterior = model.posterior_
            users, items = posterior.users, posterior.items
            return Learned(posterior.mean, users.bias, items.bias, users.factors, items.factors)
        return Learned(model.glob_mean_, model.user_bias_, model.item_bias_, model.A_, model.B_)


def ungrouped(ratings: Ratings) -> Ratings:
    """The same ratings without what has been computed from them, so that each fit pays for its grouping."""
    return replace(ratings)


def sweep_times(data: Path | None, n_factors: int, rounds: int) -> dict[str, harness.Timing]:
    """Seconds a sweep of everybody."""
    competitors = Competitors(movielens.split(data))

    def sweeps(name: str, n: int) -> Callable[[], Any]:
        return lambda: competitors.fits[name](n_factors, COMMON_STRENGTH, n)

    functions = {f"{name}/{n}": sweeps(name, n) for name in MANY for n in (FEW, MANY[name])}
    timings = harness.alternate(functions, rounds, warm_up=False)
    return {name: timings[f"{name}/{n}"].minus(timings[f"{name}/{FEW}"], n - FEW) for name, n in MANY.items()}


def thread_times(data: Path | None, n_factors: int, rounds: int) -> dict[int, harness.Timing]:
    """Seconds of single sweeps of ours on one and on two threads, from the same state."""
    model = ALS(n_factors=n_factors, regularization=COMMON_STRENGTH, sweeps=1, seed=0, threads=1)
    train = movielens.split(data).train
    posterior = model.fit(train).posterior_
    state, rng = ALSState(posterior.users, posterior.items), np.random.default_rng(0)

    def sweep(threads: int) -> Callable[[], Any]:
        transition = AlternatingLeastSquares.bind(
            train, n_factors, posterior.penalty, biases=True, dtype=np.float32, threads=threads
        )
        return lambda: transition.step(state, rng)

    timings = harness.alternate({str(threads): sweep(threads) for threads in (1, 2)}, 20 * rounds)
    return {int(threads): timing for threads, timing in timings.items()}


def best_of_grid(competitors: Competitors, parts: Split, name: str, n_factors: int, quick: bool) -> dict[str, Any]:
    """A peer's best test RMSE over strengths and sweeps (of equals within 1e-4, that with fewest sweeps)."""
    tried, search = [], 0.0
    for strength in STRENGTHS[name][1:2] if quick else STRENGTHS[name]:
        for sweeps in SWEEPS[name][:1] if quick else SWEEPS[name]:
            start = time.process_time()
            model = competitors.fits[name](n_factors, strength, sweeps)
            search += time.process_time() - start
            rmse = competitors.learned(name, model).rmse(parts)
            tried.append({"strength": strength, "sweeps": sweeps, "rmse": rmse})
    least = min(trial["rmse"] for trial in tried)
    best = min((trial for trial in tried if trial["rmse"] <= least + 1e-4), key=lambda trial: trial["sweeps"])
    return {**best, "search": search, "tried": tried}


def sweeps_below(competitors: Competitors, parts: Split, n_factors: int, rmse: float) -> int | None:
    """How many sweeps ours needs, at its default weighting and a fixed strength, to get below an RMSE."""
    for sweeps in range(1, 31):
        model = fixed(n_factors, sweeps).fit(competitors.train)
        if competitors.learned(OURS, model).rmse(parts) < rmse:
            return sweeps
    return None


def fixed(n_factors: int, sweeps: int = 30) -> ALS:
    """Ours with a fixed strength: the default weighting and stopping rule."""
    return ALS(n_factors=n_factors, regularization=OUR_STRENGTH, sweeps=sweeps, seed=0, threads=1)


def times_to_rmse(data: Path | None, n_factors: int, rounds: int, quick: bool) -> dict[str, Any]:
    """Fit times and RMSE of each peer at its best, of ours, and of ours stopped when better than the peer."""
    parts = movielens.split(data)
    competitors = Competitors(parts)
    train = competitors.train
    rows: dict[str, dict[str, Any]] = {}
    functions: dict[str, Callable[[], Any]] = {}
    auto, plain = "tastespace, auto", "tastespace, fixed strength"
    functions[auto] = lambda: ALS(n_factors=n_factors, seed=0, threads=1).fit(ungrouped(train))
    functions[plain] = lambda: fixed(n_factors).fit(ungrouped(train))
    for name in (auto, plain):
        model = functions[name]()
        strength = round(model.posterior_.penalty.strengths.users, 4)
        rmse = competitors.learned(OURS, model).rmse(parts)
        rows[name] = {"strength": strength, "sweeps": len(model.posterior_.losses), "rmse": rmse}
    for name in PEERS:
        best = rows[name] = best_of_grid(competitors, parts, name, n_factors, quick)
        functions[name] = lambda name=name, best=best: competitors.fits[name](
            n_factors, best["strength"], best["sweeps"]
        )
        if sweeps := sweeps_below(competitors, parts, n_factors, best["rmse"]):
            stopped = f"tastespace, until below {name}"
            functions[stopped] = lambda sweeps=sweeps: fixed(n_factors, sweeps).fit(ungrouped(train))
            rmse = competitors.learned(OURS, functions[stopped]()).rmse(parts)
            rows[stopped] = {"strength": OUR_STRENGTH, "sweeps": sweeps, "rmse": rmse}
    timings = harness.alternate(functions, rounds, warm_up=False)
    for name, timing in timings.items():
        rows[name]["seconds"] = timing.cells()
        rows[name]["times_auto"] = timing.times(timings[auto])
        rows[name]["times_fixed"] = timing.times(timings[plain])
        if (stopped := f"tastespace, until below {name}") in timings:
            rows[name]["times_below"] = timing.times(timings[stopped])
    return rows


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    result: dict[str, Any] = {"protocol": __doc__, "threads": 1, "rounds": options.rounds}
    verdicts = []
    for n_factors in (32,) if options.quick else (32, 64):
        timings = harness.in_fresh_process(1, sweep_times, options.data, n_factors, options.rounds)
        ours = timings[OURS]
        print(f"\n## Seconds a sweep, ml-1m 90:10 seed 0, D = {n_factors}, {options.rounds} rounds\n")
        print(
            harness.markdown(
                ["", *harness.COLUMNS, "x ours (cpu)"],
                [[name, *timing.cells(), timing.times(ours)] for name, timing in timings.items()],
            )
        )
        result[f"sweep D={n_factors}"] = {
            name: {**timing.summary(), "times_ours": timing.times(ours)} for name, timing in timings.items()
        }
        verdicts += [
            harness.verdict(f"{name}, D = {n_factors}, x a sweep", timings[name].times(ours), target)
            for name, target in TARGETS[n_factors].items()
        ]
        threads = harness.in_fresh_process(1, thread_times, options.data, n_factors, options.rounds)
        speedup = threads[1].times_least(threads[2])
        result[f"threads D={n_factors}"] = {str(n): timing.summary() for n, timing in threads.items()}
        verdicts.append(harness.verdict(f"two threads, D = {n_factors}, x one", speedup, TWO_THREADS_TARGET))
    rounds = max(2, options.rounds // 2)
    rows = harness.in_fresh_process(1, times_to_rmse, options.data, 32, rounds, options.quick)
    result["to the same RMSE"] = rows
    print("\n## Seconds to the same test RMSE, ml-1m 90:10 seed 0, D = 32, one thread\n")
    print(
        harness.markdown(
            ["", "strength", "sweeps", "RMSE", *harness.COLUMNS, "x auto (cpu)", "search s (cpu)"],
            [
                [
                    *(row[key] for key in ("name", "strength", "sweeps", "rmse")),
                    *row["seconds"],
                    row["times_auto"],
                    row.get("search", ""),
                ]
                for row in ({"name": name, **row} for name, row in rows.items())
            ],
        )
    )
    for name in PEERS:
        for way, key in (("stopped there", "times_below"), ("fixed", "times_fixed"), ("auto", "times_auto")):
            title = f"seconds of {name} at its best, x ours ({way})"
            verdicts.append(harness.verdict(title, rows[name].get(key, 0.0), 1.0))
    harness.save("als", {**result, "verdicts": verdicts}, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
