"""Rows on a sphere in plain numpy: their energy, its least point, and means by numerical integration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq


@dataclass(frozen=True)
class Energy:
    """1/2 x^T A x - b.x."""

    matrix: np.ndarray
    linear: np.ndarray

    def __call__(self, x):
        return 0.5 * np.einsum("...i,ij,...j->...", x, self.matrix, x) - x @ self.linear

    def least(self, radius):
        """By the eigenvalues of A, where b has something in each direction."""
        values, vectors = np.linalg.eigh(self.matrix)
        pull = vectors.T @ self.linear
        shift = brentq(
            lambda shift: np.linalg.norm(pull / (values + shift)) - radius,
            -values[0] + abs(pull[0]) / radius * 1e-3,
            np.linalg.norm(self.linear) / radius + 1 - values[0],
            xtol=1e-14,
        )
        return vectors @ (pull / (values + shift))


def energy_of(given, row, *, linear, has_joint_bias, bias_precision=0.0, bias_linear=0.0):
    """Of one row of a problem, its bias integrated out or joined."""
    here = slice(given["offsets"][row], given["offsets"][row + 1])
    columns = given["columns"][here]
    points = given["other"][columns].astype(float)
    own = 1.0 if given.get("row_precision") is None else float(given["row_precision"][row])
    weights = own * float(given.get("alpha", 1.0)) * np.ones(len(columns))
    if given.get("weights") is not None:
        weights = weights * given["weights"][here]
    if given.get("other_weights") is not None:
        weights = weights * given["other_weights"][columns]
    targets = (given["targets"][here] - given.get("target_offset", 0.0)) / given.get("target_scale", 1.0)
    if given.get("other_bias") is not None:
        targets = targets - given["other_bias"][columns]
    if has_joint_bias:
        points = np.column_stack([points, np.ones(len(columns))])
    matrix, right = points.T @ (weights[:, None] * points), points.T @ (weights * targets) + linear
    if given.get("out_bias") is not None and not has_joint_bias:
        border, precision = points.T @ weights, weights.sum() + bias_precision
        matrix = matrix - np.outer(border, border) / precision
        right = right - border * (weights @ targets + bias_linear) / precision
    return Energy(matrix, right)


def grid(dimension, radius):
    """Points of a circle or a sphere, and the area that each stands for."""
    if dimension == 2:
        angles = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
        return radius * np.column_stack([np.cos(angles), np.sin(angles)]), np.ones(len(angles))
    heights, areas = np.polynomial.legendre.leggauss(200)
    angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    height, angle = np.meshgrid(heights, angles, indexing="ij")
    around = np.sqrt(1 - height**2)
    points = np.stack([around * np.cos(angle), around * np.sin(angle), height], axis=-1).reshape(-1, 3)
    return radius * points, np.repeat(areas, len(angles))


def moments(energy, radius):
    """Means of coordinates and of their products under exp(-energy), by numerical integration."""
    points, areas = grid(len(energy.linear), radius)
    heights = -energy(points)
    chances = areas * np.exp(heights - heights.max())
    chances /= chances.sum()
    return np.concatenate([chances @ points, np.einsum("n,ni,nj->ij", chances, points, points).ravel()])
