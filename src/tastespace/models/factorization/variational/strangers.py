"""Rows that nothing is known of, where ratings are not centred: like those that something is known of.

The prior of a raw model lies around 0, and a score of 0 is no rating: a user without ratings would give the lowest one
to every item. What is known of all others says better where one more will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, OffsetArray, contiguous
from tastespace.models.factorization.item_draws import Populations
from tastespace.models.factorization.variational.rows import RowBeliefs

LEAST_VARIANCE = 1e-9  # in units of the ratings', so that there is a precision


@dataclass(frozen=True, eq=False)
class Stranger:
    """A row of a side drawn from those that have ratings, and from what is believed of it."""

    mean: DoubleArray  # W
    covariance: DoubleArray  # W x W; factors and bias are independent

    @classmethod
    def among(cls, rows: RowBeliefs, counts: OffsetArray) -> Stranger:
        """`counts` are the ratings of each row."""
        moments = replace(rows, records=rows.records[counts > 0]).moments()
        n, n_factors, width = max(moments.n, 1), rows.shape.n_factors, rows.shape.width
        mean, second = np.zeros(width), np.zeros((width, width))
        mean[:n_factors], second[:n_factors, :n_factors] = moments.total / n, moments.gram / n
        if moments.has_bias:
            mean[n_factors], second[n_factors, n_factors] = moments.bias_total / n, moments.bias_squares / n
        covariance = second - np.outer(mean, mean) + LEAST_VARIANCE * np.eye(width)
        covariance[:n_factors, n_factors:] = covariance[n_factors:, :n_factors] = 0
        return cls(mean, covariance)

    @cached_property
    def root(self) -> DoubleArray:
        """Upper triangular T, T T^T the covariance."""
        return np.asarray(np.linalg.inv(np.linalg.cholesky(np.linalg.inv(self.covariance))).T)

    def population(self, n_factors: int) -> Populations:
        """As what is believed of an item never seen."""
        has_bias = len(self.mean) > n_factors
        return Populations(
            means=self.mean[None, :n_factors],
            precisions=np.asarray(np.linalg.inv(self.covariance[:n_factors, :n_factors])[None], np.float64),
            bias_means=np.array([self.mean[-1] if has_bias else 0.0]),
            bias_precisions=np.array([1 / self.covariance[-1, -1] if has_bias else 0.0]),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"stranger_mean": self.mean, "stranger_covariance": self.covariance}

    @classmethod
    def found_in(cls, arrays: Mapping[str, NDArray[Any]]) -> Stranger | None:
        """None where strangers are as the prior says."""
        if "stranger_mean" not in arrays:
            return None
        names = ("stranger_mean", "stranger_covariance")
        return cls(*(contiguous(arrays[name], np.float64) for name in names))
