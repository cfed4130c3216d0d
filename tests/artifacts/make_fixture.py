"""Write the fixtures of the current format version; run once when the version changes, never to repair a test.

    python tests/artifacts/make_fixture.py

One folder a model, with its answers in a JSON file beside it, and one folder of checkpoints of a run that was stopped.
What is there already stays as it is: `als` and `bias` of format 1 are older than all others. Of later formats there are
a `FEW`, for posteriors are as they were; their ratings have times, and their users attributes.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tastespace as ts
from tastespace.artifact import FORMAT_VERSION, save_index
from tastespace.errors import TastespaceError
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.trials import StoredIndex, Target, Trial
from tastespace.inference import checkpoints
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

FOLDER = Path(__file__).parent / f"format-{FORMAT_VERSION}"
CHAINS = {"n_factors": 2, "warmup": 3, "draws": 3, "thin": 1}
EMPIRICAL = "empirical-bayes:draws=3,most_steps=3"
CHOICES, YES_NO = "choices", "yes-no"

# name -> (class, parameters, which ratings); the names are those of the folders.
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "als": ("ALS", {"n_factors": 2, "regularization": 0.1}, "numbers"),
    "als-found-strength": ("ALS", {"n_factors": 2}, "stars"),
    "als-auto-factors": ("ALS", {"n_factors": "auto", "most_factors": 4}, "stars"),
    "als-without-biases": ("ALS", {"n_factors": 2, "biases": False, "precision": "float64"}, "stars"),
    "als-empirical-bayes": ("ALS", {"n_factors": 2, "regularization": EMPIRICAL}, "stars"),
    "als-empirical-bayes-weighted": (
        "ALS",
        {"n_factors": 2, "weighting": "weighted", "regularization": f"{EMPIRICAL},steps=adam,tied=false"},
        "stars",
    ),
    "bias": ("DampedBias", {}, "numbers"),
    "bias-damped": ("DampedBias", {"user_damping": 1.0}, "stars"),
    "blend": (
        "Blend",
        {"n_factors": 2, "sweeps": 4, "weight": 0.4, "linear_regularization": 3.0},
        CHOICES,
    ),
    "blend-found": ("Blend", {"n_factors": 2, "sweeps": 4}, CHOICES),
    "bpmf": ("BPMF", CHAINS, "stars"),
    "bpmf-ard": ("BPMF", CHAINS | {"prior": "ard"}, "stars"),
    "bpmf-auto-draws": ("BPMF", CHAINS | {"draws": "auto", "noise_precision": 0.01, "chains": 1}, "stars"),
    "bpmf-auto-factors": ("BPMF", CHAINS | {"n_factors": "auto", "most_factors": 4}, "stars"),
    "bpmf-cumulative": ("BPMF", CHAINS | {"prior": "cumulative"}, "stars"),
    "bpmf-evidence": ("BPMF", CHAINS | {"weights": "evidence"}, "stars"),
    "bpmf-fixed-noise": ("BPMF", CHAINS | {"noise_precision": 2.0}, "stars"),
    "bpmf-float16": ("BPMF", CHAINS | {"storage": "float16", "precision": "float64"}, "stars"),
    "bpmf-logistic": ("BPMF", CHAINS | {"likelihood": "logistic"}, YES_NO),
    "bpmf-logistic-negatives": (
        "BPMF",
        CHAINS | {"likelihood": "logistic", "negatives": "uniform", "n_negatives": 3},
        CHOICES,
    ),
    "bpmf-noise-of-each": ("BPMF", CHAINS | {"noise": "per-user-and-item"}, "stars"),
    "bpmf-ordinal": ("BPMF", CHAINS | {"likelihood": "ordinal"}, "stars"),
    "bpmf-ordinal-levels": (
        "BPMF",
        CHAINS | {"likelihood": "ordinal", "levels": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "prior": "ard"},
        "stars",
    ),
    "bpmf-probit": ("BPMF", CHAINS | {"likelihood": "probit"}, YES_NO),
    "bpmf-probit-negatives": (
        "BPMF",
        CHAINS | {"likelihood": "probit", "negatives": "popularity", "n_negatives": 2},
        CHOICES,
    ),
    "bpmf-without-biases": ("BPMF", CHAINS | {"biases": False, "start": "random", "inner_sweeps": 2}, "stars"),
    "ease": ("EASE", {"regularization": 2.0}, CHOICES),
    "implicit-als": ("ImplicitALS", {"n_factors": 2, "sweeps": 4}, CHOICES),
    "implicit-als-biases": (
        "ImplicitALS",
        {"n_factors": 2, "biases": True, "growth": "linear", "strength": 3.0, "regularization": 0.5},
        CHOICES,
    ),
    "item-knn": ("ItemKNN", {"n_neighbours": 4}, "stars"),
    "item-mean": ("ItemMean", {}, "stars"),
    "joint": ("Joint", CHAINS, "stars"),
    "joint-by-liking": ("Joint", CHAINS | {"weight": float("inf"), "regularization": 30.0}, "stars"),
    "logistic": ("LogisticMF", {"n_factors": 2, "epochs": 10}, CHOICES),
    "logistic-popularity": (
        "LogisticMF",
        {"n_factors": 2, "epochs": 10, "negatives": "popularity", "n_negatives": 3, "biases": False},
        CHOICES,
    ),
    "mean": ("GlobalMean", {}, "stars"),
    "monotone": ("MonotoneMF", {"n_factors": 1, "sharing": "one", "folds": 2}, "many stars"),
    "monotone-clusters": (
        "MonotoneMF",
        {"n_factors": 1, "sharing": "clusters", "n_clusters": 2, "folds": 2, "regularization": 0.1},
        "many stars",
    ),
    "monotone-empirical-bayes": (
        "MonotoneMF",
        {"n_factors": 1, "sharing": "one", "folds": 2, "regularization": EMPIRICAL},
        "many stars",
    ),
    "monotone-per-user": (
        "MonotoneMF",
        {"n_factors": 1, "sharing": "per-user", "folds": 2, "pull": 2.0, "regularization": 0.1},
        "many stars",
    ),
    "monotone-straight": ("MonotoneMF", {"n_factors": 1}, "stars"),
    "pmf": ("PMF", {"n_factors": 2, "epochs": 5}, "stars"),
    "pmf-adaptive": ("PMF", {"n_factors": 2, "epochs": 5, "regularization": "adaptive"}, "stars"),
    "pmf-empirical-bayes": ("PMF", {"n_factors": 2, "regularization": EMPIRICAL}, "stars"),
    "pmf-raw": ("PMF", {"n_factors": 2, "epochs": 5, "form": "raw", "regularization": 0.05}, "stars"),
    "pmf-sigmoid": ("PMF", {"n_factors": 2, "epochs": 5, "form": "sigmoid", "regularization": 0.05}, "stars"),
    "popular": ("Popular", {}, "stars"),
    "sphere": ("SphereBPMF", CHAINS, "stars"),
    "sphere-als": ("SphereALS", {"n_factors": 2, "sweeps": 5}, "stars"),
    "sphere-biases-on-sphere": ("SphereBPMF", CHAINS | {"biases": "on-sphere", "sampler": "slice"}, "stars"),
    "sphere-ordinal": (
        "SphereBPMF",
        CHAINS | {"likelihood": "ordinal", "sampler": "metropolis", "item_prior": "uniform", "biases": False},
        "stars",
    ),
    "user-knn": ("UserKNN", {"n_neighbours": 4, "similarity": "pearson"}, "stars"),
    "vb": ("VB", {"n_factors": 2, "passes": 5}, "stars"),
    "vb-auto-factors": ("VB", {"n_factors": "auto", "most_factors": 4, "passes": 15}, "stars"),
    "vb-diagonal": ("VB", {"n_factors": 2, "passes": 5, "covariance": "diagonal", "prior": "variances"}, "stars"),
    "vb-hierarchical": ("VB", {"n_factors": 2, "passes": 5, "hierarchical": True}, "stars"),
    "vb-raw": ("VB", {"n_factors": 2, "passes": 5, "centred": False, "biases": False}, "stars"),
}
LATER = ("joint", "joint-by-liking", "blend", "blend-found")  # than format 1
FEW = ("als-found-strength", "bpmf", "bpmf-ordinal-levels", "als-empirical-bayes", "item-knn", *LATER)
UPDATED = ("bpmf", "joint", "blend", "bpmf-logistic-negatives", "bpmf-noise-of-each", "als-found-strength")
INDEXED = ("als-found-strength", "bpmf", "implicit-als")
WITHOUT_RATINGS = ("als-found-strength", "bpmf", "implicit-als-biases")


def ratings_of(kind: str) -> ts.Ratings:
    """Of twelve users and nine items with titles and genres, and a few more of both where curves need ratings."""
    toy = tastes(*((16, 12) if kind == "many stars" else (12, 9)), rng=generator(8))[0]
    values = toy.values if kind == "numbers" else np.clip(np.round(toy.values), 1, 5)
    users, items = np.array([f"user-{row}" for row in toy.user_rows]), toy.item_ids().to_numpy()
    if kind == YES_NO:
        values = (values > 3).astype(np.float32)
    if kind == CHOICES:
        users, items, values = users[values > 2], items[values > 2], values[values > 2] - 2
    times = None if FORMAT_VERSION == 1 else 10**9 + 86_400 * np.arange(len(values))
    ratings = ts.Ratings.from_arrays(users.tolist(), items, values, times)
    if kind == CHOICES:
        ratings = ratings.with_kind("counts")
    ids = ratings.items.ids
    titles = pl.Series("title", [f"Film {item} – é" for item in ids])
    genres = pl.Series("genres", [["Comedy"] if item % 2 else ["Drama", "War"] for item in ids])
    ratings = ratings.with_items(titles, pl.DataFrame({"genres": genres}))
    return ratings if FORMAT_VERSION == 1 else ratings.with_users(pl.DataFrame({"age": range(ratings.n_users)}))


def answers(model: Any) -> dict[str, Any]:
    """What a model says: the columns of its tables by name, and None where it has no answer."""
    low, high = (0.0, 1.0) if model.ratings_.kind == "yes-no" else (1.0, 5.0)
    history = {0: high, 3: low}
    since = pl.DataFrame({"user": ["user-1", "user-1"], "item": [4, 5], "rating": [low, high]})
    users = ["user-0", "user-1", "user-3", "nobody"]
    pairs = [user for user in users for _ in range(3)], [0, 1, 99] * len(users)
    asked: dict[str, Callable[[], Any]] = {
        "predict": lambda: model.predict(*pairs).to_polars(),
        "predict with a history": lambda: model.predict(*pairs, history=since).to_polars(),
        "levels": lambda: pl.DataFrame(model.predict(*pairs).level_probabilities()),
        "recommend": lambda: listed(model.recommend(users, 3)),
        "cautious": lambda: listed(model.recommend(users, 3, policy="cautious:c=2")),
        "likely": lambda: listed(model.recommend(users, 3, policy=likely(model))),
        "where": lambda: listed(model.recommend(users, 3, where="genres = Drama", include_seen=True)),
        "every item": lambda: listed(model.recommend(users, 3, index=None)),
        "new user": lambda: listed(model.recommend(history=history, n=3)),
        "similar items": lambda: model.similar_items([0, 1], 3, shrinkage=0).to_polars(),
        "similar users": lambda: model.similar_users(users[:2], 3).to_polars(),
        "explain": lambda: model.explain("user-3", [2, 4], n=3).to_polars(),
        "explain to a new user": lambda: model.explain(None, [2, 4], history=history, n=3).to_polars(),
        "ask": lambda: model.ask(users[:2], 2).to_polars(),
        "erratic users": lambda: model.erratic_users(3).to_polars(),
        "curves": lambda: model.curves().to_polars(),
    }
    return {name: _answer(ask) for name, ask in asked.items()}


def likely(model: Any) -> str:
    """The policy as it was when ratings had to reach the same for all users, their mean; of choices it is the same."""
    units = getattr(model.posterior_, "units", None)
    return "likely" if units is None or model.not_rated is not None else f"likely:at_least={units.usual!r}"


def listed(ranking: Any) -> pl.DataFrame:
    """Without the chance to be among the best, which few draws know badly."""
    return ranking.to_polars().drop("top_n_probability", strict=False)


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        table = ask()
    except (TastespaceError, AttributeError):
        return None
    return {name: [_rounded(value) for value in column] for name, column in table.to_dict(as_series=False).items()}


def _rounded(value: Any) -> Any:
    """Six digits: instruction sets differ in the seventh."""
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _indexed(model: Any) -> Any:
    vectors = model.posterior_.item_vectors  # a method in the first edition
    index = InvertedFile(n_cells=3, probes=2, seed=4, threads=1).build(vectors() if callable(vectors) else vectors)
    trial = Trial("inverted-file", index.description, {"n_cells": 3}, 0.9, 1.0, 12, 11, 5.0, 3.0, 10.0, 0.1, 99)
    return StoredIndex(index, trial, (trial,), Target(0.9))


def _write(name: str, model: Any, **options: Any) -> None:
    """A model that was just fitted, unless there is one of that name."""
    path = FOLDER / name
    if path.exists():
        return
    ts.save(model, path, measures={"holdout": {"rmse": 0.5}}, **options)
    if name.endswith("-indexed"):
        save_index(path, _indexed(model))
    said = json.dumps(answers(ts.load(path)), ensure_ascii=False)
    (FOLDER / f"{name}.answers.json").write_text(said + "\n")


class _StoppedError(Exception):
    """What ends a run in the middle."""


def _write_checkpoints(path: Path) -> None:
    """Those of a run that was stopped before its last sweep."""
    if path.exists():
        return

    def observer(event: Any) -> None:
        if event.step == 6:
            raise _StoppedError

    try:
        kept = ts.Checkpoints(path, every=2, keep=1)
        ts.BPMF(**CHAINS, chains=1, seed=0, threads=1).fit(ratings_of("stars"), checkpoints=kept, observer=observer)
    except _StoppedError:
        pass


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    warnings.simplefilter("ignore")
    for name in MODELS if FORMAT_VERSION == 1 else FEW:
        kind, parameters, data = MODELS[name]
        model = getattr(ts, kind)(**parameters, seed=0, threads=1).fit(ratings_of(data))
        if name == "blend-found":
            model.choice_ = ts.choose(ratings_of(data), budget=0).summary(model)
        _write(name, model)
        if name in INDEXED:
            _write(f"{name}-indexed", model)
        if name in WITHOUT_RATINGS:
            _write(f"{name}-without-ratings", model, with_ratings=False)
        if name in UPDATED:
            new = pl.DataFrame({"user": ["user-0", "user-new"], "item": [5, 70], "rating": [1.0, 1.0]})
            _write(f"{name}-updated", model.update(new))
    _write_checkpoints(FOLDER.with_name(f"checkpoints-{checkpoints.FORMAT_VERSION}"))


if __name__ == "__main__":
    main()
