"""A model that says how sure it is, and ratings drawn from just what it says: so that it is right by construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from tastespace import GlobalMean, Prediction, Ratings, Split
from tastespace.arrays import FloatMatrix
from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings

STARS = np.array([1.0, 2, 3, 4, 5])
N_ITEMS = 400


def draws(users: Any, items: Any, n_draws: int) -> FloatMatrix:
    """What each draw expects of each pair, more or less alike from pair to pair."""
    users, items = np.asarray(users, np.float64), np.asarray(items, np.float64)
    middle = 3.2 + 0.8 * np.sin(users) + 0.5 * np.cos(1.7 * items)
    spread = 0.05 + 0.6 * ((users * 7 + items * 3) % 11) / 10
    places = ndtri((np.arange(n_draws) + 0.5) / n_draws)
    return (middle[:, None] + spread[:, None] * places).astype(np.float32)


@dataclass(kw_only=True)
class Oracle(GlobalMean):
    """Knows the distribution of every rating; with `sd_factor` or `shift` it is wrong about it in a known way."""

    n_draws: int = 8
    noise: float = 0.7
    sd_factor: float = 1.0  # of noise and belief alike
    shift: float = 0.0
    with_levels: bool = True
    with_weights: bool = False

    def predict(self, user_ids: Any, item_ids: Any, *, history: Any = None) -> Prediction:
        point = super().predict(user_ids, item_ids, history=history)
        means = draws(point.user_ids, point.item_ids, self.n_draws) + np.float32(self.shift)
        centre = means.mean(1, keepdims=True)
        means = centre + np.float32(self.sd_factor) * (means - centre)
        sds = np.full_like(means, self.sd_factor * self.noise)
        weights = np.full_like(means, 1 / self.n_draws) if self.with_weights else None
        mixture = NormalMixture(means, sds, weights)
        low, high = self.rating_range_
        return Prediction(
            user_ids=point.user_ids,
            item_ids=point.item_ids,
            titles=None,
            mean=np.clip(centre[:, 0], low, high),
            cold=point.cold,
            belief_sd=means.std(1),
            rating_sd=mixture.sd().astype(np.float32),
            rating=NormalRatings(mixture, low, high, STARS if self.with_levels else None),
        )


def drawn(n_users: int, per_user: int, rng: np.random.Generator, *, levels: bool = True, noise: float = 0.7) -> Split:
    """Ratings of the oracle's own distributions: independent of one another, levels or not."""
    users = np.repeat(np.arange(n_users), 2 * per_user)
    items = np.argsort(rng.random((n_users, N_ITEMS)), axis=1)[:, : 2 * per_user].reshape(-1)
    expected = draws(users, items, 8)
    chosen = expected[np.arange(len(users)), rng.integers(0, 8, len(users))]
    values = chosen + noise * rng.standard_normal(len(users))
    if levels:
        values = np.clip(np.floor(values + 0.5), 1, 5)
    is_test = np.tile(np.arange(2 * per_user) < per_user, n_users)
    # Both ends in the training part, whatever was drawn: the range is that of all.
    train = Ratings.from_arrays(
        np.append(users[~is_test], [n_users, n_users]),
        np.append(items[~is_test], [0, 1]),
        np.append(values[~is_test], [1, 5] if levels else [values.min(), values.max()]),
    )
    return Split(train, Ratings.from_arrays(users[is_test], items[is_test], values[is_test]))
