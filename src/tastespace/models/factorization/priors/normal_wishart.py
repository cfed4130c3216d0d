"""Populations of users and items, from which rows are drawn, with learned hyper-parameters.

    u_i ~ N(mu, Lambda^-1),   (mu, Lambda) ~ NormalWishart
    c_i ~ N(mu_c, 1/lambda_c),   (mu_c, lambda_c) ~ NormalGamma

A `FactorPrior` is all that a Gibbs sweep needs to know about one side; another one (on a sphere, with features, with
shrinking columns) can replace it without a change elsewhere. It takes the rows themselves. If each row has its own
mean, `row_means` of the population gives them: the row kernel takes one for the factors of each row, but a single one
for all biases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, DoubleArray, contiguous
from tastespace.distributions.conjugate import KnownMean, NormalGamma
from tastespace.distributions.conjugate import NormalWishart as NormalWishartDistribution
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.priors import KINDS_OF_SHRINKAGE, PRIORS, PriorSettings
from tastespace.models.factorization.rows import Factors, Moments, RowPrior
from tastespace.settings import settings_of

if TYPE_CHECKING:
    from tastespace.data.ratings import Ratings
    from tastespace.models.factorization.gibbs.generative_model import FactorModel
    from tastespace.models.factorization.priors.shrinkage import ShrinkingPrior


@dataclass(frozen=True)
class Sphere:
    """The sphere of the rows: |x| is the radius, of the factors alone, or of factors and bias."""

    radius: float
    has_joint_bias: bool = False

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"sphere": np.array([self.radius, self.has_joint_bias], np.float64)}

    @classmethod
    def found_in(cls, arrays: Mapping[str, NDArray[Any]]) -> Sphere | None:
        """The saved sphere, or None."""
        if "sphere" not in arrays:
            return None
        radius, has_joint_bias = arrays["sphere"]
        return cls(float(radius), bool(has_joint_bias))


def on_sphere(points: Factors, sphere: Sphere | None) -> Factors:
    """The nearest points of the sphere, if there is one; zero vectors get a direction."""
    if sphere is None:
        return points
    joint = sphere.has_joint_bias and points.bias is not None
    rows = np.hstack([points.factors, points.bias[:, None]]) if joint and points.bias is not None else points.factors
    rows = rows.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    rows[lengths == 0] = 1.0
    rows *= sphere.radius / np.linalg.norm(rows, axis=1, keepdims=True)
    n_factors, dtype = points.factors.shape[1], points.factors.dtype
    bias = contiguous(rows[:, -1], dtype) if joint else points.bias
    return Factors(contiguous(rows[:, :n_factors], dtype), bias)


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
        """The precision of biases; 0 if rows have no bias."""

    def prior(self, dtype: Any) -> RowPrior:
        """The prior as the row kernel takes it."""

    def draw_rows(self, n: int, dtype: Any, rng: Generator) -> Factors:
        """New rows of the population."""

    def log_density(self, rows: Factors) -> float:
        """Log density of rows."""


@dataclass(frozen=True, eq=False)
class NormalPopulation:
    """Rows and biases are normal."""

    mean: DoubleArray  # D
    precision: DoubleArray  # D x D
    bias_mean: float = 0.0
    bias_precision: float = 0.0  # 0: rows have no bias

    @property
    def row_means(self) -> DoubleArray:
        """The means of rows: D if it is the same for all, n x D if each has its own mean."""
        return self.mean

    def prior(self, dtype: Any) -> RowPrior:
        """The prior as the row kernel takes it."""
        linear = np.atleast_2d((self.precision @ self.row_means.T).T).astype(dtype)
        of_bias = self.bias_precision, self.bias_precision * self.bias_mean
        return RowPrior(self.precision.astype(dtype), linear, *of_bias)

    def draw_rows(self, n: int, dtype: Any, rng: Generator) -> Factors:
        """New rows of the population."""
        root = np.linalg.inv(np.linalg.cholesky(self.precision))  # root^T root is the covariance
        factors = self.row_means + rng.standard_normal((n, len(self.mean))) @ root
        return Factors(factors.astype(dtype), draw_biases(n, self.bias_mean, self.bias_precision, dtype, rng))

    def log_density(self, rows: Factors) -> float:
        """Log density of rows, from their moments alone."""
        of_rows, mean = rows.moments, self.mean
        n, total = of_rows.n, of_rows.total
        scatter = of_rows.gram - np.outer(total, mean) - np.outer(mean, total) + n * np.outer(mean, mean)
        log_determinant = float(np.linalg.slogdet(self.precision)[1])
        quadratic = float(np.einsum("ij,ij->", self.precision, scatter))
        density = (n * (log_determinant - len(mean) * log(2 * pi)) - quadratic) / 2
        return density + biases_log_density(of_rows, self.bias_mean, self.bias_precision)


def draw_biases(n: int, mean: float, precision: float, dtype: Any, rng: Generator) -> AnyFloats | None:
    """Normal biases, or None without a precision."""
    if not precision:
        return None
    biases: AnyFloats = (mean + rng.standard_normal(n) / precision**0.5).astype(dtype)
    return biases


def biases_log_density(rows: Moments, mean: float, precision: float) -> float:
    """The log density of normal biases, from their moments; 0 without a precision."""
    if not precision:
        return 0.0
    apart = rows.bias_squares - 2 * mean * rows.bias_total + rows.n * mean**2
    return (rows.n * log(precision / (2 * pi)) - precision * apart) / 2


BiasPrior = NormalGamma | KnownMean


def drawn_bias(bias: BiasPrior, biases: bool, rng: Generator) -> tuple[float, float]:
    """Draw mean and precision of biases; 0 if rows have none."""
    return bias.draw(rng) if biases else (0.0, 0.0)


def bias_given(bias: BiasPrior, rows: Moments, rng: Generator) -> tuple[float, float]:
    """The same, given rows."""
    return drawn_bias(bias.posterior(rows.n, rows.bias_total, rows.bias_squares), rows.has_bias, rng)


def bias_log_density(bias: BiasPrior, population: Population) -> float:
    """Log density of mean and precision of biases; 0 if rows have none."""
    mean, precision = population.bias_mean, population.bias_precision
    return bias.log_density(mean, precision) if precision else 0.0


class FactorPrior(Protocol):
    """The hyper-prior of one side."""

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> Population:
        """Hyper-parameters from the prior."""

    @property
    def columns(self) -> ShrinkingPrior | None:
        """Itself, if unused columns shrink; else None."""

    def draw(self, rows: Factors, current: Population | None, rng: Generator) -> Population:
        """Hyper-parameters given the rows and, for those drawn in turn, the current ones; None for any."""

    def log_density(self, population: Population) -> float:
        """Log density of the hyper-parameters."""


@dataclass(frozen=True)
class NormalWishart(PriorSettings):
    """Factors are normal, with any mean and covariance, both learned (Salakhutdinov and Mnih 2008)."""

    name: ClassVar[str] = "normal-wishart"

    def bind(self, model: FactorModel, observed: Ratings) -> FactorModel:
        """The model as it is."""
        return model


def prior_of(given: Any, n_factors: Any) -> PriorSettings:
    """Return a validated prior from an object, a name or a text such as `ard:max_factors=16`.

    "auto" shrinks factors if their number is learned.
    """
    if isinstance(given, str):
        name, _, parameters = given.partition(":")
        if name == "auto" and not parameters:
            given = "shrinkage" if n_factors == "auto" else "normal-wishart"
        elif name in KINDS_OF_SHRINKAGE:
            given = ",".join([f"shrinkage:kind={name}", *([parameters] if parameters else [])])
        elif name not in PRIORS:
            names = ("auto", *(name for name in PRIORS if name != "shrinkage"), *KINDS_OF_SHRINKAGE)
            raise InvalidParameterError(f"prior is {given!r}; expected one of {', '.join(map(repr, names))}")
    found: PriorSettings = settings_of(given, PRIORS, "prior", PriorSettings)
    if n_factors == "auto" and not found.shrinks:
        raise InvalidParameterError(
            f"n_factors is 'auto', and prior is '{found}', which shrinks no factors; expected prior='auto', "
            "'cumulative' or 'ard', or a number of factors"
        )
    return found


@dataclass(frozen=True)
class NormalWishartPrior:
    """Salakhutdinov and Mnih (2008), with biases beside the factors; in units of the ratings' standard deviation."""

    strength: float = 2.0  # weight of the mean 0, in rows
    degrees: float | None = None  # of the Wishart; None for the number of factors, the minimum for a proper prior
    scale: float = 1.0  # of the Wishart: times the identity
    bias: BiasPrior = NormalGamma(centre=0.0, strength=2.0, shape=1.0, rate=0.25)

    columns: ClassVar[None] = None

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> Population:
        return NormalPopulation(*self.factors(n_factors).draw(rng), *(self.bias.draw(rng) if biases else ()))

    def draw(self, rows: Factors, current: Population | None, rng: Generator) -> Population:
        of_rows = rows.moments
        factors = self.factors(len(of_rows.total)).posterior(of_rows.n, of_rows.total, of_rows.gram)
        bias = self.bias.posterior(of_rows.n, of_rows.bias_total, of_rows.bias_squares)
        return NormalPopulation(*factors.draw(rng), *(bias.draw(rng) if of_rows.has_bias else ()))

    def log_density(self, population: Population) -> float:
        density = self.factors(len(population.mean)).log_density(population.mean, population.precision)
        if population.bias_precision:
            density += self.bias.log_density(population.bias_mean, population.bias_precision)
        return density

    def factors(self, n_factors: int) -> NormalWishartDistribution:
        """The prior of the mean and the precision of the factors."""
        degrees = float(n_factors) if self.degrees is None else self.degrees
        return NormalWishartDistribution(np.zeros(n_factors), self.strength, np.eye(n_factors) / self.scale, degrees)
