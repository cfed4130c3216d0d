"""The baselines: global mean, damped biases, popularity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.models.baselines.posterior import BiasPosterior
from tastespace.models.parameters import number, whole_number
from tastespace.models.recommender import Recommender
from tastespace.progress import Observer


@dataclass(kw_only=True)
class GlobalMean(Recommender):
    """Everybody rates everything with the mean: the error to start from. It has no opinion on order."""

    posterior_class = BiasPosterior

    def infer(self, observed: Ratings, rng: Generator, observer: Observer) -> BiasPosterior:
        users, items = np.zeros(observed.n_users, np.float32), np.zeros(observed.n_items, np.float32)
        return BiasPosterior(observed.mean, users, items, items + np.float32(observed.mean), user_damping=np.inf)


@dataclass(kw_only=True)
class Popular(Recommender):
    """Recommends what most people rated. Scores count raters; predicted ratings are the mean."""

    posterior_class = BiasPosterior

    def infer(self, observed: Ratings, rng: Generator, observer: Observer) -> BiasPosterior:
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

    def infer(self, observed: Ratings, rng: Generator, observer: Observer) -> BiasPosterior:
        by_user = observed.by_user
        user_rows, item_rows = by_user.rows(), by_user.columns
        residuals = by_user.values.astype(np.float64) - observed.mean
        user_counts, item_counts = by_user.counts, np.bincount(item_rows, minlength=observed.n_items)
        user_bias: DoubleArray = np.zeros(observed.n_users)
        item_bias: DoubleArray = np.zeros(observed.n_items)
        for _ in range(self.sweeps):
            total = np.bincount(item_rows, residuals - user_bias[user_rows], observed.n_items)
            item_bias = total / (item_counts + self.item_damping)
            total = np.bincount(user_rows, residuals - item_bias[item_rows], observed.n_users)
            user_bias = total / (user_counts + self.user_damping)
        items = item_bias.astype(np.float32)
        return BiasPosterior(
            observed.mean,
            user_bias.astype(np.float32),
            items,
            items + np.float32(observed.mean),
            self.user_damping,
        )
