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
from typing import Protocol, Self

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
    log_determinant: float  # E log |Lambda|
    constant: float  # E[mu^T Lambda mu]
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


class VariationalPopulation(Protocol):
    """The parameters of a side, as far as they are believed."""

    @property
    def expected(self) -> ExpectedPrior: ...

    @property
    def divergence(self) -> float:
        """The divergence from the prior of the parameters."""

    def learned(self, rows: Moments) -> Self:
        """What maximises the bound given beliefs about the rows."""


@dataclass(frozen=True, eq=False)
class Variances:
    """Rows around 0, every column with a variance of its own."""

    variances: DoubleArray  # D
    bias_variance: float = 1.0
    learns_factors: bool = True  # else only the bias's is

    divergence = 0.0

    @property
    def expected(self) -> ExpectedPrior:
        return ExpectedPrior(
            precision=np.diag(1 / self.variances),
            linear=np.zeros(len(self.variances)),
            log_determinant=-float(np.log(self.variances).sum()),
            constant=0.0,
            bias_precision=1 / self.bias_variance,
            bias_log_precision=-log(self.bias_variance),
        )

    def learned(self, rows: Moments) -> Variances:
        variances, bias_variance = self.variances, self.bias_variance
        if self.learns_factors:
            variances = np.maximum(np.diag(rows.gram) / rows.n, MIN_VARIANCE)
        if rows.has_bias:
            bias_variance = max(rows.bias_squares / rows.n, MIN_VARIANCE)
        return replace(self, variances=variances, bias_variance=bias_variance)


@dataclass(frozen=True, eq=False)
class Covariance:
    """Rows around 0, of a covariance that is learned as a whole."""

    matrix: DoubleArray  # D x D
    bias_variance: float = 1.0

    divergence = 0.0

    @property
    def expected(self) -> ExpectedPrior:
        precision = np.linalg.inv(self.matrix)
        return ExpectedPrior(
            precision=(precision + precision.T) / 2,
            linear=np.zeros(len(self.matrix)),
            log_determinant=-float(np.linalg.slogdet(self.matrix)[1]),
            constant=0.0,
            bias_precision=1 / self.bias_variance,
            bias_log_precision=-log(self.bias_variance),
        )

    def learned(self, rows: Moments) -> Covariance:
        values, vectors = np.linalg.eigh(rows.gram / rows.n)
        matrix = (vectors * np.maximum(values, MIN_VARIANCE)) @ vectors.T
        bias_variance = max(rows.bias_squares / rows.n, MIN_VARIANCE) if rows.has_bias else self.bias_variance
        return Covariance((matrix + matrix.T) / 2, bias_variance)


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


class VariationalNoise(Protocol):
    """The precision of the noise, as far as it is believed."""

    @property
    def mean(self) -> float: ...

    @property
    def mean_log(self) -> float: ...

    @property
    def divergence(self) -> float: ...

    def learned(self, n: int, squares: float) -> Self:
        """Given n errors whose expected squares sum to this."""


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
