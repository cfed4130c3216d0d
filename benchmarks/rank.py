"""How many factors? Reversible jumps against a grid: chosen rank, test RMSE, seconds.

1. MovieLens 100K, 90:10, seed 0. BPMF with its defaults and each rank of a grid, all measured on the test ratings: the
   best of them is chosen *on* the test ratings, which favours the grid. Reversible jumps with their defaults, which see
   the training ratings only, with seeds 0 and 1, and begun with 16 factors instead of one: the mode of the posterior
   over the rank at T = 1, and the RMSE of the posterior mean. Where cooling on to T = 0.001 leads. The same with births
   that are annealed, over bridges of 100 sweeps. Dey and Jhamb (2018) report 1.0209 on 80:20.
2. Gaussian ratings with 3, 5 and 10 factors (90 x 70, half of the pairs, spread 1, noise 0.4): which rank is found.

One thread; seconds are processor time.
"""

from __future__ import annotations

import time
import warnings
from itertools import groupby
from pathlib import Path
from typing import Any

import harness
import numpy as np

import tastespace as ts
from tastespace.errors import TastespaceWarning
from tastespace.randomness import generator
from tastespace.testing import toys

GRID = (1, 2, 4, 8, 16, 32)
PRINTED, WITHIN = 1.0209, 0.01
CHAINS: dict[str, dict[str, Any]] = {
    "seed 0": {},
    "seed 1": {"seed": 1},
    "begun with 16": {"start_rank": 16},
    "annealed births": {"births": "annealed", "warmup": 20, "tuning": 80, "draws": 80, "quench": 0, "sweeps": 4},
}
FIGURES = Path(__file__).parent.parent / "docs" / "images" / "rank"


def split(data: Path | str | None) -> ts.Split:
    """90:10, seed 0."""
    if data is None:
        raise SystemExit("no data folder; pass --data DIR (with ml-100k/u.data) or set TASTESPACE_DATA")
    return ts.random_split(ts.read(Path(data) / "ml-100k" / "u.data"), 0.1, seed=0)


def grid(parts: ts.Split, quick: bool) -> dict[str, dict[str, float]]:
    """Each rank, measured on the test ratings."""
    few: dict[str, Any] = {"warmup": 5, "draws": 10} if quick else {}
    found = {}
    for rank in GRID[:2] if quick else GRID:
        start = time.process_time()
        model = ts.BPMF(n_factors=rank, seed=0, threads=1, **few).fit(parts.train)
        predicted = model.predict(parts.test.user_ids(), parts.test.item_ids()).mean.astype(np.float64)
        error = float(np.sqrt(np.mean((predicted - parts.test.values) ** 2)))
        found[str(rank)] = {"rmse": error, "seconds": time.process_time() - start}
        print(rank, found[str(rank)], flush=True)
    return found


def jumping(parts: ts.Split, quick: bool) -> dict[str, dict[str, Any]]:
    """Chains of several seeds and starts."""
    found = {}
    for name, own in CHAINS.items():
        few = {"warmup": 4, "tuning": 8, "draws": 8, "quench": 4} if quick else {}
        settings = {key: value for key, value in own.items() if key != "seed"} | few
        start = time.process_time()
        choice = ts.choose_rank(parts, jumps=ts.ReversibleJump(**settings), seed=own.get("seed", 0), threads=1)
        found[name] = {
            "rank": choice.rank,
            "rmse": choice.rmse,
            "seconds": time.process_time() - start,
            "posterior": {str(rank): share for rank, share in (choice.posterior or {}).items()},
            "cooled_rank": choice.cooled_rank,
        }
        if choice.trace is not None:
            found[name]["ranks"] = runs(choice.trace.rank.astype(int).tolist())
            found[name]["cooled_loss"] = float(choice.trace.loss[-1])
            found[name]["loss"] = float(np.mean(choice.trace.loss[choice.trace.first : choice.trace.last]))
        print(name, found[name], flush=True)
        if name == "seed 0" and not quick:
            chosen = ts.RankChoices((choice,), len(parts.train), len(parts.test))
            print([str(path.name) for path in ts.write_ranks(chosen, FIGURES)], flush=True)
    return found


def runs(ranks: list[int]) -> str:
    """The ranks of a chain, each with the number of steps that it stayed."""
    return ", ".join(f"{rank} x {len(list(steps))}" for rank, steps in groupby(ranks))


def recovered(quick: bool) -> dict[str, dict[str, Any]]:
    """Ranks that were put in."""
    found = {}
    for rank in (3,) if quick else (3, 5, 10):
        rng = generator(rank)
        ratings, _ = toys.gaussian(90, 70, n_factors=rank, density=0.5, biases=0.3, spread=1.0, noise=0.4, rng=rng)
        start = time.process_time()
        choice = ts.choose_rank(ratings, max_rank=20, seed=0, threads=1)
        found[str(rank)] = {
            "rank": choice.rank,
            "probability": choice.probability,
            "rmse": choice.rmse,
            "seconds": time.process_time() - start,
        }
        print(rank, found[str(rank)], flush=True)
    return found


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    warnings.simplefilter("ignore", TastespaceWarning)
    parts = split(options.data)
    result = {
        "protocol": __doc__,
        "reversible_jump": jumping(parts, options.quick),
        "grid": grid(parts, options.quick),
        "recovered": recovered(options.quick),
        "printed": PRINTED,
    }
    best = min(row["rmse"] for row in result["grid"].values())
    for name, row in result["reversible_jump"].items():
        print(harness.verdict(f"{name}: RMSE behind the best of the grid", row["rmse"] - best, WITHIN, at_most=True))
    harness.save("rank", result, options)


if __name__ == "__main__":
    main()
