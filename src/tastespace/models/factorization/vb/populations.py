"""Populations of the rows of a side in variational Bayes: learned variances, or a normal-Wishart.

A population gives the expectations of its parameters for the rows' update, and its contribution to the bound:

    sum_i E[log p(x_i | parameters)] - KL(Q(parameters) | p(parameters))

Point estimates have no divergence; they are the maximisers of the bound: a variance is the mean of E[x^2] over the N
rows. (Kim prints N - 1, with which the bound can fall.)

Factors can be transformed, u to A u and v to A^-T v, without changing any rating. So users of the covariance S
and items of the covariance R are equivalent to diagonal covariances, 1 / D for the items, in other coordinates: the
full `Covariance` of both sides is equivalent to the users' `Variances`, but the bound rises much faster, since the
factors need not rotate first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi
from typing import Self

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.distributions.conjugate import Gamma, NormalGamma, NormalWishart
from tastespace.models.factorization.rows import Moments

# An unused column shrinks towards zero. The variance, in units of the ratings', is not allowed below this, so that its
# precision stays finite.
MIN_VARIANCE = 1e-10
# Ratings that factors explain exactly have no noise. Below this, a hundredth of their standard deviation, the rounding
# of single precision would exceed the uncertainty of the rows.
MIN_NOISE = 1e-4


@dataclass(frozen=True, eq=False)
class ExpectedPrior:
    """Expectations over the parameters of a population, for the update of a row and for the bound."""

    precision: DoubleArray  # D x D: E[Lambda]
    linear: DoubleArray  # D: E[Lambda mu]
    log_determinant: float = 0.0  # E log |Lambda|
    constant: float = 0.0  # E[mu^T Lambda mu]
    bias_precision: float = 0.0
    bias_linear: float = 0.0
    bias_log_precision: float = 0.0
    bias_constant: float = 0.0

    def log_density(self, rows: Moments) -> float:
        """The expected log density of rows with these expected moments."""
        n, size = rows.n, len(self.linear)
        quadratic = float(np.einsum("ij,ij->", self.precision, rows.gram)) - 2 * float(self.linear @ rows.total)
        density = n * (self.log_determinant - size * log(2 * pi) - self.constant) - quadratic
        if rows.has_bias:
            quadratic = self.bias_precision * rows.bias_squares - 2 * self.bias_linear * rows.bias_total
            density += n * (self.bias_log_precision - log(2 * pi) - self.bias_constant) - quadratic
        return density / 2


@dataclass(frozen=True, eq=False)
class Variances:
    """Rows around 0, every column with its own variance."""

    spread: DoubleArray  # D: the variances
    bias_variance: float = 1.0
    learns_factors: bool = True  # else only that of the bias is learned

    divergence = 0.0

    @property
    def expected(self) -> ExpectedPrior:
        return self._around_zero(np.diag(1 / self.spread), -float(np.log(self.spread).sum()))

    def _around_zero(self, precision: DoubleArray, log_determinant: float) -> ExpectedPrior:
        bias_precision, bias_log_precision = 1 / self.bias_variance, -log(self.bias_variance)
        linear = np.zeros(len(precision))
        return ExpectedPrior(precision, linear, log_determinant, 0.0, bias_precision, 0.0, bias_log_precision)

    def learned(self, rows: Moments) -> Self:
        """The parameters that maximise the bound given beliefs about the rows."""
        bias_variance = max(rows.bias_squares / rows.n, MIN_VARIANCE) if rows.has_bias else self.bias_variance
        spread = self._spread_of(rows.gram / rows.n) if self.learns_factors else self.spread
        return replace(self, spread=spread, bias_variance=bias_variance)

    def _spread_of(self, mean_products: DoubleArray) -> DoubleArray:
        return np.maximum(np.diag(mean_products), MIN_VARIANCE)


class Covariance(Variances):
    """Rows around 0, with a learned full covariance (D x D)."""

    @property
    def expected(self) -> ExpectedPrior:
        precision = np.linalg.inv(self.spread)
        return self._around_zero((precision + precision.T) / 2, -float(np.linalg.slogdet(self.spread)[1]))

    def _spread_of(self, mean_products: DoubleArray) -> DoubleArray:
        values, vectors = np.linalg.eigh(mean_products)
        matrix = (vectors * np.maximum(values, MIN_VARIANCE)) @ vectors.T
        return np.asarray((matrix + matrix.T) / 2)


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A normal-Wishart belief about mean and precision of the rows, and a normal-gamma one for the biases."""

    factors: NormalWishart
    bias: NormalGamma
    factors_prior: NormalWishart
    bias_prior: NormalGamma
    has_biases: bool

    @property
    def expected(self) -> ExpectedPrior:
        factors, bias = self.factors, self.bias
        precision, of_bias = factors.mean_precision, bias.precision
        return ExpectedPrior(
            precision=precision,
            linear=precision @ factors.centre,
            log_determinant=factors.mean_log_determinant,
            constant=float(factors.centre @ precision @ factors.centre) + len(factors.centre) / factors.strength,
            bias_precision=of_bias.mean,
            bias_linear=of_bias.mean * bias.centre,
            bias_log_precision=of_bias.mean_log,
            bias_constant=of_bias.mean * bias.centre**2 + 1 / bias.strength,
        )

    @property
    def divergence(self) -> float:
        of_bias = self.bias.divergence(self.bias_prior) if self.has_biases else 0.0
        return self.factors.divergence(self.factors_prior) + of_bias

    def learned(self, rows: Moments) -> Hierarchy:
        factors = self.factors_prior.posterior(rows.n, rows.total, rows.gram)
        bias = self.bias_prior
        if self.has_biases:
            bias = bias.posterior(rows.n, rows.bias_total, rows.bias_squares)
        return replace(self, factors=factors, bias=bias)


VariationalPopulation = Variances | Hierarchy  # the belief about the parameters of a side


@dataclass(frozen=True)
class PointNoise:
    """A point estimate of the noise precision that maximises the bound, or a given one."""

    mean: float
    learns: bool = True

    divergence = 0.0

    @property
    def mean_log(self) -> float:
        return log(self.mean)

    def learned(self, n: int, squares: float) -> PointNoise:
        """The noise given n errors whose expected squares sum to `squares`."""
        return replace(self, mean=n / max(squares, n * MIN_NOISE)) if self.learns and n else self


@dataclass(frozen=True)
class GammaNoise:
    """A gamma belief about the noise precision."""

    belief: Gamma
    prior: Gamma

    @property
    def mean(self) -> float:
        return self.belief.mean

    @property
    def mean_log(self) -> float:
        return self.belief.mean_log

    @property
    def divergence(self) -> float:
        return self.belief.divergence(self.prior)

    def learned(self, n: int, squares: float) -> GammaNoise:
        return replace(self, belief=self.prior.posterior(n, squares))


VariationalNoise = PointNoise | GammaNoise  # the belief about the precision of the noise
