"""Neighbourhood models on dense matrices, pair by pair; NaN where there is no rating."""

from __future__ import annotations

import numpy as np


def similarity(x, y, *, common_norms, shrinkage, min_common):
    """Of two rows: what they have in common, over how large they are, less for few common columns."""
    common = ~np.isnan(x) & ~np.isnan(y)
    n = int(common.sum())
    own, other = (x[common], y[common]) if common_norms else (x[~np.isnan(x)], y[~np.isnan(y)])
    norms = (own**2).sum() * (other**2).sum()
    if n < min_common or norms <= 0:
        return 0.0
    return (x[common] * y[common]).sum() / np.sqrt(norms) * (n / (n + shrinkage))


def similarities(queries, others, **rule):
    """Of each query with each of the others."""
    return np.array([[similarity(x, y, **rule) for y in others] for x in queries]).reshape(len(queries), len(others))


def best(values, candidates, least, n):
    """The candidates with the largest values above `least`, best first, ties by the smaller row."""
    found = candidates[values[candidates] > least]
    return found[np.lexsort((found, -values[found]))][:n]


def average(weights, residuals, damping):
    """Damped, weighted; 0 of nothing."""
    return (weights * residuals).sum() / (weights.sum() + damping) if len(weights) else 0.0


def average_over_items(alike, residuals, *, n_neighbours, least, damping, n_candidates=10**9):
    """Users x items, from similarities of items (the diagonal does not count) and residuals of users x items."""
    out = np.zeros(residuals.shape)
    for item, values in enumerate(alike):
        kept = best(values, np.delete(np.arange(len(alike)), item), least, n_candidates)
        for user, row in enumerate(residuals):
            chosen = best(values, np.array([j for j in kept if not np.isnan(row[j])], int), least, n_neighbours)
            out[user, item] = average(values[chosen], row[chosen], damping)
    return out


def average_over_users(alike, residuals, *, n_neighbours, least, damping):
    """Users x items, from similarities of users x raters and residuals of raters x items."""
    out = np.zeros((len(alike), residuals.shape[1]))
    for user, values in enumerate(alike):
        for item, column in enumerate(residuals.T):
            chosen = best(values, np.flatnonzero(~np.isnan(column)), least, n_neighbours)
            out[user, item] = average(values[chosen], column[chosen], damping)
    return out


def biases(ratings, user_damping, item_damping, sweeps):
    """Mean, biases of users, biases of items, by alternating steps; items first."""
    mean = np.nanmean(ratings)
    rated = ~np.isnan(ratings)
    users, items = np.zeros(len(ratings)), np.zeros(ratings.shape[1])
    for _ in range(sweeps):
        left = np.where(rated, ratings - mean - users[:, None], 0)
        items = left.sum(axis=0) / (rated.sum(axis=0) + item_damping)
        left = np.where(rated, ratings - mean - items, 0)
        users = left.sum(axis=1) / (rated.sum(axis=1) + user_damping)
    return mean, users, items
