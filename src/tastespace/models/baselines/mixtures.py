"""Users as mixtures of a few kinds of users: one kind each, or one for every rating.

With e_ij the part of rating r_ij that biases leave, and K kinds with means m_zj of every item:

    mixture    z_i ~ pi,       e_ij | z_i  ~ N(m_(z_i)j, s^2)      a user is of one kind (Ungar and Foster 1998)
    plsa       z_ij ~ theta_i, e_ij | z_ij ~ N(m_(z_ij)j, s^2)     each rating is given by one (Hofmann 2004)

Both are fitted by EM, with m_zj ~ N(0, s^2 / shrinkage), and with theta_i ~ Dirichlet(1 + 1/K) for plsa, so that the
penalized likelihood never falls. A rating is predicted as bias_ij + sum_z w_iz m_zj, with w_i the posterior of z_i, or
theta_i: given the means it follows from the ratings of a user, known or new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import logsumexp

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior, Queries
from tastespace.models.base.recommender import Recommender
from tastespace.models.biases import Baseline, damped_biases
from tastespace.parameters import Range, check_int, check_number
from tastespace.progress import Observer, Progress

BIAS_SWEEPS = 20
FOLD_IN = 50  # steps of EM for the shares of users, given the means


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of users: their shares, their means of every item, and the variance around these."""

    log_shares: DoubleArray  # K
    means: DoubleArray  # items x K
    variance: float
    is_per_rating: bool

    def memberships(self, left: CSR) -> tuple[DoubleArray, DoubleArray]:
        """The weights of the kinds for each user (users x K), and the log-likelihood of the ratings of each user."""
        fit = self._log_densities(left)
        if not self.is_per_rating:
            joint = self.log_shares + _sums(fit, left)
            likelihood = logsumexp(joint, axis=1)
            return np.exp(joint - likelihood[:, None]), np.asarray(likelihood)
        shares = np.full((len(left), len(self.log_shares)), 1 / len(self.log_shares))
        for _ in range(FOLD_IN):
            shares, likelihood = self.step(shares, left, fit)[:2]
        return shares, likelihood

    def step(self, shares: DoubleArray, left: CSR, fit: DoubleArray) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """New shares, the log-likelihood of each user's ratings under the old ones, and the kinds of all ratings."""
        joint = np.log(shares)[left.rows()] + fit
        likelihood = logsumexp(joint, axis=1)
        each = np.exp(joint - likelihood[:, None])
        k = shares.shape[1]
        updated = (_sums(each, left) + 1 / k) / (left.counts + 1)[:, None]
        return updated, _sums(likelihood[:, None], left)[:, 0], each

    def _log_densities(self, left: CSR) -> DoubleArray:
        apart = left.values[:, None].astype(np.float64) - self.means[left.columns]
        return np.asarray(-(apart**2) / (2 * self.variance) - np.log(2 * np.pi * self.variance) / 2)

    def improved(self, left: CSR, shares: DoubleArray, shrinkage: float) -> tuple[Kinds, DoubleArray, float]:
        """One step of EM: the kinds after it, the shares of users after it, and the objective before it."""
        if self.is_per_rating:
            after, likelihood, each = self.step(shares, left, self._log_densities(left))
            prior = float(np.log(shares).sum()) / shares.shape[1]
            log_shares = self.log_shares
        else:
            after, likelihood = self.memberships(left)
            each, prior = after[left.rows()], float(self.log_shares.sum())
            log_shares = np.log((after.sum(axis=0) + 1) / (len(left) + len(self.log_shares)))
        objective = float(likelihood.sum()) + prior + self._log_prior_of_means(shrinkage)
        n_items = len(self.means)
        counts, totals = (_by_item(part, left, n_items) for part in (each, each * left.values[:, None]))
        means = totals / (counts + shrinkage)
        squares = (each * (left.values[:, None] - means[left.columns]) ** 2).sum() + shrinkage * (means**2).sum()
        variance = max(float(squares) / max(len(left.columns) + means.size, 1), 1e-6)
        return Kinds(log_shares, means, variance, self.is_per_rating), after, objective

    def _log_prior_of_means(self, shrinkage: float) -> float:
        squares = shrinkage * float((self.means**2).sum()) / self.variance
        return -(squares + self.means.size * float(np.log(2 * np.pi * self.variance / shrinkage))) / 2


def _sums(values: DoubleArray, left: CSR) -> DoubleArray:
    """Sums over the ratings of each user, column by column."""
    rows = left.rows()
    return np.stack([np.bincount(rows, column, len(left)) for column in values.T], axis=1)


def _by_item(values: DoubleArray, left: CSR, n_items: int) -> DoubleArray:
    return np.stack([np.bincount(left.columns, column, n_items) for column in values.T], axis=1)


