"""Fit a list of cases with the tastespace of this interpreter and write down everything it answers.

`compare_editions.py` starts one such process for each edition and compares what they wrote. Only names that both
editions have are used here: those of `tastespace`, the table `MODELS`, the command line and the service behind it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

warnings.simplefilter("ignore")

import tastespace as ts  # noqa: E402  # after the filter: importing old names may warn

# How a name of the first edition is called in the second, where the first one is gone: the probe tries both.
NAMES = {"contest": "compare_models", "compare": "compare_reports", "choose_rank": "select_rank"}
MODELS = {
    "mean": "GlobalMean",
    "bias": "DampedBias",
    "item-mean": "ItemMean",
    "popular": "Popular",
    "item-knn": "ItemKNN",
    "user-knn": "UserKNN",
    "als": "ALS",
    "pmf": "PMF",
    "vb": "VB",
    "bpmf": "BPMF",
    "sphere": "SphereBPMF",
    "sphere-als": "SphereALS",
    "implicit-als": "ImplicitALS",
    "logistic": "LogisticMF",
    "ease": "EASE",
    "monotone": "MonotoneMF",
}
COMMAND = [sys.executable, "-c", "from tastespace.cli.main import run; run()"]
DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def public(name: str) -> Any:
    """A public name of either edition."""
    found = getattr(ts, name, None)
    return getattr(ts, NAMES[name]) if found is None and name in NAMES else getattr(ts, name)


# What is written down


class Record:
    """Arrays and plain values by name, of one case."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            if value.dtype.kind in "OUSM":
                self.values[name] = [str(entry) for entry in value.reshape(-1)]
            else:
                self.arrays[name] = np.asarray(value)
        elif isinstance(value, pl.DataFrame):
            for column in value.columns:
                self.put(f"{name}[{column}]", value[column])
        elif isinstance(value, pl.Series):
            if value.dtype.is_numeric() and not value.null_count():
                self.put(name, value.to_numpy())
            else:
                self.values[name] = [plain(entry) for entry in value.to_list()]
        elif hasattr(value, "to_polars"):
            self.put(name, value.to_polars())
        else:
            self.values[name] = plain(value)

    def answer(self, name: str, ask: Callable[[], Any]) -> Any:
        """What is answered, or the kind of error."""
        try:
            given = ask()
        except Exception as error:
            self.values[name] = {"raises": type(error).__name__}
            if os.environ.get("PROBE_SHOW_ERRORS"):
                print(f"  {name}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
            return None
        self.put(name, given)
        return given

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "arrays.npz", **{f"{place}": array for place, array in enumerate(self.arrays.values())})
        said = {"arrays": list(self.arrays), "values": self.values}
        (folder / "values.json").write_text(json.dumps(said))


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, str | bool | int | float) or value is None:
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, pl.Series):
        return plain(value.to_list())
    if isinstance(value, pl.DataFrame):
        return {name: plain(value[name]) for name in value.columns}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if hasattr(value, "to_polars"):
        return plain(value.to_polars())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in value]
    return str(value)


def put_artifact(record: Record, name: str, path: Path) -> None:
    """Every array and every table of a saved model."""
    for file in sorted(path.rglob("*")):
        if file.suffix == ".safetensors":
            for array_name, array in safetensors(file):
                record.put(f"{name}/{file.stem}/{array_name}", array)
        elif file.suffix == ".parquet":
            record.put(f"{name}/{file.stem}", pl.read_parquet(file))


def safetensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Names and arrays, read without the package so that nothing of either edition is in between."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    for name, entry in json.loads(content[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            array = np.frombuffer(content[start + first : start + last], DTYPES[entry["dtype"]])
            yield name, array.reshape(entry["shape"])


# Data


