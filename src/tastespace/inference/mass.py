"""The mass of Hamiltonian paths: the inverse of a covariance, and how that is learned while a chain warms up.

With the covariance C of what is drawn as inverse mass, momentum ~ N(0, C^-1) and velocity = C momentum: all directions
are then equally wide. Diagonal: D variances. Dense: D x D.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError

# So many draws of SMALL variance are mixed in (as Stan does), so that few draws do not give no mass at all.
PRIOR_DRAWS, SMALL = 5, 1e-3
# The share of warm-up before the first window, in which chains come from afar, and after the last, which is for the
# step size alone; and the length of the first window, each of the others being twice the one before.
BEFORE, AFTER, FIRST_WINDOW = 0.15, 0.2, 25


@dataclass(frozen=True, eq=False)
class Mass:
    """Made by `mass_of`."""

    covariance: DoubleArray  # D, or D x D
    spread: DoubleArray  # D, or D x D: a row of noise times this is a momentum

    def momentum(self, shape: tuple[int, ...], rng: Generator) -> DoubleArray:
        """From N(0, C^-1), for each chain."""
        noise = rng.standard_normal(shape)
        return noise * self.spread if self.spread.ndim == 1 else noise @ self.spread

    def velocity(self, momentum: DoubleArray) -> DoubleArray:
        return momentum * self.covariance if self.covariance.ndim == 1 else momentum @ self.covariance

    def kinetic(self, momentum: DoubleArray) -> DoubleArray:
        """Half of p C p."""
        return np.asarray(np.sum(momentum * self.velocity(momentum), axis=-1) / 2)


def mass_of(covariance: ArrayLike, n_dimensions: int) -> Mass:
    """With D variances, or a D x D covariance, as inverse."""
    inverse = np.array(covariance, np.float64)
    if inverse.shape not in {(n_dimensions,), (n_dimensions, n_dimensions)}:
        raise InvalidParameterError(
            f"covariance has the shape {inverse.shape}; expected {n_dimensions} variances, "
            f"or {n_dimensions} x {n_dimensions} numbers"
        )
    if inverse.ndim == 1:
        if not (np.isfinite(inverse) & (inverse > 0)).all():
            raise InvalidParameterError("covariance has variances that are not positive numbers")
        return Mass(inverse, inverse**-0.5)
    try:
        lower = np.linalg.cholesky(inverse)
    except np.linalg.LinAlgError as error:
        raise InvalidParameterError("covariance is not positive definite; expected one that is") from error
    # C = L L^T; z L^-1 has the covariance L^-T L^-1 = C^-1.
    return Mass((inverse + inverse.T) / 2, solve_triangular(lower, np.eye(n_dimensions), lower=True))


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean, and sums of squared deviations (or of their products) of the draws of a window."""

    count: int
    mean: DoubleArray  # D
    scatter: DoubleArray  # D, or D x D


def no_moments(mass: Mass) -> Moments:
    """Before the first draw."""
    return Moments(0, np.zeros(len(mass.covariance)), np.zeros_like(mass.covariance))


def with_draws(moments: Moments, position: DoubleArray) -> Moments:
    """After one more draw of each chain."""
    rows = position.reshape(-1, position.shape[-1])
    n, centre = len(rows), rows.mean(axis=0)
    deviations, apart = rows - centre, centre - moments.mean
    total = moments.count + n
    weight = moments.count * n / total
    if moments.scatter.ndim == 1:
        scatter = np.sum(deviations**2, axis=0) + weight * apart**2
    else:
        scatter = deviations.T @ deviations + weight * np.outer(apart, apart)
    return Moments(total, moments.mean + apart * (n / total), moments.scatter + scatter)


def learned(moments: Moments) -> Mass:
    """The mass that the draws of a window suggest."""
    n = moments.count
    share = n / (n + PRIOR_DRAWS)
    small = SMALL * (1 - share)
    covariance = moments.scatter / max(n - 1, 1) * share
    ridge = small if covariance.ndim == 1 else small * np.eye(len(covariance))
    return mass_of(covariance + ridge, len(covariance))


def windows(warmup: int) -> tuple[int, tuple[int, ...]]:
    """The step after which draws are collected, and those after which a mass is made of them."""
    at, end = int(BEFORE * warmup), warmup - int(AFTER * warmup)
    first, ends, length = at, [], FIRST_WINDOW
    while at + length <= end:
        # A rest that is too short for the next window goes to this one.
        at = end if at + 3 * length > end else at + length
        ends.append(at)
        length *= 2
    return first, tuple(ends)
