"""Content profiles: a user is the weighted mean of the features of what they rated.

    p_u = sum_i w_ui x_i / (sum_i |w_ui| + damping),   s_uj = p_u . x_j
    rating = mean + bias_u + slope s_uj

x_i are the features of item i, rare ones weighted up (by the logarithm of one over their share of the items) and then
scaled to length 1. w_ui is the deviation of a rating from what the user gives on average; 1 for implicit feedback,
where s_uj itself is the score. The slope is fitted by least squares to training ratings, each without its own part of
the profile. What a feature-aware model has to beat, above all for items that nobody has rated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.data.features import Features
from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior
from tastespace.models.base.recommender import Recommender
from tastespace.parameters import Range, check_number
from tastespace.progress import Observer
from tastespace.settings import takes_old_parameters

MAX_RATINGS = 100_000  # that the slope is fitted to
BLOCK = 10_000  # pairs scored at once


@dataclass(frozen=True, eq=False)
class ProfilePosterior(Posterior):
    """The items as vectors of unit length; users are known by their ratings alone."""

    keeps_users = False

    items: Any  # sparse, items x features
    mean: float  # 0 for implicit feedback
    slope: float
    damping: float
    bias_damping: float
    are_choices: bool

    def believe(self, people: People, threads: int) -> ProfileBelief:
        history = people.history
        bias = np.zeros(len(history))
        if not self.are_choices:
            bias = _biases(history, self.mean, self.bias_damping)
        weights, totals = self.weights(history, bias)
        return ProfileBelief(self, bias, _scaled(weights @ self.items, 1 / (totals + self.damping)))

    def weights(self, history: CSR, bias: DoubleArray) -> tuple[Any, DoubleArray]:
        """What each rating counts in the profile of its user, and the sum of their sizes."""
        rows = history.rows()
        values = np.ones(len(rows)) if self.are_choices else history.values - self.mean - bias[rows]
        shape = (len(history), self.items.shape[0])
        matrix = sp.csr_array((values, history.columns, history.offsets), shape=shape)
        return matrix, np.bincount(rows, np.abs(values), len(history)).astype(np.float64)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        constants = (self.mean, self.slope, self.damping, self.bias_damping, self.are_choices, self.items.shape[1])
        return {
            "constants": np.array(constants, np.float64),
            "values": self.items.data.astype(np.float32),
            "columns": self.items.indices.astype(np.int32),
            "offsets": self.items.indptr.astype(np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ProfilePosterior:
        mean, slope, damping, bias_damping, are_choices, width = (float(value) for value in arrays["constants"])
        parts = arrays["values"], arrays["columns"], arrays["offsets"]
        items: Any = sp.csr_array(parts, shape=(len(parts[2]) - 1, int(width)))
        items.check_format()
        return cls(items, mean, slope, damping, bias_damping, bool(are_choices))


@dataclass(frozen=True, eq=False)
class ProfileBelief(Belief):
    """Users with their biases and profiles."""

    posterior: ProfilePosterior
    bias: DoubleArray
    profiles: Any  # sparse, people x features

    def __len__(self) -> int:
        return len(self.bias)

    def mean(self, pairs: Pairs) -> FloatArray:
        scores = np.zeros(len(pairs))
        known = np.flatnonzero(pairs.items >= 0)
        scores[known] = _products(self.profiles, self.posterior.items, pairs.rows[known], pairs.items[known])
        return self._rated(scores, self.bias[pairs.rows])

    def scores(self, rows: IntArray) -> FloatMatrix:
        found = (self.profiles[rows] @ self.posterior.items.T).toarray()
        return self._rated(found, self.bias[rows][:, None])

    def _rated(self, scores: DoubleArray, bias: DoubleArray) -> NDArray[np.float32]:
        return (self.posterior.mean + bias + self.posterior.slope * scores).astype(np.float32)


@takes_old_parameters
@dataclass(kw_only=True)
class ContentProfile(Recommender):
    """Users are the means of the features of what they rated, weighted by how they rated it; a baseline for features.

    It needs item features (`Ratings.with_item_features`): without them all items are alike. `damping` is how much a
    profile is shrunk to nothing, in ratings that deviate by one; `bias_damping` the same for the mean of a user.
    """

    damping: float = 2.0
    bias_damping: float = 5.0

    posterior_class = ProfilePosterior
    learns_features = True
    needs_features = True
    search_space = {"damping": Range(0.1, 100)}

    def check(self) -> None:
        super().check()
        check_number("damping", self.damping, above=0)
        check_number("bias_damping", self.bias_damping, least=0)

    def suits(self, kind: Kind) -> bool:
        return True

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> ProfilePosterior:
        are_choices = observed.kind in CHOICES
        items = item_profiles(observed.item_features, observed.n_items)
        constants = (self.damping, self.bias_damping, are_choices)
        if are_choices:
            return ProfilePosterior(items, 0.0, 1.0, *constants)
        posterior = ProfilePosterior(items, observed.mean, 0.0, *constants)
        slope = _slope(posterior, observed.by_user, rng)
        return ProfilePosterior(items, observed.mean, slope, *constants)


def item_profiles(features: Features | None, n_items: int) -> Any:
    """The features of items, rare ones weighted up, as rows of length 1; indicators of what is missing are left out."""
    if features is None or not features.n_columns:
        return sp.csr_array(np.zeros((n_items, 1), np.float32))
    matrix: Any = features.matrix
    kinds = features.encoding["kind"]
    shares = (np.bincount(matrix.indices, minlength=matrix.shape[1]) + 1) / (n_items + 1)
    is_dense = (kinds == "number").to_numpy() | (shares > 0.5)
    weights = np.where(is_dense, 1.0, -np.log(np.minimum(shares, 1)))
    weights[(kinds == "missing").to_numpy()] = 0
    weighted = (matrix @ sp.diags_array(weights)).tocsr()
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).reshape(-1))
    rows = _scaled(weighted, 1 / np.maximum(lengths, 1e-12)).astype(np.float32)
    rows.eliminate_zeros()
    return rows


def _slope(posterior: ProfilePosterior, history: CSR, rng: Generator) -> float:
    """The least-squares slope of ratings on scores, those of a profile without the rating itself."""
    bias = _biases(history, posterior.mean, posterior.bias_damping)
    weights, totals = posterior.weights(history, bias)
    sums = (weights @ posterior.items).tocsr()
    rows = history.rows()
    chosen = np.sort(rng.permutation(len(rows))[:MAX_RATINGS])
    users, items, own = rows[chosen], history.columns[chosen], weights.data[chosen]
    lengths = np.asarray(posterior.items.multiply(posterior.items).sum(axis=1)).reshape(-1)
    scores = _products(sums, posterior.items, users, items) - own * lengths[items]
    scores /= np.maximum(totals[users] - np.abs(own), 0) + posterior.damping
    squares = float(scores @ scores)
    return float(scores @ own) / squares if squares > 0 else 0.0


def _biases(history: CSR, mean: float, damping: float) -> DoubleArray:
    totals = np.bincount(history.rows(), history.values.astype(np.float64) - mean, len(history))
    return np.asarray(totals / np.maximum(history.counts + damping, 1e-12))


def _products(left: Any, right: Any, rows: IntArray, columns: IntArray) -> DoubleArray:
    """The inner product of each pair of rows, in bounded memory."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        product = left[rows[part]].multiply(right[columns[part]])
        found[part] = np.asarray(product.sum(axis=1)).reshape(-1)
    return found


def _scaled(matrix: Any, by: DoubleArray) -> Any:
    """A sparse matrix whose rows are multiplied by these numbers."""
    return (sp.diags_array(by) @ matrix).tocsr()
