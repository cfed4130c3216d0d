"""The row kernel, one row at a time by the book."""

from __future__ import annotations

import numpy as np


def solve_rows(
    offsets,
    columns,
    targets,
    other,
    prior_precision,
    prior_linear,
    *,
    weights=None,
    other_bias=None,
    prior_scale=None,
    alpha=1.0,
    noise=None,
    has_bias=False,
    bias_precision=0.0,
    bias_linear=0.0,
    bias_noise=None,
    few=0,
):
    """Factors, biases, minima and sums of squares of all rows, in double."""
    n_rows, n_factors = len(offsets) - 1, other.shape[1]
    factors, biases = np.zeros((n_rows, n_factors)), np.zeros(n_rows)
    minima, squares = np.zeros(n_rows), np.zeros(n_rows)
    for row in range(n_rows):
        here = slice(offsets[row], offsets[row + 1])
        design = other[columns[here]].astype(np.float64)
        target = targets[here].astype(np.float64)
        if other_bias is not None:
            target = target - other_bias[columns[here]]
        weight = np.ones(len(target)) if weights is None else weights[here].astype(np.float64)
        scale = 1.0 if prior_scale is None else float(prior_scale[row])
        linear = scale * prior_linear[row if len(prior_linear) > 1 else 0].astype(np.float64)
        precision = scale * prior_precision.astype(np.float64)
        if has_bias:
            design = np.hstack([design, np.ones((len(target), 1))])
            precision = np.block(
                [
                    [precision, np.zeros((n_factors, 1))],
                    [np.zeros((1, n_factors)), np.full((1, 1), scale * bias_precision)],
                ]
            )
            linear = np.append(linear, scale * bias_linear)
        prior = precision
        precision = precision + alpha * design.T @ (weight[:, None] * design)
        linear = linear + alpha * design.T @ (weight * target)
        solution = np.linalg.solve(precision, linear)
        minima[row] = 0.5 * (alpha * np.sum(weight * target**2) - linear @ solution)
        if noise is not None:
            # precision = L L^T: L^-T z has the covariance precision^-1.
            z = (noise[row] if not has_bias else np.append(noise[row], bias_noise[row])).astype(np.float64)
            if len(target) <= few:
                solution = solution + conditioned_noise(prior, design, 1 / (alpha * weight), z)
            else:
                solution = solution + np.linalg.solve(np.linalg.cholesky(precision).T, z)
        squares[row] = np.sum(weight * (target - design @ solution) ** 2)
        factors[row] = solution[:n_factors]
        if has_bias:
            biases[row] = solution[n_factors]
    return factors, biases, minima, squares


def conditioned_noise(prior, design, variances, z):
    """Noise of the posterior's covariance from noise of the prior's, by Andrews' square root."""
    # Upper triangular with root root^T = prior^-1.
    root = np.linalg.inv(np.linalg.cholesky(prior).T)
    whitened = design @ root
    left = np.linalg.cholesky(whitened @ whitened.T + np.diag(variances))
    seen = np.linalg.solve(left.T, np.linalg.solve(left + np.diag(np.sqrt(variances)), whitened @ z))
    return root @ (z - whitened.T @ seen)
