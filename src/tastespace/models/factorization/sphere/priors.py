"""The hyper-prior of items on a sphere.

    direction m uniform, concentration k ~ Gamma(shape, rate), or k = 0: uniform items
    biases as elsewhere, unless they are on the sphere

Given rows with the sum S of their directions, R = |S|, the direction integrates out:

    p(k | rows) ~ p(k) C_P(k)^n / C_P(k R),   m | k, rows ~ vMF(S / R, k R)

so that both are drawn at once, k by the inverse of its distribution function on a fine grid of log k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.distributions.gamma import Gamma
from tastespace.distributions.known_mean import KnownMean
from tastespace.distributions.normal_gamma import NormalGamma
from tastespace.distributions.von_mises_fisher import draw_around, log_normaliser
from tastespace.models.factorization.populations import Population, Sphere
from tastespace.models.factorization.rows import Moments
from tastespace.models.factorization.sphere.population import SpherePopulation, total_of

POINTS, ENOUGH = 100, 60  # of a grid, and of those that matter: about eight to a standard deviation
LEAST, LARGEST = 1e-8, 1e8  # concentrations
NEGLIGIBLE = 25.0  # below the peak, in logarithms


@dataclass(frozen=True)
class SpherePrior:
    """Directions around one that is learned, or uniform ones."""

    sphere: Sphere
    concentration: Gamma | None  # None for uniform
    bias: NormalGamma | KnownMean

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> SpherePopulation:
        n = n_factors + self.sphere.has_joint_bias
        kappa = 0.0 if self.concentration is None else self.concentration.draw(rng)
        direction = draw_around(np.eye(n)[:1], 0.0, rng)[0]
        has_own = biases and not self.sphere.has_joint_bias
        return SpherePopulation(self.sphere, direction, kappa, *(self.bias.draw(rng) if has_own else (0.0, 0.0)))

    def draw(self, rows: Moments, rng: Generator) -> SpherePopulation:
        total = total_of(rows, self.sphere) / self.sphere.radius
        length = float(np.linalg.norm(total))
        kappa = self._concentration(len(total), rows.n, length, rng)
        towards = total / length if length > 0 else np.eye(len(total))[0]
        direction = draw_around(towards[None], kappa * length, rng)[0]
        own = (0.0, 0.0)
        if rows.has_bias and not self.sphere.has_joint_bias:
            own = self.bias.posterior(rows.n, rows.bias_total, rows.bias_squares).draw(rng)
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
        # What of a grid matters, in smaller steps, until that is most of it.
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
