"""States and ratings small enough to check jumps on."""

from __future__ import annotations

import numpy as np

from tastespace import Ratings
from tastespace.models.factorization.rank.target import Precisions, RankState, RankTarget
from tastespace.models.factorization.rows import Factors

FALSE_ALARM = 1e-6


def small_ratings(n_users, n_items, rng, share=0.7):
    """Any numbers; everybody occurs."""
    observed = rng.random((n_users, n_items)) < share
    observed[np.arange(n_users), np.arange(n_users) % n_items] = True
    observed[np.arange(n_items) % n_users, np.arange(n_items)] = True
    users, items = np.nonzero(observed)
    return Ratings.from_arrays(users, items, np.round(rng.standard_normal(len(users)) * 2) / 2)


def any_state(target: RankTarget, rank, rng, *, biases=True, temperature=1.0, precisions=None):
    """Drawn from the prior."""

    def points(n):
        return Factors(rng.standard_normal((n, rank)), 0.4 * rng.standard_normal(n) if biases else None)

    own = Precisions(1.3, 0.8, 2.1, 3.0, 5.0) if precisions is None else precisions
    return RankState(points(target.n_users), points(target.n_items), own, temperature)


def dense_log_density(ratings, most, state):
    """log p_T written from the formula, rating by rating."""
    t, own = state.temperature, state.precisions
    u, v, c, d = state.users.factors, state.items.factors, state.users.bias, state.items.bias
    total = -np.log(most)
    scale = ratings.standard_deviation
    for i, j, r in zip(ratings.user_rows, ratings.item_rows, ratings.values.astype(float), strict=True):
        error = (r - ratings.mean) / scale - u[i] @ v[j] - (0 if c is None else c[i] + d[j])
        total += 0.5 * np.log(own.noise / (2 * np.pi * t)) - own.noise / (2 * t) * error**2
    for values, lam in ((u, own.users), (v, own.items), (c, own.user_biases), (d, own.item_biases)):
        if values is not None:
            total += np.sum(0.5 * np.log(lam / (2 * np.pi * t)) - lam / (2 * t) * values**2)
    return float(total)
