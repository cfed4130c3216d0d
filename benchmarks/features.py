"""Features as priors: bags and attributes against myFM with the same ones, and items that nobody has rated.

1. Bags: test RMSE with the users' bag of items and the items' bag of users, on the official folds u1..u5 of MovieLens
   100K and on 90:10 splits (seed 0) of 100K and 1M. myFM gets the same bags, with 1/sqrt(n) for each of n entries, as
   relation blocks with a group for each; both run the same numbers of sweeps, and average the predictions of all after
   the warm-up (ours: of every second). Predictions are clipped to the training range; all test ratings count. The bags
   are made of the training pairs. Nothing is chosen by test ratings.
2. Attributes: what genre, year, age and occupation add to ours with both bags (100K).
3. Cold items: MovieLens 1M with a tenth of the films (seed 0) held out with all their ratings. What is known of them
   are genre, year, directors and actors: test RMSE, and the coverage of 90 % intervals, beside the bias model.

`python benchmarks/features.py [bags|attributes|cold] [--data FOLDER] [--splits u1,ml-1m] [--factors 10,32]`
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

import tastespace as ts
from tastespace.data.csr import CSR
from tastespace.errors import ConvergenceWarning
from tastespace.models.factorization.priors.design import bag_of

os.environ.setdefault("TQDM_DISABLE", "1")
WARMUP, SWEEPS = 100, 412  # as in myFM's notebooks: 512 in all
FEW_WARMUP, FEW_SWEEPS = 60, 160  # on MovieLens 1M
FILMS = ["genres", "year", "directors", "actors"]


def parts_of(name: str, data: Path) -> ts.Split:
    """The training and test parts by name."""
    if name == "ml-1m":
        return ts.random_split(ts.Ratings.from_frame(pl.read_parquet(data / "ml-1m" / "ratings.parquet")), 0.1, seed=0)
    if name == "ml-100k":
        return ts.random_split(ts.read(data / "ml-100k" / "u.data"), 0.1, seed=0)
    return ts.Split(ts.read(data / "ml-100k" / f"{name}.base"), ts.read(data / "ml-100k" / f"{name}.test"))


def rmse(predicted: np.ndarray, parts: ts.Split) -> float:
    errors = np.clip(predicted, *parts.train.range) - parts.test.values
    return float(np.sqrt(np.mean(errors**2)))


def ours(
    train: ts.Ratings, parts: ts.Split, n_factors: int, warmup: int, sweeps: int, **settings: Any
) -> dict[str, Any]:
    """Two chains that share the sweeps after the warm-up."""
    settings = {"warmup": warmup, "draws": sweeps // 4, "thin": 2, "seed": 0, **settings}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ts.BPMF(n_factors=n_factors, **settings).fit(train)
    seconds = time.process_time() - start
    predicted = model.predict(parts.test.user_ids(), parts.test.item_ids())
    return {"rmse": rmse(predicted.mean, parts), "seconds": seconds, "sweeps": 2 * warmup + sweeps}


def of_myfm(parts: ts.Split, n_factors: int, warmup: int, sweeps: int, *, bags: bool = True) -> dict[str, Any]:
    """A relation block for each side: who it is, and the bag; what is cold has neither."""
    import myfm

    train, test = parts.train, parts.test

    def side(pairs: CSR, n_others: int, rows: np.ndarray, asked: np.ndarray) -> tuple[Any, Any, list[int]]:
        n = len(pairs)
        known = sp.hstack([sp.identity(n), bag_of(pairs, n_others)] if bags else [sp.identity(n)])
        whole = sp.vstack([known, sp.csr_matrix((1, known.shape[1]))], format="csr")  # the last row: nothing known
        blocks = (myfm.RelationBlock(np.where(at < 0, n, at).tolist(), whole) for at in (rows, asked))
        return (*blocks, [n, n_others] if bags else [n])

    users = side(train.by_user, train.n_items, train.user_rows, train.users.rows_of(test.user_ids()))
    items = side(train.by_item, train.n_users, train.item_rows, train.items.rows_of(test.item_ids()))
    start = time.process_time()
    model = myfm.MyFMGibbsRegressor(n_factors, random_seed=0)
    model.fit(
        None,
        train.values.astype(np.float64),
        X_rel=[users[0], items[0]],
        n_iter=warmup + sweeps,
        n_kept_samples=sweeps,
        group_shapes=users[2] + items[2],
    )
    seconds = time.process_time() - start
    predicted = model.predict(None, [users[1], items[1]])
    return {"rmse": rmse(predicted, parts), "seconds": seconds, "sweeps": warmup + sweeps}


def say(*figures: Any) -> None:
    print(*(f"{each:.4f}" if isinstance(each, float) else each for each in figures), sep="\t", flush=True)


def bags(data: Path, names: list[tuple[str, int]], *, peers: bool) -> None:
    say("split", "D", "who", "rmse", "processor s", "s a sweep")
    for name, n_factors in names:
        parts = parts_of(name, data)
        lengths = (FEW_WARMUP, FEW_SWEEPS) if name == "ml-1m" else (WARMUP, SWEEPS)
        train = parts.train.with_user_features("bag").with_item_features("bag")
        runs = {
            "both bags": partial(ours, train, parts, n_factors, *lengths),
            "both bags, ordinal": partial(ours, train, parts, n_factors, *lengths, likelihood="ordinal"),
            "no bag": partial(ours, parts.train, parts, n_factors, *lengths),
        }
        if peers:
            runs["myFM, both bags"] = partial(of_myfm, parts, n_factors, *lengths)
        for who, run in runs.items():
            found = run()
            say(name, n_factors, who, found["rmse"], found["seconds"], found["seconds"] / found["sweeps"])


def attributes(data: Path) -> None:
    """What is known of users and films beside the bags, on u1."""
    parts = parts_of("u1", data)
    described = ts.read(data / "ml-100k" / "u.data")
    train = parts.train.with_items(*_aligned(described.item_titles, described.item_attributes, described, parts.train))
    both = train.with_user_features("bag").with_item_features("bag")
    say("features", "rmse")
    say("both bags", ours(both, parts, 10, WARMUP, SWEEPS)["rmse"])
    for name in ("genre", "year"):
        say(f"both bags, {name}", ours(both.with_item_features(name), parts, 10, WARMUP, SWEEPS)["rmse"])


def _aligned(titles: Any, table: Any, known: ts.Ratings, train: ts.Ratings) -> tuple[Any, Any]:
    rows = known.items.rows_of(train.items.ids)
    return (None if titles is None else titles.gather(rows)), table[rows]


def cold(data: Path) -> None:
    """Whole films held out: RMSE, and how often 90 % intervals hold."""
    ratings = ts.Ratings.from_frame(pl.read_parquet(data / "ml-1m" / "ratings.parquet"))
    films = pl.read_parquet(data / "ml-1m" / "films.parquet")
    out = np.random.default_rng(0).choice(ratings.n_items, ratings.n_items // 10, replace=False)
    is_cold = np.isin(ratings.item_rows, out)
    everything = np.arange(len(ratings))
    parts = ts.Split(ratings.take(everything[~is_cold]), ratings.take(everything[is_cold]))
    known = films.filter(pl.col("item").is_in(parts.train.items.ids.implode()))
    new = films.filter(pl.col("item").is_in(parts.test.items.ids.implode()))
    train = parts.train.with_item_features(known.select("item", *FILMS))
    say("model", "rmse", "coverage of 90 %")
    base = ts.DampedBias().fit(parts.train).predict(parts.test.user_ids(), parts.test.item_ids())
    say("bias", rmse(base.mean, parts), "")
    for who, ours_train in (("BPMF, films", train), ("BPMF, films and users' bag", train.with_user_features("bag"))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ts.BPMF(n_factors=16, warmup=50, draws=40, seed=0).fit(ours_train)
            model = model.with_items(new.select("item", *FILMS))
        predicted = model.predict(parts.test.user_ids(), parts.test.item_ids())
        low, high = predicted.interval(0.9).T
        held = float(np.mean((low <= parts.test.values) & (parts.test.values <= high)))
        say(who, rmse(predicted.mean, parts), held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bags", "attributes", "cold"], default="bags", nargs="?")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TASTESPACE_DATA", ".")))
    parser.add_argument("--splits", default="u1,u2,u3,u4,u5,ml-100k,ml-1m")
    parser.add_argument("--factors", default="10,32")
    parser.add_argument("--without-peers", action="store_true")
    given = parser.parse_args()
    if given.what == "cold":
        cold(given.data)
    elif given.what == "attributes":
        attributes(given.data)
    else:
        factors = [int(text) for text in given.factors.split(",")]
        names = [(name, d) for name in given.splits.split(",") for d in (factors if name != "ml-1m" else factors[-1:])]
        bags(given.data, names, peers=not given.without_peers)


if __name__ == "__main__":
    main()
