"""Biases, which several families start from: rating = mean + user bias + item bias.

    minimize  sum (r - g - c_i - d_j)^2 + user_damping |c|^2 + item_damping |d|^2

over c and d by alternating exact steps; g is the mean of all ratings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tastespace.arrays import DoubleArray, FloatArray, IntArray
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings


def damped_biases(
    observed: Ratings, user_damping: float, item_damping: float, sweeps: int
) -> tuple[DoubleArray, DoubleArray]:
    """The biases of users and of items, each shrunk to zero as by `damping` extra ratings without deviation."""
    by_user = observed.by_user
    user_rows, item_rows = by_user.rows(), by_user.columns
    residuals = by_user.values.astype(np.float64) - observed.mean
    user_counts, item_counts = by_user.counts, np.bincount(item_rows, minlength=observed.n_items)
    user_bias: DoubleArray = np.zeros(observed.n_users)
    item_bias: DoubleArray = np.zeros(observed.n_items)
    for _ in range(sweeps):
        total = np.bincount(item_rows, residuals - user_bias[user_rows], observed.n_items)
        item_bias = total / (item_counts + item_damping)
        total = np.bincount(user_rows, residuals - item_bias[item_rows], observed.n_users)
        user_bias = total / (user_counts + user_damping)
    return user_bias, item_bias


@dataclass(frozen=True, eq=False)
class Baseline:
    """rating = mean + user bias + item bias, for users whose ratings are known."""

    mean: float
    item_bias: FloatArray
    user_damping: float  # a user's bias is a sum over their ratings, divided by their number plus this

    def user_bias(self, history: CSR) -> FloatArray:
        """The bias of users with these ratings (columns are item rows), for fixed item biases."""
        residuals = history.values - self.mean - self.item_bias[history.columns]
        total = np.bincount(history.rows(), residuals, minlength=len(history))
        return np.asarray(total / np.maximum(history.counts + self.user_damping, 1e-12), np.float32)

    def residuals(self, history: CSR, user_bias: FloatArray) -> CSR:
        """These ratings less the baseline."""
        values = history.values - np.float32(self.mean) - user_bias[history.rows()] - self.item_bias[history.columns]
        return CSR(history.offsets, history.columns, values)

    def ratings(self, user_bias: FloatArray, item_rows: IntArray) -> FloatArray:
        """The baseline of pairs; item row -1 has no bias."""
        return (self.mean + user_bias + taken(self.item_bias, item_rows)).astype(np.float32)


def taken(values: FloatArray, rows: IntArray) -> FloatArray:
    """The values of rows; 0 for row -1."""
    chosen = values[np.maximum(rows, 0)]
    chosen[rows < 0] = 0
    return chosen
