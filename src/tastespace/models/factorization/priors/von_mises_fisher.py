"""The population of items on a sphere: von Mises-Fisher around a direction, or uniform.

    x = radius * direction drawn from vMF(m, k);   d_j ~ N(mean, 1/precision), or the last coordinate of x

The first two moments, which predict an item without ratings, with A = A_P(k) in P dimensions:

    E[x] = q A m,   Cov[x] = q^2 [ (A/k) (I - m m^T) + (1 - A^2 - (P - 1) A/k) m m^T ]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, contiguous
from tastespace.distributions import von_mises_fisher as vmf
from tastespace.distributions.conjugate import Gamma
from tastespace.distributions.von_mises_fisher import draw_around, log_normaliser
from tastespace.models.factorization.priors import normal_wishart as normal
from tastespace.models.factorization.priors.normal_wishart import Population, Sphere
from tastespace.models.factorization.rows import Factors, Moments, RowPrior

LEAST_VARIANCE = 1e-9  # of a direction, in units of the squared radius: the limit of single precision
LONGEST_MEAN = 1 - 1e-9  # of the radius


@dataclass(frozen=True, eq=False)
class SpherePopulation:
    """Directions around a mean direction; a concentration of 0 is uniform."""

    sphere: Sphere
    direction: DoubleArray  # P: the factors and, on a joint sphere, the bias
    concentration: float
    own_bias_mean: float = 0.0
    own_bias_precision: float = 0.0  # 0: rows have no bias of their own

    @classmethod
    def with_mean(cls, sphere: Sphere, mean: DoubleArray, bias_mean: float, bias_precision: float) -> SpherePopulation:
        """The population with these moments: the length of the mean determines the concentration."""
        whole = np.append(mean, bias_mean) if sphere.has_joint_bias else mean
        length = min(float(np.linalg.norm(whole)) / sphere.radius, LONGEST_MEAN)
        own = (0.0, 0.0) if sphere.has_joint_bias else (bias_mean, bias_precision)
        if length == 0:
            return cls(sphere, np.eye(len(whole))[0], 0.0, *own)
        return cls(sphere, whole / np.linalg.norm(whole), vmf.concentration_of(len(whole), length), *own)

    @cached_property
    def _moments(self) -> tuple[DoubleArray, DoubleArray]:
        """Mean and covariance of x."""
        n, kappa, unit = len(self.direction), self.concentration, self.sphere.radius**2
        length = float(vmf.mean_resultant_length(n, kappa))
        across = length / kappa if kappa > 0 else 1 / n
        along = max(1 - length**2 - (n - 1) * across, LEAST_VARIANCE) if kappa > 0 else 1 / n
        outer = np.outer(self.direction, self.direction)
        covariance = unit * (max(across, LEAST_VARIANCE) * (np.eye(n) - outer) + along * outer)
        return self.sphere.radius * length * self.direction, covariance

    @property
    def _n_factors(self) -> int:
        return len(self.direction) - self.sphere.has_joint_bias

    @property
    def mean(self) -> DoubleArray:
        return self._moments[0][: self._n_factors]

    @cached_property
    def precision(self) -> DoubleArray:
        n = self._n_factors
        return np.asarray(np.linalg.inv(self._moments[1][:n, :n]))

    @property
    def bias_mean(self) -> float:
        return float(self._moments[0][-1]) if self.sphere.has_joint_bias else self.own_bias_mean

    @property
    def bias_precision(self) -> float:
        """The precision of biases; on a joint sphere the marginal precision of the last coordinate."""
        return 1 / float(self._moments[1][-1, -1]) if self.sphere.has_joint_bias else self.own_bias_precision

    def prior(self, dtype: Any) -> RowPrior:
        n, linear = self._n_factors, self.concentration / self.sphere.radius * self.direction
        of_bias = self.own_bias_precision, self.own_bias_precision * self.own_bias_mean
        return RowPrior(np.zeros((n, n), dtype), linear.astype(dtype)[None], *of_bias)

    def draw_rows(self, n: int, dtype: Any, rng: Generator) -> Factors:
        around = np.broadcast_to(self.direction, (n, len(self.direction)))
        rows = (self.sphere.radius * draw_around(around, self.concentration, rng)).astype(dtype)
        if self.sphere.has_joint_bias:
            return Factors(contiguous(rows[:, :-1], dtype), contiguous(rows[:, -1], dtype))
        return Factors(rows, normal.draw_biases(n, self.own_bias_mean, self.own_bias_precision, dtype, rng))

    def log_density(self, rows: Factors) -> float:
        """The log density of rows with respect to the area of the sphere."""
        n, radius, of_rows = len(self.direction), self.sphere.radius, rows.moments
        density = of_rows.n * (float(log_normaliser(n, self.concentration)) - (n - 1) * log(radius))
        density += self.concentration * float(self.direction @ total_of(of_rows, self.sphere)) / radius
        return density + normal.biases_log_density(of_rows, self.own_bias_mean, self.own_bias_precision)


def total_of(rows: Moments, sphere: Sphere) -> DoubleArray:
    """The sum of the rows, with their biases if these are on the sphere."""
    return np.append(rows.total, rows.bias_total) if sphere.has_joint_bias else rows.total


POINTS, ENOUGH = 100, 60  # of a grid, and of those that matter: about eight per standard deviation
LEAST, LARGEST = 1e-8, 1e8  # concentrations
NEGLIGIBLE = 25.0  # below the peak, in logarithms


@dataclass(frozen=True)
class SpherePrior:
    """The prior of directions: around a learned direction, or uniform.

        direction m uniform, concentration k ~ Gamma(shape, rate), or k = 0: uniform items
        biases as in other priors, unless they are on the sphere

    Given rows with the sum S of their directions, R = |S|, the direction integrates out:

        p(k | rows) ~ p(k) C_P(k)^n / C_P(k R),   m | k, rows ~ vMF(S / R, k R)

    so that both are drawn at once, k by the inverse of its distribution function on a fine grid of log k.
    """

    sphere: Sphere
    concentration: Gamma | None  # None for uniform
    bias: normal.BiasPrior

    columns: ClassVar[None] = None

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> SpherePopulation:
        n = n_factors + self.sphere.has_joint_bias
        kappa = 0.0 if self.concentration is None else self.concentration.draw(rng)
        direction = draw_around(np.eye(n)[:1], 0.0, rng)[0]
        own = normal.drawn_bias(self.bias, biases and not self.sphere.has_joint_bias, rng)
        return SpherePopulation(self.sphere, direction, kappa, *own)

    def draw(self, rows: Factors, current: Population | None, rng: Generator) -> SpherePopulation:
        of_rows = rows.moments
        total = total_of(of_rows, self.sphere) / self.sphere.radius
        length = float(np.linalg.norm(total))
        kappa = self._concentration(len(total), of_rows.n, length, rng)
        towards = total / length if length > 0 else np.eye(len(total))[0]
        direction = draw_around(towards[None], kappa * length, rng)[0]
        own = (0.0, 0.0) if self.sphere.has_joint_bias else normal.bias_given(self.bias, of_rows, rng)
        return SpherePopulation(self.sphere, direction, kappa, *own)

    def log_density(self, population: Population) -> float:
        assert isinstance(population, SpherePopulation)
        density = float(log_normaliser(len(population.direction), 0.0))
        if self.concentration is not None:
            density += self.concentration.log_density(population.concentration)
        if population.own_bias_precision:
            density += self.bias.log_density(population.own_bias_mean, population.own_bias_precision)
        return density

    def _concentration(self, n_dimensions: int, n_rows: int, length: float, rng: Generator) -> float:
        if self.concentration is None:
            return 0.0
        grid = np.linspace(np.log(LEAST), np.log(LARGEST), POINTS)
        likely = self._log_density_at(grid, n_dimensions, n_rows, length)
        # Refine the part of the grid that matters until it is most of it.
        while len(matters := np.flatnonzero(likely > likely.max() - NEGLIGIBLE)) < ENOUGH:
            grid = np.linspace(grid[max(matters[0] - 1, 0)], grid[min(matters[-1] + 1, POINTS - 1)], POINTS)
            likely = self._log_density_at(grid, n_dimensions, n_rows, length)
        density = np.exp(likely - likely.max())
        below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
        return float(np.exp(np.interp(rng.random() * below[-1], below, grid)))

    def _log_density_at(self, log_kappa: DoubleArray, n_dimensions: int, n_rows: int, length: float) -> DoubleArray:
        assert self.concentration is not None
        kappa, (shape, rate) = np.exp(log_kappa), (self.concentration.shape, self.concentration.rate)
        of_prior = shape * log_kappa - rate * kappa  # with the measure of log k
        of_rows = n_rows * log_normaliser(n_dimensions, kappa) - log_normaliser(n_dimensions, kappa * length)
        return np.asarray(of_prior + of_rows)
