"""Settings that are searched against settings that are learned: error, order and the time of everything that it takes.

MovieLens 100K and the small MovieLens of 2018, 90:10, three splits (seeds 0 to 2); means over the splits. All choices
are made on the training part alone: the grid and the search hold a tenth of it out, choose by RMSE, and fit all of
it again. Order is pairwise accuracy, over users. Seconds are processor time, one thread, for all that happens between
the training ratings and the model, as multiples of the grid's on the same split.

- grid: ALS, 32 factors, 5 x 5 strengths of users and items (biases as their side), 15 sweeps each, then one fit.
- tune: 30 trials of `tastespace tune` for ALS: factors, strength, that of the user bias.
- auto: ALS that finds its strengths; empirical Bayes: ALS, PMF and MonotoneMF that learn them.
- n_factors="auto": ALS, VB and BPMF that learn how many factors there are; BPMF as it comes, with 32.

Nothing in this comparison was chosen with these test ratings but what the pages on each model say of split 0.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness

import tastespace as ts
from tastespace.errors import TastespaceWarning

STRENGTHS = (0.02, 0.035, 0.06, 0.1, 0.17)
DATA = ("ml-100k", "ml-latest-small")
ALWAYS: dict[str, Any] = {"seed": 0, "threads": 1}


def by_grid(train: ts.Ratings) -> ts.ALS:
    """The best of the grid on a held-out tenth, fitted again to everything."""
    parts = ts.random_split(train, 0.1, seed=100)
    best = min(
        ((users, items) for users in STRENGTHS for items in STRENGTHS),
        key=lambda pair: error_of(at(*pair).fit(parts.train), parts)["rmse"],
    )
    return at(*best).fit(train)


def at(users: float, items: float) -> ts.ALS:
    """ALS with these strengths."""
    own = {"user_regularization": users, "user_bias_regularization": users}
    own |= {"item_regularization": items, "item_bias_regularization": items}
    return ts.ALS(regularization=users, sweeps=15, tolerance=0.0, **own, **ALWAYS)


def by_tuning(train: ts.Ratings) -> Any:
    return ts.tune(train, "als", seed=0).recommender().set_params(**ALWAYS).fit(train)


WAYS: dict[str, Callable[[ts.Ratings], Any]] = {
    "als, grid": by_grid,
    "als, tune": by_tuning,
    "als, auto": lambda train: ts.ALS(**ALWAYS).fit(train),
    "als, empirical Bayes": lambda train: ts.ALS(regularization="empirical-bayes", **ALWAYS).fit(train),
    "als, empirical Bayes, 160 draws": lambda train: ts.ALS(regularization="empirical-bayes:draws=160", **ALWAYS).fit(
        train
    ),
    "pmf, empirical Bayes": lambda train: ts.PMF(regularization="empirical-bayes", **ALWAYS).fit(train),
    "monotone, auto": lambda train: ts.MonotoneMF(**ALWAYS).fit(train),
    "monotone, empirical Bayes": lambda train: ts.MonotoneMF(regularization="empirical-bayes", **ALWAYS).fit(train),
    "als, n_factors auto": lambda train: ts.ALS(n_factors="auto", **ALWAYS).fit(train),
    "vb, n_factors auto": lambda train: ts.VB(n_factors="auto", **ALWAYS).fit(train),
    "bpmf": lambda train: ts.BPMF(**ALWAYS).fit(train),
    "bpmf, n_factors auto": lambda train: ts.BPMF(n_factors="auto", **ALWAYS).fit(train),
}


def error_of(model: Any, parts: ts.Split) -> dict[str, float]:
    report = ts.evaluate(model, parts, ranking=False, groups=False, calibration=False, bootstrap=0)
    return {"rmse": float(report["rmse"]), "pairwise accuracy": float(report["pairwise_accuracy"])}


def measured(parts: ts.Split, way: Callable[[ts.Ratings], Any]) -> dict[str, float]:
    start = time.process_time()
    model = way(parts.train)
    seconds = time.process_time() - start
    return error_of(model, parts) | {
        "seconds": seconds,
        "factors": float(getattr(model, "n_factors_", model.n_factors)),
    }


def main(options: argparse.Namespace) -> None:
    if options.data is None:
        raise SystemExit("no data folder; pass --data DIR (with ml-100k and ml-latest-small) or set TASTESPACE_DATA")
    found: dict[str, Any] = {}
    for name in DATA[:1] if options.quick else DATA:
        ratings = ts.read(Path(options.data) / name)
        runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for seed in range(1 if options.quick else 3):
            parts = ts.random_split(ratings, 0.1, seed=seed)
            for way, fit in WAYS.items():
                runs[way].append(measured(parts, fit))
                print(name, seed, way, runs[way][-1], flush=True)
        found[name] = runs
        rows = [
            [
                way,
                statistics.fmean(run["rmse"] for run in own),
                statistics.fmean(run["pairwise accuracy"] for run in own),
                statistics.fmean(
                    run["seconds"] / grid["seconds"] for run, grid in zip(own, runs["als, grid"], strict=True)
                ),
                ", ".join(f"{run['factors']:.0f}" for run in own),
            ]
            for way, own in runs.items()
        ]
        print(f"\n## {name}\n")
        print(harness.markdown(["", "RMSE", "pairwise accuracy", "time of the grid", "factors"], rows), flush=True)
    harness.save("no_knobs", {"protocol": __doc__, "found": found}, options)


if __name__ == "__main__":
    warnings.simplefilter("ignore", TastespaceWarning)
    main(harness.arguments(__doc__.splitlines()[0]))
