"""BPMF against SMURFF and myFM: test RMSE with equal draws, and seconds a sweep (see gibbs_peers.py for how they run).

1. RMSE at D = 32 over all test ratings, predictions clipped to the training range: MovieLens 100K and 1M 90:10 seed 0,
   and the first official fold of 100K (u1). Ours has its defaults but for D, and a seed. The peers run as many chains
   as we do, each with the same warm-up and as many sweeps, and the predictions of the same sweeps are averaged; "all
   sweeps" averages every sweep after the warm-up, which is more than ours ever uses. Figures are means over seeds.
   Nobody's parameters are chosen here, by test ratings or otherwise.
2. Processor seconds a sweep on 1M, one thread everywhere: the time of n2 sweeps less that of n1, over n2 - n1, so that
   set-up does not count. Nothing is predicted, but what we watch for diagnostics is in our time. SMURFF has no biases,
   myFM always has: ours is measured without and with them.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gibbs_peers
import harness
import movielens
from gibbs_peers import MyFM, Schedule, Smurff

import tastespace as ts
from tastespace.errors import ConvergenceWarning

N_FACTORS = 32
OURS, WITH_BIASES = "tastespace", "tastespace, biases"
# The most test RMSE, and over how many seeds it is averaged.
SPLITS = {"ml-100k": (0.880, 3), "ml-100k u1": (0.906, 3), "ml-1m": (0.835, 1)}
# Short sweeps need more of them for the same accuracy.
FEW = 1
MANY = {
    32: {OURS: 41, WITH_BIASES: 41, Smurff.name: 6, MyFM.name: 4},
    64: {OURS: 21, WITH_BIASES: 21, Smurff.name: 4, MyFM.name: 3},
    128: {OURS: 11, WITH_BIASES: 11, Smurff.name: 3, MyFM.name: 3},
}
PROTOCOL = {"protocol": __doc__, "peers": gibbs_peers.__doc__}
# How many times as long as ours a sweep must take, at D = 32.
TARGETS = {OURS: {Smurff.name: 8.0, MyFM.name: 18.0}, WITH_BIASES: {Smurff.name: 6.0, MyFM.name: 14.0}}


def parts_of(name: str, data: Path | None) -> ts.Split:
    """The training and test parts by name."""
    if name == "ml-1m":
        return movielens.split(data)
    folder = Path(data or "") / "ml-100k"
    if name == "ml-100k u1":
        return ts.Split(ts.read(folder / "u1.base"), ts.read(folder / "u1.test"))
    return ts.random_split(ts.read(folder / "u.data"), 0.1, seed=0)


def our_quality(data: Path | None, name: str, seed: int, schedule: Schedule) -> dict[str, Any]:
    """Test RMSE of a fit with defaults, and what it took."""
    parts = parts_of(name, data)
    start = time.process_time()
    model = bpmf(schedule, N_FACTORS, seed=seed).fit(parts.train)
    seconds = time.process_time() - start
    mean = model.predict(parts.test.user_ids(), parts.test.item_ids()).mean
    return {"rmse": gibbs_peers.rmse(mean, parts), "seconds": seconds, "memory": harness.peak_memory()}


def their_quality(data: Path | None, name: str, peer: type[Smurff | MyFM], seed: int, schedule: Schedule) -> Any:
    """The same of a peer."""
    parts = parts_of(name, data)
    start = time.process_time()
    found = gibbs_peers.quality(peer(parts.train), parts, N_FACTORS, schedule, seed)
    return {**found, "seconds": time.process_time() - start, "memory": harness.peak_memory()}


def bpmf(schedule: Schedule, n_factors: int, **more: Any) -> ts.BPMF:
    """Ours, on one thread."""
    return ts.BPMF(
        n_factors=n_factors,
        chains=schedule.chains,
        warmup=schedule.warmup,
        draws=schedule.draws,
        thin=schedule.thin,
        threads=1,
        **more,
    )


def averaged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean of each figure over seeds, and all values of the first."""
    return {key: statistics.fmean(run[key] for run in runs) for key in runs[0]} | {"seeds": [r["rmse"] for r in runs]}


def qualities(data: Path | None, name: str, n_seeds: int, schedule: Schedule) -> dict[str, dict[str, Any]]:
    """Ours and theirs on one split, each run in a process of its own."""
    seeds = range(n_seeds)
    found = {OURS: [harness.in_fresh_process(1, our_quality, data, name, seed, schedule) for seed in seeds]}
    for peer in gibbs_peers.PEERS:
        found[peer.name] = [
            harness.in_fresh_process(1, their_quality, data, name, peer, seed, schedule) for seed in seeds
        ]
    return {who: averaged(runs) for who, runs in found.items()}


