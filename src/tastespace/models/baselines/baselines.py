"""The baselines: global mean, item means, damped biases, popularity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix
from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior, Queries
from tastespace.models.base.recommender import Recommender
from tastespace.models.biases import Baseline, damped_biases, taken
from tastespace.parameters import Range, check_int, check_number
from tastespace.progress import Observer
from tastespace.settings import takes_old_parameters


@dataclass(frozen=True, eq=False)
class BiasPosterior(Posterior):
    """A posterior of biases: rating = mean + user bias + item bias; items are ranked by their appeal."""

    mean: float
    user_bias: FloatArray
    item_bias: FloatArray
    item_appeal: FloatArray  # what `recommend` orders by, and shows
    user_damping: float  # a user's bias is a sum over their ratings, divided by their number plus this

    @property
    def baseline(self) -> Baseline:
        return Baseline(self.mean, self.item_bias, self.user_damping)

    def believe(self, people: People, threads: int) -> BiasBelief:
        bias = taken(self.user_bias, people.rows)  # a new user has none
        if people.is_new.any():
            bias = np.where(people.is_new, self.baseline.user_bias(people.history), bias)
        return BiasBelief(self, bias)

    @property
    def item_vectors(self) -> FloatMatrix:
        return self.item_appeal[:, None]

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            "constants": np.array([self.mean, self.user_damping]),
            "user_bias": self.user_bias,
            "item_bias": self.item_bias,
            "item_appeal": self.item_appeal,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> BiasPosterior:
        mean, damping = (float(value) for value in arrays["constants"])
        return cls(mean, arrays["user_bias"], arrays["item_bias"], arrays["item_appeal"], damping)


@dataclass(frozen=True, eq=False)
class BiasBelief(Belief):
    """Users with their biases."""

    posterior: BiasPosterior
    bias: FloatArray  # one per user

    def __len__(self) -> int:
        return len(self.bias)

    def mean(self, pairs: Pairs) -> FloatArray:
        return self.posterior.baseline.ratings(self.bias[pairs.rows], pairs.items)

    @property
    def queries(self) -> Queries:
        ones: FloatMatrix = np.ones((len(self.bias), 1), np.float32)
        return Queries(ones, self.bias, lambda: self.posterior.item_vectors)


@dataclass(kw_only=True)
class _Biases(Recommender):
    """A model of biases alone; a subclass defines them, and user biases are zero by default."""

    posterior_class = BiasPosterior

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> BiasPosterior:
        *biases, damping = self._biases(observed)
        users, items = (bias.astype(np.float32) for bias in biases)
        return BiasPosterior(observed.mean, users, items, self._appeal(observed, items), damping)

    def _biases(self, observed: Ratings) -> tuple[DoubleArray, DoubleArray, float]:
        """The biases of users and items, and the damping of user biases."""
        return np.zeros(observed.n_users), self._item_bias(observed), np.inf

    def _item_bias(self, observed: Ratings) -> DoubleArray:
        return np.zeros(observed.n_items)

    def _appeal(self, observed: Ratings, items: FloatArray) -> FloatArray:
        return items + np.float32(observed.mean)


@takes_old_parameters
@dataclass(kw_only=True)
class GlobalMean(_Biases):
    """Predicts the mean of all ratings for every pair: the error to start from. It does not rank items."""


@takes_old_parameters
@dataclass(kw_only=True)
class ItemMean(_Biases):
    """Predicts the mean of the item for every user; items with few ratings are shrunk to the mean of all.

    With n ratings of sum s an item has (s + damping g) / (n + damping), g being the mean of all ratings.
    """

    damping: float = 5.0

    search_space = {"damping": Range(0.1, 100)}

    def check(self) -> None:
        super().check()
        check_number("damping", self.damping, least=0)

    def _item_bias(self, observed: Ratings) -> DoubleArray:
        by_item = observed.by_item
        total = np.bincount(by_item.rows(), by_item.values.astype(np.float64) - observed.mean, observed.n_items)
        return np.asarray(total / np.maximum(by_item.counts + self.damping, 1e-12))


@takes_old_parameters
@dataclass(kw_only=True)
class Popular(_Biases):
    """Recommends the most-rated items. Scores are numbers of raters; predicted ratings are the mean."""

    scores_are_ratings = False

    def suits(self, kind: Kind) -> bool:
        return True  # It counts ratings, whatever their values.

    @classmethod
    def candidates(cls, observed: Ratings) -> list[dict[str, Any]]:
        return [{}] if observed.kind in CHOICES else []

    def _appeal(self, observed: Ratings, items: FloatArray) -> FloatArray:
        return observed.by_item.counts.astype(np.float32)


@takes_old_parameters
@dataclass(kw_only=True)
class DampedBias(_Biases):
    """rating = mean + user bias + item bias, each shrunk to zero as by `damping` extra ratings without bias.

    Minimises sum (r - g - c_i - d_j)^2 + user_damping |c|^2 + item_damping |d|^2 by alternating exact steps.
    """

    user_damping: float = 5.0
    item_damping: float = 5.0
    sweeps: int = 20

    search_space = {"user_damping": Range(0.1, 100), "item_damping": Range(0.1, 100)}

    def check(self) -> None:
        super().check()
        check_number("user_damping", self.user_damping, least=0)
        check_number("item_damping", self.item_damping, least=0)
        check_int("sweeps", self.sweeps, least=1)

    def _biases(self, observed: Ratings) -> tuple[DoubleArray, DoubleArray, float]:
        return *damped_biases(observed, self.user_damping, self.item_damping, self.sweeps), self.user_damping
