"""What rows of a side have in common, as variational Bayes has it: variances that are learned, or a normal-Wishart.

A population says what the rows' update needs, which are expectations of its parameters, and what it adds to the bound:

    sum_i E[log p(x_i | parameters)] - KL(Q(parameters) | p(parameters))

Point estimates have no divergence; they are the maximisers of the bound: a variance is the mean of E[x^2] over the N
rows. (Kim prints N - 1, with which the bound can fall.)

Factors can be turned and stretched, u to A u and v to A^-T v, and no rating is the wiser. So users of the covariance S
and items of the covariance R are those of diagonal covariances, 1 / D for the items, in other coordinates: the two
sides' whole `Covariance` says no more than the users' `Variances`, and the bound climbs much faster, for it does not
have to wait until the factors have turned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi
from typing import Self

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.distributions.conjugate import Gamma, NormalGamma, NormalWishart
from tastespace.models.factorization.rows import Moments

# A column that the ratings have no use for shrinks towards nothing. Below this variance, in units of the ratings', it
# is nothing, and its precision stays a number that can be worked with.
MIN_VARIANCE = 1e-10
# Ratings that factors explain to the last digit have no noise. With less than this, a hundredth of their standard
# deviation, the rounding of single precision would outweigh what is not known of the rows.
MIN_NOISE = 1e-4


@dataclass(frozen=True, eq=False)
class ExpectedPrior:
    """Expectations over the parameters of a population: what the update of a row takes, and what the bound does."""

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
    """Rows around 0, every column with a variance of its own."""

    spread: DoubleArray  # D: the variances
    bias_variance: float = 1.0
    learns_factors: bool = True  # else only the bias's is

    divergence = 0.0

    @property
    def expected(self) -> ExpectedPrior:
        return self._around_zero(np.diag(1 / self.spread), -float(np.log(self.spread).sum()))

    def _around_zero(self, precision: DoubleArray, log_determinant: float) -> ExpectedPrior:
        bias_precision, bias_log_precision = 1 / self.bias_variance, -log(self.bias_variance)
        linear = np.zeros(len(precision))
        return ExpectedPrior(precision, linear, log_determinant, 0.0, bias_precision, 0.0, bias_log_precision)

    def learned(self, rows: Moments) -> Self:
        """What maximises the bound given beliefs about the rows."""
        bias_variance = max(rows.bias_squares / rows.n, MIN_VARIANCE) if rows.has_bias else self.bias_variance
        spread = self._spread_of(rows.gram / rows.n) if self.learns_factors else self.spread
        return replace(self, spread=spread, bias_variance=bias_variance)

    def _spread_of(self, mean_products: DoubleArray) -> DoubleArray:
        return np.maximum(np.diag(mean_products), MIN_VARIANCE)


class Covariance(Variances):
    """Rows around 0, of a covariance (D x D) that is learned as a whole."""

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
    """Mean and precision of the rows are believed to be normal-Wishart, those of the biases normal-gamma."""

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


VariationalPopulation = Variances | Hierarchy  # the parameters of a side, as far as they are believed


@dataclass(frozen=True)
class PointNoise:
    """One number, the best for the bound, or given."""

    mean: float
    learns: bool = True

    divergence = 0.0

    @property
    def mean_log(self) -> float:
        return log(self.mean)

    def learned(self, n: int, squares: float) -> PointNoise:
        """Given n errors whose expected squares sum to this."""
        return replace(self, mean=n / max(squares, n * MIN_NOISE)) if self.learns and n else self


@dataclass(frozen=True)
class GammaNoise:
    """A gamma distribution."""

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


VariationalNoise = PointNoise | GammaNoise  # the precision of the noise, as far as it is believed