def sweep_times(data: Path | None, n_factors: int, rounds: int) -> dict[str, harness.Timing]:
    """Seconds a sweep of everybody."""
    train = movielens.split(data).train

    def ours(sweeps: int, *, biases: bool) -> None:
        # Nothing that only a start from ALS would need: it costs the same every time, and would only add noise.
        schedule = Schedule(chains=1, warmup=sweeps - 1, draws=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # so few sweeps are no posterior
            bpmf(schedule, n_factors, biases=biases, start="random", seed=0).fit(train)

    runs: dict[str, Callable[[int], None]] = {
        OURS: lambda sweeps: ours(sweeps, biases=False),
        WITH_BIASES: lambda sweeps: ours(sweeps, biases=True),
    }
    for peer in (Smurff(train), MyFM(train)):
        runs[peer.name] = lambda sweeps, peer=peer: peer.run(n_factors, sweeps)
    many = MANY[n_factors]
    functions = {f"{name}/{n}": lambda run=run, n=n: run(n) for name, run in runs.items() for n in (FEW, many[name])}
    timings = harness.alternate(functions, rounds, warm_up=False)
    return {name: timings[f"{name}/{n}"].minus(timings[f"{name}/{FEW}"], n - FEW) for name, n in many.items()}


def measure_quality(options: Any) -> list[str]:
    """All splits, with our default schedule."""
    default = ts.BPMF()
    schedule = Schedule(default.chains, default.warmup, default.draws, default.thin)
    if options.quick:
        schedule = Schedule(chains=2, warmup=5, draws=5)
    result: dict[str, Any] = {"schedule": vars(schedule)}
    verdicts = []
    for name, (most, n_seeds) in list(SPLITS.items())[: 1 if options.quick else None]:
        found = result[name] = qualities(options.data, name, 1 if options.quick else n_seeds, schedule)
        print(f"\n## Test RMSE, {name}, D = {N_FACTORS}, {schedule}\n")
        columns = ("rmse", "rmse of all sweeps", "seconds", "memory")
        rows = [[who, *(row.get(key, "") for key in columns), len(row["seeds"])] for who, row in found.items()]
        print(harness.markdown(["", "RMSE", "all sweeps", "s (cpu)", "peak GB", "seeds"], rows), flush=True)
        ours = found[OURS]["rmse"]
        verdicts.append(harness.verdict(f"RMSE of {name}", ours, most, at_most=True))
        verdicts += [
            harness.verdict(f"RMSE of {name}, against {peer.name}", ours, found[peer.name]["rmse"], at_most=True)
            for peer in gibbs_peers.PEERS
        ]
    harness.save("bpmf_quality", {**PROTOCOL, **result, "verdicts": verdicts}, options)
    return verdicts


def measure_sweeps(options: Any) -> list[str]:
    """Seconds a sweep, with a target at D = 32 and without one beyond."""
    result: dict[str, Any] = {"threads": 1, "rounds": options.rounds}
    verdicts = []
    for n_factors in (N_FACTORS,) if options.quick else MANY:
        timings = harness.in_fresh_process(1, sweep_times, options.data, n_factors, options.rounds)
        both = {ours: {name: timing.times(timings[ours]) for name, timing in timings.items()} for ours in TARGETS}
        print(f"\n## Seconds a sweep, ml-1m 90:10 seed 0, D = {n_factors}, one thread, {options.rounds} rounds\n")
        rows = [[name, *timings[name].cells(), *(both[ours][name] for ours in TARGETS)] for name in timings]
        columns = ["", *harness.COLUMNS, "x ours (cpu)", "x ours with biases (cpu)"]
        print(harness.markdown(columns, rows), flush=True)
        result[f"D={n_factors}"] = {
            name: {**timing.summary(), **{f"times {ours}": both[ours][name] for ours in TARGETS}}
            for name, timing in timings.items()
        }
        if n_factors == N_FACTORS:
            verdicts += [
                harness.verdict(f"{peer}, x a sweep of {ours}", both[ours][peer], target)
                for ours, targets in TARGETS.items()
                for peer, target in targets.items()
            ]
    harness.save("bpmf_sweeps", {**PROTOCOL, **result, "verdicts": verdicts}, options)
    return verdicts


QUESTIONS = {"quality": measure_quality, "sweeps": measure_sweeps}


if __name__ == "__main__":
    harness.answer(QUESTIONS, __doc__.splitlines()[0])
