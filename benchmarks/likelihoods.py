"""Other likelihoods than the Gaussian with constant noise: levels, uneven noise, yes and no.

1. quality: test RMSE and log score on levels (the mean log probability of the star that was given) on MovieLens 100K
   and 1M, 90:10 seed 0, everything else at its default.
2. erratic: 5 % of the users of 1M, chosen at random, get ratings that are uniform over the levels, or drawn from the
   histogram of all ratings. How well does the order by noise find them (precision where 80 % are found), and what do
   they do to the others: test RMSE of the others' true ratings, against a run without the ratings of the chosen ones.
3. yes-no: 1M, whether a rating is 4 or more. Expected calibration error (15 bins of equal width) and AUC over all test
   ratings, against myFM's probit classifier with as many chains and sweeps.
4. sweeps: processor seconds a sweep on 1M at D = 32, one thread: n2 sweeps less n1, over n2 - n1 (as in bpmf.py);
   ours with each likelihood, and myFM's ordered probit.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import bpmf
import gibbs_peers
import harness
import movielens
import numpy as np
from gibbs_peers import Cells, MyFM, Schedule

import tastespace as ts
from tastespace.errors import ConvergenceWarning

os.environ.setdefault("TQDM_DISABLE", "1")
N_FACTORS = 32
KINDS: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "uneven": {"likelihood": "heteroscedastic"},
    "ordinal": {"likelihood": "ordinal"},
    "probit": {"likelihood": "probit"},
    "logistic": {"likelihood": "logistic"},
}
MOST_TIMES = {"uneven": 1.3, "ordinal": 3.0, "probit": 3.0, "logistic": 4.0}
LEAST_TIMES_MYFM = 5.0
SHARE, RECALL, LEAST_PRECISION = 0.05, 0.8, 0.85
BINS = 15
FEW, MANY, MANY_MYFM = 1, 31, 4


def fitted(train: ts.Ratings, kind: str, **more: Any) -> ts.BPMF:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ts.BPMF(n_factors=N_FACTORS, seed=0, threads=1, **KINDS[kind], **more).fit(train)


# Quality


def quality(data: Path | None, name: str, kind: str) -> dict[str, Any]:
    parts = bpmf.parts_of(name, data)
    start = time.process_time()
    model = fitted(parts.train, kind)
    seconds = time.process_time() - start
    prediction = model.predict(parts.test.user_ids(), parts.test.item_ids())
    return {
        "rmse": gibbs_peers.rmse(prediction.mean, parts),
        "log_score": float(prediction.rating.log_score(parts.test.values).mean()),
        "crps": float(prediction.rating.crps(parts.test.values).mean()),
        "seconds": seconds,
    }


def measure_quality(options: Any) -> list[str]:
    result: dict[str, Any] = {}
    verdicts = []
    for name in ("ml-100k",) if options.quick else ("ml-100k", "ml-1m"):
        kinds = ("gaussian", "uneven", "ordinal")
        found = {kind: harness.in_fresh_process(1, quality, options.data, name, kind) for kind in kinds}
        result[name] = found
        print(f"\n## Test errors, {name}, D = {N_FACTORS}\n")
        rows = [[kind, *row.values()] for kind, row in found.items()]
        print(harness.markdown(["", "RMSE", "log score", "CRPS", "s (cpu)"], rows), flush=True)
        most = found["gaussian"]["rmse"] + 0.001
        verdicts.append(harness.verdict(f"RMSE of levels, {name}", found["ordinal"]["rmse"], most, at_most=True))
        for kind in ("ordinal", "uneven"):
            least = found["gaussian"]["log_score"]
            verdicts.append(harness.verdict(f"log score of {kind}, {name}", found[kind]["log_score"], least))
    harness.save("likelihoods_quality", {"protocol": __doc__, **result, "verdicts": verdicts}, options)
    return verdicts


# Erratic users


def planted(data: Path | None, name: str, how: str) -> dict[str, Any]:
    """Some users rate at random: who is found, and what the others lose."""
    parts, rng = bpmf.parts_of(name, data), np.random.default_rng(0)
    train, test = parts.train, parts.test
    chosen = rng.choice(train.n_users, round(SHARE * train.n_users), replace=False)
    theirs = np.isin(train.user_rows, chosen)
    pool = np.unique(train.values) if how == "uniform" else train.values
    values = np.where(theirs, rng.choice(pool, len(train)), train.values).astype(np.float32)
    model, without = fitted(replace(train, values=values), "uneven"), fitted(train.masked(~theirs), "uneven")
    # All users in order of their noise, noisiest first.
    order = train.users.rows_of(model.erratic_users(train.n_users).ids)
    is_planted = np.isin(order, chosen)
    enough = int(np.searchsorted(np.cumsum(is_planted), RECALL * len(chosen))) + 1
    others = ~np.isin(train.users.rows_of(test.user_ids()), chosen)

    def rmse(fitted_model: ts.BPMF) -> float:
        mean = fitted_model.predict(test.user_ids().filter(others), test.item_ids().filter(others)).mean
        return float(np.sqrt(np.mean((mean - test.values[others]) ** 2)))

    even = fitted(replace(train, values=values), "gaussian")
    return {
        "precision": float(is_planted[:enough].mean()),
        "rmse_of_others": rmse(model),
        "rmse_without_them": rmse(without),
        "rmse_with_constant_noise": rmse(even),
        "planted": len(chosen),
    }


def measure_erratic(options: Any) -> list[str]:
    name = "ml-100k" if options.quick else "ml-1m"
    found = {how: harness.in_fresh_process(1, planted, options.data, name, how) for how in ("uniform", "histogram")}
    print(f"\n## Planted raters at random, {name}\n")
    print(harness.markdown(["", *next(iter(found.values()))], [[how, *row.values()] for how, row in found.items()]))
    uniform = found["uniform"]
    verdicts = [
        harness.verdict(f"precision at recall {RECALL}", uniform["precision"], LEAST_PRECISION),
        harness.verdict(
            "RMSE of the others", uniform["rmse_of_others"], uniform["rmse_without_them"] + 0.001, at_most=True
        ),
    ]
    harness.save("likelihoods_erratic", {"protocol": __doc__, name: found, "verdicts": verdicts}, options)
    return verdicts


# Yes and no


def yes_no(data: Path | None, name: str, who: str) -> dict[str, Any]:
    parts = bpmf.parts_of(name, data)
    train, test = parts.train.at_least(4), parts.test.at_least(4)
    start = time.process_time()
    if who == MyFM.name:
        default = ts.BPMF()
        schedule = Schedule(default.chains, default.warmup, default.draws, default.thin)
        chance = myfm_probit(train, Cells.of(parts), schedule)
    else:
        chance = fitted(train, who).predict(test.user_ids(), test.item_ids()).mean
    return {
        "calibration_error": calibration_error(chance, test.values),
        "auc": auc(chance, test.values),
        "log_score": float(np.mean(np.log(np.where(test.values == 1, chance, 1 - chance)))),
        "seconds": time.process_time() - start,
    }


def myfm_probit(train: ts.Ratings, cells: Cells, schedule: Schedule) -> np.ndarray:
    """The mean chance of the kept sweeps of all chains."""
    import myfm

    peer = MyFM(train)
    chances = []
    for seed in range(schedule.chains):
        model = myfm.MyFMGibbsClassifier(N_FACTORS, random_seed=seed)
        sweeps = schedule.warmup + schedule.sweeps
        model.fit(peer.rows, train.values > 0.5, n_iter=sweeps, n_kept_samples=schedule.sweeps)
        chances.append(model.predict_proba(peer.indicators(cells)))
    return np.mean(chances, axis=0)


def calibration_error(chance: np.ndarray, values: np.ndarray) -> float:
    """Shares of yes less mean chances, bin by bin, weighted by ratings."""
    places = np.minimum((np.asarray(chance) * BINS).astype(int), BINS - 1)
    n = np.bincount(places, minlength=BINS)
    apart = np.bincount(places, values, minlength=BINS) - np.bincount(places, chance, minlength=BINS)
    return float(np.abs(apart).sum() / n.sum())


def auc(chance: np.ndarray, values: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks, n_yes = rankdata(chance), values.sum()
    return float((ranks[values == 1].sum() - n_yes * (n_yes + 1) / 2) / (n_yes * (len(values) - n_yes)))


def measure_yes_no(options: Any) -> list[str]:
    name = "ml-100k" if options.quick else "ml-1m"
    found = {
        who: harness.in_fresh_process(1, yes_no, options.data, name, who) for who in ("probit", "logistic", MyFM.name)
    }
    print(f"\n## Four stars or more, {name}\n")
    rows = [[who, *row.values()] for who, row in found.items()]
    print(harness.markdown(["", "calibration error", "AUC", "log score", "s (cpu)"], rows), flush=True)
    verdicts = []
    for who in ("probit", "logistic"):
        verdicts.append(
            harness.verdict(f"calibration error, {who}", found[who]["calibration_error"], 0.02, at_most=True)
        )
        verdicts.append(harness.verdict(f"AUC, {who}, against myFM", found[who]["auc"], found[MyFM.name]["auc"]))
    harness.save("likelihoods_yes_no", {"protocol": __doc__, name: found, "verdicts": verdicts}, options)
    return verdicts


# Seconds a sweep


def sweep_times(data: Path | None, rounds: int) -> dict[str, harness.Timing]:
    import myfm

    train = movielens.split(data).train
    liked, peer, levels = train.at_least(4), MyFM(train), (train.values - 1).astype(np.int64)

    def ours(kind: str, sweeps: int) -> None:
        ratings = liked if kind in ("probit", "logistic") else train
        fitted(ratings, kind, chains=1, warmup=sweeps - 1, draws=1, thin=1, start="random")

    def theirs(sweeps: int) -> None:
        myfm.MyFMOrderedProbit(N_FACTORS, random_seed=0).fit(peer.rows, levels, n_iter=sweeps, n_kept_samples=1)

    many = {**dict.fromkeys(KINDS, MANY), "myFM, ordered probit": MANY_MYFM}
    functions: dict[str, Callable[[], None]] = {}
    for name, most in many.items():
        for n in (FEW, most):
            functions[f"{name}/{n}"] = (
                (lambda name=name, n=n: ours(name, n)) if name in KINDS else lambda n=n: theirs(n)
            )
    timings = harness.alternate(functions, rounds, warm_up=False)
    return {name: timings[f"{name}/{n}"].minus(timings[f"{name}/{FEW}"], n - FEW) for name, n in many.items()}


def measure_sweeps(options: Any) -> list[str]:
    timings = harness.in_fresh_process(1, sweep_times, options.data, options.rounds)
    times = {name: timing.times(timings["gaussian"]) for name, timing in timings.items()}
    myfm_times = timings["myFM, ordered probit"].times(timings["ordinal"])
    print(f"\n## Seconds a sweep, ml-1m, D = {N_FACTORS}, one thread\n")
    rows = [[name, *timing.cells(), times[name]] for name, timing in timings.items()]
    print(harness.markdown(["", *harness.COLUMNS, "x gaussian"], rows), flush=True)
    verdicts = [
        harness.verdict(f"a sweep of {kind}, x gaussian", times[kind], most, at_most=True)
        for kind, most in MOST_TIMES.items()
    ]
    verdicts.append(harness.verdict("myFM's ordered probit, x ours", myfm_times, LEAST_TIMES_MYFM))
    result = {name: {**timing.summary(), "times gaussian": times[name]} for name, timing in timings.items()}
    harness.save("likelihoods_sweeps", {"protocol": __doc__, **result, "verdicts": verdicts}, options)
    return verdicts


QUESTIONS = {
    "sweeps": measure_sweeps,
    "quality": measure_quality,
    "erratic": measure_erratic,
    "yes-no": measure_yes_no,
}


if __name__ == "__main__":
    harness.answer(QUESTIONS, __doc__.splitlines()[0])
