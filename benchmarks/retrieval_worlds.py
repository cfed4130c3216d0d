"""What the retrieval benchmark searches: items of fitted models and the queries of their users, or any number.

Netflix-shaped: 17 770 items and a tenth of the users (48 000, 10 million synthetic ratings), so that rare items are
rarer, and their draws less alike, than with all users. Beside the shape nothing in them is Netflix's.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import movielens
import numpy as np

import tastespace as ts
from tastespace.data.shapes import Shape
from tastespace.data.sources import SOURCES
from tastespace.errors import ConvergenceWarning
from tastespace.evaluation.retrieval import item_vectors, sampled_queries
from tastespace.models import Recommender

N_FACTORS = 20
NETFLIX = Shape(n_users=48_019, n_items=17_770, n_ratings=10_048_050, activity=0.63, popularity=0.8)
LARGE = Shape(n_users=20_000, n_items=200_000, n_ratings=4_000_000, activity=0.6, popularity=0.7)
QUICK = 0.02


def netflix_shaped(quick: bool, shape: Shape = NETFLIX) -> ts.Ratings:
    """The items as they are, with fewer users if it is to be quick."""
    if quick:
        shape = Shape(
            int(QUICK * shape.n_users),
            shape.n_items,
            int(4 * QUICK * shape.n_ratings),
            activity=shape.activity,
            popularity=shape.popularity,
        )
    return ts.synthetic(shape, n_factors=N_FACTORS, seed=0)


def ratings_named(name: str, data: Path | None, quick: bool) -> ts.Ratings:
    if name == "netflix-shaped":
        return netflix_shaped(quick)
    return SOURCES["movielens-demo"]() if name == "movielens-demo" else movielens.ratings(data)


def posterior_of(ratings: ts.Ratings, n_draws: int, quick: bool) -> Recommender:
    """Draws of two chains; a few sweeps apart, so that they are not one draw told twice."""
    model = ts.BPMF(
        n_factors=N_FACTORS, chains=2, warmup=3 if quick else 30, draws=n_draws // 2, thin=1 if quick else 3, seed=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(ratings)


def on_sphere(quick: bool) -> Recommender:
    """Items of one length, without biases: ranking is nearest neighbours."""
    model = ts.SphereALS(n_factors=N_FACTORS, biases=False, seed=0, sweeps=2 if quick else 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(netflix_shaped(quick))


def vectors_and_queries(model: Recommender) -> tuple[np.ndarray, np.ndarray]:
    """Of a fitted model: users as training knows them, and strangers with some ratings."""
    return item_vectors(model), sampled_queries(model).vectors


def any_number(n_items: int, n_queries: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Normal items and users, as unevenly spread over 20 directions as those of a fit of films are (from 1 to 0.3)."""
    rng = np.random.default_rng(0)
    spread = np.linspace(1, 0.3, N_FACTORS).astype(np.float32)
    items = rng.standard_normal((n_items, N_FACTORS), np.float32) * spread
    return items, rng.standard_normal((n_queries, N_FACTORS), np.float32) * spread
