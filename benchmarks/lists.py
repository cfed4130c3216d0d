"""Lists: what people choose and like, on ten data sets, against other models and other libraries.

A fifth of every user's ratings, drawn at random (seed 0) and rounded down, is the test part. Every item of the training
part that a user has not rated there is a candidate; test items that the training part lacks count as missed. Users are
judged who have something to find in the test part, at most 1500 of them (a sample, seed 2); jester is a sample of 5000
users to begin with. Models learn from all users.

stars: what is to be found are liked items, rated at least the user's training mean, shrunk to the mean of all ratings
(`tastespace.data.kinds.liked_from`). NDCG@10 (an item is liked or not) and recall@20. `joint` has its defaults. Beside
lists, RMSE and the coverage of 90 % intervals of `joint` and of `bpmf`, over all test ratings.
implicit: everything in the test part is to be found. NDCG@100 and recall@20 (of at most 20). Ours is what `ts.fit`
makes of the training part.

The settings of peers, and those of our own models that do not find them, are the best on a fifth of each user's
*training* ratings, measured in the same way; then they learn from all of the training part. LightFM's are searched on
the ratings of 1000 users at most. implicit and LightFM are given all pairs or the liked ones, whichever is better
there, EASE also the ratings themselves. Differences to ours are paired, user by user, with a 95 % bootstrap over users.
Coverage is the share of the catalogue in the lists of 10 of all users who are judged. Groups of items by popularity
have a third of the training ratings each.

--new-users: 300 users of ml-100k are kept from training; lists are made by none or a few of their ratings (seed 0).
Liked, of the rest of their ratings: at least the mean of all of theirs, shrunk to that of all.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import harness
import numpy as np
import polars as pl
import scipy.linalg
import scipy.sparse as sp

import tastespace as ts
from tastespace.data.kinds import liked_from
from tastespace.errors import TastespaceWarning
from tastespace.evaluation.metrics import catalogue
from tastespace.evaluation.metrics import order as order_measures
from tastespace.evaluation.resampling import Sums, bootstrap, middle

JUDGED = 1500  # users at most
JESTER_USERS = 5000
RESAMPLES = 2000
EPOCHS = 30  # of LightFM
GROUPS = ("popular", "middle", "rare")
MARGINS = {"stars": 0.005, "implicit": 0.003}  # by which no interval of a rival may be above ours
MEASURES = {"stars": (("ndcg", 10), ("recall", 20)), "implicit": (("ndcg", 100), ("recall", 20))}
JUDGED_BY = {"stars": ("ndcg@10", "recall@20"), "implicit": ("ndcg@100",)}
KEPT = Path(__file__).parent.parent / "build" / "lists"  # what was found: the next run continues there
RESULT = "lists"
NEW_USERS_OF, NEW_USERS, GIVEN = "ml-100k", 300, (0, 1, 3, 10)  # the data set, how many, ratings of each
OURS = {"stars": "joint", "implicit": "fit"}


def anime(data: Path) -> ts.Ratings:
    return ts.read(data / "anime" / "anime_ratings.dat", rating="Feedback")


def jester(data: Path) -> ts.Ratings:
    ratings = ts.Ratings.from_frame(pl.read_parquet(data / "jester-1.parquet"))
    some = np.random.default_rng(2).permutation(ratings.n_users)[:JESTER_USERS]
    return ratings.take(np.flatnonzero(np.isin(ratings.user_rows, some)))


def hetrec_lastfm(data: Path) -> ts.Ratings:
    frame = pl.read_parquet(data / "hetrec-lastfm-2k" / "plays.parquet")
    return ts.Ratings.from_arrays(*(frame[:, place] for place in range(3))).with_kind("counts")


def ones(frame: pl.DataFrame) -> ts.Ratings:
    return ts.Ratings.from_arrays(frame[:, 0], frame[:, 1], np.ones(len(frame))).with_kind("one-class")


SETS: dict[str, tuple[str, Callable[[Path], ts.Ratings]]] = {
    "filmtrust": ("stars", lambda data: ts.read(data / "filmtrust" / "ratings.txt")),
    "ml-100k": ("stars", lambda data: ts.read(data / "ml-100k")),
    "ml-latest-small": ("stars", lambda data: ts.read(data / "ml-latest-small")),
    "movielens-demo": ("stars", lambda data: ts.dataset("movielens-demo")),
    "anime": ("stars", anime),
    "jester": ("stars", jester),
    "ml-1m": ("stars", lambda data: ts.Ratings.from_frame(pl.read_parquet(data / "ml-1m" / "ratings.parquet")[:, :3])),
    "hetrec-lastfm": ("implicit", hetrec_lastfm),
    "citeulike-a": ("implicit", lambda data: ones(pl.read_parquet(data / "citeulike-a.parquet"))),
    "anime-history": (
        "implicit",
        lambda data: ones(pl.read_csv(data / "anime" / "anime_history.dat", separator="\t")),
    ),
}


# The data, and what is measured


@dataclass(frozen=True, eq=False)
class Part:
    """Training ratings, and what is to be found for some users of the rest."""

    kind: str
    train: ts.Ratings
    test: ts.Ratings
    users: np.ndarray  # rows in the training ratings
    wanted: np.ndarray  # users x items, flags
    n_wanted: np.ndarray  # with those that the training ratings lack

    @classmethod
    def of(cls, ratings: ts.Ratings, kind: str, seed: int = 0) -> Part:
        rng = np.random.default_rng(seed)
        sorted_by_user = np.lexsort((rng.random(len(ratings)), ratings.user_rows))
        counts = ratings.by_user.counts
        place = np.arange(len(ratings)) - np.repeat(np.cumsum(counts) - counts, counts)
        is_test = np.zeros(len(ratings), bool)
        is_test[sorted_by_user[place < np.repeat(counts // 5, counts)]] = True
        train, test = (ratings.take(np.flatnonzero(some)) for some in (~is_test, is_test))
        rows, items = train.users.rows_of(test.user_ids()), train.items.rows_of(test.item_ids())
        is_wanted = np.ones(len(test), bool)
        if kind == "stars":
            is_wanted = test.values >= liked_from(train.by_user, float(train.values.mean(dtype=np.float64)))[rows]
        n_wanted = np.bincount(rows[is_wanted], minlength=train.n_users)
        users = np.sort(np.random.default_rng(seed + 2).permutation(np.flatnonzero(n_wanted))[:JUDGED])
        place_of = np.full(train.n_users, -1)
        place_of[users] = np.arange(len(users))
        here = is_wanted & (place_of[rows] >= 0) & (items >= 0)
        wanted = np.zeros((len(users), train.n_items), bool)
        wanted[place_of[rows[here]], items[here]] = True
        return cls(kind, train, test, users, wanted, n_wanted[users])

    @property
    def length(self) -> int:
        """How long lists have to be."""
        return max(k for _, k in MEASURES[self.kind])

    def hits(self, lists: np.ndarray) -> np.ndarray:
        return np.take_along_axis(self.wanted, np.maximum(lists, 0), 1) & (lists >= 0)

    def measured(self, lists: np.ndarray) -> dict[str, np.ndarray]:
        """One value a user."""
        hits, found = self.hits(lists), {}
        for name, k in MEASURES[self.kind]:
            if name == "ndcg":
                ideal = (np.arange(k) < self.n_wanted[:, None]).astype(float)
                found[f"ndcg@{k}"] = order_measures.ndcg(hits[:, :k].astype(float), ideal)
            else:
                most = self.n_wanted if self.kind == "stars" else np.minimum(self.n_wanted, k)
                found[f"recall@{k}"] = order_measures.recall(hits[:, :k], most)
        return found

    def value(self, lists: np.ndarray) -> float:
        """What settings are chosen by."""
        return sum(float(self.measured(lists)[name].mean()) for name in JUDGED_BY[self.kind])

    def catalogue(self, lists: np.ndarray) -> dict[str, float]:
        """How much of the catalogue lists of 10 show, and how many wanted items of each popularity lists of 20 find."""
        counts = self.train.by_item.counts
        ranked = np.argsort(-counts, kind="stable")
        group = np.empty(len(counts), int)
        group[ranked] = np.minimum(np.cumsum(counts[ranked]) * len(GROUPS) // (counts.sum() + 1), len(GROUPS) - 1)
        found, hits = (
            {"coverage@10": catalogue.coverage(catalogue.exposure(lists[:, :10], len(counts)))},
            self.hits(lists),
        )
        for place, name in enumerate(GROUPS):
            n_hits = np.count_nonzero(hits[:, :20] & (group[np.maximum(lists[:, :20], 0)] == place))
            found[f"found of {name}"] = n_hits / max(1, np.count_nonzero(self.wanted[:, group == place]))
        return found

    # What peers are given, users x items

    def given(self, values: str) -> sp.csr_matrix:
        by_user = self.train.by_user
        data = np.ones_like(by_user.values)
        if values == "ratings":
            data = by_user.values
        if values == "log counts":
            data = np.log1p(by_user.values)
        keep = np.ones(len(data), bool)
        if values == "liked":
            keep = by_user.values >= liked_from(by_user, float(by_user.values.mean(dtype=np.float64)))[by_user.rows()]
        cells = by_user.rows()[keep], by_user.columns[keep]
        return sp.csr_matrix((data[keep].astype(np.float32), cells), (self.train.n_users, self.train.n_items))

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Lists by scores of the users who are judged, what they have left out."""
        scores = np.array(scores, np.float32)
        scores[self.given("pairs")[self.users].nonzero()] = -np.inf
        n = min(self.length, scores.shape[1])
        top = np.argpartition(-scores, n - 1, axis=1)[:, :n]
        top = np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1, kind="stable"), 1)
        return np.where(np.isfinite(np.take_along_axis(scores, top, 1)), top, -1)


