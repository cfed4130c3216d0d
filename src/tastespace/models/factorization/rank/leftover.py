"""One more factor for what is left: a guess at its column, by variational Bayes of rank one.

Of errors e_ij = a_i b_j + noise, with normal a and b, the product of normals of a and of b that is nearest to the
posterior has

    1 / var a_i = lam_a + alpha sum_j E b_j^2,   mean a_i = var a_i alpha sum_j e_ij mean b_j,

and the same of b: iterated from the leading singular vector of the errors. It is a function of the errors and the
precisions alone, so that a death can ask what the birth that it undoes would have drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.sparse import csr_matrix

from tastespace.arrays import DoubleArray, IntArray, OffsetArray

POWER_STEPS = 15
ITERATIONS = 10


@dataclass(frozen=True, eq=False)
class Guide:
    """The law of a new column: normals around plus or minus a mean, each sign with probability 1/2."""

    mean: DoubleArray
    precision: DoubleArray

    def draw(self, rng: Generator) -> DoubleArray:
        sign = 1.0 if rng.integers(2) else -1.0
        return np.asarray(sign * self.mean + rng.standard_normal(len(self.mean)) / np.sqrt(self.precision))

    def log_density(self, column: DoubleArray) -> float:
        constant = 0.5 * float(np.log(self.precision / (2 * pi)).sum())
        plus, minus = (-0.5 * float(self.precision @ (column - sign * self.mean) ** 2) for sign in (1.0, -1.0))
        return constant + float(np.logaddexp(plus, minus)) - log(2)


@dataclass(frozen=True, eq=False)
class Leftover:
    """Errors as a sparse matrix: rows are those of a, columns those of b."""

    errors: Any  # a sparse matrix
    mask: Any  # 1 where there is an error
    by_column: Any  # both transposed
    column_mask: Any

    @classmethod
    def of(cls, errors: DoubleArray, columns: IntArray, offsets: OffsetArray, n_columns: int) -> Leftover:
        shape = (len(offsets) - 1, n_columns)
        matrix = csr_matrix((errors, columns, offsets), shape)
        mask = csr_matrix((np.ones(len(errors)), columns, offsets), shape)
        return cls(matrix, mask, matrix.T, mask.T)

    @property
    def transposed(self) -> Leftover:
        return Leftover(self.by_column, self.column_mask, self.errors, self.mask)

    def guide(self, a_precision: float, b_precision: float, noise: float) -> Guide:
        """What is known of b, a being unknown as well."""
        mean, variance = _leading(self.errors, self.by_column), np.zeros(self.errors.shape[1])
        precision = np.full(self.errors.shape[1], b_precision)
        for _ in range(ITERATIONS):
            of_a = a_precision + noise * (self.mask @ (mean**2 + variance))
            a = noise * (self.errors @ mean) / of_a
            precision = b_precision + noise * (self.column_mask @ (a**2 + 1 / of_a))
            mean, variance = noise * (self.by_column @ a) / precision, 1 / precision
        return Guide(mean, precision)

    def given(self, b: DoubleArray, a_precision: float, noise: float) -> tuple[DoubleArray, DoubleArray]:
        """Mean and precision of the normals that a has, given b: exactly."""
        precision = a_precision + noise * (self.mask @ b**2)
        return noise * (self.errors @ b) / precision, precision


def _leading(errors: Any, by_column: Any) -> DoubleArray:
    """The leading right singular vector by the power method, of length sqrt(its singular value)."""
    # Any start does that is no function of chance, and not at a right angle to what is sought.
    found: DoubleArray = np.asarray(by_column @ np.cos(np.arange(errors.shape[0])))
    value = 0.0
    for _ in range(POWER_STEPS):
        length = float(np.linalg.norm(found))
        if length == 0:
            return found
        left = errors @ (found / length)
        value = float(np.linalg.norm(left))
        found = np.asarray(by_column @ left)
    length = float(np.linalg.norm(found))
    return found if length == 0 else np.asarray(found * np.sqrt(value) / length)
