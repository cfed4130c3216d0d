"""How many factors: BPMF(n_factors="auto") against given numbers, and the two priors that shrink columns.

- planted: ratings drawn from 1 to 10 factors; the number that each prior finds, less the planted one.
- prior: the two priors and given numbers of factors on a held-out tenth of the training part of MovieLens 100K (90:10,
  seed 0): how the default prior was chosen. The test ratings play no part.
- auto: MovieLens 1M (90:10, seed 0), test RMSE and processor seconds of a fit, one thread; one chain, 40 sweeps of
  warm-up, 40 draws of every second sweep for all. "auto" must be at most 0.002 worse than the best given number, and
  take less than twice the time of the largest. Nothing is chosen by these test ratings.
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

import tastespace as ts
from tastespace.errors import ConvergenceWarning
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.testing import toys

PRIORS = ("ard", "cumulative")
GIVEN = (8, 16, 32, 64)
SHAPES = {
    "300 x 200": (300, 200, 0.3, 0.5),
    "150 x 100": (150, 100, 0.4, 0.5),
    "400 x 100, noisy": (400, 100, 0.2, 1.0),
}
PLANTED, PLANTED_SEEDS, PLANTED_MOST = (1, 3, 5, 10), (1, 2), 24
SHORT = {"chains": 1, "warmup": 40, "draws": 40, "thin": 2, "seed": 0, "threads": 1}
WORSE, TIMES = 0.002, 2.0


def fitted(parts: ts.Split, **parameters: Any) -> dict[str, Any]:
    """Error on the test part, time of the fit, and what was found."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ts.BPMF(**parameters).fit(parts.train)
    seconds = time.process_time() - start
    predicted = model.predict(parts.test.user_ids(), parts.test.item_ids()).mean
    return {
        "rmse": float(np.sqrt(np.mean((predicted - parts.test.values) ** 2))),
        "seconds": seconds,
        "rank": model.rank_.to_dict(),
    }


def planted(prior: str, shape: str, n_factors: int, seed: int) -> int:
    """How many more are found than there are."""
    n_users, n_items, density, noise = SHAPES[shape]
    rng = np.random.default_rng(seed)
    observed, _ = toys.tastes(n_users, n_items, n_factors=n_factors, density=density, noise=noise, rng=rng)
    model = ts.BPMF(n_factors="auto", prior=ts.Shrinkage(prior, max_factors=PLANTED_MOST), threads=1)
    return model.search_rank(observed, generator(seed), silent).n_factors - n_factors


def measure_planted(options: Any) -> list[str]:
    found: dict[str, dict[str, list[int]]] = {}
    for prior in PRIORS:
        for shape in SHAPES:
            for n_factors in PLANTED:
                apart = [planted(prior, shape, n_factors, seed) for seed in PLANTED_SEEDS]
                found.setdefault(prior, {})[f"{shape}, {n_factors} factors"] = apart
    rows = [[case, *(found[prior][case] for prior in PRIORS)] for case in found[PRIORS[0]]]
    print("\n## Planted factors: found less planted\n")
    print(harness.markdown(["", *PRIORS], rows), flush=True)
    harness.save("rank_shrinkage_planted", {"protocol": __doc__, "found": found}, options)
    return []


def measure_prior(options: Any) -> list[str]:
    train = ts.random_split(ts.read(Path(options.data or "") / "ml-100k" / "u.data"), 0.1, seed=0).train
    parts = ts.random_split(train, 0.1, seed=1)
    found: dict[str, Any] = {}
    cases: dict[str, dict[str, Any]] = {f"{n} factors": {"n_factors": n} for n in GIVEN}
    cases |= {f"auto, {prior}": {"n_factors": "auto", "prior": prior} for prior in PRIORS}
    for name, parameters in cases.items():
        runs = [fitted(parts, **parameters, seed=seed, threads=1) for seed in (0, 1)]
        found[name] = {
            "rmse": statistics.fmean(run["rmse"] for run in runs),
            "seconds": statistics.fmean(run["seconds"] for run in runs),
            "found": [run["rank"]["n_factors"] for run in runs],
        }
    print("\n## Held-out tenth of the training part of MovieLens 100K\n")
    print(harness.markdown(["", "RMSE", "seconds", "factors"], [[name, *row.values()] for name, row in found.items()]))
    harness.save("rank_shrinkage_prior", {"protocol": __doc__, "found": found}, options)
    return []


def measure_auto(options: Any) -> list[str]:
    if options.quick:
        parts = ts.random_split(ts.read(Path(options.data or "") / "ml-100k" / "u.data"), 0.1, seed=0)
    else:
        parts = movielens.split(options.data)
    found = {}
    for name, parameters in {"auto": {"n_factors": "auto"}, **{str(n): {"n_factors": n} for n in GIVEN}}.items():
        found[name] = fitted(parts, **parameters, **SHORT)
        print(name, found[name]["rmse"], found[name]["seconds"], found[name]["rank"]["n_factors"], flush=True)
    rows = [[name, row["rank"]["n_factors"], row["rmse"], row["seconds"]] for name, row in found.items()]
    print("\n## Test ratings\n")
    print(harness.markdown(["n_factors", "found", "RMSE", "seconds (cpu)"], rows), flush=True)
    best, largest = min(found[str(n)]["rmse"] for n in GIVEN), found[str(max(GIVEN))]["seconds"]
    verdicts = [
        harness.verdict("RMSE of auto beyond the best", found["auto"]["rmse"] - best, WORSE, at_most=True),
        harness.verdict("time of auto to that of the largest", found["auto"]["seconds"] / largest, TIMES, at_most=True),
    ]
    harness.save("rank_shrinkage", {"protocol": __doc__, "found": found, "verdicts": verdicts}, options)
    return verdicts


QUESTIONS = {"planted": measure_planted, "prior": measure_prior, "auto": measure_auto}

if __name__ == "__main__":
    harness.answer(QUESTIONS, __doc__.splitlines()[0])