# The models: a part and settings to lists


def lists_of(model: ts.Recommender | np.ndarray, part: Part) -> np.ndarray:
    """Those of a fitted model of ours; a peer has made them already."""
    if not isinstance(model, ts.Recommender):
        return model
    ids = part.train.users.ids.gather(part.users)
    found = model.recommend(ids, min(part.length, part.train.n_items), uncertainty=False).item_rows
    return np.asarray(found)


def ours(model: Callable[..., ts.Recommender], as_choices: bool = False) -> Callable[..., ts.Recommender]:
    def fitted(part: Part, **settings: Any) -> ts.Recommender:
        train = part.train
        if as_choices and part.kind == "stars":
            train = replace(train, values=np.ones_like(train.values), declared_kind="one-class")
        return model(**settings).fit(train)

    return fitted


def chosen(part: Part) -> ts.Recommender:
    return ts.fit(part.train, seed=0, threads=1)


def implicit_als(
    part: Part, values: str, factors: int, regularization: float, strength: float, seed: int = 0
) -> np.ndarray:
    from implicit.cpu.als import AlternatingLeastSquares

    given = part.given(values)
    given.data = 1 + strength * given.data
    model = AlternatingLeastSquares(
        factors=factors, regularization=regularization, iterations=15, random_state=seed, num_threads=1
    )
    model.fit(given, show_progress=False)
    return part.best(model.user_factors[part.users] @ model.item_factors.T)


