"""The normal-Wishart distribution: a belief about mean and precision matrix of a vector.

precision ~ Wishart(scale, degrees),   mean | precision ~ N(centre, (strength precision)^-1)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np
from numpy.random import Generator
from scipy.special import multigammaln

from tastespace.arrays import DoubleArray


@dataclass(frozen=True, eq=False)
class NormalWishart:
    """`strength` is the number of observations that the centre is worth; degrees > D - 1."""

    centre: DoubleArray  # D
    strength: float
    inverse_scale: DoubleArray  # D x D
    degrees: float

    def posterior(self, n: int, total: DoubleArray, gram: DoubleArray) -> NormalWishart:
        """After n vectors with this sum and this sum of outer products (Salakhutdinov and Mnih 2008, eq. 14)."""
        if n == 0:
            return self
        mean = total / n
        scatter = gram - n * np.outer(mean, mean)
        strength = self.strength + n
        apart = mean - self.centre
        return NormalWishart(
            centre=(self.strength * self.centre + total) / strength,
            strength=strength,
            inverse_scale=self.inverse_scale + scatter + self.strength * n / strength * np.outer(apart, apart),
            degrees=self.degrees + n,
        )

    def draw(self, rng: Generator) -> tuple[DoubleArray, DoubleArray]:
        """A mean and a precision matrix, the latter by Bartlett's decomposition."""
        size = len(self.centre)
        lower = np.linalg.cholesky(self.inverse_scale)
        bartlett = np.tril(rng.standard_normal((size, size)), -1)
        bartlett[np.diag_indices(size)] = np.sqrt(rng.chisquare(self.degrees - np.arange(size)))
        # precision = root root^T, since lower^-T is a root of the scale
        root = np.linalg.solve(lower.T, bartlett)
        about = np.linalg.solve(bartlett.T, rng.standard_normal(size))
        return self.centre + lower @ about / self.strength**0.5, root @ root.T

    def log_density(self, mean: DoubleArray, precision: DoubleArray) -> float:
        size, apart = len(mean), mean - self.centre
        log_precision, log_inverse_scale = (
            float(np.linalg.slogdet(matrix)[1]) for matrix in (precision, self.inverse_scale)
        )
        wishart = (
            (self.degrees - size - 1) / 2 * log_precision
            - float(np.einsum("ij,ij->", self.inverse_scale, precision)) / 2
            - self.degrees * size / 2 * log(2)
            + self.degrees / 2 * log_inverse_scale
            - float(multigammaln(self.degrees / 2, size))
        )
        quadratic = self.strength * float(apart @ precision @ apart)
        return wishart + (size * log(self.strength / (2 * pi)) + log_precision - quadratic) / 2
