"""What updates are tried on: ratings that came early and late, and models fitted on the early ones."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace

import numpy as np

from tastespace import BPMF, Ratings
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

N_USERS, N_ITEMS, N_NEW = 60, 40, 3
SMALL = {"n_factors": 2, "chains": 2, "warmup": 10, "draws": 10, "thin": 1, "seed": 1}
KINDS = {
    "gaussian": {},
    "no biases": {"biases": False},
    "double": {"precision": "float64"},
    "uneven": {"likelihood": "heteroscedastic"},
    "ordinal": {"likelihood": "ordinal"},
    "probit": {"likelihood": "probit"},
    "logistic": {"likelihood": "logistic"},
}


@functools.cache
def world(kind="gaussian"):
    """Ratings of all items, such as a kind of model takes, and the truth."""
    ratings, truth = tastes(N_USERS, N_ITEMS, rng=generator(3))
    if kind == "ordinal":
        values = np.clip(np.round(ratings.values), 1, 5)
    elif kind in ("probit", "logistic"):
        values = ratings.values > 3
    else:
        values = np.clip(ratings.values, 0.5, 5.5)
    return replace(ratings, values=values.astype(np.float32)), truth


@functools.cache
def parts(kind="gaussian"):
    """Old ratings, and later ones: some of the old items and of new users, and all of the last items."""
    ratings, _ = world(kind)
    is_late = (ratings.item_ids().to_numpy() >= N_ITEMS - N_NEW) | (ratings.user_ids().to_numpy() >= N_USERS - 2)
    return ratings.take(np.flatnonzero(~is_late)), ratings.take(np.flatnonzero(is_late))


@functools.cache
def fitted(kind, **more):
    """A model of the old ratings, one for all tests: copy it before changing it."""
    return silently(lambda: BPMF(**SMALL | KINDS[kind] | more).fit(parts(kind)[0]))


def updated(before, news, **options):
    """After an update whose warnings (of short chains, of much that is new) are not what is looked at."""
    return silently(lambda: before.update(news, **options))


def silently(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def small_news(ratings, n=5):
    """A few ratings of pairs that nobody has rated yet, in the range."""
    rated = set(zip(ratings.user_ids().to_list(), ratings.item_ids().to_list(), strict=True))
    pairs = [(user, item) for user in ratings.users.ids for item in ratings.items.ids if (user, item) not in rated][:n]
    values = np.resize([2.0, 4.0, 3.0], len(pairs))
    return Ratings.from_arrays([user for user, _ in pairs], [item for _, item in pairs], values)
