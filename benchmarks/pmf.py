"""Gradient descent against cornac's MF and Surprise's SVD, on MovieLens 1M (90:10, seed 0, D = 32, one thread).

1. Processor seconds an epoch: the time of n2 epochs less that of n1, over n2 - n1, so that set-up does not count. All
   three visit one rating at a time and have biases and a mean. cornac computes in single precision, as we do, Surprise
   in double. cornac and Surprise are given the ratings in an order drawn at random, once; ours are in blocks, shuffled.
2. RMSE over all test ratings, predictions clipped to the range, cold ones included. Learning rate, strength and
   number of epochs of a peer are the best of a grid, the strength and epochs of ours those that `PMF()` finds by
   itself; both by a tenth of the training ratings, drawn at random. Then all are fitted to all training ratings. Peers
   have one learning rate for all epochs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np
from movielens import Learned

from tastespace import PMF, Ratings, Split, random_split

OURS, CORNAC, SURPRISE = "tastespace", "cornac MF", "Surprise SVD"
PEERS = (CORNAC, SURPRISE)
N_FACTORS = 32
FEW, MANY = 1, {OURS: 61, CORNAC: 41, SURPRISE: 4}
STRENGTH, RATE = 0.05, 0.01
# What is tried of a peer. An epoch of Surprise takes long: fewer settings, those around what is best for cornac.
RATES = {CORNAC: (0.005, 0.01), SURPRISE: (0.01,)}
STRENGTHS = {CORNAC: (0.03, 0.05, 0.07), SURPRISE: (0.05, 0.07)}
EPOCHS = {CORNAC: (20, 40, 80), SURPRISE: (20, 40)}
BEST_RMSE, TIMES = 0.8475, {CORNAC: 1.0, SURPRISE: 10.0}


@dataclass(frozen=True)
class Settings:
    """Of a peer."""

    rate: float
    strength: float
    epochs: int


@dataclass(frozen=True, eq=False)
class Competitors:
    """Every library's way to fit the same ratings, and to say what it learned."""

    train: Ratings

    def fit(self, name: str, settings: Settings) -> Any:
        return {OURS: self.tastespace, CORNAC: self.cornac, SURPRISE: self.surprise}[name](settings)

    def tastespace(self, settings: Settings) -> PMF:
        """Epochs alone: nothing is searched, nothing held out."""
        model = PMF(
            n_factors=N_FACTORS, regularization=settings.strength, learning_rate=settings.rate, seed=0, threads=1
        )
        model.set_params(early_stopping=False, epochs=settings.epochs, schedule="constant")
        return model.fit(replace(self.train))  # without what has been computed from them

    def cornac(self, settings: Settings) -> Any:
        from cornac.models import MF

        model = MF(
            k=N_FACTORS, max_iter=settings.epochs, learning_rate=settings.rate, lambda_reg=settings.strength, seed=0
        )
        return model.fit(self.cornac_data)  # A seed means one thread.

    def surprise(self, settings: Settings) -> Any:
        from surprise import SVD

        options = {"lr_all": settings.rate, "reg_all": settings.strength, "random_state": 0}
        return SVD(n_factors=N_FACTORS, n_epochs=settings.epochs, **options).fit(self.surprise_data)

    @cached_property
    def cornac_data(self) -> Any:
        from cornac.data import Dataset

        train = self._shuffled()
        triples = zip(train.user_rows.tolist(), train.item_rows.tolist(), train.values.tolist(), strict=True)
        return Dataset.from_uir(list(triples), seed=0)

    @cached_property
    def surprise_data(self) -> Any:
        import pandas as pd
        from surprise import Dataset, Reader

        train = self._shuffled()
        frame = pd.DataFrame({"user": train.user_rows, "item": train.item_rows, "rating": train.values})
        return Dataset.load_from_df(frame, Reader(rating_scale=train.range)).build_full_trainset()

    def _shuffled(self) -> Ratings:
        order = np.random.default_rng(0).permutation(len(self.train))
        columns = {name: getattr(self.train, name)[order] for name in ("user_rows", "item_rows", "values")}
        return replace(self.train, **columns, times=None)

    def learned(self, name: str, model: Any) -> Learned:
        """By the rows of the training ratings."""
        n_users, n_items = self.train.n_users, self.train.n_items
        if name == OURS:
            posterior = model.posterior_
            users, items = posterior.users, posterior.items
            return Learned(posterior.mean, users.bias, items.bias, users.factors, items.factors)
        if name == CORNAC:
            users = [model.uid_map[row] for row in range(n_users)]
            items = [model.iid_map[row] for row in range(n_items)]
            biases = (model.u_biases[users], model.i_biases[items])
            return Learned(float(model.global_mean), *biases, model.u_factors[users], model.i_factors[items])
        trained = model.trainset
        users = [trained.to_inner_uid(row) for row in range(n_users)]
        items = [trained.to_inner_iid(row) for row in range(n_items)]
        return Learned(trained.global_mean, model.bu[users], model.bi[items], model.pu[users], model.qi[items])


