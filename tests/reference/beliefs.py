"""Beliefs about users, one user and one draw at a time by the book."""

from __future__ import annotations

import numpy as np


def fold_in(
    offsets, columns, targets, items, prior_precision, prior_linear, alpha, *, bias_precision=None, bias_linear=None
):
    """Means, roots, least energies and log determinants of all users and draws, in double."""
    n_users, (_, n_draws, width) = len(offsets) - 1, items.shape
    means, roots = np.zeros((n_users, n_draws, width)), np.zeros((n_users, n_draws, width, width))
    energy, log_determinant = np.zeros((n_users, n_draws)), np.zeros((n_users, n_draws))
    for user in range(n_users):
        here = slice(offsets[user], offsets[user + 1])
        for draw in range(n_draws):
            design = items[columns[here], draw].astype(np.float64)
            target = targets[here].astype(np.float64)
            precision, linear = prior_precision[draw].astype(np.float64), prior_linear[draw].astype(np.float64)
            if bias_precision is not None:
                target = target - design[:, -1]
                design[:, -1] = 1.0
                precision = np.pad(precision, (0, 1))
                precision[-1, -1] = bias_precision[draw]
                linear = np.append(linear, bias_linear[draw])
            precision = precision + alpha[draw] * design.T @ design
            linear = linear + alpha[draw] * design.T @ target
            covariance = np.linalg.inv(precision)
            means[user, draw] = covariance @ linear
            # Upper triangular with T T^T = covariance: the Cholesky factor of the coordinates in reverse.
            roots[user, draw] = np.linalg.cholesky(covariance[::-1, ::-1])[::-1, ::-1]
            energy[user, draw] = 0.5 * (alpha[draw] * np.sum(target**2) - linear @ means[user, draw])
            log_determinant[user, draw] = np.linalg.slogdet(precision)[1]
    return means, roots, energy, log_determinant


def belief_pairs(belief_rows, item_rows, items, means, roots, cold_item, *, biases):
    """Mean and standard deviation of every pair and draw, in double."""
    shape = len(belief_rows), items.shape[1]
    out_means, out_sds = np.zeros(shape), np.zeros(shape)
    for pair, (belief, item) in enumerate(zip(belief_rows, item_rows, strict=True)):
        for draw in range(shape[1]):
            point = (cold_item[draw] if item < 0 else items[item, draw]).astype(np.float64)
            offset = 0.0
            if biases:
                offset, point[-1] = point[-1], 1.0
            out_means[pair, draw] = means[belief, draw].astype(np.float64) @ point + offset
            out_sds[pair, draw] = np.linalg.norm(roots[belief, draw].astype(np.float64).T @ point)
    return out_means, out_sds


def belief_summary(belief_rows, item_rows, items, means, roots, cold_item, weights, *, biases):
    """Mean and standard deviation of every pair over the mixture of draws, in double."""
    mean, sd = belief_pairs(belief_rows, item_rows, items, means, roots, cold_item, biases=biases)
    shares = weights[belief_rows].astype(np.float64)
    centre = np.sum(shares * mean, axis=1)
    return centre, np.sqrt(np.sum(shares * ((mean - centre[:, None]) ** 2 + sd**2), axis=1))
