"""VB: test RMSE beside BPMF's, processor seconds a pass beside a BPMF sweep, and the shape of Netflix.

1. RMSE on MovieLens 1M 90:10 seed 0 at D = 32, over all test ratings, predictions clipped to the training range. Every
   kind of VB runs until its bound stands still, with its defaults but for the kind; BPMF has its defaults. Intervals:
   the share of test ratings in the central 90 %, and the mean standard deviation of the belief about expected ratings.
   Nothing is chosen here: defaults were chosen on a validation split of the training part
   (docs/explanation/models/vb.md).
2. Processor seconds a pass of VB and a sweep of BPMF on 1M, one thread, taking turns: the time of n2 passes less that
   of n1, over n2 - n1, so that set-up does not count. Both with biases, from a random start.
3. `tastespace.synthetic("netflix")` (480 189 users, 17 770 items, 100M ratings), D = 30, full covariance, biases, two
   threads: seconds a pass by the wall clock, and the peak of memory of the whole process, the making of the ratings
   included. Kim's essay (Part III, Cambridge) had 1.1 h a pass.
4. Coverage on ratings drawn from a factor model: how often the true expected rating of a pair, rated or not, lies in
   the central 50 % and 90 % of the belief, for VB and BPMF; means over seeds.
"""

from __future__ import annotations

import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np
from scipy import stats

import tastespace as ts
from tastespace.data.shapes import SHAPES
from tastespace.errors import ConvergenceWarning
from tastespace.models.base.posterior import Pairs
from tastespace.progress import Progress
from tastespace.randomness import generator
from tastespace.testing.toys import gaussian

N_FACTORS = 32
KINDS: dict[str, dict[str, Any]] = {
    "full": {},
    "full, hierarchical": {"hierarchical": True},
    "full, variances": {"prior": "variances"},
    "full, raw": {"centred": False},
    "full, no biases": {"biases": False},
    "full, no biases, raw": {"biases": False, "centred": False},
    "diagonal": {"covariance": "diagonal"},
    "diagonal, hierarchical": {"covariance": "diagonal", "hierarchical": True},
}
MOST_RMSE = 0.841
MOST_TIMES = {"full": 8.0, "diagonal": 2.0}
FEW, MANY = 2, {"full": 10, "diagonal": 16, "bpmf": 22}
NETFLIX_FACTORS, NETFLIX_PASSES, NETFLIX_THREADS = 30, 2, 2
NETFLIX_GB, SEED_SECONDS = 8.0, 1.1 * 3600
COVERAGE_SEEDS = 3