def lightfm_warp(part: Part, values: str, learning_rate: float, alpha: float) -> np.ndarray:
    from lightfm import LightFM

    model = LightFM(64, loss="warp", learning_rate=learning_rate, item_alpha=alpha, user_alpha=alpha, random_state=0)
    model.fit(part.given(values).tocoo(), epochs=EPOCHS, num_threads=1)
    return part.best(model.user_embeddings[part.users] @ model.item_embeddings.T + model.item_biases)


@cache
def ease_weights(part: Part, values: str, lamb: float) -> np.ndarray:
    """The formula of cornac's EASE, in single precision and through the smaller matrix: for the search alone."""
    x = part.given(values)
    n_users, n_items = x.shape
    if n_users < n_items:
        kernel = (x @ x.T).toarray() + lamb * np.eye(n_users, dtype=np.float32)
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(kernel), np.eye(n_users, dtype=np.float32))
        weights = np.asarray(x.T @ (x.T @ inverse).T)
        weights /= 1 - weights.diagonal()
    else:
        gram = (x.T @ x).toarray() + lamb * np.eye(n_items, dtype=np.float32)
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram), np.eye(n_items, dtype=np.float32))
        weights = inverse / -inverse.diagonal()
    np.fill_diagonal(weights, 0)
    return weights