def stars_frame() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ratings and items, drawn here so that neither edition has a hand in them."""
    rng = np.random.default_rng(11)
    n_users, n_items, n_factors = 60, 50, 3
    users, items = rng.normal(0, 0.7, (n_users, n_factors)), rng.normal(0, 0.7, (n_items, n_factors))
    scores = 3.4 + rng.normal(0, 0.5, (n_users, 1)) + rng.normal(0, 0.6, n_items) + users @ items.T
    values = np.clip(np.round(scores + rng.normal(0, 0.6, scores.shape)), 1, 5)
    popularity = rng.uniform(0.08, 0.6, n_items)
    user_rows, item_rows = np.nonzero(rng.random(scores.shape) < popularity)
    order = rng.permutation(len(user_rows))
    user_rows, item_rows = user_rows[order], item_rows[order]
    frame = pl.DataFrame(
        {
            "user": [f"u{row}" for row in user_rows],
            "item": [f"i{row}" for row in item_rows],
            "rating": values[user_rows, item_rows],
            "time": 1_000_000_000 + rng.integers(0, 10**8, len(user_rows)),
        }
    )
    genres = ("Drama", "Comedy", "War")
    return frame, pl.DataFrame(
        {
            "item": [f"i{row}" for row in range(n_items)],
            "title": [f"Film {row} – é" for row in range(n_items)],
            "genre": [genres[row % 3] for row in range(n_items)],
            "year": [1970 + row for row in range(n_items)],
        }
    )


def with_items(ratings: Any, items: pl.DataFrame) -> Any:
    """Titles and attributes in the order of the item rows."""
    known = pl.DataFrame({"item": ratings.items.ids}).join(items, on="item", how="left", maintain_order="left")
    return ratings.with_items(known["title"], known.drop("item", "title"))


def stars() -> Any:
    frame, items = stars_frame()
    return with_items(ts.Ratings.from_frame(frame), items)


def of_values(change: Callable[[pl.DataFrame], pl.DataFrame], kind: str | None = None) -> Any:
    frame, items = stars_frame()
    return with_items(ts.Ratings.from_frame(change(frame), kind=kind), items)


def counts() -> Any:
    return of_values(
        lambda frame: frame.filter(pl.col("rating") > 2).with_columns((pl.col("rating") - 2) ** 2), kind="counts"
    )


def yes_no() -> Any:
    return of_values(lambda frame: frame.with_columns((pl.col("rating") >= 4).cast(pl.Float64).alias("rating")))


def one_class() -> Any:
    return of_values(lambda frame: frame.filter(pl.col("rating") >= 4).drop("rating"))


def demo() -> Any:
    """The most rated films of movielens-demo, and people who rated many of them."""
    whole = ts.dataset("movielens-demo")
    counted = np.bincount(whole.item_rows, minlength=whole.n_items)
    films = np.argsort(-counted, kind="stable")[:200]
    ours = np.isin(whole.item_rows, films)
    people = np.bincount(whole.user_rows[ours], minlength=whole.n_users)
    chosen = np.argsort(-people, kind="stable")[50:200]
    return whole.take(np.flatnonzero(ours & np.isin(whole.user_rows, chosen)))


def demo_counts() -> Any:
    """How often a film was liked, which is a power of two here."""
    cut = demo()
    liked = cut.take(np.flatnonzero(cut.values >= 3.5))
    frame = pl.DataFrame({"user": liked.user_ids(), "item": liked.item_ids(), "rating": 2 ** (liked.values * 2 - 7)})
    return ts.Ratings.from_frame(frame, kind="counts").with_items(liked.item_titles, liked.item_attributes)


DATA: dict[str, Callable[[], Any]] = {
    "stars": stars,
    "demo": demo,
    "counts": counts,
    "yes-no": yes_no,
    "one-class": one_class,
    "demo-counts": demo_counts,
}
_SPLITS: dict[str, Any] = {}


def split_of(name: str) -> Any:
    if name not in _SPLITS:
        _SPLITS[name] = ts.random_split(DATA[name](), 0.15, seed=3)
    return _SPLITS[name]


# What is asked of a model


def ask_everything(record: Record, model: Any, split: Any, *, evaluate: bool = True, index: bool = True) -> None:
    """Every kind of answer that a model gives."""
    train = split.train
    users = train.users.ids.to_list()
    items = train.items.ids.to_list()
    text = isinstance(users[0], str)
    nobody, nothing = ("nobody", "nothing") if text else (-7, -9)
    low, high = float(train.values.min()), float(train.values.max())
    some = [users[0], users[7], users[3], nobody]
    new = {items[0]: high, items[3]: low, items[5]: high, items[11]: high}
    news = pl.DataFrame(
        {
            "user": [users[0], users[0], nobody, nobody, users[7]],
            "item": [items[1], items[2], items[4], items[6], items[9]],
            "rating": [high, low, high, high, low],
        }
    )
    where = "genre = Drama and year >= 1980" if "genre" in train.item_attributes.columns else "genres = Drama"
    record.put("fitted/seed", model.seed_)
    for name in ("n_factors_", "regularisation_", "strength_", "rank_"):
        if hasattr(type(model), name):
            record.answer(f"fitted/{name}", lambda name=name: getattr(model, name))
    for name in ("erratic_users", "divisive_items", "curves"):
        if hasattr(model, name):
            record.answer(f"fitted/{name}", lambda name=name: getattr(model, name)())
    if hasattr(model, "curves"):
        record.answer("fitted/curves of users", lambda: model.curves(some))

    def predict(name: str, *asked: Any, **options: Any) -> None:
        given = record.answer(f"predict/{name}", lambda: model.predict(*asked, **options))
        if given is not None and given.is_uncertain:
            record.answer(f"predict/{name}/quantiles", lambda: given.quantiles(0.1, 0.5, 0.9))
            record.answer(f"predict/{name}/at least", lambda: given.probability_at_least((low + high) / 2))
            record.answer(f"predict/{name}/levels", given.level_probabilities)

    pairs = [user for user in some for _ in range(6)], [*items[:5], nothing] * 4
    predict("pairs", *pairs)
    predict("history", *pairs, history=news)
    predict("new user", [nobody] * 6, items[6:12], history=news)

    def recommend(name: str, who: Any = some, n: int = 6, **options: Any) -> None:
        def asked() -> Any:
            given = model.recommend(who, n, **options)
            return given.to_polars(levels=True) if options.get("uncertainty", True) else given

        record.answer(f"recommend/{name}", asked)

    threshold = 0.5 if train.kind in ("counts", "one-class") else high
    for policy in ("mean", "cautious:c=2", "curious", "likely", f"likely:at_least={threshold}", "thompson"):
        recommend(policy, policy=policy)
    recommend("thompson again", policy="thompson:request=3")
    recommend("many", users[:20], 12, uncertainty=False)
    recommend("where", where=where)
    recommend("only", only=items[5:25])
    recommend("only of each", [users[0], users[7]], only=news.select("user", "item"), include_seen=True)
    recommend("exclude", exclude=items[:20])
    recommend("exclude pairs", exclude=news.select("user", "item"))
    recommend("exclude none", exclude=None)
    recommend("include seen", include_seen=True)
    recommend("include seen, curious", include_seen=True, policy="curious")
    recommend("diversity", diversity=0.6)
    recommend("damping", popularity_damping=40)
    recommend("all at once", diversity=0.3, popularity_damping=20, where=where)
    recommend("all at once, cautious", diversity=0.3, popularity_damping=20, policy="cautious", where=where)
    recommend("new user", None, history=new)
    recommend("new user, cautious", None, history=new, policy="cautious")
    recommend("history of known users", [users[0], users[7], nobody], history=news)
    recommend("about", model.about([users[0], nobody], history=news, instead=True))
    record.answer("scores", lambda: np.concatenate([block for _, block in model.scores(some, history=news)]))

    record.answer("similar/items", lambda: model.similar_items(items[:4], 6))
    record.answer("similar/items where", lambda: model.similar_items(items[:2], 6, where=where, exclude=items[:20]))
    record.answer("similar/users", lambda: model.similar_users(some[:3], 6))
    record.answer("similar/users by history", lambda: model.similar_users(None, 6, history=new))
    record.answer("explain/known", lambda: model.explain(users[0], items[:4], n=1000))
    record.answer("explain/others", lambda: model.explain(users[7], items[:3], n=2).others)
    record.answer("explain/new", lambda: model.explain(None, items[12:15], history=new, n=1000))
    record.answer("explain/known with history", lambda: model.explain(users[0], items[:2], history=news, n=3))
    record.answer("ask/anybody", lambda: model.ask(n=4))
    record.answer("ask/some", lambda: model.ask(some, 4))
    record.answer("ask/history", lambda: model.ask(history=new, n=3, where=where))
    record.answer("ask/list", lambda: model.ask(some[:2], 3, goal="list", among=None))
    record.answer("ask/only", lambda: model.ask(some[:2], 3, only=items[5:25]))
    if index:
        ask_by_index(record, model, some, new)
    if evaluate:
        record.answer("evaluate", lambda: ts.evaluate(model, split, bootstrap=40, seed=1).to_dict())
        record.answer("evaluate/groups", lambda: ts.evaluate(model, split, bootstrap=0, k=3).groups_to_polars())


def ask_by_index(record: Record, model: Any, users: list[Any], history: dict[Any, float]) -> None:
    """Lists found by structures that are built here over the items of the model."""
    vectors = getattr(model.posterior_, "item_vectors", None)
    if vectors is None:
        return
    if callable(vectors):
        vectors = vectors()
    if vectors is None:
        return
    vectors = getattr(vectors, "vectors", vectors)
    for kind, settings in {"inverted-file": {"n_cells": 5, "probes": 2}, "kmeans-tree": {}}.items():

        def asked(kind: str = kind, settings: dict[str, Any] = settings, **options: Any) -> pl.DataFrame:
            structure = structure_of(kind)(**settings, seed=1, threads=1).build(vectors)
            return model.recommend(users, 5, index=structure, **options).to_polars()

        record.answer(f"index/{kind}", asked)
        if kind == "inverted-file":
            for policy in ("cautious", "likely", "thompson"):
                record.answer(f"index/{kind}/{policy}", lambda policy=policy: asked(policy=policy))
            record.answer(
                f"index/{kind}/history",
                lambda: model.recommend(
                    None, 5, history=history, index=structure_of(kind)(**settings, seed=1, threads=1).build(vectors)
                ).to_polars(),
            )


def structure_of(name: str) -> Any:
    """A class of the table of indexes, which may hold the class or where it is."""
    found = importlib.import_module("tastespace.index").INDEXES[name]
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        found = getattr(importlib.import_module(module), attribute)
    return found


# The cases


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to do; `run` writes into a record. `equals` is a case that must come out the same in one edition."""

    name: str
    run: Callable[[Record, Path], None]
    equals: str | None = None


