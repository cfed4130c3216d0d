"""Networks and clusters of ratings beside factors, neighbours, biases and popularity, on honest splits.

90:10, seed 0, of MovieLens 100K and 1M. Settings are the defaults of each model; nothing is chosen by test ratings.
RMSE is of predictions clipped to the training range; lists are the best 10 of all unseen items. `coverage` is the share
of test ratings in 90 % intervals, for models that have them. Seconds are those of the fit, with one thread.

The pairs that are compared have 95 % intervals of the difference in RMSE, from a bootstrap over users: features of
chapter 6 of Somani and Gupta (2017) against plain user k-NN, the co-clusters of chapter 4 against biases.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import movielens
import polars as pl

import tastespace as ts

MODELS: dict[str, Callable[[], ts.Recommender]] = {
    "popular": lambda: ts.Popular(),
    "bias": lambda: ts.DampedBias(),
    "user-knn": lambda: ts.UserKNN(),
    "als": lambda: ts.ALS(seed=0),
    "co-clusters": lambda: ts.CoClusters(seed=0),
    "mixture": lambda: ts.UserMixture(seed=0),
    "plsa": lambda: ts.PLSA(seed=0),
    "deep-knn, filled": lambda: ts.DeepKNN(features="filled", seed=0),
    "deep-knn, rbm": lambda: ts.DeepKNN(features="rbm", seed=0),
    "deep-knn, dbn": lambda: ts.DeepKNN(features="dbn", seed=0),
    "deep-knn, autoencoder": lambda: ts.DeepKNN(features="autoencoder", seed=0),
    "rbm": lambda: ts.RBM(seed=0),
    "autorec": lambda: ts.AutoRec(seed=0),
    "autorec, users": lambda: ts.AutoRec(side="users", seed=0),
    "sparse-fc": lambda: ts.SparseFC(seed=0),
    "autorec, 5 of them": lambda: ts.AutoRec(ensemble=5, seed=0),
    "sparse-fc, 5 of them": lambda: ts.SparseFC(ensemble=5, seed=0),
}
COMPARED = {name: "user-knn" for name in MODELS if name.startswith("deep-knn")} | {"co-clusters": "bias"}
TARGETS = {("ml-1m", "autorec"): 0.835, ("ml-1m", "sparse-fc"): 0.828, ("ml-1m", "co-clusters"): 0.906}
MOST_SECONDS = 1800.0  # of one fit of autorec or sparse-fc on ml-1m


def split_of(name: str, data: Path) -> ts.Split:
    """90:10, seed 0."""
    if name == "ml-1m":
        return movielens.split(data)
    columns = ["user", "item", "rating", "time"]
    table = pl.read_csv(Path(data) / "ml-100k" / "u.data", separator="\t", has_header=False, new_columns=columns)
    return ts.random_split(ts.Ratings.from_frame(table.drop("time")), 0.1, seed=0)


def measure(data: Path, of: str, name: str) -> dict[str, Any]:
    """One model: its errors and lists, and those of the one that it is compared with."""
    split = split_of(of, data)
    model = MODELS[name]().set_params(threads=1)
    began = time.perf_counter(), time.process_time()
    model.fit(split.train)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    report = ts.evaluate(model, split)
    found = {"rmse": report["rmse"], "ndcg@10": report["ndcg@10"], "seconds": seconds[0], "cpu seconds": seconds[1]}
    if report.calibration is not None:
        found["coverage"] = report.calibration["coverage_90"]
    if name in COMPARED:
        other = ts.evaluate(MODELS[COMPARED[name]]().set_params(threads=1).fit(split.train), split)
        row = next(row for row in ts.compare_reports(report, other) if row.measure == "rmse")
        found["than"] = {"model": COMPARED[name], "difference": row.difference, "interval": list(row.interval)}
    return found


def main() -> None:
    more = {"only": {"help": "one of the models alone"}, "on": {"choices": ("ml-100k", "ml-1m")}}
    options: argparse.Namespace = harness.arguments(__doc__.splitlines()[0], **more)
    file = harness.RESULTS / "deep.json"
    found = json.loads(file.read_text(encoding="utf-8"))["found"] if file.exists() and not options.quick else {}
    for of in [options.on] if options.on else ["ml-100k"] if options.quick else ["ml-100k", "ml-1m"]:
        for name in [options.only] if options.only else ["bias", "co-clusters"] if options.quick else MODELS:
            known = found.setdefault(of, {})
            if name not in known or options.only:
                known[name] = harness.in_fresh_process(1, measure, options.data, of, name)
                harness.save("deep", {"protocol": __doc__, "found": found}, options)
            print(of, name, json.dumps(known[name]), sep="\t", flush=True)
    for (of, name), target in TARGETS.items():
        if name in found.get(of, {}):
            print(harness.verdict(f"{name} on {of}", found[of][name]["rmse"], target, at_most=True))
            if name != "co-clusters":
                print(harness.verdict(f"seconds of {name}", found[of][name]["seconds"], MOST_SECONDS, at_most=True))


if __name__ == "__main__":
    main()