def epoch_times(data: Path | None, rounds: int) -> dict[str, harness.Timing]:
    """Seconds an epoch of everybody."""
    competitors = Competitors(movielens.split(data).train)
    _ = competitors.cornac_data, competitors.surprise_data  # made here: an epoch has nothing to do with that

    def epochs(name: str, n: int) -> Callable[[], Any]:
        return lambda: competitors.fit(name, Settings(RATE, STRENGTH, n))

    functions = {f"{name}/{n}": epochs(name, n) for name in MANY for n in (FEW, MANY[name])}
    timings = harness.alternate(functions, rounds, warm_up=False)
    return {name: timings[f"{name}/{n}"].minus(timings[f"{name}/{FEW}"], n - FEW) for name, n in MANY.items()}


def best_of_grid(train: Ratings, name: str, quick: bool) -> Settings:
    """What predicts a tenth of the training ratings best."""
    parts = random_split(train, 0.1, seed=1)
    competitors, tried = Competitors(parts.train), {}
    grid = itertools.product(RATES[name], STRENGTHS[name], EPOCHS[name])
    for rate, strength, epochs in itertools.islice(grid, 1) if quick else grid:
        settings = Settings(rate, strength, epochs)
        tried[settings] = competitors.learned(name, competitors.fit(name, settings)).rmse(parts)
        print(f"  {name}, held out: {settings} {tried[settings]:.4f}", flush=True)
    return min(tried, key=lambda settings: tried[settings])


def errors(data: Path | None, quick: bool) -> dict[str, dict[str, Any]]:
    """The test RMSE of ours by default, and of each peer at its best."""
    parts: Split = movielens.split(data)
    competitors = Competitors(parts.train)
    ours: dict[str, Any] = {}
    seconds = harness.measure(lambda: ours.update(model=PMF(seed=0, threads=1).fit(replace(parts.train))))[1]
    posterior = ours["model"].posterior_
    rows: dict[str, dict[str, Any]] = {
        OURS: {
            "settings": f"defaults; found: strength {posterior.penalty.strengths.users:.4f}",
            "epochs": len(posterior.losses),
            "rmse": competitors.learned(OURS, ours["model"]).rmse(parts),
            "seconds": seconds,
        }
    }
    for name in PEERS:
        best = best_of_grid(parts.train, name, quick)
        found: dict[str, Any] = {}
        seconds = harness.measure(
            lambda name=name, best=best, found=found: found.update(model=competitors.fit(name, best))
        )[1]
        rows[name] = {
            "settings": f"rate {best.rate}, strength {best.strength}",
            "epochs": best.epochs,
            "rmse": competitors.learned(name, found["model"]).rmse(parts),
            "seconds": seconds,
        }
    return rows


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    timings = harness.in_fresh_process(1, epoch_times, options.data, options.rounds)
    ours = timings[OURS]
    print(f"\n## Seconds an epoch, ml-1m 90:10 seed 0, D = {N_FACTORS}, one thread, {options.rounds} rounds\n")
    table = [[name, *timing.cells(), timing.times(ours)] for name, timing in timings.items()]
    print(harness.markdown(["", *harness.COLUMNS, "x ours (cpu)"], table), flush=True)
    rows = harness.in_fresh_process(1, errors, options.data, options.quick)
    print(f"\n## Test RMSE, ml-1m 90:10 seed 0, D = {N_FACTORS}\n")
    columns = ["settings", "epochs", "rmse", "seconds"]
    print(
        harness.markdown(
            ["", *columns[:3], "s (cpu)"], [[name, *(row[key] for key in columns)] for name, row in rows.items()]
        )
    )
    verdicts = [harness.verdict("RMSE of PMF()", rows[OURS]["rmse"], BEST_RMSE, at_most=True)]
    for name in PEERS:
        verdicts.append(harness.verdict(f"an epoch of {name}, x ours", timings[name].times(ours), TIMES[name]))
        verdicts.append(
            harness.verdict(f"RMSE of PMF() against {name}", rows[OURS]["rmse"], rows[name]["rmse"], at_most=True)
        )
    result = {
        "protocol": __doc__,
        "epoch": {name: {**timing.summary(), "times_ours": timing.times(ours)} for name, timing in timings.items()},
        "rmse": rows,
    }
    harness.save("pmf", {**result, "verdicts": verdicts}, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
