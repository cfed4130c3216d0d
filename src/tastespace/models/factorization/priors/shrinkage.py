"""Shrinkage priors, under which each column of the rows has its own variance.

The columns of one side shrink, those of the items or, if items are on a sphere, of the users; the rows of the other
side have the variance 1 in every column. Then the variance of a column is that of its contribution to a score. This
loses no generality: if u goes to A u and v to A^-T v no score changes, and some A makes one covariance the identity and
the other diagonal. Each column has a mean, as in the normal-Wishart prior:

    x_ih ~ N(m_h, theta_h),   m_h ~ N(0, theta_h / strength)

With the mean integrated out, n rows have the density (2 pi theta)^(-n/2) exp(-s_h / 2 theta) up to a constant, with
s_h = sum x^2 - (sum x)^2 / (n + strength), from which theta_h is learned; then m_h | theta_h, x is normal.

ARD (automatic relevance determination; Bishop 1999) has one gamma prior for every column's precision:

    1/theta_h ~ Gamma(shape, rate),   1/theta_h | x ~ Gamma(shape + n/2, rate + s_h / 2)

Biases are separate from the factors and are not shrunk.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import lgamma, log, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.priors import PriorSettings
from tastespace.models.factorization.priors import normal_wishart as normal
from tastespace.models.factorization.priors.normal_wishart import NormalPopulation, NormalWishartPrior, Population
from tastespace.models.factorization.rows import Factors, Moments
from tastespace.parameters import check_int, check_option

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.generative_model import FactorModel


@dataclass(frozen=True)
class UnitPrior:
    """The side that does not shrink: every column has the variance 1, and only means and biases are learned."""

    strength: float  # how many rows the mean 0 is worth
    bias: normal.BiasPrior

    columns: ClassVar[None] = None

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> NormalPopulation:
        means = drawn_means(self.strength, np.ones(n_factors), None, rng)
        return NormalPopulation(means, np.eye(n_factors), *normal.drawn_bias(self.bias, biases, rng))

    def draw(self, rows: Factors, current: Population | None, rng: Generator) -> NormalPopulation:
        n_factors = rows.factors.shape[1]
        means = drawn_means(self.strength, np.ones(n_factors), rows.moments, rng)
        return NormalPopulation(means, np.eye(n_factors), *normal.bias_given(self.bias, rows.moments, rng))

    def log_density(self, population: Population) -> float:
        return means_log_density(self.strength, population) + normal.bias_log_density(self.bias, population)


@dataclass(frozen=True)
class RelevancePrior:
    """ARD: an unused column has a large precision. A column counts if its variance is above `least`."""

    shape: float
    rate: float
    least: float
    strength: float
    bias: normal.BiasPrior

    adds_columns = False  # the maximum number of columns is there from the start

    @property
    def columns(self) -> Self:
        return self

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> NormalPopulation:
        precisions = rng.gamma(self.shape, size=n_factors) / self.rate
        means = drawn_means(self.strength, 1 / precisions, None, rng)
        return NormalPopulation(means, np.diag(precisions), *normal.drawn_bias(self.bias, biases, rng))

    def draw(self, rows: Factors, current: Population | None, rng: Generator) -> NormalPopulation:
        of_rows = rows.moments
        rates = self.rate + squares_of(of_rows, self.strength) / 2
        precisions = rng.gamma(self.shape + of_rows.n / 2, size=len(rates)) / rates
        means = drawn_means(self.strength, 1 / precisions, of_rows, rng)
        return NormalPopulation(means, np.diag(precisions), *normal.bias_given(self.bias, of_rows, rng))

    def log_density(self, population: Population) -> float:
        precisions = np.diag(population.precision)
        density = len(precisions) * (self.shape * log(self.rate) - lgamma(self.shape))
        density += float(np.sum((self.shape - 1) * np.log(precisions) - self.rate * precisions))
        return density + means_log_density(self.strength, population) + normal.bias_log_density(self.bias, population)

    def active(self, population: Population) -> BoolArray:
        """Which columns are in use."""
        return np.asarray(np.diag(population.precision) < 1 / self.least)

    def in_units(self, unit: float) -> RelevancePrior:
        """The same for columns whose variances are all times this."""
        return replace(self, rate=unit * self.rate, least=unit * self.least)


def squares_of(rows: Moments, strength: float) -> DoubleArray:
    """s_h of each column."""
    return np.maximum(np.diag(rows.gram) - rows.total**2 / (rows.n + strength), 0.0)


def drawn_means(strength: float, variances: DoubleArray, rows: Moments | None, rng: Generator) -> DoubleArray:
    """Draw the means of the columns, given their variances and the rows, if any."""
    n, total = (0, np.zeros(len(variances))) if rows is None else (rows.n, rows.total)
    normals = rng.standard_normal(len(variances))
    return np.asarray(total / (n + strength) + np.sqrt(variances / (n + strength)) * normals)


def means_log_density(strength: float, population: Population) -> float:
    precisions = strength * np.diag(population.precision)
    return float(np.sum(np.log(precisions / (2 * pi)) - precisions * population.mean**2)) / 2


LEAST_STICK = 1e-12  # and the maximum is 1 minus that: a weight of exactly 0 has no logarithm

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CumulativePopulation(NormalPopulation):
    """Rows around 0, with the labels of the columns and the sticks that their probabilities are broken from."""

    labels: Labels = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )  # H: from 0; column h (from 0) is a spike if labels[h] <= h
    sticks: DoubleArray = field(default_factory=lambda: np.zeros(0))  # H

    @property
    def is_slab(self) -> BoolArray:
        return np.asarray(self.labels > np.arange(len(self.labels)))


@dataclass(frozen=True)
class CumulativePrior:
    """Cumulative shrinkage: each column is a spike, which is negligible, or a slab, which counts.

        x_ih ~ N(m_h, theta_h),   theta_h = spike with probability pi_h, else InverseGamma(shape, rate), the slab
        pi_h = w_1 + ... + w_h,   w_l = v_l (1 - v_1) ... (1 - v_{l-1}),   v_l ~ Beta(1, expected)

    Equivalently, z_h = l with probability w_l, and column h is a spike if z_h <= h. `expected` is the prior number of
    slabs. The columns are the first H of infinitely many: everything beyond z_h = H is a slab and one more label, H +
    1, with the remaining weight, so that the last column may be a slab, too (in the paper v_H = 1, and it never is).
    Given rows, in turn (their algorithm 1; the variance is integrated out of z; m_h = 0):

        z_h | v, x       proportional to w_l N(x_h; 0, spike I) for l <= h, w_l t_{2 shape}(x_h; 0, rate/shape I) else
        theta_h | z, x   the spike, or InverseGamma(shape + n/2, rate + |x_h|^2 / 2)
        v_l | z          Beta(1 + #{z_h = l}, expected + #{z_h > l})

    With a mean, the centred sum of squares replaces |x_h|^2, and both densities get a constant.
    """

    spike: float  # the variance of a negligible column
    shape: float  # of the slab
    rate: float
    expected: float  # columns that are slabs
    strength: float  # how many rows the mean 0 is worth
    bias: normal.BiasPrior

    adds_columns = True  # one more is tried if all are in use

    @property
    def columns(self) -> Self:
        return self

    @property
    def least(self) -> float:
        """The variance of a column that is added to test whether one more is useful."""
        return self.spike

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> CumulativePopulation:
        sticks = _bounded(rng.beta(1.0, self.expected, n_factors))
        labels = _drawn(np.tile(_log_weights(sticks), (n_factors, 1)), rng)
        variances = self._variances(labels, np.zeros(n_factors), 0, rng)
        means = drawn_means(self.strength, variances, None, rng)
        bias = normal.drawn_bias(self.bias, biases, rng)
        return CumulativePopulation(means, np.diag(1 / variances), *bias, labels, sticks)

    def draw(self, rows: Factors, current: Population | None, rng: Generator) -> CumulativePopulation:
        """One pass over labels, variances and sticks, from their current values."""
        if isinstance(current, CumulativePopulation):
            return self._given(rows.moments, current.sticks, rng)
        sticks = np.full(rows.factors.shape[1], 1 / (1 + self.expected))  # a kept draw has none
        return self._given(rows.moments, sticks, rng)

    def log_density(self, population: Population) -> float:
        assert isinstance(population, CumulativePopulation)
        sticks, is_slab = population.sticks, population.is_slab
        variances = 1 / np.diag(population.precision)[is_slab]
        density = len(sticks) * log(self.expected) + (self.expected - 1) * float(np.log1p(-sticks).sum())
        density += float(_log_weights(sticks)[population.labels].sum())
        density += len(variances) * (self.shape * log(self.rate) - lgamma(self.shape))
        density -= float(np.sum((self.shape + 1) * np.log(variances) + self.rate / variances))
        density += means_log_density(self.strength, population)
        return density + normal.bias_log_density(self.bias, population)

    def active(self, population: Population) -> BoolArray:
        """Which columns are slabs."""
        assert isinstance(population, CumulativePopulation)
        return population.is_slab

    def in_units(self, unit: float) -> CumulativePrior:
        """The same for columns whose variances are all times this."""
        return replace(self, spike=unit * self.spike, rate=unit * self.rate)

    def log_label_weights(self, sticks: DoubleArray, squares: DoubleArray, n: int) -> DoubleArray:
        """The log weight of each label of each column, given s_h of its n entries; H x (H + 1), not normalised."""
        n_factors = len(sticks)
        of_spike = -(n * log(2 * pi * self.spike) + squares / self.spike) / 2
        constant = lgamma(self.shape + n / 2) - lgamma(self.shape) + self.shape * log(self.rate) - n * log(2 * pi) / 2
        of_slab = constant - (self.shape + n / 2) * np.log(self.rate + squares / 2)
        is_spike = np.arange(n_factors + 1) <= np.arange(n_factors)[:, None]
        return _log_weights(sticks) + np.where(is_spike, of_spike[:, None], of_slab[:, None])

    def _given(self, rows: Moments, sticks: DoubleArray, rng: Generator) -> CumulativePopulation:
        squares, n_factors = squares_of(rows, self.strength), len(sticks)
        labels = _drawn(self.log_label_weights(sticks, squares, rows.n), rng)
        variances = self._variances(labels, squares, rows.n, rng)
        counts = np.bincount(labels, minlength=n_factors + 1)
        later = len(labels) - np.cumsum(counts)
        sticks = _bounded(rng.beta(1.0 + counts[:n_factors], self.expected + later[:n_factors]))
        means = drawn_means(self.strength, variances, rows, rng)
        bias = normal.bias_given(self.bias, rows, rng)
        return CumulativePopulation(means, np.diag(1 / variances), *bias, labels, sticks)

    def _variances(self, labels: Labels, squares: DoubleArray, n: int, rng: Generator) -> DoubleArray:
        slabs = (self.rate + squares / 2) / rng.gamma(self.shape + n / 2, size=len(labels))
        return np.where(labels > np.arange(len(labels)), slabs, self.spike)


ShrinkingPrior = CumulativePrior | RelevancePrior  # unused columns shrink, and the others can be counted


def _bounded(sticks: DoubleArray) -> DoubleArray:
    return np.clip(sticks, LEAST_STICK, 1 - LEAST_STICK)


def _log_weights(sticks: DoubleArray) -> DoubleArray:
    """log w of the labels, the last of which has the remaining weight."""
    rest = np.concatenate([[0.0], np.cumsum(np.log1p(-sticks))])
    return np.asarray(rest + np.append(np.log(sticks), 0.0))


def _drawn(log_weights: DoubleArray, rng: Generator) -> Labels:
    """A label for each row, in proportion to its weights."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    below = np.cumsum(weights, axis=1)
    return np.asarray((below < rng.random(len(weights))[:, None] * below[:, -1:]).sum(axis=1), np.int64)


ShrinkageKind = Literal["ard", "cumulative"]
SHRINKAGES: tuple[ShrinkageKind, ...] = get_args(ShrinkageKind)
# On held-out parts of training ratings ARD predicts as well as the best normal-Wishart prior, cumulative shrinkage does
# not quite; and it finds planted ranks at least as well (docs/explanation/models/rank-by-shrinkage.md).
DEFAULT_SHRINKAGE: ShrinkageKind = "ard"
MOST_FACTORS = 64  # at the start

LEAST_SHARE, SPIKE_SHARE = 0.2, 0.25  # of t
LARGEST_UNIT = 0.2  # maximum of t for very few ratings, in units of their variance
SLAB_SHAPE, EXPECTED_SLABS = 2.0, 10.0
RELEVANCE_SHAPE, RELEVANCE_FLOOR = 1.0, 1e-4  # the floor in t


@dataclass(frozen=True)
class Shrinkage(PriorSettings):
    """A prior that shrinks factors which the ratings do not support to zero, so that the others can be counted.

    `kind` is "ard" (one gamma prior for the precision of each factor) or "cumulative" (Legramanti et al. 2020): see
    docs/explanation/models/rank-by-shrinkage.md. If the number of factors is learned, it starts from `max_factors`.

    When is a column negligible? With users of variance 1, noise of variance s2, and each of N x M pairs rated with
    the same probability, a column of the items is found among |O| ratings only if its variance is above

        s2 sqrt(N M) / |O| =: s2 t

    (the threshold of a spiked random matrix). Noise has about half of the variance of ratings, s2 = 1/2. Everything
    below is in units of t, which depends on which pairs were rated, not on the ratings.

    ARD: the gamma prior has the weight of as many rows at zero as the normal-Wishart prior of the same side. A column
    is active if its variance is above t / 5. Cumulative shrinkage: the spike is t / 4, and the slab must not become
    narrower than the spike: with n rows and the rate n spike / 2 a column becomes a spike where its mean square is
    below about 1.8 spikes, which is near the threshold.
    """

    kind: ShrinkageKind = DEFAULT_SHRINKAGE
    max_factors: int = MOST_FACTORS

    shrinks: ClassVar[bool] = True

    def check(self) -> None:
        check_option("kind", self.kind, list(SHRINKAGES))
        check_int("max_factors", self.max_factors, least=1)

    def __str__(self) -> str:
        return self.kind if self.max_factors == MOST_FACTORS else f"{self.kind}:max_factors={self.max_factors}"

    def bind(self, model: FactorModel, observed: Ratings) -> FactorModel:
        """The model with columns that shrink: of its items or, if these are on a sphere, of its users."""
        unit, sphere, n_factors = unit_of(observed), model.item_moves.sphere, model.n_factors
        of_users, of_items = model.user_prior, model.item_prior
        settling = of_users, of_items
        assert isinstance(of_users, NormalWishartPrior)
        if sphere is None:
            assert isinstance(of_items, NormalWishartPrior)
            prior = shrinking_prior(self.kind, unit, observed.n_items, n_factors, of_items)
            unshrunk = UnitPrior(of_users.strength, of_users.bias)
            return replace(model, user_prior=unshrunk, item_prior=prior, settling=settling)
        # A coordinate of an item has the variance radius^2 / D.
        unit *= (n_factors + sphere.has_joint_bias) / sphere.radius**2
        prior = shrinking_prior(self.kind, unit, observed.n_users, n_factors, of_users)
        return replace(model, user_prior=prior, settling=settling)


def check_most_factors(most_factors: Any, n_factors: Any) -> None:
    """Raise an error for a maximum together with a given number of factors."""
    check_int("most_factors", most_factors, least=1)
    if n_factors != "auto" and most_factors != MOST_FACTORS:
        raise InvalidParameterError(
            f"most_factors is {most_factors}, and n_factors is {n_factors!r}; expected n_factors='auto', or no "
            "most_factors"
        )


def unit_of(observed: Ratings) -> float:
    """t."""
    return min(sqrt(observed.n_users * observed.n_items) / max(len(observed), 1), LARGEST_UNIT)


def shrinking_prior(
    kind: ShrinkageKind, unit: float, n_rows: int, n_factors: int, like: NormalWishartPrior
) -> ShrinkingPrior:
    """The shrinkage prior of a side with `n_rows` rows, of the strength of another prior, with its means and biases."""
    held_back = 0.0 if like.degrees is None else (like.degrees - n_factors) / 2
    if kind == "cumulative":
        spike = SPIKE_SHARE * unit
        return CumulativePrior(
            spike, SLAB_SHAPE + held_back, n_rows * spike / 2, EXPECTED_SLABS, like.strength, like.bias
        )
    floor = RELEVANCE_FLOOR * n_rows * unit / 2
    return RelevancePrior(RELEVANCE_SHAPE + held_back, floor, LEAST_SHARE * unit, like.strength, like.bias)
