"""Coefficients of features drawn given the rows: three solvers of the same normal equations.

In coordinates in which the rows' covariance is the identity, every column of the target t (n rows) is on its own:

    t = mean + X b + noise,   noise ~ N(0, I),   b_f ~ N(0, 1/lambda_f),   mean ~ N(0, 1/beta)

A fixed mean of 0 has beta = infinity. With K = X^T X + diag(lambda):

- `Cholesky` factors K, which is exact, and can integrate the coefficients out;
- `ConjugateGradients` solves for a target and a prior with added noise, whose solution is a draw (Papandreou and
  Yuille 2010), all columns side by side;
- `FeatureByFeature` draws one feature after another given all others, which costs little, and mixes less well.

The choice depends on the numbers of features and entries, never on the time they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.random import Generator

from tastespace import _native
from tastespace.arrays import DoubleArray
from tastespace.errors import NonFiniteStateError
from tastespace.models.factorization.priors.design import Design, Sparse

STRIP = 8  # columns that the native pass takes together
TOLERANCE, MOST_STEPS = 1e-6, 500
PASSES = 3  # of `least`, feature by feature; the next sweep continues from there
# Measured on MovieLens 100K with both bags (1,682 and 943 features, 10 factors): predictions have as many effective
# draws per sweep by each solver, and a sweep takes 147, 171 and 19 ms. With few features the factor takes no time.
CHOLESKY_FEATURES, DENSE = 512, 0.25


@dataclass(frozen=True, eq=False)
class Drawn:
    """The mean (one number per column) and the coefficients of features (F x columns)."""

    mean: DoubleArray
    coefficients: DoubleArray


class Solver(Protocol):
    """Draws mean and coefficients given a target in coordinates with unit noise."""

    def draw(self, target: DoubleArray, start: Drawn, rng: Generator) -> Drawn: ...

    def least(self, target: DoubleArray, start: Drawn) -> Drawn:
        """The least of |target - mean - X b|^2 + sum lambda |b|^2 + beta mean^2, or nearer to it than the start."""


@dataclass(frozen=True, eq=False)
class Cholesky:
    """K = L L^T; the mean is one more column of features, the last."""

    design: Design
    precision: DoubleArray  # F: lambda
    beta: DoubleArray  # per column of the target
    threads: int = 1

    @cached_property
    def lower(self) -> DoubleArray:
        gram = self.design.gram.copy()
        gram[np.diag_indices(len(gram))] += self.precision
        return np.asarray(scipy.linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False))

    @cached_property
    def of_mean(self) -> DoubleArray:
        """L^-1 X^T 1."""
        return self._forward(self.design.totals[:, None])[:, 0]

    @cached_property
    def pivots(self) -> DoubleArray:
        """The mean's pivot for each column; infinite where it is fixed."""
        return np.sqrt(np.maximum(self.design.n_rows - self.of_mean @ self.of_mean, 0) + self.beta)

    def _forward(self, right: DoubleArray) -> DoubleArray:
        solved = scipy.linalg.solve_triangular(self.lower, right, lower=True, check_finite=False)
        return np.asarray(solved)

    def projected(self, target: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        """The target's part that features (F x columns) and mean (one per column) explain, in units of the pivots.

        Their squares are what is subtracted from those of the target if both are integrated out.
        """
        of_features = self._forward(self.design.by_feature.times(target, self.threads))
        of_mean = (target.sum(axis=0) - self.of_mean @ of_features) / self.pivots
        return of_features, of_mean

    def solved(self, of_features: DoubleArray, of_mean: DoubleArray, rng: Generator | None) -> Drawn:
        """A draw, from what a target projects to; the mean of the draws without a generator."""
        mean = (of_mean + (0 if rng is None else rng.standard_normal(len(of_mean)))) / self.pivots
        right = of_features - np.outer(self.of_mean, mean)
        right += 0 if rng is None else rng.standard_normal(of_features.shape)
        solved = scipy.linalg.solve_triangular(self.lower, right, lower=True, trans="T", check_finite=False)
        return Drawn(mean, np.asarray(solved))

    def draw(self, target: DoubleArray, start: Drawn, rng: Generator) -> Drawn:
        return self.solved(*self.projected(target), rng)

    def least(self, target: DoubleArray, start: Drawn) -> Drawn:
        return self.solved(*self.projected(target), None)


@dataclass(frozen=True, eq=False)
class ConjugateGradients:
    """All columns side by side, each with its own steps, preconditioned by the diagonal of K."""

    design: Design
    precision: DoubleArray
    beta: DoubleArray
    threads: int = 1

    def draw(self, target: DoubleArray, start: Drawn, rng: Generator) -> Drawn:
        noisy = target + rng.standard_normal(target.shape)
        of_prior = rng.standard_normal((self.design.n_features + 1, target.shape[1]))
        return self.solve(noisy, of_prior, start)

    def least(self, target: DoubleArray, start: Drawn) -> Drawn:
        return self.solve(target, np.zeros((self.design.n_features + 1, target.shape[1])), start)

    def solve(self, target: DoubleArray, of_prior: DoubleArray, start: Drawn) -> Drawn:
        """Solve K x = X^T target + sqrt(prior) of_prior, the mean being the last feature."""
        free = np.isfinite(self.beta)
        beta = np.where(free, self.beta, 1.0)
        right = np.vstack(
            [
                self.design.by_feature.times(target, self.threads) + np.sqrt(self.precision)[:, None] * of_prior[:-1],
                free * (target.sum(axis=0) + np.sqrt(beta) * of_prior[-1]),
            ]
        )
        diagonal = np.vstack(
            [
                np.broadcast_to((self.design.squares + self.precision)[:, None], right[:-1].shape),
                self.design.n_rows + beta,
            ]
        )

        def times(x: DoubleArray) -> DoubleArray:
            fitted = self.design.by_row.times(x[:-1], self.threads) + free * x[-1]
            product = np.empty_like(x)
            product[:-1] = self.design.by_feature.times(fitted, self.threads) + self.precision[:, None] * x[:-1]
            product[-1] = free * fitted.sum(axis=0) + beta * x[-1]
            return product

        x = np.vstack([start.coefficients, free * start.mean])
        residual = right - times(x)
        scaled = residual / diagonal
        direction, norm = scaled.copy(), _columns(residual, scaled)
        wanted = TOLERANCE**2 * _columns(right, right / diagonal)
        for _ in range(MOST_STEPS):
            if (norm <= wanted).all():
                return Drawn(x[-1], x[:-1])
            product = times(direction)
            curvature = _columns(direction, product)
            # A column that has its solution stays as it is.
            step = np.divide(norm, curvature, out=np.zeros_like(norm), where=(norm > wanted) & (curvature > 0))
            x += step * direction
            residual -= step * product
            scaled = residual / diagonal
            after = _columns(residual, scaled)
            direction = scaled + np.divide(after, norm, out=np.zeros_like(norm), where=norm > 0) * direction
            norm = after
        worst = float(np.sqrt(np.max(norm / np.maximum(wanted, np.finfo(float).tiny)))) * TOLERANCE
        raise NonFiniteStateError(
            f"the coefficients of {self.design.n_features:,} features did not converge: after {MOST_STEPS} steps the "
            f"residual is {worst:.2g} of what it should fit; expected {TOLERANCE:g}: check the features for columns "
            "with extreme values, or that are sums of others"
        )


@dataclass(frozen=True, eq=False)
class FeatureByFeature:
    """One Gibbs pass: the mean given all features, then each feature given the mean and all others."""

    design: Design
    precision: DoubleArray
    beta: DoubleArray
    threads: int = 1

    def draw(self, target: DoubleArray, start: Drawn, rng: Generator) -> Drawn:
        of_mean = np.asarray(rng.standard_normal((target.shape[1],)))
        return self._passed(target, start, of_mean, rng.standard_normal(start.coefficients.shape))

    def least(self, target: DoubleArray, start: Drawn) -> Drawn:
        for _ in range(PASSES):
            start = self._passed(target, start, np.zeros(target.shape[1]), np.zeros_like(start.coefficients))
        return start

    def _passed(self, target: DoubleArray, start: Drawn, of_mean: DoubleArray, noise: DoubleArray) -> Drawn:
        """One pass with this standard normal noise; without any every step goes to the least given all others."""
        n_rows, n_columns = target.shape
        residual = target - self.design.by_row.times(start.coefficients, self.threads)
        precision = n_rows + self.beta
        mean = residual.sum(axis=0) / precision + of_mean / np.sqrt(precision)
        residual -= mean
        coefficients = in_strips(start.coefficients)
        entries: Sparse = self.design.by_feature
        _native.feature_pass(
            *(entries.offsets, entries.columns, entries.values, self.design.squares, self.precision),
            *(in_strips(noise), coefficients, in_strips(residual)),
            self.threads,
        )
        return Drawn(mean, from_strips(coefficients, n_columns))


def in_strips(matrix: DoubleArray) -> DoubleArray:
    """The columns in strips of 8, the last filled up with zeros: strips x rows x 8."""
    n_rows, n_columns = matrix.shape
    n_strips = -(-n_columns // STRIP)
    padded = np.zeros((n_rows, n_strips * STRIP))
    padded[:, :n_columns] = matrix
    return np.ascontiguousarray(padded.reshape(n_rows, n_strips, STRIP).swapaxes(0, 1))


def from_strips(strips: DoubleArray, n_columns: int) -> DoubleArray:
    """The matrix again."""
    n_rows = strips.shape[1]
    return np.ascontiguousarray(strips.swapaxes(0, 1).reshape(n_rows, -1)[:, :n_columns])


def _columns(left: DoubleArray, right: DoubleArray) -> DoubleArray:
    """The inner product of each pair of columns, summed in the order of the rows."""
    return np.asarray(np.einsum("fw,fw->w", left, right))


SOLVERS: dict[str, Any] = {
    "cholesky": Cholesky,
    "conjugate-gradients": ConjugateGradients,
    "feature-by-feature": FeatureByFeature,
}


def solver_for(design: Design) -> str:
    """The name of the solver for features of this size."""
    if design.n_features <= CHOLESKY_FEATURES:
        return "cholesky"
    share = design.matrix.nnz / (design.n_features * max(design.n_rows, 1))
    # Features that overlap in every row depend on one another too much to be drawn in turn.
    return "conjugate-gradients" if share > DENSE else "feature-by-feature"