def searched_ease(part: Part, values: str, lamb: float, positive: bool) -> np.ndarray:
    weights = ease_weights(part, values, lamb)
    return part.best(part.given(values)[part.users] @ (np.maximum(weights, 0) if positive else weights))


def cornac_ease(part: Part, values: str, lamb: float, positive: bool) -> np.ndarray:
    from cornac.data import Dataset
    from cornac.models import EASE

    given = part.given(values).tocoo()
    rows = given.row.tolist(), given.col.tolist(), given.data.tolist()
    data = Dataset.build(list(zip(*rows, strict=True)), seed=0)
    model = EASE(lamb=lamb, posB=positive, verbose=False, seed=0).fit(data)
    # What it leaves out, users and items without pairs, scores 0.
    users = np.array([data.uid_map.get(int(user), -1) for user in part.users])
    items = np.fromiter(data.iid_map.keys(), int, data.num_items)
    scores = np.zeros((len(users), part.train.n_items), np.float32)
    scores[np.ix_(users >= 0, items)] = data.matrix[users[users >= 0]] @ model.B
    return part.best(scores)


@dataclass(frozen=True)
class Model:
    """One to compare: how it is fitted or makes lists, and which settings are tried on a part of the training ratings.

    `stages` are tried one after the other: of each, the best change of the settings so far is kept.
    """

    made: Callable[..., ts.Recommender | np.ndarray]
    stages: Sequence[Sequence[Mapping[str, Any]]] = ()
    start: Mapping[str, Any] = field(default_factory=dict)
    searched: Callable[..., np.ndarray] | None = None  # the same for the search, if that is faster
    most_users: int | None = None  # whose ratings the search is made on

    def settings(self, train: ts.Ratings, kind: str, quick: bool) -> dict[str, Any]:
        """The best on a fifth of each user's training ratings."""
        some = np.random.default_rng(1).permutation(train.n_users)[: self.most_users]
        inner = Part.of(train.take(np.flatnonzero(np.isin(train.user_rows, some))), kind, seed=1)
        settings, made = dict(self.start), self.searched or self.made
        for stage in self.stages:
            tried = [settings | change for change in stage[: 1 if quick else None]]
            settings = max(tried, key=lambda some: inner.value(lists_of(made(inner, **some), inner)))
        return settings


def grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(zip(values, some, strict=True)) for some in product(*values.values())]


