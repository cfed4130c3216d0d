"""Turning factors: orthogonal maps of columns, and directions among them that can be spared.

The density of a state does not change when users and items are turned alike, (U, V) -> (U Q, V Q) with Q^T Q = I. So a
map of columns decides only which direction is the last: that which a death takes away.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.random import Generator

from tastespace.arrays import AnyFloats, DoubleArray


def helmert(n: int) -> DoubleArray:
    """The orthogonal matrix whose first row is even, and whose row i (from 1 on) sets entry i against those before.

    Row i is (1, ..., 1, -i, 0, ..., 0) / sqrt(i (i + 1)); Dey and Jhamb 2018, section 3.2, call it Gram-Chalier.
    """
    rows = np.tril(np.ones((n, n)), -1)
    rows[np.arange(n), np.arange(n)] = -np.arange(n)
    rows[0] = 1.0
    found: DoubleArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def reflection(direction: DoubleArray) -> DoubleArray:
    """The symmetric orthogonal matrix that exchanges a unit vector and the last axis (Householder)."""
    n = len(direction)
    normal = direction - np.eye(n)[-1]
    square = float(normal @ normal)
    # Of a vector that is the axis already there is nothing to exchange.
    return np.eye(n) if square < 1e-300 else np.eye(n) - 2 * np.outer(normal, normal) / square


def draw_direction(inverse: DoubleArray, rng: Generator) -> DoubleArray:
    """x / |x| of x ~ N(0, inverse^-1): an angular central Gaussian; the identity for any direction alike."""
    lower = np.linalg.cholesky(inverse)
    drawn = np.linalg.solve(lower.T, rng.standard_normal(len(inverse)))
    return np.asarray(drawn / np.linalg.norm(drawn))


def log_direction(inverse: DoubleArray, direction: DoubleArray) -> float:
    """log of |S|^(-1/2) (w^T S^-1 w)^(-n/2), S^-1 the inverse: its density, relative to any direction alike."""
    n = len(direction)
    log_determinant = 2 * float(np.log(np.diag(np.linalg.cholesky(inverse))).sum())
    return 0.5 * log_determinant - 0.5 * n * log(float(direction @ inverse @ direction))


def spare_directions(users: AnyFloats, items: AnyFloats, power: float) -> DoubleArray:
    """The matrix of the law that prefers directions of which there is little: those that a death should try.

    (A / tr A + B / tr B)^power of the Gram matrices of both sides: it turns as the factors are turned.
    """
    total = np.zeros((users.shape[1], users.shape[1]))
    for factors in (users, items):
        gram = factors.T @ factors
        total += gram / np.trace(gram)
    values, vectors = np.linalg.eigh(total)
    # Rounded to nothing or below, a direction would be certain, and its density no number.
    values = np.maximum(values, 1e-6 * values[-1]) ** power
    return np.asarray((vectors * values) @ vectors.T)
