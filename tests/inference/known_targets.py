"""Densities whose expectations are known, and whether chains have them.

Many independent chains are run at once. The mean of a function along one chain is one number of a sample, whatever the
chain remembers, so that the mean over n chains has the standard error s / sqrt(n) without any estimate of an effective
size; a chain's mean is worth about as many draws as are effective in it. The p-value is that of the largest of all z,
times the number of functions (Bonferroni); a right sampler falls below `FALSE_ALARM` once in a million fresh seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

FALSE_ALARM = 1e-6


def p_value(chains, truth, truth_error=0.0):
    """Of functions along chains (steps x chains x functions), with these expectations; 0 if not finite, or still."""
    means = np.asarray(chains).mean(axis=0)
    if not np.isfinite(means).all() or (np.ptp(chains, axis=0).max(axis=0) == 0).any():
        return 0.0
    error = np.hypot(means.std(axis=0, ddof=1) / np.sqrt(len(means)), truth_error)
    z = np.abs(means.mean(axis=0) - truth) / error
    return float(min(1.0, z.size * 2 * ndtr(-z.max())))


def moments(points):
    """Coordinates and their products, ... x functions."""
    first, second = np.triu_indices(points.shape[-1])
    return np.concatenate([points, points[..., first] * points[..., second]], axis=-1)


def run(step, state, rng, *, warmup, draws):
    """Positions after warm-up (steps x chains x D), and the last state."""
    kept = []
    for number in range(warmup + draws):
        state = step(state, rng)
        if number >= warmup:
            kept.append(state.position)
    return np.array(kept), state


@dataclass(frozen=True, eq=False)
class FisherBingham:
    """log p(v) = -v A v / 2 + b v on the sphere of a radius: what a model of items on a sphere draws from."""

    matrix: np.ndarray  # D x D
    linear: np.ndarray  # D
    radius: float

    def log_density(self, v):
        return v @ self.linear - np.einsum("...i,ij,...j->...", v, self.matrix, v) / 2

    def gradient(self, v):
        return self.linear - v @ self.matrix

    def truth(self):
        """Of `moments`, by integration over the circle, or over the sphere in three dimensions."""
        points, weights = {2: circle, 3: sphere}[len(self.linear)]()
        points = self.radius * points
        log_weights = self.log_density(points) + np.log(weights)
        weights = np.exp(log_weights - log_weights.max())
        return weights @ moments(points) / weights.sum()

    def exact(self, n, rng):
        """n draws by rejection from uniform ones; |b| q - a q^2 / 2, a the least eigenvalue, bounds log p."""
        smallest = np.linalg.eigvalsh(self.matrix)[0]
        bound = np.linalg.norm(self.linear) * self.radius - smallest * self.radius**2 / 2
        kept, count = [], 0
        while count < n:
            points = uniform(50_000, len(self.linear), self.radius, rng)
            points = points[np.log(rng.random(len(points))) < self.log_density(points) - bound]
            kept.append(points)
            count += len(points)
        return np.concatenate(kept)[:n]


def circle(n=400):
    """Points and weights; the trapezoidal rule is exact to all digits for what is smooth and periodic."""
    angles = np.arange(n) * 2 * np.pi / n
    return np.stack([np.cos(angles), np.sin(angles)], axis=1), np.ones(n)


def sphere(n=80):
    """Points and weights: Gauss-Legendre along the axis, the trapezoidal rule around it."""
    height, weights = np.polynomial.legendre.leggauss(n)
    around, _ = circle(n)
    across = np.sqrt(1 - height**2)
    points = np.concatenate(
        [across[:, None, None] * around[None], np.broadcast_to(height[:, None, None], (n, n, 1))], axis=2
    )
    return points.reshape(-1, 3), np.repeat(weights, n)


def uniform(n, n_dimensions, radius, rng):
    points = rng.standard_normal((n, n_dimensions))
    return radius * points / np.linalg.norm(points, axis=1, keepdims=True)


# A ridge with two unequal ends, on a sphere that is not the unit one.
ON_CIRCLE = FisherBingham(np.array([[0.3, 0.4], [0.4, 2.0]]), np.array([0.5, 0.4]), 1.5)
ON_SPHERE = FisherBingham(
    np.array([[0.2, 0.3, 0.0], [0.3, 1.5, -0.4], [0.0, -0.4, 3.0]]), np.array([0.4, 0.8, -0.5]), 1.4
)
IN_FIVE = FisherBingham(
    np.diag([0.1, 0.5, 1.0, 2.0, 3.0]) + 0.2 * (np.ones((5, 5)) - np.eye(5)), np.array([0.6, -0.5, 0.8, 0.0, 0.3]), 1.3
)


@dataclass(frozen=True)
class Banana:
    """x ~ N(0, s^2), y | x ~ N(b (x^2 - s^2), t^2), which bends a ridge around the origin."""

    s: float = 1.5
    b: float = 0.6
    t: float = 0.5

    def log_density(self, position):
        x, y = position[..., 0], position[..., 1]
        return -((x / self.s) ** 2) / 2 - ((y - self.b * (x**2 - self.s**2)) / self.t) ** 2 / 2

    def gradient(self, position):
        x, y = position[..., 0], position[..., 1]
        off = (y - self.b * (x**2 - self.s**2)) / self.t**2
        return np.stack([-x / self.s**2 + off * 2 * self.b * x, -off], axis=-1)

    def metric(self, position):
        """J^T J, J the derivative of the standardised coordinates: what straightens the ridge."""
        x = position[..., 0]
        one, bend = np.ones_like(x), -2 * self.b * x
        rows = [
            np.stack([one / self.s**2 + bend**2 / self.t**2, bend / self.t**2], axis=-1),
            np.stack([bend / self.t**2, one / self.t**2], axis=-1),
        ]
        return np.stack(rows, axis=-2)

    def metric_gradient(self, position):
        x = position[..., 0]
        slope = np.zeros((*x.shape, 2, 2, 2))
        slope[..., 0, 0, 0] = 8 * self.b**2 * x / self.t**2
        slope[..., 0, 0, 1] = slope[..., 0, 1, 0] = -2 * self.b / self.t**2
        return slope

    def truth(self):
        """Of `moments`: x, y, x^2, xy, y^2; the variance of x^2 is 2 s^4."""
        return np.array([0.0, 0.0, self.s**2, 0.0, self.t**2 + 2 * self.b**2 * self.s**4])

    def exact(self, n, rng):
        x = self.s * rng.standard_normal(n)
        return np.stack([x, self.b * (x**2 - self.s**2) + self.t * rng.standard_normal(n)], axis=1)


@dataclass(frozen=True, eq=False)
class Gaussian:
    """With this mean and covariance."""

    mean: np.ndarray
    covariance: np.ndarray

    def log_density(self, position):
        return np.sum((position - self.mean) * self.gradient(position), axis=-1) / 2

    def gradient(self, position):
        return -(position - self.mean) @ np.linalg.inv(self.covariance)

    def truth(self):
        first, second = np.triu_indices(len(self.mean))
        products = self.covariance + np.outer(self.mean, self.mean)
        return np.concatenate([self.mean, products[first, second]])