def built(model: str, parameters: Mapping[str, Any], threads: int = 1) -> Any:
    return getattr(ts, MODELS[model])(**{"seed": 5, "threads": threads, **parameters})


SHORT_CHAINS = {"n_factors": 3, "warmup": 5, "draws": 6, "thin": 1}
SHORT: dict[str, dict[str, Any]] = {
    "als": {"n_factors": 4, "sweeps": 10},
    "pmf": {"n_factors": 4, "epochs": 12},
    "vb": {"n_factors": 4, "passes": 15},
    "bpmf": SHORT_CHAINS,
    "sphere": SHORT_CHAINS,
    "sphere-als": {"n_factors": 4, "sweeps": 8},
    "implicit-als": {"n_factors": 4, "sweeps": 6},
    "logistic": {"n_factors": 4, "epochs": 12},
    "monotone": {"n_factors": 3, "sweeps": 6, "folds": 3},
}
OF_CHOICES = ("implicit-als", "logistic", "ease")
EMPIRICAL = {"draws": 8, "most_steps": 12}

# model -> what is different -> (data, parameters)
VARIANTS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "bpmf": {
        "ordinal": ("stars", {"likelihood": "ordinal"}),
        "ordinal of half stars": ("demo", {"likelihood": "ordinal"}),
        "ordinal with levels": ("stars", {"likelihood": "ordinal", "levels": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
        "probit": ("yes-no", {"likelihood": "probit"}),
        "logistic": ("yes-no", {"likelihood": "logistic"}),
        "noise of users and items": ("stars", {"noise": "per-user-and-item"}),
        "fixed noise": ("stars", {"noise_precision": 1.5}),
        "fixed uneven noise": ("stars", {"noise_precision": 1.5, "noise": "per-user-and-item"}),
        "ard": ("stars", {"prior": "ard"}),
        "cumulative": ("stars", {"prior": "cumulative"}),
        "normal-wishart": ("stars", {"prior": "normal-wishart", "prior_degrees": 20.0, "prior_scale": 0.3}),
        "auto factors": ("stars", {"n_factors": "auto", "most_factors": 6}),
        "auto factors, cumulative": ("stars", {"n_factors": "auto", "most_factors": 6, "prior": "cumulative"}),
        "auto factors, ordinal": ("stars", {"n_factors": "auto", "most_factors": 6, "likelihood": "ordinal"}),
        "ard of yes and no": ("yes-no", {"prior": "ard", "likelihood": "logistic"}),
        "uniform negatives": ("counts", {"likelihood": "logistic", "negatives": "uniform", "n_negatives": 3}),
        "popular negatives": ("one-class", {"likelihood": "probit", "negatives": "popularity", "n_negatives": 2}),
        "uniform negatives, probit": ("one-class", {"likelihood": "probit", "negatives": "uniform"}),
        "popular negatives, logistic": ("counts", {"likelihood": "logistic", "negatives": "popularity"}),
        "evidence": ("stars", {"weights": "evidence"}),
        "float16": ("stars", {"storage": "float16"}),
        "float64": ("stars", {"precision": "float64"}),
        "float64, ordinal": ("stars", {"precision": "float64", "likelihood": "ordinal"}),
        "random start": ("stars", {"start": "random", "chains": 1}),
        "no biases": ("stars", {"biases": False}),
        "no biases, ordinal": ("stars", {"biases": False, "likelihood": "ordinal"}),
        "inner sweeps": ("stars", {"inner_sweeps": 2, "thin": 2}),
        "counted draws": ("stars", {"draws": "auto", "warmup": 3}),
        "three chains": ("stars", {"chains": 3, "noise_shape": 2.0, "noise_rate": 0.5, "prior_strength": 1.0}),
    },
    "sphere": {
        "no biases": ("stars", {"biases": False}),
        "biases on the sphere": ("stars", {"biases": "on-sphere"}),
        "slice": ("stars", {"sampler": "slice", "chains": 1}),
        "metropolis": ("stars", {"sampler": "metropolis", "chains": 1}),
        "uniform": ("stars", {"item_prior": "uniform", "radius": 1.5, "item_steps": 4}),
        "slice of biases on the sphere": (
            "stars",
            {"biases": "on-sphere", "sampler": "slice", "item_prior": "uniform", "chains": 1},
        ),
        "ordinal": ("stars", {"likelihood": "ordinal"}),
        "logistic": ("yes-no", {"likelihood": "logistic", "sampler": "metropolis"}),
        "noise of users and items": ("stars", {"noise": "per-user-and-item"}),
        "negatives": ("counts", {"likelihood": "logistic", "negatives": "uniform", "n_negatives": 3}),
    },
    "sphere-als": {
        "fixed": ("stars", {"regularisation": 0.05, "radius": 1.2, "biases": False, "precision": "float64"}),
        "early stopping": ("stars", {"early_stopping": True}),
    },
    "vb": {
        "diagonal": ("stars", {"covariance": "diagonal"}),
        "hierarchical": ("stars", {"hierarchical": True}),
        "hierarchical and diagonal": ("stars", {"hierarchical": True, "covariance": "diagonal"}),
        "hierarchical without biases": ("stars", {"hierarchical": True, "biases": False, "precision": "float64"}),
        "raw": ("stars", {"centred": False}),
        "raw, diagonal, no biases": ("stars", {"centred": False, "covariance": "diagonal", "biases": False}),
        "variances": ("stars", {"prior": "variances"}),
        "both variances": ("stars", {"prior": "both variances", "start": "random"}),
        "fixed": ("stars", {"prior": "fixed", "noise_precision": 1.5}),
        "auto factors": ("stars", {"n_factors": "auto", "most_factors": 6}),
    },
    "pmf": {
        "raw": ("stars", {"form": "raw", "regularisation": 0.05}),
        "sigmoid": ("stars", {"form": "sigmoid"}),
        "adaptive": ("stars", {"regularisation": "adaptive"}),
        "full batch, weighted": ("stars", {"method": "full-batch", "weighting": "weighted", "regularisation": 0.05}),
        "mini-batch, plain": (
            "stars",
            {"method": "mini-batch", "batch_size": 80, "weighting": "plain", "regularisation": 1.0},
        ),
        "bold driver": ("stars", {"method": "full-batch", "schedule": "bold-driver", "regularisation": 0.05}),
        "no refit": ("stars", {"refit": False, "biases": False, "regularisation": 0.04, "precision": "float64"}),
        "no early stop": ("stars", {"early_stopping": False, "regularisation": 0.04, "learning_rate": 0.03}),
        "separate strengths": ("stars", {"user_regularisation": 0.03, "item_bias_regularisation": 0.5}),
        "empirical Bayes": ("stars", {"regularisation": "empirical-bayes:draws=8,most_steps=12"}),
    },
    "als": {
        "weighted": ("stars", {"weighting": "weighted"}),
        "plain": ("stars", {"weighting": "plain"}),
        "fixed": ("stars", {"regularisation": 0.05}),
        "fixed, no biases, float64": ("stars", {"regularisation": 0.05, "biases": False, "precision": "float64"}),
        "early stopping": ("stars", {"early_stopping": True, "validation_share": 0.2}),
        "separate strengths": ("stars", {"user_regularisation": 0.03, "item_bias_regularisation": 0.5}),
        "auto factors": ("stars", {"n_factors": "auto", "most_factors": 6}),
        "empirical Bayes": ("stars", {"regularisation": "empirical-bayes:draws=8,most_steps=12"}),
        "empirical Bayes, adam": ("stars", {"regularisation": {"steps": "adam", "tied": False, **EMPIRICAL}}),
        "empirical Bayes, crank-nicolson": (
            "stars",
            {"regularisation": {"transition": "crank-nicolson", "start": 0.1, **EMPIRICAL}},
        ),
        "empirical Bayes, autoregressive": (
            "stars",
            {"regularisation": {"transition": "autoregressive", **EMPIRICAL}, "biases": False},
        ),
    },
    "implicit-als": {
        "once": ("one-class", {"growth": "none"}),
        "biases": ("counts", {"biases": True, "growth": "linear", "strength": 5.0, "regularisation": 1.0}),
        "plain cholesky": ("counts", {"weighting": "plain", "solver": "cholesky", "strength": 8.0}),
        "fixed": ("counts", {"strength": 8.0, "regularisation": 0.5, "steps": 2}),
    },
    "logistic": {
        "uniform": ("counts", {"negatives": "uniform", "n_negatives": 5, "regularisation": 0.5}),
        "popularity": ("counts", {"negatives": "popularity", "n_negatives": 4, "strength": 0.5, "growth": "linear"}),
        "no biases": ("one-class", {"biases": False, "learning_rate": 0.1}),
    },
    "ease": {"weak": ("counts", {"regularisation": 5.0}), "once": ("one-class", {})},
    "item-knn": {
        "pearson": ("stars", {"similarity": "pearson", "n_neighbours": 5, "n_candidates": 10, "damping": 0.0}),
        "adjusted cosine": ("stars", {"similarity": "adjusted-cosine", "min_common": 3, "min_similarity": 0.1}),
    },
    "user-knn": {
        "pearson": ("stars", {"similarity": "pearson", "n_neighbours": 5, "min_common": 2}),
        "adjusted cosine": ("stars", {"similarity": "adjusted-cosine", "shrinkage": 1.0}),
    },
    "bias": {"damped": ("stars", {"user_damping": 1.0, "item_damping": 20.0, "sweeps": 3})},
    "item-mean": {"damped": ("stars", {"damping": 2.0})},
    "popular": {"counts": ("counts", {})},
    "monotone": {
        "one": ("stars", {"sharing": "one", "regularisation": 0.05}),
        "per user": ("stars", {"sharing": "per-user", "regularisation": 0.05, "pull": 2.0}),
        "clusters": ("stars", {"sharing": "clusters", "n_clusters": 3, "regularisation": 0.05, "precision": "float64"}),
        "found clusters": ("stars", {"sharing": "clusters"}),
        "one fold": ("stars", {"sharing": "one", "folds": 1, "regularisation": 0.05}),
        "empirical Bayes": ("stars", {"sharing": "one", "regularisation": "empirical-bayes:draws=8,most_steps=12"}),
    },
}
# Models that get new ratings: parameters, and the data.
UPDATED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "als": ("als", "stars", {}),
    "item-knn": ("item-knn", "stars", {}),
    "vb": ("vb", "stars", {}),
    "bpmf": ("bpmf", "stars", {}),
    "bpmf, ordinal": ("bpmf", "stars", {"likelihood": "ordinal"}),
    "bpmf, logistic": ("bpmf", "yes-no", {"likelihood": "logistic"}),
    "bpmf, noise of users and items": ("bpmf", "stars", {"noise": "per-user-and-item"}),
    "bpmf, negatives": ("bpmf", "counts", {"likelihood": "logistic", "negatives": "uniform", "n_negatives": 3}),
    "bpmf, auto factors": ("bpmf", "stars", {"n_factors": "auto", "most_factors": 6}),
    "bpmf, evidence": ("bpmf", "stars", {"weights": "evidence"}),
    "sphere": ("sphere", "stars", {}),
    "implicit-als": ("implicit-als", "counts", {}),
}
CHECKPOINTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bpmf": ("bpmf", "stars", {}),
    "bpmf, ordinal": ("bpmf", "stars", {"likelihood": "ordinal"}),
    "bpmf, auto factors": ("bpmf", "stars", {"n_factors": "auto", "most_factors": 6}),
    "bpmf, noise of users and items": ("bpmf", "stars", {"noise": "per-user-and-item"}),
    "sphere": ("sphere", "stars", {}),
}


