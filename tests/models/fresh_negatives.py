"""A world of choices with known chances, and how well predictions foretell what was held out among fresh negatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tastespace import Ratings
from tastespace.randomness import generator


@dataclass(frozen=True)
class World:
    """Who chose what: to learn from, and held out."""

    train: np.ndarray  # users x items
    held_out: np.ndarray

    @property
    def ratings(self):
        users, items = np.nonzero(self.train)
        return Ratings.from_arrays(users, items, np.ones(len(users)))

    def pairs(self, law, per_choice, rng):
        """Held-out choices, and for each of them some pairs drawn by the law, less those of training; and which."""
        n_items, (users, items) = self.train.shape[1], np.nonzero(self.held_out)
        if law == "weighted":
            free = np.flatnonzero(~self.train.reshape(-1))
            drawn_users, drawn_items = np.divmod(rng.choice(free, per_choice * len(users)), n_items)
        else:
            counts = self.train.sum(axis=0) ** (0.75 if law == "popularity" else 0.0)
            drawn_users = np.repeat(users, per_choice)
            drawn_items = rng.choice(n_items, len(drawn_users), p=counts / counts.sum())
            is_free = ~self.train[drawn_users, drawn_items]
            drawn_users, drawn_items = drawn_users[is_free], drawn_items[is_free]
        is_yes = np.repeat([1.0, 0.0], [len(users), len(drawn_users)])
        return np.concatenate([users, drawn_users]), np.concatenate([items, drawn_items]), is_yes


def world(n_users=300, n_items=200, seed=1):
    """Choices drawn from a logistic model, a quarter of them held out."""
    rng = generator(seed)
    users, items = rng.standard_normal((n_users, 2)), rng.standard_normal((n_items, 2))
    scores = -3.2 + 0.5 * rng.standard_normal((n_users, 1)) + 0.7 * rng.standard_normal(n_items) + users @ items.T
    chosen = rng.random(scores.shape) < expit(scores)
    held_out = chosen & (rng.random(chosen.shape) < 0.25)
    return World(chosen & ~held_out, held_out)


def off_by(model, pairs, n_bins=10):
    """How far predicted chances are from what came true, on average over bins with as many pairs each."""
    users, items, is_yes = pairs
    chances = model.predict(users, items).mean.astype(np.float64)
    order = np.argsort(chances, kind="stable")
    parts = np.array_split(order, n_bins)
    return float(np.mean([abs(chances[part].mean() - is_yes[part].mean()) for part in parts]))
