"""Ratings with a known right answer."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.data.ratings import Ratings


def checkerboard(size: int = 12) -> Ratings:
    """Even users like even items, odd users odd ones. User i has not rated item i, which he would like, nor the
    items i + 1 and i + 3, which he would not: so his best unseen item is i, exactly."""
    users, items = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    observed = ~np.isin((items - users) % size, [0, 1, 3])
    likes = (users % 2) == (items % 2)
    return Ratings.from_arrays(users[observed], items[observed], np.where(likes, 5.0, 1.0)[observed])


def tastes(
    n_users: int, n_items: int, *, n_factors: int = 2, density: float = 0.3, noise: float = 0.3, rng: Generator
) -> tuple[Ratings, DoubleArray]:
    """Ratings drawn from a factor model, and the true expected rating of every pair (small sizes only)."""
    users = rng.standard_normal((n_users, n_factors))
    items = rng.standard_normal((n_items, n_factors))
    truth = 3 + 0.4 * rng.standard_normal((n_users, 1)) + 0.4 * rng.standard_normal(n_items) + 0.7 * users @ items.T
    observed = rng.random((n_users, n_items)) < density
    observed[np.arange(n_users), rng.integers(0, n_items, n_users)] = True  # nobody without a rating
    observed[rng.integers(0, n_users, n_items), np.arange(n_items)] = True
    user_rows, item_rows = np.nonzero(observed)
    values = truth[observed] + noise * rng.standard_normal(len(user_rows))
    return Ratings.from_arrays(user_rows, item_rows, values), truth