def cases() -> Iterator[Case]:
    """All of them, in the order in which they are run."""
    for name in DATA:
        yield Case(f"data/{name}", of_data(name))
    for model in MODELS:
        for data in ("counts", "demo-counts") if model in OF_CHOICES else ("stars", "demo"):
            yield Case(f"{model}/{data}", of_fit(model, data, {}))
        for variant, (data, parameters) in VARIANTS.get(model, {}).items():
            yield Case(f"{model}/{variant}", of_fit(model, data, parameters))
    for model in ("als", "bpmf", "implicit-als", "sphere"):
        data = "counts" if model in OF_CHOICES else "stars"
        yield Case(f"{model}/two threads", of_fit(model, data, {}, threads=2), equals=f"{model}/{data}")
    for name, given in UPDATED.items():
        yield Case(f"update/{name}", of_update(*given))
    for name, given in CHECKPOINTED.items():
        yield Case(f"checkpoints/{name}, not interrupted", of_run(*given))
        yield Case(f"checkpoints/{name}", of_resumed(*given), equals=f"checkpoints/{name}, not interrupted")
    yield Case("start/bpmf from als", of_start("bpmf"))
    yield Case("start/als from als", of_start("als"))
    yield Case("start/vb from als", of_start("vb"))
    for births in ("informed", "blind", "annealed"):
        yield Case(f"jump/{births}", of_jump(births))
    yield Case("rank/reversible jump", of_rank("reversible-jump"))
    yield Case("rank/ard", of_rank("ard"))
    yield Case("tune/als", of_tune)
    yield Case("compare/models", of_contest)
    yield Case("compare/reports", of_reports)
    for model, data in (("als", "stars"), ("bpmf", "stars"), ("implicit-als", "counts")):
        yield Case(f"cli/{model}", of_cli(model, data))
        yield Case(f"service/{model}", of_service(model, data))
    yield Case("cli/pmf of a stream", of_stream)