@dataclass(frozen=True, eq=False)
class MixturePosterior(Posterior):
    """The kinds of users; who is of which follows from their ratings."""

    keeps_users = False

    baseline: Baseline
    kinds: Kinds
    objectives: DoubleArray  # the penalized log-likelihood before each step

    @cached_property
    def item_vectors(self) -> FloatMatrix:
        return np.hstack([self.kinds.means, self.baseline.item_bias[:, None]]).astype(np.float32)

    @property
    def embeddings(self) -> FloatMatrix:
        return np.asarray(self.kinds.means - self.kinds.means.mean(axis=1, keepdims=True), np.float32)

    def believe(self, people: People, threads: int) -> MixtureBelief:
        bias = self.baseline.user_bias(people.history)
        weights = self.kinds.memberships(self.baseline.residuals(people.history, bias))[0]
        return MixtureBelief(self, weights.astype(np.float32), bias)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        kinds = self.kinds
        constants = (self.baseline.mean, self.baseline.user_damping, kinds.variance, kinds.is_per_rating)
        return {
            "constants": np.array(constants, np.float64),
            "item_bias": self.baseline.item_bias,
            "log_shares": kinds.log_shares,
            "means": kinds.means,
            "objectives": self.objectives,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> MixturePosterior:
        mean, damping, variance, is_per_rating = (float(value) for value in arrays["constants"])
        kinds = Kinds(arrays["log_shares"], arrays["means"], variance, bool(is_per_rating))
        return cls(Baseline(mean, arrays["item_bias"], damping), kinds, arrays["objectives"])


@dataclass(frozen=True, eq=False)
class MixtureBelief(Belief):
    """How much each person is of each kind, and their bias."""

    posterior: MixturePosterior
    weights: FloatMatrix
    bias: FloatArray

    def __len__(self) -> int:
        return len(self.bias)

    @property
    def queries(self) -> Queries:
        vectors = np.hstack([self.weights, np.ones((len(self), 1), np.float32)])
        offsets = self.bias + np.float32(self.posterior.baseline.mean)
        return Queries(vectors, offsets, lambda: self.posterior.item_vectors)

    @property
    def embeddings(self) -> FloatMatrix:
        return np.asarray(self.weights - self.weights.mean(axis=1, keepdims=True), np.float32)

    def mean(self, pairs: Pairs) -> FloatArray:
        found = self.posterior.baseline.ratings(self.bias[pairs.rows], pairs.items)
        known = np.flatnonzero(pairs.items >= 0)
        found[known] = self.queries.of_pairs(Pairs(pairs.rows[known], pairs.items[known]))
        return found


@dataclass(kw_only=True)
class UserMixture(Recommender):
    """Users of a few kinds, each with its own mean of every item (EM; Ungar and Foster 1998).

    Kinds differ in what biases leave of the ratings. Their means are shrunk to 0 as by `shrinkage` ratings. EM stops
    when a step changes the penalized log-likelihood by less than `tolerance` of itself, after at most `steps`.
    """

    n_clusters: int = 5
    shrinkage: float = 20.0
    steps: int = 50
    tolerance: float = 1e-5
    user_damping: float = 5.0
    item_damping: float = 5.0

    posterior_class = MixturePosterior
    search_space = {"n_clusters": Range(2, 50, whole=True), "shrinkage": Range(1, 100)}

    is_per_rating: ClassVar[bool] = False

    def check(self) -> None:
        super().check()
        check_int("n_clusters", self.n_clusters, least=1)
        check_number("shrinkage", self.shrinkage, above=0)
        check_int("steps", self.steps, least=1)
        for name in ("tolerance", "user_damping", "item_damping"):
            check_number(name, getattr(self, name), least=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> MixturePosterior:
        _, item_bias = damped_biases(observed, self.user_damping, self.item_damping, BIAS_SWEEPS)
        baseline = Baseline(observed.mean, item_bias.astype(np.float32), float(self.user_damping))
        left = baseline.residuals(observed.by_user, baseline.user_bias(observed.by_user))
        spread = float(np.std(left.values, dtype=np.float64)) or 1.0
        k = self.n_clusters
        means = rng.normal(0, 0.3 * spread, (observed.n_items, k))
        kinds = Kinds(np.full(k, -np.log(k)), means, spread**2, self.is_per_rating)
        shares, objectives = np.full((observed.n_users, k), 1 / k), list[float]()
        for step in range(1, self.steps + 1):
            kinds, shares, objective = kinds.improved(left, shares, self.shrinkage)
            objectives.append(objective)
            observer(Progress("EM", step, self.steps, {"log-likelihood": objective}))
            if len(objectives) > 1 and abs(objective - objectives[-2]) <= self.tolerance * abs(objective):
                break
        return MixturePosterior(baseline, kinds, np.array(objectives))


@dataclass(kw_only=True)
class PLSA(UserMixture):
    """Probabilistic latent semantic analysis of ratings: every rating is given by one kind of user (Hofmann 2004).

    As `UserMixture`, but users are mixtures: each has shares of all kinds.
    """

    is_per_rating = True
