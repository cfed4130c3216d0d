"""Variational matrix factorization by the book: dense, one row and one rating at a time, in double.

A belief about a row is (mean, covariance) of x = (factors, bias), or of the factors alone. A `mistake` breaks the twin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.hermite_e import hermegauss


@dataclass(frozen=True)
class Rows:
    means: np.ndarray  # n x W
    covariances: np.ndarray  # n x W x W

    def second(self, row):
        return self.covariances[row] + np.outer(self.means[row], self.means[row])


@dataclass(frozen=True)
class Prior:
    precision: np.ndarray  # W x W
    linear: np.ndarray  # W


@dataclass(frozen=True)
class World:
    """Ratings as triples, and what is believed."""

    user_rows: np.ndarray
    item_rows: np.ndarray
    values: np.ndarray
    biases: bool
    users: Rows
    items: Rows
    user_variances: np.ndarray  # W
    item_variances: np.ndarray
    noise: float  # variance


def natural(values, rated, other, prior, alpha, biases, mistake=None):
    """Precision and linear term of the best normal for a row with these ratings."""
    width = other.means.shape[1]
    n_factors = width - biases
    precision, linear = prior.precision.copy(), prior.linear.copy()
    for value, column in zip(values, rated, strict=True):
        mean, covariance = other.means[column], other.covariances[column]
        design = np.append(mean[:n_factors], [1.0] if biases else [])  # E[z]
        spread = np.zeros((width, width))
        spread[:n_factors, :n_factors] = covariance[:n_factors, :n_factors]
        target = value - (mean[n_factors] if biases else 0.0)
        together = np.zeros(width)
        if biases and mistake != "v and d are independent":
            together[:n_factors] = covariance[:n_factors, n_factors]
        precision += alpha * (np.outer(design, design) + spread)
        linear += alpha * (target * design - together)
    return precision, linear


def best(precision, linear, diagonal=False):
    """Mean and covariance; with `diagonal` those of the best factorized belief."""
    mean = np.linalg.solve(precision, linear)
    return mean, np.diag(1 / np.diag(precision)) if diagonal else np.linalg.inv(precision)


def moved(precision, linear, mean, first=()):
    """Every coordinate once: those named first, then the others in order."""
    mean, order = mean.copy(), [*first, *(d for d in range(len(mean)) if d not in first)]
    for d in order:
        rest = precision[d] @ mean - precision[d, d] * mean[d]
        mean[d] = (linear[d] - rest) / precision[d, d]
    return mean, np.diag(1 / np.diag(precision))


def squared_error(value, user, item, biases):
    """E[(value - d - c - u.v)^2] of two beliefs, each (mean, covariance)."""
    (x, phi), (y, psi) = user, item
    n = len(x) - biases
    score = x[:n] @ y[:n] + (x[n] + y[n] if biases else 0.0)
    ends_x, ends_y = (np.append(mean[:n], [1.0] if biases else []) for mean in (x, y))
    variance = ends_y @ phi @ ends_y + ends_x @ psi @ ends_x + np.trace(phi[:n, :n] @ psi[:n, :n])
    return (value - score) ** 2 + variance


def divergence(mean, covariance, variances):
    """KL of N(mean, covariance) from N(0, diag(variances))."""
    log_determinant = np.linalg.slogdet(covariance)[1]
    return 0.5 * (
        np.sum((np.diag(covariance) + mean**2) / variances) - len(mean) - log_determinant + np.log(variances).sum()
    )


def bound(world):
    """Of the ratings, with point estimates of the variances."""
    total = 0.0
    for user, item, value in zip(world.user_rows, world.item_rows, world.values, strict=True):
        beliefs = [(rows.means[row], rows.covariances[row]) for rows, row in ((world.users, user), (world.items, item))]
        error = squared_error(value, *beliefs, world.biases)
        total -= 0.5 * np.log(2 * np.pi * world.noise) + error / (2 * world.noise)
    for rows, variances in ((world.users, world.user_variances), (world.items, world.item_variances)):
        total -= sum(divergence(*belief, variances) for belief in zip(rows.means, rows.covariances, strict=True))
    return total


def one_pass(world, family, *, learns_items=False, mistake=None):
    """Variances, noise, items, users."""

    def variances(rows):
        n = len(rows.means)
        return np.mean([np.diag(rows.second(row)) for row in range(n)], axis=0)

    user_variances, item_variances = variances(world.users), world.item_variances.copy()
    learned = variances(world.items)
    item_variances = (
        learned
        if learns_items
        else np.append(item_variances[: len(learned) - world.biases], learned[-1:] if world.biases else [])
    )
    errors = [
        squared_error(
            value,
            (world.users.means[user], world.users.covariances[user]),
            (world.items.means[item], world.items.covariances[item]),
            world.biases,
        )
        for user, item, value in zip(world.user_rows, world.item_rows, world.values, strict=True)
    ]
    noise = float(np.mean(errors))
    if mistake == "errors at the means":
        scores = [
            world.users.means[user, : world.users.means.shape[1] - world.biases]
            @ world.items.means[item, : world.items.means.shape[1] - world.biases]
            + (world.users.means[user, -1] + world.items.means[item, -1] if world.biases else 0.0)
            for user, item in zip(world.user_rows, world.item_rows, strict=True)
        ]
        noise = float(np.mean((world.values - scores) ** 2))
    world = replace(world, user_variances=user_variances, item_variances=item_variances, noise=noise)
    items = _side(world, "items", family, mistake)
    world = replace(world, items=items)
    return replace(world, users=_side(world, "users", family, mistake))


def _side(world, name, family, mistake):
    own, other = (world.users, world.items) if name == "users" else (world.items, world.users)
    rows, columns = (world.user_rows, world.item_rows) if name == "users" else (world.item_rows, world.user_rows)
    variances = world.user_variances if name == "users" else world.item_variances
    if mistake == "sigma for rho" and name == "items":
        variances = world.user_variances
    alpha = world.noise**-0.5 if mistake == "tau for tau squared" else 1 / world.noise
    prior = Prior(np.diag(1 / variances), np.zeros(len(variances)))
    means, covariances = own.means.copy(), own.covariances.copy()
    for row in range(len(means)):
        here = rows == row
        precision, linear = natural(world.values[here], columns[here], other, prior, alpha, world.biases, mistake)
        if family == "full":
            means[row], covariances[row] = best(precision, linear)
        else:
            means[row], covariances[row] = moved(
                precision, linear, means[row], [len(prior.linear) - 1] if world.biases else []
            )
    return Rows(means, covariances)


def expected(function, mean, covariance, points=6):
    """E[function(x)] over a normal by Gauss and Hermite: exact for polynomials of degree 2 points - 1."""
    nodes, weights = hermegauss(points)
    root = np.linalg.cholesky(covariance)
    grids = np.stack(np.meshgrid(*[nodes] * len(mean), indexing="ij"), axis=-1).reshape(-1, len(mean))
    chances = np.prod(
        np.stack(np.meshgrid(*[weights] * len(mean), indexing="ij"), axis=-1).reshape(-1, len(mean)), axis=1
    )
    values = np.array([function(mean + root @ node) for node in grids])
    return float(values @ chances / chances.sum())