def of_data(name: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        ratings = DATA[name]()
        for field in ("user_rows", "item_rows", "values"):
            record.put(field, getattr(ratings, field))
        record.put("times", None if ratings.times is None else ratings.times.astype(np.int64))
        record.put("kind", ratings.kind)
        record.put("items", pl.DataFrame({"id": ratings.items.ids, "title": ratings.item_titles}))
        record.put("attributes", ratings.item_attributes)
        record.put("suitable", type(ts.suitable_model(ratings)).__name__)
        record.put("fingerprint", ratings.fingerprint())
        splits: dict[str, Callable[[], Any]] = {
            "random": lambda: ts.random_split(ratings, 0.2, seed=1),
            "leave one out": lambda: ts.leave_one_out(ratings, seed=1),
            "last": lambda: ts.last_per_user(ratings, 2),
            "time": lambda: ts.time_split(ratings, 0.2),
            "users": lambda: ts.held_out_users(ratings, 0.2, seed=1),
            "fold": lambda: list(ts.k_fold(ratings, 3, seed=1))[1],
        }
        for kind, split in splits.items():
            for part in ("train", "test", "history"):
                record.answer(f"split/{kind}/{part}", lambda split=split, part=part: table_of(getattr(split(), part)))
        if name == "stars":
            drawn = ts.synthetic("ml-100k", scale=0.05, times=True, seed=3, threads=1)
            record.put("synthetic", drawn.values)
            record.put("synthetic items", drawn.item_rows)
            frame, items = stars_frame()
            frame.write_csv(folder / "ratings.csv")
            items.write_csv(folder / "items.csv")
            record.answer("read", lambda: ts.read(folder / "ratings.csv", items=folder / "items.csv").to_polars())

    return run


def table_of(ratings: Any) -> pl.DataFrame | None:
    return None if ratings is None else ratings.to_polars()


def parameters_of(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {**SHORT.get(model, {}), **given}
    if isinstance(parameters.get("regularisation"), dict):
        parameters["regularisation"] = ts.EmpiricalBayes(**parameters["regularisation"])
    return parameters


def of_fit(model: str, data: str, given: Mapping[str, Any], threads: int = 1) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        split = split_of(data)
        fitted = built(model, parameters_of(model, given), threads).fit(split.train)
        ts.save(fitted, folder / "model")
        put_artifact(record, "artifact", folder / "model")
        ask_everything(record, fitted, split)
        again = ts.load(folder / "model")
        again.threads = threads
        asked = split.train.users.ids.to_list()[:5], split.train.items.ids.to_list()[:5]
        record.answer("loaded/predict", lambda: again.predict(*asked))
        record.answer("loaded/recommend", lambda: again.recommend(asked[0], 5))
        if not getattr(type(fitted), "is_its_ratings", False):
            record.answer("without ratings", lambda: ts.save(fitted, folder / "bare", with_ratings=False))
            record.answer("without ratings/predict", lambda: ts.load(folder / "bare").predict(*asked))

    return run


def new_ratings(ratings: Any) -> pl.DataFrame:
    """A known user rates more and one thing again, two new users come, and a new item."""
    users, items = ratings.users.ids.to_list(), ratings.items.ids.to_list()
    low, high = float(ratings.values.min()), float(ratings.values.max())
    rows = [
        (users[0], items[3], high),
        (users[0], items[8], low),
        (users[4], "new item", high),
        ("new user", items[0], high),
        ("new user", items[9], low),
        ("new user", "new item", high),
        ("another", items[2], low),
    ]
    return pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")


def of_update(model: str, data: str, given: Mapping[str, Any]) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        split = split_of(data)
        fitted = built(model, parameters_of(model, given)).fit(split.train)
        news = new_ratings(split.train)
        for sweeps in ("auto", 0, 3) if model in ("bpmf", "sphere") else ("auto",):
            updated = fitted.update(news, sweeps=sweeps)
            ts.save(updated, folder / f"model-{sweeps}")
            put_artifact(record, f"{sweeps}/artifact", folder / f"model-{sweeps}")
            part = Record()
            ask_everything(part, updated, split, evaluate=sweeps == "auto", index=False)
            record.arrays |= {f"{sweeps}/{name}": array for name, array in part.arrays.items()}
            record.values |= {f"{sweeps}/{name}": value for name, value in part.values.items()}
            asked = ["new user", "another", "new user"], ["new item", "new item", split.train.items.ids[3]]
            record.answer(f"{sweeps}/predict of new ones", lambda updated=updated, asked=asked: updated.predict(*asked))
        if model == "bpmf":
            twice = fitted.update(news, sweeps=0).update(news.head(3).with_columns(rating=pl.col("rating")), sweeps=2)
            record.answer("twice/predict", lambda: twice.predict(["new user", "another"], ["new item", "new item"]))

    return run


def of_run(model: str, data: str, given: Mapping[str, Any]) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        put_run(record, folder, built(model, parameters_of(model, given)).fit(split_of(data).train))

    return run


class StoppedError(Exception):
    """What an observer raises in the middle of a run."""


def of_resumed(model: str, data: str, given: Mapping[str, Any]) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        parameters, train = parameters_of(model, given), split_of(data).train
        heard = 0

        def observer(event: Any) -> None:
            nonlocal heard
            heard += 1
            if heard > 12:
                raise StoppedError

        stopped = False
        try:
            kept = ts.Checkpoints(folder / "kept", every=2)
            built(model, parameters).fit(train, checkpoints=kept, observer=observer)
        except StoppedError:
            stopped = True
        record.put("was interrupted", stopped)
        kept = ts.Checkpoints(folder / "kept", every=2, resume=True)
        put_run(record, folder, built(model, parameters).fit(train, checkpoints=kept))

    return run


def put_run(record: Record, folder: Path, fitted: Any) -> None:
    ts.save(fitted, folder / "model")
    put_artifact(record, "artifact", folder / "model")
    users, items = fitted.ratings_.users.ids.to_list()[:5], fitted.ratings_.items.ids.to_list()[:5]
    record.answer("predict", lambda: fitted.predict(users, items))
    record.answer("recommend", lambda: fitted.recommend(users, 5))


def of_start(model: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        split = split_of("stars")
        begun = built("als", {"n_factors": 3, "regularisation": 0.1}).fit(split.train)
        fitted = built(model, SHORT[model]).fit(split.train, start=begun, held_out=split.test)
        put_run(record, folder, fitted)

    return run


def of_jump(births: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        train = split_of("stars").train
        steps = {"warmup": 5, "tuning": 6, "draws": 10, "quench": 3, "bridge": 5}
        for within in ("gibbs", "heavy-tailed") if births == "informed" else ("gibbs",):
            asked = train.user_rows[:20], train.item_rows[:20]
            found = ts.ReversibleJump(births=births, within=within, **steps).run(train, 5, seed=2, asked=asked)
            record.put(f"{within}/ranks", found.ranks)
            record.put(f"{within}/posterior", found.posterior)
            record.put(f"{within}/predicted", found.predicted)
            record.put(f"{within}/precisions", found.precisions)
            for name, values in found.trace.items():
                record.put(f"{within}/trace/{name}", np.asarray(values))

    return run


def of_rank(method: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        steps = {"warmup": 5, "tuning": 6, "draws": 10, "quench": 3}
        jumps = {"jumps": ts.ReversibleJump(**steps)} if method == "reversible-jump" else {}
        found = public("choose_rank")(DATA["stars"](), method, max_rank=4, seed=1, threads=1, **jumps)
        record.put("choice", found.to_dict())

    return run


def of_tune(record: Record, folder: Path) -> None:
    found = ts.tune(DATA["stars"](), "als", trials=4, seed=1, threads=1, rungs=1, fixed={"n_factors": 2})
    record.put("result", found.to_dict())
    record.put("trials", found.to_polars())
    found = ts.tune(DATA["stars"](), "bias", trials=8, share=0.3, seed=1, threads=1)
    record.put("bias/result", found.to_dict())


def of_contest(record: Record, folder: Path) -> None:
    models = {
        name: built(name, SHORT.get(name, {}))
        for name in ("mean", "bias", "item-knn", "als", "bpmf", "popular", "implicit-als")
    }
    found = public("contest")(split_of("stars"), models, bootstrap=30, apart=False, seed=1)
    record.put("result", found.to_dict())
    record.put("table", found.to_polars())
    record.put("groups", found.groups_to_polars())
    found = public("contest")(
        split_of("counts"),
        {name: built(name, SHORT.get(name, {})) for name in ("popular", "implicit-als", "ease")},
        bootstrap=30,
        apart=False,
        seed=1,
    )
    record.put("choices", found.to_dict())


def of_reports(record: Record, folder: Path) -> None:
    split = split_of("stars")
    reports = [
        ts.evaluate(built(name, SHORT.get(name, {})).fit(split.train), split, bootstrap=30, seed=1)
        for name in ("bias", "als")
    ]
    record.put("comparison", public("compare")(*reports))


# The command line and the service


def tastespace(*arguments: Any, cwd: Path) -> tuple[int, str]:
    """The program in this process: its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, {"COLUMNS": "200"}),
        mock.patch.object(sys, "argv", ["tastespace", *map(str, arguments)]),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        from tastespace.cli.main import run

        try:
            run()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    if code and os.environ.get("PROBE_SHOW_ERRORS"):
        print(f"  {arguments}: {err.getvalue()[-300:]}", file=sys.stderr)
    return code, out.getvalue()


def put_verb(record: Record, name: str, folder: Path, *arguments: Any) -> None:
    code, printed = tastespace(*arguments, cwd=folder)
    record.put(f"{name}/exit code", code)
    try:
        record.put(name, json.loads(printed))
    except ValueError:
        record.put(f"{name}/is JSON", False)


def write_files(folder: Path, data: str) -> tuple[list[Any], list[Any]]:
    """Ratings to fit on and to test with, a history, pairs and items; returned are ids of users and items."""
    split = split_of(data)
    for part in ("train", "test"):
        getattr(split, part).to_polars().write_csv(folder / f"{part}.csv")
    stars_frame()[1].write_csv(folder / "items.csv")
    users, items = split.train.users.ids.to_list(), split.train.items.ids.to_list()
    high = float(split.train.values.max())
    pl.DataFrame({"user": users[:4], "item": items[2:6]}).write_csv(folder / "pairs.csv")
    pl.DataFrame({"item": items[:3], "rating": [high] * 3}).write_csv(folder / "history.csv")
    pl.DataFrame({"item": items[4:20]}).write_csv(folder / "only.csv")
    new_ratings(split.train).write_csv(folder / "new.csv")
    return users, items


def fit_by_cli(record: Record, folder: Path, model: str, data: str) -> tuple[list[Any], list[Any]]:
    users, items = write_files(folder, data)
    settings = [f"--set={name}={value}" for name, value in SHORT[model].items()]
    kind = ["--kind=counts"] if data == "counts" else []
    fit = ["fit", "train.csv", "--model", model, "--out", "model", "--items", "items.csv", "--test", "test.csv"]
    put_verb(record, "fit", folder, *fit, *settings, *kind, "--seed=5", "--threads=1", "--json")
    return users, items


def of_cli(model: str, data: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        users, items = fit_by_cli(record, folder, model, data)
        put_artifact(record, "artifact", folder / "model")
        end = ["--threads=1", "--json"]
        someone = ["--user", users[0], "--user", "nobody"]
        verbs: dict[str, list[Any]] = {
            "predict": ["predict", "model", "pairs.csv", "--coverage=0.8"],
            "predict/at least": ["predict", "model", "pairs.csv", "--at-least=0.5"],
            "recommend": ["recommend", "model", *someone, "-n", 5],
            "recommend/filters": ["recommend", "model", *someone, "--where=genre = Drama", "--diversity=0.4"],
            "recommend/only": ["recommend", "model", *someone, "--only-file=only.csv", "--exclude", items[5]],
            "recommend/policy": ["recommend", "model", *someone, "--policy=cautious:c=2", "--exact"],
            "recommend/damping": ["recommend", "model", *someone, "--popularity-damping=30", "--include-seen"],
            "recommend/history": ["recommend", "model", "--history=history.csv"],
            "similar/items": ["similar", "model", "--item", items[0], "--item", items[1], "-n", 4],
            "similar/users": ["similar", "model", "--user", users[0], "-n", 4],
            "explain": ["explain", "model", "--user", users[0], "--item", items[1], "--item", items[7]],
            "explain/history": ["explain", "model", "--history=history.csv", "--item", items[7]],
            "ask": ["ask", "model", "--user", users[0], "-n", 3],
            "ask/anybody": ["ask", "model", "--goal=list", "-n", 3],
            "evaluate": ["evaluate", "model", "test.csv", "--bootstrap=30"],
            "update": ["update", "model", "new.csv", "--out", "updated"],
        }
        for name, arguments in verbs.items():
            put_verb(record, name, folder, *arguments, *end)
        put_verb(record, "diagnose", folder, "diagnose", "model", "--json")
        put_verb(record, "data", folder, "data", "describe", "train.csv", "--json")
        if (folder / "updated").exists():
            put_artifact(record, "updated", folder / "updated")

    return run


def of_stream(record: Record, folder: Path) -> None:
    split_of("stars").train.to_polars().write_parquet(folder / "train.parquet")
    fit = ["fit", "train.parquet", "--model=pmf", "--stream", "--out=model", "--set=n_factors=3", "--set=epochs=4"]
    put_verb(record, "fit", folder, *fit, "--regularisation=0.05", "--seed=5", "--threads=1", "--json")
    put_artifact(record, "artifact", folder / "model")


def of_service(model: str, data: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        users, items = fit_by_cli(Record(), folder, model, data)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        serve = ["serve", "model", "--port", str(port), "--state", "state", "--rate", "0", "--log-level", "error"]
        with (folder / "service.log").open("w") as log:
            process = subprocess.Popen([*COMMAND, *serve], cwd=folder, stdout=log, stderr=log)
        try:
            put_routes(record, Client(port, process), users, items, float(split_of(data).train.values.max()))
        finally:
            process.terminate()
            process.wait(20)

    return run


class Client:
    """Asks a service on this machine; the version of the model, which no two artifacts share, is left out."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.address = f"http://127.0.0.1:{port}/v1"
        for _ in range(200):
            if process.poll() is not None:
                raise RuntimeError(f"the service ended with {process.returncode}")
            with contextlib.suppress(OSError):
                if self.ask("GET", "/ready")[0] == 200:
                    break
            time.sleep(0.15)
        self.version = self.ask("GET", "/model")[1]["version"]

    def ask(self, method: str, route: str, body: Any = None) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + route, content, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read() or b"null")

    def put(self, record: Record, name: str, method: str, route: str, body: Any = None) -> None:
        status, answer = self.ask(method, route, body)
        record.put(f"{name}/status", status)
        record.put(name, json.loads(json.dumps(answer).replace(self.version, "VERSION")))


def put_routes(record: Record, client: Client, users: list[Any], items: list[Any], high: float) -> None:
    user, history = users[0], {items[0]: high, items[3]: high}
    filters = "n=4&where=genre%20%3D%20Drama&diversity=0.3&explain=true"
    for name, method, route, body in [
        ("health", "GET", "/health", None),
        ("model", "GET", "/model", None),
        ("model/outline", "GET", "/model/outline", None),
        ("model/story", "GET", "/model/story", None),
        ("items", "GET", "/items?search=Film%201&limit=5", None),
        ("item", "GET", f"/items/{items[0]}", None),
        ("similar", "GET", f"/items/{items[0]}/similar?n=4", None),
        ("map", "GET", "/map", None),
        ("users", "GET", "/users?search=u1", None),
        ("user", "GET", f"/users/{user}", None),
        ("ratings", "GET", f"/users/{user}/ratings?limit=5", None),
        ("recommendations", "GET", f"/users/{user}/recommendations?n=5", None),
        ("recommendations/filters", "GET", f"/users/{user}/recommendations?{filters}", None),
        ("recommendations/policy", "GET", f"/users/{user}/recommendations?{filters}&policy=cautious", None),
        ("recommendations/history", "POST", "/recommendations", {"history": history, "n": 4, "explain": True}),
        ("recommendations/thompson", "POST", "/recommendations", {"user": user, "policy": "thompson:request=2"}),
        ("predictions", "POST", "/predictions", {"user": user, "items": items[:4], "coverage": 0.8}),
        ("predictions/history", "POST", "/predictions", {"history": history, "items": items[4:8]}),
        ("questions", "GET", f"/users/{user}/questions?n=3", None),
        ("questions/history", "POST", "/questions", {"history": history, "n": 3, "goal": "list"}),
        ("place", "POST", "/place", {"history": history}),
        ("rate", "PUT", f"/users/{user}/ratings/{items[6]}", {"rating": high}),
        ("rate/new user", "PUT", f"/users/somebody/ratings/{items[6]}", {"rating": high}),
        ("rate/unknown item", "PUT", f"/users/{user}/ratings/nothing", {"rating": high}),
        ("rate/many", "POST", "/ratings", {"ratings": [{"user": "b", "item": items[1], "rating": high}]}),
        ("recommendations/after", "GET", f"/users/{user}/recommendations?n=5", None),
        ("recommendations/new user", "GET", "/users/somebody/recommendations?n=5", None),
        ("unrate", "DELETE", f"/users/{user}/ratings/{items[6]}", None),
        ("recommendations/back", "GET", f"/users/{user}/recommendations?n=5", None),
        ("forget", "DELETE", f"/users/{user}", None),
        ("recommendations/forgotten", "GET", f"/users/{user}/recommendations?n=5", None),
        ("bad request", "POST", "/predictions", {"items": []}),
    ]:
        client.put(record, name, method, route, body)


# The process


def main() -> None:
    """`edition_probe.py OUT PATTERN SHARD SHARDS`: run every so-manieth case that the pattern finds."""
    out, pattern, shard, shards = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    asked = {case.name: case.equals for case in cases() if re.search(pattern, case.name)}
    chosen = [case for case in cases() if case.name in asked or case.name in asked.values()]
    if out.name == "list":
        print("\n".join(asked))
        return
    for number, case in enumerate(chosen):
        if number % shards != shard:
            continue
        begun, record = time.perf_counter(), Record()
        with tempfile.TemporaryDirectory(prefix="edition-") as scratch:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    case.run(record, Path(scratch))
            except Exception as error:
                record.values["fails"] = type(error).__name__
                print(f"{case.name} fails:\n{traceback.format_exc(limit=-6)}", file=sys.stderr, flush=True)
        record.values["case"] = {"name": case.name, "equals": case.equals}
        record.write(out / f"{number:03d}")
        print(f"{time.perf_counter() - begun:6.2f} s  {case.name}", flush=True)


if __name__ == "__main__":
    main()