def models(kind: str) -> dict[str, Model]:
    """Of ours, all that make lists of this; then the peers."""
    stars = kind == "stars"
    lambdas = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
    ease = Model(ours(ts.EASE, as_choices=True), [grid(regularization=lambdas)])
    als = Model(ours(ts.ImplicitALS, as_choices=True), start={"n_factors": 64 if stars else 128, "seed": 0})
    if stars:
        found = {
            "joint": Model(ours(ts.Joint), start={"seed": 0}),
            "joint, choices alone": Model(ours(ts.Joint), start={"weight": 0.0, **FEW_DRAWS}),
            "bpmf": Model(ours(ts.BPMF), start={"seed": 0}),
        }
    else:
        found = {"fit": Model(chosen)}
        found["logistic"] = Model(
            ours(ts.LogisticMF), [grid(regularization=(2.0, 3.0, 4.0))], {"n_factors": 128, "seed": 0}
        )
    values = ("pairs", "liked") if stars else ("log counts",)
    return {
        **found,
        "ease": ease,
        "implicit-als": als,
        "popular": Model(ours(ts.Popular, as_choices=True)),
        "implicit ALS": Model(
            implicit_als,
            [
                grid(values=values),
                grid(strength=(0.5, 2.0, 8.0, 32.0), regularization=(5.0, 20.0, 60.0, 200.0)),
                grid(factors=(32, 64, 128, 256)),
            ],
            {"factors": 64, "strength": 8.0, "regularization": 60.0},
        ),
        "LightFM WARP": Model(
            lightfm_warp,
            [grid(values=values if stars else ("pairs",), learning_rate=(0.02, 0.05)), grid(alpha=(0.0, 1e-6, 1e-5))],
            {"alpha": 0.0},
            most_users=1000,
        ),
        "cornac EASE": Model(
            cornac_ease,
            [
                grid(
                    values=("pairs", "liked", "ratings") if stars else ("pairs",),
                    lamb=(*lambdas[1:], 1e4, 3e4, 1e5) if stars else lambdas[1:5],
                    positive=(True, False),
                )
            ],
            searched=searched_ease,
        ),
    }


PREDICTING = ("joint", "bpmf")
FEW_DRAWS = {"chains": 1, "warmup": 1, "draws": 1, "seed": 0}  # where the rating side is not asked


# What is found


def measure(data: Path, name: str, who: str, settings: dict[str, Any] | None, quick: bool) -> dict[str, Any]:
    """One model on one data set: what its lists are worth, in all and for each user. No settings: they are searched.

    For stars also the errors and intervals of models that predict ratings.
    """
    warnings.simplefilter("ignore", TastespaceWarning)
    kind, read = SETS[name]
    part, model = Part.of(read(data), kind), models(kind)[who]
    if settings is None:
        settings = model.settings(part.train, kind, quick)
        ease_weights.cache_clear()
    made = model.made(part, **settings)
    lists = lists_of(made, part)
    by_user = {measure: values.tolist() for measure, values in part.measured(lists).items()}
    figures = {measure: float(np.mean(values)) for measure, values in by_user.items()}
    found = {**figures, **part.catalogue(lists), "settings": settings, "by user": by_user}
    if isinstance(made, ts.Recommender):
        found["settings"] |= made.choice_ or {}
        names = [name for name in ("regularization", "weight") if hasattr(made, f"{name}_")]
        found |= {"found": {name: str(getattr(made, f"{name}_")) for name in names}} if names else {}
        found |= {"ratings": predicted(part, made)} if who in PREDICTING and kind == "stars" else {}
    return found


def described(data: Path, name: str, quick: bool) -> dict[str, Any]:
    """How large a data set is."""
    kind, read = SETS[name]
    part = Part.of(read(data), kind)
    sizes = {"users": part.train.n_users, "items": part.train.n_items, "training ratings": len(part.train)}
    return {"kind": kind, **sizes, "test ratings": len(part.test), "judged users": len(part.users)}


def predicted(part: Part, model: ts.Recommender) -> dict[str, float]:
    found = model.predict(part.test.user_ids(), part.test.item_ids())
    low, high = found.interval(0.9).T
    values = part.test.values
    rmse = float(np.sqrt(np.mean((found.mean - values) ** 2, dtype=np.float64)))
    return {"rmse": rmse, "in 90 % intervals": float(np.mean((low <= values) & (values <= high)))}


