"""What answers of BPMF cost and what its options give: latency, storage in half precision, weights of draws.

1. Latency of one stranger with 100 ratings, S = 50 draws, D = 32, one thread, MovieLens 1M: folding in alone,
   predicting one pair, a list of ten with and without intervals.
2. storage="float16" against float32: size on disk of the saved model without its ratings, and test RMSE (90:10,
   seed 0). The chains are the same: only what is kept of them differs.
3. weights="evidence" against equal ones, for the strangers of bpmf_ladder.py with 1, 2, 5 and 10 ratings: RMSE,
   with a paired bootstrap over users.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpmf_ladder
import harness
import movielens
import numpy as np
from gibbs_peers import rmse

import tastespace as ts
from tastespace.data.csr import CSR
from tastespace.errors import ConvergenceWarning, DataWarning
from tastespace.models.base.posterior import People

N_FACTORS = 32
N_RATINGS, N_DRAWS = 100, 50
MOST_MILLISECONDS = 5.0
AGAIN = 200


def milliseconds(function: Callable[[], Any], again: int) -> dict[str, float]:
    """Wall clock of a call, the median and the least of many; and processor time, their mean."""
    function()
    seconds = []
    processor = time.process_time()
    for _ in range(again):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    mean = (time.process_time() - processor) / again
    return {"median": 1e3 * statistics.median(seconds), "least": 1e3 * min(seconds), "processor": 1e3 * mean}


def latencies(data: Path | None, quick: bool) -> dict[str, dict[str, float]]:
    """One user at a time."""
    ratings = movielens.ratings(data)
    model = ts.BPMF(n_factors=N_FACTORS, chains=2, warmup=5, draws=N_DRAWS // 2, seed=0, threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the time does not depend on it
        model.fit(ratings)
    user = int(np.flatnonzero(ratings.by_user.counts >= N_RATINGS)[0])
    own = np.flatnonzero(ratings.user_rows == user)[:N_RATINGS]
    items, values = ratings.item_rows[own], ratings.values[own]
    order = np.argsort(items)
    people = People.new_users(CSR(np.array([0, N_RATINGS]), items[order], values[order]))
    rated = dict(zip(ratings.items.at(items).to_list(), values.tolist(), strict=True))
    stranger = ts.Ratings.from_arrays(["me"] * N_RATINGS, list(rated), list(rated.values()))
    an_item = ratings.items.ids[:1]
    work: dict[str, Callable[[], Any]] = {
        "fold in": lambda: list(model.posterior_.believe(people, 1).blocks(np.zeros(1, np.int32))),
        "predict one": lambda: model.predict(["me"], an_item, history=stranger),
        "recommend 10": lambda: model.recommend(n=10, history=rated),
        "recommend 10, no uncertainty": lambda: model.recommend(n=10, history=rated, uncertainty=False),
    }
    return {name: milliseconds(function, 20 if quick else AGAIN) for name, function in work.items()}


def storage(data: Path | None, quick: bool) -> dict[str, dict[str, float]]:
    """Half precision against single, both as they come back from disk."""
    parts = movielens.split(data)
    found = {}
    for kind in ("float32", "float16"):
        model = bpmf(quick, storage=kind).fit(parts.train)
        with tempfile.TemporaryDirectory() as name:
            ts.save(model, Path(name) / "whole")
            ts.save(model, Path(name) / "bare", with_ratings=False)
            size = sum(file.stat().st_size for file in (Path(name) / "bare").rglob("*") if file.is_file())
            loaded = ts.load(Path(name) / "whole")
            prediction = loaded.predict(parts.test.user_ids(), parts.test.item_ids())
        found[kind] = {
            "megabytes": size / 1e6,
            "rmse": rmse(prediction.mean, parts),
            "belief_sd": float(np.mean(prediction.belief_sd)),
        }
    return found


def weights(data: Path | None, quick: bool) -> dict[str, dict[str, Any]]:
    """Draws that explain a stranger's ratings better count more, or all the same."""
    warnings.simplefilter("ignore", DataWarning)
    split, cut = bpmf_ladder.strangers(movielens.ratings(data))
    models = {
        "equal": bpmf(quick, weights="equal").fit(split.train),
        bpmf_ladder.BPMF: bpmf(quick, weights="evidence").fit(split.train),
    }
    return {str(k): bpmf_ladder.Errors.measured(models, split.test, cut(k)).summary() for k in bpmf_ladder.CUTS if k}


def bpmf(quick: bool, **more: Any) -> ts.BPMF:
    few: dict[str, Any] = {"warmup": 5, "draws": 5} if quick else {}
    return ts.BPMF(n_factors=N_FACTORS, seed=0, **few, **more)


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    waits = harness.in_fresh_process(1, latencies, options.data, options.quick)
    print(f"\n## Milliseconds, one user with {N_RATINGS} ratings, S = {N_DRAWS}, D = {N_FACTORS}, one thread\n")
    print(
        harness.markdown(
            ["", "median (wall)", "least (wall)", "mean (cpu)"], [[name, *row.values()] for name, row in waits.items()]
        )
    )
    sizes = harness.in_fresh_process(2, storage, options.data, options.quick)
    print("\n## Storage of draws, ml-1m 90:10 seed 0\n")
    print(
        harness.markdown(
            ["", "MB on disk", "RMSE", "mean belief sd"],
            [[name, row["megabytes"], f"{row['rmse']:.6f}", f"{row['belief_sd']:.6f}"] for name, row in sizes.items()],
        )
    )
    weighed = harness.in_fresh_process(2, weights, options.data, options.quick)
    print("\n## Weights of draws, strangers with k ratings\n")
    rows = []
    for k, row in weighed.items():
        equal, evidence = row["models"]["equal"], row["models"][bpmf_ladder.BPMF]
        low, high = equal["difference interval"]
        change = f"{equal['difference']:+.5f} ({low:+.5f} to {high:+.5f})"
        rows.append([k, f"{equal['rmse']:.5f}", f"{evidence['rmse']:.5f}", change])
    print(harness.markdown(["k", "equal", "evidence", "evidence - equal"], rows))
    line = harness.verdict("milliseconds to fold in", waits["fold in"]["median"], MOST_MILLISECONDS, at_most=True)
    result = {"protocol": __doc__, "milliseconds": waits, "storage": sizes, "weights": weighed, "verdicts": [line]}
    harness.save("bpmf_answers", result, options)
    print("\n" + line)


if __name__ == "__main__":
    main()
