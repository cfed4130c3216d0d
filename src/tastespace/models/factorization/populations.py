"""What the rows of a side have in common: the distribution that each is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, DoubleArray, contiguous
from tastespace.models.factorization.rows import Moments, Points, RowPrior


@dataclass(frozen=True)
class Sphere:
    """Where rows lie: |x| is the radius, of the factors alone, or of factors and bias."""

    radius: float
    has_joint_bias: bool = False

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"sphere": np.array([self.radius, self.has_joint_bias], np.float64)}

    @classmethod
    def found_in(cls, arrays: Mapping[str, NDArray[Any]]) -> Sphere | None:
        """What was kept, if rows lie on one."""
        if "sphere" not in arrays:
            return None
        radius, has_joint_bias = arrays["sphere"]
        return cls(float(radius), bool(has_joint_bias))


def on_sphere(points: Points, sphere: Sphere) -> Points:
    """The nearest points of the sphere; what has no direction gets one."""
    joint = sphere.has_joint_bias and points.bias is not None
    rows = np.hstack([points.factors, points.bias[:, None]]) if joint and points.bias is not None else points.factors
    rows = rows.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    rows[lengths == 0] = 1.0
    rows *= sphere.radius / np.linalg.norm(rows, axis=1, keepdims=True)
    n_factors, dtype = points.factors.shape[1], points.factors.dtype
    bias = contiguous(rows[:, -1], dtype) if joint else points.bias
    return Points(contiguous(rows[:, :n_factors], dtype), bias)


class Population(Protocol):
    """The distribution that each row of a side is drawn from, with its first two moments."""

    @property
    def mean(self) -> DoubleArray: ...

    @property
    def precision(self) -> DoubleArray: ...

    @property
    def bias_mean(self) -> float: ...

    @property
    def bias_precision(self) -> float:
        """0: rows have no bias."""
        ...

    def prior(self, dtype: Any) -> RowPrior:
        """As the row kernel takes it."""
        ...

    def draw_rows(self, n: int, dtype: Any, rng: Generator) -> Points:
        """New rows of the population."""
        ...

    def log_density(self, rows: Moments) -> float:
        """Log density of rows, from their moments alone."""
        ...


@dataclass(frozen=True, eq=False)
class NormalPopulation:
    """Rows and biases are normal."""

    mean: DoubleArray  # D
    precision: DoubleArray  # D x D
    bias_mean: float = 0.0
    bias_precision: float = 0.0  # 0: rows have no bias

    def prior(self, dtype: Any) -> RowPrior:
        """As the row kernel takes it."""
        return RowPrior(
            precision=self.precision.astype(dtype),
            linear=(self.precision @ self.mean).astype(dtype)[None],
            bias_precision=self.bias_precision,
            bias_linear=self.bias_precision * self.bias_mean,
        )

    def draw_rows(self, n: int, dtype: Any, rng: Generator) -> Points:
        """New rows of the population."""
        root = np.linalg.inv(np.linalg.cholesky(self.precision))  # root^T root is the covariance
        factors = self.mean + rng.standard_normal((n, len(self.mean))) @ root
        return Points(factors.astype(dtype), draw_biases(n, self.bias_mean, self.bias_precision, dtype, rng))

    def log_density(self, rows: Moments) -> float:
        """Log density of rows, from their moments alone."""
        n, mean = rows.n, self.mean
        scatter = rows.gram - np.outer(rows.total, mean) - np.outer(mean, rows.total) + n * np.outer(mean, mean)
        log_determinant = float(np.linalg.slogdet(self.precision)[1])
        quadratic = float(np.einsum("ij,ij->", self.precision, scatter))
        density = (n * (log_determinant - len(mean) * log(2 * pi)) - quadratic) / 2
        return density + biases_log_density(rows, self.bias_mean, self.bias_precision)


def draw_biases(n: int, mean: float, precision: float, dtype: Any, rng: Generator) -> AnyFloats | None:
    """Normal ones, or none without a precision."""
    if not precision:
        return None
    biases: AnyFloats = (mean + rng.standard_normal(n) / precision**0.5).astype(dtype)
    return biases


def biases_log_density(rows: Moments, mean: float, precision: float) -> float:
    """Of normal biases, from their moments; 0 without a precision."""
    if not precision:
        return 0.0
    apart = rows.bias_squares - 2 * mean * rows.bias_total + rows.n * mean**2
    return (rows.n * log(precision / (2 * pi)) - precision * apart) / 2
