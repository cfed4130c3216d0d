"""What an update is worth: test RMSE and seconds of old draws, kept draws, warm restarts and a full refit.

MovieLens 100K, or with --full MovieLens 1M; BPMF with its defaults; ratings are permuted by a generator of the seed.

1. 10 % are test ratings, 10 % are new, 80 % the old model is fitted on. The old model without an update; update with
   sweeps=0; warm restarts with 5, 10 and 20 sweeps of warm-up; a fit on all 90 %.
2. MovieLens 100K only: 1, 2, 5, 10 and 20 % new (of those that the old model was fitted on): when does a restart pay?
3. New items: all training ratings of 5 % of the items are new, and nothing else; RMSE on the test ratings of these
   items. For comparison the old model, to which they are unheard of.
4. Restarts with draws kept every sweep, and every second one.

Means over the seeds (ml-100k: 0 to 2, ml-1m: 0); seconds are wall clock on a machine that others use, too.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np

import tastespace as ts
from tastespace.errors import TastespaceWarning
from tastespace.models.factorization.gibbs import bpmf, update

TEST_SHARE, NEW_SHARE, NEW_ITEMS = 0.1, 0.1, 0.05
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
WARM_UPS = (5, 10, 20)
SEEDS = {"ml-100k": (0, 1, 2), "ml-1m": (0,)}
Row = dict[str, float]


def observed(data: Path | str | None, name: str) -> ts.Ratings:
    """All ratings of a data set."""
    if data is None:
        raise SystemExit("no data folder; pass --data DIR (with ml-100k/u.data) or set TASTESPACE_DATA")
    if name == "ml-1m":
        return movielens.ratings(data)
    return ts.read(Path(data) / name / "u.data")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def rmse(model: ts.Recommender, test: ts.Ratings) -> float:
    errors = model.predict(test.user_ids(), test.item_ids()).mean.astype(np.float64) - test.values
    return float(np.sqrt(np.mean(errors**2)))


def model(quick: bool, seed: int) -> ts.BPMF:
    few: dict[str, Any] = {"n_factors": 8, "warmup": 5, "draws": 10} if quick else {}
    return ts.BPMF(seed=seed, **few)


def measured(old: ts.Recommender, new: ts.Ratings, test: ts.Ratings, sweeps: tuple[int, ...]) -> dict[str, Row]:
    """The old model, and updates of it with each number of sweeps."""
    found = {"old model": {"rmse": rmse(old, test), "seconds": 0.0}}
    for n in sweeps:
        updated, seconds = timed(lambda n=n: old.update(new, sweeps=n))
        name = f"restart, {n} sweeps" if n else "update, no restart"
        found[name] = {"rmse": rmse(updated, test), "seconds": seconds}
    return found


def refitted(train: ts.Ratings, test: ts.Ratings, quick: bool, seed: int) -> Row:
    fitted, seconds = timed(lambda: model(quick, seed).fit(train))
    return {"rmse": rmse(fitted, test), "seconds": seconds}


def parts(ratings: ts.Ratings, seed: int, new_share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of the old, the new and the test ratings; `new_share` is of all."""
    order = np.random.default_rng(seed).permutation(len(ratings))
    n_test, n_new = round(TEST_SHARE * len(ratings)), round(new_share * len(ratings))
    return order[n_test + n_new :], order[n_test : n_test + n_new], order[:n_test]


def ways(data: Path | None, name: str, quick: bool, seed: int) -> dict[str, Row]:
    """Scenario 1, with the refit last; and scenario 4."""
    warnings.simplefilter("ignore", TastespaceWarning)
    ratings = observed(data, name)
    old, new, test = parts(ratings, seed, NEW_SHARE)
    fitted, seconds = timed(lambda: model(quick, seed).fit(ratings.take(old)))
    found = measured(fitted, ratings.take(new), ratings.take(test), (0, *WARM_UPS))
    found["old model"]["seconds"] = seconds
    found["full refit"] = refitted(ratings.take(np.concatenate([old, new])), ratings.take(test), quick, seed)
    bpmf.RESTART_THIN = 2
    every_second = measured(fitted, ratings.take(new), ratings.take(test), (10,))
    found["restart, 10 sweeps, thin 2"] = every_second["restart, 10 sweeps"]
    bpmf.RESTART_THIN = update.RESTART_THIN
    return found


def shares(data: Path | None, name: str, quick: bool, seed: int) -> dict[str, dict[str, Row]]:
    """Scenario 2."""
    warnings.simplefilter("ignore", TastespaceWarning)
    ratings, found = observed(data, name), {}
    for share in SHARES[-1:] if quick else SHARES:
        of_all = share / (1 + share) * (1 - TEST_SHARE)
        old, new, test = parts(ratings, seed, of_all)
        fitted = model(quick, seed).fit(ratings.take(old))
        found[f"{share:.0%}"] = measured(fitted, ratings.take(new), ratings.take(test), (0, 10))
    return found


def new_items(data: Path | None, name: str, quick: bool, seed: int) -> dict[str, Row]:
    """Scenario 3."""
    warnings.simplefilter("ignore", TastespaceWarning)
    ratings = observed(data, name)
    _, rest, test = parts(ratings, seed, 1 - TEST_SHARE)
    chosen = np.random.default_rng([seed, 1]).permutation(ratings.n_items)[: round(NEW_ITEMS * ratings.n_items)]
    is_new = np.isin(ratings.item_rows, chosen)
    train, their_test = ratings.take(rest), ratings.take(test[is_new[test]])
    fitted, seconds = timed(lambda: model(quick, seed).fit(ratings.take(rest[~is_new[rest]])))
    found = measured(fitted, ratings.take(rest[is_new[rest]]), their_test, (0, 5, 10))
    found["old model"]["seconds"] = seconds
    found["full refit"] = refitted(train, their_test, quick, seed)
    return found


def mean_rows(runs: list[dict[str, Row]]) -> dict[str, Row]:
    return {
        name: {figure: float(np.mean([run[name][figure] for run in runs])) for figure in runs[0][name]}
        for name in runs[0]
    }


def show(title: str, found: dict[str, Row]) -> None:
    print(f"\n## {title}\n")
    rows = [[name, f"{row['rmse']:.4f}", f"{row['seconds']:.1f}"] for name, row in found.items()]
    print(harness.markdown(["", "RMSE", "seconds"], rows), flush=True)


def run(options: Any, name: str) -> dict[str, Any]:
    """All scenarios of a data set."""
    seeds = SEEDS[name][:1] if options.quick else SEEDS[name]
    repeated: dict[str, Any] = {}
    for title, function in {"ways": ways, "new items": new_items}.items():
        runs = [harness.in_fresh_process(2, function, options.data, name, options.quick, seed) for seed in seeds]
        repeated[title] = {"mean": mean_rows(runs), "runs": runs}
        show(f"{name}, {title}", repeated[title]["mean"])
    if name != "ml-100k":  # a fit for every share: too long
        return {"seeds": seeds, **repeated}
    runs = [harness.in_fresh_process(2, shares, options.data, name, options.quick, seed) for seed in seeds]
    repeated["shares"] = {share: mean_rows([run[share] for run in runs]) for share in runs[0]}
    for share, found in repeated["shares"].items():
        show(f"{name}, {share} new", found)
    return {"seeds": seeds, **repeated}


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0], full={"action": "store_true", "help": "MovieLens 1M instead"})
    name, file = ("ml-1m", "update_ml_1m") if options.full else ("ml-100k", "update")
    harness.save(file, {"protocol": __doc__, "data": name, **run(options, name)}, options)


if __name__ == "__main__":
    main()
