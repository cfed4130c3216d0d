"""Features as priors: bags and attributes against peers with the same ones, and items that nobody has rated.

All errors are test RMSE, of predictions clipped to the training range, over all test ratings. Bags are made of the
training pairs. Nothing is chosen by test ratings. One thread everywhere, one seed.

bags. The users' bag of items and the items' bag of users, on the official folds u1..u5 of MovieLens 100K and on 90:10
   splits (seed 0) of 100K and 1M. myFM gets the same bags, with 1/sqrt(n) for each of n entries. One chain each, 60
   sweeps of warm-up; the predictions of the 200 sweeps after it (160 on 1M) are averaged. Gaussian and ordinal.
draws. Effective draws of 200 test predictions a processor second on 1M and on 90:10 of 100K, 32 factors, both bags,
   Gaussian: the median of the predictions, of the sweeps after the warm-up of one chain.
cold. MovieLens 1M, a tenth of the films (seed 0) held out with all their ratings, known by genres, year, directors and
   actors, of which all have the same columns. RMSE, share of test ratings in 90 % intervals, and how many of the cold
   films that a user liked (4 stars or more) are in a list of 20 of all films that are new to them, for 1 000 users.
articles. citeulike-t, a tenth of the articles (seed 0) held out with all who saved them, known by the tf-idf of their
   words. For 1 000 users who saved such: recall and NDCG among the cold articles. ImplicitALS has its defaults;
   profiles are sums of tf-idf; the third is like DropoutNet (Volkovs et al. 2017): a network from 300 directions of
   tf-idf, and item factors that are left out half of the time, to the factors of the same ALS without features.
added. What attributes add to both bags, and what noise does to no features: means over three seeds.
costs. MovieLens 1M, 32 factors, the default draws: size on disk without ratings, and milliseconds for a new user with
   100 ratings, without features and with both bags.
neighbours. Data sets where neighbours beat factors: 90:10, seed 0. Attributes are those of anime_info.dat that are not
   derived from ratings.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feature_peers
import harness
import numpy as np
import polars as pl
import scipy.sparse as sp

import tastespace as ts
from tastespace.errors import ConvergenceWarning, DataWarning
from tastespace.inference.diagnostics import effective_for_mean
from tastespace.models.base.posterior import People
from tastespace.models.factorization.gibbs.item_draws import Watched
from tastespace.models.factorization.gibbs.sweep import GibbsSweep
from tastespace.models.factorization.likelihoods.base import Observations
from tastespace.randomness import generator

FOLDS = ("u1", "u2", "u3", "u4", "u5")
SPLITS = (*FOLDS, "ml-100k", "ml-1m")
WARMUP, SWEEPS, FEW_SWEEPS = 60, 200, 160
NOT_BEHIND = 0.0005
N_WATCHED, LEAST_TIMES = 200, 8.0
FILMS = ("genres", "year", "directors", "actors")
COLD_FACTORS, COLD_WARMUP, COLD_DRAWS = 32, 60, 80
N_ASKED, LENGTH = 1000, 20
CUTS = (20, 50, 100)
SEEDS, N_NOISE = 3, 300
ADDED = {
    "genres": (("genres",), ()),
    "year": (("year",), ()),
    "age": ((), ("age",)),
    "occupation": ((), ("occupation",)),
    "all": (("genres", "year"), ("age", "gender", "occupation")),
}


class Kept:
    """Results on disk, saved one by one: an interrupted run goes on where it was."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.options = name, options
        file = harness.RESULTS / f"{name}.json"
        stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() and not options.quick else {}
        self.found: dict[str, dict[str, Any]] = stored.get("found", {})

    def measured(self, case: str, who: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What was found before, or is now, in a process of its own."""
        found = self.found.setdefault(case, {})
        if who not in found or self.options.again:
            found[who] = harness.in_fresh_process(1, function, self.options.data, *arguments)
            harness.save(self.name, {"protocol": __doc__, "found": self.found}, self.options)
            print(case, who, json.dumps(found[who])[:200], sep="\t", flush=True)
        return found[who]


def parts_of(data: Path, name: str) -> ts.Split:
    """The training and test parts by name."""
    if name == "ml-1m":
        return ts.random_split(ts.Ratings.from_frame(pl.read_parquet(data / "ml-1m" / "ratings.parquet")), 0.1, seed=0)
    if name == "ml-100k":
        return ts.random_split(ts.read(data / "ml-100k" / "u.data"), 0.1, seed=0)
    return ts.Split(ts.read(data / "ml-100k" / f"{name}.base"), ts.read(data / "ml-100k" / f"{name}.test"))


def lengths(name: str, quick: bool) -> tuple[int, int]:
    """Sweeps of warm-up, and after it."""
    return (3, 6) if quick else (WARMUP, FEW_SWEEPS if name == "ml-1m" else SWEEPS)


def rmse(predicted: np.ndarray, parts: ts.Split) -> float:
    errors = np.clip(predicted, *parts.train.range) - parts.test.values
    return float(np.sqrt(np.mean(errors**2)))


def fitted(train: ts.Ratings, n_factors: int, warmup: int, draws: int, **settings: Any) -> Any:
    """One chain."""
    settings = {"chains": 1, "thin": 1, "seed": 0, "threads": 1, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ts.BPMF(n_factors=n_factors, warmup=warmup, draws=draws, **settings).fit(train)


# Bags


def our_bags(data: Path, name: str, n_factors: int, likelihood: str, bags: bool, quick: bool) -> dict[str, float]:
    parts, (warmup, sweeps) = parts_of(data, name), lengths(name, quick)
    train = parts.train.with_user_features("bag").with_item_features("bag") if bags else parts.train
    start = time.process_time()
    model = fitted(train, n_factors, warmup, sweeps, likelihood=likelihood)
    seconds = time.process_time() - start
    predicted = model.predict(parts.test.user_ids(), parts.test.item_ids()).mean
    return {"rmse": rmse(predicted, parts), "seconds": seconds, "seconds a sweep": seconds / (warmup + sweeps)}


def their_bags(data: Path, name: str, n_factors: int, likelihood: str, quick: bool) -> dict[str, float]:
    parts, (warmup, sweeps) = parts_of(data, name), lengths(name, quick)
    peer = feature_peers.MyFM(parts.train, n_factors, likelihood == "ordinal")
    start = time.process_time()
    model = peer.fit(warmup + sweeps, sweeps)
    seconds = time.process_time() - start
    predicted = peer.predict(model, parts.test)
    return {"rmse": rmse(predicted, parts), "seconds": seconds, "seconds a sweep": seconds / (warmup + sweeps)}


def bags(options: argparse.Namespace) -> list[str]:
    kept, verdicts = Kept("features_bags", options), []
    for name in options.splits or SPLITS:
        for n_factors in options.factors or ((32,) if name == "ml-1m" else (10, 32)):
            case = f"{name}, {n_factors} factors"
            kept.measured(case, "no bag", our_bags, name, n_factors, "gaussian", False, options.quick)
            for likelihood in ("gaussian", "ordinal"):
                run = (name, n_factors, likelihood)
                ours = kept.measured(case, f"bags, {likelihood}", our_bags, *run, True, options.quick)
                theirs = kept.measured(case, f"myFM, bags, {likelihood}", their_bags, *run, options.quick)
                behind = ours["rmse"] - theirs["rmse"]
                verdicts.append(
                    harness.verdict(f"{case}, {likelihood}: less that of myFM", behind, NOT_BEHIND, at_most=True)
                )
    return verdicts


def watched(parts: ts.Split) -> ts.Ratings:
    """Test ratings of users and items that the training part knows."""
    train, test = parts.train, parts.test
    known = (train.users.rows_of(test.user_ids()) >= 0) & (train.items.rows_of(test.item_ids()) >= 0)
    return test.take(np.flatnonzero(known)[:N_WATCHED])


def effective(predictions: np.ndarray, seconds: float) -> dict[str, float]:
    """Effective draws of predictions, sweeps x pairs."""
    found = effective_for_mean(predictions.astype(np.float64).T[:, None])
    return {
        "effective draws a sweep": float(np.median(found)) / len(predictions),
        "effective draws a second": float(np.median(found)) / seconds,
    }


def our_draws(data: Path, name: str, quick: bool) -> dict[str, float]:
    parts, (warmup, sweeps) = parts_of(data, name), lengths(name, quick)
    train = parts.train.with_user_features("bag").with_item_features("bag")
    asked, rng = watched(parts), generator(0)
    pairs = train.users.rows_of(asked.user_ids()), train.items.rows_of(asked.item_ids())
    model = ts.BPMF(n_factors=32, threads=1).story(train)
    sweep = GibbsSweep(model, Observations.of(train, model.dtype, model.offset, model.scale))
    watch = Watched.of(train, None, model, generator(1))
    state, predictions, seconds = sweep.init(rng), [], 0.0
    for place in range(warmup + sweeps):
        start = time.process_time()
        state, _ = sweep.step(state, rng)
        if place >= warmup:
            seconds += time.process_time() - start
            predictions.append(watch.predict(state, *pairs))
    return {"seconds a sweep": seconds / sweeps} | effective(np.array(predictions), seconds)


def their_draws(data: Path, name: str, quick: bool) -> dict[str, float]:
    parts, (warmup, sweeps) = parts_of(data, name), lengths(name, quick)
    peer = feature_peers.MyFM(parts.train, 32)
    start = time.process_time()
    model = peer.fit(warmup + sweeps, sweeps)
    a_sweep = (time.process_time() - start) / (warmup + sweeps)
    each = peer.predict_each(model, watched(parts))
    return {"seconds a sweep": a_sweep} | effective(each, a_sweep * sweeps)


def draws(options: argparse.Namespace) -> list[str]:
    kept, verdicts = Kept("features_draws", options), []
    for name in options.splits or ("ml-100k", "ml-1m"):
        ours = kept.measured(name, "both bags", our_draws, name, options.quick)
        theirs = kept.measured(name, "myFM, both bags", their_draws, name, options.quick)
        times = ours["effective draws a second"] / theirs["effective draws a second"]
        verdicts.append(harness.verdict(f"{name}: effective draws a second, times those of myFM", times, LEAST_TIMES))
    return verdicts


# Cold items


def cold_parts(data: Path) -> ts.Split:
    films = pl.read_parquet(data / "ml-1m" / "films.parquet").select("item", *FILMS)
    films = films.with_columns(pl.col("year").cast(pl.Int32, strict=False))
    ratings = ts.Ratings.from_frame(pl.read_parquet(data / "ml-1m" / "ratings.parquet"))
    return ts.held_out_items(ratings.with_item_features(films), 0.1, seed=0)


def found_cold(parts: ts.Split, asked: np.ndarray, lists: list[list[Any]]) -> dict[str, float]:
    """The share of the cold films that they liked in the lists of these users, and the share of cold films in lists."""
    test = parts.test
    liked: dict[Any, set[Any]] = {}
    is_liked = test.values >= feature_peers.LIKED
    for user, item in zip(test.user_ids().filter(is_liked), test.item_ids().filter(is_liked), strict=True):
        liked.setdefault(user, set()).add(item)
    cold = set(test.items.ids)
    recalls = [len(liked[user] & set(found)) / len(liked[user]) for user, found in zip(asked, lists, strict=True)]
    return {
        f"recall@{LENGTH} of cold": float(np.mean(recalls)),
        "share of cold in lists": float(np.mean([len(cold & set(found)) / LENGTH for found in lists])),
    }


def asked_users(parts: ts.Split, quick: bool) -> np.ndarray:
    """Users of the training part who liked cold films."""
    able = parts.test.user_ids().filter(parts.test.values >= feature_peers.LIKED).unique().sort()
    able = able.filter(parts.train.users.rows_of(able) >= 0)
    return np.random.default_rng(0).permutation(able.to_numpy())[: 20 if quick else N_ASKED]


def measured_cold(model: Any, parts: ts.Split, quick: bool, **how: Any) -> dict[str, float]:
    """Errors, intervals and lists of a model that knows the cold films."""
    predicted = model.predict(parts.test.user_ids(), parts.test.item_ids())
    found = {"rmse": rmse(predicted.mean, parts)}
    if predicted.belief_sd is not None:  # else there are no intervals
        low, high = predicted.interval(0.9).T
        found["in 90 % intervals"] = float(np.mean((low <= parts.test.values) & (parts.test.values <= high)))
    asked = asked_users(parts, quick)
    lists = [model.recommend([user], LENGTH, **how).item_ids.to_list() for user in asked.tolist()]
    return found | found_cold(parts, asked, lists)


def our_cold(data: Path, who: str, quick: bool) -> dict[str, float]:
    parts = cold_parts(data)
    models: dict[str, Callable[[ts.Ratings], Any]] = {
        "popular": lambda train: ts.Popular().fit(train),
        "bias": lambda train: ts.DampedBias().fit(train),
        "profile": lambda train: ts.ContentProfile(seed=0).fit(train),
        "bpmf, films": cold_bpmf(quick),
        "bpmf, films and users' bag": lambda train: cold_bpmf(quick)(train.with_user_features("bag")),
        "bpmf, films and both bags": lambda train: cold_bpmf(quick)(
            train.with_user_features("bag").with_item_features("bag")
        ),
        "joint, films": lambda train: ts.Joint(threads=1, seed=0).fit(train),
    }
    model = models[who](parts.train).with_items(parts.test.item_features)
    found = measured_cold(model, parts, quick)
    if who == "bpmf, films":
        curious = measured_cold(model, parts, quick, policy="curious")
        found |= {f"curious: {name}": value for name, value in curious.items() if "cold" in name}
    return found


def cold_bpmf(quick: bool) -> Callable[[ts.Ratings], Any]:
    warmup, n_draws = (3, 6) if quick else (COLD_WARMUP, COLD_DRAWS)
    return lambda train: fitted(train, COLD_FACTORS, warmup, n_draws, thin=1 if quick else 2)


def their_cold(data: Path, who: str, quick: bool) -> dict[str, float]:
    parts = cold_parts(data)
    train, known = parts.train, parts.train.item_features
    features = sp.vstack([known.matrix, known.encode(parts.test.item_features)], format="csr")
    if who == "macau":
        warmup, sweeps = (2, 4) if quick else (COLD_WARMUP, 2 * COLD_DRAWS)
        return {"rmse": rmse(feature_peers.macau(train, features, parts, COLD_FACTORS, warmup, sweeps), parts)}
    asked = asked_users(parts, quick)
    rows = train.users.rows_of(pl.Series(asked))
    scores = feature_peers.lightfm_scores(train, features, rows, has_own=who == "lightfm")
    by_user, ids = train.by_user, [*train.items.ids, *parts.test.items.ids]
    lists = []
    for row, own in zip(rows.tolist(), scores, strict=True):
        own[by_user.columns[by_user.offsets[row] : by_user.offsets[row + 1]]] = -np.inf
        lists.append([ids[place] for place in np.argsort(-own)[:LENGTH]])
    return found_cold(parts, asked, lists)


def cold(options: argparse.Namespace) -> list[str]:
    kept, case = Kept("features_cold", options), "ml-1m"
    some_bags = ("bpmf, films and users' bag", "bpmf, films and both bags")
    for who in ("popular", "bias", "profile", "bpmf, films", *some_bags):
        kept.measured(case, who, our_cold, who, options.quick)
    for who in ("lightfm", "lightfm, features alone", "macau"):
        kept.measured(case, who, their_cold, who, options.quick)
    best, base = kept.found[case]["bpmf, films"], kept.found[case]["bias"]
    held = best["in 90 % intervals"]
    return [
        harness.verdict("RMSE of cold films less that of biases", best["rmse"] - base["rmse"], 0.0, at_most=True),
        harness.verdict("90 % intervals of cold films hold", held, 0.87),
        harness.verdict("90 % intervals of cold films hold", held, 0.93, at_most=True),
        harness.verdict(
            "RMSE of cold films less that of Macau", best["rmse"] - kept.found[case]["macau"]["rmse"], 0.0, at_most=True
        ),
    ]


def article_parts(data: Path) -> ts.Split:
    folder = data / "citeulike-t"
    saved, words = pl.read_parquet(folder / "saved.parquet"), pl.read_parquet(folder / "words.parquet")
    n_items, n_words = (int(words[name].max()) + 1 for name in ("item", "word"))
    frequency = np.bincount(words["word"], minlength=n_words)
    weights = np.log1p(words["count"].to_numpy()) * np.log(n_items / np.maximum(frequency, 1))[words["word"]]
    tfidf = sp.csr_matrix((weights, (words["item"], words["word"])), shape=(n_items, n_words))
    lengths = np.sqrt(tfidf.multiply(tfidf).sum(axis=1)).A1
    tfidf = sp.csr_matrix(sp.diags(1 / np.maximum(lengths, 1e-9)) @ tfidf)
    ratings = ts.Ratings.from_arrays(saved["user"], saved["item"], np.ones(len(saved))).with_kind("one-class")
    return ts.held_out_items(ratings.with_item_features(tfidf, ids=np.arange(n_items), name="words"), 0.1, seed=0)


def found_articles(parts: ts.Split, asked: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """`scores` of the test items, in their order."""
    users = parts.test.users.rows_of(pl.Series(asked))
    top = np.argsort(-scores, axis=1, kind="stable")[:, : max(CUTS)]
    wanted = sp.csr_matrix(
        (np.ones(len(parts.test)), (parts.test.user_rows, parts.test.item_rows)),
        shape=(parts.test.n_users, parts.test.n_items),
    )[users].toarray()
    hits, n_wanted = np.take_along_axis(wanted, top, 1), wanted.sum(axis=1)
    found = {f"recall@{k}": float(np.mean(hits[:, :k].sum(axis=1) / n_wanted)) for k in CUTS}
    gains = 1 / np.log2(np.arange(max(CUTS)) + 2)
    ideal = np.cumsum(gains)[np.minimum(n_wanted, max(CUTS)).astype(int) - 1]
    return found | {f"ndcg@{max(CUTS)}": float(np.mean(hits @ gains / ideal))}


def on_articles(data: Path, who: str, quick: bool) -> dict[str, float]:
    parts = article_parts(data)
    train, cold = parts.train, parts.train.item_features.encode(parts.test.item_features)
    able = pl.Series(parts.test.users.ids)
    able = able.filter(train.users.rows_of(able) >= 0).to_numpy()
    asked = np.random.default_rng(0).permutation(able)[: 20 if quick else N_ASKED]
    rows, few = train.users.rows_of(pl.Series(asked)), {"sweeps": 2} if quick else {}
    if who == "tf-idf profiles":
        pairs = sp.csr_matrix((np.ones(len(train)), (train.user_rows, train.item_rows)))
        scores = (pairs[rows] @ train.item_features.matrix @ cold.T).toarray()
    elif who == "ImplicitALS, words":
        model = ts.ImplicitALS(threads=1, seed=0, **few).fit(train).with_items(parts.test.item_features)
        n, ids = parts.test.n_items, parts.test.items.ids.to_list()
        scores = model.predict(np.repeat(asked, n).tolist(), ids * len(asked)).mean.reshape(len(asked), n)
    else:
        model = ts.ImplicitALS(threads=1, seed=0, **few).fit(train.with_item_features(None))
        items = model.posterior_.draws.items[:, 0, : model.n_factors]
        people = People.new_users(train.by_user.take(rows))
        users = model.posterior_.believe(people, 1).means(0, len(rows))[0][:, 0, : model.n_factors]
        scores = users @ feature_peers.dropout_net(train.item_features.matrix, cold, items, quick=quick).T
    return found_articles(parts, asked, scores)


def articles(options: argparse.Namespace) -> list[str]:
    kept = Kept("features_articles", options)
    ours, *others = (
        kept.measured("citeulike-t", who, on_articles, who, options.quick)
        for who in ("ImplicitALS, words", "tf-idf profiles", "like DropoutNet")
    )
    best = {name: max(other[name] for other in others) for name in ours}
    return [harness.verdict(f"cold articles: {name} less the best other", ours[name] - best[name], 0) for name in ours]


# What attributes add, and noise


def with_added(data: Path, name: str, what: str, n_factors: int, quick: bool) -> dict[str, float]:
    parts, (warmup, sweeps) = parts_of(data, name), lengths(name, quick)
    train = parts.train
    if what in ("nothing", "noise"):
        rng = np.random.default_rng(0)
        if what == "noise":
            of_users, of_items = (rng.standard_normal((n, N_NOISE)) for n in (train.n_users, train.n_items))
            train = train.with_user_features(of_users, ids=train.users.ids, name="noise")
            train = train.with_item_features(of_items, ids=train.items.ids, name="noise")
    else:
        of_items, of_users = ADDED.get(what, ((), ()))
        train = train.with_item_features("bag", *of_items).with_user_features("bag", *of_users)
    errors = []
    for seed in range(1 if quick else SEEDS):
        model = fitted(train, n_factors, warmup, sweeps, seed=seed)
        errors.append(rmse(model.predict(parts.test.user_ids(), parts.test.item_ids()).mean, parts))
    return {"rmse": statistics.fmean(errors), "seeds": errors}


def added(options: argparse.Namespace) -> list[str]:
    kept = Kept("features_added", options)
    for what in ("nothing", "noise"):
        kept.measured("u1, 10 factors", what, with_added, "u1", what, 10, options.quick)
    for name in ("u1", "ml-100k"):
        for what in ("both bags", *ADDED):
            kept.measured(name, what, with_added, name, what, 32, options.quick)
    found = kept.found["u1, 10 factors"]
    more = found["noise"]["rmse"] - found["nothing"]["rmse"]
    return [harness.verdict("RMSE with noise less that without", more, 0.001, at_most=True)]


# Size and speed


def costs_of(data: Path, quick: bool) -> dict[str, dict[str, float]]:
    parts = parts_of(data, "ml-1m")
    few: dict[str, Any] = {"warmup": 2, "draws": 4, "chains": 2} if quick else {"warmup": 50, "draws": 50, "chains": 2}
    trains = {"no features": parts.train, "both bags": parts.train.with_user_features("bag").with_item_features("bag")}
    found: dict[str, dict[str, float]] = {}
    work: dict[str, Callable[[], Any]] = {}
    rng = np.random.default_rng(0)
    rated = dict.fromkeys(parts.train.items.at(rng.permutation(parts.train.n_items)[:100]).to_list(), 4.0)
    for name, train in trains.items():
        model = fitted(train, 32, **few, thin=2)
        with tempfile.TemporaryDirectory() as folder:
            ts.save(model, Path(folder) / "bare", with_ratings=False)
            size = sum(file.stat().st_size for file in (Path(folder) / "bare").rglob("*") if file.is_file())
        found[name] = {"megabytes": size / 1e6}
        work[name] = lambda model=model: model.recommend(n=10, history=rated)
    timings = harness.alternate(work, 10 if quick else 100)
    for name, timing in timings.items():
        found[name]["milliseconds of 10 recommendations"] = 1000 * statistics.median(timing.processor)
    return found


def costs(options: argparse.Namespace) -> list[str]:
    found = Kept("features_costs", options).measured("ml-1m", "costs", costs_of, options.quick)
    plain, bags = found["no features"], found["both bags"]
    return [
        harness.verdict("size with both bags, times", bags["megabytes"] / plain["megabytes"], 2.5, at_most=True),
        harness.verdict("ms of a new user", bags["milliseconds of 10 recommendations"], 8.0, at_most=True),
    ]


# Where neighbours beat factors


def on_neighbours_ground(data: Path, name: str, who: str, quick: bool) -> dict[str, float]:
    if name == "anime":
        ratings = ts.read(data / "anime" / "anime_ratings.dat", rating="Feedback")
        info = pl.read_csv(data / "anime" / "anime_info.dat", separator="\t", infer_schema_length=None)
        info = info.rename({"anime_ids": "item"}).select("item", "genre", "type", "episodes")
    else:
        ratings, info = ts.read(data / "filmtrust" / "ratings.txt"), None
    parts = ts.random_split(ratings, 0.1, seed=0)
    train = parts.train
    if who == "item-knn":
        model = ts.ItemKNN(threads=1).fit(train)
    else:
        if "bags" in who:
            train = train.with_user_features("bag").with_item_features("bag")
        if "attributes" in who:
            train = train.with_item_features(info)
        likelihood = "ordinal" if "ordinal" in who else "gaussian"
        few: dict[str, Any] = {"warmup": 3, "draws": 6} if quick else {"warmup": 60, "draws": 100}
        model = fitted(train, 32, **few, chains=2, likelihood=likelihood)
    predicted = model.predict(parts.test.user_ids(), parts.test.item_ids()).mean
    return {"rmse": rmse(predicted, parts)}


def neighbours(options: argparse.Namespace) -> list[str]:
    kept, verdicts = Kept("features_neighbours", options), []
    for name in ("filmtrust", "anime"):
        names = ["item-knn", "bpmf", "bpmf, bags", "bpmf, ordinal", "bpmf, bags, ordinal"]
        for who in names + (["bpmf, bags and attributes"] if name == "anime" else []):
            kept.measured(name, who, on_neighbours_ground, name, who, options.quick)
        found = {who: each["rmse"] for who, each in kept.found[name].items()}
        gap = found["bpmf"] - found["item-knn"]
        best = min(error for who, error in found.items() if "bags" in who)
        closed = (found["bpmf"] - best) / gap
        verdicts.append(f"       {name}: features close {closed:.0%} of the gap of {gap:.4f} between bpmf and item-knn")
    return verdicts


QUESTIONS = {
    "bags": bags,
    "cold": cold,
    "articles": articles,
    "added": added,
    "neighbours": neighbours,
    "costs": costs,
    "draws": draws,
}


def main() -> None:
    options = harness.arguments(
        __doc__,
        only={"nargs": "+", "choices": tuple(QUESTIONS), "help": "some of the questions"},
        splits={"nargs": "+", "choices": SPLITS, "help": "for bags"},
        factors={"nargs": "+", "type": int, "help": "for bags"},
        again={"action": "store_true", "help": "measure again what is in the results"},
    )
    if options.data is None:
        raise SystemExit("no data folder; pass --data DIR or set TASTESPACE_DATA")
    options.data = Path(options.data)
    warnings.simplefilter("ignore", DataWarning)
    for name in options.only or QUESTIONS:
        print("\n".join(QUESTIONS[name](options)))


if __name__ == "__main__":
    main()
