"""Similar items: is what a model calls similar chosen by the same people? ml-100k, ml-1m, hetrec-lastfm.

A fifth of the users (seed 0, at most 1000) is kept from training. For each item that one of them has, a model lists the
ten most similar items. Co-choice is the share of these that the user has, too, less the share of all users kept from
training who have them: what is merely popular gains nothing, and neither do rare items that are similar by chance.
*Rare* is the share of listed items with fewer than 10 users in training. Means are over pairs of user and item, at most
30 of a user (seed 1); intervals are 95 % bootstraps over users, differences to item k-NN paired.

"cosine of choices" is item k-NN on choices: common users / sqrt(users of one * users of the other), which also has
n / (n + 20) for n common users where it says shrunk. `item-knn` has its defaults (ratings, not choices). EASE's weights
are B as they are; `ease` and `joint` compare by partial correlations. All models have their defaults, except for `ease`
(regularization 300).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import lists
import numpy as np
import scipy.sparse as sp

import tastespace as ts
from tastespace.errors import TastespaceWarning
from tastespace.evaluation.resampling import Sums, bootstrap, middle

DATA = ("ml-100k", "ml-1m", "hetrec-lastfm")
MOST_USERS, MOST_ITEMS, N = 1000, 30, 10
RARE, SHRINKAGE, REGULARIZATION = 10, 20.0, 300.0
RESAMPLES = 2000
BASE = "cosine of choices, shrunk"

Similar = Callable[[np.ndarray], np.ndarray]  # rows of items to the rows of the most similar ones, -1 for none


def choices_of(ratings: ts.Ratings) -> sp.csr_matrix:
    by_user = ratings.by_user
    return sp.csr_matrix(
        (np.ones(len(by_user.columns), np.float32), by_user.columns, by_user.offsets),
        (ratings.n_users, ratings.n_items),
    )


def by_matrix(similarity: Callable[[np.ndarray], np.ndarray]) -> Similar:
    def similar(items: np.ndarray) -> np.ndarray:
        found = np.empty((len(items), N), int)
        for start in range(0, len(items), 500):
            some = items[start : start + 500]
            values = similarity(some)
            values[np.arange(len(some)), some] = -np.inf
            found[start : start + 500] = np.argsort(-values, axis=1, kind="stable")[:, :N]
        return found

    return similar


def cosines(train: ts.Ratings, shrinkage: float) -> Similar:
    chosen = choices_of(train)
    counts = np.maximum(train.by_item.counts, 1)

    def similarity(items: np.ndarray) -> np.ndarray:
        common = (chosen.T[items] @ chosen).toarray()
        return common / np.sqrt(counts[items, None] * counts) * (common / (common + shrinkage + 1e-9))

    return by_matrix(similarity)


def by_model(model: ts.Recommender, shrinkage: float | None = None) -> Similar:
    def similar(items: np.ndarray) -> np.ndarray:
        found = model.similar_items(model.ratings_.items.ids.gather(items), N, shrinkage=shrinkage)
        return np.asarray(found.rows)

    return similar


def ways(train: ts.Ratings, kind: str) -> dict[str, Similar]:
    as_choices = train if kind == "implicit" else train.with_kind("one-class")
    ease = ts.EASE(regularization=REGULARIZATION).fit(as_choices)
    als = ts.ImplicitALS(seed=0).fit(as_choices)
    (weights,) = [one for one in ease.posterior_.arrays().values() if one.ndim == 2 and len(one) == train.n_items]
    found = {
        "cosine of choices": cosines(train, 0),
        BASE: cosines(train, SHRINKAGE),
        "EASE's weights": by_matrix(lambda items: weights[items].copy()),
        "ease": by_model(ease),
        "implicit-als, not shrunk": by_model(als, 0),
        "implicit-als": by_model(als),
    }
    if kind == "stars":
        joint = ts.Joint(seed=0).fit(train)
        bpmf = ts.BPMF(seed=0).fit(train)
        found |= {
            "item-knn": by_model(ts.ItemKNN().fit(train)),
            "bpmf, not shrunk": by_model(bpmf, 0),
            "bpmf": by_model(bpmf),
            "joint": by_model(joint),
        }
    return found


def measure(data: Path, name: str, quick: bool) -> dict[str, Any]:
    warnings.simplefilter("ignore", TastespaceWarning)
    kind, read = lists.SETS[name]
    ratings = read(data)
    most = 30 if quick else min(MOST_USERS, ratings.n_users // 5)
    is_out = np.isin(ratings.user_rows, np.random.default_rng(0).permutation(ratings.n_users)[:most])
    train, own = (ratings.take(np.flatnonzero(some)) for some in (~is_out, is_out))
    items = train.items.rows_of(own.item_ids())
    has = np.zeros((own.n_users, train.n_items), bool)
    has[own.user_rows[items >= 0], items[items >= 0]] = True
    shares, counts = has.mean(axis=0), train.by_item.counts
    # Of each user some pairs, at random.
    users, asked = np.nonzero(has)
    order = np.lexsort((np.random.default_rng(1).random(len(users)), users))
    users, asked = users[order], asked[order]
    own_counts = has.sum(axis=1)
    place = np.arange(len(users)) - np.repeat(np.cumsum(own_counts) - own_counts, own_counts)
    users, asked = users[place < MOST_ITEMS], asked[place < MOST_ITEMS]
    distinct, places = np.unique(asked, return_inverse=True)
    n_asked = np.bincount(users, minlength=own.n_users).astype(float)
    sums, rare = {}, {}
    for who, similar in ways(train, kind).items():
        found = similar(distinct)
        listed = found[places]
        there = listed >= 0
        excess = (has[users[:, None], np.maximum(listed, 0)] - shares[np.maximum(listed, 0)]) * there
        sums[who] = Sums(np.bincount(users, excess.sum(axis=1) / N, own.n_users), n_asked)
        rare[who] = float((counts[listed[there]] < RARE).mean())
        print(name, who, f"{sums[who].value():.4f} rare {rare[who]:.3f}", flush=True)
    drawn = bootstrap(sums, RESAMPLES, 0)
    return {
        "users": own.n_users,
        "items asked about": len(distinct),
        "ways": {
            who: {
                "co-choice": one.value(),
                "interval": middle(drawn[who]),
                "less item k-NN": one.value() - sums[BASE].value(),
                "less item k-NN, interval": middle(drawn[who] - drawn[BASE]),
                "rare": rare[who],
            }
            for who, one in sums.items()
        },
    }


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    if options.data is None:
        raise SystemExit("no data folder; pass --data DIR or set TASTESPACE_DATA")
    results = {name: harness.in_fresh_process(1, measure, Path(options.data), name, options.quick) for name in DATA}
    names = list(dict.fromkeys(who for result in results.values() for who in result["ways"]))

    def cell(result: dict[str, Any], who: str) -> str:
        if who not in result["ways"]:
            return ""
        found = result["ways"][who]
        low, high = found["interval"]
        return f"{found['co-choice']:.3f} ({low:.3f} to {high:.3f}), rare {found['rare']:.2f}"

    print(
        harness.markdown(["", *results], [[who, *(cell(result, who) for result in results.values())] for who in names])
    )
    harness.save("similar", {"protocol": __doc__, **results}, options)


if __name__ == "__main__":
    main()
