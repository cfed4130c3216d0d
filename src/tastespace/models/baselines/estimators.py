"""The baselines: global mean, item means, damped biases, popularity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tastespace.data.ratings import Ratings
from tastespace.models.baselines.posterior import BiasPosterior
from tastespace.models.biases import damped_biases
from tastespace.models.parameters import number, whole_number
from tastespace.models.recommender import Recommender
from tastespace.progress import Observer


@dataclass(kw_only=True)
class GlobalMean(Recommender):
    """Everybody rates everything with the mean: the error to start from. It has no opinion on order."""

    posterior_class = BiasPosterior

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> BiasPosterior:
        users, items = np.zeros(observed.n_users, np.float32), np.zeros(observed.n_items, np.float32)
        return BiasPosterior(observed.mean, users, items, items + np.float32(observed.mean), user_damping=np.inf)


@dataclass(kw_only=True)
class ItemMean(Recommender):
    """rating = mean of the item, whoever asks; items with few ratings are pulled to the mean of all.

    With n ratings of sum s an item has (s + damping g) / (n + damping), g being the mean of all ratings.
    """

    damping: float = 5.0

    posterior_class = BiasPosterior

    def check(self) -> None:
        super().check()
        number("damping", self.damping, least=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> BiasPosterior:
        by_item = observed.by_item
        total = np.bincount(by_item.rows(), by_item.values.astype(np.float64) - observed.mean, observed.n_items)
        items = (total / np.maximum(by_item.counts + self.damping, 1e-12)).astype(np.float32)
        users = np.zeros(observed.n_users, np.float32)
        return BiasPosterior(observed.mean, users, items, items + np.float32(observed.mean), user_damping=np.inf)


@dataclass(kw_only=True)
class Popular(Recommender):
    """Recommends what most people rated. Scores count raters; predicted ratings are the mean."""

    posterior_class = BiasPosterior
    scores_are_ratings = False

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> BiasPosterior:
        counts = observed.by_item.counts.astype(np.float32)
        users, items = np.zeros(observed.n_users, np.float32), np.zeros(observed.n_items, np.float32)
        return BiasPosterior(observed.mean, users, items, counts, user_damping=np.inf)


@dataclass(kw_only=True)
class DampedBias(Recommender):
    """rating = mean + user bias + item bias, each pulled to zero as by `damping` extra ratings of none.

    Minimises sum (r - g - c_i - d_j)^2 + user_damping |c|^2 + item_damping |d|^2 by alternating exact steps.
    """

    user_damping: float = 5.0
    item_damping: float = 5.0
    sweeps: int = 20

    posterior_class = BiasPosterior

    def check(self) -> None:
        super().check()
        number("user_damping", self.user_damping, least=0)
        number("item_damping", self.item_damping, least=0)
        whole_number("sweeps", self.sweeps, least=1)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> BiasPosterior:
        user_bias, item_bias = damped_biases(observed, self.user_damping, self.item_damping, self.sweeps)
        items = item_bias.astype(np.float32)
        return BiasPosterior(
            observed.mean,
            user_bias.astype(np.float32),
            items,
            items + np.float32(observed.mean),
            self.user_damping,
        )