def measure_new_users(data: Path, name: str) -> dict[str, Any]:
    """NDCG@10 for users of whom little is known: `joint`, by expected rating, and `popular`."""
    warnings.simplefilter("ignore", TastespaceWarning)
    ratings = SETS[name][1](data)
    rng = np.random.default_rng(0)
    is_new = np.isin(ratings.user_rows, rng.permutation(ratings.n_users)[:NEW_USERS])
    train, own = ratings.take(np.flatnonzero(~is_new)), ratings.take(np.flatnonzero(is_new))
    joint, popular = ts.Joint(seed=0).fit(train), ts.Popular().fit(train)
    order = np.lexsort((rng.random(len(own)), own.user_rows))
    place = np.empty(len(own), int)
    place[order] = np.arange(len(own)) - np.repeat(own.by_user.offsets[:-1], own.by_user.counts)
    liked = own.values >= liked_from(own.by_user, float(train.values.mean(dtype=np.float64)))[own.user_rows]
    items, result = train.items.rows_of(own.item_ids()), {}
    for n in GIVEN:
        given = own.take(np.flatnonzero(place < n)) if n else None
        is_wanted = liked & (place >= n)
        n_wanted = np.bincount(own.user_rows[is_wanted], minlength=own.n_users)
        wanted = np.zeros((own.n_users, train.n_items), bool)
        here = is_wanted & (items >= 0)
        wanted[own.user_rows[here], items[here]] = True
        values = {}
        for who, model, policy in (
            ("joint", joint, "best"),
            ("by rating", joint, "rating"),
            ("popular", popular, "best"),
        ):
            lists = model.recommend(own.users.ids, 10, history=given, policy=policy, uncertainty=False).item_rows
            hits = np.take_along_axis(wanted, np.maximum(lists, 0), 1) & (lists >= 0)
            ideal = (np.arange(10) < n_wanted[:, None]).astype(float)
            values[who] = order_measures.ndcg(hits.astype(float), ideal)[n_wanted > 0]
        drawn = bootstrap({who: Sums.of_values(one) for who, one in values.items()}, RESAMPLES, 0)
        found: dict[str, Any] = {who: float(one.mean()) for who, one in values.items()}
        found["joint less popular, interval"] = middle(drawn["joint"] - drawn["popular"])
        result[str(n)] = found | {"users": int(np.count_nonzero(n_wanted))}
        print(name, n, found, flush=True)
    return result


def compared(result: dict[str, Any]) -> dict[str, Any]:
    """Each model less ours, user by user; what was found for single users is left out."""
    mine, rivals = OURS[result["kind"]], result["models"]
    values = {
        (who, measure): np.array(one) for who, found in rivals.items() for measure, one in found["by user"].items()
    }
    drawn = bootstrap({key: Sums.of_values(one) for key, one in values.items()}, RESAMPLES, 0)
    for who, found in rivals.items():
        del found["by user"]
        if who == mine:
            continue
        for measure in JUDGED_BY[result["kind"]]:
            found[f"{measure} less ours"] = found[measure] - rivals[mine][measure]
            found[f"{measure} less ours, interval"] = middle(drawn[who, measure] - drawn[mine, measure])
    return result


def verdicts_of(results: Mapping[str, Any]) -> list[str]:
    """For each data set and measure: the rival whose interval begins highest above ours."""
    lines = []
    for name, result in results.items():
        rivals = {who: found for who, found in result["models"].items() if who != OURS[result["kind"]]}
        for measure in JUDGED_BY[result["kind"]]:
            lows = {who: found[f"{measure} less ours, interval"][0] for who, found in rivals.items()}
            who = max(lows, key=lambda one: lows[one])
            title = f"{name}: {measure}, interval above ours of {who} begins at"
            lines.append(harness.verdict(title, lows[who], MARGINS[result["kind"]], at_most=True))
    return lines