class Ends:
    """An observer that notes when each pass ended, and how high the bound was."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.bounds: list[float] = []

    def __call__(self, progress: Progress) -> None:
        if "bound" in progress.stats:
            self.times.append(time.perf_counter())
            self.bounds.append(float(progress.stats["bound"]))


def quality(data: Path | None, name: str, quick: bool) -> dict[str, Any]:
    """Test RMSE and intervals of a fit, and what it took."""
    parts = movielens.split(data)
    if name == "bpmf":
        more = {"chains": 1, "warmup": 3, "draws": 3} if quick else {}
        model: ts.Recommender = ts.BPMF(seed=0, threads=1, **more)
    else:
        more = {"passes": 3} if quick else {}
        model = ts.VB(seed=0, threads=1, **KINDS[name], **more)
    ends, start = Ends(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(parts.train, observer=ends)
    seconds = time.process_time() - start
    predicted = model.predict(parts.test.user_ids(), parts.test.item_ids())
    errors = predicted.mean.astype(np.float64) - parts.test.values
    assert predicted.rating is not None
    assert predicted.belief_sd is not None
    return {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "passes": len(ends.bounds),
        "bound": ends.bounds[-1] if ends.bounds else "",
        "in 90 %": float(predicted.rating.contains(parts.test.values, [0.9]).mean()),
        "log score": float(predicted.rating.log_score(parts.test.values).mean()),
        "belief sd": float(predicted.belief_sd.mean()),
        "seconds": seconds,
        "memory": harness.peak_memory(),
    }


def measure_quality(options: Any) -> list[str]:
    names = [*KINDS, "bpmf"]
    found = {name: harness.in_fresh_process(1, quality, options.data, name, options.quick) for name in names}
    print(f"\n## Test RMSE, MovieLens 1M, D = {N_FACTORS}\n")
    columns = list(found["bpmf"])
    print(harness.markdown(["", *columns], [[name, *row.values()] for name, row in found.items()]), flush=True)
    verdicts = [
        harness.verdict("RMSE, full", found["full"]["rmse"], MOST_RMSE, at_most=True),
        harness.verdict("RMSE, hierarchical", found["full, hierarchical"]["rmse"], found["full"]["rmse"], at_most=True),
        harness.verdict("RMSE of BPMF below VB", found["bpmf"]["rmse"], found["full"]["rmse"], at_most=True),
    ]
    harness.save("vb_quality", {"protocol": __doc__, "found": found, "verdicts": verdicts}, options)
    return verdicts


def pass_times(data: Path | None, rounds: int) -> dict[str, harness.Timing]:
    """Seconds a pass of each family, and a sweep of BPMF."""
    train = movielens.split(data).train

    def run(name: str, n: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # so few sweeps are no posterior
            if name == "bpmf":
                ts.BPMF(chains=1, warmup=n - 1, draws=1, start="random", seed=0, threads=1).fit(train)
            else:
                ts.VB(covariance=name, passes=n, tolerance=0.0, start="random", seed=0, threads=1).fit(train)

    functions = {f"{name}/{n}": lambda name=name, n=n: run(name, n) for name, many in MANY.items() for n in (FEW, many)}
    timings = harness.alternate(functions, rounds, warm_up=False)
    return {name: timings[f"{name}/{n}"].minus(timings[f"{name}/{FEW}"], n - FEW) for name, n in MANY.items()}


def measure_passes(options: Any) -> list[str]:
    found = harness.in_fresh_process(1, pass_times, options.data, options.rounds)
    print(f"\n## Seconds a pass, MovieLens 1M, D = {N_FACTORS}, one thread\n")
    rows = [[name, *timing.cells(), timing.times(found["bpmf"])] for name, timing in found.items()]
    print(harness.markdown(["", *harness.COLUMNS, "times a sweep"], rows), flush=True)
    verdicts = [
        harness.verdict(f"a pass, {name}, in sweeps of BPMF", found[name].times(found["bpmf"]), most, at_most=True)
        for name, most in MOST_TIMES.items()
    ]
    summary = {name: timing.summary() for name, timing in found.items()}
    harness.save("vb_passes", {"protocol": __doc__, "found": summary, "verdicts": verdicts}, options)
    return verdicts


def netflix(scale: float) -> dict[str, Any]:
    """A short fit."""
    ratings = ts.synthetic("netflix", scale=scale, seed=0, threads=NETFLIX_THREADS)
    before, ends = harness.peak_memory(), Ends()
    ends.times.append(time.perf_counter())
    ts.VB(
        n_factors=NETFLIX_FACTORS,
        passes=NETFLIX_PASSES,
        tolerance=0.0,
        start="random",
        seed=0,
        threads=NETFLIX_THREADS,
    ).fit(ratings, observer=ends)
    seconds = np.diff(ends.times)
    return {
        "ratings": len(ratings),
        "users": ratings.n_users,
        "items": ratings.n_items,
        "seconds a pass": statistics.median(seconds[1:]),
        "seconds of each": seconds.tolist(),
        "bounds": ends.bounds,
        "peak GB before": before,
        "peak GB": harness.peak_memory(),
    }


def measure_netflix(options: Any) -> list[str]:
    scale = 1e6 / SHAPES["netflix"].n_ratings if options.quick else 1.0
    found = harness.in_fresh_process(NETFLIX_THREADS, netflix, scale)
    print(f"\n## Shape of Netflix, D = {NETFLIX_FACTORS}, full covariance, {NETFLIX_THREADS} threads\n")
    print(harness.markdown(list(found), [list(found.values())]), flush=True)
    verdicts = [
        harness.verdict("GB at the shape of Netflix", found["peak GB"], NETFLIX_GB, at_most=True),
        harness.verdict("seconds a pass at the shape of Netflix", found["seconds a pass"], SEED_SECONDS, at_most=True),
    ]
    harness.save("vb_netflix", {"protocol": __doc__, "found": found, "verdicts": verdicts}, options)
    return verdicts


def coverage(name: str, seed: int) -> dict[str, float]:
    """How often expected ratings lie where they are believed to."""
    observed, truth = gaussian(300, 200, n_factors=4, density=0.15, rng=generator(seed))
    model: ts.Recommender = (
        ts.BPMF(n_factors=4, seed=0) if name == "bpmf" else ts.VB(n_factors=4, seed=0, **KINDS[name])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(observed)
    users, items = (part.ravel().astype(np.int32) for part in np.indices((observed.n_users, observed.n_items)))
    expected = truth.score(observed.users.ids.to_numpy()[users], observed.items.ids.to_numpy()[items])
    uncertainty = model.about(observed.users.ids).belief.uncertainty
    assert uncertainty is not None
    mean, sd = uncertainty.summary(Pairs(users, items))
    apart = np.abs(mean - expected) / sd
    return {
        **{f"in {share:.0%}": float(np.mean(apart <= stats.norm.ppf((1 + share) / 2))) for share in (0.5, 0.9)},
        "rmse of expected": float(np.sqrt(np.mean((mean - expected) ** 2))),
        "believed": float(np.sqrt(np.mean(sd.astype(np.float64) ** 2))),
    }


def measure_coverage(options: Any) -> list[str]:
    names = ["full", "full, hierarchical", "diagonal", "diagonal, hierarchical", "bpmf"]
    seeds = range(1 if options.quick else COVERAGE_SEEDS)
    found = {}
    for name in names:
        runs = [coverage(name, seed) for seed in seeds]
        found[name] = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
    print("\n## Coverage on ratings drawn from a factor model\n")
    print(harness.markdown(["", *found["bpmf"]], [[name, *row.values()] for name, row in found.items()]), flush=True)
    harness.save("vb_coverage", {"protocol": __doc__, "found": found}, options)
    return []


QUESTIONS = {
    "quality": measure_quality,
    "passes": measure_passes,
    "coverage": measure_coverage,
    "netflix": measure_netflix,
}

if __name__ == "__main__":
    harness.answer(QUESTIONS, __doc__.splitlines()[0])
