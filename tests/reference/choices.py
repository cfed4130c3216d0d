"""A logistic factorization of choices, written from the formulas: energies of rows, their gradients, their modes."""

from __future__ import annotations

import numpy as np
from scipy.special import expit


def chances_of(table):
    """The chance of each column under a table of aliases."""
    shares, aliases = table[:, 0].astype(np.float64) / 2**32, table[:, 1].astype(np.int64)
    return (shares + np.bincount(aliases, 1 - shares, minlength=len(table))) / len(table)


def row_energy(
    point,
    bias,
    chosen,
    weights,
    shown,
    shown_weights,
    other,
    other_bias,
    *,
    offset,
    ridge,
    bias_ridge,
    mean=0,
    bias_mean=0,
):
    """Of one row: what it chose, what it was shown, and what holds it back; all in double."""
    yes = offset + other[chosen] @ point + bias + other_bias[chosen]
    no = offset + other[shown] @ point + bias + other_bias[shown]
    cells = np.sum(weights * np.logaddexp(0, -yes)) + np.sum(shown_weights * np.logaddexp(0, no))
    apart = point - mean
    return cells + 0.5 * (ridge * apart @ apart + bias_ridge * (bias - bias_mean) ** 2)


def row_gradient(
    point,
    bias,
    chosen,
    weights,
    shown,
    shown_weights,
    other,
    other_bias,
    *,
    offset,
    ridge,
    bias_ridge,
    mean=0,
    bias_mean=0,
):
    """Of the same, by the factors and by the bias."""
    yes = offset + other[chosen] @ point + bias + other_bias[chosen]
    no = offset + other[shown] @ point + bias + other_bias[shown]
    slopes = np.concatenate([-weights * expit(-yes), shown_weights * expit(no)])
    points = other[np.concatenate([chosen, shown])]
    return slopes @ points + ridge * (point - mean), slopes.sum() + bias_ridge * (bias - bias_mean)


def adagrad(values, gradient, squares, rate):
    """Where a step leads, and the sums of squares after it."""
    squares = squares + gradient**2
    return values - rate * gradient / np.sqrt(squares + 1e-6), squares