def table(results: Mapping[str, Any], kind: str, cell: Callable[[Mapping[str, Any]], str]) -> str:
    """One row a model, one column a data set."""
    some = {name: result for name, result in results.items() if result["kind"] == kind}
    rows = [
        [who, *(cell(result["models"][who]) if who in result["models"] else "" for result in some.values())]
        for who in models(kind)
    ]
    return harness.markdown(["", *some], rows)


def show(results: Mapping[str, Any]) -> None:
    for kind in MEASURES:
        (first, n), (second, k) = MEASURES[kind]
        names = f"{first}@{n}", f"{second}@{k}"
        print(f"\n## {kind}: {' / '.join(names)}\n")
        print(table(results, kind, lambda found, names=names: " / ".join(f"{found[name]:.3f}" for name in names)))
        print(f"\n## {kind}: {names[0]} less ours\n")
        print(table(results, kind, lambda found, name=names[0]: difference(found, name)))
        print(f"\n## {kind}: coverage of the catalogue; share found of popular, middle, rare items\n")
        groups = [f"found of {group}" for group in GROUPS]
        print(
            table(
                results,
                kind,
                lambda found, groups=groups: (
                    f"{found['coverage@10']:.2f}; " + ", ".join(f"{found[group]:.2f}" for group in groups)
                ),
            )
        )
    print("\n## Predicted ratings: RMSE, share in 90 % intervals\n")
    rows = [
        [name, *(f"{found[who]['ratings'][key]:.4f}" for who in PREDICTING for key in ("rmse", "in 90 % intervals"))]
        for name, found in ((name, result["models"]) for name, result in results.items() if result["kind"] == "stars")
    ]
    print(harness.markdown(["", "joint", "in 90 %", "bpmf", "in 90 %"], rows))


def difference(found: Mapping[str, Any], name: str) -> str:
    if f"{name} less ours" not in found:
        return ""
    low, high = found[f"{name} less ours, interval"]
    return f"{found[f'{name} less ours']:+.3f} ({low:+.3f} to {high:+.3f})"


def main() -> None:
    options = harness.arguments(
        __doc__.splitlines()[0],
        only={"nargs": "+", "choices": list(SETS), "help": "some of the data sets; results of others are kept"},
        again={"nargs": "+", "default": [], "help": "models to measure again, or all; others that were are kept"},
        new_users={"action": "store_true", "help": "measure lists for new users instead"},
        same_settings={"action": "store_true", "help": f"those of results/{RESULT}.json, instead of searching again"},
    )
    if options.data is None:
        raise SystemExit("no data folder; pass --data DIR or set TASTESPACE_DATA")
    data, kept = Path(options.data), KEPT.with_name("lists-quick") if options.quick else KEPT

    if options.new_users:
        results = harness.in_fresh_process(1, measure_new_users, data, NEW_USERS_OF)
        harness.save("lists_new_users", {"protocol": __doc__, NEW_USERS_OF: results}, options)
        return

    def known(file: Path, who: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What was measured before, or is now."""
        if not file.exists() or {who, "all"} & set(options.again):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(harness.in_fresh_process(1, function, data, *arguments, options.quick)))
        return json.loads(file.read_text())

    file = harness.RESULTS / f"{RESULT}.json"
    before = json.loads(file.read_text())["sets"] if file.exists() else {}
    results = {}
    for name in options.only or SETS:
        folder = kept / name
        result = known(folder / "described.json", "described", described, name)
        result["models"] = {}
        for who in models(result["kind"]):
            settings = before[name]["models"][who]["settings"] if options.same_settings and who != "fit" else None
            found = result["models"][who] = known(folder / f"{who}.json", who, measure, name, who, settings)
            print(name, who, *(f"{value:.4f}" for value in list(found.values())[:2]), flush=True)
        results[name] = compared(result)
    show(results)
    results = {name: (before | results)[name] for name in SETS if name in before or name in results}
    verdicts = verdicts_of(results)
    harness.save(RESULT, {"protocol": __doc__, "sets": results, "verdicts": verdicts}, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
