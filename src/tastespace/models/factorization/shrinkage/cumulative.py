"""Cumulative shrinkage (Legramanti, Durante and Dunson 2020): each next column is more likely to be nothing.

    x_ih ~ N(m_h, theta_h),   theta_h = spike with probability pi_h, else InverseGamma(shape, rate), the slab
    pi_h = w_1 + ... + w_h,   w_l = v_l (1 - v_1) ... (1 - v_{l-1}),   v_l ~ Beta(1, expected)

z_h = l with probability w_l says the same: column h is a spike where z_h <= h. `expected` is the number of slabs
before any row is seen. The columns there are are the first H of endlessly many: whatever is beyond z_h = H makes a
slab, and is one more label, H + 1, with the rest of the weight. (So the last column may be a slab, too. In the paper
v_H = 1, and it never is.)

In the paper m_h = 0. With that, given rows, in turn (their algorithm 1; the variance is integrated out of z):

    z_h | v, x   proportional to w_l N(x_h; 0, spike I) for l <= h, w_l t_{2 shape}(x_h; 0, rate/shape I) for l > h
    theta_h | z, x   the spike, or InverseGamma(shape + n/2, rate + |x_h|^2 / 2)
    v_l | z   Beta(1 + #{z_h = l}, expected + #{z_h > l})

A mean (see `columns`) puts s_h in the place of |x_h|^2, and a constant before both densities.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import lgamma, log, pi

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.models.factorization.populations import NormalPopulation, Population
from tastespace.models.factorization.rows import Moments
from tastespace.models.factorization.shrinkage.columns import (
    BiasPrior,
    bias_given,
    bias_log_density,
    drawn_bias,
    drawn_means,
    means_log_density,
    squares_of,
)

LEAST_STICK = 1e-12  # and the most is 1 less that: a weight of exactly 0 has no logarithm

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CumulativePopulation(NormalPopulation):
    """Rows around 0, with the labels of the columns and the sticks that their probabilities are broken from."""

    labels: Labels = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )  # H: from 0 on; column h (from 0 on) is a spike where labels[h] <= h
    sticks: DoubleArray = field(default_factory=lambda: np.zeros(0))  # H

    @property
    def is_slab(self) -> BoolArray:
        return np.asarray(self.labels > np.arange(len(self.labels)))


@dataclass(frozen=True)
class CumulativePrior:
    """A spike that is next to nothing, or a slab; a column counts that is one."""

    spike: float  # the variance of a column that is next to nothing
    shape: float  # of the slab
    rate: float
    expected: float  # columns that are slabs
    strength: float  # how many rows the mean 0 is worth
    bias: BiasPrior

    adds_columns = True

    @property
    def least(self) -> float:
        """The variance of a column that is added to see whether there is use for one more."""
        return self.spike

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> CumulativePopulation:
        sticks = _bounded(rng.beta(1.0, self.expected, n_factors))
        labels = _drawn(np.tile(_log_weights(sticks), (n_factors, 1)), rng)
        variances = self._variances(labels, np.zeros(n_factors), 0, rng)
        means = drawn_means(self.strength, variances, None, rng)
        return _population(labels, sticks, means, variances, *drawn_bias(self.bias, biases, rng))

    def draw(self, rows: Moments, rng: Generator) -> CumulativePopulation:
        return self._given(rows, np.full(len(rows.total), 1 / (1 + self.expected)), rng)

    def continued(self, current: Population, rows: Moments, rng: Generator) -> CumulativePopulation:
        """One pass over labels, variances and sticks, from where these are."""
        if not isinstance(current, CumulativePopulation):  # such as what was kept of a draw
            return self.draw(rows, rng)
        return self._given(rows, current.sticks, rng)

    def log_density(self, population: Population) -> float:
        assert isinstance(population, CumulativePopulation)
        sticks, is_slab = population.sticks, population.is_slab
        variances = 1 / np.diag(population.precision)[is_slab]
        density = len(sticks) * log(self.expected) + (self.expected - 1) * float(np.log1p(-sticks).sum())
        density += float(_log_weights(sticks)[population.labels].sum())
        density += len(variances) * (self.shape * log(self.rate) - lgamma(self.shape))
        density -= float(np.sum((self.shape + 1) * np.log(variances) + self.rate / variances))
        density += means_log_density(self.strength, population)
        return density + bias_log_density(self.bias, population)

    def active(self, population: Population) -> BoolArray:
        """Which columns are slabs."""
        assert isinstance(population, CumulativePopulation)
        return population.is_slab

    def in_units(self, unit: float) -> CumulativePrior:
        """The same for columns whose variances are all times this."""
        return replace(self, spike=unit * self.spike, rate=unit * self.rate)

    def log_label_weights(self, sticks: DoubleArray, squares: DoubleArray, n: int) -> DoubleArray:
        """Of each label of each column, given s_h of its n entries; H x (H + 1), not normalised."""
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
        return _population(labels, sticks, means, variances, *bias_given(self.bias, rows, rng))

    def _variances(self, labels: Labels, squares: DoubleArray, n: int, rng: Generator) -> DoubleArray:
        slabs = (self.rate + squares / 2) / rng.gamma(self.shape + n / 2, size=len(labels))
        return np.where(labels > np.arange(len(labels)), slabs, self.spike)


def _population(
    labels: Labels,
    sticks: DoubleArray,
    means: DoubleArray,
    variances: DoubleArray,
    bias_mean: float,
    bias_precision: float,
) -> CumulativePopulation:
    return CumulativePopulation(means, np.diag(1 / variances), bias_mean, bias_precision, labels, sticks)


def _bounded(sticks: DoubleArray) -> DoubleArray:
    return np.clip(sticks, LEAST_STICK, 1 - LEAST_STICK)


def _log_weights(sticks: DoubleArray) -> DoubleArray:
    """log w of the labels, the last of which has all the rest."""
    rest = np.concatenate([[0.0], np.cumsum(np.log1p(-sticks))])
    return np.asarray(rest + np.append(np.log(sticks), 0.0))


def _drawn(log_weights: DoubleArray, rng: Generator) -> Labels:
    """A label for each row, in proportion to its weights."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    below = np.cumsum(weights, axis=1)
    return np.asarray((below < rng.random(len(weights))[:, None] * below[:, -1:]).sum(axis=1), np.int64)
